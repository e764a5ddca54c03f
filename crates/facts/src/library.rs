//! The libraries of an allocator that others build, and their settings by version.

use std::borrow::Cow;

use crate::environment::Environment;
use crate::setting::{Setting, SettingKind};

/// A kind of library.
#[derive(Debug)]
pub struct LibraryKind {
    /// The name that candidates use: `tcmalloc_minimal`.
    pub name: &'static str,
    /// The possible names of its file, up to the first dot.
    pub files: &'static [&'static str],
    /// Finds the version in the library's bytes; `None` if they do not contain it.
    pub version: fn(&[u8]) -> Option<String>,
    /// The settings of its versions.
    pub rows: &'static [VersionSetting],
    /// How the library reads its settings.
    pub environment: Environment,
    /// The text before each setting's name in the library's file, if the file contains these names in capital letters.
    pub capitals_after: Option<&'static str>,
    /// The name of the reader of `preload-prove` that reads this library's settings back.
    pub reader: &'static str,
}

/// A setting of the versions from `since` on, and before `until`.
#[derive(Debug)]
pub struct VersionSetting {
    since: Version,
    until: Version,
    setting: Setting,
}

pub(crate) type Version = [u32; 3];

pub(crate) const FIRST: Version = [0; 3];
pub(crate) const NEVER: Version = [u32::MAX; 3];

/// A setting of the versions from `since` on, and before `until`.
pub(crate) const fn row(
    since: Version,
    until: Version,
    name: &'static str,
    kind: SettingKind,
    about: &'static str,
) -> VersionSetting {
    VersionSetting { since, until, setting: Setting::new(name, kind, about) }
}

/// A setting of all versions.
pub(crate) const fn always(name: &'static str, kind: SettingKind, about: &'static str) -> VersionSetting {
    row(FIRST, NEVER, name, kind, about)
}

impl LibraryKind {
    /// A library without settings, whose bytes do not contain a version.
    pub(crate) const fn plain(name: &'static str, files: &'static [&'static str]) -> LibraryKind {
        let environment = Environment::Each { prefix: Cow::Borrowed("ALLOCANARY_NO_SETTINGS_") };
        LibraryKind { name, files, version: |_| None, rows: &[], environment, capitals_after: None, reader: "none" }
    }

    /// The settings of a version. If `version` cannot be parsed, these are the settings of all versions, each name once.
    pub fn settings(&self, version: &str) -> impl Iterator<Item = &'static Setting> {
        let (version, all) = (numbers(version), self.rows);
        let is_of = move |(at, row): &(usize, &VersionSetting)| match version {
            Some(version) => (row.since..row.until).contains(&version),
            None => all[..*at].iter().all(|before| before.setting.name != row.setting.name),
        };
        all.iter().enumerate().filter(is_of).map(|(_, row)| &row.setting)
    }

    /// The setting's name as the library's file contains it.
    pub fn word(&self, setting: &Setting) -> String {
        match self.capitals_after {
            Some(before) => format!("{before}{}", setting.name.to_uppercase()),
            None => setting.name.to_string(),
        }
    }
}

/// Parses `2.0` to 2, 0, 0. `None` if the text does not begin with two numbers.
fn numbers(version: &str) -> Option<Version> {
    let mut all = version.split('.').map(|part| part.parse().ok());
    let (major, minor) = (all.next()??, all.next()??);
    Some([major, minor, all.next().flatten().unwrap_or(0)])
}

/// Finds the version number that follows the text `before`: `2.10` in `gperftools 2.10`.
pub(crate) fn after(bytes: &[u8], before: &str) -> Option<String> {
    let start = bytes.windows(before.len()).position(|window| window == before.as_bytes())? + before.len();
    let rest = &bytes[start..];
    let end = rest.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.'))?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned()).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ALL;

    #[test]
    fn a_version_has_its_own_settings() {
        let of = |name: &str, version: &str| {
            let mut all = ALL.iter().flat_map(|one| one.libraries);
            let library = all.find(|library| library.name == name).unwrap();
            library.settings(version).map(|setting| setting.name.to_string()).collect::<Vec<_>>()
        };
        let has = |allocator: &str, version: &str, name: &str| of(allocator, version).iter().any(|one| one == name);
        assert!(has("jemalloc", "5.2.1", "lg_tcache_max") && !has("jemalloc", "5.2.1", "tcache_max"));
        assert!(has("jemalloc", "5.3.0", "tcache_max") && !has("jemalloc", "5.3.0", "experimental_tcache_gc"));
        assert!(has("mimalloc", "2.0", "decommit_delay") && !has("mimalloc", "2.0", "purge_delay"));
        assert!(has("mimalloc", "3.3.2", "purge_delay") && !has("mimalloc", "3.3.2", "eager_commit"));
        let mut unknown = of("jemalloc", "libjemalloc.so");
        assert!(
            unknown.contains(&"tcache_max".into()) && unknown.contains(&"lg_tcache_max".into()),
            "the file decides"
        );
        unknown.sort();
        assert!(unknown.windows(2).all(|pair| pair[0] != pair[1]), "{unknown:?}");
    }

    #[test]
    fn no_version_has_a_setting_twice() {
        for library in ALL.iter().flat_map(|one| one.libraries) {
            for (at, row) in library.rows.iter().enumerate() {
                let same = |other: &&VersionSetting| other.setting.name == row.setting.name;
                let before = library.rows[..at]
                    .iter()
                    .filter(same)
                    .all(|other| other.until <= row.since || row.until <= other.since);
                assert!(before && row.since < row.until, "{}: {}", library.name, row.setting.name);
            }
        }
    }
}
