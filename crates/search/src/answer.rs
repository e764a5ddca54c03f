//! The answer in words. In: what a search found. Out: a table, the recommendation, the reason, and the lines to paste.

use allocanary_cell::candidate::Candidate;
use allocanary_report::{anatomies, paste, words, wrapped};
use allocanary_study::summary::anatomy::{self, Anatomy, PARTS, Part};
use allocanary_study::summary::{Estimate, Metric, Verdict};

use crate::places::{Place, places};
use crate::proof::{Finalist, Standing};
use crate::search::Searched;
use crate::space::limits;

/// What the words need to know besides the rows.
pub struct Job<'a> {
    /// What was measured, and its size: `server, 40 threads on 40 emulated cores`.
    pub text: &'a str,
    /// For what the answer holds, in a sentence.
    pub holds: &'a str,
}

/// The finalists, one below the other: the candidate, and below it its figures against the present candidate's.
pub fn table(found: &Searched, job: &Job) -> String {
    let mut out = format!("Finalists, fresh rows only ({}):\n", job.text);
    for (candidate, group) in &found.fresh {
        let now = if *candidate == found.present { "  (what you have)" } else { "" };
        let mark = if found.front.contains(candidate) { "*" } else { " " };
        out.push_str(&format!("{mark} {candidate}{now}\n"));
        let figures = found.goal.wanted().map(|metric| {
            let estimate = Estimate::of(group.values_of(&metric.name));
            format!(
                "{} {} {}",
                metric.name,
                words::median(metric, estimate.as_ref()),
                words::interval(metric, estimate.as_ref())
            )
        });
        let figures: Vec<String> = figures.map(|figure| figure.trim_end().to_string()).collect();
        out.push_str(&format!("    {}\n", figures.join("; ")));
        if let Some(finalist) = found.finalists.iter().find(|finalist| finalist.candidate == *candidate) {
            out.push_str(&format!("    {}\n", against(finalist, &found.goal.objective)));
        }
    }
    let (first, throughput) = (found.fresh.first(), "throughput");
    let gain = first.is_some_and(|(_, group)| !group.values_of(throughput).is_empty());
    let gain = if gain { " and more throughput" } else { "" };
    out.push_str(&format!("* on the Pareto front: none has less of the objective{gain}.\n"));
    out
}

