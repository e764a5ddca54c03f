//! The answer in words. In: what a search found. Out: a table, the recommendation, the reason, and the lines to paste.

use super::finalists;
use allocanary_measure::metrics::Metric;
use allocanary_measure::summary::anatomy::{self, Anatomy, PARTS, Part};
use allocanary_measure::summary::{CellRepeats, Chosen, Decided, MedianEstimate, Verdict};
use allocanary_rows::Candidate;
use allocanary_screens::draw::wrapped;
use allocanary_screens::report::lines::DeployLines;
use allocanary_screens::report::places::{PasteTarget, places};
use allocanary_screens::report::wrapper::Wrapper;
use allocanary_screens::report::{anatomies, paste, words};
use allocanary_study::search::Searched;
use allocanary_study::search::proof::{Finalist, Standing};
use allocanary_study::search::space::limits;

/// Facts for the words, in addition to the rows.
pub struct TuneFacts<'a> {
    /// What was measured, and its size: `server, 40 threads on 40 emulated cores`.
    pub text: &'a str,
    /// A sentence that limits the answer: for which programs and hosts it is valid.
    pub holds: &'a str,
}

/// `resident better -78 % [-79, -77]; throughput -1.0 % (kept); p99 +4.0 % (open)`.
fn against(finalist: &Finalist, objective: &Metric) -> String {
    let verdict = finalists::verdict(finalist).text();
    let change = words::change(finalist.objective.ratio());
    let guards = finalist.guards.iter().map(|(name, comparison, limit)| {
        let limit = match limit {
            Standing::Kept => "within the limit",
            Standing::Open => "within, not certain",
            Standing::Exceeded => "beyond the limit",
        };
        format!("; {name} {} ({limit})", words::change(comparison.ratio()))
    });
    let failed = match finalist.failed.0 {
        0 => String::new(),
        1 => "; 1 run failed".into(),
        failed => format!("; {failed} runs failed"),
    };
    format!("{} {verdict} {change}{}{failed}", objective.name, guards.collect::<String>())
}

/// The recommendation in one paragraph: what it saves, and what it costs.
pub fn recommendation(found: &Searched, job: &TuneFacts) -> String {
    let objective = &found.goal.objective;
    let present = &found.present;
    let Some(best) = found.recommended() else { return keep(found, job) };
    let unit = objective.unit;
    let (old, new) = (unit.show(best.objective.old), unit.show(best.objective.new));
    let change = words::with_interval(&best.objective);
    let mut text = format!(
        "Use {} instead of {present}: {} {new} instead of {old}, {change}, for {}.",
        best.candidate, objective.name, job.text
    );
    for (name, comparison, limit) in &best.guards {
        let sure = match limit {
            Standing::Open => match found.goal.guards.iter().find(|guard| guard.metric.name == *name) {
                Some(guard) => match comparison.repeats_to_pass(guard.bound()) {
                    Some(repeats) => format!(", and about {repeats} repeats would make sure of the limit"),
                    None => ", too noisy to be sure of the limit".into(),
                },
                None => String::new(),
            },
            _ => String::new(),
        };
        text.push_str(&format!(" Its {name}: {}{sure}.", words::change(comparison.ratio())));
    }
    if let Some(own) = found.without_another_allocator() {
        let figure = unit.show(own.objective.new);
        let against = against(own, objective);
        text.push_str(&format!(
            " Without another allocator: {}, {} {figure} ({against}).",
            own.candidate, objective.name
        ));
    }
    text
}

/// What the answer is based on, and where it is not valid.
pub fn remark(found: &Searched, job: &TuneFacts) -> String {
    let n = found.fresh.first().map_or(0, |(_, group)| group.values_of(&found.goal.objective.name).len());
    format!(
        "{} candidates were tried; the figures are of {n} fresh processes of each finalist. {}",
        found.tried, job.holds
    )
    .trim_end()
    .to_string()
}

