//! The studies that come with the command, by name.

/// A study that is built in.
pub struct Shipped {
    /// What `allocanary study NAME` takes.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// Every shipped study; the first is what `allocanary study` runs.
pub const SHIPPED: &[Shipped] = &[
    Shipped { name: "default", text: include_str!("../../studies/default.toml") },
    Shipped { name: "cores", text: include_str!("../../studies/cores.toml") },
    Shipped { name: "arenas", text: include_str!("../../studies/arenas.toml") },
    Shipped { name: "decay", text: include_str!("../../studies/decay.toml") },
    Shipped { name: "workloads", text: include_str!("../../studies/workloads.toml") },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::StudyFile;

    #[test]
    fn every_shipped_study_has_a_question_and_can_be_checked() {
        for shipped in SHIPPED {
            let file = StudyFile::parse(shipped.name, shipped.text).unwrap();
            assert!(file.question.as_ref().is_some_and(|question| question.contains('?')), "{}", shipped.name);
            file.check().unwrap();
        }
    }
}
