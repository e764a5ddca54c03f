//! The lines to paste for a candidate of the user's program. In: the candidate, and the variables that its rows had. Out: texts for a
//! shell, a Dockerfile, Kubernetes, systemd and Rust.

use std::collections::BTreeMap;

use crate::report::lines::DeployLines;
use crate::report::wrapper::Wrapper;
use allocanary_facts::paste;
use allocanary_rows::{Candidate, Spec};

/// The folder of an image in which the lines expect one of our libraries.
pub const FOLDER: &str = "/usr/local/lib";

/// The lines for a candidate with these variables, for a shell, a Dockerfile, Kubernetes, systemd and Rust. The line for a shell on this
/// machine has the path at which one of our libraries was measured. All others have its path in [`FOLDER`], and the first line says how to
/// put it there.
pub fn lines(candidate: &Spec, environment: &BTreeMap<String, String>) -> Vec<String> {
    let library = environment.get("LD_PRELOAD").map(|all| all.split(':').next().unwrap_or_default());
    let ours = library
        .and_then(|path| path.rsplit_once('/'))
        .map(|(_, file)| file)
        .filter(|file| file.starts_with("preload-"));
    let inside = ours.map(|file| format!("{FOLDER}/{file}"));
    let moved: BTreeMap<&str, String> = environment
        .iter()
        .map(|(name, value)| match (library, &inside) {
            (Some(library), Some(inside)) if name == "LD_PRELOAD" => {
                (name.as_str(), value.replacen(library, inside, 1))
            }
            _ => (name.as_str(), value.clone()),
        })
        .collect();
    let each = |text: fn(&str, &str) -> String| moved.iter().map(move |(name, value)| text(name, value));
    let mut out = Vec::new();
    match (library, &inside) {
        (Some(library), Some(_)) => out.push(format!("library     copy {library} to {FOLDER}/ there")),
        (Some(library), None) => out.push(format!("library     {library}, to be installed under that path")),
        _ => {}
    }
    let wrapper = Wrapper::of(candidate);
    let here = environment.iter().map(|(name, value)| paste::shell(name, value));
    let here: Vec<String> = here.chain(wrapper.iter().map(|wrapper| format!("{} PROGRAM", wrapper.shell()))).collect();
    out.push(format!("shell here  {}", here.join(" ")));
    out.extend(ours.map(|file| format!("Dockerfile  COPY {file} {FOLDER}/")));
    out.extend(each(paste::dockerfile).map(|line| format!("Dockerfile  {line}")));
    out.extend(each(paste::kubernetes_line).map(|line| format!("Kubernetes  {line}")));
    out.extend(each(paste::systemd).map(|line| format!("systemd     {line}")));
    if let Some(wrapper) = wrapper {
        // A Rust program needs no wrapper: it makes the system call itself.
        out.push(format!("Dockerfile  {}", wrapper.dockerfile("PROGRAM")));
        out.push(format!("Kubernetes  {}", wrapper.kubernetes("PROGRAM")));
        out.push(format!("systemd     {}", wrapper.systemd("PROGRAM")));
        out.push(format!("systemd     {} (from version 260 on, in place of perl)", wrapper.directive()));
        return out;
    }
    // A program with `install!` calls `thread_idle` itself. Only preloads have it as a setting.
    let mut settable = Candidate::from(candidate.clone());
    settable.spec.settings.remove(allocanary_facts::THREAD_IDLE);
    if let Some(install) = DeployLines::of(&settable).and_then(|lines| lines.install) {
        out.push(format!("Rust        {install}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_gets_every_variable() {
        let environment = BTreeMap::from([
            ("LD_PRELOAD".to_string(), "/opt/preload-jemalloc".to_string()),
            ("_RJEM_MALLOC_CONF".to_string(), "narenas:1,tcache:false".to_string()),
        ]);
        let lines = lines(&Spec::parse("jemalloc:narenas=1,tcache=false").unwrap(), &environment);
        assert_eq!(
            lines,
            [
                "library     copy /opt/preload-jemalloc to /usr/local/lib/ there",
                "shell here  LD_PRELOAD=/opt/preload-jemalloc _RJEM_MALLOC_CONF=narenas:1,tcache:false",
                "Dockerfile  COPY preload-jemalloc /usr/local/lib/",
                "Dockerfile  ENV LD_PRELOAD=/usr/local/lib/preload-jemalloc",
                "Dockerfile  ENV _RJEM_MALLOC_CONF=narenas:1,tcache:false",
                "Kubernetes  - {name: LD_PRELOAD, value: \"/usr/local/lib/preload-jemalloc\"}",
                "Kubernetes  - {name: _RJEM_MALLOC_CONF, value: \"narenas:1,tcache:false\"}",
                "systemd     Environment=\"LD_PRELOAD=/usr/local/lib/preload-jemalloc\"",
                "systemd     Environment=\"_RJEM_MALLOC_CONF=narenas:1,tcache:false\"",
                "Rust        allocanary::install!(jemalloc, narenas = 1, tcache = false);",
            ]
        );
    }

    /// No variable limits huge pages.
    #[test]
    fn limited_huge_pages_need_a_wrapper_and_the_other_variables_stay() {
        let environment = BTreeMap::from([("GLIBC_TUNABLES".to_string(), "glibc.malloc.arena_max=1".to_string())]);
        let candidate = Spec::parse("own:arena_max=1,process_thp=never").unwrap();
        let found = lines(&candidate, &environment);
        assert!(
            found[0].starts_with("shell here  GLIBC_TUNABLES=glibc.malloc.arena_max=1 perl -e 'syscall("),
            "{found:?}"
        );
        assert!(found[0].ends_with("exec @ARGV or die' PROGRAM"), "{found:?}");
        for (place, count) in [("Dockerfile", 2), ("Kubernetes", 2), ("systemd", 3), ("Rust", 0)] {
            assert_eq!(found.iter().filter(|line| line.starts_with(place)).count(), count, "{place}: {found:?}");
        }
        let alone = lines(&Spec::parse("own:process_thp=never").unwrap(), &BTreeMap::new());
        assert!(alone[0].starts_with("shell here  perl -e ") && alone.len() == 5, "{alone:?}");
    }

    /// The user's own library stays where the user has put it.
    #[test]
    fn another_library_keeps_its_path() {
        let environment = BTreeMap::from([("LD_PRELOAD".to_string(), "/usr/lib/libtcmalloc.so.4".to_string())]);
        let lines = lines(&Spec::parse("preload=/usr/lib/libtcmalloc.so.4").unwrap(), &environment);
        let wanted = [
            "library     /usr/lib/libtcmalloc.so.4, to be installed under that path",
            "shell here  LD_PRELOAD=/usr/lib/libtcmalloc.so.4",
            "Dockerfile  ENV LD_PRELOAD=/usr/lib/libtcmalloc.so.4",
        ];
        assert_eq!(lines[..3], wanted);
    }
}
