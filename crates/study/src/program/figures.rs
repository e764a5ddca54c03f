//! Figures that the user names, from the output of a load or a program. In: `NAME[:UNIT][:higher|:lower]` and a regular
//! expression. Out: a number in its base unit, or why there is none.

use regex_lite::Regex;

use allocanary_measure::metrics::{ALL as METRICS, Better, Metric};
use allocanary_rows::program::Figure;
use allocanary_text::units::Unit;

/// A figure to read.
#[derive(Debug)]
pub struct FigurePattern {
    /// Its name: `p99`.
    pub name: String,
    unit: Option<(Unit, f64)>,
    better: Better,
    expression: Regex,
}

/// Units as programs write them, each with its base unit and factor.
const UNITS: [(&str, Unit, f64); 22] = [
    ("ns", Unit::Nanoseconds, 1.0),
    ("us", Unit::Nanoseconds, 1e3),
    ("µs", Unit::Nanoseconds, 1e3),
    ("usec", Unit::Nanoseconds, 1e3),
    ("ms", Unit::Nanoseconds, 1e6),
    ("msec", Unit::Nanoseconds, 1e6),
    ("s", Unit::Nanoseconds, 1e9),
    ("sec", Unit::Nanoseconds, 1e9),
    ("/s", Unit::PerSecond, 1.0),
    ("k/s", Unit::PerSecond, 1e3),
    ("K/s", Unit::PerSecond, 1e3),
    ("M/s", Unit::PerSecond, 1e6),
    ("B", Unit::Bytes, 1.0),
    ("bytes", Unit::Bytes, 1.0),
    ("KB", Unit::Bytes, 1024.0),
    ("kB", Unit::Bytes, 1024.0),
    ("KiB", Unit::Bytes, 1024.0),
    ("MB", Unit::Bytes, 1048576.0),
    ("MiB", Unit::Bytes, 1048576.0),
    ("GB", Unit::Bytes, 1073741824.0),
    ("GiB", Unit::Bytes, 1073741824.0),
    ("count", Unit::Count, 1.0),
];

impl FigurePattern {
    /// Parses what the user wants: `p99:ms` and `p99=([0-9.]+)`.
    pub fn parse(key: &str, expression: &str) -> Result<FigurePattern, String> {
        let mut parts = key.split(':');
        let name = parts.next().unwrap_or_default().trim().to_string();
        let plain = |c: char| c.is_alphanumeric() || "_-./".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(format!("--metric: wanted NAME=REGEX such as throughput='([0-9.]+) requests', found `{key}`"));
        }
        let (mut unit, mut better) = (None, None);
        for part in parts {
            match (part, UNITS.iter().find(|(known, _, _)| *known == part)) {
                ("higher", _) => better = Some(Better::Higher),
                ("lower", _) => better = Some(Better::Lower),
                (_, Some((_, base, factor))) => unit = Some((*base, *factor)),
                _ => {
                    let known: Vec<&str> = UNITS.iter().map(|(name, _, _)| *name).collect();
                    let known = known.join(", ");
                    return Err(format!("--metric {key}: wanted higher, lower or a unit ({known}), found `{part}`"));
                }
            }
        }
        let known = built_in(&name);
        let rate = ["throughput", "rate", "rps", "qps", "tps", "ops", "per_s"].iter().any(|word| name.contains(word));
        if unit.is_none() && known.is_none() {
            let suffix = name.rsplit('_').next().filter(|suffix| *suffix != name).unwrap_or_default();
            let by_name = UNITS.iter().find(|(known, _, _)| *known == suffix && !rate);
            unit = by_name.map(|(_, base, factor)| (*base, *factor)).or(rate.then_some((Unit::PerSecond, 1.0)));
        }
        if let (Some(known), Some((unit, _))) = (known, unit)
            && known.unit != unit
        {
            let (wanted, found) = (known.unit.name(), unit.name());
            return Err(format!("--metric {key}: {name} is in {wanted}, found {found}: give it another name"));
        }
        if let (Some(known), Some(better)) = (known, better)
            && known.better != better
        {
            let (wanted, found) = (known.better.text(), better.text());
            return Err(format!("--metric {key}: of {name} {wanted} is better, found {found}: give it another name"));
        }
        let better = known.map(|known| known.better).or(better).unwrap_or(match rate {
            true => Better::Higher,
            false => Better::Lower,
        });
        let expression = Regex::new(expression)
            .map_err(|error| format!("--metric {key}: not a regular expression: {}", one_line(&error.to_string())))?;
        if expression.captures_len() < 2 {
            return Err(format!("--metric {key}: wanted a group in parentheses around the number, as in ([0-9.]+)"));
        }
        Ok(FigurePattern { name, unit, better, expression })
    }

    /// The figure in a text: the last match counts. A second group is the unit.
    pub fn find(&self, text: &str) -> Result<Figure, String> {
        let Some(found) = self.expression.captures_iter(text).last() else {
            return Err(format!("--metric {}: `{}` does not match the output", self.name, self.expression));
        };
        let number = found.get(1).map_or("", |group| group.as_str());
        let value: f64 = number
            .replace([',', '_'], "")
            .trim()
            .parse()
            .map_err(|_| format!("--metric {}: wanted a number in the first group, found `{number}`", self.name))?;
        let said = found.get(2).map(|group| group.as_str());
        let by_text = said.map(|said| {
            let known = UNITS.iter().find(|(known, _, _)| *known == said);
            known.map(|(_, base, factor)| (*base, *factor)).ok_or_else(|| {
                format!("--metric {}: wanted a unit such as ms in the second group, found `{said}`", self.name)
            })
        });
        let known = built_in(&self.name).map(|metric| metric.unit);
        let unit = by_text.transpose()?.or(self.unit);
        let (unit, factor) = match (unit, known) {
            (Some((unit, _)), Some(known)) if unit != known => {
                let (name, wanted, found) = (&self.name, known.name(), unit.name());
                return Err(format!("--metric {name}: {name} is in {wanted}, found {found}: give it another name"));
            }
            (Some(unit), _) => unit,
            (None, None) => (Unit::Count, 1.0),
            (None, Some(Unit::Nanoseconds | Unit::Microseconds | Unit::Bytes)) => {
                let name = &self.name;
                let text = format!("--metric {name}: say the unit of the number, as in {name}:ms=REGEX");
                return Err(text);
            }
            (None, Some(unit)) => (unit, 1.0),
        };
        if !value.is_finite() {
            return Err(format!("--metric {}: wanted a finite number, found `{number}`", self.name));
        }
        if value < 0.0 {
            // Figures are compared as ratios, so they must not be negative.
            return Err(format!("--metric {}: wanted zero or more, found `{number}`", self.name));
        }
        Ok(Figure { value: value * factor, unit: unit.name().into(), better: self.better.text().into() })
    }
}

