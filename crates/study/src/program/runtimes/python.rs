//! CPython: whether its own allocator serves small objects. In: the program `python3.11`. Out: its version.
//!
//! The number and the size of its arenas are fixed when it is built: no variable sets them.

use std::borrow::Cow;
use std::path::Path;

use super::knob::{Also, Knob, Usual, Way};
use super::runtime::{RuntimeKind, Traits};
use allocanary_facts::setting::SettingKind;

/// CPython.
pub const CPYTHON: RuntimeKind = RuntimeKind {
    name: "CPython",
    knobs: &[Knob::new(
        "pymalloc",
        SettingKind::words(&[Cow::Borrowed("on"), Cow::Borrowed("off")]),
        "CPython: whether objects of 512 bytes or less have an allocator of their own; off takes malloc for them",
        Way::Variable("PYTHONMALLOC"),
        Usual::Text("on"),
        Also::Words(&[("off", "malloc"), ("on", "pymalloc")]),
    )],
    tried: &[],
    recognise,
    ignores,
    is_changeable: false,
};

fn recognise(file: &Path) -> Option<Traits> {
    let version = file.file_name()?.to_str()?.strip_prefix("python")?;
    // A name such as `python3.11`. `python3.13t` does not count: it has no allocator of its own, and uses only mimalloc.
    let (major, minor) = version.split_once('.')?;
    let minor: u32 = minor.parse().ok()?;
    (major == "3" && minor >= 6).then(|| Traits { version: version.to_string(), ..Traits::default() })
}

/// `-E` and `-I` ignore all variables that begin with PYTHON. Letters may stand together: `-sE`. Options end with the program.
fn ignores(words: &[String]) -> Option<&str> {
    let mut words = words.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next() {
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty())?;
        if letters.starts_with('-') {
            // `--check-hash-based-pycs` alone has a value.
            if letters == "-check-hash-based-pycs" {
                words.next();
            }
            continue;
        }
        for (at, letter) in letters.char_indices() {
            match letter {
                'E' | 'I' => return Some(word),
                // The program.
                'c' | 'm' => return None,
                // Their value is the rest of the word, or the next one.
                'W' | 'X' => {
                    if at + 1 == letters.len() {
                        words.next();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_ignore_variables_are_found_before_the_program() {
        let word = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            ignores(&words).map(str::to_string)
        };
        for (line, found) in [
            ("python3 -E x.py", "-E"),
            ("python3 -sE x.py", "-sE"),
            ("python3 -W ignore -X dev -I", "-I"),
            ("python3 -Wignore -Ic pass", "-Ic"),
            ("python3 --check-hash-based-pycs always -E", "-E"),
        ] {
            assert_eq!(word(line).as_deref(), Some(found), "{line}");
        }
        for line in
            ["python3", "python3 x.py -E", "python3 -c -E", "python3 -W -E x.py", "python3 -XE x.py", "python3 - -E"]
        {
            assert_eq!(word(line), None, "{line}");
        }
    }

    #[test]
    fn a_python_is_known_by_its_name() {
        let version = |name: &str| recognise(&Path::new("/usr/bin").join(name)).map(|found| found.version);
        assert_eq!(version("python3.11").as_deref(), Some("3.11"));
        for other in ["python", "python2.7", "python3.5", "python3.13t", "python3.11-config", "pythonista"] {
            assert_eq!(version(other), None, "{other}");
        }
    }
}
