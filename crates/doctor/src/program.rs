//! Finds out whether an allocator can be preloaded into a program, which is named as for a shell: the file that will run, its own
//! allocator, and the reason if preloading has no effect.
//!
//! Neither the program nor its loader is started: the program's file names the loader, and could name any program. Files are only read as
//! data.

mod loader;
mod needs;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::elf::marks;
use super::flavour::Flavour;
use super::identify::{identify, leaves_malloc};
use super::installed::cache;
use super::signs::ProgramFile;
use super::variables::VariableEffect;
use allocanary_process::file::of_host as open;
use allocanary_process::{BrokerRequest, Opened, file_of, link};
use allocanary_sys::input;
use loader::{HostLibraries, Id, LibraryFiles};
use needs::{Needs, needs};

/// The greatest size of the loaded parts of a program and its libraries, in bytes. Further libraries are not searched for allocators.
const LOADED: u64 = 4 << 30;

/// A program that can be started.
#[derive(Clone, Debug)]
pub struct StartableProgram {
    /// The file, found in PATH.
    pub path: PathBuf,
    /// The ELF file that runs it: itself, or a script's interpreter.
    pub runs: PathBuf,
    /// Its own allocator.
    pub own: Flavour,
    /// Where its allocator was found.
    pub how: String,
    /// Why a preloaded allocator does not take effect; `None` if it does.
    pub cannot: Option<String>,
}

impl StartableProgram {
    /// Looks at the program of that name. The error says why it cannot be started.
    pub fn look_at(name: &str) -> Result<StartableProgram, String> {
        let path = find(name, std::env::var_os("PATH").as_deref())?;
        let (runs, privileged) = interpreter(&path, 0)?;
        let about = |error: std::io::Error| format!("{}: {error}", runs.display());
        let file = open(&runs).map_err(about)?;
        let shown = runs.display().to_string();
        let Some(needs) = needs_of(&file).filter(is_ours) else {
            return Err(format!("{shown}: of another architecture than this command ({})", std::env::consts::ARCH));
        };
        if needs.loaded > LOADED {
            return Err(format!("{shown}: wanted a program of at most {} GiB", LOADED >> 30));
        }
        let Some(found) = marks(&file).map_err(about)? else {
            return Err(format!("{shown}: wanted an ELF program, found another kind of file"));
        };
        let part = ProgramFile { path: shown.clone(), marks: found, unread: false };
        let unloaded = unloaded(&shown, needs.interpreter.as_deref());
        let libraries = libraries(&runs, needs);
        let identity = identify(&part, &libraries);
        let (own, how) = (identity.main.flavour, identity.main.how.clone());
        let cannot = privileged.or(unloaded).or_else(|| sanitized(&shown, &libraries));
        let cannot = cannot.or_else(|| linked(&part, own, &how));
        Ok(StartableProgram { path, runs, own, how, cannot })
    }

    /// Whether the environment can give settings to its own allocator.
    pub fn reads_settings(&self) -> VariableEffect {
        if self.own.has_settings() { VariableEffect::Read } else { VariableEffect::Ignored }
    }
}

/// The reason why the recorder would not see the allocations of a running process; `None` if its program gives no reason. Only the
/// program's file is read, through the kernel's link to it. The caller examines the process's mappings.
pub fn hidden_in(pid: u32) -> Result<Option<String>, String> {
    let about = |error: std::io::Error| format!("process {pid}: its program: {error}");
    let file = file_of(&BrokerRequest::Executable(pid)).map_err(about)?;
    if needs_of(&file).is_none_or(|needs| needs.loaded > LOADED) {
        return Ok(None);
    }
    let path = link(pid).map_err(about)?;
    let program = ProgramFile { path, marks: marks(&file).map_err(about)?.unwrap_or_default(), unread: false };
    let own = identify(&program, &[]).main;
    Ok(linked(&program, own.flavour, &own.how))
}

