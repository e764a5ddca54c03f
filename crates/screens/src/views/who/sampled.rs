//! The call sites of a running process, by its samples. In: estimates. Out: text for a terminal, an answer, JSON, and the same for the
//! difference from an earlier JSON.

use allocanary_profile::interval::{BytesEstimate, SampleSums};
use allocanary_text::outside::{TerminalStyle, harmless, harmless_lines};
use allocanary_text::units::{Unit, show_duration};
use allocanary_who::fold::BYS;
use allocanary_who::same::{SiteKey, names, pairs};
use allocanary_who::sampled::{SampledSite, SampledSites};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

use super::function;
use crate::draw::{Answer, document, object};
use crate::views::heap::{bold, columns, item};

/// The number of sites in a table.
const TOP: usize = 15;
/// The largest number of sites that the answer names.
const NAMED: usize = 3;

fn bytes(bytes: f64) -> String {
    Unit::Bytes.show(bytes)
}

/// An estimate with its interval: `105 MiB (98.1 MiB to 113 MiB)`.
fn with_interval(estimate: BytesEstimate) -> String {
    format!("{} ({} to {})", bytes(estimate.bytes), bytes(estimate.low), bytes(estimate.high))
}

/// The answer in words.
fn sentence(found: &SampledSites) -> String {
    let (program, pid, all) = (harmless(&found.program), found.pid, found.all.estimate());
    if found.all.samples == 0 {
        return format!("{program}, process {pid}: no sampled block is alive.");
    }
    let mut named: Vec<String> = Vec::new();
    let mut sum = 0.0;
    for site in found.sites.iter().take(NAMED).take_while(|site| site.sum.samples > 0) {
        if sum >= all.bytes / 2.0 {
            break;
        }
        sum += site.live().bytes;
        named.push(format!("`{}`", site.name));
    }
    let names = match named.split_last() {
        Some((last, before @ [_, ..])) => format!("{} and {last}", before.join(", ")),
        _ => named.concat(),
    };
    let samples = match found.all.samples {
        1 => "1 sample".to_string(),
        count => format!("{count} samples"),
    };
    format!(
        "{program}, process {pid}: {} are alive, {} of them of {names}, by {samples}.",
        with_interval(all),
        bytes(sum)
    )
}

/// The answer, for a person and for a script.
pub fn answer(found: &SampledSites) -> Answer {
    let all = found.all.estimate();
    let facts = json!({
        "choice": if found.all.samples > 0 { "sampled" } else { "nothing" }, "program": found.program, "pid": found.pid,
        "requested_bytes": all.bytes.round(), "requested_low_bytes": all.low.round(), "requested_high_bytes": all.high.round(),
        "samples": found.all.samples, "mean_distance_bytes": found.mean, "sampled_seconds": (found.seconds * 1000.0).round() / 1000.0,
    });
    Answer { text: sentence(found), pasted: None, facts: object(facts) }
}

/// The whole text for a terminal.
pub fn text(found: &SampledSites, top: Option<usize>, look: &TerminalStyle) -> String {
    let answer = crate::draw::wrapped(&sentence(found), look.width.into());
    let mut table =
        vec![["site", "requested", "at least", "at most", "samples", "allocated"].map(String::from).to_vec()];
    let row = |site: &SampledSite| {
        let BytesEstimate { bytes: live, low, high } = site.live();
        let figures = [live, low, high].map(bytes);
        let mut row = vec![site.name.clone()];
        row.extend(figures);
        row.extend([site.sum.samples.to_string(), bytes(site.allocated)]);
        row
    };
    let shown = shown(found.sites.len(), top);
    table.extend(found.sites[..shown].iter().map(row));
    if let others @ [_, ..] = &found.sites[shown..] {
        table.push(row(&summed(others)));
    }
    let age = show_duration(Duration::from_secs_f64(found.seconds.clamp(0.0, 1e9)));
    let by = name_of_by(found);
    let title = format!("Sites by {by}: {}, those that hold most first; allocated in {age}", found.sites.len());
    let mut out = format!(
        "{}\n\n{}\n{}",
        bold(&harmless_lines(&answer), look),
        bold(&crate::draw::wrapped(&title, look.width.into()), look),
        columns(&table, look)
    );
    out.push_str(&limits(&found.notes, look));
    out
}

/// Several sites as one.
fn summed(others: &[SampledSite]) -> SampledSite {
    let mut sum = SampledSite { name: format!("{} others", others.len()), ..SampledSite::default() };
    for site in others {
        sum.sum.add_sum(&site.sum);
        sum.allocated += site.allocated;
    }
    sum
}

fn limits(notes: &[String], look: &TerminalStyle) -> String {
    let items: String = notes.iter().map(|note| item(note, look)).collect();
    format!("\n{}\n{items}", bold("What limits these figures", look))
}

