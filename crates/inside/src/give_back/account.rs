//! The account of a process that gave memory back, as text for a user, as JSON, and as a line for an audit log. It is made from the
//! readings before and after, and from the calls.

use std::time::Duration;

use allocanary_heap::Reading;
use allocanary_text::Foreign;
use allocanary_text::bound::Bound;
use allocanary_text::outside::in_one_line;
use allocanary_text::units::{Unit, show_duration, show_time};
use serde::Serialize;

use crate::give_back::plan::{HeapPlan, forecast, not_known, without_call};
use crate::give_back::{GiveBackResult, Refusal};

/// The version of the JSON. A reader refuses later versions.
pub const SCHEMA: u32 = 1;

/// An account of one process. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GiveBackAccount {
    /// The version of its format: [`SCHEMA`].
    pub schema: u32,
    /// When it was written, in milliseconds since 1970.
    #[serde(rename = "written_timestamp_seconds", with = "allocanary_text::seconds::millis")]
    pub time: u64,
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: Foreign,
    /// The ID of the user who gave the command.
    pub user: u32,
    /// Resident bytes before.
    #[serde(rename = "before_bytes")]
    pub before: u64,
    /// Resident bytes after; `None` if nothing was called, or if they could not be read.
    #[serde(rename = "after_bytes")]
    pub after: Option<u64>,
    /// The bytes that were expected to be given back; `None` if the heap could not be divided into parts.
    #[serde(rename = "reclaimable_bytes")]
    pub forecast: Option<u64>,
    /// How sure the forecast is.
    pub bound: Bound,
    /// Resident bytes that belong to no known allocator.
    #[serde(rename = "unknown_bytes")]
    pub not_known: u64,
    /// Allocators that have no call which gives memory back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_call: Vec<String>,
    /// The calls for each heap.
    pub calls: Vec<HeapCalls>,
}

/// The calls for one heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeapCalls {
    /// The allocator.
    pub allocator: String,
    /// The calls.
    pub calls: Vec<String>,
    /// Its forecast.
    #[serde(rename = "reclaimable_bytes")]
    pub forecast: Option<u64>,
    /// How sure this forecast is.
    pub bound: Bound,
    /// The ID of the thread that made the calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The system call in which this thread waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// How long the calls took, in microseconds.
    #[serde(
        rename = "took_seconds",
        with = "allocanary_text::seconds::some_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub took: Option<u64>,
    /// Why the calls were not made, or why they failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl HeapCalls {
    /// The calls that would be made.
    pub fn planned(planned: &HeapPlan) -> HeapCalls {
        HeapCalls {
            allocator: planned.remedy.allocator.into(),
            calls: (planned.remedy.calls)().into_iter().map(|call| call.name).collect(),
            forecast: planned.forecast,
            bound: Bound::of(planned.forecast, planned.at_most),
            thread: None,
            wait: None,
            took: None,
            error: None,
        }
    }

    /// The thread that could make the calls, or why no thread can. Nothing was called.
    pub fn checked(planned: &HeapPlan, result: &Result<GiveBackResult, Refusal>) -> HeapCalls {
        HeapCalls { took: None, ..HeapCalls::made(planned, result) }
    }

    /// The calls that were made, or why not.
    pub fn made(planned: &HeapPlan, result: &Result<GiveBackResult, Refusal>) -> HeapCalls {
        let called = HeapCalls::planned(planned);
        match result {
            Err(refusal) => HeapCalls { error: Some(refusal.to_string()), ..called },
            Ok(done) => HeapCalls {
                thread: Some(done.tid),
                wait: Some(done.wait.into()),
                took: Some(done.took.as_micros() as u64),
                error: done.failure().map(|(name, error)| format!("{name}: {error}")),
                ..called
            },
        }
    }
}

impl GiveBackAccount {
    /// The account of a plan. `time` is in milliseconds since 1970.
    pub fn of(reading: &Reading, planned: &[HeapPlan], user: u32) -> GiveBackAccount {
        GiveBackAccount {
            schema: SCHEMA,
            time: reading.taken,
            pid: reading.process.pid,
            name: reading.process.name.clone(),
            user,
            before: reading.counted_resident(),
            after: None,
            forecast: forecast(planned),
            bound: Bound::of(forecast(planned), planned.iter().any(|one| one.at_most)),
            not_known: not_known(reading),
            without_call: without_call(reading),
            calls: planned.iter().map(HeapCalls::planned).collect(),
        }
    }

