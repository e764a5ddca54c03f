//! One build. In: a release and a folder for its library. Out: the library, tried.
//!
//! Cargo builds the crate, and the crate's build script prints where the static library is. The C compiler links all of it into a
//! shared library, because rustc would hide the names of malloc in a `cdylib`. So the shared library exports the allocator's own
//! functions, and reads the allocator's own variables.

use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_sys::private;
use serde::Deserialize;

use crate::builds::error::{Error, Result, file};
use crate::builds::releases::Release;
use crate::builds::{step, trial, workspace};

/// Where crates come from.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrateSource<'a> {
    /// Use no network.
    pub offline: bool,
    /// A folder that `cargo vendor` made.
    pub vendored: Option<&'a Path>,
}

/// A library that was built and tried.
#[derive(Debug)]
pub struct BuiltLibrary {
    /// The version that it reported, where it has a function for that.
    pub reported: Option<String>,
}

/// Builds `release` as `library`. What cargo and the compiler said is in `log`.
pub fn make(release: &Release, source: CrateSource<'_>, library: &Path, log: &Path) -> Result<BuiltLibrary> {
    let folder = tempfile::Builder::new()
        .prefix("allocanary-build-")
        .tempdir()
        .map_err(file(&std::env::temp_dir(), "making a folder in it"))?;
    workspace::write(folder.path(), release, source.vendored)?;
    let steps = Steps { release, log, folder: folder.path() };
    private::replace(log, b"").map_err(file(log, "writing it"))?;
    let archives = steps.cargo(source.offline)?;
    let objects = steps.shim()?;
    steps.link(&archives, objects.as_deref(), library)?;
    let reported = trial::run(release, library, folder.path(), log)?;
    Ok(BuiltLibrary { reported })
}

/// The data that all steps of a build share.
struct Steps<'a> {
    release: &'a Release,
    log: &'a Path,
    folder: &'a Path,
}

/// What a build script told cargo.
#[derive(Deserialize)]
struct Executed {
    reason: String,
    #[serde(default)]
    linked_libs: Vec<String>,
    #[serde(default)]
    linked_paths: Vec<String>,
}

impl Steps<'_> {
    /// The static libraries of the crate.
    fn cargo(&self, offline: bool) -> Result<Vec<PathBuf>> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(&cargo);
        command.args(["build", "--release", "--message-format", "json-render-diagnostics"]);
        if offline {
            command.arg("--offline");
        }
        // These variables could change the library that the same sources give: variables of a cargo build around this
        // command, and flags for other programs.
        for (name, _) in std::env::vars_os().filter(|(name, _)| changes_the_build(&name.to_string_lossy())) {
            command.env_remove(&name);
        }
        let advice = "install Rust from https://rustup.rs, or set CARGO to its path";
        let told = self.run(command.current_dir(self.folder), "cargo build", advice)?;
        let executed = told.lines().filter_map(|line| serde_json::from_str::<Executed>(line).ok());
        let executed: Vec<Executed> = executed.filter(|message| message.reason == "build-script-executed").collect();
        archives(&executed).ok_or_else(|| Error::NoArchive {
            name: self.release.name(),
            package: self.release.package.into(),
            found: format!("{:?}", executed.iter().flat_map(|message| &message.linked_libs).collect::<Vec<_>>()),
        })
    }

    /// Compiles an object that defines malloc's names, if the crate does not define them.
    fn shim(&self) -> Result<Option<PathBuf>> {
        let Some(text) = self.release.shim else { return Ok(None) };
        let (source, object) = (self.folder.join("shim.c"), self.folder.join("shim.o"));
        private::replace(&source, text.as_bytes()).map_err(file(&source, "writing it"))?;
        let mut command = self.compiler("CC", "cc");
        // The compiler must not replace code of these functions by calls of malloc.
        command.args(["-O2", "-fPIC", "-fno-builtin", "-c", "-o"]).arg(&object).arg(&source);
        self.run(&mut command, "compiling the names of malloc", COMPILER)?;
        Ok(Some(object))
    }

    fn link(&self, archives: &[PathBuf], object: Option<&Path>, library: &Path) -> Result<()> {
        let mut command = if self.release.cpp { self.compiler("CXX", "c++") } else { self.compiler("CC", "cc") };
        command
            .args(["-shared", "-o"])
            .arg(library)
            .arg("-Wl,--whole-archive")
            .args(archives)
            .arg("-Wl,--no-whole-archive");
        command.args(object).args(["-lpthread", "-ldl", "-lm"]);
        if self.release.cpp {
            // Without these flags, a program in C would load libstdc++. A program in C++ might load another libstdc++ than its own.
            command.args(["-static-libstdc++", "-static-libgcc", "-latomic"]);
        }
        self.run(&mut command, "linking the library", COMPILER).map(drop)
    }

    fn compiler(&self, variable: &str, usual: &str) -> Command {
        Command::new(std::env::var_os(variable).unwrap_or_else(|| usual.into()))
    }

    fn run(&self, command: &mut Command, step: &'static str, advice: &'static str) -> Result<String> {
        step::run(self.release, command, step, advice, self.log)
    }
}

