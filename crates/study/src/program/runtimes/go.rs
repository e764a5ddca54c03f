//! Go: GOGC, GOMEMLIMIT, GOMAXPROCS. In: a program that Go built, and its process. Out: the version that built it, and the values in force.
//!
//! A program may set all three itself (`debug.SetGCPercent`, `debug.SetMemoryLimit`, `runtime.GOMAXPROCS`). If it has symbols, the
//! runtime's own variables show the values in force.

use std::fs::File;
use std::path::Path;

use object::{Object, ObjectKind, ObjectSection, ObjectSymbol, ReadCache};

use super::knob::{Also, Knob, Usual, Way};
use super::runtime::{RuntimeKind, Traits, never};
use super::taken::Globals;
use allocanary_facts::setting::SettingKind;

/// Go.
pub const GO: RuntimeKind = RuntimeKind {
    name: "Go",
    knobs: &[
        Knob::new(
            "gogc",
            SettingKind::Text,
            "Go: growth of the heap in % before the next collection, or off",
            Way::Variable("GOGC"),
            Usual::Text("100"),
            Also::OffOr(1, 1_000_000),
        ),
        Knob::new(
            "memlimit",
            SettingKind::Size { min: 1 << 20, max: i64::MAX as u64 },
            "Go: memory of the runtime from which on it collects more often (Go 1.19)",
            Way::Variable("GOMEMLIMIT"),
            Usual::Unknown,
            Also::Nothing,
        ),
        Knob::new(
            "maxprocs",
            SettingKind::Number { min: 1, max: 4096 },
            "Go: threads that run Go code at one time",
            Way::Variable("GOMAXPROCS"),
            Usual::Cores,
            Also::Nothing,
        ),
    ],
    tried: &["gogc=50", "gogc=200"],
    recognise,
    ignores: never,
    is_changeable: true,
};

/// The first release with a memory limit.
const FIRST_LIMIT: u32 = 19;
/// The newest minor release whose variables in memory are known. For a newer one, only the environment is read.
const LAST_SEEN: u32 = 26;

fn recognise(file: &Path) -> Option<Traits> {
    let file = File::open(file).ok()?;
    let cache = ReadCache::new(&file);
    let elf = object::File::parse(&cache).ok()?;
    let section = elf.section_by_name(".go.buildinfo")?;
    let version = version(section.data().ok()?);
    let minor = minor(&version);
    let too_old = minor.is_none_or(|minor| minor < FIRST_LIMIT);
    let lacks = too_old.then(|| {
        let text = "wanted Go 1.19 or newer, whose runtime has a memory limit: take gogc, or build it with a newer Go";
        ("memlimit", text.to_string())
    });
    let address = |name: &str| elf.symbols().find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address());
    // A program that is loaded at another address each time does not have its variables at these addresses.
    let is_fixed = elf.kind() == ObjectKind::Executable && !too_old && minor.is_some_and(|minor| minor <= LAST_SEEN);
    let (controller, procs) = ("runtime.gcController", "runtime.gomaxprocs");
    let globals = || Some(Globals { controller: address(controller)?, procs: address(procs)? });
    Some(Traits { version, lacks: lacks.into_iter().collect(), globals: is_fixed.then(globals).flatten() })
}

/// The version in the section. Releases before 1.18 have a pointer to it there, and not the text.
fn version(info: &[u8]) -> String {
    const INLINE: u8 = 2;
    let text = || {
        let (flags, rest) = (*info.get(15)?, info.get(32..)?);
        let (length, rest) = rest.split_first()?;
        // A length of more than 127 bytes has a second byte, and no version is that long.
        (flags & INLINE != 0 && *length < 128).then(|| rest.get(..usize::from(*length))).flatten()
    };
    let text = text().map_or("1.17 or older".into(), String::from_utf8_lossy);
    text.strip_prefix("go").unwrap_or(&text).to_string()
}

/// The minor release: 26 of `1.26.8`, and 27 of `devel go1.27-a1b2c3`.
fn minor(version: &str) -> Option<u32> {
    let (_, rest) = version.split_once("1.")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(flags: u8, version: &str) -> Vec<u8> {
        let mut bytes = b"\xff Go buildinf:\x08".to_vec();
        bytes.push(flags);
        bytes.resize(32, 0);
        bytes.push(version.len() as u8);
        bytes.extend(version.as_bytes());
        bytes.extend([0; 40]);
        bytes
    }

    #[test]
    fn the_version_is_that_which_built_it() {
        assert_eq!(version(&info(2, "go1.26.8")), "1.26.8");
        assert_eq!(version(&info(0, "")), "1.17 or older");
        assert_eq!(version(&[]), "1.17 or older");
        for (text, wanted) in [("1.26.8", Some(26)), ("devel go1.27-a1b2 X", Some(27)), ("1.9", Some(9)), ("x", None)] {
            assert_eq!(minor(text), wanted, "{text}");
        }
        assert_eq!(minor("1.17 or older"), Some(17), "it has no memory limit");
    }
}