/// The answer if no candidate is better: the nearest one, and the reason.
fn keep(found: &Searched, job: &TuneFacts) -> String {
    let (present, objective) = (&found.present, &found.goal.objective);
    let mut text = format!(
        "Keep what you have, {present}: of {} candidates none is clearly better in {} within the limits, for {}.",
        found.tried, objective.name, job.text
    );
    let nearest = found.finalists.iter().min_by(|a, b| a.objective.new.total_cmp(&b.objective.new));
    if let Some(nearest) = nearest {
        text.push_str(&format!(" The nearest, {}: {}.", nearest.candidate, against(nearest, objective)));
        let undecided = finalists::verdict(nearest) == Verdict::Undecided;
        if let Some(repeats) = nearest.objective.repeats_to_decide().filter(|_| undecided) {
            text.push_str(&format!(" About {repeats} repeats would decide (--repeats {repeats})."));
        }
        if let Some(spread) = too_noisy(found, objective) {
            text.push_str(&format!(
                " Small differences cannot be judged here: the runs differ by {spread:.0} % among themselves."
            ));
        }
    }
    text
}

/// The spread of the rows of the present candidate, in percent of the median, if it is above 10 %.
fn too_noisy(found: &Searched, objective: &Metric) -> Option<f64> {
    let estimate = MedianEstimate::of(found.group(&found.present)?.values_of(&objective.name))?;
    let percent = estimate.spread / estimate.median * 100.0;
    (percent > 10.0).then_some(percent)
}

/// Where the memory was that the recommendation saves: `Arenas and thread caches held the rest: ...`. With `bars`, both bars follow,
/// with the meaning of their letters above them.
pub fn reason(found: &Searched, width: usize, bars: bool) -> Option<String> {
    // If a program's heap could not be divided, the bars would have only one part and show nothing.
    let middle =
        |candidate: &Candidate| anatomy::middle(&found.group(candidate)?.anatomies).filter(|found| found.is_divided);
    let now = middle(&found.present)?;
    let mut out = if bars { format!("{}\n", wrapped(&key(found), width)) } else { String::new() };
    let bar = |name: &Candidate, anatomy: &Anatomy| {
        if !bars {
            return String::new();
        }
        let rss = words::mebibytes(anatomy.rss);
        format!("{name} {rss} MiB\n  {}\n  {}\n", anatomies::bar(anatomy, width - 2), anatomies::figures(anatomy))
    };
    out.push_str(&bar(&found.present, &now));
    for best in found.recommended().into_iter().chain(found.without_another_allocator()) {
        let Some(then) = middle(&best.candidate) else { continue };
        out.push_str(&bar(&best.candidate, &then));
        let present = Some(&found.present).filter(|_| found.is_same_allocator(&best.candidate));
        if let Some(sentence) = held(&best.candidate, present, &now, &then) {
            out.push_str(&format!("{}\n", wrapped(&sentence, width)));
        }
    }
    out.extend(anatomies::sentence(&found.present.to_string(), &now).map(|sentence| wrapped(&sentence, width) + "\n"));
    Some(out)
}

/// The letters of the bars.
fn key(found: &Searched) -> String {
    let of = |candidate: &Candidate| anatomy::middle(&found.group(candidate)?.anatomies);
    let names = [Some(&found.present), found.recommended().map(|best| &best.candidate)];
    let shown: Vec<Anatomy> = names.into_iter().flatten().filter_map(of).collect();
    anatomies::key_of(&shown)
}

