//! Which sites hold more than before. In: the sites of two traces, a gate. Out: text, an answer, JSON. The earlier sites may come from
//! JSON.

use allocanary_text::outside::TerminalStyle;
use std::time::Duration;

use allocanary_text::units::{Bytes, show_duration, show_share};
use allocanary_who::SiteReport;
use allocanary_who::against::{EarlierSites, Holds, SiteChange, TIME, changes, is_beyond};
use serde_json::{Value, json};

use super::{SMALL, function};
use crate::draw::{Answer, document, object};
use crate::views::heap::{bold, columns, item};

/// The number of sites that a sentence names.
const NAMED: usize = 3;

/// Two traces of one program.
pub struct TraceComparison<'a> {
    /// The earlier trace.
    pub old: EarlierSites,
    /// The later trace.
    pub found: &'a SiteReport,
    /// All sites, the one that grew most first.
    pub changes: Vec<SiteChange>,
    /// The limit of a site's growth, as a share of the old heap.
    pub gate: Option<f64>,
    /// The differences between the two traces, except the program.
    pub notes: Vec<String>,
}

impl<'a> TraceComparison<'a> {
    /// Compares the two. The error says why they cannot be compared.
    pub fn of(old: EarlierSites, found: &'a SiteReport, gate: Option<f64>) -> Result<Self, String> {
        let new = EarlierSites::of(found);
        if old.by != new.by {
            return Err(format!("wanted sites by {}, found them by {}", new.by, old.by));
        }
        if old.at != new.at {
            return Err(format!("wanted the moment `{}` as in the new trace, found `{}`: give --at", new.at, old.at));
        }
        if let (Some(old), Some(new)) = (old.time, new.time)
            && old != new
        {
            let [new, old] = [new, old].map(|nanos| show_duration(Duration::from_nanos(nanos)));
            return Err(format!("wanted the sites {new} after the start, as in the new trace, found them at {old}"));
        }
        if old.resident == 0 {
            return Err("wanted a heap to compare with, found no page of it".into());
        }
        let mut notes = Vec::new();
        if old.empty.is_some() != new.empty.is_some() {
            notes.push(
                "Which pages were resident is known of one of the two only: what sites pin differs by that alone."
                    .into(),
            );
        }
        Ok(TraceComparison { changes: changes(&old, &new), old, found, gate, notes })
    }

    /// The sites that grew beyond the gate.
    pub fn beyond(&self) -> Vec<&SiteChange> {
        let is_beyond = |change: &&SiteChange| self.gate.is_some_and(|most| is_beyond(change, &self.old, most));
        self.changes.iter().filter(is_beyond).collect()
    }

    /// Whether the gate passes. Without a gate it always does.
    pub fn passes(&self) -> bool {
        self.beyond().is_empty()
    }

    fn sentence(&self) -> String {
        let name = |change: &SiteChange| format!("`{}` (+{})", change.name, Bytes(change.growth() as u64));
        let list = |all: &[&SiteChange]| all.iter().take(NAMED).map(|one| name(one)).collect::<Vec<_>>().join(", ");
        let (program, words, old) = (&self.found.program, self.found.moment.words, Bytes(self.old.resident));
        let head = format!("{program}, {words}: {} of the heap, and {old} before", Bytes(self.found.pages.resident()));
        let beyond = self.beyond();
        match self.gate.map(show_share) {
            Some(most) if !beyond.is_empty() => {
                let (count, s, hold) = match beyond.len() {
                    1 => (1, "", "holds"),
                    count => (count, "s", "hold"),
                };
                format!(
                    "{head}. The gate is broken: {count} site{s} {hold} more by over {most} of that: {}.",
                    list(&beyond)
                )
            }
            Some(most) => format!("{head}. No site holds more by over {most} of that: the gate holds."),
            None => {
                let grown: Vec<&SiteChange> = self.changes.iter().filter(|change| change.growth() > 0).collect();
                match grown[..] {
                    [] => format!("{head}. No site holds more."),
                    _ => format!("{head}. More is held by {}.", list(&grown)),
                }
            }
        }
    }

    fn answer(&self) -> Answer {
        let choice = match (self.gate, self.passes()) {
            (None, _) => "compared",
            (_, true) => "passed",
            (_, false) => "failed",
        };
        let facts = json!({
            "choice": choice, "program": self.found.program, "at": self.found.moment.name, "gate_ratio": self.gate,
            "pages_bytes": self.found.pages.resident(), "pages_before_bytes": self.old.resident,
        });
        Answer { text: self.sentence(), pasted: None, facts: object(facts) }
    }