/// The metric of this name that every row has.
fn built_in(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(key: &str, expression: &str, text: &str) -> Result<(f64, String, String), String> {
        let figure = FigurePattern::parse(key, expression)?.find(text)?;
        Ok((figure.value, figure.unit, figure.better))
    }

    #[test]
    fn a_figure_has_a_unit_and_a_direction() {
        let redis =
            "GET: 98,039.22 requests per second, p50=0.255 msec\nGET: 99000.5 requests per second, p50=0.300 msec";
        let ok = |value: f64, unit: &str, better: &str| Ok((value, unit.to_string(), better.to_string()));
        assert_eq!(found("throughput", "([0-9.,]+) requests", redis), ok(99000.5, "1/s", "higher"));
        assert_eq!(found("p50", "p50=([0-9.]+) (msec)", redis), ok(300_000.0, "ns", "lower"));
        assert_eq!(found("p50:ms", "p50=([0-9.]+)", redis), ok(300_000.0, "ns", "lower"));
        assert_eq!(found("mean_us", "p50=([0-9.]+)", redis), ok(300.0, "ns", "lower"));
        assert_eq!(found("qps", "([0-9.]+) requests", redis), ok(99000.5, "1/s", "higher"));
        assert_eq!(found("p99:ms:lower", "p50=([0-9.]+)", redis), ok(300_000.0, "ns", "lower"));
        assert_eq!(found("keys:count:higher", "k=([0-9]+)", "k=7"), ok(7.0, "count", "higher"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (key, expression, text, said) in [
            ("", "(x)", "x", "wanted NAME=REGEX"),
            ("a b", "(x)", "x", "wanted NAME=REGEX"),
            ("x:parsec", "(x)", "x", "wanted higher, lower or a unit"),
            ("x", "(", "x", "not a regular expression"),
            ("x", "x", "x", "wanted a group in parentheses"),
            ("x", "a(b)", "x", "does not match the output"),
            ("x", "(x)", "x", "wanted a number in the first group, found `x`"),
            ("x", "(.*)", "-3", "wanted zero or more, found `-3`"),
            ("p99", "([0-9])", "1", "say the unit"),
            ("p99:MiB", "([0-9])", "1", "p99 is in ns"),
            ("x", "([0-9]) (.*)", "1 parsec", "wanted a unit such as ms"),
            ("p99:higher", "([0-9])", "1", "of p99 lower is better, found higher: give it another name"),
            ("throughput:lower", "([0-9])", "1", "of throughput higher is better, found lower"),
            ("threads:lower", "([0-9])", "1", "of threads neither is better, found lower"),
            ("p99", "([0-9]) (.*)", "1 MiB", "p99 is in ns, found bytes: give it another name"),
        ] {
            let error = found(key, expression, text).unwrap_err();
            assert!(error.contains(said), "{key}: {error}");
        }
    }
}
