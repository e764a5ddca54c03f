//! The lines that configure a program as a candidate says: for a Dockerfile, for Kubernetes, for Rust. In: a candidate
//! in the study's notation, and how its allocator reads settings. Out: lines to paste.

use std::collections::BTreeMap;

use allocanary_allocators::allocators::{Known, known};
use allocanary_allocators::environment::Environment;
use allocanary_allocators::paste;
use allocanary_cell::spec::Spec;

/// How to get a candidate's allocator and settings in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The allocator: `jemalloc`.
    pub allocator: String,
    /// The variables to set: name and value.
    pub variables: Vec<(String, String)>,
    /// Another variable that takes the value of the only one in `variables`, in builds of other packagers.
    pub also: Option<&'static str>,
    /// The `install!` of a Rust program; `None` if `install!` cannot set one of the settings.
    pub install: Option<String>,
}

impl Lines {
    /// The lines for a candidate as the reports name it: `jemalloc:narenas=1`, or `jemalloc MALLOC_CONF=narenas:1` if a
    /// variable of the user's environment was passed on. `None` if the allocator is not one of ours.
    pub fn of(candidate: &str) -> Option<Lines> {
        let (spec, inherited) = parse(candidate)?;
        let known = known(&spec.name)?;
        Some(Lines::with(&spec, &inherited, &known.environment, Some(known)))
    }

    /// The lines for a candidate whose allocator described itself.
    pub fn described(candidate: &str, environment: &Environment) -> Option<Lines> {
        let (spec, inherited) = parse(candidate)?;
        Some(Lines::with(&spec, &inherited, environment, known(&spec.name)))
    }

    fn with(
        spec: &Spec,
        inherited: &BTreeMap<String, String>,
        environment: &Environment,
        known: Option<&Known>,
    ) -> Lines {
        let mut variables = inherited.clone();
        environment.add_to(&mut variables, &spec.settings);
        let in_code = |known: &Known| {
            inherited.is_empty() && !spec.settings.keys().any(|setting| (known.only_environment)(setting))
        };
        let settings: Vec<String> = spec.settings.iter().map(|(name, value)| paste::assigned(name, value)).collect();
        Lines {
            allocator: spec.name.clone(),
            variables: variables.into_iter().collect(),
            also: known.and_then(|known| known.also).filter(|_| inherited.is_empty() && !spec.settings.is_empty()),
            install: known.filter(|known| in_code(known)).map(|known| paste::install(known.name, &settings)),
        }
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

    /// All lines, each with its label, for a report: `Dockerfile`, `Kubernetes`, `Rust`. A label stands once.
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

/// A candidate's notation, and the variables after it.
fn parse(candidate: &str) -> Option<(Spec, BTreeMap<String, String>)> {
    let (spec, rest) = candidate.split_once(' ').unwrap_or((candidate, ""));
    let mut inherited: Vec<(String, String)> = Vec::new();
    for word in rest.split(' ').filter(|word| !word.is_empty()) {
        match (word.split_once('='), inherited.last_mut()) {
            (Some((name, value)), _) if is_name(name) => inherited.push((name.into(), value.into())),
            // A value with a space.
            (_, Some((_, value))) => value.push_str(&format!(" {word}")),
            // The version, where one candidate has two.
            (_, None) => {}
        }
    }
    Some((Spec::parse(spec).ok()?, inherited.into_iter().collect()))
}

/// Whether a text can be the name of an environment variable.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(candidate: &str) -> Lines {
        Lines::of(candidate).unwrap()
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
    fn variables_that_were_passed_on_and_versions_are_told_apart() {
        let passed = lines("jemalloc MALLOC_CONF=narenas:1,tcache:false");
        assert_eq!(passed.shell(), ["MALLOC_CONF=narenas:1,tcache:false"]);
        assert_eq!((passed.install, passed.also), (None, None));
        let plain = lines("jemalloc (5.3.1)");
        assert!(plain.is_plain() && plain.note().is_none());
        assert_eq!(plain.labelled(), [("Rust", "allocanary::install!(jemalloc);".to_string())]);
        assert_eq!(lines("system:arena_max=2 (glibc 2.36)").shell(), ["GLIBC_TUNABLES=glibc.malloc.arena_max=2"]);
    }

    #[test]
    fn an_allocator_that_is_not_ours_needs_its_description() {
        assert_eq!((Lines::of("rpmalloc:a=1"), Lines::of("a b")), (None, None));
        let environment = Environment::Each { prefix: "RP_".into() };
        let described = Lines::described("rpmalloc:a=1", &environment).unwrap();
        assert_eq!((described.shell(), described.install), (vec!["RP_A=1".to_string()], None));
    }
}
