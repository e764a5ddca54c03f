//! glibc's variables: which programs read each, and the settings in them.

use std::borrow::Cow;

use allocanary_facts::setting::c_number as number;
use allocanary_facts::system::{CHECK, NAME, TUNABLE, TUNABLES, VARIABLES, settings};

use crate::flavour::Flavour;
use crate::seen::Libraries;
use crate::variables::{VariableEffect, VariableSetting, Variables, assignment, not_here, perhaps, refused};

/// The older variables, each with its tunable.
fn older() -> impl Iterator<Item = (&'static str, &'static str)> {
    let text = |text: &'static Cow<str>| -> &'static str { text };
    VARIABLES.iter().map(move |(name, key)| (text(name), text(key))).chain([CHECK])
}

/// All variables.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    older().map(|(name, _)| name).chain([TUNABLES])
}

/// Which programs read this variable; `None` if it is not one of glibc's.
pub(super) fn reader(variable: &str, value: &str, subject: Option<&[Flavour]>) -> Option<(VariableEffect, String)> {
    if !names().any(|name| name == variable) || variable == TUNABLES && !value.is_empty() && !value.contains(TUNABLE) {
        return None;
    }
    let text = match variable == CHECK.0 {
        true => "by glibc, from 2.34 on only where libc_malloc_debug.so is preloaded",
        false => "by glibc's malloc, not by an allocator that a program brings along",
    };
    Some(match subject {
        None => (VariableEffect::Read, text.into()),
        Some([Flavour::Glibc, ..]) => (VariableEffect::Read, "by glibc's malloc".into()),
        Some([main, rest @ ..]) if rest.contains(&Flavour::Glibc) => (
            VariableEffect::Depends,
            format!("read by C's malloc alone; the program itself allocates from {}", main.name()),
        ),
        Some(flavours) => not_here(flavours),
    })
}

/// The settings in them. The tunable takes precedence over the older variable, whichever comes first.
pub(super) fn assignments(variables: &Variables, _: &Libraries) -> Vec<VariableSetting> {
    let mut found = Vec::new();
    for (name, key) in older() {
        if let Some(value) = variables.get(name) {
            found.push(assigned(name, key, value));
        }
    }
    for pair in variables.get(TUNABLES).iter().flat_map(|text| text.split(':')) {
        if let Some((key, value)) = pair.split_once('=')
            && let Some(key) = key.strip_prefix(TUNABLE)
        {
            found.push(assigned(TUNABLES, key, value));
        }
    }
    found
}

fn assigned(variable: &str, key: &str, value: &str) -> VariableSetting {
    let all = settings();
    let setting = all.iter().find(|setting| setting.name == key);
    let problem = match setting {
        None if all.is_empty() || key == CHECK.1 => None,
        // True for glibc 2.43 and later.
        None if key == "mxfast" => Some("mxfast: this glibc has no fast bins: it sets nothing".into()),
        None => {
            let names = all.iter().map(|setting| setting.name.as_ref());
            let near = perhaps(key, names);
            Some(format!("glibc has no tunable `glibc.malloc.{key}`{near}; it ignores it without a word"))
        }
        Some(setting) => {
            let leading = value.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            match number(value) {
                None if leading.is_empty() => refused(setting, value, false),
                None => Some(format!("{key}: glibc reads no units and takes {leading} from `{value}`")),
                Some(number) => refused(setting, &number.to_string(), true),
            }
        }
    };
    assignment(NAME, variable, key, value, problem)
}
