//! Reads a running process and the files that it has mapped, and makes a [`ProcessFacts`]. If the process cannot be read, the error is one
//! line with the process ID and the file.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::allocators::jemalloc::links;
use super::elf::marks;
use super::host::Surroundings;
use super::identify::{identify, libc};
use super::identity::file_name;
use super::notice::notices;
use super::process::{MappedFile, Maps, MemorySizes, ProcessFacts};
use super::seen::{ProcessTraits, is_overwritten, jdk};
use super::signs::{ProgramFile, Signs};
use super::variables::Variables;
use crate::error::{Error, Result};
use allocanary_heap::{LiveProcess, MappingCount, Memory as _, counted};
use allocanary_process::{BrokerRequest, Opened, ProcFile, calls, file_of, link, text};
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::proc::kinds::Mappings;
use allocanary_sys::proc::smaps::MappingBytes;

impl ProcessFacts {
    /// Reads a process. `surroundings` are those of its control groups, which [`Surroundings::of`] reads with the rights
    /// of the command.
    pub fn look_at(pid: u32, surroundings: Surroundings) -> Result<ProcessFacts> {
        let read = |name: ProcFile| text(pid, name).map_err(|error| unreadable(pid, &name.to_string(), &error));
        let status = read(ProcFile::Status)?;
        let mappings = read(ProcFile::Maps)?;
        let maps = Maps::parse(&mappings);
        let no_program = |error| unreadable(pid, "exe", &error);
        let program = link(pid).map_err(no_program)?;
        let marks_of_program =
            file_of(&BrokerRequest::Executable(pid)).and_then(|file| look_into(&file)).map_err(no_program)?;
        let program = ProgramFile { path: program, marks: marks_of_program, unread: false };
        let library = |file: &MappedFile| {
            let marks = file_of(&BrokerRequest::Mapped(pid, file.from, file.to)).and_then(|file| look_into(&file)).ok();
            ProgramFile { path: file.path.clone(), unread: marks.is_none(), marks: marks.unwrap_or_default() }
        };
        let environ = read(ProcFile::Environ)?;
        let files = in_search_order(&maps.files, &environ).into_iter();
        let libraries: Vec<ProgramFile> = files.filter(|file| file.path != program.path).map(library).collect();
        // This fails without the right to read the process's memory. But then the environment could not be read before.
        let live = LiveProcess::open_until(pid, Instant::now().checked_add(DEADLINE)).ok();
        let parts = live.as_ref().map(|live| parts(&mappings, live)).filter(|parts| parts.rss() > 0);
        let memory = MemorySizes::of(&ProcStatus::parse(&status));
        // Resident memory is the sum of the parts, so that the page's figures add up.
        let memory = MemorySizes { rss: parts.map(|parts| parts.rss()).or(memory.rss), ..memory };
        let identity = identify(&program, &libraries);
        let notices = live.map(|memory| notices(&memory)).unwrap_or_default();
        let of_main = notices.iter().find(|notice| notice.file == identity.main.file && notice.refused.is_none());
        let jvm = maps.files.iter().find(|file| file_name(&file.path) == "libjvm.so");
        let seen = ProcessTraits {
            code: of_main.map(|notice| notice.settings.clone()).unwrap_or_default(),
            jvm: jvm.is_some(),
            jdk: jvm.and_then(|library| jdk_of(pid, library)),
            threads: memory.threads,
            background_threads: background_threads(pid),
            overwritten: is_overwritten(&environ),
            ..ProcessTraits::of(&program, &libraries)
        };
        Ok(ProcessFacts {
            pid,
            identity,
            notices,
            memory,
            parts,
            command: command_line(&read(ProcFile::Cmdline).unwrap_or_default()),
            seen,
            variables: variables(&environ).into_iter().chain(links::of_process(pid)).collect(),
            surroundings: Surroundings { libc: libc(&program, &libraries), ..surroundings },
            program: program.path,
            maps,
        })
    }
}

/// The time limit for reading the states of a process's pages, and its settings.
const DEADLINE: Duration = Duration::from_secs(10);

/// The resident pages by the kind of their mapping. The kernel's own sums (`smaps`) are not read, because the process cannot map anything
/// while the kernel makes them.
fn parts(maps: &[u8], live: &LiveProcess) -> Mappings {
    let counts = |one: &MappingCount| {
        let [resident, huge, swapped] = [one.resident, one.huge, one.swapped].map(Some);
        (one.mapping.from, MappingBytes { resident, huge, swapped, ..MappingBytes::default() })
    };
    // A mapping that grew while the kernel wrote the text is there twice. It was counted as one mapping from the lower address on.
    let counted: BTreeMap<u64, MappingBytes> = counted(live.mappings(), live.pages()).iter().map(counts).collect();
    Mappings::of(maps, |from| {
        counted.range(..=from).next_back().map_or_else(MappingBytes::default, |(_, counts)| *counts)
    })
}