/// How many sites have a line. If only one site would be left out, it gets a line as well.
fn shown(sites: usize, top: Option<usize>) -> usize {
    let top = top.unwrap_or(TOP);
    if sites <= top + 1 { sites } else { top }
}

fn name_of_by(found: &SampledSites) -> &'static str {
    BYS.iter().find(|(_, by)| *by == found.by).map_or("", |(name, _)| name)
}

/// The whole result for a script.
pub fn json(found: &SampledSites, top: Option<usize>) -> String {
    let (shown, others) = found.sites.split_at(top.unwrap_or(usize::MAX).min(found.sites.len()));
    let sites: Vec<Value> = shown.iter().map(of_site).collect();
    let mut besides = object(json!({ "by": name_of_by(found), "sites": sites, "notes": found.notes }));
    if !others.is_empty() {
        let sum = summed(others);
        let left_out = json!({
            "sites": others.len(), "requested_bytes": sum.live().bytes.round(), "samples": sum.sum.samples,
            "allocated_total_bytes": sum.allocated.round(),
        });
        besides.insert("left_out".into(), left_out);
    }
    document("who", &[answer(found)], besides)
}

fn of_site(site: &SampledSite) -> Value {
    let live = site.live();
    let figures = json!({
        "requested_bytes": live.bytes.round(), "requested_low_bytes": live.low.round(), "requested_high_bytes": live.high.round(),
        "blocks": site.sum.blocks.round(), "samples": site.sum.samples, "oldest_seconds": site.oldest,
        "allocated_total_bytes": site.allocated.round(), "allocations": site.allocations.round(),
    });
    let mut out = function::json(&site.name, &site.frame);
    out.extend(object(figures));
    Value::Object(out)
}

/// The live bytes of each site at an earlier moment.
pub struct EarlierBytes {
    by: String,
    /// The mean distance of its samples in bytes; `None` if the JSON does not have it.
    mean: Option<u64>,
    seconds: f64,
    sites: Vec<(SiteKey, BytesEstimate)>,
}

impl EarlierBytes {
    /// Reads what `who PID --json` printed. The error says what is missing.
    pub fn of(text: &str) -> Result<EarlierBytes, String> {
        let wanted = "wanted what `allocanary who PID --json` printed";
        let all: Value = serde_json::from_str(text).map_err(|error| format!("{wanted}: {error}"))?;
        let number = |of: &Value, name: &str| of[name].as_f64();
        let site = |of: &Value| {
            let estimate = BytesEstimate {
                bytes: number(of, "requested_bytes")?,
                low: number(of, "requested_low_bytes")?,
                high: number(of, "requested_high_bytes")?,
            };
            Some((function::key(of)?, estimate))
        };
        let sites = all["sites"].as_array().and_then(|sites| sites.iter().map(site).collect::<Option<_>>());
        let answer = [&all["answers"][0], &all["answer"]].into_iter().find(|answer| answer.is_object());
        let fact = |name: &str| answer.map(|answer| &answer[name]);
        // A site that was left out would look like one without a sample.
        let listed = all["sites"].as_array().into_iter().flatten().filter_map(|site| site["samples"].as_u64());
        let listed = listed.fold(0_u64, u64::saturating_add);
        if let Some(samples) = fact("samples").and_then(Value::as_u64).filter(|samples| listed < *samples) {
            return Err(format!(
                "it has not all sites, but those of {listed} of {samples} samples: {wanted} without --top"
            ));
        }
        Ok(EarlierBytes {
            by: all["by"].as_str().unwrap_or_default().into(),
            mean: fact("mean_distance_bytes").and_then(Value::as_u64),
            seconds: fact("sampled_seconds").and_then(Value::as_f64).unwrap_or(0.0),
            sites: sites
                .ok_or(format!("{wanted}, found no sites with `requested_low_bytes` and `requested_high_bytes`"))?,
        })
    }
}

/// The growth of a site, with its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// Its name.
    pub name: String,
    /// Its live bytes before, and now.
    pub live: [f64; 2],
    /// The smallest and the largest growth in bytes.
    pub bounds: [f64; 2],
}