/// The file that a shell would start.
fn find(name: &str, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let check = |file: &Path| -> Result<(), String> {
        let meta = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
        match (meta.is_dir(), meta.permissions().mode() & 0o111) {
            (true, _) => Err(format!("{}: wanted a program, found a folder", file.display())),
            _ if !meta.is_file() => Err(format!("{}: wanted a program, found a device or a pipe", file.display())),
            (false, 0) => Err(format!("{}: not executable: `chmod +x` makes it so", file.display())),
            _ => Ok(()),
        }
    };
    if name.contains('/') {
        let file = PathBuf::from(name);
        return check(&file).map(|()| file);
    }
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let mut found = folders.iter().map(|folder| folder.join(name)).filter(|file| file.is_file());
    let found = found.find(|file| check(file).is_ok());
    found.ok_or_else(|| format!("{name}: no such program in PATH: name its path, as in ./{name}"))
}

/// The ELF file that runs a script. Also the reason why the loader ignores preloads, if a file on the way gives its user more rights.
fn interpreter(path: &Path, depth: u32) -> Result<(PathBuf, Option<String>), String> {
    let shown = path.display();
    let file = open(path).map_err(|error| format!("{shown}: {error}"))?;
    let head = file.head(256).map_err(|error| format!("{shown}: {error}"))?;
    if head.starts_with(b"\x7fELF") {
        let meta = file.file.metadata().map_err(|error| format!("{shown}: {error}"))?;
        // The owner of our own folder in /proc is the user of this process.
        let us = fs::metadata("/proc/self").map_err(|error| format!("/proc/self: {error}"))?;
        let user = meta.mode() & 0o4000 != 0 && meta.uid() != us.uid();
        let group = meta.mode() & 0o2010 == 0o2010 && meta.gid() != us.gid();
        let what = if user { "set-user-id" } else { "set-group-id" };
        let why = format!("{shown} is a {what} program: the loader ignores LD_PRELOAD in it");
        return Ok((path.to_path_buf(), (user || group).then_some(why)));
    }
    let Some(line) = head.strip_prefix(b"#!") else {
        return Err(format!("{shown}: neither an ELF program nor a script that begins with `#!`"));
    };
    let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default()).trim().to_string();
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else {
        return Err(format!("{shown}: a script without an interpreter after `#!`"));
    };
    if depth >= 5 {
        return Err(format!("{shown}: more than five scripts that interpret each other"));
    }
    let is_env = Path::new(first).file_name() == Some(OsStr::new("env"));
    let named = if is_env { words.find(|word| !word.starts_with('-') && !word.contains('=')) } else { None };
    let missing = |error: String| format!("{shown}: its interpreter: {error}");
    let next = match named {
        Some(name) => find(name, std::env::var_os("PATH").as_deref()).map_err(missing)?,
        None => find(first, None).map_err(missing)?,
    };
    interpreter(&next, depth + 1)
}

/// Whether a program is for this machine. On a machine that is not listed here, every program counts as one of it.
fn is_ours(needs: &Needs) -> bool {
    let machine = match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        "riscv64" => 243,
        _ => return true,
    };
    needs.machine == machine
}

/// The reason if the program's loader does not load our preloads, or if it has none.
fn unloaded(shown: &str, loader: Option<&Path>) -> Option<String> {
    let Some(loader) = loader else {
        return Some(format!("{shown} is linked statically: no loader reads LD_PRELOAD"));
    };
    let name = loader.file_name().unwrap_or_default().to_string_lossy();
    let ours = !cfg!(target_env = "musl");
    (name.starts_with("ld-musl") == ours).then(|| {
        let loader = loader.display();
        format!("{shown} has another C library than the preloads: its loader is {loader}")
    })
}

