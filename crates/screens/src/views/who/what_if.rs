//! What is saved if a site's blocks are placed elsewhere. In: replays. Out: text for a terminal, an answer, JSON.

mod advice;
mod saved;

use std::time::Duration;

use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::{Bytes, Unit, show_duration};
use allocanary_who::WhatIf;
use allocanary_who::fold::BYS;
use allocanary_who::what_if::{ReplayHeap, Ways};
use serde_json::{Value, json};

use self::advice::Advice;
use self::saved::{Effect, Saved, figure, medians, span};
use super::{SMALL, seconds};
use crate::draw::{Answer, document, object};
use crate::views::heap::{bold, columns, item};

/// One of the two changes, compared with the heap as it is.
struct Change {
    resident: Saved,
    holding: Saved,
    /// Processor time as a ratio, new over old: the interval, or, without an interval, the ratio twice.
    cpu: (f64, f64),
    heap: ReplayHeap,
}

impl Change {
    fn of(as_it_is: &[ReplayHeap], changed: &[ReplayHeap]) -> Option<Change> {
        let saved = |of: fn(&ReplayHeap) -> f64| Saved::of(as_it_is, changed, of);
        let cpu = saved(|heap| heap.cpu)?;
        Some(Change {
            resident: saved(|heap| heap.resident as f64)?,
            holding: saved(|heap| heap.holding as f64)?,
            cpu: cpu.ratios,
            heap: medians(changed)?,
        })
    }
}

/// The results of the replays.
struct Changes {
    as_it_is: ReplayHeap,
    /// `None` if no block of the site survives.
    survivors: Option<Change>,
    whole: Option<Change>,
    repeats: usize,
}

impl Changes {
    fn of(ways: &Ways) -> Option<Changes> {
        let change = |changed: &[ReplayHeap]| Change::of(&ways.as_it_is, changed);
        Some(Changes {
            as_it_is: medians(&ways.as_it_is)?,
            survivors: change(&ways.survivors),
            whole: change(&ways.whole),
            repeats: ways.as_it_is.len(),
        })
    }
}

/// One answer of `who --what-if`.
pub struct WhatIfView<'a> {
    what_if: &'a WhatIf,
    /// The candidate, and the changes.
    changes: Option<(&'a str, Changes)>,
    advice: Option<Advice>,
}

impl<'a> WhatIfView<'a> {
    /// Compares the replays.
    pub fn of(what_if: &'a WhatIf) -> WhatIfView<'a> {
        let replays = what_if.replays.as_ref().ok();
        let changes =
            replays.and_then(|(candidate, ways)| Changes::of(ways).map(|changes| (candidate.as_str(), changes)));
        let advice = changes.as_ref().and_then(|(_, changes)| Advice::of(what_if, changes));
        WhatIfView { what_if, changes, advice }
    }

    /// The answer in words.
    fn sentence(&self) -> String {
        let WhatIf { program, moment, site, share, .. } = self.what_if;
        let (when, name) = (moment.words, &site.name);
        let Some((candidate, changes)) = &self.changes else {
            let why = self.what_if.replays.as_ref().err().map_or("", String::as_str);
            return format!(
                "{program}, {when}: `{name}` pins {}. By the addresses alone: with its survivors elsewhere {} to {} of that and of empty pages \
                 would be free. There was no replay: {why}.",
                Bytes(share.pinned),
                Bytes(share.alone),
                Bytes(share.with_holes)
            );
        };
        let head = format!("{program}, {when}, under {candidate}");
        let all = Bytes(changes.as_it_is.resident);
        let keeps = |change: &Change| change.resident.words(changes.effect(&change.resident));
        match (&changes.survivors, &changes.whole) {
            (Some(survivors), Some(whole)) => format!(
                "{head}: {all} are resident. With the survivors of `{name}` elsewhere the heap keeps {}; with the whole site elsewhere it keeps {}.",
                keeps(survivors),
                keeps(whole)
            ),
            (None, Some(whole)) => format!(
                "{head}: {all} are resident, and no block of `{name}` lives. With the whole site elsewhere the heap keeps {}.",
                keeps(whole)
            ),
            (_, None) => format!("{head}: {all} are resident, and `{name}` makes no block until then."),
        }
    }

    /// The answer in words, and for a script.
    pub fn answer(&self) -> Answer {
        let one = self.what_if;
        let choice = match (&self.changes, self.advice) {
            (None, _) => "unmeasured",
            (_, Some(advice)) => advice.name(),
            (_, None) => "unknown",
        };
        let facts = json!({
            "choice": choice, "program": one.program, "at": one.moment.name,
            "at_seconds": seconds(one.nanos), "site": one.site.name,
            "candidate": self.changes.as_ref().map(|(candidate, _)| candidate),
            "repeats": self.changes.as_ref().map(|(_, changes)| changes.repeats),
            "pinned_bytes": one.share.pinned, "alone_bytes": one.share.alone, "with_holes_bytes": one.share.with_holes,
        });
        let mut facts = object(facts);
        let changes = self.changes.as_ref().map(|(_, changes)| changes);
        let change = |of: fn(&Changes) -> &Option<Change>| {
            changes.and_then(|changes| of(changes).as_ref().map(|one| changes.of_change(one)))
        };
        facts.insert("as_it_is".into(), changes.map(|changes| of_heap(&changes.as_it_is)).into());
        facts.insert("survivors".into(), change(|changes| &changes.survivors).into());
        facts.insert("whole".into(), change(|changes| &changes.whole).into());
        facts.insert("advice".into(), self.advice.map(|advice| advice.text(one)).into());
        Answer { text: self.sentence(), pasted: None, facts }
    }

    /// The answer, the three heaps, what the addresses alone show, and what to do.
    pub fn text(&self, look: &TerminalStyle) -> String {
        let WhatIf { moment, site, share, .. } = self.what_if;
        let answer = crate::draw::wrapped(&self.sentence(), look.width.into());
        let mut out = format!("{}\n", bold(&answer, look));
        if let Some((candidate, changes)) = &self.changes {
            let when = show_duration(Duration::from_nanos(self.what_if.nanos));
            let (unit, table) = changes.table();
            let title = format!(
                "The heap under {candidate}, {} ({when}): medians of {} replays ({unit})",
                moment.words, changes.repeats
            );
            let title = crate::draw::wrapped(&title, look.width.into());
            out.push_str(&format!("\n{}\n{}", bold(&title, look), columns(&table, look)));
            let without = format!(
                "By the addresses alone: `{}` pins {}, and its survivors elsewhere would free {} (pages that are its alone) to {} (with the empty \
                 pages beside them).",
                site.name,
                Bytes(share.pinned),
                Bytes(share.alone),
                Bytes(share.with_holes)
            );
            out.push_str(&format!("\n{}\n", crate::draw::wrapped(&without, look.width.into())));
        }
        if let Some(advice) = self.advice {
            let text = advice.text(self.what_if);
            out.push_str(&format!(
                "\n{}\n{}\n",
                bold("What to do", look),
                crate::draw::wrapped(&text, look.width.into())
            ));
        }
        if !self.what_if.notes.is_empty() {
            out.push_str(&format!("\n{}\n", bold("What limits these figures", look)));
            self.what_if.notes.iter().for_each(|note| out.push_str(&item(note, look)));
        }
        out
    }

    /// The whole result for a script.
    pub fn json(&self) -> String {
        let one = self.what_if;
        let by = BYS.iter().find(|(_, by)| *by == one.by).map_or("", |(name, _)| name);
        document("who", &[self.answer()], object(json!({ "by": by, "notes": one.notes })))
    }
}

impl Changes {
    fn effect(&self, saved: &Saved) -> Effect {
        saved.effect(self.as_it_is.resident as f64)
    }

