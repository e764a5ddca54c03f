//! The values that a shell offers for an argument. In: the lists of this build. Out: parsers of texts that also name
//! values. Any other text is taken as well: the verbs report a wrong one, with the nearest right ones.

use std::ffi::OsStr;

use allocanary_allocators::allocators::KNOWN;
use allocanary_cell::workloads;
use allocanary_measure::metrics::ALL as METRICS;
use allocanary_report as reports;
use allocanary_report::production::{PLACES, Place};
use allocanary_session::{CASES, SHIPPED};
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

/// What `list` can print.
pub const PARTS: [&str; 7] = ["allocators", "settings", "workloads", "meters", "metrics", "studies", "formats"];

/// Where an answer goes.
pub fn place() -> impl TypedValueParser<Value = Place> {
    let names = PLACES.map(Place::name);
    PossibleValuesParser::new(names).map(|name| Place::find(&name).expect("it is one of the names"))
}

/// Takes any text, and offers some.
#[derive(Clone)]
pub struct Offered(Vec<&'static str>);

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
    Offered(SHIPPED.iter().map(|shipped| shipped.name).chain([CASES.name]).collect())
}

/// The allocators, which are candidates without settings.
pub fn candidates() -> Offered {
    Offered(KNOWN.iter().map(|known| known.name).collect())
}

/// The built-in workloads.
pub fn workloads() -> Offered {
    Offered(workloads::ALL.iter().map(|workload| workload.name).collect())
}

/// The metrics.
pub fn metrics() -> Offered {
    Offered(METRICS.iter().map(|metric| &*metric.name).collect())
}

/// The formats of a report.
pub fn formats() -> Offered {
    Offered(reports::ALL.iter().map(|report| report.name).collect())
}

/// The parts of `list`.
pub fn parts() -> Offered {
    Offered(PARTS.to_vec())
}

/// The verbs that have a manual page.
pub fn verbs() -> Offered {
    Offered(super::verb_names().collect())
}

/// Lines of fish for the values of arguments without a flag: clap writes none of them.
pub fn fish(command: &Command) -> String {
    let mut out = String::new();
    for verb in command.get_subcommands() {
        for argument in verb.get_positionals() {
            let values = argument.get_possible_values();
            let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            if !names.is_empty() {
                let (verb, names) = (verb.get_name(), names.join(" "));
                let when = format!("__fish_allocanary_using_subcommand {verb}");
                out.push_str(&format!("complete -c allocanary -n \"{when}\" -a \"{names}\"\n"));
            }
        }
    }
    out
}