/// The growth of all sites that exist at either moment. The one that grew most comes first.
pub fn growths(earlier: &EarlierBytes, found: &SampledSites) -> Result<Vec<Growth>, String> {
    if earlier.by != name_of_by(found) {
        return Err(format!("wanted sites by {}, found sites by {}", name_of_by(found), earlier.by));
    }
    // A site that is missing had no sample. It may still have live bytes that samples missed.
    let missing = [earlier.mean.unwrap_or(found.mean), found.mean].map(|mean| SampleSums::none(mean).estimate());
    let mut all: Vec<Growth> = Vec::new();
    let mut add = |name: &str, old: BytesEstimate, new: BytesEstimate| {
        let change = new.bytes - old.bytes;
        // The errors of the two moments are independent, so their squares add up.
        let down = ((new.bytes - new.low).powi(2) + (old.high - old.bytes).powi(2)).sqrt();
        let up = ((new.high - new.bytes).powi(2) + (old.bytes - old.low).powi(2)).sqrt();
        if old.bytes > 0.0 || new.bytes > 0.0 {
            let bounds = [change - down, change + up];
            all.push(Growth { name: name.into(), live: [old.bytes, new.bytes], bounds });
        }
    };
    let before: Vec<SiteKey> = earlier.sites.iter().map(|(key, _)| key.clone()).collect();
    let now: Vec<SiteKey> = found.sites.iter().map(|site| SiteKey::of(&site.name, &site.frame)).collect();
    let pairs = pairs(&before, &now);
    let paired: HashSet<usize> = pairs.iter().copied().flatten().collect();
    let before = |at: &Option<usize>| at.map_or(missing[0], |at| earlier.sites[at].1);
    let stay = now.iter().zip(&found.sites).zip(&pairs).map(|((key, site), at)| (key, before(at), site.live()));
    let gone = earlier.sites.iter().enumerate().filter(|(at, _)| !paired.contains(at));
    let rows: Vec<_> = stay.chain(gone.map(|(_, (key, old))| (key, *old, missing[1]))).collect();
    let names = names(&rows.iter().map(|(key, ..)| *key).collect::<Vec<_>>());
    for ((_, old, new), name) in rows.into_iter().zip(names) {
        add(&name, old, new);
    }
    let growth = |one: &Growth| one.live[1] - one.live[0];
    all.sort_by(|a, b| growth(b).total_cmp(&growth(a)).then_with(|| a.name.cmp(&b.name)));
    Ok(all)
}

/// A number with its sign: `+1.50 MiB`.
fn signed(number: f64) -> String {
    if number < 0.0 { format!("-{}", bytes(-number)) } else { format!("+{}", bytes(number)) }
}

/// The answer about the difference.
pub fn difference_answer(earlier: &EarlierBytes, growths: &[Growth], found: &SampledSites) -> Answer {
    let shown: Vec<&Growth> = growths.iter().filter(|one| one.bounds[0] > 0.0).collect();
    let program = harmless(&found.program);
    let apart = show_duration(Duration::from_secs_f64((found.seconds - earlier.seconds).clamp(0.0, 1e9)));
    let text = match shown.first() {
        None => format!("{program}, process {}: no site is shown to hold more than {apart} before.", found.pid),
        Some(first) => format!(
            "{program}, process {}: `{}` holds {} more than {apart} before, at least {}.",
            found.pid,
            first.name,
            bytes(first.live[1] - first.live[0]),
            bytes(first.bounds[0])
        ),
    };
    let choice = if shown.is_empty() { "undecided" } else { "grown" };
    let facts = json!({ "choice": choice, "program": found.program, "pid": found.pid, "apart_seconds": found.seconds - earlier.seconds });
    Answer { text, pasted: None, facts: object(facts) }
}

/// The difference for a terminal.
pub fn difference(
    answer: &Answer,
    growths: &[Growth],
    found: &SampledSites,
    top: Option<usize>,
    look: &TerminalStyle,
) -> String {
    let mut table = vec![["site", "before", "now", "growth", "at least", "at most"].map(String::from).to_vec()];
    for one in &growths[..shown(growths.len(), top)] {
        let [old, new] = one.live;
        let mut row = vec![one.name.clone(), bytes(old), bytes(new), signed(new - old)];
        row.extend(one.bounds.map(signed));
        table.push(row);
    }
    let title = format!("Sites by {}, those that grew most first", name_of_by(found));
    let said = harmless_lines(&crate::draw::wrapped(&answer.text, look.width.into())).into_owned();
    format!("{}\n\n{}\n{}{}", bold(&said, look), bold(&title, look), columns(&table, look), limits(&found.notes, look))
}

