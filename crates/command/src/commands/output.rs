//! What a verb prints of findings: tables, an answer of ten lines, or JSON. In: flags, findings. Out: text.

use allocanary_draw::short;
use allocanary_error::{Error, Result};
use allocanary_kernel::terminal::Look;
use allocanary_measure::metrics::ALL as METRICS;
use allocanary_measure::summary::Findings;
use allocanary_report::answer::answers;
use allocanary_report::json;
use allocanary_report::table::{self, Columns, View};
use allocanary_session::StudyFile;
use allocanary_spec::perhaps;

use crate::args::{OutputFlags, TableFlags};

/// What a verb prints, and its name.
pub struct Output {
    verb: &'static str,
    form: Form,
}

enum Form {
    Tables(View),
    Short,
    Json,
}

/// The most lines that a measurement ends with where the terminal has fewer than 120 columns.
const LINES: usize = 40;

impl Output {
    /// Tables of the columns that decide.
    pub fn tables(verb: &'static str) -> Output {
        Output { verb, form: Form::Tables(View { columns: Columns::Deciding, lines: Some(LINES) }) }
    }

    /// What the flags of a search say.
    pub fn of(verb: &'static str, flags: &OutputFlags) -> Output {
        match flags {
            OutputFlags { json: true, .. } => Output { verb, form: Form::Json },
            OutputFlags { short: true, .. } => Output { verb, form: Form::Short },
            _ => Output::tables(verb),
        }
    }

    /// What the flags of a measurement say. An unknown metric is an error before anything is measured: a metric of the user's
    /// program has its name in one of the studies.
    pub fn of_tables(verb: &'static str, flags: &TableFlags, studies: &[StudyFile]) -> Result<Output> {
        if flags.metrics.is_empty() {
            return Ok(Output::of(verb, &flags.output));
        }
        let named = studies.iter().filter_map(|study| study.program.as_ref()).flat_map(|program| program.metric.keys());
        let named: Vec<&str> = named.filter_map(|key| key.split(':').next()).collect();
        let columns = columns(&flags.metrics, &named)?;
        // Who names columns wants to see them.
        Ok(Output { verb, form: Form::Tables(View { columns, lines: None }) })
    }

    /// Whether it is what a script or a hurried reader asked for: no tables.
    pub fn is_brief(&self) -> bool {
        !matches!(self.form, Form::Tables(_))
    }

    /// The text.
    pub fn text(&self, findings: &Findings, look: &Look) -> String {
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
        assert_eq!(of("peak,keys").unwrap(), Columns::Named(vec!["peak".into(), "keys".into()]));
        assert_eq!(columns(&[], &[]).unwrap(), Columns::Deciding);
        let wrong = of("peek").unwrap_err().to_string();
        assert!(wrong.contains("no metric `peek`") && wrong.contains("peak"), "{wrong}");
    }
}
