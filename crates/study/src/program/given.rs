//! What a row keeps of the variables with which a program was started. In: its environment. Out: what differs from ours.

use std::collections::BTreeMap;
use std::path::Path;

/// The variables of the contract with our preloaded libraries.
pub(super) const PROOF: &str = "ALLOCANARY_PROOF";
pub(super) const CORES: &str = "ALLOCANARY_CORES";
pub(super) const PROVE: &str = "ALLOCANARY_PROVE";

/// The variables that differ from ours, but for those of our contract with the library, and without the library that only asks.
pub(super) fn given(environment: &BTreeMap<String, String>, prover: Option<&Path>) -> BTreeMap<String, String> {
    let ours = |name: &str| [PROOF, CORES, PROVE].contains(&name);
    let differs = |(name, value): &(&String, &String)| !ours(name) && std::env::var(name).ok().as_ref() != Some(*value);
    let prover = prover.map(|prover| format!("{}:", prover.display()));
    let without =
        |value: &String| prover.as_ref().and_then(|prover| value.strip_prefix(prover)).unwrap_or(value).into();
    environment.iter().filter(differs).map(|(name, value)| (name.clone(), without(value))).collect()
}
