//! Which build of jemalloc reads which variable and which link: the builds differ in the prefix of their names. In: a
//! name and, if known, a program's allocators. Out: whether it has an effect there, and a sentence with the reason.

use super::links::{A_FILE, LINKS, readers};
use super::{Effect, Flavour};

/// Which programs that are started from here read a variable of jemalloc.
pub fn jemalloc_reader(variable: &str) -> (Effect, String) {
    let (verdict, text) = match variable {
        "_RJEM_MALLOC_CONF" => (
            Effect::Read,
            "by Rust programs with tikv-jemallocator as it is built by default; other jemallocs read MALLOC_CONF",
        ),
        "MALLOC_CONF" => (
            Effect::Depends,
            "ignored by Rust programs with tikv-jemallocator as it is built by default (its prefix makes it \
             _RJEM_MALLOC_CONF), unless they use install!; read by a jemalloc under C's own names (C programs, LD_PRELOAD)",
        ),
        _ => (
            Effect::Depends,
            "ignored by Rust programs with tikv-jemallocator as it is built by default, unless they use install!; read \
             by a jemalloc that was built with the prefix je_",
        ),
    };
    (verdict, text.into())
}

/// Whether a program that has `flavours` reads a variable of jemalloc.
pub fn jemalloc_reader_of(variable: &str, flavours: &[Flavour]) -> (Effect, String) {
    let Some(jemalloc) = flavours.iter().find(|flavour| flavour.is_jemalloc()) else { return not_here(flavours) };
    let own = own_variable(*jemalloc);
    match (jemalloc, variable) {
        (_, variable) if variable == own => (Effect::Read, "by this program's jemalloc".into()),
        (Flavour::RustJemalloc { installs: true }, _) => {
            (Effect::Read, "by this program's jemalloc, to which install! hands it on".into())
        }
        _ => (Effect::Ignored, format!("this program's jemalloc reads {own} alone: put the settings there")),
    }
}

/// The variable that a build of jemalloc reads by itself.
pub fn own_variable(jemalloc: Flavour) -> &'static str {
    match jemalloc {
        Flavour::PlainJemalloc => "MALLOC_CONF",
        Flavour::PrefixedJemalloc => "JE_MALLOC_CONF",
        _ => "_RJEM_MALLOC_CONF",
    }
}

/// Who reads a link of jemalloc. `later` is the variable that takes precedence over it.
pub fn link_reader(link: &str, later: &str, value: &str, subject: Option<&[Flavour]>) -> (Effect, String) {
    let jemalloc = subject.and_then(|flavours| flavours.iter().find(|flavour| flavour.is_jemalloc()));
    match (subject, jemalloc) {
        _ if value == A_FILE => {
            let text = "jemalloc takes the text of a symbolic link, and this is none: ln -s narenas:1";
            (Effect::Ignored, format!("{text} {link}"))
        }
        (None, _) if link == "/etc/_rjem_malloc.conf" => (Effect::Read, readers(link).into()),
        (None, _) => (Effect::Depends, readers(link).into()),
        (Some(flavours), None) => not_here(flavours),
        (_, Some(jemalloc)) if own_variable(*jemalloc) != later => (
            Effect::Ignored,
            format!("a link for other builds of jemalloc: this program's reads {}", own_link(*jemalloc)),
        ),
        (_, Some(Flavour::RustJemalloc { installs: true })) => (
            Effect::Read,
            format!(
                "by this program's jemalloc, over the settings in its code, JE_MALLOC_CONF and MALLOC_CONF; {later} wins"
            ),
        ),
        _ => (Effect::Read, format!("by this program's jemalloc, over the settings in its code; {later} wins")),
    }
}

/// The link that a build of jemalloc reads.
pub fn own_link(jemalloc: Flavour) -> &'static str {
    let own = own_variable(jemalloc);
    LINKS.into_iter().find(|(_, variable)| *variable == own).map_or("", |(link, _)| link)
}

/// The remark about a variable that is for none of a program's allocators.
pub fn not_here(flavours: &[Flavour]) -> (Effect, String) {
    let names: Vec<&str> = flavours.iter().map(|flavour| flavour.name()).collect();
    (Effect::Ignored, format!("this program has {}", names.join(" and ")))
}