/// The reason if the program has a sanitizer's runtime, which ends it if another library is loaded first.
fn sanitized(shown: &str, libraries: &[ProgramFile]) -> Option<String> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
    let runtime = libraries.iter().find(|part| name(&part.path).starts_with("libasan."))?;
    Some(format!(
        "{shown} is built with AddressSanitizer, whose runtime ends a program that has a preload ({}): build it without -fsanitize",
        runtime.path
    ))
}

/// Why an allocator that is linked into the program is not replaced.
fn linked(program: &ProgramFile, own: Flavour, how: &str) -> Option<String> {
    let path = &program.path;
    if program.marks.go {
        return Some(format!("{path} is a Go program: its runtime has an allocator of its own, which asks the kernel"));
    }
    if program.marks.exports.contains("malloc") {
        return Some(format!("{path} exports a malloc of its own, which the loader prefers"));
    }
    let is_linked = (matches!(own, Flavour::RustJemalloc { .. }) || leaves_malloc(own))
        || !matches!(own, Flavour::Glibc | Flavour::OtherLibc | Flavour::Unknown) && how.starts_with(path.as_str());
    is_linked.then(|| format!("{path} has {} linked in ({how}): a preload would serve its C code only", own.name()))
}

/// Why a library cannot be loaded into programs of this machine, as far as its file says; `None` if it can. A file that ends too early
/// would end each program that loads it, by SIGBUS.
pub fn damage(library: &Path) -> Option<String> {
    let file = match open(library) {
        Ok(file) => file,
        Err(error) => return Some(error.to_string()),
    };
    let Some(needs) = needs_of(&file).filter(is_ours) else {
        return Some(format!("no ELF library of this machine ({})", std::env::consts::ARCH));
    };
    let bytes = file.file.metadata().map_or(0, |meta| meta.len());
    (bytes < needs.end).then(|| format!("{bytes} bytes, and what is loaded needs {}", needs.end))
}

/// The libraries that the loader would map, in its order.
fn libraries(program: &Path, needs: Needs) -> Vec<ProgramFile> {
    let mut left = LOADED.saturating_sub(needs.loaded);
    let part = |path: PathBuf| {
        let shown = path.display().to_string();
        let file = open(&path).ok()?;
        let is_within = needs_of(&file).and_then(|needs| left.checked_sub(needs.loaded)).inspect(|less| left = *less);
        let marks = is_within.and_then(|_| marks(&file).ok()?);
        Some(ProgramFile { path: shown, unread: marks.is_none(), marks: marks.unwrap_or_default() })
    };
    paths(program, needs).into_iter().filter_map(part).collect()
}

/// The paths of these libraries.
fn paths(program: &Path, needs: Needs) -> Vec<PathBuf> {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
    let host = HostLibraries {
        named: std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default(),
        cache: cache::entries(),
        musl: input::bytes(Path::new(&format!("/etc/ld-musl-{}.path", std::env::consts::ARCH)))
            .ok()
            .map(OsString::from_vec),
    };
    loader::libraries(&program, needs, &host, &Disk)
}

/// The files of this host.
struct Disk;

impl LibraryFiles for Disk {
    fn id(&self, path: &Path) -> Option<Id> {
        fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|meta| (meta.dev(), meta.ino()))
    }

    fn needs(&self, path: &Path) -> Option<Needs> {
        needs_of(&open(path).ok()?)
    }
}

