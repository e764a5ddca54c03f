//! Parses jemalloc's settings in a variable as the release does that will read it. Finds problems and clipped values.

use allocanary_facts::jemalloc::settings::ROWS;
use allocanary_facts::jemalloc::{ALSO, NAME};
use allocanary_facts::setting::{Setting, SettingKind, also, c_number as number};

use super::links::{A_FILE, LINKS};
use crate::seen::Libraries;
use crate::variables::{VariableSetting, Variables, perhaps, refused, settings};

/// The settings in its variables and links.
pub(super) fn assignments(variables: &Variables, libraries: &Libraries) -> Vec<VariableSetting> {
    let mut found = Vec::new();
    // A link is read right before the variable of the same build.
    for name in LINKS.into_iter().flat_map(|(link, variable)| [link, variable]) {
        if let Some(text) = variables.get(name).filter(|text| *text != A_FILE) {
            read(name, text, libraries, &mut found);
        }
    }
    found
}

/// Whether jemalloc ends a program at its start because of a problem in `variable`. `abort_conf` in any variable
/// enables this. A clipped value is not a problem for jemalloc.
pub(super) fn aborts(all: &[VariableSetting], variable: &str, read: &dyn Fn(&str) -> bool) -> Option<String> {
    let read: Vec<VariableSetting> = all.iter().filter(|one| read(&one.variable)).cloned().collect();
    let asked = settings(&read, NAME).get("abort_conf").is_some_and(|value| value == "true");
    let wrong = |one: &VariableSetting| one.allocator == NAME && one.variable == variable && one.becomes.is_none();
    (asked && read.iter().any(wrong))
        .then(|| "abort_conf:true makes jemalloc end the program at its start because of this".to_string())
}

/// jemalloc stops at the first text that is not `name:value`, and skips unknown names.
fn read(variable: &str, text: &str, libraries: &Libraries, found: &mut Vec<VariableSetting>) {
    let mut add = |key: &str, value: &str, problem: Option<Problem>| {
        let variable = variable.to_string();
        let (problem, becomes) = match problem {
            Some(Problem { text, becomes }) => (Some(text), becomes),
            None => (None, Some(value.to_string())),
        };
        found.push(VariableSetting {
            allocator: NAME,
            variable,
            key: key.into(),
            value: value.into(),
            becomes,
            problem,
        });
    };
    for pair in text.split(',') {
        let name = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match pair.split_once(':') {
            Some((key, value)) if name(key) => add(key, value, jemalloc_problem(key, value, libraries)),
            _ if pair.is_empty() && text.is_empty() => {}
            _ => {
                let problem = format!("`{pair}` is not `name:value`: jemalloc reads no further");
                return add(pair, "", Some(problem.into()));
            }
        }
    }
}

/// A problem with a setting, and the value that the allocator uses in spite of it.
struct Problem {
    text: String,
    becomes: Option<String>,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Problem { text, becomes: None }
    }
}

fn jemalloc_problem(key: &str, value: &str, libraries: &Libraries) -> Option<Problem> {
    let release = libraries.jemalloc_release();
    let Some(row) = ROWS.iter().find(|row| row.setting.name == key) else {
        return match also(ALSO, key, value) {
            Some(Ok(())) => None,
            Some(Err(wanted)) => Some(format!("{key}: {wanted}, found `{value}`: jemalloc keeps its default").into()),
            None => {
                let others = ALSO.split_ascii_whitespace().filter_map(|row| row.split('=').next());
                let names = ROWS.iter().map(|row| row.setting.name.as_ref()).chain(others);
                let near = perhaps(key, names);
                // Our table is that of the newest release, 5.3.1.
                let of = match libraries.jemalloc.as_deref() {
                    Some(version) if release != Some([5, 3, 1]) => format!(" 5.3.1 (this program has {version})"),
                    _ => String::new(),
                };
                let held = if release.is_none() { " (as of 5.3.1)" } else { "" };
                Some(format!("jemalloc{of} has no setting `{key}`{near}{held}").into())
            }
        };
    };
    if release.is_some_and(|release| release < row.since) {
        let (version, since) =
            (libraries.jemalloc.as_deref().unwrap_or_default(), row.since.map(|part| part.to_string()));
        let since = since.join(".");
        return Some(
            format!("this program's jemalloc, {version}, has no setting `{key}`: it came with {since}").into(),
        );
    }
    let setting = &row.setting;
    let taken = match setting.kind {
        SettingKind::Flag => matches!(value, "true" | "false"),
        SettingKind::Number { .. } if key == "narenas" && value == "default" => return None,
        SettingKind::Number { .. } | SettingKind::Size { .. } => number(value).is_some(),
        SettingKind::Time { .. } | SettingKind::Choice { .. } | SettingKind::Text | SettingKind::Path => true,
    };
    if key == "narenas_ratio" && (value.contains(|c| !matches!(c, '0'..='9' | '.')) || value.parse::<f64>().is_err()) {
        let wanted = format!("{key}: wanted a number such as 4 or 0.5, found `{value}`: jemalloc keeps its default");
        return Some(wanted.into());
    }
    if key == "tcache_max"
        && let Some(bytes) = number(value)
    {
        return tcache_max_problem(bytes, value, release);
    }
    if row.is_clipped
        && let Some(bound) = number(value).and_then(|number| clipped(setting, number))
    {
        let text = format!("{key}: {value} becomes {bound}: jemalloc clips it");
        return Some(Problem { text, becomes: Some(bound.to_string()) });
    }
    refused(setting, value, taken).map(|wanted| format!("{wanted}: jemalloc keeps its default").into())
}

/// The bound that replaces a number out of range. jemalloc refuses 0 arenas, and clips too many arenas.
fn clipped(setting: &Setting, number: i128) -> Option<i128> {
    let (min, max) = match setting.kind {
        SettingKind::Number { min, max } => (i128::from(min), i128::from(max)),
        SettingKind::Size { min, max } => (i128::from(min), i128::from(max)),
        _ => return None,
    };
    match number {
        _ if number > max => Some(max),
        _ if number < min && setting.name != "narenas" => Some(min),
        _ => None,
    }
}

/// The problem with a limit of the thread caches, for pages of 4 KiB. 5.3.0 accepts more than later releases do.
fn tcache_max_problem(bytes: i128, value: &str, release: Option<[u32; 3]>) -> Option<Problem> {
    const MOST_5_3_0: i128 = 8 << 20;
    const MOST: i128 = 32 << 10;
    let (most, of) = match release {
        Some(release) if release < [5, 3, 0] => {
            return Some(
                "this program's jemalloc has no setting `tcache_max`; perhaps lg_tcache_max".to_string().into(),
            );
        }
        Some([5, 3, 0]) => (MOST_5_3_0, "jemalloc 5.3.0 clips it".to_string()),
        Some([major, minor, patch]) => (MOST, format!("jemalloc {major}.{minor}.{patch} clips it")),
        None if bytes > MOST_5_3_0 => (MOST, format!("jemalloc clips it from 5.3.1 on, and 5.3.0 to {MOST_5_3_0}")),
        None => (MOST, "jemalloc clips it from 5.3.1 on; 5.3.0 takes it as it is".to_string()),
    };
    (bytes > most).then(|| Problem {
        text: format!("tcache_max: {value} becomes {most}: {of}, without a word"),
        // If the release is unknown, the user's value is kept.
        becomes: Some(if release.is_some() { most.to_string() } else { value.to_string() }),
    })
}