/// What a candidate's settings limit, and the parts that shrank. Only settings count that differ from those of `present`, the present
/// candidate of the same allocator.
fn held(candidate: &Candidate, present: Option<&Candidate>, now: &Anatomy, then: &Anatomy) -> Option<String> {
    let spec = &candidate.spec;
    let mut named: Vec<&str> = Vec::new();
    let is_new =
        |(name, value): &(&String, &String)| present.is_some_and(|own| own.spec.settings.get(*name) != Some(value));
    for what in spec.settings.iter().filter(is_new).filter_map(|(setting, _)| limits(&spec.name, setting)) {
        if !named.contains(&what) {
            named.push(what);
        }
    }
    let saved = now.rss - then.rss;
    if saved <= 0.0 {
        return None;
    }
    let mut parts: Vec<(f64, Part)> = PARTS.iter().map(|part| (now.get(*part) - then.get(*part), *part)).collect();
    parts.retain(|(less, _)| *less >= saved * 0.05);
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let parts: Vec<String> =
        parts.iter().map(|(less, part)| format!("{} {}", words::mebibytes(*less), now.name(*part))).collect();
    let who = match named.as_slice() {
        [] => format!("What {candidate} does without"),
        [one] => format!("{} held the rest", capital(one)),
        [all @ .., last] => format!("{} and {last} held the rest", capital(&all.join(", "))),
    };
    Some(format!("{who}: of {} MiB less, {}.", words::mebibytes(saved), parts.join(", ")))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The answer as one value. Every output uses it.
pub fn decided(found: &Searched, job: &TuneFacts) -> Decided {
    let best = found.recommended();
    let candidate = best.map_or(&found.present, |best| &best.candidate);
    let estimate =
        found.group(candidate).and_then(|group| MedianEstimate::of(group.values_of(&found.goal.objective.name)));
    let cost = best.map_or(&[][..], |best| &best.guards);
    let guards = found.goal.guards.iter();
    let chosen = Chosen {
        candidate: candidate.to_string(),
        against: found.present.to_string(),
        metric: found.goal.objective.clone(),
        figure: estimate.map(|estimate| estimate.median),
        saving: best.map(|best| best.objective),
        cost: cost.iter().map(|(name, compared, _)| (name.to_string(), *compared)).collect(),
        within: guards.map(|guard| (guard.metric.name.to_string(), guard.share)).collect(),
    };
    Decided { text: recommendation(found, job), lines: lines(found), chosen: Some(chosen) }
}

/// The lines to paste that fit next to the answer: for a shell or a Dockerfile, Kubernetes, and Rust. [`paste`] returns the lines for
/// every place.
fn lines(found: &Searched) -> Vec<String> {
    let Some(best) = found.recommended().map(|best| &best.candidate) else { return Vec::new() };
    if is_as_it_is(best) {
        return vec![AS_IT_IS.into()];
    }
    let Some(group) = found.group(best) else { return Vec::new() };
    let all = match has_no_variables(best, group) {
        false => paste::lines(&best.spec, &group.environment),
        true => DeployLines::of(&best.spec.clone().into()).map_or(Vec::new(), |lines| {
            lines.labelled().into_iter().map(|(label, line)| format!("{label:<12}{line}")).collect()
        }),
    };
    all.iter().flat_map(|text| text.lines().map(str::to_string)).collect()
}

/// Whether a candidate ran without variables from us. A candidate with limited huge pages does not count, because it
/// needs a wrapper.
fn has_no_variables(candidate: &Candidate, group: &CellRepeats) -> bool {
    group.environment.is_empty() && Wrapper::of(&candidate.spec).is_none()
}

/// Whether a candidate is the unchanged program.
fn is_as_it_is(candidate: &Candidate) -> bool {
    candidate.spec.name == "own" && candidate.spec.settings.is_empty()
}

/// The text for a candidate that needs no line.
const AS_IT_IS: &str = "Start the program without LD_PRELOAD, and without variables for another allocator.";

/// The lines to paste for the recommended candidate. For a program: the variables with which it ran. Otherwise: the lines
/// for every place where its settings can be.
pub fn paste(found: &Searched) -> Option<String> {
    let best = &found.recommended()?.candidate;
    let group = found.group(best)?;
    let spec = &best.spec;
    if is_as_it_is(best) {
        return Some(format!("    {AS_IT_IS}\n"));
    }
    if !has_no_variables(best, group) {
        let lines = paste::lines(spec, &group.environment);
        // The `install!` of several settings has several lines.
        return Some(lines.iter().map(|line| format!("    {}\n", line.replace('\n', "\n    "))).collect());
    }
    let form = |place: PasteTarget| format!("{}:\n{}\n", place.name, indented(&place.text));
    Some(places(spec).into_iter().map(form).collect::<Vec<_>>().join("\n"))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod whole_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_measure::metrics::Metrics;
    use allocanary_rows::Moment;
    use allocanary_rows::sample::Measured;
    use allocanary_study::search::goal::{Goal, GoalSource};
    use allocanary_study::search::proof::{front, prove};
    use allocanary_text::outside::TerminalStyle;

    /// A group with these values of memory and throughput, and a p99 of 1.
    fn group(resident: &[f64], throughput: &[f64]) -> CellRepeats {
        let p99 = vec![1.0; resident.len()];
        let values = [("resident", resident.to_vec()), ("throughput", throughput.to_vec()), ("p99", p99)];
        CellRepeats { values: values.map(|(name, values)| (name.into(), values)).into(), ..CellRepeats::default() }
    }

    fn around(middle: f64) -> Vec<f64> {
        (0..10).map(|step| middle * (1.0 + f64::from(step) * 0.001)).collect()
    }

    fn anatomy(parts: &[(&str, u64)]) -> Anatomy {
        let column = |(name, mebibytes): &(&str, u64)| (name.to_string(), vec![Some(mebibytes << 20)]);
        let readings = parts.iter().map(column).collect();
        let answer =
            Measured { moments: vec![Moment::Idle], requested_bytes: vec![4 << 20], readings, ..Measured::default() };
        Anatomy::of(&answer, Some(40)).unwrap()
    }

    fn found(new: f64, throughput: f64) -> Searched {
        let goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        let mib = f64::from(1 << 20);
        let mut present = group(&around(95.0 * mib), &around(1000.0));
        let own = [
            ("part_files_bytes", 3),
            ("part_unknown_bytes", 92),
            ("allocator_live_bytes", 5),
            ("allocator_dirty_bytes", 25),
            ("allocator_cached_bytes", 62),
        ];
        present.anatomies = vec![anatomy(&own)];
        let mut other = group(&around(new * mib), &around(throughput));
        let own = [
            ("part_files_bytes", 3),
            ("part_unknown_bytes", 17),
            ("allocator_live_bytes", 5),
            ("allocator_dirty_bytes", 12),
            ("allocator_cached_bytes", 0),
        ];
        other.anatomies = vec![anatomy(&own)];
        let name = Candidate::from("jemalloc:narenas=1,tcache=false");
        let finalists = prove(&goal, &present, &[(name.clone(), &other)]);
        let front = front(&goal, &[("jemalloc".into(), &present), (name.clone(), &other)]);
        let fresh = vec![("jemalloc".into(), present), (name, other)];
        Searched {
            goal,
            own: None,
            present: "jemalloc".into(),
            finalists,
            fresh,
            front,
            tried: 26,
            failures: Default::default(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_recommendation_says_what_it_saves_what_it_costs_and_what_held_the_rest() {
        let found = found(20.0, 990.0);
        let job = TuneFacts { text: "server, 40 threads on 40 cores", holds: "Another job needs a search of its own." };
        let text = recommendation(&found, &job);
        for said in [
            "Use jemalloc:narenas=1,tcache=false instead of jemalloc: resident 20.1 MiB instead of 95.4 MiB, -79 %",
            "Its throughput: -1.0 %.",
        ] {
            assert!(text.contains(said), "{said}\n{text}");
        }
        let wanted = "26 candidates were tried; the figures are of 10 fresh processes of each finalist. Another job needs a search of \
                      its own.";
        assert_eq!(remark(&found, &job), wanted);
        let why = reason(&found, 80, true).unwrap();
        assert!(why.lines().all(|line| line.len() <= 80), "{why}");
        assert!(why.starts_with("L live; ") && why.contains("\n  LLL"), "the letters are explained first: {why}");
        let brief = reason(&found, 80, false).unwrap();
        assert!(brief.starts_with("Arenas and thread caches held the rest") && !brief.contains("LLL"), "{brief}");
        let why = why.replace('\n', " ");
        for said in [
            "Arenas and thread caches held the rest: of 75.0 MiB less, 62.0 cached by threads, 13.0 free pages.",
            "Some 62.0 of jemalloc's 95.0 MiB are in the caches of 40 idle threads.",
        ] {
            assert!(why.contains(said), "{said}\n{why}");
        }
        let table = finalists::table(&found, job.text, &TerminalStyle { color: false, width: 80 });
        // If a name is too wide for one line, its figures are below it.
        let below = |name: &str| table.lines().skip_while(|line| line.trim() != name).nth(1).map(str::to_string);
        let now = below("jemalloc (what you have)").unwrap_or_else(|| panic!("{table}"));
        let best = below("jemalloc:narenas=1,tcache=false").unwrap_or_else(|| panic!("{table}"));
        assert!(now.contains(" 95.4 MiB ") && best.contains(" 20.1 MiB  -79 %") && best.contains(" -1.0 %"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");

        let decided = decided(&found, &job);
        let chosen = decided.chosen.unwrap();
        assert_eq!(
            (chosen.candidate.as_str(), chosen.against.as_str()),
            ("jemalloc:narenas=1,tcache=false", "jemalloc")
        );
        assert_eq!((chosen.cost.len(), chosen.within.len(), decided.text == text), (2, 2, true));
        assert_eq!(decided.lines[0], "Dockerfile  ENV _RJEM_MALLOC_CONF=narenas:1,tcache:false");
    }

    #[test]
    fn keep_what_you_have_names_the_nearest_and_why() {
        let found = found(12.0, 500.0);
        let job = TuneFacts { text: "server", holds: "" };
        let text = recommendation(&found, &job);
        assert!(
            text.starts_with("Keep what you have, jemalloc: of 26 candidates none is clearly better in resident"),
            "{text}"
        );
        assert!(text.contains("throughput -50 % (beyond the limit)"), "{text}");
        assert!(paste(&found).is_none());
    }

    #[test]
    fn a_promise_that_is_not_sure_is_called_undecided() {
        let mut found = found(12.0, 500.0);
        found.finalists[0].objective.interval = Some((0.3, 1.1));
        let text = recommendation(&found, &TuneFacts { text: "server", holds: "" });
        assert!(text.contains("resident undecided -87 %") && text.contains("repeats would decide"), "{text}");
        found.finalists[0].failed = (3, 0);
        assert!(recommendation(&found, &TuneFacts { text: "server", holds: "" }).contains("; 3 runs failed."));
    }

    #[test]
    fn the_repeats_for_a_limit_are_those_of_its_own_side() {
        let mut found = found(20.0, 990.0);
        let text = |found: &Searched| recommendation(found, &TuneFacts { text: "server", holds: "" });
        found.finalists[0].guards[0].2 = Standing::Open;
        // The limit is 5 % less throughput. A value of 4 % less is nearer to the limit than one of 4 % more.
        let near = |found: &mut Searched, ratio: f64| {
            let compared = &mut found.finalists[0].guards[0].1;
            (compared.new, compared.interval) = (compared.old * ratio, Some((ratio * 0.9, ratio * 1.1)));
            let said = text(found);
            let at = said.find("and about ").unwrap() + "and about ".len();
            said[at..].split(' ').next().unwrap().parse::<u32>().unwrap()
        };
        assert!(near(&mut found, 0.96) > 10 * near(&mut found, 1.04));
    }

    #[test]
    fn only_what_differs_from_the_present_settings_is_named() {
        let mut found = found(20.0, 990.0);
        found.present = "jemalloc:narenas=1".into();
        found.fresh[0].0 = found.present.clone();
        let why = reason(&found, 80, true).unwrap().replace('\n', " ");
        assert!(why.contains("Thread caches held the rest:") && !why.contains("Arenas"), "{why}");
        found.present = "system".into();
        found.fresh[0].0 = found.present.clone();
        assert!(reason(&found, 80, true).unwrap().contains("What jemalloc:narenas=1,tcache=false does without"));
    }
}
