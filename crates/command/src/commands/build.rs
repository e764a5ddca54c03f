//! `allocanary build`: preloads of other allocators and versions. The user's cargo builds them once. In: names. Out:
//! what was built, and how to use it; without a name, what can be built.

use std::path::Path;
use std::process::ExitCode;

use allocanary_rows::error::Error;
use allocanary_rows::error::Result;
use allocanary_study::builds::cache::{LibraryFolder, LibraryRecord};
use allocanary_study::builds::make::CrateSource;
use allocanary_study::builds::releases::Release;
use allocanary_study::builds::releases::find;
use allocanary_study::builds::releases::releases;
use allocanary_text::paste::CommandLine;
use allocanary_text::units::Unit;

use super::terminal;
use crate::args::BuildFlags;

/// Builds, removes or lists.
pub fn run(flags: &BuildFlags) -> Result<ExitCode> {
    let cache = LibraryFolder::of_user().map_err(problem)?;
    cache.check().map_err(problem)?;
    if flags.prune {
        return prune(&cache, &flags.names);
    }
    if flags.names.is_empty() {
        return terminal::print(list(&cache.all(), cache.folder()).as_bytes());
    }
    // All names are checked first, so that a wrong name is not reported minutes later.
    let releases = flags.names.iter().map(|name| find(name)).collect::<std::result::Result<Vec<Release>, _>>();
    let releases = releases.map_err(problem)?;
    let source = CrateSource { offline: flags.offline, vendored: flags.vendored.as_deref() };
    terminal::print(done(&make(&cache, &releases, source, flags.again)?).as_bytes())
}

/// Builds these releases. With `again`, also those that are already built.
fn make(cache: &LibraryFolder, releases: &[Release], source: CrateSource, again: bool) -> Result<Vec<LibraryRecord>> {
    let mut all = Vec::new();
    for (at, release) in releases.iter().enumerate() {
        let there = cache.get(release).filter(|_| !again);
        let built = match there {
            Some(built) => built,
            None => {
                terminal::tell(format_args!(
                    "{} of {}: building {} from the crate {} {}: some 30 s to 2 min ...",
                    at + 1,
                    releases.len(),
                    release.name(),
                    release.package,
                    release.package_version
                ));
                cache.build(release, source).map_err(problem)?
            }
        };
        all.push(built);
    }
    Ok(all)
}

/// Builds each of these candidates that can be built and is not built yet.
pub(super) fn make_missing(candidates: &[String], is_there: impl Fn(&str) -> bool) -> Result<()> {
    let names = candidates.iter().map(|candidate| candidate.split(':').next().unwrap_or_default());
    let missing = names.filter(|name| name.contains('@') && !is_there(name));
    // A version that cannot be built is reported elsewhere, with the names that exist.
    let releases: Vec<Release> = missing.filter_map(|name| find(name).ok()).collect();
    if releases.is_empty() {
        return Ok(());
    }
    let cache = LibraryFolder::of_user().map_err(problem)?;
    cache.check().map_err(problem)?;
    make(&cache, &releases, CrateSource { offline: false, vendored: None }, false)?;
    Ok(())
}

fn problem(error: allocanary_study::builds::error::Error) -> Error {
    Error::Input(format!("build: {error}"))
}

fn prune(cache: &LibraryFolder, names: &[String]) -> Result<ExitCode> {
    let names =
        names.iter().map(|name| find(name).map(|release| release.name())).collect::<std::result::Result<Vec<_>, _>>();
    let bytes = cache.prune(&names.map_err(problem)?).map_err(problem)?;
    terminal::print(format!("{} removed from {}\n", size(bytes), cache.folder().display()).as_bytes())
}

fn size(bytes: u64) -> String {
    Unit::Bytes.show(bytes as f64)
}

/// The list of what can be built and what is built, and how much room that takes.
fn list(built: &[LibraryRecord], folder: &Path) -> String {
    let mut out = format!("{:<18}{:<28}{:>9}\n", "allocator", "from the crate", "built");
    for release in releases() {
        let there = built.iter().find(|built| built.name() == release.name());
        let there = there.map_or("-".into(), |built| size(built.bytes));
        let from = format!("{} {}", release.package, release.package_version);
        out += &format!("{:<18}{from:<28}{there:>9}\n", release.name());
    }
    let bytes = built.iter().map(|built| built.bytes).sum();
    out += &format!("\n{} built, {} in {}\n", built.len(), size(bytes), folder.display());
    out + "to build one: allocanary build mimalloc@2.2.5\nto remove all: allocanary build --prune\n"
}

/// The releases that were built, each with its version and the path of its library.
fn done(all: &[LibraryRecord]) -> String {
    let mut out = String::new();
    for built in all {
        let reports = match &built.reported {
            Some(version) => format!("it reports version {version}"),
            None => "it has no function that tells its version".into(),
        };
        out += &format!("{}: {}, {reports}\n  {}\n", built.name(), size(built.bytes), built.library.display());
    }
    let next = CommandLine::new("allocanary run --candidates system").words(all.iter().map(LibraryRecord::name));
    out + &format!("next: {next} -- PROGRAM\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(name: &str, bytes: u64) -> LibraryRecord {
        let (allocator, version) = name.split_once('@').unwrap_or((name, ""));
        LibraryRecord {
            allocator: allocator.into(),
            version: version.into(),
            reported: Some(version.into()),
            package: String::new(),
            bytes,
            sha256: String::new(),
            at: 0,
            library: "/cache/lib.so".into(),
        }
    }

    #[test]
    fn the_list_has_every_release_and_the_size_of_what_is_built() {
        let text = list(&[built("jemalloc@5.3.0", 2 << 20)], Path::new("/cache"));
        for release in releases() {
            assert!(text.contains(&release.name()), "{} is missing:\n{text}", release.name());
        }
        let line = text.lines().find(|line| line.starts_with("jemalloc@5.3.0")).unwrap_or_default();
        assert!(line.ends_with("2.00 MiB"), "{line}");
        assert!(text.contains("1 built, 2.00 MiB in /cache"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
