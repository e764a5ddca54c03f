//! CPython: whether its small objects have an allocator of their own. In: the program `python3.11`. Out: its version.
//!
//! The number and the size of its arenas are fixed when it is built: no variable sets them.

use std::borrow::Cow;
use std::path::Path;

use super::knob::Also;
use super::{Knob, Runtime, Traits, Usual, Way};
use allocanary_allocators::setting::Kind;

/// CPython.
pub const CPYTHON: Runtime = Runtime {
    name: "CPython",
    knobs: &[Knob::new(
        "pymalloc",
        Kind::words(&[Cow::Borrowed("on"), Cow::Borrowed("off")]),
        "CPython: whether objects of 512 bytes or less have an allocator of their own; off takes malloc for them",
        Way::Variable("PYTHONMALLOC"),
        Usual::Text("on"),
        Also::Words(&[("off", "malloc"), ("on", "pymalloc")]),
    )],
    tried: &[],
    recognise,
};

fn recognise(file: &Path) -> Option<Traits> {
    let version = file.file_name()?.to_str()?.strip_prefix("python")?;
    // `python3.11`. One without its own allocator, `python3.13t`, takes mimalloc only.
    let (major, minor) = version.split_once('.')?;
    let minor: u32 = minor.parse().ok()?;
    (major == "3" && minor >= 6).then(|| Traits { version: version.to_string(), ..Traits::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_is_known_by_its_name() {
        let version = |name: &str| recognise(&Path::new("/usr/bin").join(name)).map(|found| found.version);
        assert_eq!(version("python3.11").as_deref(), Some("3.11"));
        for other in ["python", "python2.7", "python3.5", "python3.13t", "python3.11-config", "pythonista"] {
            assert_eq!(version(other), None, "{other}");
        }
    }
}
