//! What can go wrong with a build.

use std::path::PathBuf;

/// The result of a step of a build.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such allocator can be built.
    #[error("{name}: there is nothing to build {allocator} from: wanted one of {known}, as in mimalloc@2.2")]
    Allocator {
        /// What was asked for.
        name: String,
        /// The allocator in it.
        allocator: String,
        /// The allocators that can be built.
        known: String,
    },
    /// No such version can be built.
    #[error("{name}: no published crate bundles that version. The nearest that can be built: {nearest}")]
    Version {
        /// What was asked for.
        name: String,
        /// Versions like it.
        nearest: String,
    },
    /// A file or folder.
    #[error("{}: {what}: {why}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What was done with it.
        what: &'static str,
        /// What the system said.
        why: std::io::Error,
    },
    /// A program that a build needs does not start.
    #[error("{name}: starting `{program}`: {why}: {advice}")]
    Tool {
        /// The release.
        name: String,
        /// The program.
        program: String,
        /// What the system said.
        why: std::io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// A step failed.
    #[error("{name}: {step} failed ({status}). Its last lines:\n{last}\nAll of them: {}", log.display())]
    Step {
        /// The release.
        name: String,
        /// What was done.
        step: &'static str,
        /// How the program ended.
        status: String,
        /// The end of its output.
        last: String,
        /// The file with all of it.
        log: PathBuf,
    },
    /// The crate was built, but left no static library.
    #[error(
        "{name}: the crate {package} left no static library: wanted `static=...` among what its build script links, found {found}"
    )]
    NoArchive {
        /// The release.
        name: String,
        /// The crate.
        package: String,
        /// What it links.
        found: String,
    },
    /// The library has another version than the table says.
    #[error("{name}: the library reports version {found}, wanted {wanted}: it is not kept")]
    OtherVersion {
        /// The release.
        name: String,
        /// The version in the table.
        wanted: String,
        /// The library's own.
        found: String,
    },
    /// No folder for libraries.
    #[error("there is no folder for libraries: set XDG_CACHE_HOME or HOME to an absolute path")]
    NoFolder,
    /// The loader could not preload a library from this folder.
    #[error("{}: LD_PRELOAD takes no path with a space or a colon: set XDG_CACHE_HOME to another folder", .0.display())]
    Folder(PathBuf),
    /// A library in the cache was changed.
    #[error("{}: the library is not the one that was built: wanted the SHA-256 {wanted}, found {found}. Build it again: allocanary build {name}", path.display())]
    Changed {
        /// The library.
        path: PathBuf,
        /// The release.
        name: String,
        /// The checksum that was kept.
        wanted: String,
        /// The file's checksum.
        found: String,
    },
}

/// Names the file and what was done with it.
pub(crate) fn file(path: &std::path::Path, what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |why| Error::File { path: path.into(), what, why }
}