/// Whether a variable can change what is built. Variables that choose the compiler, or where crates come from, do not count.
fn changes_the_build(name: &str) -> bool {
    let is_flags = ["CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"].iter().any(|flags| name.contains(flags));
    let of_cargo = name.starts_with("CARGO_")
        && name != "CARGO_HOME"
        && !name.starts_with("CARGO_HTTP")
        && !name.starts_with("CARGO_NET");
    is_flags || of_cargo || name.starts_with("RUSTFLAGS") || name.starts_with("JEMALLOC_")
}

const COMPILER: &str =
    "install a C and a C++ compiler (Debian: apt install build-essential), or set CC and CXX to their paths";

/// The files of all static libraries that build scripts link: `static=NAME`, in one of the folders that they print.
fn archives(executed: &[Executed]) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    for message in executed {
        let folders =
            message.linked_paths.iter().map(|path| path.split_once('=').map_or(path.as_str(), |(_, path)| path));
        let folders: Vec<&Path> = folders.map(Path::new).collect();
        for library in &message.linked_libs {
            let Some(name) = library.strip_prefix("static").and_then(|rest| rest.split_once('=')).map(|(_, name)| name)
            else {
                continue;
            };
            let name = format!("lib{name}.a");
            found.extend(folders.iter().map(|folder| folder.join(&name)).find(|path| path.is_file()));
        }
    }
    // A build script may print a library twice, once itself and once through `cc`.
    found.sort();
    found.dedup();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn static_libraries_are_found_in_the_folders_that_the_build_script_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libone.a"), "").unwrap();
        let line = format!(
            r#"{{"reason":"build-script-executed","package_id":"x","linked_libs":["static=one","static:-bundle=one","pthread"],"linked_paths":["native={}","/none"]}}"#,
            folder.path().display()
        );
        let executed = vec![serde_json::from_str::<Executed>(&line).unwrap()];
        assert_eq!(archives(&executed), Some(vec![folder.path().join("libone.a")]));
        let none = Executed { reason: String::new(), linked_libs: vec!["pthread".into()], linked_paths: Vec::new() };
        assert_eq!(archives(&[none]), None, "a shared library is not taken");
    }

    #[test]
    fn flags_for_other_programs_do_not_change_the_library() {
        for name in
            ["CFLAGS", "CFLAGS_x86_64-unknown-linux-gnu", "RUSTFLAGS", "CARGO_TARGET_DIR", "JEMALLOC_SYS_WITH_LG_PAGE"]
        {
            assert!(changes_the_build(name), "{name}");
        }
        for name in ["CC", "CXX", "PATH", "HOME", "CARGO_HOME", "CARGO_NET_OFFLINE", "RUSTUP_TOOLCHAIN", "HTTPS_PROXY"]
        {
            assert!(!changes_the_build(name), "{name}");
        }
    }
}
