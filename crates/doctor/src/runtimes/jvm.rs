//! Java virtual machines. Their native memory is `malloc`'s; the Java heap is not.

use allocanary_heap::{Area, Sort};
use allocanary_text::units::OneDecimal;

use super::runtime::{Runtime, added, also_now, area, has_library};
use crate::remedy::{Gives, PasteLine, Remedy, Who, variable};
use crate::subject::Subject;

pub(super) const RUNTIME: Runtime = Runtime { is_here: |process| has_library(process, "libjvm.so"), remedies };

/// Options that any JVM reads at its start.
const OPTIONS: &str = "JAVA_TOOL_OPTIONS";

fn remedies(subject: &Subject, all: &mut Vec<Remedy>) {
    let pid = subject.reading.process.pid;
    let release = subject.process.seen.jdk;
    also_now(all, "shell, by the JDK", format!("jcmd {pid} System.trim_native_heap"));
    let forecast = { all.iter() }.find(|one| one.id == "give-back").and_then(|one| one.gives.bytes());
    if let (Some(bytes), Some(options)) = (forecast, release.and_then(trims)) {
        all.push(Remedy {
            check: None,
            id: "TrimNativeHeapInterval".into(),
            what: "the JVM trims its native memory each second".into(),
            who: Who::OperatorRestart,
            gives: Gives::Bound { bytes },
            evidence: format!(
                "It gives back at most what a call gives now, {}, but again after each burst.",
                OneDecimal(bytes)
            ),
            cost: "one call of malloc_trim each second, in a thread of the JVM".into(),
            lines: variable(OPTIONS, &added(subject, OPTIONS, options)),
        });
    }
    if area(subject, "the JVM's heap").is_some() {
        all.push(collect(subject, pid));
    }
}

/// A garbage collection. After it the JVM gives parts of its heap back, with the tables for them.
fn collect(subject: &Subject, pid: u32) -> Remedy {
    let areas = subject.reading.areas.iter();
    let of_it = |area: &&Area| area.name.starts_with("the JVM") || area.sort == Sort::Unknown;
    // A collection also frees native memory that belongs to dead objects.
    let heaps: u64 = subject.reading.heaps.iter().map(|heap| heap.resident).sum();
    let bytes = areas.filter(of_it).map(|area| area.resident).sum::<u64>() + heaps;
    let by_itself = match subject.process.seen.jdk {
        Some((12.., ..)) => variable(OPTIONS, &added(subject, OPTIONS, "-XX:G1PeriodicGCInterval=60000")),
        _ => Vec::new(),
    };
    Remedy {
        check: None,
        id: "GC.run".into(),
        what: "have the JVM collect, and give back what it does not need".into(),
        who: Who::OperatorNow,
        gives: Gives::Bound { bytes },
        evidence: format!(
            "How much of the Java heap is live is not read here; `jcmd {pid} GC.heap_info` says it. From JDK 12 the option \
             -XX:G1PeriodicGCInterval=60000 has G1 do it by itself, each minute in which the program is idle."
        ),
        cost: "a pause for one full collection".into(),
        lines: [vec![PasteLine::new("shell", format!("jcmd {pid} GC.run"))], by_itself].concat(),
    }
}

/// The options that make this release trim; `None` if it cannot.
fn trims((major, minor, patch): (u32, u32, u32)) -> Option<&'static str> {
    let experimental = Some("-XX:+UnlockExperimentalVMOptions -XX:TrimNativeHeapInterval=1000");
    match major {
        23.. => Some("-XX:TrimNativeHeapInterval=1000"),
        22 => experimental,
        21 if (minor, patch) >= (0, 1) => experimental,
        17 if (minor, patch) >= (0, 9) => experimental,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::trims;

    #[test]
    fn releases_trim_since_their_backport() {
        assert!(trims((17, 0, 8)).is_none() && trims((11, 0, 30)).is_none() && trims((21, 0, 0)).is_none());
        assert!(trims((17, 0, 9)).is_some_and(|options| options.contains("Experimental")));
        assert_eq!(trims((23, 0, 0)), Some("-XX:TrimNativeHeapInterval=1000"));
    }
}
