//! Units: parses numbers with units from a user's text, and formats them. In: a text or a number. Out: a number or a text. Every number in
//! a table gets its unit here.

use std::fmt;
use std::time::Duration;

/// An amount of memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&Unit::Bytes.show(self.0 as f64))
    }
}

/// An amount of memory in bytes, always shown with one decimal, for screens with amounts side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OneDecimal(pub u64);

impl fmt::Display for OneDecimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = OneUnit::of(self.0);
        out.pad(&unit.text(unit.tenths(self.0)))
    }
}

/// One unit for all amounts in a sentence. They are shown in tenths of it, so that a reader can add them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneUnit {
    name: &'static str,
    shift: u32,
}

impl OneUnit {
    /// The unit that fits the largest amount.
    pub fn of(most: u64) -> OneUnit {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let (name, shift) = units.into_iter().find(|(_, shift)| most >> shift > 0).unwrap_or(("B", 0));
        OneUnit { name, shift }
    }

    /// Tenths of the unit, rounded.
    pub fn tenths(self, bytes: u64) -> u64 {
        ((u128::from(bytes) * 10 + (1 << self.shift >> 1)) >> self.shift) as u64
    }

    /// The bytes of this many tenths.
    pub fn bytes(self, tenths: u64) -> u64 {
        ((u128::from(tenths) << self.shift) / 10) as u64
    }

    /// This many tenths, as `43.7 MiB`.
    pub fn text(self, tenths: u64) -> String {
        match self.shift {
            0 => format!("{} {}", tenths / 10, self.name),
            _ => format!("{}.{} {}", tenths / 10, tenths % 10, self.name),
        }
    }
}

/// The unit of a reading or a metric. The names of readings end in the unit, as those of Prometheus do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of memory, shown in binary multiples.
    Bytes,
    /// A number of things: faults, threads, arenas.
    Count,
    /// Operations per second.
    PerSecond,
    /// A span of time in nanoseconds.
    Nanoseconds,
    /// Processor time or wall time in microseconds.
    Microseconds,
    /// A quotient of two equal units, such as resident bytes over live bytes.
    Ratio,
}

impl Unit {
    /// The unit's name, as in a table's head and in a CSV column.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::PerSecond => "1/s",
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Ratio => "ratio",
        }
    }

    /// Formats a value: three or four digits and a unit (`84.1 MiB`, `1.25 M/s`, `310 us`, `6.5x`).
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".into();
        }
        match self {
            Unit::Bytes => scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]),
            Unit::Count => scaled(value, 1000.0, &["", " k", " M", " G"]),
            Unit::PerSecond => scaled(value, 1000.0, &["/s", " k/s", " M/s", " G/s"]),
            Unit::Nanoseconds => scaled(value, 1000.0, &[" ns", " us", " ms", " s"]),
            Unit::Microseconds => scaled(value, 1000.0, &[" us", " ms", " s"]),
            Unit::Ratio => format!("{}x", digits(value)),
        }
    }
}

/// The value in one of the multiples in `names`: the largest one that leaves at least one digit before the point.
fn scaled(value: f64, step: f64, names: &[&str]) -> String {
    let mut value = value;
    let mut name = 0;
    // 999.95 would print as "1000.0": use the next unit if the rounded text needs it.
    while value.abs() >= step * 0.99995 && name + 1 < names.len() {
        value /= step;
        name += 1;
    }
    let whole = name == 0 && value.fract() == 0.0;
    let text = if whole { format!("{value:.0}") } else { digits(value) };
    format!("{text}{}", names[name])
}

/// About three significant digits: `1.25`, `84.1`, `310`.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a share: 0.05 is `5 %`.
pub fn show_share(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

/// Parses a size such as `64`, `64K`, `64KiB`, `1.5 GiB` or `8MB`, in bytes. `K`, `KB` and `KiB` are all 1024, as in
/// the allocators themselves.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let suffix = suffix.trim().to_ascii_lowercase();
    let suffix = suffix.strip_suffix("ib").or_else(|| suffix.strip_suffix('b')).unwrap_or(&suffix);
    let shift = match suffix {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * (1_u64 << shift) as f64;
    // Above 2^53 a float is not exact to a byte. No machine that we run on has that much memory.
    (bytes.fract() == 0.0 && bytes <= 9.0e15).then_some(bytes as u64)
}

/// Parses a span of time such as `90`, `90s`, `1.5m`, `250ms` or `2h`. A bare number is in seconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let seconds = match suffix.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

/// Formats a span of time: `4 ms`, `1.5 s`, `2 min 5 s`.
pub fn show_duration(span: Duration) -> String {
    match span.as_secs() {
        seconds if seconds >= 60 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => Unit::Nanoseconds.show(span.as_nanos() as f64),
    }
}

/// A time since 1970 as date and time in UTC: `2026-11-22 13:35`.
pub fn show_time(since_1970: Duration) -> String {
    let minutes = since_1970.as_secs() / 60;
    // The calendar repeats every 400 years of 146,097 days. Years begin in March here, so that a leap day is the last day of its year.
    let days = minutes / (24 * 60) + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02} {:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_beside_each_other_have_one_decimal() {
        let shown = [0, 1023, 1024, 43_725_000, (1 << 30) - 1, 1 << 30].map(|bytes| OneDecimal(bytes).to_string());
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "41.7 MiB", "1024.0 MiB", "1.0 GiB"]);
        let unit = OneUnit::of(100 << 20);
        assert_eq!((unit.tenths(unit.bytes(437)), unit.text(unit.tenths(21 << 10))), (437, "0.0 MiB".into()));
    }

    #[test]
    fn values_are_shown_with_three_digits_and_a_unit() {
        assert_eq!(Unit::Bytes.show(0.0), "0 B");
        assert_eq!(Unit::Bytes.show(1023.0), "1023 B");
        assert_eq!(Unit::Bytes.show(88_185_241.0), "84.1 MiB");
        assert_eq!(Unit::Bytes.show(1024.0 * 1024.0 * 1023.999), "1.00 GiB");
        assert_eq!(Unit::PerSecond.show(1_250_000.0), "1.25 M/s");
        assert_eq!(Unit::Nanoseconds.show(310.0), "310 ns");
        assert_eq!(Unit::Microseconds.show(2_500_000.0), "2.50 s");
        assert_eq!(Unit::Ratio.show(6.5), "6.50x");
        assert_eq!(Unit::Ratio.show(f64::NAN), "-");
        assert_eq!(format!("{:>8}", Bytes(4096)), "4.00 KiB");
    }

    #[test]
    fn sizes_are_read_as_allocators_read_them() {
        let read = [("64", 64), ("4k", 4096), ("1.5KiB", 1536), ("8 MB", 8 << 20), ("1GiB", 1 << 30)];
        for (text, bytes) in read {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "-1", "12q", "1.5", "k", "9999999T", "1e3"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_read_and_shown() {
        assert_eq!(parse_duration("90"), Some(Duration::from_secs(90)));
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(parse_duration("2 h"), Some(Duration::from_secs(7200)));
        for text in ["", "s", "-1s", "5 years", "1e999"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!(show_duration(Duration::from_secs(125)), "2 min 5 s");
        assert_eq!(show_duration(Duration::from_millis(1500)), "1.50 s");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_800, "2000-03-01 00:00"),
            (1_704_067_199, "2023-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(show_time(Duration::from_secs(seconds)), text);
        }
    }
}
