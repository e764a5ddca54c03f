//! The readings at each mark. In: sizes of processes, and what they have used. Out: the columns of a row.

use std::collections::BTreeMap;

use super::tree::{Details, PartColumns, TreeSizes};
use super::watch::ProgramUse;
use allocanary_rows::Moment;
use allocanary_sys::clocks::monotonic_nanos;

/// The readings at each mark.
#[derive(Default)]
pub(super) struct Marks {
    pub(super) moments: Vec<Moment>,
    pub(super) columns: BTreeMap<String, Vec<Option<u64>>>,
    /// When each mark was set, in nanoseconds of the monotonic clock.
    pub(super) times: Vec<(Moment, u64)>,
}

impl Marks {
    pub(super) fn mark(&mut self, moment: Moment, readings: &[(&str, Option<u64>)]) {
        for (name, value) in readings {
            let column = self.columns.entry(name.to_string()).or_default();
            column.resize(self.moments.len(), None);
            column.push(*value);
        }
        self.moments.push(moment);
        self.times.push((moment, monotonic_nanos()));
        self.columns.values_mut().for_each(|column| column.resize(self.moments.len(), None));
    }

    /// Replaces a value at the last mark.
    pub(super) fn set(&mut self, name: &str, value: u64) {
        let marks = self.moments.len();
        let column = self.columns.entry(name.to_string()).or_default();
        column.resize(marks, None);
        if let Some(last) = column.last_mut() {
            *last = Some(value);
        }
    }

    /// The parts of the memory at the last mark.
    pub(super) fn set_parts(&mut self, parts: Option<PartColumns>) {
        parts.into_iter().flatten().for_each(|(name, bytes)| self.set(name, bytes));
    }

    /// Adds a mark, with a complete reading.
    pub(super) fn read(&mut self, moment: Moment, watch: &mut ProgramUse) {
        let (sizes, details) = watch.read();
        self.mark(moment, &readings(&sizes, &details, watch.peak));
    }
}

/// How many of the readings are sizes of processes. They come first.
pub(super) const SIZES: usize = 6;

/// The readings by name.
pub(super) fn readings(sizes: &TreeSizes, details: &Details, peak: u64) -> [(&'static str, Option<u64>); 14] {
    [
        ("resident_bytes", Some(sizes.rss)),
        ("peak_resident_bytes", Some(peak)),
        ("anonymous_bytes", Some(sizes.anon)),
        ("vsz_bytes", Some(sizes.vsz)),
        ("threads", Some(sizes.threads)),
        ("processes", Some(sizes.processes)),
        ("minor_faults", Some(details.minor_faults)),
        ("major_faults", Some(details.major_faults)),
        ("user_us", Some(details.user_us)),
        ("system_us", Some(details.system_us)),
        ("pss_bytes", details.pss),
        ("private_bytes", details.private),
        ("lazy_free_bytes", details.lazy_free),
        ("anonymous_huge_bytes", details.huge),
    ]
}

/// The readings at its start, when a program has used nothing. Its memory is not read, because the loader may still be at work.
pub(super) const START: [(&str, Option<u64>); 4] =
    [("user_us", Some(0)), ("system_us", Some(0)), ("minor_faults", Some(0)), ("major_faults", Some(0))];
