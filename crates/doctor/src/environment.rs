//! Finds which variables of an environment will be read, and their problems. Makes a remark for each variable.

use super::seen::Libraries;
use super::variables::{VariableEffect, VariableSetting, Variables, perhaps};
use crate::allocators::{ALL, part};
use crate::flavour::Flavour;

/// A remark about a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// Whether it has an effect.
    pub verdict: VariableEffect,
    /// Which programs read it, or why none does.
    pub text: String,
    /// The settings in it that are refused or overruled.
    pub problems: Vec<String>,
}

/// Every setting in the environment, in the order in which they are read. `libraries` are the facts about the allocators that will read
/// them.
pub fn assignments(variables: &Variables, libraries: &Libraries) -> Vec<VariableSetting> {
    ALL.iter().flat_map(|part| (part.variables.assignments)(variables, libraries)).collect()
}

/// Examines every variable that an allocator reads, or that was meant for one. `subject` are a program's allocators, its own first;
/// `None` means any program that is started from here. `libraries` are the facts that its libraries show.
pub fn examine(variables: &Variables, subject: Option<&[Flavour]>, libraries: &Libraries) -> Vec<Remark> {
    let all = assignments(variables, libraries);
    let remark = |(variable, value): (&String, &String)| {
        let (verdict, text) = reader(variable, value, subject)?;
        let mut problems: Vec<String> = Vec::new();
        if verdict != VariableEffect::Ignored {
            let own = all.iter().filter(|one| one.variable == *variable);
            problems.extend(own.filter_map(|one| one.problem.clone()));
            // A setting can only overrule a setting of the same allocator, and a program may have two allocators.
            let each: Vec<Option<&[Flavour]>> = match subject {
                Some(flavours) => flavours.chunks(1).map(Some).collect(),
                None => vec![None],
            };
            for one in each {
                let read =
                    |name: &str| reader(name, "", one).is_some_and(|(verdict, _)| verdict != VariableEffect::Ignored);
                let found = overruled(&all, variable, &read, one.is_none()).into_iter();
                let further = ALL.iter().filter_map(|part| (part.variables.problem)(&all, variable, &read));
                for problem in found.chain(further) {
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
        Some(Remark { variable: variable.clone(), value: value.clone(), verdict, text, problems })
    };
    variables.iter().filter_map(remark).collect()
}

/// The settings of `variable` that a later setting with another value overrules.
fn overruled(all: &[VariableSetting], variable: &str, read: &dyn Fn(&str) -> bool, any_program: bool) -> Vec<String> {
    let good: Vec<&VariableSetting> = all.iter().filter(|one| one.becomes.is_some() && read(&one.variable)).collect();
    let mut found = Vec::new();
    for (at, one) in good.iter().enumerate().filter(|(_, one)| one.variable == variable) {
        let same = |other: &&&VariableSetting| other.allocator == one.allocator && other.key == one.key;
        let Some(last) = good[at + 1..].iter().rfind(same).filter(|last| last.value != one.value) else { continue };
        let VariableSetting { key, value, .. } = one;
        found.push(if last.variable == one.variable {
            format!("{key} stands more than once: the last, {}, counts", last.value)
        } else {
            let place = part(one.allocator).filter(|_| any_program).map_or("", |part| part.variables.overruled_in);
            format!("{place}{key} {value} is overruled by {}, which says {}", last.variable, last.value)
        });
    }
    found
}

/// The variable with a preload's settings. The process's memory shows which of them are in force: see
/// [`notice`](super::notice).
pub const PRELOAD: &str = "ALLOCANARY_PRELOAD";

/// Which programs read a variable; `None` if it is not for an allocator.
fn reader(variable: &str, value: &str, subject: Option<&[Flavour]>) -> Option<(VariableEffect, String)> {
    if let Some(found) = ALL.iter().find_map(|part| (part.variables.reader)(variable, value, subject)) {
        return Some(found);
    }
    if ["GOGC", "GOMEMLIMIT"].contains(&variable) {
        let go = subject.is_some_and(|flavours| flavours.contains(&Flavour::Go));
        return go.then(|| (VariableEffect::Read, "by Go's runtime; its words are not checked here".into()));
    }
    if variable == PRELOAD {
        return Some((
            VariableEffect::Depends,
            "read by a preload of allocanary, if the loader took one: see above".into(),
        ));
    }
    if variable == "LD_PRELOAD" {
        return preload(value, subject);
    }
    // A variable with tunables of other parts of glibc is not a mistake.
    let names = || ALL.iter().flat_map(|part| (part.variables.names)());
    let upper = variable.to_ascii_uppercase();
    let mut suspects = ALL.iter().flat_map(|part| part.variables.suspects);
    let is_meant = !names().any(|name| name == variable) && suspects.any(|start| upper.starts_with(start));
    is_meant.then(|| {
        (VariableEffect::Ignored, format!("no allocator that we know of reads it{}", perhaps(&upper, names())))
    })
}

fn preload(value: &str, subject: Option<&[Flavour]>) -> Option<(VariableEffect, String)> {
    let is_one = |path: &&str| ALL.iter().filter_map(|part| part.marks.library).any(|(word, _)| path.contains(word));
    let library = value.split([':', ' ']).find(is_one)?;
    if subject.is_some() {
        let text = "what malloc is bound to stands at the top: a preloaded one, unless the program exports its own";
        return Some((VariableEffect::Read, text.into()));
    }
    if library.contains('/') && !library.contains('$') && !std::path::Path::new(library).exists() {
        return Some((
            VariableEffect::Ignored,
            format!("{library} does not exist: the loader says so and goes on without it"),
        ));
    }
    let text = "becomes C's malloc of every program that is linked dynamically, and Rust's where it has no allocator of \
                its own; a preloaded jemalloc reads MALLOC_CONF";
    Some((VariableEffect::Depends, text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocators::jemalloc::builds::VARIABLES as JEMALLOC_VARIABLES;
    use crate::allocators::jemalloc::links::{A_FILE, LINKS};

    fn remarks(variables: &[(&str, &str)], subject: Option<&[Flavour]>) -> Vec<Remark> {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        examine(&variables, subject, &Libraries::default())
    }

    fn verdict(variable: &str, subject: Option<&[Flavour]>) -> VariableEffect {
        remarks(&[(variable, "narenas:1")], subject)[0].verdict
    }

    const RUST: Flavour = Flavour::RustJemalloc { installs: false };
    const INSTALLED: Flavour = Flavour::RustJemalloc { installs: true };

    #[test]
    fn each_jemalloc_reads_its_own_variable() {
        use VariableEffect::{Depends, Ignored, Read};
        let of = |subject: Option<&[Flavour]>| JEMALLOC_VARIABLES.map(|variable| verdict(variable, subject));
        assert_eq!(of(None), [Depends, Depends, Read]);
        assert_eq!(of(Some(&[RUST, Flavour::Glibc])), [Ignored, Ignored, Read]);
        assert_eq!(of(Some(&[INSTALLED, Flavour::Glibc])), [Read, Read, Read]);
        assert_eq!(of(Some(&[Flavour::PlainJemalloc])), [Ignored, Read, Ignored]);
        assert_eq!(of(Some(&[Flavour::PrefixedJemalloc])), [Read, Ignored, Ignored]);
        assert_eq!(of(Some(&[Flavour::Glibc])), [Ignored, Ignored, Ignored]);
    }

    #[test]
    fn two_jemallocs_of_one_program_read_a_variable_each() {
        let both = [RUST, Flavour::PlainJemalloc];
        let of = |subject: &[Flavour]| JEMALLOC_VARIABLES.map(|variable| verdict(variable, Some(subject)));
        assert_eq!(of(&both), [VariableEffect::Ignored, VariableEffect::Depends, VariableEffect::Read]);
        assert_eq!(LINKS.map(|(link, _)| verdict(link, Some(&both))), of(&both));
        let set = [("MALLOC_CONF", "narenas:1"), ("_RJEM_MALLOC_CONF", "narenas:2")];
        let found = remarks(&set, Some(&both));
        assert!(found[0].text.starts_with("read by the jemalloc of its C code alone"), "{found:?}");
        assert_eq!(found[0].problems, [""; 0], "they are settings of two allocators");
        assert_eq!(remarks(&[("MALLOC_CONF", "narena:1")], Some(&both))[0].problems.len(), 1);
        assert_eq!(of(&[INSTALLED, Flavour::PlainJemalloc]), [VariableEffect::Read; 3]);
        // Our preload reads all three, and the program's own jemalloc reads one of them.
        let preloaded = [RUST, INSTALLED];
        let read_by_main =
            JEMALLOC_VARIABLES.map(|variable| verdict(variable, Some(&preloaded)) == VariableEffect::Read);
        assert_eq!(read_by_main, JEMALLOC_VARIABLES.map(|variable| variable == "_RJEM_MALLOC_CONF"));
        assert_eq!(of(&[Flavour::Named("mimalloc"), Flavour::PlainJemalloc])[1], VariableEffect::Depends);
    }

    #[test]
    fn a_contradiction_names_the_winner() {
        let set = [
            ("JE_MALLOC_CONF", "narenas:5"),
            ("MALLOC_CONF", "narenas:6,narenas:7"),
            ("_RJEM_MALLOC_CONF", "tcache:true"),
        ];
        let found = remarks(&set, Some(&[INSTALLED]));
        assert_eq!(found[0].problems, ["narenas 5 is overruled by MALLOC_CONF, which says 7"]);
        assert_eq!(found[1].problems, ["narenas stands more than once: the last, 7, counts"]);
        assert_eq!(found[2].problems, [""; 0]);
        assert!(remarks(&set, None)[0].problems[0].starts_with("in a program with install!, narenas 5 is overruled"));
        assert_eq!(remarks(&set, Some(&[RUST]))[0].problems, [""; 0], "what is ignored contradicts nothing");
    }

    #[test]
    fn a_link_counts_for_its_build_and_stands_between_code_and_variable() {
        use VariableEffect::{Depends, Ignored, Read};
        let of = |subject: Option<&[Flavour]>| LINKS.map(|(link, _)| verdict(link, subject));
        assert_eq!(of(None), [Depends, Depends, Read]);
        assert_eq!(of(Some(&[RUST, Flavour::Glibc])), [Ignored, Ignored, Read]);
        assert_eq!(of(Some(&[INSTALLED, Flavour::Glibc])), [Ignored, Ignored, Read]);
        assert_eq!(of(Some(&[Flavour::PlainJemalloc])), [Ignored, Read, Ignored]);
        assert_eq!(of(Some(&[Flavour::PrefixedJemalloc])), [Read, Ignored, Ignored]);
        assert_eq!(of(Some(&[Flavour::Glibc])), [Ignored, Ignored, Ignored]);
        let file = &remarks(&[("/etc/malloc.conf", A_FILE)], None)[0];
        assert!(file.verdict == Ignored && file.text.ends_with("ln -s narenas:1 /etc/malloc.conf"), "{file:?}");
    }

    #[test]
    fn a_link_with_a_mistake_is_overruled_by_a_variable_and_overrules_code() {
        let set = [
            ("MALLOC_CONF", "narenas:5,tcache:true"),
            ("/etc/_rjem_malloc.conf", "narenas:6,tcache:1"),
            ("_RJEM_MALLOC_CONF", "narenas:7"),
        ];
        let found = remarks(&set, Some(&[INSTALLED]));
        assert_eq!(found[0].problems[1], "narenas 6 is overruled by _RJEM_MALLOC_CONF, which says 7", "{found:?}");
        assert!(found[0].problems[0].starts_with("tcache: wanted true or false, found `1`"), "{found:?}");
        assert_eq!(found[1].problems, ["narenas 5 is overruled by _RJEM_MALLOC_CONF, which says 7"]);
        let below = remarks(&set[..2], Some(&[INSTALLED]));
        assert_eq!(below[1].problems, ["narenas 5 is overruled by /etc/_rjem_malloc.conf, which says 6"]);
    }

    #[test]
    fn abort_conf_and_a_mistake_end_the_program_and_that_is_said() {
        let said = "abort_conf:true makes jemalloc end the program at its start because of this";
        let of = |set: &[(&str, &str)]| remarks(set, Some(&[INSTALLED])).remove(0).problems;
        assert_eq!(of(&[("MALLOC_CONF", "abort_conf:true,bogus:1")])[1..], [said]);
        assert_eq!(of(&[("MALLOC_CONF", "bogus:1"), ("_RJEM_MALLOC_CONF", "abort_conf:true")])[1..], [said]);
        assert_eq!(of(&[("MALLOC_CONF", "abort_conf:true,narenas:2")]), [""; 0]);
        assert_eq!(of(&[("MALLOC_CONF", "abort_conf:true,narenas:99999")]).len(), 1, "clipping is no mistake to it");
        assert_eq!(of(&[("MALLOC_CONF", "abort_conf:true,abort_conf:false,bogus:1")]).len(), 2);
    }

    #[test]
    fn gos_variables_are_those_of_a_go_program() {
        assert_eq!(remarks(&[("GOGC", "50")], None), []);
        assert_eq!(remarks(&[("GOGC", "50")], Some(&[Flavour::Glibc])), []);
        let found = remarks(&[("GOGC", "50"), ("MALLOC_ARENA_MAX", "1")], Some(&[Flavour::Go]));
        assert_eq!((found[0].verdict, found[1].verdict), (VariableEffect::Read, VariableEffect::Ignored));
        assert_eq!(found[1].text, "this program has Go's runtime");
    }

    #[test]
    fn a_tunable_wins_over_the_variable() {
        let set = [("GLIBC_TUNABLES", "glibc.malloc.arena_max=5"), ("MALLOC_ARENA_MAX", "3")];
        let found = remarks(&set, None);
        assert_eq!(found[1].problems, ["arena_max 3 is overruled by GLIBC_TUNABLES, which says 5"]);
        assert_eq!(remarks(&set, Some(&[RUST, Flavour::Glibc]))[0].verdict, VariableEffect::Depends);
        assert_eq!(remarks(&[("GLIBC_TUNABLES", "glibc.rtld.nns=5")], None), []);
    }

    #[test]
    fn what_nobody_reads_has_a_nearest_name() {
        let found =
            remarks(&[("MALLOC_TRIM_THRESHOLD", "1"), ("PATH", "/bin"), ("JEMALLOC_SYS_WITH_LG_PAGE", "16")], None);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|remark| remark.verdict == VariableEffect::Ignored));
        assert!(found[0].text.contains("while jemalloc is built"));
        assert!(found[1].text.ends_with("; perhaps MALLOC_TRIM_THRESHOLD_"), "{}", found[1].text);
        assert_eq!(remarks(&[("MIMALLOC_PURGE_DELAY", "0")], Some(&[RUST]))[0].text, "this program has jemalloc");
    }

    #[test]
    fn a_preloaded_allocator_is_told_from_other_libraries() {
        assert_eq!(remarks(&[("LD_PRELOAD", "/lib/libfoo.so")], None), []);
        assert_eq!(remarks(&[("LD_PRELOAD", "libjemalloc.so.2")], None)[0].verdict, VariableEffect::Depends);
        assert!(remarks(&[("LD_PRELOAD", "/no/libjemalloc.so.2")], None)[0].text.contains("does not exist"));
    }
}
