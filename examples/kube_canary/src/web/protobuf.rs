//! Prometheus' protobuf format, the only one with native histograms. In: a family of metrics as lines of text. Out: one message of
//! the type `io.prometheus.client.MetricFamily`, with its length before it.
//!
//! All other code writes text. The lines of a family are collected here, and converted when the next family begins. The messages are small
//! and have few fields, so a code generator and its library would be more than this code.

use crate::native::{Native, SCHEMA};

/// A family whose lines are collected.
#[derive(Debug, Default)]
pub(super) struct Family {
    name: String,
    help: String,
    kind: String,
    /// Whole metrics, encoded.
    metrics: Vec<u8>,
    /// The metric that is being read, and its labels as in the text.
    open: Option<(String, Parts)>,
}

/// The parts of a summary or a histogram. The text has them in several lines.
#[derive(Debug, Default)]
struct Parts {
    count: u64,
    sum: f64,
    /// Quantiles with their values, or bounds with their cumulative counts.
    steps: Vec<(f64, f64)>,
}

impl Family {
    /// Begins another family.
    pub(super) fn begin(&mut self, name: &str, help: &str, kind: &str) {
        self.metrics.clear();
        self.open = None;
        for (text, value) in [(&mut self.name, name), (&mut self.help, help), (&mut self.kind, kind)] {
            text.clear();
            text.push_str(value.trim_end());
        }
    }

    /// Adds a line of this family: its name, labels in braces, and a value.
    pub(super) fn line(&mut self, line: &str) {
        let Some((series, value)) = line.trim_end().rsplit_once(' ') else { return };
        let Ok(value) = value.parse::<f64>() else { return };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.strip_suffix('}').unwrap_or(labels);
        if self.kind != "histogram" && self.kind != "summary" {
            let field = match &*self.kind {
                "gauge" => 2,
                "counter" => 3,
                _ => 5,
            };
            let mut metric = pairs(labels);
            let mut inner = Vec::new();
            double(&mut inner, 1, value);
            bytes(&mut metric, field, &inner);
            return bytes(&mut self.metrics, 4, &metric);
        }
        let (step, rest) = step(labels);
        if self.open.as_ref().is_none_or(|(open, _)| *open != rest) {
            self.close();
            self.open = Some((rest, Parts::default()));
        }
        let Some((_, parts)) = &mut self.open else { return };
        match (step, name) {
            (Some(step), _) => parts.steps.push((step, value)),
            (None, name) if name.ends_with("_sum") => parts.sum = value,
            (None, _) => parts.count = value as u64,
        }
    }

    /// Adds a native histogram of this family. `count` is the number of its values, `sum` their sum.
    pub(super) fn native(&mut self, labels: &str, native: &Native, count: u64, sum: f64) {
        let mut inner = Vec::new();
        varint(&mut inner, 1, count);
        double(&mut inner, 2, sum);
        varint(&mut inner, 5, zigzag(SCHEMA.into()));
        double(&mut inner, 6, Native::zero_threshold());
        varint(&mut inner, 7, native.zeros());
        let mut end = None;
        for span in native.spans() {
            let mut encoded = Vec::new();
            varint(&mut encoded, 1, zigzag((span.first - end.unwrap_or(0)).into()));
            varint(&mut encoded, 2, span.counts.len() as u64);
            bytes(&mut inner, 12, &encoded);
            end = Some(span.first + span.counts.len() as i32);
        }
        let mut before = 0;
        for count in native.spans().flat_map(|span| span.counts) {
            varint(&mut inner, 13, zigzag(i64::from(*count) - before));
            before = i64::from(*count);
        }
        let mut metric = pairs(labels.trim_start_matches('{').trim_end_matches('}'));
        bytes(&mut metric, 7, &inner);
        bytes(&mut self.metrics, 4, &metric);
    }

    fn close(&mut self) {
        let Some((labels, parts)) = self.open.take() else { return };
        let is_histogram = self.kind == "histogram";
        let mut inner = Vec::new();
        varint(&mut inner, 1, parts.count);
        double(&mut inner, 2, parts.sum);
        for (step, value) in parts.steps {
            let mut encoded = Vec::new();
            if is_histogram {
                varint(&mut encoded, 1, value as u64);
                double(&mut encoded, 2, step);
            } else {
                double(&mut encoded, 1, step);
                double(&mut encoded, 2, value);
            }
            bytes(&mut inner, 3, &encoded);
        }
        let mut metric = pairs(&labels);
        bytes(&mut metric, if is_histogram { 7 } else { 4 }, &inner);
        bytes(&mut self.metrics, 4, &metric);
    }