/// The difference for a script.
pub fn difference_json(answer: Answer, growths: &[Growth], found: &SampledSites, top: Option<usize>) -> String {
    let site = |one: &Growth| {
        let [before, live] = one.live.map(f64::round);
        let [low, high] = one.bounds.map(f64::round);
        json!({
            "name": one.name, "before_bytes": before, "requested_bytes": live, "growth_bytes": live - before, "growth_low_bytes": low,
            "growth_high_bytes": high,
        })
    };
    let sites: Vec<Value> = growths.iter().take(top.unwrap_or(usize::MAX)).map(site).collect();
    document("who", &[answer], object(json!({ "by": name_of_by(found), "sites": sites, "notes": found.notes })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_profile::interval::SampleSums;
    use allocanary_who::By;

    fn site(name: &str, samples: u64) -> SampledSite {
        let mut sum = SampleSums::default();
        (0..samples).for_each(|_| sum.add(64, 512 << 10));
        SampledSite { name: name.into(), sum, allocated: 1e9, allocations: 1e7, oldest: 7, ..SampledSite::default() }
    }

    fn found(sites: Vec<SampledSite>) -> SampledSites {
        let mut all = SampleSums::default();
        sites.iter().for_each(|site| all.add_sum(&site.sum));
        let notes = vec!["A note.".into()];
        SampledSites {
            program: "redis-server".into(),
            pid: 812,
            mean: 512 << 10,
            seconds: 61.5,
            by: By::Function,
            sites,
            all,
            wrappers: Vec::new(),
            notes,
        }
    }

    #[test]
    fn the_table_has_the_bounds_of_each_site() {
        let found = found(vec![site("dictAddRaw", 100), site("sdsnewlen", 20)]);
        let said = text(&found, None, &TerminalStyle { color: false, width: 80 });
        let wanted = "\
redis-server, process 812: 60.0 MiB (49.7 MiB to 71.7 MiB) are alive, 50.0 MiB
of them of `dictAddRaw`, by 120 samples.

Sites by function: 2, those that hold most first; allocated in 1 min 1 s
  site        requested  at least   at most  samples  allocated
  dictAddRaw   50.0 MiB  40.7 MiB  60.8 MiB      100    954 MiB
  sdsnewlen    10.0 MiB  6.11 MiB  15.4 MiB       20    954 MiB

What limits these figures
  - A note.
";
        assert_eq!(said, wanted, "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        let script: Value = serde_json::from_str(&json(&found, Some(1))).unwrap();
        assert_eq!((script["sites"].as_array().unwrap().len(), &script["sites"][0]["samples"]), (1, &json!(100)));
        assert_eq!(
            script["left_out"],
            json!({ "sites": 1, "requested_bytes": 10486400.0, "samples": 20, "allocated_total_bytes": 1e9 })
        );
        let whole: Value = serde_json::from_str(&json(&found, Some(2))).unwrap();
        assert!(whole["left_out"].is_null(), "{whole:#}");
        let nothing = answer(&super::tests::found(Vec::new()));
        assert_eq!(
            (nothing.text.as_str(), &nothing.facts["choice"]),
            ("redis-server, process 812: no sampled block is alive.", &json!("nothing"))
        );
    }

    #[test]
    fn a_difference_says_only_what_is_shown() {
        let before = found(vec![site("grows", 10), site("same", 50), site("gone", 40)]);
        let earlier = EarlierBytes::of(&json(&before, None)).unwrap();
        let mut now = found(vec![site("grows", 100), site("same", 52)]);
        now.seconds += 30.0;
        let all = growths(&earlier, &now).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["grows", "same", "gone"]);
        assert!(all[0].bounds[0] > 0.0 && all[1].bounds[0] < 0.0 && all[2].bounds[1] < 0.0, "{all:?}");
        let said = difference_answer(&earlier, &all, &now);
        assert!(said.text.contains("`grows` holds 45.0 MiB more than 30"), "{}", said.text);
        let shown = difference(&said, &all, &now, None, &TerminalStyle { color: false, width: 80 });
        assert!(shown.lines().all(|line| line.chars().count() <= 80) && shown.contains("-20.0 MiB"), "{shown}");
        let none = difference_answer(&earlier, &growths(&earlier, &before).unwrap(), &before);
        assert_eq!(none.facts["choice"], json!("undecided"));
        // A site without a sample at one moment may still have had blocks then: one sample more or less shows nothing.
        let (one, none) = (found(vec![site("one", 1)]), found(Vec::new()));
        let of = |before: &SampledSites, now: &SampledSites| {
            growths(&EarlierBytes::of(&json(before, None)).unwrap(), now).unwrap()
        };
        let (new, gone) = (of(&none, &one).remove(0), of(&one, &none).remove(0));
        assert!(new.bounds[0] < 0.0 && gone.bounds[1] > 0.0, "{new:?} {gone:?}");
        // A site is missed more easily if samples are farther apart.
        let far = SampledSites { mean: 8 << 20, ..none };
        assert!(of(&far, &one)[0].bounds[0] < new.bounds[0] * 4.0);
        assert!(EarlierBytes::of("{}").is_err() && EarlierBytes::of("x").is_err());
    }

    /// A site that was left out is not one without a sample.
    #[test]
    fn an_earlier_output_without_all_sites_is_refused() {
        let all = found(vec![site("one", 10), site("two", 5), site("freed", 0)]);
        let of = |top| EarlierBytes::of(&json(&all, Some(top))).err().unwrap_or_default();
        assert_eq!(
            of(1),
            "it has not all sites, but those of 10 of 15 samples: wanted what `allocanary who PID --json` printed without --top"
        );
        assert_eq!(of(2), "", "what has no sample is not missed");
    }
}