/// `rss better -78 % [-79, -77]; throughput -1.0 % (kept); p99 +4.0 % (open)`.
fn against(finalist: &Finalist, objective: &Metric) -> String {
    let verdict = verdict(finalist).text();
    let change = words::change(finalist.objective.ratio());
    let guards = finalist.guards.iter().map(|(name, comparison, limit)| {
        let limit = match limit {
            Standing::Kept => "within the limit",
            Standing::Open => "within, not surely",
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

/// The verdict among all finalists: better is only what a recommendation would call so.
fn verdict(finalist: &Finalist) -> Verdict {
    match finalist.objective.verdict {
        Verdict::Better if !finalist.is_better() => Verdict::Undecided,
        Verdict::Worse if !finalist.significant => Verdict::Undecided,
        verdict => verdict,
    }
}

/// The recommendation in one paragraph: what it saves, what it costs, for whom it does not hold.
pub fn recommendation(found: &Searched, job: &Job) -> String {
    let objective = &found.goal.objective;
    let present = &found.present;
    let Some(best) = found.recommended() else { return keep(found, job) };
    let unit = objective.unit;
    let (old, new) = (unit.show(best.objective.old), unit.show(best.objective.new));
    let interval = best.objective.interval.map_or(String::new(), |(low, high)| {
        format!(" (95 % interval {} to {})", words::change(low), words::change(high))
    });
    let change = words::change(best.objective.ratio());
    let mut text = format!(
        "Use {} instead of {present}: {} {new} instead of {old}, {change}{interval}, for {}.",
        best.candidate, objective.name, job.text
    );
    for (name, comparison, limit) in &best.guards {
        let sure = match limit {
            Standing::Open => match found.goal.guards.iter().find(|guard| guard.metric.name == *name) {
                Some(guard) => match comparison.repeats_to_pass(guard.bound()) {
                    Some(repeats) => format!(", and some {repeats} repeats would make sure of the limit"),
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
    text.push_str(&format!(
        " {} candidates were tried; the figures are of fresh rows, n {} each, and corrected for {} finalists (Holm). {}",
        found.tried,
        best.objective.n.1,
        found.finalists.len(),
        job.holds
    ));
    text
}

/// The answer without a better candidate, with the nearest one and the reason.
fn keep(found: &Searched, job: &Job) -> String {
    let (present, objective) = (&found.present, &found.goal.objective);
    let mut text = format!(
        "Keep what you have, {present}: of {} candidates none is surely better in {} within the limits, for {}.",
        found.tried, objective.name, job.text
    );
    let nearest = found.finalists.iter().min_by(|a, b| a.objective.new.total_cmp(&b.objective.new));
    if let Some(nearest) = nearest {
        text.push_str(&format!(" The nearest, {}: {}.", nearest.candidate, against(nearest, objective)));
        let undecided = verdict(nearest) == Verdict::Undecided;
        if let Some(repeats) = nearest.objective.repeats_to_decide().filter(|_| undecided) {
            text.push_str(&format!(" Some {repeats} repeats would decide."));
        }
        if let Some(spread) = too_noisy(found, objective) {
            text.push_str(&format!(
                " The rows are too noisy to judge small differences: they spread by {spread:.0} %."
            ));
        }
    }
    text
}

/// The spread of the present candidate's rows in percent of the median, if it is above 10 %.
fn too_noisy(found: &Searched, objective: &Metric) -> Option<f64> {
    let estimate = Estimate::of(found.group(&found.present)?.values_of(&objective.name))?;
    let percent = estimate.spread / estimate.median * 100.0;
    (percent > 10.0).then_some(percent)
}

/// Where the memory is that the recommendation saves: `Arenas and thread caches held the rest: ...`, and both bars.
pub fn reason(found: &Searched, width: usize) -> Option<String> {
    // The heap of a program is one part, seen from outside: its bars would say nothing.
    let middle =
        |candidate: &Candidate| anatomy::middle(&found.group(candidate)?.anatomies).filter(|found| found.is_divided);
    let now = middle(&found.present)?;
    let mut out = String::new();
    let bar = |name: &Candidate, anatomy: &Anatomy| {
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
pub fn key(found: &Searched) -> String {
    let of = |candidate: &Candidate| anatomy::middle(&found.group(candidate)?.anatomies);
    let names = [Some(&found.present), found.recommended().map(|best| &best.candidate)];
    let shown: Vec<Anatomy> = names.into_iter().flatten().filter_map(of).collect();
    anatomies::key_of(&shown)
}

/// What the settings limit that differ from those of `present`, the present candidate of the same allocator; and the parts
/// that shrank.
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

/// The lines to paste for the recommended candidate: for a program the variables with which it ran, otherwise those of every
/// place in which the settings can stand.
pub fn paste(found: &Searched) -> Option<String> {
    let best = &found.recommended()?.candidate;
    let group = found.group(best)?;
    let spec = &best.spec;
    if spec.name == "own" && spec.settings.is_empty() {
        return Some("    Start the program without LD_PRELOAD, and without variables for another allocator.\n".into());
    }
    if !group.environment.is_empty() {
        let lines = paste::lines(spec, &group.environment);
        // An `install!` of several settings has several lines.
        return Some(lines.iter().map(|line| format!("    {}\n", line.replace('\n', "\n    "))).collect());
    }
    let form = |place: Place| format!("{}:\n{}\n", place.name, indented(&place.text));
    Some(places(spec).into_iter().map(form).collect::<Vec<_>>().join("\n"))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::{Goal, Source};
    use crate::proof::{front, prove, tests::group};
    use allocanary_cell::sample::Answer;
    use allocanary_cell::workload::Phase;
    use allocanary_study::summary::Metrics;

    fn around(middle: f64) -> Vec<f64> {
        (0..10).map(|step| middle * (1.0 + f64::from(step) * 0.001)).collect()
    }

    fn anatomy(parts: &[(&str, u64)]) -> Anatomy {
        let column = |(name, mebibytes): &(&str, u64)| (name.to_string(), vec![Some(mebibytes << 20)]);
        let readings = parts.iter().map(column).collect();
        let answer = Answer { phases: vec![Phase::Idle], live_bytes: vec![4 << 20], readings, ..Answer::default() };
        Anatomy::of(&answer, Some(40)).unwrap()
    }

    fn found(new: f64, throughput: f64) -> Searched {
        let goal = Goal::parse("memory", None, Source::Workload, &Metrics::default()).unwrap();
        let mib = f64::from(1 << 20);
        let mut present = group(&around(95.0 * mib), &around(1000.0));
        let own = [
            ("program_bytes", 3),
            ("heap_rss_bytes", 92),
            ("held_bytes", 5),
            ("dirty_bytes", 25),
            ("cached_bytes", 62),
        ];
        present.anatomies = vec![anatomy(&own)];
        let mut other = group(&around(new * mib), &around(throughput));
        let own =
            [("program_bytes", 3), ("heap_rss_bytes", 17), ("held_bytes", 5), ("dirty_bytes", 12), ("cached_bytes", 0)];
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
        let job = Job { text: "server, 40 threads on 40 cores", holds: "Another job needs a search of its own." };
        let text = recommendation(&found, &job);
        for said in [
            "Use jemalloc:narenas=1,tcache=false instead of jemalloc: rss 20.1 MiB instead of 95.4 MiB, -79 %",
            "Its throughput: -1.0 %.",
            "26 candidates were tried; the figures are of fresh rows, n 10 each, and corrected for 1 finalists (Holm)",
            "needs a search of its own",
        ] {
            assert!(text.contains(said), "{said}\n{text}");
        }
        let why = reason(&found, 80).unwrap();
        assert!(why.lines().all(|line| line.len() <= 80) && why.lines().nth(1).unwrap().len() == 80, "{why}");
        let why = why.replace('\n', " ");
        for said in [
            "Arenas and thread caches held the rest: of 75.0 MiB less, 62.0 thread caches, 13.0 freed pages kept (dirty).",
            "Some 62.0 of jemalloc's 95.0 MiB are in the caches of 40 idle threads.",
        ] {
            assert!(why.contains(said), "{said}\n{why}");
        }
        let table = table(&found, &job);
        assert!(
            table.contains("* jemalloc  (what you have)\n") && table.contains("rss better -79 %; throughput -1.0 % ("),
            "{table}"
        );
    }

    #[test]
    fn keep_what_you_have_names_the_nearest_and_why() {
        let found = found(12.0, 500.0);
        let job = Job { text: "server", holds: "" };
        let text = recommendation(&found, &job);
        assert!(
            text.starts_with("Keep what you have, jemalloc: of 26 candidates none is surely better in rss"),
            "{text}"
        );
        assert!(text.contains("throughput -50 % (beyond the limit)"), "{text}");
        assert!(paste(&found).is_none());
    }

    #[test]
    fn a_promise_that_is_not_sure_is_called_undecided() {
        let mut found = found(12.0, 500.0);
        found.finalists[0].objective.interval = Some((0.3, 1.1));
        let text = recommendation(&found, &Job { text: "server", holds: "" });
        assert!(text.contains("rss undecided -87 %") && text.contains("repeats would decide"), "{text}");
        found.finalists[0].failed = (3, 0);
        assert!(recommendation(&found, &Job { text: "server", holds: "" }).contains("; 3 runs failed."));
    }

    #[test]
    fn the_repeats_for_a_limit_are_those_of_its_own_side() {
        let mut found = found(20.0, 990.0);
        let text = |found: &Searched| recommendation(found, &Job { text: "server", holds: "" });
        found.finalists[0].guards[0].2 = Standing::Open;
        // 5 % less throughput is the limit: 4 % less is nearer to it than 4 % more.
        let near = |found: &mut Searched, ratio: f64| {
            let compared = &mut found.finalists[0].guards[0].1;
            (compared.new, compared.interval) = (compared.old * ratio, Some((ratio * 0.9, ratio * 1.1)));
            let said = text(found);
            let at = said.find("and some ").unwrap() + "and some ".len();
            said[at..].split(' ').next().unwrap().parse::<u32>().unwrap()
        };
        assert!(near(&mut found, 0.96) > 10 * near(&mut found, 1.04));
    }

    #[test]
    fn only_what_differs_from_the_present_settings_is_named() {
        let mut found = found(20.0, 990.0);
        found.present = "jemalloc:narenas=1".into();
        found.fresh[0].0 = found.present.clone();
        let why = reason(&found, 80).unwrap().replace('\n', " ");
        assert!(why.contains("Thread caches held the rest:") && !why.contains("Arenas"), "{why}");
        found.present = "system".into();
        found.fresh[0].0 = found.present.clone();
        assert!(reason(&found, 80).unwrap().contains("What jemalloc:narenas=1,tcache=false does without"));
    }
}
