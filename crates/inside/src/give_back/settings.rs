//! Settings of jemalloc that can be changed at run time, such as `background_thread=true` or `dirty_decay_ms=1000`: the calls for them, and
//! the lines that keep the setting after a restart.

use allocanary_facts::jemalloc;

use crate::give_back::ReleaseCall;
use crate::give_back::remedy::{Argument, FunctionCall, mallctl};

/// A setting with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeSetting {
    /// Whether jemalloc's own threads purge on time.
    Background(bool),
    /// The time after which dirty pages are purged, in milliseconds; -1 means never.
    Dirty(i64),
    /// The time after which muzzy pages are purged, in milliseconds; -1 means never.
    Muzzy(i64),
}

impl RuntimeSetting {
    /// Parses `key=value`.
    pub fn parse(text: &str) -> Result<RuntimeSetting, String> {
        let wrong = |wanted: &str| format!("--settings: wanted {wanted}; found `{text}`");
        let (key, value) = text.split_once('=').ok_or_else(|| wrong("key=value"))?;
        let time = || match value.parse::<i64>() {
            Ok(time) if time >= -1 => Ok(time),
            _ => Err(wrong(&format!("{key}= with milliseconds, 0 for at once or -1 for never"))),
        };
        match (key, value) {
            ("background_thread", "true") => Ok(RuntimeSetting::Background(true)),
            ("background_thread", "false") => Ok(RuntimeSetting::Background(false)),
            ("background_thread", _) => Err(wrong("background_thread=true or =false")),
            ("dirty_decay_ms", _) => Ok(RuntimeSetting::Dirty(time()?)),
            ("muzzy_decay_ms", _) => Ok(RuntimeSetting::Muzzy(time()?)),
            _ => Err(wrong("background_thread, dirty_decay_ms or muzzy_decay_ms")),
        }
    }

    /// The calls that set it now, for a jemalloc with this many arenas: one call for arenas that are made later, and one for each existing
    /// arena. An arena that was never used refuses its call.
    pub fn calls(self, arenas: u32) -> Vec<FunctionCall> {
        let (key, value) = match self {
            RuntimeSetting::Background(on) => {
                let call = mallctl("background_thread", Some(vec![u8::from(on)]), false);
                return vec![FunctionCall { starts_thread: on, ..call }];
            }
            RuntimeSetting::Dirty(time) => ("dirty_decay_ms", time),
            RuntimeSetting::Muzzy(time) => ("muzzy_decay_ms", time),
        };
        let set = |name: String, may_fail| mallctl(&name, Some(value.to_le_bytes().to_vec()), may_fail);
        let each = (0..arenas).map(|arena| set(format!("arena.{arena}.{key}"), true));
        std::iter::once(set(format!("arenas.{key}"), false)).chain(each).collect()
    }

    /// The setting as in `MALLOC_CONF`.
    pub fn conf(self) -> String {
        match self {
            RuntimeSetting::Background(on) => format!("background_thread:{on}"),
            RuntimeSetting::Dirty(time) => format!("dirty_decay_ms:{time}"),
            RuntimeSetting::Muzzy(time) => format!("muzzy_decay_ms:{time}"),
        }
    }
}

/// The remedy of the allocator that has these settings.
pub const REMEDY: &ReleaseCall = &jemalloc::REMEDY;

/// The variable that keeps the settings after a restart. `function` is the name of jemalloc's function.
pub fn variable(function: &str) -> String {
    let prefix = function.trim_end_matches("mallctl").to_uppercase();
    format!("{prefix}MALLOC_CONF")
}

/// The call that reads the number of arenas, a word of four bytes.
pub fn count_arenas() -> FunctionCall {
    let null = Argument::Number(0);
    let arguments = vec![
        Argument::Text("arenas.narenas".into()),
        Argument::Bytes(vec![0; 4]),
        Argument::Bytes(4_u64.to_le_bytes().to_vec()),
        null.clone(),
        null,
    ];
    FunctionCall { arguments, name: "arenas.narenas".into(), may_fail: false, starts_thread: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_and_others_are_refused_by_name() {
        assert_eq!(RuntimeSetting::parse("background_thread=true"), Ok(RuntimeSetting::Background(true)));
        assert_eq!(RuntimeSetting::parse("dirty_decay_ms=-1"), Ok(RuntimeSetting::Dirty(-1)));
        assert!(RuntimeSetting::parse("dirty_decay_ms=-2").unwrap_err().contains("-1 for never"));
        assert!(RuntimeSetting::parse("narenas=1").unwrap_err().contains("found `narenas=1`"));
        assert!(RuntimeSetting::parse("background_thread").unwrap_err().contains("key=value"));
    }

    #[test]
    fn a_decay_is_set_for_new_arenas_and_for_each_that_is_there() {
        let names: Vec<String> = RuntimeSetting::Dirty(0).calls(2).into_iter().map(|call| call.name).collect();
        assert_eq!(names, ["arenas.dirty_decay_ms", "arena.0.dirty_decay_ms", "arena.1.dirty_decay_ms"]);
        assert_eq!(RuntimeSetting::Background(true).calls(2).len(), 1);
    }

    #[test]
    fn the_variable_has_the_prefix_of_the_build() {
        assert_eq!(variable("mallctl"), "MALLOC_CONF");
        assert_eq!(variable("_rjem_mallctl"), "_RJEM_MALLOC_CONF");
    }
}
