//! The studies that come with the command, by name.

use super::file::StudyFile;
use super::studies::Studies;
use allocanary_rows::error::Result;

/// A study that comes with the command.
pub struct Shipped {
    /// Its name for `allocanary study NAME`.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

/// Every shipped study; the first is what `allocanary study` runs.
pub const SHIPPED: &[Shipped] = &[
    Shipped { name: "default", text: include_str!("../../../studies/default.toml") },
    Shipped { name: "cores", text: include_str!("../../../studies/cores.toml") },
    Shipped { name: "arenas", text: include_str!("../../../studies/arenas.toml") },
    Shipped { name: "decay", text: include_str!("../../../studies/decay.toml") },
    Shipped { name: "idle", text: include_str!("../../../studies/idle.toml") },
    Shipped { name: "tuned", text: include_str!("../../../studies/tuned.toml") },
    Shipped { name: "pressure", text: include_str!("../../../studies/pressure.toml") },
    Shipped { name: "room", text: include_str!("../../../studies/room.toml") },
    Shipped { name: "winners", text: include_str!("../../../studies/winners.toml") },
    Shipped { name: "workloads", text: include_str!("../../../studies/workloads.toml") },
    Shipped { name: "canary", text: include_str!("../../../studies/canary.toml") },
    Shipped { name: "ballast", text: include_str!("../../../studies/ballast.toml") },
    Shipped { name: "churn", text: include_str!("../../../studies/cases/churn.toml") },
    Shipped { name: "list", text: include_str!("../../../studies/cases/list.toml") },
    Shipped { name: "sort", text: include_str!("../../../studies/cases/sort.toml") },
    Shipped { name: "blob", text: include_str!("../../../studies/cases/blob.toml") },
    Shipped { name: "storm", text: include_str!("../../../studies/cases/storm.toml") },
    Shipped { name: "reserve", text: include_str!("../../../studies/cases/reserve.toml") },
];

/// A shipped group: several shipped studies in one run.
pub struct ShippedStudies {
    /// Its name for `allocanary study NAME`.
    pub name: &'static str,
    /// One line about the whole group.
    pub about: &'static str,
    /// Their names, in order.
    pub studies: &'static [&'static str],
}

/// The cases that others have published. The rows of a study with published figures have its name, so that a report
/// finds the figures. The rows of other studies have no name, so that they stay comparable with those of earlier
/// versions.
pub const CASES: ShippedStudies = ShippedStudies {
    name: "cases",
    about: "What others have published on memory management, measured here, with their figures next to ours",
    studies: &["churn", "list", "sort", "blob", "storm", "reserve"],
};

/// The shipped study or group of that name.
pub fn find_shipped(name: &str) -> Option<Result<Studies>> {
    let one = |shipped: &Shipped| StudyFile::parse(shipped.name, shipped.text);
    let named = |name: &str| SHIPPED.iter().find(|shipped| shipped.name == name);
    if name == CASES.name {
        return Some(CASES.studies.iter().filter_map(|name| named(name)).map(one).collect::<Result<_>>().map(Studies));
    }
    named(name).map(|shipped| one(shipped).map(|study| Studies(vec![study])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_study_has_a_question_and_can_be_checked() {
        for shipped in SHIPPED {
            let file = StudyFile::parse(shipped.name, shipped.text).unwrap();
            assert!(file.question.as_ref().is_some_and(|question| question.contains('?')), "{}", shipped.name);
            file.check().unwrap();
        }
    }

    #[test]
    fn every_case_names_itself_its_metrics_what_was_published_and_its_full_size() {
        let cases = find_shipped(CASES.name).unwrap().unwrap();
        assert_eq!(cases.0.len(), CASES.studies.len());
        for (case, name) in cases.0.into_iter().zip(CASES.studies) {
            assert_eq!(case.name.as_deref(), Some(*name));
            assert!(case.metrics.is_some() && !case.published.is_empty() && case.time_budget.is_some(), "{name}");
            let sizes = case.full.len();
            let full = case.at_full_size(u64::MAX).unwrap();
            assert!(sizes > 0 && full.studies.len() == sizes && full.too_large.is_empty(), "{name}");
            full.studies.into_iter().for_each(|study| drop(study.check().unwrap()));
        }
        for shipped in SHIPPED {
            let study = StudyFile::parse(shipped.name, shipped.text).unwrap();
            assert_eq!(study.name.as_deref(), (!study.published.is_empty()).then_some(shipped.name));
        }
    }
}
