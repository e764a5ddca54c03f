//! Decides which build of jemalloc reads which variable and which link. The builds differ in the prefix of their names. The result says
//! whether a variable or link has an effect in a program, with the reason as a sentence.

use allocanary_facts::jemalloc::{PLAIN_VARIABLE, PREFIXED_VARIABLE, RUST_VARIABLE};

use super::links::{A_FILE, LINKS, readers, variable_of};
use crate::flavour::Flavour;
use crate::variables::{VariableEffect, not_here};

/// Its variables, in the order in which a program with `install!` reads them.
pub(crate) const VARIABLES: [&str; 3] = [PREFIXED_VARIABLE, PLAIN_VARIABLE, RUST_VARIABLE];

/// Which programs read a variable or a link; `None` if jemalloc has no variable or link of this name.
pub(super) fn reader(variable: &str, value: &str, subject: Option<&[Flavour]>) -> Option<(VariableEffect, String)> {
    if VARIABLES.contains(&variable) {
        return Some(match subject {
            None => jemalloc_reader(variable),
            Some(flavours) => jemalloc_reader_of(variable, flavours),
        });
    }
    if variable.starts_with("JEMALLOC_SYS_") {
        let text = "read while jemalloc is built, by tikv-jemalloc-sys; not by a program that runs";
        return Some((VariableEffect::Ignored, text.into()));
    }
    variable_of(variable).map(|later| link_reader(variable, later, value, subject))
}

/// Which of the programs that are started from here read a variable of jemalloc.
fn jemalloc_reader(variable: &str) -> (VariableEffect, String) {
    let (verdict, text) = match variable {
        RUST_VARIABLE => (
            VariableEffect::Read,
            "by Rust programs with tikv-jemallocator as it is built by default; other jemallocs read MALLOC_CONF",
        ),
        PLAIN_VARIABLE => (
            VariableEffect::Depends,
            "ignored by Rust programs with tikv-jemallocator as it is built by default (its prefix makes it \
             _RJEM_MALLOC_CONF), unless they use install!; read by a jemalloc under C's own names (C programs, LD_PRELOAD)",
        ),
        _ => (
            VariableEffect::Depends,
            "ignored by Rust programs with tikv-jemallocator as it is built by default, unless they use install!; read \
             by a jemalloc that was built with the prefix je_",
        ),
    };
    (verdict, text.into())
}

/// Whether a program that has `flavours` reads a variable of jemalloc. It may have two builds: its own, and a preloaded one
/// that serves its C code.
fn jemalloc_reader_of(variable: &str, flavours: &[Flavour]) -> (VariableEffect, String) {
    let jemallocs = || flavours.iter().copied().filter(|flavour| flavour.is_jemalloc());
    let is_mains = |main: &&Flavour| main.is_jemalloc() && own_variable(**main) == variable;
    if flavours.first().filter(is_mains).is_some() {
        return (VariableEffect::Read, "by this program's jemalloc".into());
    }
    let own = jemallocs().find(|jemalloc| own_variable(*jemalloc) == variable);
    let installs = || jemallocs().find(|jemalloc| *jemalloc == Flavour::RustJemalloc { installs: true });
    let told = |jemalloc: Flavour, text: &str| match of_c_alone(jemalloc, flavours) {
        Some(of_c) => (VariableEffect::Depends, format!("read {of_c}")),
        None => (VariableEffect::Read, text.to_string()),
    };
    match (installs(), own) {
        (Some(jemalloc), own) if own != Some(jemalloc) => {
            told(jemalloc, "by this program's jemalloc, to which install! hands it on")
        }
        (_, Some(jemalloc)) => told(jemalloc, "by this program's jemalloc"),
        _ if jemallocs().next().is_none() => not_here(flavours),
        _ => {
            let own: Vec<&str> = jemallocs().map(own_variable).collect();
            let own = own.join(" and ");
            (VariableEffect::Ignored, format!("this program's jemalloc reads {own} alone: put the settings there"))
        }
    }
}

/// The remark if a jemalloc serves only the program's C code, and the program itself has another allocator.
fn of_c_alone(jemalloc: Flavour, flavours: &[Flavour]) -> Option<String> {
    let main = *flavours.first().filter(|main| **main != jemalloc)?;
    let another = match main.is_jemalloc() {
        true => format!("another jemalloc, which reads {}", own_variable(main)),
        false => main.name().to_string(),
    };
    Some(format!("by the jemalloc of its C code alone; the program itself allocates from {another}"))
}

/// The variable that a build of jemalloc reads by itself.
pub fn own_variable(jemalloc: Flavour) -> &'static str {
    match jemalloc {
        Flavour::PlainJemalloc => PLAIN_VARIABLE,
        Flavour::PrefixedJemalloc => PREFIXED_VARIABLE,
        _ => RUST_VARIABLE,
    }
}

/// Which programs read a link of jemalloc. `later` is the variable that takes precedence over it.
fn link_reader(link: &str, later: &str, value: &str, subject: Option<&[Flavour]>) -> (VariableEffect, String) {
    let all = || subject.into_iter().flatten().copied().filter(|flavour| flavour.is_jemalloc());
    let jemalloc = all().find(|jemalloc| own_variable(*jemalloc) == later).or(all().next());
    match (subject, jemalloc) {
        _ if value == A_FILE => {
            let text = "jemalloc takes the text of a symbolic link, and this is none: ln -s narenas:1";
            (VariableEffect::Ignored, format!("{text} {link}"))
        }
        (None, _) if link == "/etc/_rjem_malloc.conf" => (VariableEffect::Read, readers(link).into()),
        (None, _) => (VariableEffect::Depends, readers(link).into()),
        (Some(flavours), None) => not_here(flavours),
        (_, Some(jemalloc)) if own_variable(jemalloc) != later => (
            VariableEffect::Ignored,
            format!("a link for other builds of jemalloc: this program's reads {}", own_link(jemalloc)),
        ),
        (_, Some(Flavour::RustJemalloc { installs: true })) => (
            VariableEffect::Read,
            format!(
                "by this program's jemalloc, over the settings in its code, JE_MALLOC_CONF and MALLOC_CONF; {later} wins"
            ),
        ),
        (Some(flavours), Some(jemalloc)) => match of_c_alone(jemalloc, flavours) {
            Some(of_c) => (VariableEffect::Depends, format!("read {of_c}; {later} wins")),
            None => (
                VariableEffect::Read,
                format!("by this program's jemalloc, over the settings in its code; {later} wins"),
            ),
        },
    }
}

/// The link that a build of jemalloc reads.
pub fn own_link(jemalloc: Flavour) -> &'static str {
    let own = own_variable(jemalloc);
    LINKS.into_iter().find(|(_, variable)| *variable == own).map_or("", |(link, _)| link)
}
