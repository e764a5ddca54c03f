//! The lines to paste for a candidate of the user's program. In: the candidate, and the variables that its rows had. Out: texts for a
//! shell, a Dockerfile, Kubernetes, systemd and Rust.

use std::collections::BTreeMap;

use crate::lines::Lines;
use allocanary_allocators::paste;
use allocanary_cell::candidate::Candidate;
use allocanary_cell::spec::Spec;

/// The lines for a candidate with these variables, for a shell, a Dockerfile, Kubernetes, systemd and Rust.
pub fn lines(candidate: &Spec, environment: &BTreeMap<String, String>) -> Vec<String> {
    let each = |text: fn(&str, &str) -> String| environment.iter().map(move |(name, value)| text(name, value));
    let mut out = Vec::new();
    if let Some(library) = environment.get("LD_PRELOAD") {
        let library = library.split(':').next().unwrap_or_default();
        out.push(format!("library     {library}, to be copied into the image or installed under that path"));
    }
    out.push(format!("shell       {}", each(paste::shell).collect::<Vec<_>>().join(" ")));
    out.extend(each(paste::dockerfile).map(|line| format!("Dockerfile  {line}")));
    out.extend(each(paste::kubernetes_line).map(|line| format!("Kubernetes  {line}")));
    out.extend(each(paste::systemd).map(|line| format!("systemd     {line}")));
    // A program that `install!` serves calls `thread_idle` itself: it is a setting of the preloads only.
    let mut settable = Candidate::from(candidate.clone());
    settable.spec.settings.remove("thread_idle");
    if let Some(install) = Lines::of(&settable).and_then(|lines| lines.install) {
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
                "library     /opt/preload-jemalloc, to be copied into the image or installed under that path",
                "shell       LD_PRELOAD=/opt/preload-jemalloc _RJEM_MALLOC_CONF=narenas:1,tcache:false",
                "Dockerfile  ENV LD_PRELOAD=/opt/preload-jemalloc",
                "Dockerfile  ENV _RJEM_MALLOC_CONF=narenas:1,tcache:false",
                "Kubernetes  - {name: LD_PRELOAD, value: \"/opt/preload-jemalloc\"}",
                "Kubernetes  - {name: _RJEM_MALLOC_CONF, value: \"narenas:1,tcache:false\"}",
                "systemd     Environment=\"LD_PRELOAD=/opt/preload-jemalloc\"",
                "systemd     Environment=\"_RJEM_MALLOC_CONF=narenas:1,tcache:false\"",
                "Rust        allocanary::install!(jemalloc, narenas = 1, tcache = false);",
            ]
        );
    }
}
