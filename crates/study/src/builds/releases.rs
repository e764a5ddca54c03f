//! What can be built. In: a name. Out: the crate that has the sources.

use crate::builds::allocators::ALL;
use crate::builds::error::{Error, Result};
pub use crate::builds::release::Release;

/// All releases, the newest of each allocator first.
pub fn releases() -> impl Iterator<Item = &'static Release> {
    ALL.iter().flat_map(|part| part.releases)
}

/// The release that a name means: `mimalloc@2.2` is the newest of 2.2, `mimalloc` the newest of all.
pub fn find(name: &str) -> Result<Release> {
    let (allocator, version) = name.split_once('@').unwrap_or((name, ""));
    let of: Vec<&Release> = releases().filter(|release| release.allocator == allocator).collect();
    if of.is_empty() {
        let known: Vec<&str> = ALL.iter().map(|part| part.name).collect();
        return Err(Error::Allocator { name: name.into(), allocator: allocator.into(), known: known.join(", ") });
    }
    let begins = |release: &&&Release| {
        version.is_empty() || release.version == version || release.version.starts_with(&format!("{version}."))
    };
    match of.iter().find(begins) {
        Some(release) => Ok(**release),
        None => Err(Error::Version { name: name.into(), nearest: nearest(&of, version).join(", ") }),
    }
}

/// The three versions nearest to one that is not there: those that share the most leading numbers, then those whose next number is
/// nearest.
fn nearest(of: &[&Release], wanted: &str) -> Vec<String> {
    let numbers = |text: &str| text.split('.').map(|part| part.parse().unwrap_or(0_i64)).collect::<Vec<_>>();
    let wanted = numbers(wanted);
    let mut by_distance: Vec<_> = of
        .iter()
        .map(|release| {
            let own = numbers(release.version);
            let distance: Vec<i64> =
                (0..3).map(|at| (own.get(at).unwrap_or(&0) - wanted.get(at).unwrap_or(&0)).abs()).collect();
            (distance, release.name())
        })
        .collect();
    by_distance.sort_by(|one, other| one.0.cmp(&other.0));
    by_distance.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_newest_version_that_begins_so() {
        assert_eq!(find("mimalloc@2.2").map(|release| release.version).unwrap_or_default(), "2.2.5");
        assert_eq!(find("mimalloc@2").map(|release| release.version).unwrap_or_default(), "2.3.2");
        assert_eq!(find("mimalloc").map(|release| release.version).unwrap_or_default(), "3.3.2");
        assert_eq!(find("jemalloc@5.3.0").map(|release| release.package_version).unwrap_or_default(), "0.6.1");
    }

    #[test]
    fn a_version_that_is_not_there_names_the_nearest() {
        let error = find("mimalloc@2.4").map(|release| release.name()).unwrap_err().to_string();
        assert!(error.contains("mimalloc@2.3.0, mimalloc@2.3.1, mimalloc@2.3.2"), "{error}");
        // "2.20" is not a version of "2.2".
        assert!(find("jemalloc@5.30").is_err());
        let error = find("tcmaloc@1").map(|release| release.name()).unwrap_err().to_string();
        assert!(error.contains("mimalloc, jemalloc, snmalloc, rpmalloc"), "{error}");
    }

    #[test]
    fn each_release_stands_once_and_the_newest_first() {
        for pair in ALL.iter().flat_map(|part| part.releases.windows(2)) {
            let numbers = |release: &Release| {
                release.version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u64>>()
            };
            assert!(numbers(&pair[0]) > numbers(&pair[1]), "{} stands before {}", pair[0].name(), pair[1].name());
        }
    }
}