    fn of_change(&self, change: &Change) -> Value {
        let of = |saved: &Saved| {
            let [bytes, low, high] = [saved.bytes, saved.low, saved.high].map(|bytes| bytes.round() as i64);
            json!({ "less_bytes": bytes, "interval_bytes": [low, high], "effect": self.effect(saved).name() })
        };
        let mut heap = object(of_heap(&change.heap));
        heap.insert("saved".into(), of(&change.resident));
        heap.insert("freed".into(), of(&change.holding));
        heap.insert("cpu_ratio".into(), json!([change.cpu.0, change.cpu.1]));
        heap.into()
    }

    fn table(&self) -> (&'static str, Vec<Vec<String>>) {
        let (unit, size) = if self.as_it_is.resident < SMALL { ("KiB", 10) } else { ("MiB", 20) };
        let show = |bytes: f64| figure(bytes / f64::from(1_u32 << size));
        let percent = |ratio: f64| match (100.0 * (ratio - 1.0)).round() {
            0.0 => "0".into(),
            percent => format!("{percent:+.0}"),
        };
        let row = |name: &str, change: Option<&Change>| match change {
            Some(change) => vec![
                name.into(),
                show(change.heap.holding as f64),
                show(change.heap.resident as f64),
                span(&show(change.resident.low), &show(change.resident.high)),
                show(change.heap.pool as f64),
                format!("{} %", span(&percent(change.cpu.0), &percent(change.cpu.1))),
            ],
            None => [name, "-", "-", "-", "-", "-"].map(String::from).to_vec(),
        };
        let heads = ["blocks", "with blocks", "resident", "saved", "pool", "CPU"].map(String::from).to_vec();
        let now = &self.as_it_is;
        let as_it_is = vec![
            "as it is".into(),
            show(now.holding as f64),
            show(now.resident as f64),
            String::new(),
            String::new(),
            Unit::Microseconds.show(now.cpu),
        ];
        let others = [("survivors elsewhere", &self.survivors), ("site elsewhere", &self.whole)];
        let rows = others.map(|(name, change)| row(name, change.as_ref()));
        (unit, [heads, as_it_is].into_iter().chain(rows).collect())
    }
}

fn of_heap(heap: &ReplayHeap) -> Value {
    json!({
        "with_blocks_bytes": heap.holding, "pages_bytes": heap.resident, "pool_bytes": heap.pool, "cpu_seconds": heap.cpu / 1e6,
    })
}

#[cfg(test)]
mod tests;
