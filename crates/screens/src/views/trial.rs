//! A trial of one replica: its steps, and its verdict. In: the result of `measure::trial`. Out: text of 80 columns.

use std::time::Duration;

use allocanary_measure::trial::TrialVariable;
use allocanary_measure::trial::estimate::TrialWord;
use allocanary_measure::trial::steps::TrialStep;
use allocanary_measure::trial::verdict::{Member, ReplicaRole, Trial, TrialMeasure};
use allocanary_text::outside::{TerminalStyle, harmless};
use allocanary_text::units::{Bytes, show_duration, show_share};

use crate::draw::wrapped;

/// The steps as a script with comments.
pub fn steps(steps: &[TrialStep], look: &TerminalStyle) -> String {
    let width = usize::from(look.width);
    let mut out = String::from("# Nothing was changed. Read these lines, then run them one after the other.\n");
    for (at, step) in steps.iter().enumerate() {
        let why = wrapped(&step.why, width - 5).replace('\n', "\n#    ");
        out.push_str(&format!("\n# {}. {why}\n{}\n", at + 1, step.command));
    }
    out
}

/// The verdict.
pub fn verdict(trial: &Trial, name: &str, lines: &[TrialVariable], look: &TerminalStyle) -> String {
    let width = usize::from(look.width);
    let set = lines.iter().map(TrialVariable::line).collect::<Vec<_>>().join(" ");
    let mut out = format!("{}\n", wrapped(&harmless(&format!("{name} with {set}: {}", trial.word.text())), width));
    let paragraph = |text: &str| format!("\n{}\n", wrapped(&harmless(text), width));
    out.push_str(&paragraph(&answer(trial)));
    for doubt in &trial.doubts {
        out.push_str(&paragraph(&format!("Undecided: {doubt}")));
    }
    out.push('\n');
    out.push_str(&table(&trial.replicas));
    for note in &trial.notes {
        out.push_str(&paragraph(note));
    }
    out.push_str(&paragraph(how(trial)));
    out
}

fn answer(trial: &Trial) -> String {
    let Some(effect) = trial.effect else {
        return "There is no interval: too few replicas can be compared.".into();
    };
    let share = |ratio: f64| {
        let percent = (ratio - 1.0) * 100.0;
        match percent {
            few if few.abs() < 0.05 => "the same".to_string(),
            less if less < 0.0 => format!("{:.1} % less", -less),
            more => format!("{more:.1} % more"),
        }
    };
    let bytes = |ratio: f64| {
        let moved = trial.others * (ratio - 1.0);
        format!("{}{}", if moved < 0.0 { "-" } else { "+" }, Bytes(moved.abs() as u64))
    };
    let after = show_duration(Duration::from_secs(trial.seconds));
    let against = match trial.compared {
        TrialMeasure::Levels => "than the others",
        TrialMeasure::Differences => "of what it had before, compared with the others",
    };
    let mut text = format!(
        "The changed replica has {} resident memory {against}, {after} after the change: {} of {} [{} to {}]; 95 % interval of the ratio {:.3} to \
         {:.3}.",
        share(effect.ratio),
        bytes(effect.ratio),
        Bytes(trial.others as u64),
        bytes(effect.low),
        bytes(effect.high),
        effect.low,
        effect.high
    );
    let margin = show_share(trial.tolerance);
    match trial.word {
        TrialWord::Equal => text.push_str(&format!(" All of it is within {margin}, which makes no difference (--tolerance).")),
        TrialWord::Undecided if trial.doubts.is_empty() => text.push_str(&format!(
            " It is undecided, since the interval is neither within {margin} nor beyond: more replicas, or of a Deployment readings from before the change, make it narrower."
        )),
        _ => {}
    }
    text
}

