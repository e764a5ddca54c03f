//! `allocanary PROCESS --json`. In: a reading, remedies. Out: a line of JSON.

use allocanary_doctor::remedies::{Remedy, conclusion};
use allocanary_heap::{Reading, answer};
use serde_json::json;

use crate::commands::readings::without_map;

/// The version of the JSON. A reader refuses later versions.
const SCHEMA: u32 = 1;

/// One line of JSON. `remedies` are in the order of the screen.
pub(super) fn json(reading: &Reading, remedies: &[Remedy]) -> String {
    let document = json!({
        "schema": SCHEMA,
        "answer": answer::answer(reading),
        "conclusion": conclusion(reading, remedies),
        "remedies": remedies,
        "reading": without_map(reading),
    });
    format!("{document}\n")
}