    /// The answer in one sentence.
    pub fn short(&self) -> Answer {
        self.answer()
    }

    /// The answer, and the `top` sites that grew or shrank most.
    pub fn text(&self, top: usize, look: &TerminalStyle) -> String {
        let (unit, size) = if self.old.resident < SMALL { ("KiB", 10) } else { ("MiB", 20) };
        let show = |bytes: i128| format!("{:.1}", bytes as f64 / f64::from(1_u32 << size));
        let signed = |bytes: i128| if bytes > 0 { format!("+{}", show(bytes)) } else { show(bytes) };
        let pinned = |change: &SiteChange| i128::from(change.new.pinned) - i128::from(change.old.pinned);
        let mut table = vec![["site", "before", "now", "more", "of it pinned", ""].map(String::from).to_vec()];
        let mut shown: Vec<&SiteChange> = self.changes.iter().filter(|change| change.growth() != 0).collect();
        shown.sort_by_key(|change| std::cmp::Reverse(change.growth().unsigned_abs()));
        shown.truncate(top);
        let beyond = self.beyond();
        for change in shown {
            let mark = if beyond.contains(&change) { "gate" } else { "" };
            table.push(vec![
                change.name.clone(),
                show(change.old.all().into()),
                show(change.new.all().into()),
                signed(change.growth()),
                signed(pinned(change)),
                mark.into(),
            ]);
        }
        let title = format!("What sites hold, requested and pinned, by {} ({unit})", self.old.by);
        let answer = crate::draw::wrapped(&self.sentence(), look.width.into());
        let mut out = format!("{}\n\n{}\n{}", bold(&answer, look), bold(&title, look), columns(&table, look));
        if !self.notes.is_empty() {
            out.push_str(&format!("\n{}\n", bold("What limits these figures", look)));
            self.notes.iter().for_each(|note| out.push_str(&item(note, look)));
        }
        out
    }

    /// The whole comparison for a script.
    pub fn json(&self, top: Option<usize>) -> String {
        let beyond = self.beyond();
        let holds = |holds: Holds| json!({ "requested_bytes": holds.live, "pinned_bytes": holds.pinned });
        let of = |change: &SiteChange| {
            json!({
                "name": change.name, "module": change.module, "before": holds(change.old), "now": holds(change.new),
                "growth_bytes": change.growth() as i64, "beyond": beyond.contains(&change),
            })
        };
        let sites: Vec<Value> = self.changes.iter().take(top.unwrap_or(usize::MAX)).map(of).collect();
        document("who", &[self.answer()], object(json!({ "by": self.old.by, "changes": sites, "notes": self.notes })))
    }
}