fn table(members: &[Member]) -> String {
    let wide = members.iter().map(|one| one.pod.chars().count()).max().unwrap_or(0).clamp(3, 30);
    let mut out = format!(
        "{:<10} {:<wide$} {:>5} {:>9} {:>9} {:>6} {:>5}\n",
        "part", "pod", "age", "before", "after", "CPUs", "reads"
    );
    for one in members {
        let part = match one.part {
            ReplicaRole::Changed => "changed",
            ReplicaRole::Other => "other",
            ReplicaRole::OtherAge => "other age",
            ReplicaRole::OtherKind => "other kind",
            ReplicaRole::Short => "short",
            ReplicaRole::Before => "before",
        };
        let bytes = |level: Option<allocanary_measure::trial::replicas::ReplicaMemory>| {
            level.map_or_else(|| "-".into(), |level| Bytes(level.resident as u64).to_string())
        };
        let age = one.age.map_or_else(|| "?".into(), short);
        let level = one.after.or(one.before);
        let cores = level.and_then(|level| level.cores).map_or_else(|| "?".into(), |cores| format!("{cores:.3}"));
        let pod: String = harmless(&one.pod).chars().take(wide).collect();
        let reads = level.map_or(0, |level| level.readings);
        out.push_str(&format!(
            "{part:<10} {pod:<wide$} {age:>5} {:>9} {:>9} {cores:>6} {reads:>5}\n",
            bytes(one.before),
            bytes(one.after)
        ));
    }
    out
}

/// An age in short form: `35m`, `9h`, `12d`.
fn short(seconds: u64) -> String {
    match seconds / 60 {
        minutes if minutes < 2 * 60 => format!("{minutes}m"),
        minutes if minutes < 2 * 24 * 60 => format!("{}h", minutes / 60),
        minutes => format!("{}d", minutes / 60 / 24),
    }
}

fn how(trial: &Trial) -> &'static str {
    match trial.compared {
        TrialMeasure::Levels => {
            "The later half of the time since the change counts. How far replicas are apart is taken from the others and from all before the \
             change: one changed replica cannot show its own spread, which is taken to be the same."
        }
        TrialMeasure::Differences => {
            "The later half of the time since the change counts, as a share of the later half before it. How far replicas are apart is taken \
             from the others: one changed replica cannot show its own spread, which is taken to be the same."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_measure::trial::estimate::MemoryShare;
    use allocanary_measure::trial::replicas::ReplicaMemory;

    fn trial(word: TrialWord, doubts: &[&str]) -> Trial {
        let level = |mib: f64| {
            Some(ReplicaMemory { log: 0.0, resident: mib * 1048576.0, readings: 30, cores: Some(0.5), growth: 0.0 })
        };
        let member = |pod: &str, part, before, after| Member {
            pod: pod.into(),
            node: "n".into(),
            part,
            age: Some(3600),
            age_before: None,
            before,
            after,
            settings: Vec::new(),
        };
        Trial {
            word,
            effect: Some(MemoryShare { ratio: 0.62, low: 0.55, high: 0.70, spread: 0.02, freedom: 3 }),
            tolerance: 0.05,
            compared: TrialMeasure::Levels,
            others: 100.0 * 1048576.0,
            replicas: vec![
                member("web-allocanary-5d8f9c7b6-x2x4z", ReplicaRole::Changed, None, level(62.0)),
                member("web-5d8f9c7b6-aaaaa", ReplicaRole::Other, None, level(100.0)),
                member("web-5d8f9c7b6-bbbbb", ReplicaRole::Before, level(99.0), None),
            ],
            seconds: 3600,
            doubts: doubts.iter().map(|one| (*one).to_string()).collect(),
            notes: vec!["A note.".into()],
        }
    }

    #[test]
    fn a_verdict_is_eighty_columns_wide_and_has_its_interval_and_doubts() {
        let look = TerminalStyle { color: false, width: 80 };
        let lines = TrialVariable::parse_all("MALLOC_ARENA_MAX=1").unwrap();
        let text = verdict(&trial(TrialWord::Better, &[]), "shop/deployment/web/web", &lines, &look);
        assert!(text.starts_with("shop/deployment/web/web with MALLOC_ARENA_MAX=1: better\n"), "{text}");
        let flat = text.replace('\n', " ");
        assert!(flat.contains("38.0 % less resident memory than the others, 60 min 0 s after the change"), "{text}");
        assert!(flat.contains("95 % interval of the ratio 0.550 to 0.700."), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let doubted = verdict(&trial(TrialWord::Undecided, &["Too few."]), "x", &lines, &look);
        assert!(doubted.contains("\nUndecided: Too few.\n") && doubted.contains("A note."), "{doubted}");
    }
}
