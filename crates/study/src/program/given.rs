//! The variables of a program that a row keeps. In: its environment. Out: the variables that differ from ours.

use std::collections::BTreeMap;
use std::path::Path;

/// The variables of the contract with our preloaded libraries.
pub(super) const PROOF: &str = "ALLOCANARY_PROOF";
pub(super) const CORES: &str = "ALLOCANARY_CORES";
pub(super) const PROVE: &str = "ALLOCANARY_PROVE";

/// The variables that differ from ours, except those of our contract with the preloads. LD_PRELOAD is returned without our prover.
pub(super) fn given(environment: &BTreeMap<String, String>, prover: Option<&Path>) -> BTreeMap<String, String> {
    let ours = |name: &str| [PROOF, CORES, PROVE].contains(&name);
    let differs = |(name, value): &(&String, &String)| !ours(name) && std::env::var(name).ok().as_ref() != Some(*value);
    let prover = prover.map(|prover| format!("{}:", prover.display()));
    let without =
        |value: &String| prover.as_ref().and_then(|prover| value.strip_prefix(prover)).unwrap_or(value).into();
    environment.iter().filter(differs).map(|(name, value)| (name.clone(), without(value))).collect()
}