/// The files in the order in which the loader looks for symbols: first those that LD_PRELOAD names, then the others in
/// the order of loading. The kernel gives a later mapping a lower address (except with an unlimited stack, where it
/// maps upwards).
fn in_search_order<'a>(files: &'a [MappedFile], environ: &[u8]) -> Vec<&'a MappedFile> {
    let preload = environ.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"LD_PRELOAD="));
    let preload = String::from_utf8_lossy(preload.unwrap_or_default()).into_owned();
    let names: Vec<&str> = preload.split([':', ' ']).filter(|name| !name.is_empty()).collect();
    // LD_PRELOAD may name a link, whose name differs from that of the mapped file. Such a file is only found by the order of addresses.
    let named = |file: &MappedFile| names.iter().position(|name| file_name(name) == file_name(&file.path));
    let mut files: Vec<&MappedFile> = files.iter().rev().collect();
    files.sort_by_key(|file| named(file).unwrap_or(usize::MAX));
    files
}

/// The error of a process that cannot be read, in one line.
fn unreadable(pid: u32, name: &str, error: &std::io::Error) -> Error {
    let path = format!("/proc/{pid}/{name}");
    Error(match error.kind() {
        ErrorKind::NotFound if text(pid, ProcFile::Status).is_ok() => {
            format!("process {pid}: {path}: it has no program: a kernel thread, or a process that has just ended")
        }
        ErrorKind::NotFound => format!("process {pid}: {path}: there is no such process"),
        ErrorKind::PermissionDenied => {
            format!("process {pid}: {path}: may not be read: it is another user's, or it forbids it; try as root")
        }
        _ => format!("process {pid}: {path}: {error}"),
    })
}

/// The marks in a file; no marks if it is not an ELF file.
fn look_into(file: &Opened) -> std::io::Result<Signs> {
    Ok(marks(file)?.unwrap_or_default())
}

/// The most bytes of a text that describes a JDK.
const MOST_TEXT: usize = 64 << 10;

/// The release of the JDK whose `lib/server/libjvm.so` this is.
fn jdk_of(pid: u32, library: &MappedFile) -> Option<(u32, u32, u32)> {
    let release = file_of(&BrokerRequest::JavaRelease(pid, library.from, library.to)).ok()?;
    jdk(&String::from_utf8_lossy(&release.head(MOST_TEXT).ok()?))
}

/// Number of jemalloc's background threads, by their thread name.
fn background_threads(pid: u32) -> u64 {
    let threads = calls(pid).unwrap_or_default();
    threads.iter().filter(|thread| thread.name == "jemalloc_bg_thd").count() as u64
}

/// The arguments, separated by spaces. An argument with spaces is quoted. A very long line is cut.
fn command_line(cmdline: &[u8]) -> String {
    const MOST: usize = 300;
    let end = cmdline.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let argument = |argument: &[u8]| {
        let text = String::from_utf8_lossy(argument).into_owned();
        if text.is_empty() || text.contains(' ') { format!("'{text}'") } else { text }
    };
    // If a program has overwritten its arguments with a title, there is only one text.
    let line = match cmdline[..end].contains(&0) {
        true => cmdline[..end].split(|byte| *byte == 0).map(argument).collect::<Vec<_>>().join(" "),
        false => String::from_utf8_lossy(&cmdline[..end]).into_owned(),
    };
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

/// Parses `NAME=value` texts that are separated by NULs.
fn variables(environ: &[u8]) -> Variables {
    let pairs = environ.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    pairs.filter_map(|pair| pair.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_comes_before_what_is_linked() {
        let file = |path: &str| MappedFile { path: path.into(), from: 0, to: 0 };
        // In the order of addresses, as in `maps`. The loader maps downwards, so the first library is the last.
        let files = ["/lib/libc.so.6", "/lib/libjemalloc.so.2", "/opt/preload-mimalloc", "/lib/ld.so"].map(file);
        let order = |environ: &[u8]| -> Vec<&str> {
            in_search_order(&files, environ).into_iter().map(|file| file_name(&file.path)).collect()
        };
        assert_eq!(order(b"A=1\0"), ["ld.so", "preload-mimalloc", "libjemalloc.so.2", "libc.so.6"]);
        let preloaded = order(b"A=1\0LD_PRELOAD=libjemalloc.so.2:/opt/preload-mimalloc\0");
        assert_eq!(preloaded, ["libjemalloc.so.2", "preload-mimalloc", "ld.so", "libc.so.6"]);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let own = ProcessFacts::look_at(std::process::id(), Surroundings::of(std::process::id())).unwrap();
        assert!(own.memory.rss > Some(1 << 20) && own.memory.threads >= Some(1));
        assert_eq!(own.parts.map(|parts| parts.rss()), own.memory.rss);
        assert!(own.maps.anonymous.0 > 0 && !own.program.is_empty());
        assert_eq!(own.surroundings.cpus.affinity, allocanary_sys::sys::affinity());
    }

    #[test]
    fn a_command_line_is_one_line() {
        assert_eq!(command_line(b"python3\0-c\0print(1, 2)\0\0"), "python3 -c 'print(1, 2)'");
        assert_eq!(command_line(b"redis-server 127.0.0.1:6379\0\0\0"), "redis-server 127.0.0.1:6379");
        assert_eq!((command_line(b""), command_line(&[b'x'; 1000]).len()), (String::new(), 303));
    }

    #[test]
    fn who_cannot_be_looked_at_is_named() {
        let said = ProcessFacts::look_at(u32::MAX, Surroundings::here()).unwrap_err().to_string();
        assert_eq!(said, "process 4294967295: /proc/4294967295/status: there is no such process");
        let denied = unreadable(7, "maps", &ErrorKind::PermissionDenied.into()).to_string();
        assert!(denied.starts_with("process 7: /proc/7/maps: may not be read"));
    }
}
