//! The formats of metrics. In: OpenMetrics, piece by piece, as prometheus-client writes it. Out: the same, or Prometheus' older text
//! format, or its messages. The press receives them.
//!
//! The two text formats differ only in the lines that begin with `#`. The older format declares a counter under its whole name,
//! with `_total`, and has neither units nor an end mark.

use std::fmt;

use super::press::Press;
use super::protobuf::Family;
use crate::native::Native;

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus' text format 0.0.4.
    Classic,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Protobuf messages, the only format with native histograms.
    Protobuf,
}

impl Format {
    /// The content type that announces it.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// Receives the output of the encoder.
pub(super) struct Exposition<'a> {
    press: &'a mut Press,
    format: Format,
    /// Whether the next piece begins a line.
    fresh: bool,
    /// Whether the current line begins with `#`.
    comment: bool,
    line: String,
    /// The help line. It is written later, because the type that follows decides its name.
    help: String,
    /// The collected lines of a family, for messages.
    family: Family,
    message: Vec<u8>,
}

impl<'a> Exposition<'a> {
    /// Writes to this press.
    pub(super) fn new(press: &'a mut Press, format: Format) -> Self {
        let (line, help) = (String::with_capacity(256), String::with_capacity(256));
        let (family, message) = Default::default();
        Exposition { press, format, fresh: true, comment: false, line, help, family, message }
    }

    /// Writes the end of the page, if the format has one.
    pub(super) fn finish(mut self) {
        match self.format {
            Format::Classic => {}
            Format::OpenMetrics => self.press.put(b"# EOF\n"),
            Format::Protobuf => self.end_family(),
        }
    }

    /// Whether the format has native histograms.
    pub(super) fn takes_native(&self) -> bool {
        self.format == Format::Protobuf
    }

    /// Writes a native histogram of this family. `count` is the number of its values, `sum` their sum.
    pub(super) fn native(&mut self, labels: &str, native: &Native, count: u64, sum: f64) {
        self.family.native(labels, native, count, sum);
    }

    fn end_family(&mut self) {
        self.family.finish(&mut self.message);
        self.press.put(&self.message);
    }

    /// Writes a whole line that is the same in both formats.
    #[inline]
    pub(super) fn sample(&mut self, pieces: [&str; 7]) {
        if self.format == Format::Protobuf {
            return self.family.line(&pieces.concat());
        }
        for piece in pieces {
            self.press.put(piece.as_bytes());
        }
    }

    fn comment(&mut self) {
        let mut words = self.line.splitn(4, ' ');
        let (_, what, name, rest) = (words.next(), words.next(), words.next(), words.next());
        let (Some(what), Some(name), Some(rest)) = (what, name, rest) else { return };
        match what {
            "HELP" => {
                self.help.clear();
                self.help.push_str(rest);
            }
            "TYPE" => {
                let kind = rest.trim_end();
                if self.format == Format::Protobuf {
                    self.family.finish(&mut self.message);
                    self.press.put(&self.message);
                    let total = if kind == "counter" { "_total" } else { "" };
                    return self.family.begin(&format!("{name}{total}"), &self.help, kind);
                }
                let total = if self.format == Format::Classic && kind == "counter" { "_total" } else { "" };
                let kind = if self.format == Format::Classic && kind == "unknown" { "untyped" } else { kind };
                for piece in ["# HELP ", name, total, " ", &self.help, "# TYPE ", name, total, " ", kind, "\n"] {
                    self.press.put(piece.as_bytes());
                }
            }
            _ if self.format == Format::OpenMetrics => self.press.put(self.line.as_bytes()),
            _ => {}
        }
    }
}

impl fmt::Write for Exposition<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Some(last) = text.as_bytes().last() else { return Ok(()) };
        if self.fresh && text.as_bytes()[0] == b'#' {
            self.comment = true;
            self.line.clear();
        }
        // The encoder writes the end of a line as a separate piece, and no other text contains one.
        self.fresh = *last == b'\n';
        if !self.comment && self.format == Format::Protobuf {
            self.line.push_str(text);
            if self.fresh {
                self.family.line(&self.line);
                self.line.clear();
            }
        } else if !self.comment {
            self.press.put(text.as_bytes());
        } else {
            self.line.push_str(text);
            if self.fresh {
                self.comment();
                self.comment = false;
                self.line.clear();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::super::budget::Budget;
    use super::*;

    const PAGE: &[&str] = &[
        "# HELP ",
        "a",
        " ",
        "Counts.",
        "\n",
        "# TYPE ",
        "a",
        " counter",
        "\n",
        "a",
        "_total",
        "{x=\"# TYPE a\"}",
        " 1",
        "\n",
        "# HELP t_seconds Time.\n",
        "# TYPE t_seconds histogram\n",
        "# UNIT t_seconds seconds\n",
        "t_seconds",
        " 2",
        "\n",
    ];

    fn page(format: Format) -> String {
        let mut press = Press::new();
        press.start(false, Vec::new(), Budget::new(usize::MAX).share());
        let mut exposition = Exposition::new(&mut press, format);
        PAGE.iter().for_each(|piece| exposition.write_str(piece).unwrap());
        exposition.finish();
        String::from_utf8(press.finish().unwrap().0).unwrap()
    }

    #[test]
    fn the_older_format_declares_counters_whole() {
        let wanted = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{x=\"# TYPE a\"} 1\n\
                      # HELP t_seconds Time.\n# TYPE t_seconds histogram\nt_seconds 2\n";
        assert_eq!(page(Format::Classic), wanted);
    }

    #[test]
    fn openmetrics_passes() {
        assert_eq!(page(Format::OpenMetrics), PAGE.concat() + "# EOF\n");
    }
}