    /// The bytes that were given back; 0 if the process grew in the same time.
    pub fn given(&self) -> Option<u64> {
        Some(self.before.saturating_sub(self.after?))
    }

    /// Whether every call was made and succeeded.
    pub fn is_done(&self) -> bool {
        self.after.is_some() && self.is_possible()
    }

    /// Whether there are known calls, and nothing forbids them.
    pub fn is_possible(&self) -> bool {
        self.calls.iter().all(|call| call.error.is_none()) && !(self.calls.is_empty() && self.not_known > 0)
    }

    /// The forecast as text for a user, in several lines.
    pub fn expectation(&self) -> String {
        let head = format!("process {} ({}): {} resident", self.pid, in_one_line(self.name.raw()), bytes(self.before));
        let rest = match self.not_known {
            0 => String::new(),
            rest => format!("{} of it belong to no allocator that is known here", bytes(rest)),
        };
        if self.calls.is_empty() {
            return match rest.as_str() {
                "" if !self.without_call.is_empty() => format!(
                    "{head}. There is no call that gives memory back in {}. Nothing was called.\n",
                    self.without_call.join(" and ")
                ),
                "" => format!("{head}. Its allocator would give nothing back.\n"),
                rest => format!("{head}. What it would give back is not known: {rest}. Nothing was called.\n"),
            };
        }
        let line = |call: &HeapCalls| {
            let expected = match call.forecast {
                Some(forecast) if call.bound == Bound::AtMost => format!("would give back at most {}", bytes(forecast)),
                Some(forecast) => format!("would give back {}", bytes(forecast)),
                None => "would give back an amount that is not known: the heap could not be analysed".into(),
            };
            let who = match (&call.error, call.thread, &call.wait) {
                (Some(error), ..) => format!("    refused: {error}\n"),
                (None, Some(thread), Some(wait)) => format!("    by thread {thread}, which waits in {wait}\n"),
                _ => String::new(),
            };
            format!("  {}: {} {expected}\n{who}", call.allocator, call.calls.join(", "))
        };
        let rest = if rest.is_empty() { rest } else { format!("  {rest}\n") };
        format!("{head}\n{}{rest}", self.calls.iter().map(line).collect::<String>())
    }

    /// The result as text for a user, in several lines. The answer is in the last one.
    pub fn result(&self) -> String {
        let call = |call: &HeapCalls| match (&call.error, call.thread, &call.wait, call.took) {
            (Some(error), ..) => format!("  {}: {error}\n", call.allocator),
            (None, Some(thread), Some(wait), Some(took)) => format!(
                "  {}: {} by thread {thread} in {}; it waits again in {wait}\n",
                call.allocator,
                call.calls.join(", "),
                show_duration(Duration::from_micros(took))
            ),
            _ => String::new(),
        };
        let calls: String = self.calls.iter().map(call).collect();
        let Some((after, given)) = self.after.zip(self.given()) else { return calls };
        let expected = match self.forecast {
            Some(forecast) if self.bound == Bound::AtMost => format!(" (expected: at most {})", bytes(forecast)),
            Some(forecast) => format!(" (expected: {})", bytes(forecast)),
            None => String::new(),
        };
        format!(
            "{calls}given back: {}{expected}. Resident: {}, before {}.\n",
            bytes(given),
            bytes(after),
            bytes(self.before)
        )
    }

    /// A line for an audit log: names and values, without spaces in a value.
    pub fn audit(&self) -> String {
        let number = |value: Option<u64>| value.map_or("-".into(), |value| value.to_string());
        let calls: Vec<String> = self.calls.iter().flat_map(|call| call.calls.iter().cloned()).collect();
        let errors: Vec<&str> = self.calls.iter().filter_map(|call| call.error.as_deref()).collect();
        let result = if self.is_done() {
            "done".into()
        } else {
            format!("refused error=\"{}\"", in_one_line(&errors.join("; ")).replace('"', "'"))
        };
        format!(
            "time={}Z user={} pid={} name={} calls={} before_bytes={} after_bytes={} reclaimable_bytes={} given_bytes={} result={result}\n",
            show_time(Duration::from_millis(self.time)).replace(' ', "T"),
            self.user,
            self.pid,
            in_one_line(self.name.raw()).replace([' ', '='], "_"),
            calls.join(","),
            self.before,
            number(self.after),
            number(self.forecast),
            number(self.given()),
        )
    }
}

