//! How a verb prints findings: as tables, as an answer of ten lines, or as JSON. In: flags, findings. Out: text.

use allocanary_measure::metrics::ALL as METRICS;
use allocanary_measure::summary::Findings;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::perhaps;
use allocanary_screens::draw::short;
use allocanary_screens::report::answer::answers;
use allocanary_screens::report::json;
use allocanary_screens::report::table::{self, Columns, View};
use allocanary_study::session::StudyFile;
use allocanary_text::outside::TerminalStyle;

use crate::args::{OutputFlags, TableFlags};

/// A verb, and the form of its output.
pub struct VerbOutput {
    verb: &'static str,
    form: Form,
}

enum Form {
    Tables(View),
    Short,
    Json,
}

/// The most lines at the end of a measurement, if the terminal has fewer than 120 columns.
const LINES: usize = 40;

impl VerbOutput {
    /// Tables with the metrics that decide.
    pub fn tables(verb: &'static str) -> VerbOutput {
        VerbOutput { verb, form: Form::Tables(View { columns: Columns::Deciding, lines: Some(LINES) }) }
    }

    /// The output that the flags of a search request.
    pub fn of(verb: &'static str, flags: &OutputFlags) -> VerbOutput {
        match flags {
            OutputFlags { json: true, .. } => VerbOutput { verb, form: Form::Json },
            OutputFlags { short: true, .. } => VerbOutput { verb, form: Form::Short },
            _ => VerbOutput::tables(verb),
        }
    }

    /// The output that the flags of a measurement request. An unknown metric is an error before anything is measured. A
    /// metric of the user's program is known, because a study has its name.
    pub fn of_tables(verb: &'static str, flags: &TableFlags, studies: &[StudyFile]) -> Result<VerbOutput> {
        if flags.metrics.is_empty() {
            return Ok(VerbOutput::of(verb, &flags.output));
        }
        let named = studies.iter().filter_map(|study| study.program.as_ref()).flat_map(|program| program.metric.keys());
        let named: Vec<&str> = named.filter_map(|key| key.split(':').next()).collect();
        let columns = columns(&flags.metrics, &named)?;
        // A user who names columns wants to see all of their lines.
        Ok(VerbOutput { verb, form: Form::Tables(View { columns, lines: None }) })
    }

    /// Whether the output has no tables: it is for a script, or a short answer.
    pub fn is_brief(&self) -> bool {
        !matches!(self.form, Form::Tables(_))
    }

    /// The output as text.
    pub fn text(&self, findings: &Findings, look: &TerminalStyle) -> String {
        match &self.form {
            Form::Tables(view) => table::view(findings, view, look),
            Form::Short => short(&answers(findings), look),
            Form::Json => json::of(self.verb, findings),
        }
    }
}

/// The columns of `--metrics`; `others` are metrics that only some rows have.
pub fn columns(names: &[String], others: &[&str]) -> Result<Columns> {
    if names.is_empty() {
        return Ok(Columns::Deciding);
    }
    if names == ["all"] {
        return Ok(Columns::All);
    }
    let known = || METRICS.iter().map(|metric| &*metric.name).chain(others.iter().copied());
    match names.iter().find(|name| !known().any(|known| known == name.as_str())) {
        None => Ok(Columns::Named(names.to_vec())),
        Some(name) => {
            let hint = perhaps(name, known().chain(["all"]));
            Err(Error::Input(format!(
                "--metrics: no metric `{name}`{hint}: `allocanary list metrics` has them, and all is all"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_metrics_or_all() {
        let of = |text: &str| columns(&text.split(',').map(String::from).collect::<Vec<_>>(), &["keys"]);
        assert_eq!(of("all").unwrap(), Columns::All);
        assert_eq!(of("peak_resident,keys").unwrap(), Columns::Named(vec!["peak_resident".into(), "keys".into()]));
        assert_eq!(columns(&[], &[]).unwrap(), Columns::Deciding);
        let wrong = of("peek").unwrap_err().to_string();
        assert!(wrong.contains("no metric `peek`") && wrong.contains("peak_resident"), "{wrong}");
    }
}
