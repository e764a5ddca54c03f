//! Settings as lines that a user pastes. In: variables, or an allocator's settings. Out: the lines of a shell, a
//! Dockerfile, a Kubernetes manifest, a unit of systemd, and Rust.

/// The line of a shell, or of a file of variables: `MALLOC_ARENA_MAX=2`.
pub fn shell(name: &str, value: &str) -> String {
    format!("{name}={}", quoted(value))
}

/// The line of a Dockerfile: `ENV MALLOC_ARENA_MAX=2`.
pub fn dockerfile(name: &str, value: &str) -> String {
    format!("ENV {}", shell(name, value))
}

/// The two lines below the `env:` of a Kubernetes container.
pub fn kubernetes(name: &str, value: &str) -> [String; 2] {
    [format!("- name: {name}"), format!("  value: {}", yaml(value))]
}

/// The two lines of [`kubernetes`] as one: `- {name: MALLOC_ARENA_MAX, value: "2"}`.
pub fn kubernetes_line(name: &str, value: &str) -> String {
    format!("- {{name: {name}, value: {}}}", yaml(value))
}

/// The line below `[Service]` of a systemd unit: `Environment="MALLOC_ARENA_MAX=2"`. A bare `%` would be a specifier.
pub fn systemd(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("Environment=\"{name}={value}\"")
}

/// The `install!` of an allocator, on several lines if one is too wide for a terminal. `settings` are in the notation
/// of the macro: `narenas = 2`.
pub fn install(allocator: &str, settings: &[String]) -> String {
    let parts = || std::iter::once(allocator).chain(settings.iter().map(String::as_str)).collect::<Vec<_>>().join(", ");
    let line = format!("allocanary::install!({});", parts());
    if line.len() <= 76 { line } else { format!("allocanary::install!(\n    {}\n);", parts()) }
}

/// A setting in the notation of `install!`.
pub fn assigned(name: &str, value: &str) -> String {
    let bare = matches!(value, "true" | "false") || value.parse::<i64>().is_ok();
    if bare { format!("{name} = {value}") } else { format!("{name} = {value:?}") }
}

/// A word as a shell reads it back. It is quoted if it contains characters other than those of settings and paths.
///
/// The crate shell-words quotes each `=` and `%` too: `--threads=1` and `arena_max=2` would be hard to read. A job is also
/// found again by its command line, and old rows contain this quoting.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+=.,:/@%{}".contains(c);
    // A shell expands `{a,b}` to two words.
    let list = |inside: &str| inside.contains(',') || inside.contains("..");
    let is_list = word.split('{').skip(1).any(|rest| list(rest.split('}').next().unwrap_or_default()));
    match !word.is_empty() && !is_list && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn yaml(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_a_shell_would_read_them() {
        assert_eq!(quoted("narenas:1,tcache:false"), "narenas:1,tcache:false");
        assert_eq!(quoted("tcache_ncached_max:8-64:1|128-256:7"), "'tcache_ncached_max:8-64:1|128-256:7'");
        for plain in ["--threads=1", "jemalloc:narenas=1,tcache=false", "{port},{dir}", "50%"] {
            assert_eq!(quoted(plain), plain);
        }
        for (word, typed) in
            [("a b", "'a b'"), ("it's", "'it'\\''s'"), ("", "''"), ("{a,b}", "'{a,b}'"), ("a\n", "'a\n'")]
        {
            assert_eq!(quoted(word), typed);
        }
        assert_eq!(kubernetes_line("A", "\"\\"), "- {name: A, value: \"\\\"\\\\\"}");
    }

    #[test]
    fn a_unit_of_systemd_has_no_specifiers() {
        assert_eq!(systemd("A", "50%\"x"), "Environment=\"A=50%%\\\"x\"");
    }

    #[test]
    fn words_are_quoted_in_rust_and_numbers_are_not() {
        let all = [("narenas", "2"), ("dirty_decay_ms", "-1"), ("tcache", "false"), ("percpu_arena", "auto")];
        let settings: Vec<String> = all.iter().map(|(name, value)| assigned(name, value)).collect();
        let wanted = "allocanary::install!(\n    jemalloc, narenas = 2, dirty_decay_ms = -1, tcache = false, percpu_arena = \"auto\"\n);";
        assert_eq!(install("jemalloc", &settings), wanted);
        assert_eq!(install("jemalloc", &settings[..1]), "allocanary::install!(jemalloc, narenas = 2);");
        assert_eq!(install("system", &[]), "allocanary::install!(system);");
    }
}
