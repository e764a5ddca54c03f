//! Lines that a user pastes into a shell. In: words, some of them from outside. Out: a line that the shell reads back as the same words,
//! and that cannot control a terminal.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::outside::steers;

/// A command line that a user pastes. Text from outside can only be added as a quoted word. All code that prints such a line takes this
/// type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(String);

impl CommandLine {
    /// The beginning of a line, in our own words: `allocanary who --sort requested`.
    pub fn new(ours: &'static str) -> CommandLine {
        CommandLine(ours.to_string())
    }

    /// Adds a word.
    pub fn word(self, word: impl AsRef<OsStr>) -> CommandLine {
        CommandLine(self.0 + " " + &quoted(word))
    }

    /// Adds words.
    pub fn words(self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> CommandLine {
        words.into_iter().fold(self, CommandLine::word)
    }

    /// Adds a path. A path that begins with `-` gets `./` before it, so that it is not taken for a flag.
    pub fn path(self, path: impl AsRef<Path>) -> CommandLine {
        let path = path.as_ref();
        match path.as_os_str().as_bytes() {
            [b'-', ..] => self.word(Path::new(".").join(path)),
            _ => self.word(path),
        }
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// A word, quoted so that a shell reads back the same word. Words with only the characters of settings and paths are not quoted. Characters
/// that control a terminal are written as `$'
/// '`, which bash, zsh, ksh and BusyBox read. Other shells read a wrong word, but still one word.
///
/// The crate shell-words also quotes each `=` and `%`, which would make `--threads=1` and `arena_max=2` hard to read. A job is also found
/// again by its command line, and rows contain this quoting.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let Some(word) = std::str::from_utf8(bytes).ok().filter(|word| !word.contains(steers)) else {
        return escaped(bytes);
    };
    let plain = |c: char| c.is_alphanumeric() || "_-+=.,:/@%{}".contains(c);
    // A shell expands `{a,b}` to two words.
    let list = |inside: &str| inside.contains(',') || inside.contains("..");
    let is_list = word.split('{').skip(1).any(|rest| list(rest.split('}').next().unwrap_or_default()));
    match !word.is_empty() && !is_list && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The word, with a number in place of each byte that cannot be shown.
fn escaped(word: &[u8]) -> String {
    let numbers = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:03o}")).collect::<String>();
    let shown = |c: char| match c {
        '\n' => "\\n".to_string(),
        '\t' => "\\t".to_string(),
        '\r' => "\\r".to_string(),
        '\\' | '\'' => format!("\\{c}"),
        _ if steers(c) => numbers(c.to_string().as_bytes()),
        _ => c.to_string(),
    };
    let chunks = word.utf8_chunks();
    let text: String =
        chunks.map(|chunk| chunk.valid().chars().map(shown).collect::<String>() + &numbers(chunk.invalid())).collect();
    format!("$'{text}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_a_shell_would_read_them() {
        assert_eq!(quoted("narenas:1,tcache:false"), "narenas:1,tcache:false");
        assert_eq!(quoted("tcache_ncached_max:8-64:1|128-256:7"), "'tcache_ncached_max:8-64:1|128-256:7'");
        for plain in ["--threads=1", "jemalloc:narenas=1,tcache=false", "{port},{dir}", "50%", "größe"] {
            assert_eq!(quoted(plain), plain);
        }
        for (word, typed) in [("a b", "'a b'"), ("it's", "'it'\\''s'"), ("", "''"), ("{a,b}", "'{a,b}'"), ("~", "'~'")]
        {
            assert_eq!(quoted(word), typed);
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_written_as_a_number() {
        for (word, typed) in [
            (&b"a\n"[..], "$'a\\n'"),
            (b"it's\t\\", "$'it\\'s\\t\\\\'"),
            (b"\x1b[2Jf", "$'\\033[2Jf'"),
            ("a\u{202e}1".as_bytes(), "$'a\\342\\200\\2561'"),
            (b"a\xffb", "$'a\\377b'"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(word)), typed);
        }
    }

    #[test]
    fn a_line_is_read_back_as_its_words() {
        let words: [&[u8]; 8] = [
            b"x;touch y",
            b"$(id) `id`",
            b"it's",
            b"",
            b"two\nlines",
            b"\x1b]0;x\x07",
            b"a\xff\\'",
            "\u{202e}7".as_bytes(),
        ];
        let line = CommandLine::new("printf '%s\\0'").words(words.map(OsStr::from_bytes)).to_string();
        assert!(!line.contains(steers), "{line:?}");
        let said = std::process::Command::new("bash").arg("-c").arg(&line).output().unwrap().stdout;
        assert_eq!(
            said.split_inclusive(|byte| *byte == 0).map(|word| &word[..word.len() - 1]).collect::<Vec<_>>(),
            words
        );
    }

    #[test]
    fn a_path_is_no_flag() {
        assert_eq!(CommandLine::new("allocanary who").path("-x.trace").to_string(), "allocanary who ./-x.trace");
        assert_eq!(
            CommandLine::new("allocanary who").path("a b/x").word(7.to_string()).to_string(),
            "allocanary who 'a b/x' 7"
        );
    }
}
