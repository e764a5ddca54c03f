//! The lines that configure a program for a candidate: for a Dockerfile, for Kubernetes, for Rust. In: a candidate.
//! Out: lines to paste, in the form that its allocator reads.

use allocanary_facts::our;
use allocanary_facts::paste;
use allocanary_rows::Candidate;

/// How a program gets a candidate's allocator and settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeployLines {
    /// The allocator: `jemalloc`.
    pub allocator: String,
    /// Whether every program contains the allocator.
    pub is_everywhere: bool,
    /// The variables to set: name and value.
    pub variables: Vec<(String, String)>,
    /// Another variable for the same value as the only one in `variables`. Builds of other distributors read it.
    pub also: Option<&'static str>,
    /// The `install!` of a Rust program; `None` if `install!` cannot set one of the settings.
    pub install: Option<String>,
}

impl DeployLines {
    /// The lines for a candidate. `None` if the allocator is not one of ours.
    pub fn of(candidate: &Candidate) -> Option<DeployLines> {
        let Candidate { spec, inherited } = candidate;
        let (one, ours) = our(&spec.name)?;
        let mut variables = inherited.clone();
        ours.environment.add_to(&mut variables, &spec.settings);
        let in_code = inherited.is_empty() && !spec.settings.keys().any(|setting| ours.only_environment(setting));
        let settings: Vec<String> = spec.settings.iter().map(|(name, value)| paste::assigned(name, value)).collect();
        Some(DeployLines {
            allocator: spec.name.clone(),
            is_everywhere: ours.is_everywhere(),
            variables: variables.into_iter().collect(),
            also: ours.also.filter(|_| inherited.is_empty() && !spec.settings.is_empty()),
            install: in_code.then(|| paste::install(one.name, &settings)),
        })
    }

    /// Whether the candidate is its allocator without settings.
    pub fn is_plain(&self) -> bool {
        self.variables.is_empty()
    }

    /// The lines for a shell, or for a file of variables.
    pub fn shell(&self) -> Vec<String> {
        self.variables.iter().map(|(name, value)| paste::shell(name, value)).collect()
    }

    /// The lines for a Dockerfile.
    pub fn dockerfile(&self) -> Vec<String> {
        self.variables.iter().map(|(name, value)| paste::dockerfile(name, value)).collect()
    }

    /// The items below the `env:` of a Kubernetes container, one line each.
    pub fn kubernetes(&self) -> Vec<String> {
        self.variables.iter().map(|(name, value)| paste::kubernetes_line(name, value)).collect()
    }

    /// All lines, each with its label, for a report: `Dockerfile`, `Kubernetes`, `Rust`. Each label occurs once.
    pub fn labelled(&self) -> Vec<(&'static str, String)> {
        let mut all: Vec<(&str, String)> = Vec::new();
        let mut add = |label, lines: Vec<String>| {
            all.extend(lines.into_iter().enumerate().map(|(at, line)| (if at == 0 { label } else { "" }, line)));
        };
        add("Dockerfile", self.dockerfile());
        add("Kubernetes", self.kubernetes());
        add("Rust", self.install.iter().flat_map(|install| install.lines()).map(str::to_string).collect());
        all
    }

    /// What a reader must know about the variable, if anything.
    pub fn note(&self) -> Option<String> {
        let (name, _) = self.variables.first()?;
        let also = self.also?;
        Some(format!("{name} is for {} in Rust programs; builds of other packagers read {also}.", self.allocator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn lines(candidate: &str) -> DeployLines {
        DeployLines::of(&Candidate::read(candidate, &BTreeMap::new())).unwrap()
    }

    #[test]
    fn each_allocator_gets_the_lines_that_it_reads() {
        let jemalloc = lines("jemalloc:tcache=false,narenas=1");
        assert_eq!(jemalloc.shell(), ["_RJEM_MALLOC_CONF=narenas:1,tcache:false"]);
        let labelled = [
            ("Dockerfile", "ENV _RJEM_MALLOC_CONF=narenas:1,tcache:false"),
            ("Kubernetes", "- {name: _RJEM_MALLOC_CONF, value: \"narenas:1,tcache:false\"}"),
            ("Rust", "allocanary::install!(jemalloc, narenas = 1, tcache = false);"),
        ];
        assert_eq!(jemalloc.labelled(), labelled.map(|(label, line)| (label, line.to_string())));
        assert!(jemalloc.note().unwrap().ends_with("builds of other packagers read MALLOC_CONF."));

        let system = lines("system:arena_max=1");
        assert_eq!(system.shell(), ["GLIBC_TUNABLES=glibc.malloc.arena_max=1"]);
        assert_eq!(
            (system.install.as_deref(), system.note()),
            (Some("allocanary::install!(system, arena_max = 1);"), None)
        );

        let mimalloc = lines("mimalloc:purge_delay=0,allow_thp=0");
        assert_eq!(mimalloc.dockerfile(), ["ENV MIMALLOC_ALLOW_THP=0", "ENV MIMALLOC_PURGE_DELAY=0"]);
        let labels: Vec<&str> = mimalloc.labelled().into_iter().map(|(label, _)| label).collect();
        assert_eq!(labels, ["Dockerfile", "", "Kubernetes", "", "Rust"]);
    }

    #[test]
    fn a_setting_that_code_cannot_set_has_no_line_of_rust() {
        let system = lines("system:tcache_count=0,arena_max=1");
        assert_eq!(system.shell(), ["GLIBC_TUNABLES=glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"]);
        assert_eq!(system.install, None);
    }

    #[test]
    fn variables_that_were_passed_on_are_passed_on() {
        let inherited = BTreeMap::from([("MALLOC_CONF".to_string(), "narenas:1,tcache:false".to_string())]);
        let passed = Candidate::read("jemalloc MALLOC_CONF=narenas:1,tcache:false", &inherited);
        let passed = DeployLines::of(&passed).unwrap();
        assert_eq!(passed.shell(), ["MALLOC_CONF=narenas:1,tcache:false"]);
        assert_eq!((passed.install, passed.also), (None, None));
        let plain = lines("jemalloc");
        assert!(plain.is_plain() && plain.note().is_none());
        assert_eq!(plain.labelled(), [("Rust", "allocanary::install!(jemalloc);".to_string())]);
    }

    #[test]
    fn an_allocator_that_is_not_ours_has_no_lines() {
        let of = |text: &str| DeployLines::of(&Candidate::read(text, &BTreeMap::new()));
        assert_eq!((of("rpmalloc:a=1"), of("a b"), of("")), (None, None, None));
    }
}
