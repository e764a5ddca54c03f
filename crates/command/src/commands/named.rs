//! Finds the process that a user names. In: a process ID or a name. Out: its ID, or an error with what was found
//! instead.

use allocanary_heap::{ProcessSubject, ProcessTrouble, named, processes};
use allocanary_rows::error::{Error, Result};
use allocanary_rows::mistyped;
use allocanary_text::outside::harmless;

/// The process that a text names. `verb` is for the error.
pub fn find(verb: &str, text: &str) -> Result<u32> {
    let pid = match text.parse() {
        Ok(pid) => pid,
        Err(_) => of_name(verb, text)?,
    };
    with_memory(verb, pid)
}

fn of_name(verb: &str, text: &str) -> Result<u32> {
    if text.is_empty() {
        let verb = if verb.is_empty() { String::new() } else { format!("{verb}: ") };
        return Err(Error::Input(format!("{verb}wanted a process ID or the name of a process; found an empty text")));
    }
    let mut all = processes();
    all.retain(|one| one.pid != std::process::id());
    among(verb, &all, text)
}

/// A process of this number, unless it is one that never has memory again: a thread of the kernel, or a process that has ended.
pub fn with_memory(verb: &str, pid: u32) -> Result<u32> {
    let begin = if verb.is_empty() { String::new() } else { format!("{verb}: ") };
    match ProcessTrouble::Gone(pid).explained() {
        ProcessTrouble::Gone(_) => Ok(pid),
        told => Err(Error::Input(format!("{begin}{told}"))),
    }
}

/// The process that the first word of the command line names. The word may also be a misspelled verb, of these.
pub fn find_or_verb(text: &str, verbs: &[&str]) -> Result<u32> {
    find("", text).map_err(|error| {
        let near = mistyped(text, verbs.iter().copied());
        let verb = near.map_or(String::new(), |verb| format!("\nIs it a verb? Perhaps `allocanary {verb}`"));
        let is_word = text.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '-');
        let also = if verb.is_empty() && is_word {
            "\nNo verb has this name either: `allocanary --help` lists them"
        } else {
            &verb
        };
        Error::Input(format!("{error}{also}"))
    })
}

/// A text of so many letters is taken for the begin of a name.
const LEAST_BEGIN: usize = 3;

fn among(verb: &str, all: &[ProcessSubject], text: &str) -> Result<u32> {
    let text = harmless(text);
    // `allocanary PROCESS` has no verb.
    let begin = if verb.is_empty() { String::new() } else { format!("{verb}: ") };
    match named(all, &text).as_slice() {
        [one] => Ok(one.pid),
        [] => {
            let names = || all.iter().flat_map(|one| [one.name.raw(), one.raw_file()]).filter(|name| !name.is_empty());
            let begins = || names().find(|name| text.len() >= LEAST_BEGIN && name.starts_with(&*text));
            let near = mistyped(&text, names()).or_else(begins);
            let near = match near.and_then(|near| all.iter().find(|one| one.name == *near || one.raw_file() == near)) {
                Some(one) => format!("; perhaps {} ({})", one.name.harmless(), one.pid),
                None => String::new(),
            };
            Err(Error::Input(format!("{begin}no process has the name `{text}`{near}: `ps -e` lists them")))
        }
        several => {
            let line =
                |one: &&ProcessSubject| format!("  {} {} {}", one.pid, one.name.harmless(), one.executable.harmless());
            let list: Vec<String> = several.iter().map(line).collect();
            // Only `heap` and `allocanary PROCESS` read a process with its children.
            let tree = if verb.is_empty() || verb == "heap" { ", or the first with --tree" } else { "" };
            Err(Error::Input(format!(
                "{begin}{} processes have the name `{text}`: name one by its process ID{tree}\n{}",
                several.len(),
                list.join("\n")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: u32, name: &str, executable: &str) -> ProcessSubject {
        ProcessSubject { pid, name: name.into(), executable: executable.into(), ..ProcessSubject::default() }
    }

    #[test]
    fn a_name_that_is_nearly_right_finds_its_process() {
        let all =
            [one(1, "init", "/sbin/init"), one(7, "redis-server", "/usr/bin/redis-server"), one(8, "sh", "/bin/dash")];
        assert_eq!(among("doctor", &all, "redis-server").unwrap(), 7);
        assert_eq!(among("doctor", &all, "dash").unwrap(), 8, "by its file");
        let said = |text: &str| among("doctor", &all, text).unwrap_err().to_string();
        let wanted = "doctor: no process has the name `redis-sever`; perhaps redis-server (7): `ps -e` lists them";
        assert_eq!(said("redis-sever"), wanted);
        assert!(said("redis").contains("; perhaps redis-server (7):"), "{}", said("redis"));
        for other in ["nginx", "re", "mysql-server", "cron"] {
            assert!(!said(other).contains("perhaps"), "{}", said(other));
        }
    }

    #[test]
    fn an_empty_text_names_no_process() {
        let said = ["", "doctor"].map(|verb| find(verb, "").unwrap_err().to_string());
        assert!(said[0].starts_with("wanted a process ID") && said[1].starts_with("doctor: wanted"), "{said:?}");
    }

    #[test]
    fn of_several_processes_one_must_be_chosen() {
        let all = [one(7, "sh", "/bin/dash"), one(8, "sh", "/bin/dash")];
        let said = |verb: &str| among(verb, &all, "sh").unwrap_err().to_string();
        assert!(said("doctor").contains("2 processes") && said("doctor").contains("\n  8 sh /bin/dash"));
        assert!(said("heap").contains("--tree") && !said("doctor").contains("--tree"));
    }

    #[test]
    fn a_line_of_a_processes_name_is_no_line_of_the_list() {
        let all = [one(7, "sh", "/tmp/x\n  1 sh /bin/sh"), one(8, "sh", "/bin/dash")];
        let said = among("doctor", &all, "sh").unwrap_err().to_string();
        assert_eq!(
            said.lines().skip(1).collect::<Vec<_>>(),
            ["  7 sh /tmp/x\u{fffd}  1 sh /bin/sh", "  8 sh /bin/dash"]
        );
    }
}
