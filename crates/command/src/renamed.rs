//! Old names that are still accepted. In: the words of a command line. Out: the words of this version, and a notice for
//! each renamed word.

/// A flag that was renamed.
struct Flag {
    /// The verbs that had this flag; empty for all verbs.
    verbs: &'static [&'static str],
    old: &'static str,
    new: &'static str,
}

/// One idea has one name: a time limit, a program's file, metrics, candidates, the file that is written.
const FLAGS: &[Flag] = &[
    Flag { verbs: &[], old: "--deadline", new: "--timeout" },
    Flag { verbs: &[], old: "--columns", new: "--metrics" },
    Flag { verbs: &["run", "record"], old: "--file", new: "--program" },
    Flag { verbs: &["tune"], old: "--allocators", new: "--candidates" },
    Flag { verbs: &["who"], old: "--out", new: "--to" },
    Flag { verbs: &["heap"], old: "--html", new: "--to" },
];

/// Verbs that became a part of another verb.
const VERBS: &[(&[&str], &[&str])] = &[
    (&["plan"], &["study", "--plan"]),
    (&["help", "plan"], &["help", "study"]),
    (&["man", "plan"], &["man", "study"]),
    (&["trace", "info"], &["report"]),
    (&["trace", "report"], &["report", "--format", "html"]),
];

/// Renamed settings of workloads and preloads, as they appear in flags.
const SETTINGS: &[(&str, &str)] = &[("idle_threads=", "thread_idle="), ("idle_every=", "thread_idle_every=")];

/// A renamed setting of preloads, only as a word of `preload`. Workloads have a setting with the same old name: their
/// idle time.
const OF_PRELOADS: (&str, &str) = ("idle=", "thread_idle=");

/// Returns the words of this version, without the name of the program, and the notices.
pub fn renamed(words: Vec<String>) -> (Vec<String>, Vec<String>) {
    let mut notices = Vec::new();
    let begins = |old: &[&str]| words.len() >= old.len() && old.iter().zip(&words).all(|(old, word)| old == word);
    let mut words = match VERBS.iter().find(|(old, _)| begins(old)) {
        // `trace` has its own help.
        Some((old, new)) if old[0] != "trace" || !asks_for_help(&words) => {
            notices.push(notice(&format!("allocanary {}", old.join(" ")), &format!("allocanary {}", new.join(" "))));
            new.iter().map(ToString::to_string).chain(words[old.len()..].iter().cloned()).collect()
        }
        _ => words,
    };
    let verb = words.first().cloned().unwrap_or_default();
    // The words after `--` belong to the user's program.
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    for word in &mut words[..own] {
        while let Some((old, new, changed)) = settings_renamed(word, verb == "preload") {
            notices.push(notice(old.trim_end_matches('='), new.trim_end_matches('=')));
            *word = changed;
        }
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let applies = |flag: &&Flag| flag.old == name && (flag.verbs.is_empty() || flag.verbs.contains(&verb.as_str()));
        let Some(flag) = FLAGS.iter().find(applies) else { continue };
        notices.push(notice(flag.old, flag.new));
        *word = value.map_or(flag.new.to_string(), |value| format!("{}={value}", flag.new));
    }
    (words, notices)
}

/// If a word has a setting with an old name: the old name, the new name, and the word with the new name.
fn settings_renamed(word: &str, is_preload: bool) -> Option<(&'static str, &'static str, String)> {
    let begins = |at: usize| at == 0 || word[..at].ends_with([',', ':', '=', ' ']);
    let known = SETTINGS.iter().chain(Some(&OF_PRELOADS).filter(|_| is_preload));
    let found = known
        .filter_map(|(old, new)| Some((word.match_indices(old).map(|(at, _)| at).find(|at| begins(*at))?, old, new)));
    let (at, old, new) = found.min_by_key(|(at, ..)| *at)?;
    Some((old, new, format!("{}{new}{}", &word[..at], &word[at + old.len()..])))
}

fn asks_for_help(words: &[String]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "-h" || word == "--help")
}

fn notice(old: &str, new: &str) -> String {
    format!("allocanary: `{old}` is called `{new}` now; the old name goes on working")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (String, usize) {
        let (words, notices) = renamed(line.split(' ').map(String::from).collect());
        (words.join(" "), notices.len())
    }

    #[test]
    fn old_names_become_new_ones_and_a_program_keeps_its_own_flags() {
        assert_eq!(of("run --deadline 5s --file a.toml"), ("run --timeout 5s --program a.toml".into(), 2));
        assert_eq!(of("run --deadline=5s -- x --deadline 3"), ("run --timeout=5s -- x --deadline 3".into(), 1));
        assert_eq!(of("who t --format pprof --out f"), ("who t --format pprof --to f".into(), 1));
        assert_eq!(of("study --out f"), ("study --out f".into(), 0));
        assert_eq!(of("plan cores --repeats 3"), ("study --plan cores --repeats 3".into(), 1));
        assert_eq!(of("trace report a.trace --to b"), ("report --format html a.trace --to b".into(), 1));
        assert_eq!(of("trace check a.trace"), ("trace check a.trace".into(), 0));
        let line = "study --workloads server:idle=200,idle_threads=give_back wakes:idle_every=0 -- x:idle_threads=keep";
        let now =
            "study --workloads server:idle=200,thread_idle=give_back wakes:thread_idle_every=0 -- x:idle_threads=keep";
        assert_eq!(of(line), (now.into(), 2), "what stands after `--` is a program's");
        let both = of("study --workloads wakes:idle_threads=give_back,idle_every=0");
        assert_eq!(both, ("study --workloads wakes:thread_idle=give_back,thread_idle_every=0".into(), 2));
        assert_eq!(of("preload system --settings=tuned,idle=1s").0, "preload system --settings=tuned,thread_idle=1s");
        assert_eq!(
            of("preload system --settings thread_idle=1s"),
            ("preload system --settings thread_idle=1s".into(), 0)
        );
        assert_eq!(of("trace info --help"), ("trace info --help".into(), 0));
    }
}
