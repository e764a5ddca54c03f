use super::*;
use crate::search::goal::GoalSource;
use crate::search::proof::tests::group;
use allocanary_measure::metrics::Metrics;

/// Has a memory figure for each candidate. Candidates without one fail.
struct Table {
    memory: BTreeMap<&'static str, f64>,
    left: Option<f64>,
    asked: Vec<(String, Vec<Candidate>, u32)>,
}

impl Measure for Table {
    fn rows(&mut self, stage: &str, candidates: &[Candidate], repeats: u32) -> Result<Rows> {
        self.asked.push((stage.to_string(), candidates.to_vec(), repeats));
        let mut rows = Rows { seconds_each: Some(1.0), ..Rows::default() };
        for candidate in candidates {
            match self.memory.get(candidate.to_string().as_str()) {
                None => drop(rows.failures.insert(candidate.clone(), "no luck".into())),
                Some(memory) => {
                    let spread = |middle: f64| -> Vec<f64> {
                        (0..repeats).map(|at| middle * (1.0 + f64::from(at) * 1e-4)).collect()
                    };
                    rows.groups.insert(candidate.clone(), group(&spread(*memory), &spread(1000.0)));
                }
            }
        }
        self.left = self.left.map(|left| left - candidates.len() as f64 * f64::from(repeats));
        Ok(rows)
    }

    fn seconds_left(&self) -> Option<f64> {
        self.left
    }
}

fn table(memory: &[(&'static str, f64)], left: Option<f64>) -> Table {
    Table { memory: memory.iter().copied().collect(), left, asked: Vec::new() }
}

fn plan<'a>(first: &[&str], second: &'a [&'a str]) -> Plan<'a> {
    let candidates = |names: &[&str]| names.iter().map(|name| Candidate::from(*name)).collect::<Vec<_>>();
    let second = Box::new(move |_: &[Candidate]| candidates(second));
    Plan {
        goal: Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap(),
        present: "j".into(),
        own: None,
        first: candidates(first),
        second,
        repeats: 10,
    }
}

#[test]
fn the_best_of_both_stages_is_found_and_measured_anew() {
    let names = ["j:a=1", "j:a=2", "j:a=3", "j:a=4", "s", "s:a=1", "s:a=2", "m", "broken"];
    let memory: Vec<(&str, f64)> = names[..8].iter().enumerate().map(|(at, name)| (*name, 90.0 - at as f64)).collect();
    let mut source = table(&[&memory[..], &[("j", 95.0), ("j:b=1", 20.0)]].concat(), None);
    let found = search(&plan(&names, &["j:b=1", "s"]), &mut source).unwrap();
    assert_eq!(found.recommended().unwrap().candidate, "j:b=1".into());
    assert_eq!(found.tried, 11);
    assert_eq!(found.failures[&"broken".into()], "no luck");
    let (stage, last, repeats) = source.asked.last().unwrap();
    assert_eq!((stage.as_str(), last[0].to_string().as_str(), *repeats), (FINAL, "j", 10));
    let stages: Vec<&str> = source.asked.iter().map(|(stage, _, _)| stage.as_str()).collect();
    assert!(stages.windows(2).all(|pair| pair[0] != pair[1]), "each race has rows of its own: {stages:?}");
    assert!(found.fresh.iter().all(|(_, group)| group.samples() == 10), "no row of a race is reported");
}

#[test]
fn a_budget_leaves_out_the_second_stage_and_then_is_too_small() {
    let all = [("j", 95.0), ("j:a=1", 50.0), ("j:a=2", 40.0)];
    let names = ["j:a=1", "j:a=2"];
    let mut source = table(&all, Some(57.0));
    let found = search(&plan(&names, &["j:b=1"]), &mut source).unwrap();
    assert!(found.notes[0].contains("left out 1 candidates of the second stage"), "{:?}", found.notes);
    assert_eq!(found.recommended().unwrap().candidate, "j:a=2".into());
    let error = search(&plan(&names, &[]), &mut table(&all, Some(10.0))).unwrap_err().to_string();
    assert!(error.contains("too small to judge") && error.contains("11 s more would be enough"), "{error}");
}

#[test]
fn a_second_stage_that_fails_leaves_the_first() {
    let mut source = table(&[("j", 95.0), ("a", 50.0), ("b", 60.0)], None);
    let found = search(&plan(&["a", "b"], &["broken", "too"]), &mut source).unwrap();
    assert_eq!(found.recommended().unwrap().candidate, "a".into());
    assert!(found.notes[0].contains("all 2 other candidates failed; the first, broken: no luck"), "{:?}", found.notes);
}

#[test]
fn what_cannot_be_searched_is_said() {
    let said = |first: &[&str], memory: &[(&'static str, f64)]| {
        search(&plan(first, &[]), &mut table(memory, None)).unwrap_err().to_string()
    };
    assert!(said(&["j"], &[("j", 1.0)]).contains("the space is empty"));
    assert!(said(&["a", "b"], &[("j", 1.0)]).contains("all 2 other candidates failed; the first, a: no luck"));
    assert!(said(&["a"], &[("a", 1.0)]).contains("j, which you have now, failed: no luck"));
    let cpu = Plan {
        goal: Goal::parse("cpu", Some(&[]), GoalSource::Workload, &Metrics::default()).unwrap(),
        ..plan(&["a"], &[])
    };
    let error = search(&cpu, &mut table(&[("a", 1.0), ("j", 1.0)], None)).unwrap_err().to_string();
    assert!(error.contains("the rows have no cpu"), "{error}");
}
