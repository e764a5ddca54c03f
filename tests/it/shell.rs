//! Completions and manual pages: values are completed, and each manual page that is referenced exists.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{allocanary, words};

fn script(shell: &str, folder: &Path) -> std::path::PathBuf {
    let ran = allocanary(folder, ["completions", shell]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let path = folder.join(shell);
    fs::write(&path, ran.out).unwrap();
    path
}

/// What a shell prints for a program text; `None` if there is no such shell.
fn said(shell: &str, arguments: &[&str], folder: &Path) -> Option<String> {
    let mut command = Command::new(shell);
    command.args(arguments).current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    let output = command.finish().ok()?;
    assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The last word of each line is completed. Each must offer all of the names.
const OFFERED: &[(&str, &[&str])] = &[
    ("report rows --format ", &["table", "markdown", "csv", "html"]),
    ("report rows --format m", &["markdown"]),
    ("study ", &["default", "cores", "cases", "storm"]),
    ("study co", &["cores"]),
    ("study ar", &["arenas"]),
    ("study --candidates ", &["system", "jemalloc", "mimalloc"]),
    ("study --workloads ", &["server", "handoff", "churn"]),
    ("list ", &["settings", "workloads", "metrics"]),
    ("list me", &["meters", "metrics"]),
    ("compare a b --metrics ", &["resident", "p99"]),
    ("compare a b --undecided ", &["fail", "pass"]),
    ("completions ", &["bash", "fish", "zsh"]),
    ("man ", &["study", "doctor"]),
];

/// The names that begin with the last word, as a shell would offer them.
fn check(line: &str, wanted: &[&str], offered: &[&str]) {
    let last = line.rsplit(' ').next().unwrap_or_default();
    for name in wanted {
        assert!(offered.contains(name), "`{line}`: {name} is missing in {offered:?}");
    }
    assert!(offered.iter().all(|name| name.starts_with(last)), "`{line}`: {offered:?}");
}

#[test]
fn bash_completes_values() {
    let folder = tempdir().unwrap();
    let script = script("bash", folder.path());
    for (line, wanted) in OFFERED {
        let mut typed: Vec<&str> = line.split(' ').collect();
        typed.insert(0, "allocanary");
        let (last, before) = (typed[typed.len() - 1], typed[typed.len() - 2]);
        let typed: Vec<String> = typed.iter().map(|word| format!("'{word}'")).collect();
        let program = format!(
            "set -e; . '{}'; complete -p allocanary >/dev/null; COMP_WORDS=({}); COMP_CWORD={}; COMPREPLY=(); \
             _allocanary allocanary '{last}' '{before}' || true; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display(),
            typed.join(" "),
            typed.len() - 1,
        );
        let Some(offered) = said("bash", &["--norc", "--noprofile", "-c", &program], folder.path()) else {
            return skipped("bash is not installed");
        };
        let offered: Vec<&str> = offered.lines().filter(|name| !name.is_empty() && !name.starts_with('-')).collect();
        check(line, wanted, &offered);
    }
}

#[test]
fn fish_completes_values() {
    let folder = tempdir().unwrap();
    let script = script("fish", folder.path());
    for (line, wanted) in OFFERED {
        let program = format!("source '{}'; complete -C 'allocanary {line}'", script.display());
        let Some(offered) = said("fish", &["--no-config", "-c", &program], folder.path()) else {
            return skipped("fish is not installed: `apt-get install fish`");
        };
        let offered: Vec<&str> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
        for name in *wanted {
            assert!(offered.contains(name), "`{line}`: {name} is missing in {offered:?}");
        }
    }
}

#[test]
fn zsh_reads_the_script_and_it_has_the_values() {
    let folder = tempdir().unwrap();
    let script = script("zsh", folder.path());
    let text = fs::read_to_string(&script).unwrap();
    for values in
        ["(table markdown csv html json)", "(system jemalloc mimalloc)", ":(default cores ", ":(allocators settings "]
    {
        assert!(text.contains(values), "{values}\n{text}");
    }
    if said("zsh", &["-f", "-n", script.to_str().unwrap()], folder.path()).is_none() {
        skipped("zsh is not installed: `apt-get install zsh`");
    }
}

#[test]
fn each_manual_page_that_is_referred_to_exists() {
    let folder = tempdir().unwrap();
    let ran = allocanary(folder.path(), words("man --out-dir pages/man1"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let pages = folder.path().join("pages/man1");
    let names: Vec<String> =
        fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(ran.out.starts_with(&format!("{} pages in ", names.len())) && names.len() >= 9, "{}", ran.out);
    let mut references = 0;
    for name in &names {
        let text = fs::read_to_string(pages.join(name)).unwrap();
        assert!(text.starts_with(".ie"), "{name} is not roff");
        // `allocanary\-study(1)`, in bold or not.
        let plain = text.replace("\\-", "-").replace("\\fR", "").replace("\\fB", "");
        for (at, _) in plain.match_indices("(1)") {
            let before = &plain[..at];
            // `per_cpu(1)` is a value, and not a manual page.
            let from = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
            let from = from.map_or(0, |from| from + 1);
            if before[from..].contains('_') {
                continue;
            }
            let page = format!("{}.1", &before[from..]);
            assert!(names.contains(&page), "{name} refers to {page}, which does not exist: {names:?}");
            references += 1;
        }
    }
    assert!(references >= 8, "the command's page refers to the pages of its verbs: {references}");

    for (line, page) in [("man", "allocanary.1"), ("man study", "allocanary-study.1")] {
        let ran = allocanary(folder.path(), words(line));
        assert_eq!(ran.out, fs::read_to_string(pages.join(page)).unwrap(), "{line}");
    }
    let ran = allocanary(folder.path(), words("man stud"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(2), "allocanary: man: no verb `stud`; perhaps study\n"));
}