/// The sites that an earlier `who --json` printed. The error says what is missing.
pub fn before(text: &str) -> Result<EarlierSites, String> {
    let page: Value =
        serde_json::from_str(text).map_err(|error| format!("wanted the output of who --json: {error}"))?;
    let missing = |what: &str| format!("wanted the output of who --json, found none of its `{what}`");
    let number = |of: &Value, key: &str| of[key].as_u64().ok_or_else(|| missing(key));
    let word = |of: &Value, key: &str| of[key].as_str().map(String::from).ok_or_else(|| missing(key));
    let nanos = |of: &Value| {
        let seconds = of["at_seconds"].as_f64().ok_or_else(|| missing("at_seconds"))?;
        Ok::<_, String>((seconds * 1e9).round() as u64)
    };
    let answer = &page["answers"][0];
    let listed = page["sites"].as_array().ok_or_else(|| missing("sites"))?;
    let mut sites = Vec::new();
    for site in listed {
        let holds = Holds { live: number(site, "requested_bytes")?, pinned: number(site, "pinned_bytes")? };
        sites.push((function::key(site).ok_or_else(|| missing("name"))?, holds));
    }
    let pinned: u64 = sites.iter().map(|(_, holds)| holds.pinned).fold(0, u64::saturating_add);
    // If a sample was taken, the sites' figures are estimates, which need not add up.
    let lacks = page["one_in"].is_null() && pinned < number(answer, "pinned_bytes")?;
    // A site without pinned pages can still have live blocks.
    let left_out = ["requested_bytes", "pinned_bytes"].iter().any(|what| page["left_out"][what].as_u64() > Some(0));
    if lacks || left_out {
        return Err("it has not all sites: wanted the output of who --json without --top".into());
    }
    let at = word(answer, "at")?;
    Ok(EarlierSites {
        time: if at == TIME { Some(nanos(answer)?) } else { None },
        at,
        by: word(&page, "by")?,
        resident: number(answer, "pages_bytes")?,
        empty: answer["empty_bytes"].as_u64(),
        sites,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;
    use allocanary_who::same::SiteKey;

    const MIB: u64 = 1 << 20;

    /// `dictAddRaw` held 10 MiB less, and there was one more site.
    fn old() -> EarlierSites {
        let mut old = EarlierSites::of(&found());
        old.resident = 100 * MIB;
        old.sites[0].1.pinned -= 10 * MIB;
        let gone = SiteKey { name: "gone".into(), module: "redis-server".into(), ..SiteKey::default() };
        old.sites.push((gone, Holds { live: MIB, pinned: MIB / 2 }));
        old
    }

    const TABLE: &str = "\
redis-server, when idle: 107 MiB of the heap, and 100 MiB before. The gate is
broken: 1 site holds more by over 5 % of that: `dictAddRaw` (+10.0 MiB).

What sites hold, requested and pinned, by function (MiB)
  site        before   now   more  of it pinned
  dictAddRaw    34.0  44.0  +10.0         +10.0  gate
  gone           1.5   0.0   -1.5          -0.5
";

    #[test]
    fn a_site_beyond_the_gate_is_named() {
        let found = found();
        let comparison = TraceComparison::of(old(), &found, Some(0.05)).unwrap();
        assert!(!comparison.passes());
        let said = comparison.text(15, &TerminalStyle { color: false, width: 80 });
        assert_eq!(said, TABLE, "{said}");
        let json: Value = serde_json::from_str(&comparison.json(Some(1))).unwrap();
        assert_eq!((&json["answers"][0]["choice"], &json["changes"][0]["beyond"]), (&json!("failed"), &json!(true)));
        assert_eq!(json["changes"][0]["growth_bytes"], json!(10 * MIB));
        for (gate, choice, words) in [
            (Some(0.1), "passed", "No site holds more by over 10 % of that: the gate holds."),
            (None, "compared", "More is held by `dictAddRaw` (+10.0 MiB)."),
        ] {
            let comparison = TraceComparison::of(old(), &found, gate).unwrap();
            let answer = comparison.short();
            assert!(comparison.passes() && answer.text.ends_with(words), "{}", answer.text);
            assert_eq!(answer.facts["choice"], json!(choice));
        }
    }

    #[test]
    fn an_earlier_output_is_as_good_as_the_trace() {
        let found = found();
        let read = before(&super::super::json(&found, None, super::super::SiteDisplay::default())).unwrap();
        assert_eq!(read, EarlierSites::of(&found));
        let error = before(&super::super::json(&found, None, super::super::SiteDisplay { top: Some(1), order: None }))
            .unwrap_err();
        assert!(error.contains("without --top"), "{error}");
        let order = Some(allocanary_who::SiteOrder::Pinned);
        let of = |top| super::super::json(&found, None, super::super::SiteDisplay { top: Some(top), order });
        // The third site pins nothing, and has live bytes. The fourth has neither.
        assert!(before(&of(2)).unwrap_err().contains("without --top"), "{}", of(2));
        assert_eq!(before(&of(3)).unwrap().sites.len(), 3);
        let script: Value = serde_json::from_str(&of(2)).unwrap();
        assert_eq!(script["left_out"], json!({ "sites": 2, "requested_bytes": 3 * MIB, "pinned_bytes": 0 }));
        for text in ["", "{}", "[1]", r#"{"sites": [{"name": "a"}]}"#] {
            assert!(before(text).unwrap_err().contains("wanted the output of who --json"), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused_or_said() {
        let found = found();
        let refused = |change: fn(&mut EarlierSites)| {
            let mut old = old();
            change(&mut old);
            TraceComparison::of(old, &found, None).err().unwrap_or_default()
        };
        assert!(refused(|old| old.by = "module".into()).contains("wanted sites by function, found them by module"));
        assert!(refused(|old| old.at = "peak".into()).contains("wanted the moment `idle`"));
        assert!(refused(|old| old.resident = 0).contains("found no page"));
        let blind = TraceComparison::of(EarlierSites { empty: None, ..old() }, &found, None).unwrap();
        assert!(blind.text(9, &TerminalStyle { color: false, width: 80 }).contains("is known of one of the two only"));
    }
}
