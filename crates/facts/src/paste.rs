//! Writes variables, or an allocator's settings, as lines that a user pastes into a shell, a Dockerfile, a Kubernetes manifest, a systemd
//! unit, or Rust code.

use allocanary_text::paste::quoted;

/// The line for a shell, or for a file of variables: `MALLOC_ARENA_MAX=2`.
pub fn shell(name: &str, value: &str) -> String {
    format!("{name}={}", quoted(value))
}

/// The line for a Dockerfile: `ENV MALLOC_ARENA_MAX=2`.
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

/// The line for the section `[Service]` of a systemd unit: `Environment="MALLOC_ARENA_MAX=2"`. Each `%` is doubled, because systemd
/// replaces a single one.
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

fn yaml(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_they_are_read() {
        assert_eq!(shell("A", "a b"), "A='a b'");
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
