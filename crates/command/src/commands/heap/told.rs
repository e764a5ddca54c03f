//! What is told of one reading. In: a reading, or why there is none. Out: a line, an error, whether a heap is missing.

use allocanary_heap::{PartsCertainty, ProcessTrouble, Reading};
use allocanary_rows::error::{Error, Result};

use crate::commands::readings::without_map;

/// The error of a reading.
pub(super) fn trouble(error: ProcessTrouble) -> Error {
    Error::Input(format!("heap: {error}"))
}

/// Whether a heap that was found could not be divided.
pub(super) fn is_undivided(reading: &Reading) -> bool {
    reading.heaps.iter().any(|heap| heap.sure == PartsCertainty::NotKnown) || !reading.problems.is_empty()
}

/// A line of JSON, without the map, which is for the page.
pub(super) fn json(reading: &Reading) -> Result<String> {
    let line = serde_json::to_string(&without_map(reading));
    line.map(|line| line + "\n").map_err(|error| Error::Input(format!("heap: --json: {error}")))
}
