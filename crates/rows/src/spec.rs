//! The notation `name:key=value,key=value` of candidates and workloads.
//! In: a user's text. Out: a name and its settings in the order of their keys.

use std::collections::BTreeMap;
use std::fmt;

/// The beginning of a candidate that is a library of the user: `preload=/path/lib.so,env.NAME=VALUE`.
pub const PRELOAD: &str = "preload=";

/// The setting that limits a program's transparent huge pages. Every candidate of a program has it. It is not called `thp`, because that is
/// one of jemalloc's settings.
pub const PROCESS_THP: &str = "process_thp";

/// A name with settings: `jemalloc:narenas=1,dirty_decay_ms=0` or `server:live=16MiB`.
///
/// Two texts that differ only in the order of their keys give equal `Spec`s, which print the same text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spec {
    /// The text before the colon.
    pub name: String,
    /// The settings, by key.
    pub settings: BTreeMap<String, String>,
}

impl Spec {
    /// A name without settings.
    pub fn named(name: &str) -> Spec {
        Spec { name: name.to_string(), settings: BTreeMap::new() }
    }

    /// Parses the notation. The error names the problem and does not repeat the text.
    pub fn parse(text: &str) -> Result<Spec, String> {
        let separator = if text.trim_start().starts_with(PRELOAD) { ',' } else { ':' };
        let (name, rest) = match text.split_once(separator) {
            Some((name, rest)) => (name.trim(), Some(rest)),
            None => (text.trim(), None),
        };
        let is_path = name.len() > PRELOAD.len() && name.starts_with(PRELOAD);
        if name.is_empty() || !is_path && name.contains(|c: char| c.is_whitespace() || c == '=' || c == ',') {
            return Err("wanted `name` or `name:key=value,key=value`".into());
        }
        let mut settings = BTreeMap::new();
        for pair in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("`{}` is not `key=value`", pair.trim()));
            };
            let (key, value) = (key.trim(), value.trim());
            if key.is_empty() || value.is_empty() {
                return Err(format!("`{}` lacks a key or a value", pair.trim()));
            }
            if settings.insert(key.to_string(), value.to_string()).is_some() {
                return Err(format!("`{key}` stands twice"));
            }
        }
        Ok(Spec { name: name.to_string(), settings })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)?;
        for (index, (key, value)) in self.settings.iter().enumerate() {
            let separator = if index == 0 && !self.name.starts_with(PRELOAD) { ':' } else { ',' };
            write!(out, "{separator}{key}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_prints_alike_whatever_the_order() {
        let spec = Spec::parse("jemalloc: narenas=1 ,dirty_decay_ms=0").unwrap();
        assert_eq!(spec.to_string(), "jemalloc:dirty_decay_ms=0,narenas=1");
        assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
        assert_eq!(Spec::parse("system").unwrap().to_string(), "system");
        let library = Spec::parse("preload=/a/b:c.so,env.B=2,env.A=1").unwrap();
        assert_eq!((library.name.as_str(), library.settings.len()), ("preload=/a/b:c.so", 2));
        assert_eq!(library.to_string(), "preload=/a/b:c.so,env.A=1,env.B=2");
        assert!(Spec::parse("preload=").is_err());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, problem) in [
            ("", "wanted `name`"),
            (":a=1", "wanted `name`"),
            ("two words", "wanted `name`"),
            ("jemalloc,narenas=1", "wanted `name`"),
            ("jemalloc:", "`` is not `key=value`"),
            ("jemalloc:narenas", "`narenas` is not `key=value`"),
            ("jemalloc:narenas=", "lacks a key or a value"),
            ("jemalloc:a=1,a=2", "`a` stands twice"),
        ] {
            let said = Spec::parse(text).unwrap_err();
            assert!(said.contains(problem), "{text}: {said}");
        }
    }

    #[test]
    fn fuzz_no_text_makes_the_parser_panic_and_what_it_takes_it_prints_back() {
        allocanary_testing::fuzz::holds(256, 2, ".{0,60}", |text| {
            if let Ok(spec) = Spec::parse(&text) {
                assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
            }
        });
    }
}
