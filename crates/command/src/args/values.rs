//! Values that a shell offers for an argument. In: the lists of this build. Out: parsers that accept any text and
//! know the values to offer. The verbs report a wrong text and name the nearest right values.

use std::ffi::OsStr;

use allocanary_facts::ours;
use allocanary_measure::metrics::ALL as METRICS;
use allocanary_screens::report as reports;
use allocanary_screens::report::production::{DeployTarget, PLACES};
use allocanary_study::session::{CASES, SHIPPED};
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

/// What `list` can print.
pub const PARTS: [&str; 7] = ["allocators", "settings", "workloads", "meters", "metrics", "studies", "formats"];

/// The places of an answer (`--write-for`).
pub fn place() -> impl TypedValueParser<Value = DeployTarget> {
    let names = PLACES.map(DeployTarget::name);
    PossibleValuesParser::new(names).map(|name| DeployTarget::find(&name).expect("it is one of the names"))
}

/// Accepts any text, and offers some values.
#[derive(Clone)]
pub struct Offered(Vec<&'static str>);

impl Offered {
    /// Offers these names.
    pub fn of(names: impl Iterator<Item = &'static str>) -> Offered {
        Offered(names.collect())
    }
}

impl TypedValueParser for Offered {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|name| PossibleValue::new(*name))))
    }
}

/// The shipped studies.
pub fn studies() -> Offered {
    Offered::of(SHIPPED.iter().map(|shipped| shipped.name).chain([CASES.name]))
}

/// The allocators, which are candidates without settings.
pub fn candidates() -> Offered {
    Offered::of(ours().map(|(one, _)| one.name))
}

/// The built-in workloads.
pub fn workloads() -> Offered {
    Offered::of(crate::given::workloads().into_iter())
}

/// The metrics.
pub fn metrics() -> Offered {
    Offered::of(METRICS.iter().map(|metric| &*metric.name))
}

/// The formats of a report.
pub fn formats() -> Offered {
    Offered::of(reports::ALL.iter().map(|report| report.name))
}

/// The parts of `list`.
pub fn parts() -> Offered {
    Offered::of(PARTS.into_iter())
}
