//! Whether an allocator can be preloaded into a program. In: the program's name, as a shell takes it. Out: the file that will run, its
//! own allocator, and the reason if preloading has no effect there. The program is not started.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_process::Opened;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};

use super::elf::marks;
use super::identity::{Identity, ProgramFile, leaves_malloc};
use super::{Effect, Flavour};

/// A program that can be started.
#[derive(Clone, Debug)]
pub struct Program {
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

impl Program {
    /// Looks at the program of that name. The error says why it cannot be started.
    pub fn look_at(name: &str) -> Result<Program, String> {
        let path = find(name, std::env::var_os("PATH").as_deref())?;
        let (runs, privileged) = interpreter(&path, 0)?;
        let about = |error: std::io::Error| format!("{}: {error}", runs.display());
        let file = File::open(&runs).map_err(about)?;
        let shown = runs.display().to_string();
        let Some(shape) = ElfFile::of(&file) else {
            return Err(format!("{shown}: of another architecture than this command ({})", std::env::consts::ARCH));
        };
        let file = Opened::of(file).map_err(about)?;
        let Some(found) = marks(&file).map_err(about)? else {
            return Err(format!("{shown}: wanted an ELF program, found another kind of file"));
        };
        let part = ProgramFile { path: shown.clone(), marks: found, unread: false };
        let libraries = shape.loader.as_deref().map_or_else(Vec::new, |loader| libraries(loader, &runs));
        let identity = Identity::of(&part, &libraries);
        let (own, how) = (identity.main.flavour, identity.main.how.clone());
        let cannot = privileged.or_else(|| shape.cannot(&shown)).or_else(|| sanitized(&shown, &libraries));
        let cannot = cannot.or_else(|| linked(&part, own, &how));
        Ok(Program { path, runs, own, how, cannot })
    }

    /// Whether the environment can give settings to its own allocator.
    pub fn reads_settings(&self) -> Effect {
        if self.own.has_settings() { Effect::Read } else { Effect::Ignored }
    }
}

/// The file that a shell would start.
fn find(name: &str, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let check = |file: &Path| -> Result<(), String> {
        let meta = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
        match (meta.is_dir(), meta.permissions().mode() & 0o111) {
            (true, _) => Err(format!("{}: wanted a program, found a folder", file.display())),
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
    let mut head = [0; 256];
    let mut file = File::open(path).map_err(|error| format!("{shown}: {error}"))?;
    let length = file.read(&mut head).map_err(|error| format!("{shown}: {error}"))?;
    let head = &head[..length];
    if head.starts_with(b"\x7fELF") {
        let meta = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
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

/// What an ELF file says about how it is loaded.
struct ElfFile {
    loader: Option<PathBuf>,
}

impl ElfFile {
    /// `None` if the file is for another kind of machine.
    fn of(file: &File) -> Option<ElfFile> {
        let machine = match std::env::consts::ARCH {
            "x86_64" => elf::EM_X86_64,
            "aarch64" => elf::EM_AARCH64,
            "riscv64" => elf::EM_RISCV,
            _ => return Some(ElfFile { loader: None }),
        };
        let cache = ReadCache::new(file);
        let header = elf::FileHeader64::<Endianness>::parse(&cache).ok()?;
        let endian = header.endian().ok()?;
        if header.e_machine(endian) != machine {
            return None;
        }
        let mut programs = header.program_headers(endian, &cache).ok()?.iter();
        let loader = programs.find_map(|part| part.interpreter(endian, &cache).ok().flatten());
        let loader = loader.map(|path| PathBuf::from(String::from_utf8_lossy(path).into_owned()));
        Some(ElfFile { loader })
    }

    fn cannot(&self, shown: &str) -> Option<String> {
        let Some(loader) = &self.loader else {
            return Some(format!("{shown} is linked statically: no loader reads LD_PRELOAD"));
        };
        let name = loader.file_name().unwrap_or_default().to_string_lossy();
        let ours = !cfg!(target_env = "musl");
        (name.starts_with("ld-musl") == ours).then(|| {
            let loader = loader.display();
            format!("{shown} has another C library than the preloads: its loader is {loader}")
        })
    }
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

/// The libraries that the loader would map, in its order. The loader is asked as by `ldd`: the program does not run.
fn libraries(loader: &Path, program: &Path) -> Vec<ProgramFile> {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
    let Ok(output) = Command::new(loader).arg("--list").arg(program).env_remove("LD_PRELOAD").output() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = text.lines().filter_map(|line| {
        let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
        path.split(" (").next().filter(|path| path.starts_with('/'))
    });
    let part = |path: &str| {
        let marks = marks(&Opened::of(File::open(path).ok()?).ok()?).ok()??;
        Some(ProgramFile { path: path.to_string(), marks, unread: false })
    };
    paths.filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, text: &[u8], mode: u32) -> String {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
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
            let error = Program::look_at(&name).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let mut foreign = fs::read("/proc/self/exe").unwrap();
        foreign[18] = 0xfe;
        let foreign = file(folder.path(), "foreign", &foreign, 0o755);
        assert!(Program::look_at(&foreign).unwrap_err().contains("of another architecture"));
    }

    #[test]
    fn a_script_is_seen_through_and_a_shell_can_be_preloaded() {
        let folder = tempfile::tempdir().unwrap();
        let inner = file(folder.path(), "inner", b"#! /bin/sh -e\n", 0o755);
        let outer = file(folder.path(), "outer", format!("#!/usr/bin/env {inner}\n").as_bytes(), 0o755);
        let found = Program::look_at(&outer).unwrap();
        assert_eq!((found.runs, found.cannot), (PathBuf::from("/bin/sh"), None));
        assert_eq!(found.own, Flavour::Glibc);
    }
}
