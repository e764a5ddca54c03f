//! How settings travel to an allocator: in its variables of the environment. In: settings. Out: variables.

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
        /// Other variables that are read before it, in order: what the later says wins.
        #[cfg_attr(feature = "serde", serde(default))]
        earlier: Cow<'static, [Cow<'static, str>]>,
        /// Variables for one setting each, read before all others: the variable and the setting.
        #[cfg_attr(feature = "serde", serde(default))]
        single: Cow<'static, [(Cow<'static, str>, Cow<'static, str>)]>,
        /// What stands before each name: `glibc.malloc.`.
        prefix: Cow<'static, str>,
        /// What stands between a name and its value.
        assign: Cow<'static, str>,
        /// What stands between two settings.
        separator: Cow<'static, str>,
    },
    /// A variable for each setting: `MIMALLOC_PURGE_DELAY=0`.
    Each {
        /// What stands before each name, which is in upper case.
        prefix: Cow<'static, str>,
    },
}

impl Environment {
    /// The variables that make `settings` true in a new process.
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

    /// Adds `settings` to what `variables` already holds. The settings come later, and so they win.
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

/// The variables of this process whose name and value are texts. std's own `vars` panics at one that is not.
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
        assert!(
            each.owns("MI_A")
                && !each.owns("MALLOC_A")
                && joined.owns("CONF")
                && joined.owns("OLD_CONF")
                && joined.owns("A_ALONE")
        );
    }
}