    /// Writes the message, with its length before it. Writes nothing if there is no metric.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.close();
        out.clear();
        if self.metrics.is_empty() {
            return;
        }
        let kind = match &*self.kind {
            "counter" => 0,
            "gauge" => 1,
            "summary" => 2,
            "histogram" => 4,
            _ => 3,
        };
        let mut head = Vec::new();
        bytes(&mut head, 1, self.name.as_bytes());
        bytes(&mut head, 2, self.help.as_bytes());
        varint(&mut head, 3, kind);
        number(out, (head.len() + self.metrics.len()) as u64);
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.metrics);
        self.metrics.clear();
    }
}

/// Splits labels into the bound or the quantile, and the other labels.
fn step(labels: &str) -> (Option<f64>, String) {
    for key in ["le=\"", "quantile=\""] {
        let begin = if labels.starts_with(key) { Some(0) } else { labels.rfind(&format!(",{key}")).map(|at| at + 1) };
        if let Some(begin) = begin
            && let Some(length) = labels[begin + key.len()..].find('"')
        {
            let from = begin + key.len();
            let step = labels[from..from + length].parse().ok();
            let rest = format!("{}{}", labels[..begin].trim_end_matches(','), &labels[from + length + 1..]);
            return (step, rest);
        }
    }
    (None, labels.into())
}

/// Labels as messages.
fn pairs(labels: &str) -> Vec<u8> {
    let mut encoded = Vec::new();
    let mut rest = labels;
    while let Some((name, value)) = rest.split_once("=\"") {
        let (mut text, mut escaped, mut end) = (String::new(), false, value.len());
        for (at, character) in value.char_indices() {
            match character {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => {
                    end = at;
                    break;
                }
                'n' if escaped => {
                    text.push('\n');
                    escaped = false;
                }
                _ => {
                    text.push(character);
                    escaped = false;
                }
            }
        }
        let mut pair = Vec::new();
        bytes(&mut pair, 1, name.trim_start_matches(',').as_bytes());
        bytes(&mut pair, 2, text.as_bytes());
        bytes(&mut encoded, 1, &pair);
        rest = value.get(end + 1..).unwrap_or("");
    }
    encoded
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn varint(out: &mut Vec<u8>, field: u64, value: u64) {
    number(out, field << 3);
    number(out, value);
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    number(out, field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    number(out, field << 3 | 2);
    number(out, value.len() as u64);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, fill: impl FnOnce(&mut Family)) -> Vec<u8> {
        let mut family = Family::default();
        family.begin("a", "A.", kind);
        fill(&mut family);
        let mut out = Vec::new();
        family.finish(&mut out);
        assert_eq!(out.first().map_or(0, |length| usize::from(*length)), out.len().saturating_sub(1), "short ones");
        out
    }

    #[test]
    fn a_counter_is_as_its_fields_say() {
        let found = message("counter", |family| family.line("a_total{x=\"1\\\"\"} 3\n"));
        let value = 3f64.to_le_bytes();
        let wanted = [
            &[33, 10, 1, b'a', 18, 2, b'A', b'.', 24, 0, 34, 20, 10, 7, 10, 1, b'x', 18, 2, b'1', b'"', 26, 9, 9][..],
            &value,
        ];
        assert_eq!(found[1..], wanted.concat()[1..]);
    }

    #[test]
    fn lines_of_one_histogram_are_one_metric() {
        let lines =
            "a_bucket{x=\"1\",le=\"0.5\"} 1\na_bucket{x=\"1\",le=\"+Inf\"} 2\na_sum{x=\"1\"} 3\na_count{x=\"1\"} 2\n";
        let found = message("histogram", |family| lines.lines().for_each(|line| family.line(line)));
        assert_eq!(found.iter().filter(|byte| **byte == 34).count(), 1, "{found:?}");
        assert_eq!(step("x=\"1\",le=\"+Inf\""), (Some(f64::INFINITY), "x=\"1\"".into()));
        assert_eq!(step("le=\"0.5\""), (Some(0.5), "".into()));
    }

    #[test]
    fn a_family_without_metrics_is_no_message() {
        assert!(message("gauge", |_| {}).is_empty());
    }
}