fn bytes(count: u64) -> String {
    Unit::Bytes.show(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> GiveBackAccount {
        let call = HeapCalls {
            allocator: "glibc".into(),
            calls: vec!["malloc_trim(0)".into()],
            forecast: Some(45 << 20),
            bound: Bound::Exact,
            thread: Some(42),
            wait: Some("poll".into()),
            took: Some(3000),
            error: None,
        };
        GiveBackAccount {
            schema: SCHEMA,
            time: 1_764_150_000_000,
            pid: 42,
            name: "my server".into(),
            user: 0,
            before: 61 << 20,
            after: Some(16 << 20),
            forecast: Some(45 << 20),
            bound: Bound::Exact,
            not_known: 0,
            without_call: Vec::new(),
            calls: vec![call],
        }
    }

    #[test]
    fn the_forecast_is_told_before_and_the_result_after() {
        assert_eq!(
            account().expectation(),
            "process 42 (my server): 61.0 MiB resident\n  glibc: malloc_trim(0) would give back 45.0 MiB\n    \
             by thread 42, which waits in poll\n"
        );
        assert_eq!(
            account().result(),
            "  glibc: malloc_trim(0) by thread 42 in 3.00 ms; it waits again in poll\n\
             given back: 45.0 MiB (expected: 45.0 MiB). Resident: 16.0 MiB, before 61.0 MiB.\n"
        );
        let none = GiveBackAccount { calls: Vec::new(), ..account() };
        assert!(none.expectation().contains("would give nothing back") && none.is_possible());
        let musl = GiveBackAccount { without_call: vec!["musl's malloc".into()], ..none.clone() };
        assert!(musl.expectation().contains("no call that gives memory back in musl's malloc") && musl.is_possible());
        let unknown = GiveBackAccount { not_known: 50 << 20, ..none };
        assert!(unknown.expectation().contains("is not known: 50.0 MiB of it belong to no allocator"));
        assert!(!unknown.is_possible());
        let mut refused = account();
        refused.calls[0].error = Some("it is traced".into());
        assert!(refused.expectation().ends_with("45.0 MiB\n    refused: it is traced\n") && !refused.is_possible());
    }

    #[test]
    fn a_bound_is_of_a_number_and_each_heap_has_its_own() {
        let mut two = account();
        (two.bound, two.calls[0].bound) = (Bound::AtMost, Bound::Exact);
        let jemalloc = HeapCalls { allocator: "jemalloc".into(), bound: Bound::AtMost, ..two.calls[0].clone() };
        two.calls.push(jemalloc);
        let said = two.expectation();
        assert!(said.contains("glibc: malloc_trim(0) would give back 45.0 MiB\n"), "{said}");
        assert!(said.contains("jemalloc: malloc_trim(0) would give back at most 45.0 MiB\n"), "{said}");
        let undivided = GiveBackAccount { forecast: None, bound: Bound::of(None, false), ..two };
        let json = serde_json::to_value(&undivided).unwrap();
        assert_eq!((&json["reclaimable_bytes"], &json["bound"]), (&serde_json::Value::Null, &"unknown".into()));
        assert_eq!((&json["calls"][0]["bound"], &json["calls"][1]["bound"]), (&"exact".into(), &"at_most".into()));
    }

    #[test]
    fn a_line_of_the_log_has_no_space_in_a_value() {
        assert_eq!(
            account().audit(),
            "time=2025-11-26T09:40Z user=0 pid=42 name=my_server calls=malloc_trim(0) before_bytes=63963136 after_bytes=16777216 \
             reclaimable_bytes=47185920 given_bytes=47185920 result=done\n"
        );
        let mut refused = GiveBackAccount { after: None, ..account() };
        refused.calls[0].error = Some("process 42: \"x\"\nis traced".into());
        assert!(!refused.is_done());
        let line = refused.audit();
        assert!(line.ends_with("given_bytes=- result=refused error=\"process 42: 'x' is traced\"\n"), "{line}");
        assert!(refused.result().contains("is traced") && !refused.result().contains("given back"));
    }

    #[test]
    fn a_process_that_grew_has_given_nothing() {
        let grown = GiveBackAccount { after: Some(62 << 20), ..account() };
        assert_eq!(grown.given(), Some(0));
    }
}
