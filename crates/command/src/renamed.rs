//! Names of earlier versions that go on working. In: the words of a command line. Out: the words of this version, and a notice for each
//! that was renamed.

/// A flag that has another name now.
struct Flag {
    /// The verbs that had it; empty for all.
    verbs: &'static [&'static str],
    old: &'static str,
    new: &'static str,
}

/// One name for one idea: a time limit, a program's file, metrics, candidates, the file that is written.
const FLAGS: &[Flag] = &[
    Flag { verbs: &[], old: "--deadline", new: "--timeout" },
    Flag { verbs: &[], old: "--columns", new: "--metrics" },
    Flag { verbs: &["run", "record"], old: "--file", new: "--program" },
    Flag { verbs: &["tune"], old: "--allocators", new: "--candidates" },
    Flag { verbs: &["who"], old: "--out", new: "--to" },
    Flag { verbs: &["heap"], old: "--html", new: "--to" },
];

/// Verbs that are part of another one now.
const VERBS: &[(&[&str], &[&str])] = &[
    (&["plan"], &["study", "--plan"]),
    (&["help", "plan"], &["help", "study"]),
    (&["man", "plan"], &["man", "study"]),
    (&["trace", "info"], &["report"]),
    (&["trace", "report"], &["report", "--format", "html"]),
];

/// The words of this version, without the name of the program, and the notices.
pub fn renamed(words: Vec<String>) -> (Vec<String>, Vec<String>) {
    let mut notices = Vec::new();
    let begins = |old: &[&str]| words.len() >= old.len() && old.iter().zip(&words).all(|(old, word)| old == word);
    let mut words = match VERBS.iter().find(|(old, _)| begins(old)) {
        // `trace` has a help of its own.
        Some((old, new)) if old[0] != "trace" || !asks_for_help(&words) => {
            notices.push(notice(&format!("allocanary {}", old.join(" ")), &format!("allocanary {}", new.join(" "))));
            new.iter().map(ToString::to_string).chain(words[old.len()..].iter().cloned()).collect()
        }
        _ => words,
    };
    let verb = words.first().cloned().unwrap_or_default();
    // What stands after `--` is a program's.
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    for word in &mut words[..own] {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let applies = |flag: &&Flag| flag.old == name && (flag.verbs.is_empty() || flag.verbs.contains(&verb.as_str()));
        let Some(flag) = FLAGS.iter().find(applies) else { continue };
        notices.push(notice(flag.old, flag.new));
        *word = value.map_or(flag.new.to_string(), |value| format!("{}={value}", flag.new));
    }
    (words, notices)
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
        assert_eq!(of("trace info --help"), ("trace info --help".into(), 0));
    }
}