fn needs_of(file: &Opened) -> Option<Needs> {
    needs(|at, length| {
        let mut bytes = vec![0; length];
        let mut read = 0;
        // An error ends the bytes, as the end of the file does.
        while let Ok(more @ 1..) = file.file.read_at(&mut bytes[read..], at.saturating_add(read as u64)) {
            read += more;
        }
        bytes.truncate(read);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_testing::programs::compiled_to;

    fn file(folder: &Path, name: &str, text: &[u8], mode: u32) -> String {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    }

    /// The loader's own list, as `ldd` shows it. These programs are trusted, so their loader may run here.
    fn listed(program: &Path) -> Vec<PathBuf> {
        let loader = needs_of(&open(program).unwrap()).unwrap().interpreter.unwrap();
        let mut command = std::process::Command::new(loader);
        let output = command.arg("--list").arg(program).env_remove("LD_PRELOAD").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let path = |line: &str| line.split_once("=> ").map_or(line, |(_, path)| path).trim().to_string();
        let paths = text.lines().map(path).filter(|path| path.starts_with('/'));
        paths.map(|path| fs::canonicalize(path.split(" (").next().unwrap()).unwrap()).collect()
    }

    fn found(program: &Path) -> Vec<PathBuf> {
        let needs = needs_of(&open(program).unwrap()).unwrap();
        paths(program, needs).iter().map(|path| path.canonicalize().unwrap()).collect()
    }

    #[test]
    fn the_libraries_are_those_of_the_loader_in_its_order() {
        let own = std::env::current_exe().unwrap();
        for name in ["sh", "python3", "git", "redis-server", "sqlite3", "cc", "perl", "chromium", "openssl", "gdb"] {
            // A script has no libraries.
            if let Ok(program) = find(name, std::env::var_os("PATH").as_deref())
                && needs_of(&open(&program).unwrap()).is_some()
            {
                let program = program.canonicalize().unwrap();
                assert_eq!(found(&program), listed(&program), "{}", program.display());
            }
        }
        assert_eq!(found(&own), listed(&own));
    }

    /// Compiles a program or a library in a folder. The words are those after the output's name.
    fn made(folder: &Path, name: &str, words: &[&str]) {
        let output = folder.join(name);
        fs::create_dir_all(output.parent().unwrap()).unwrap();
        let (sources, flags): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.ends_with(".c"));
        let sources: Vec<PathBuf> = sources.iter().map(|name| folder.join(name)).collect();
        let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
        compiled_to(&output, &sources, &flags).expect("a C compiler");
    }

    #[test]
    fn a_program_s_own_folders_are_searched_as_by_the_loader() {
        let folder = tempfile::tempdir().unwrap();
        let folder = &folder.path().canonicalize().unwrap();
        fs::write(folder.join("one.c"), "int one(void) { return 1; }\n").unwrap();
        fs::write(folder.join("two.c"), "int one(void);\nint two(void) { return one(); }\n").unwrap();
        fs::write(folder.join("main.c"), "int two(void);\nint main(void) { return two(); }\n").unwrap();
        made(folder, "lib/one/libone.so", &["-shared", "-fPIC", "one.c"]);
        // The same name in the program's folders. The library's own list comes first for RUNPATH, and is not used for RPATH.
        made(folder, "lib/libone.so", &["-shared", "-fPIC", "one.c"]);
        for (kind, list) in [("run", "--enable-new-dtags"), ("r", "--disable-new-dtags")] {
            let own = format!("-Wl,{list},-rpath,$ORIGIN/one");
            made(folder, "lib/libtwo.so", &["-shared", "-fPIC", "two.c", "-L../lib/one", "-lone", &own]);
            let own = format!("-Wl,{list},-rpath,/none:${{ORIGIN}}/../lib,-rpath-link,../lib/one");
            made(folder, &format!("bin/{kind}"), &["main.c", "-L../lib", "-ltwo", &own]);
            let program = folder.join("bin").join(kind);
            let found = found(&program);
            assert_eq!(found, listed(&program), "{kind}");
            assert!(found.starts_with(&[folder.join("lib/libtwo.so")]), "{found:?}");
        }
    }

    /// The file of a program names its loader. Looking at the program must not run it.
    #[test]
    fn the_loader_that_a_program_names_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let (ran, loader) = (folder.path().join("ran"), folder.path().join("loader"));
        let script = format!("#!/bin/sh\necho run > {}\n", ran.display());
        file(folder.path(), "loader", script.as_bytes(), 0o755);
        fs::write(folder.path().join("main.c"), "int main(void) { return 0; }\n").unwrap();
        made(folder.path(), "program", &["main.c", &format!("-Wl,--dynamic-linker={}", loader.display())]);
        let found = StartableProgram::look_at(folder.path().join("program").to_str().unwrap()).unwrap();
        assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap_or_default());
        assert_eq!((found.own, found.cannot), (Flavour::Glibc, None));
    }

    #[test]
    fn a_script_s_interpreter_that_is_a_pipe_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").args(["-m", "755"]).arg(&pipe).status().unwrap();
        assert!(made.success());
        let script = file(folder.path(), "script", format!("#!{}\n", pipe.display()).as_bytes(), 0o755);
        for name in [&script, &pipe.display().to_string()] {
            let error = StartableProgram::look_at(name).unwrap_err();
            assert!(error.contains("wanted a program, found a device or a pipe"), "{error}");
        }
    }

    #[test]
    fn a_running_program_with_its_own_malloc_is_told_from_one_without() {
        let folder = tempfile::tempdir().unwrap();
        let reads = "int main(void) { char byte; return read(0, &byte, 1); }\n";
        let own = "void *malloc(unsigned long size) { static char room[8192]; return size > 8192 ? 0 : room; }\n";
        fs::write(folder.path().join("plain.c"), format!("#include <unistd.h>\n{reads}")).unwrap();
        fs::write(folder.path().join("own.c"), format!("#include <unistd.h>\n{own}{reads}")).unwrap();
        for (name, said) in [("plain", None), ("own", Some("exports a malloc of its own"))] {
            made(folder.path(), name, &[&format!("{name}.c"), "-Wl,--export-dynamic"]);
            let mut command = std::process::Command::new(folder.path().join(name));
            // It ends with its input.
            let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
            let found = hidden_in(child.id()).unwrap();
            child.wait().unwrap();
            let is_as_said =
                found.as_deref().map_or(said.is_none(), |found| said.is_some_and(|said| found.contains(said)));
            assert!(is_as_said, "{name}: {found:?}");
        }
        assert!(hidden_in(u32::MAX).unwrap_err().contains("No such file"));
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str, mode| file(folder.path(), name, text.as_bytes(), mode);
        let again = folder.path().join("again");
        for (name, said) in [
            ("/no/such".to_string(), "No such file"),
            ("no-such-program".to_string(), "no such program in PATH"),
            ("/tmp".to_string(), "found a folder"),
            (make("plain", "#!/bin/sh\n", 0o644), "not executable"),
            (make("text", "echo a\n", 0o755), "neither an ELF program nor a script"),
            (make("bare", "#!\n", 0o755), "without an interpreter"),
            (make("lost", "#!/no/such\n", 0o755), "its interpreter: /no/such: No such file"),
            (make("env", "#!/usr/bin/env no-such-program\n", 0o755), "its interpreter: no-such-program"),
            (make("again", &format!("#!{}\n", again.display()), 0o755), "interpret each other"),
        ] {
            let error = StartableProgram::look_at(&name).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let mut foreign = fs::read("/proc/self/exe").unwrap();
        foreign[18] = 0xfe;
        let foreign = file(folder.path(), "foreign", &foreign, 0o755);
        assert!(StartableProgram::look_at(&foreign).unwrap_err().contains("of another architecture"));
    }

    #[test]
    fn a_script_is_seen_through_and_a_shell_can_be_preloaded() {
        let folder = tempfile::tempdir().unwrap();
        let inner = file(folder.path(), "inner", b"#! /bin/sh -e\n", 0o755);
        let outer = file(folder.path(), "outer", format!("#!/usr/bin/env {inner}\n").as_bytes(), 0o755);
        let found = StartableProgram::look_at(&outer).unwrap();
        assert_eq!((found.runs, found.cannot), (PathBuf::from("/bin/sh"), None));
        assert_eq!(found.own, Flavour::Glibc);
    }
}
