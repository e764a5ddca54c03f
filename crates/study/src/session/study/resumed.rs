//! Checks that `--resume` continues the same study, or a larger one. In: the studies stored next to the rows, and the
//! studies requested now. Out: the first difference that makes their rows incompatible.

use std::collections::HashSet;
use std::fmt::Display;

use super::checked::{Study, ThreadScale};
use super::studies::Studies;
use allocanary_rows::error::Result;

impl Studies {
    /// Why the rows of `self` cannot be added to those of `begun`; `None` if they can. A study may grow: more
    /// candidates, workloads, threads or repeats are compatible. Time limits, and the fields that only a report reads,
    /// may change.
    pub fn differs_from(&self, begun: &Studies) -> Result<Option<String>> {
        if self.0.len() != begun.0.len() {
            return Ok(Some(format!("wanted {} studies, found {}", begun.0.len(), self.0.len())));
        }
        for (asked, begun) in self.0.iter().zip(&begun.0) {
            if asked.package != begun.package {
                return Ok(Some(change("package", &text(&begun.package), &text(&asked.package))));
            }
            let (asked, begun) = (asked.clone().check()?, begun.clone().check()?);
            if let Some(difference) = difference(&begun, &asked) {
                return Ok(Some(match &begun.name {
                    Some(name) => format!("{name}: {difference}"),
                    None => difference,
                }));
            }
        }
        Ok(None)
    }
}

fn difference(begun: &Study, asked: &Study) -> Option<String> {
    if begun.name != asked.name {
        return Some(change("name", &text(&begun.name), &text(&asked.name)));
    }
    if begun.seed != asked.seed {
        return Some(change("seed", &begun.seed, &asked.seed));
    }
    if begun.repeats > asked.repeats {
        return Some(change("repeats", &format!("{} or more", begun.repeats), &asked.repeats));
    }
    if begun.program != asked.program {
        let show = |study: &Study| study.program.as_ref().map_or("none".into(), |program| format!("{program:?}"));
        return Some(change("program", &show(begun), &show(asked)));
    }
    let candidates = |study: &Study| study.candidates.iter().map(|candidate| candidate.spec.to_string()).collect();
    let workloads = |study: &Study| study.workloads.iter().map(|workload| workload.to_string()).collect();
    let hosts = |study: &Study| study.hosts.iter().map(scale).collect();
    missing("candidates", candidates(begun), candidates(asked))
        .or_else(|| missing("workloads", workloads(begun), workloads(asked)))
        .or_else(|| missing("threads and cores", hosts(begun), hosts(asked)))
        .or_else(|| {
            let inherited = |study: &Study| format!("{:?}", study.candidates[0].inherited);
            let (begun, asked) = (inherited(begun), inherited(asked));
            (begun != asked).then(|| change("variables of the environment", &begun, &asked))
        })
}

fn change(what: &str, begun: &dyn Display, asked: &dyn Display) -> String {
    format!("{what}: wanted {begun}, found {asked}")
}

fn text(name: &Option<String>) -> String {
    name.as_ref().map_or("none".into(), |name| format!("`{name}`"))
}

fn scale(scale: &ThreadScale) -> String {
    let cores = scale.cores.map_or(String::new(), |cores| format!(" on {cores} cores"));
    format!("{} threads{cores}", scale.threads)
}

/// The first of `begun` that is not in `asked`.
fn missing(what: &str, begun: Vec<String>, asked: Vec<String>) -> Option<String> {
    let there: HashSet<&String> = asked.iter().collect();
    let gone = begun.iter().find(|item| !there.contains(item))?;
    Some(change(what, &format!("`{gone}` among them"), &format!("`{}`", asked.join("`, `"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: &str = "candidates = ['system', 'jemalloc']\nthreads = [1, 2]\nrepeats = 3\ntime_budget = '9s'";

    fn said(asked: &str) -> Option<String> {
        let group = |text: &str| Studies::parse("x", text).unwrap();
        group(asked).differs_from(&group(BEGUN)).unwrap()
    }

    #[test]
    fn a_study_may_grow() {
        let larger = BEGUN.replace("'jemalloc'", "'mimalloc', 'jemalloc'").replace("[1, 2]", "[2, 4, 1]");
        for text in [
            BEGUN.to_string(),
            larger,
            BEGUN.replace("= 3", "= 4"),
            BEGUN.replace("9s", "9h"),
            format!("{BEGUN}\nworkloads = ['small', 'server']\nquestion = 'why?'\nmetrics = ['resident']\nseed = 1"),
        ] {
            assert_eq!(said(&text), None, "{text}");
        }
    }

    #[test]
    fn what_makes_it_another_study_is_named() {
        for (text, wanted) in [
            (BEGUN.replace("'system', ", ""), "candidates: wanted `system` among them, found `jemalloc`"),
            (BEGUN.replace("[1, 2]", "[1]"), "threads and cores: wanted `2 threads` among them, found `1 threads`"),
            (
                BEGUN.replace("threads = [1, 2]", "emulate_cpus = [1, 2]"),
                "wanted `1 threads` among them, found `1 threads on 1",
            ),
            (BEGUN.replace("= 3", "= 2"), "repeats: wanted 3 or more, found 2"),
            (format!("{BEGUN}\nseed = 2"), "seed: wanted 1, found 2"),
            (format!("{BEGUN}\nname = 'x'"), "name: wanted none, found `x`"),
            (format!("{BEGUN}\npackage = 'x'"), "package: wanted none, found `x`"),
            (format!("{BEGUN}\nworkloads = ['small']"), "workloads: wanted `server` among them, found `small`"),
            (format!("{BEGUN}\n[inherited]\nA = '1'"), "variables of the environment: wanted {}, found {\"A\": \"1\"}"),
            ("[[study]]\nname = 'a'\n[[study]]\nname = 'b'".into(), "wanted 1 studies, found 2"),
        ] {
            let said = said(&text).unwrap_or_default();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
