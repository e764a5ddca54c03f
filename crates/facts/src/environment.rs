//! Converts an allocator's settings to environment variables, and variables to settings.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// How an allocator reads its settings from the environment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "type", rename_all = "snake_case"))]
pub enum Environment {
    /// All settings in one variable: `_RJEM_MALLOC_CONF=narenas:1,tcache:false`.
    Joined {
        /// The variable.
        variable: Cow<'static, str>,
        /// Other variables that are read before it, in order; the later one wins.
        #[cfg_attr(feature = "serde", serde(default))]
        earlier: Cow<'static, [Cow<'static, str>]>,
        /// Variables that contain one setting each: the variable and the setting. The allocator reads them before all others.
        #[cfg_attr(feature = "serde", serde(default))]
        single: Cow<'static, [(Cow<'static, str>, Cow<'static, str>)]>,
        /// The text before each name: `glibc.malloc.`.
        prefix: Cow<'static, str>,
        /// The text between a name and its value.
        assign: Cow<'static, str>,
        /// The text between two settings.
        separator: Cow<'static, str>,
    },
    /// A variable for each setting: `MIMALLOC_PURGE_DELAY=0`.
    Each {
        /// The text before each name, which is in upper case.
        prefix: Cow<'static, str>,
    },
}

/// One setting, as read from an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The variable that contains it.
    pub variable: String,
    /// The setting's name, or the whole text if it is no pair of name and value.
    pub name: String,
    /// The value; `None` if the text has none.
    pub value: Option<String>,
}

impl Environment {
    /// The variables that set `settings` in a new process.
    pub fn variables(&self, settings: &BTreeMap<String, String>) -> Vec<(String, String)> {
        match self {
            Environment::Joined { .. } if settings.is_empty() => Vec::new(),
            Environment::Joined { variable, prefix, assign, separator, .. } => {
                let pairs: Vec<String> =
                    settings.iter().map(|(key, value)| format!("{prefix}{key}{assign}{value}")).collect();
                vec![(variable.to_string(), pairs.join(separator))]
            }
            Environment::Each { prefix } => {
                settings.iter().map(|(key, value)| (format!("{prefix}{}", key.to_uppercase()), value.clone())).collect()
            }
        }
    }

    /// Adds `settings` to the existing `variables`. The settings come later, so they take precedence.
    pub fn add_to(&self, variables: &mut BTreeMap<String, String>, settings: &BTreeMap<String, String>) {
        for (name, value) in self.variables(settings) {
            let before = match self {
                Environment::Joined { separator, .. } => {
                    variables.get(&name).map(|before| format!("{before}{separator}"))
                }
                Environment::Each { .. } => None,
            };
            variables.insert(name, before.unwrap_or_default() + &value);
        }
    }

    /// The settings in `variables`, in the order in which the allocator reads them: a later one takes precedence. Names and values may be
    /// invalid.
    pub fn assignments(&self, variables: &BTreeMap<String, String>) -> Vec<Assignment> {
        let mut found = Vec::new();
        let mut add = |variable: &str, name: &str, value: Option<&str>| {
            let (variable, name) = (variable.to_string(), name.to_string());
            found.push(Assignment { variable, name, value: value.map(str::to_string) });
        };
        match self {
            Environment::Joined { variable: own, earlier, single, prefix, assign, separator } => {
                for (variable, name) in single.iter() {
                    if let Some(value) = variables.get(variable.as_ref()) {
                        add(variable, name, Some(value));
                    }
                }
                for variable in earlier.iter().chain([own]) {
                    let text = variables.get(variable.as_ref());
                    for pair in text.iter().flat_map(|text| text.split(separator.as_ref())).map(str::trim) {
                        match pair.split_once(assign.as_ref()) {
                            // The same variable also contains tunables of other parts of glibc.
                            Some((name, value)) => {
                                if let Some(name) = name.strip_prefix(prefix.as_ref()) {
                                    add(variable, name, Some(value));
                                }
                            }
                            None if pair.is_empty() => {}
                            None => add(variable, pair, None),
                        }
                    }
                }
            }
            Environment::Each { prefix } => {
                for (variable, value) in variables {
                    if let Some(name) = variable.strip_prefix(prefix.as_ref()) {
                        add(variable, &name.to_lowercase(), Some(value));
                    }
                }
            }
        }
        found
    }

    /// The text between a setting and its value.
    pub fn assign(&self) -> &str {
        match self {
            Environment::Joined { assign, .. } => assign,
            Environment::Each { .. } => "=",
        }
    }

    /// Whether a variable of the user's environment configures this allocator.
    pub fn owns(&self, variable: &str) -> bool {
        match self {
            Environment::Joined { variable: own, earlier, single, .. } => {
                variable == own
                    || earlier.iter().any(|earlier| earlier == variable)
                    || single.iter().any(|(single, _)| single == variable)
            }
            Environment::Each { prefix } => variable.starts_with(prefix.as_ref()),
        }
    }
}

/// This process's variables whose name and value are valid UTF-8. std's `vars` panics at a variable that is not.
pub fn readable_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_variables() {
        let settings = BTreeMap::from([("b".to_string(), "2".to_string()), ("a".into(), "1".into())]);
        let joined = Environment::Joined {
            variable: "CONF".into(),
            earlier: vec!["OLD_CONF".into()].into(),
            single: vec![("A_ALONE".into(), "a".into())].into(),
            prefix: "x.".into(),
            assign: "=".into(),
            separator: ":".into(),
        };
        assert_eq!(joined.variables(&settings), [("CONF".into(), "x.a=1:x.b=2".into())]);
        assert!(joined.variables(&BTreeMap::new()).is_empty());
        let each = Environment::Each { prefix: "MI_".into() };
        assert_eq!(each.variables(&settings), [("MI_A".into(), "1".into()), ("MI_B".into(), "2".into())]);
        let mut inherited = BTreeMap::from([("CONF".to_string(), "x.c=3".to_string()), ("MI_A".into(), "9".into())]);
        joined.add_to(&mut inherited, &settings);
        each.add_to(&mut inherited, &settings);
        assert_eq!(inherited["CONF"], "x.c=3:x.a=1:x.b=2");
        assert_eq!(inherited["MI_A"], "1");
        let said = |environment: &Environment, variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let said = environment.assignments(&variables).into_iter();
            said.map(|one| format!("{} {}={}", one.variable, one.name, one.value.unwrap_or("?".into())))
                .collect::<Vec<_>>()
        };
        let set = [("CONF", "x.a=1:y.b=2:x.c:"), ("A_ALONE", "7"), ("OLD_CONF", "x.a=3"), ("PATH", "x.a=9")];
        assert_eq!(said(&joined, &set), ["A_ALONE a=7", "OLD_CONF a=3", "CONF a=1", "CONF x.c=?"]);
        assert_eq!(said(&each, &[("MI_B_C", "1"), ("CONF", "x.a=1")]), ["MI_B_C b_c=1"]);
        assert!(
            each.owns("MI_A")
                && !each.owns("MALLOC_A")
                && joined.owns("CONF")
                && joined.owns("OLD_CONF")
                && joined.owns("A_ALONE")
        );
    }
}
