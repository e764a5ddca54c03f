//! Makes a [`Reading`] of a live process or a core file. If the process is not stopped, a heap that changes during the walk is walked
//! again.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use allocanary_process::{BrokerRequest, ProcFile, ProcessFiles, StoppedProcess, file_of, text};
use allocanary_sys::proc::Stat;
use allocanary_text::units::Bytes;

use crate::apart::apart;
use crate::counted::add_shares;
use crate::{
    CoreFile, HeapWalks, KernelCounts, LiveProcess, MappingCount, Memory, ProcessSubject, ProcessTrouble, Processor,
    Reading, Unknown, Walk, best_of, counted, inside, parse_smaps, shares, walk_all, walked,
};
use allocanary_walkers::{AllocatorMark, KNOWN, build_id};

/// The most walks of a heap that changes. Also the most attempts if the process starts another program during the reading.
const TRIES: u32 = 3;

/// How a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The process runs during the reading.
    Running,
    /// The process is stopped during the walk.
    Stopped,
}

/// Whether and how the shares of pages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Shares {
    /// Shares are not read.
    NotRead,
    /// Reads the share of each page. Only root may do this.
    ByPages,
    /// Also reads the lazily freed bytes. The kernel counts both in `smaps`, and during this the process cannot map or
    /// unmap memory.
    BySmaps,
}

/// [`take_with`] without shares.
pub fn take(pid: u32, how: ReadMode, time: Duration) -> Result<Reading, ProcessTrouble> {
    take_with(pid, how, Shares::NotRead, time)
}

/// Reads a process. If a heap cannot be divided into parts, the reading says so as a problem. If the process cannot be read at all, this is
/// an error.
///
/// After `time` no more of its memory is read. A heap that is not finished by then is not analysed. The sizes of its
/// mappings are always in the reading, because the kernel has them.
///
/// If the process starts another program during the reading, it is read again.
pub fn take_with(pid: u32, how: ReadMode, shares: Shares, time: Duration) -> Result<Reading, ProcessTrouble> {
    let until = Instant::now().checked_add(time);
    let read = || while_it_changes(pid, || taken(pid, how, shares, time, until));
    let mut best = read()?;
    for _ in 1..TRIES {
        if how == ReadMode::Stopped || !best.is_apart() {
            break;
        }
        // Memory moved during the reading, so it is read again. If the difference stays, the process has memory of another kind, and
        // further attempts do not help.
        let Ok(next) = read() else { break };
        let (before, now) = (best.is_apart_by(), next.is_apart_by());
        // A reading that ran out of time is not better, whatever its pages are.
        let is_worse = best.is_divided() && !next.is_divided();
        best = if now < before && !is_worse { next } else { best };
        if before.abs_diff(now) < before / 16 {
            break;
        }
    }
    Ok(best)
}

/// Repeats a reading if the process has started another program meanwhile.
fn while_it_changes<T>(pid: u32, mut read: impl FnMut() -> Result<T, ProcessTrouble>) -> Result<T, ProcessTrouble> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match read() {
            Err(ProcessTrouble::Gone(_) | ProcessTrouble::Changed(_)) if has_memory(pid) && tries > 0 => {}
            Err(ProcessTrouble::Gone(_)) if has_memory(pid) => return Err(ProcessTrouble::Changed(pid)),
            Err(ProcessTrouble::Changed(_)) if !has_memory(pid) => return Err(ProcessTrouble::Gone(pid)),
            done => return done,
        }
    }
}

/// Whether a process is there and has not ended.
fn has_memory(pid: u32) -> bool {
    text(pid, ProcFile::Stat).ok().and_then(|text| Stat::parse(&text)).is_some_and(|stat| !stat.is_bare())
}

fn taken(
    pid: u32,
    how: ReadMode,
    shares: Shares,
    time: Duration,
    until: Option<Instant>,
) -> Result<Reading, ProcessTrouble> {
    let files = Rc::new(ProcessFiles::of(pid));
    let open = || LiveProcess::open_with(&files, until);
    let subject = ProcessSubject::of(pid).ok_or(ProcessTrouble::Gone(pid))?;
    let mut problem = unsupported(pid);
    let mut stopped = None;
    let HeapWalks { memory: live, mut walks } = match (&problem, how) {
        (None, ReadMode::Running) => best_of(TRIES, open)?,
        (None, ReadMode::Stopped) => {
            // Opens the files that a walk needs before the stop. A file system may not answer. If there is a slow one, a first walk also
            // reads the facts that it needs from files, and they are then known.
            let before = open()?;
            before.mappings().iter().filter(|one| one.inode != 0).for_each(|one| drop(before.file_of(one)));
            if files.has_slow() {
                walk_all(&before);
            }
            drop(before);
            let begun = Instant::now();
            let frozen = StoppedProcess::stop(pid)?;
            files.stop();
            let walk = walked(1, open);
            files.go_on();
            frozen.go_on()?;
            stopped = Some(begun.elapsed().as_micros() as u64);
            walk?
        }
        (Some(_), _) => HeapWalks { memory: open()?, walks: Vec::new() },
    };
    if live.is_cut() {
        return Err(ProcessTrouble::Changed(pid));
    }
    let walked_late = live.is_late();
    if walked_late {
        walks.iter_mut().flatten().for_each(|walk| walk.late = Some(time));
        let seconds = time.as_secs_f64();
        let none = || format!("heap not analysed: no heap was found within {seconds} s");
        problem = problem.or(walks.is_empty().then(none));
    }
    if problem.is_none() && walks.is_empty() && !may_read(&live) {
        problem = Some(format!("heap not analysed: {}", ProcessTrouble::Denied(pid)));
    }
    if problem.is_none() {
        let unwalked: Vec<Unknown> = unwalked(&live, &walks).collect();
        walks.extend(unwalked.into_iter().map(Err));
    }
    let counted = counted_with(&live, shares)?;
    let now = ProcessSubject::of(pid).ok_or(ProcessTrouble::Gone(pid))?;
    if !now.is_same(&subject) {
        return Err(ProcessTrouble::Changed(pid));
    }
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let mut reading = Reading::of(subject, taken, live.kernel()[1], &counted, &live, walks);
    reading.problems.extend(problem);
    reading.problems.extend(apart(&reading, live.kernel()));
    inside::name(&mut reading, &live);
    if live.is_late() && !walked_late {
        let seconds = time.as_secs_f64();
        reading.problems.push(format!("heaps of runtimes were not all looked for: {seconds} s were over"));
    }
    reading.stopped = stopped;
    Ok(reading)
}

/// Reads a core file. After `time` no more of it is read, as in [`take`].
pub fn take_core(path: &Path, time: Duration) -> Result<Reading, ProcessTrouble> {
    let until = Instant::now().checked_add(time);
    let core = CoreFile::open(path, until).map_err(|error| ProcessTrouble::Core { path: path.into(), error })?;
    let mut walks = walk_all(&core);
    if core.is_late() {
        walks.iter_mut().flatten().for_each(|walk| walk.late = Some(time));
    }
    if core.missing > 0 {
        // The missing part may contain anything: a walk is only accepted if nothing in it is in doubt.
        let reason = || {
            format!("the core is truncated, and a part of the heap is in the {} that are missing", Bytes(core.missing))
        };
        let doubtful = |walk: &Walk| walk.doubt() != (0, 0, 0);
        let whole = |walk: Result<Walk, Unknown>| match walk {
            Ok(walk) if doubtful(&walk) => Err(Unknown { allocator: walk.allocator, reason: reason() }),
            walk => walk,
        };
        walks = walks.into_iter().map(whole).collect();
    }
    let unwalked: Vec<Unknown> = unwalked(&core, &walks).collect();
    walks.extend(unwalked.into_iter().map(Err));
    // A core says nothing about other processes.
    let alone = |one: MappingCount| MappingCount { share: Some(one.resident), lazy: Some(0), ..one };
    let counted: Vec<MappingCount> = counted(core.mappings(), core.pages()).into_iter().map(alone).collect();
    let sum = |of: &dyn Fn(&&MappingCount) -> bool| counted.iter().filter(of).map(|one| one.resident).sum();
    let (resident, anonymous) = (sum(&|_| true), sum(&|one| one.mapping.writable));
    let kernel = KernelCounts { resident, anonymous, ..KernelCounts::default() };
    let taken = core.written * 1000;
    let subject = ProcessSubject {
        pid: core.pid,
        name: core.name.clone().into(),
        executable: core.executable.clone().into(),
        started: taken / 1000,
        threads: core.threads().len() as u64,
        ..ProcessSubject::default()
    };
    let mut reading = Reading::of(subject, taken, kernel, &counted, &core, walks);
    inside::name(&mut reading, &core);
    if core.missing > 0 {
        reading.problems.push(format!("the core is truncated: {} of it are missing", Bytes(core.missing)));
    }
    if core.is_late() {
        reading.problems.push(format!("the core was not read to its end within {} s", time.as_secs_f64()));
    }
    Ok(reading)
}

/// The counts of each mapping, with the requested shares.
fn counted_with(live: &LiveProcess, shares: Shares) -> Result<Vec<MappingCount>, ProcessTrouble> {
    let mut counted = counted(live.mappings(), live.pages());
    let pid = live.pid();
    match shares {
        Shares::NotRead => {}
        // If this process may not read the shares, they stay unknown.
        Shares::ByPages => drop(shares::by_pages(pid, &mut counted, live.pages(), live.until())),
        Shares::BySmaps => {
            let text = text(pid, ProcFile::Smaps);
            let text = text.map_err(|error| ProcessTrouble::of(pid, "reading its smaps", error))?;
            add_shares(&mut counted, &parse_smaps(text));
        }
    }
    Ok(counted)
}

/// Whether the kernel allows this process to read the memory, and not only the mappings. If pages are resident, one of
/// them must be readable.
fn may_read(live: &LiveProcess) -> bool {
    let readable = live.mappings().iter().filter(|one| one.readable && one.writable && !one.shared);
    let pages = { readable }.flat_map(|one| live.pages().within(one.from, one.to));
    let mut pages = pages.filter(|run| run.state.is_resident());
    // The process may unmap one of these pages at this moment.
    let mut some = pages.by_ref().take(20).map(|run| live.word(run.from).is_some()).peekable();
    some.peek().is_none() || some.any(|read| read)
}

/// Why the heap of this program cannot be divided into parts, whatever its allocator is.
fn unsupported(pid: u32) -> Option<String> {
    let head = file_of(&BrokerRequest::Executable(pid)).and_then(|opened| opened.head(20)).ok()?;
    machine(head.first_chunk()?)
}

/// As [`unsupported`], from the first bytes of the executable.
fn machine(head: &[u8; 20]) -> Option<String> {
    if &head[..4] != b"\x7fELF" {
        return None;
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    let name = match machine {
        3 => "32-bit x86",
        62 => "x86-64",
        40 => "32-bit ARM",
        183 => "aarch64",
        243 => "RISC-V",
        _ => "another machine",
    };
    let here = Processor::HERE;
    match (head[4], Processor::of_elf(machine)) {
        (2, Some(processor)) if processor == here => None,
        (1, Some(Processor::X86_64)) => Some("heap not analysed: the program is for x32; wanted: 64-bit x86-64".into()),
        _ => Some(format!(
            "heap not analysed: the program is for {name} (ELF machine {machine}); wanted: 64-bit {}",
            here.name()
        )),
    }
}

/// The allocators whose library is mapped, but whose heap no walker has found.
fn unwalked<'a>(live: &'a dyn Memory, walks: &[Result<Walk, Unknown>]) -> impl Iterator<Item = Unknown> + use<'a> {
    let found: Vec<&'static str> = walks
        .iter()
        .map(|walk| match walk {
            Ok(walk) => walk.allocator,
            Err(unknown) => unknown.allocator,
        })
        .collect();
    let library = move |known: &AllocatorMark| {
        if found.contains(&known.name) || known.is_below_others && !found.is_empty() {
            return None;
        }
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
        let is_it = |path: &str| known.libraries.iter().any(|prefix| name(path).starts_with(prefix));
        let file = live.mappings().iter().find(|one| one.inode != 0 && one.offset == 0 && is_it(&one.name))?;
        let build = build_id::of(live, file).map_or_else(|| "without a build-id".into(), |id| format!("build-id {id}"));
        let reason = format!("{} is mapped ({build}), and its layout is not known here", file.name);
        Some(Unknown { allocator: known.name, reason })
    };
    KNOWN.iter().filter_map(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_for_other_machines_are_told() {
        let head = |class: u8, number: u16| {
            let mut head = [0; 20];
            head[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', class]);
            head[18..].copy_from_slice(&number.to_le_bytes());
            machine(&head)
        };
        assert_eq!(head(2, 62), None);
        assert!(head(1, 3).unwrap().contains("32-bit x86"));
        assert!(head(2, 183).unwrap().contains("aarch64"));
        assert_eq!(machine(&[0; 20]), None, "a script has an interpreter, which is the program");
    }

    #[test]
    fn a_process_that_becomes_another_program_is_read_again_and_has_not_ended() {
        let tries = |pid, trouble: fn(u32) -> ProcessTrouble, before: u32| {
            let mut tries = 0;
            let read = while_it_changes(pid, || {
                tries += 1;
                if tries > before { Ok(()) } else { Err(trouble(pid)) }
            });
            (read.map_err(|error| error.to_string().contains("another program")), tries)
        };
        let own = std::process::id();
        assert_eq!(
            (tries(own, ProcessTrouble::Gone, 2), tries(own, ProcessTrouble::Changed, 1)),
            ((Ok(()), 3), (Ok(()), 2))
        );
        assert_eq!(tries(own, ProcessTrouble::Gone, 3), (Err(true), 3));
        let none = 0x3fff_ffff;
        assert_eq!(
            (tries(none, ProcessTrouble::Gone, 9), tries(none, ProcessTrouble::Changed, 9)),
            ((Err(false), 1), (Err(false), 1))
        );
    }

    #[test]
    fn a_process_is_read_and_adds_up() {
        let idle = allocanary_testing::programs::Running::idle();
        let reading = take(idle.pid(), ReadMode::Running, Duration::MAX).unwrap();
        let sum: u64 = reading.heaps.iter().map(|heap| heap.parts.sum()).sum::<u64>()
            + reading.areas.iter().map(|area| area.resident).sum::<u64>();
        assert_eq!((reading.process.pid, sum), (idle.pid(), reading.resident));
        assert!(reading.areas.iter().any(|area| area.name == "program and libraries" && area.resident > 1 << 19));
        assert!(matches!(take(0x3fff_ffff, ReadMode::Running, Duration::MAX), Err(ProcessTrouble::Gone(_))));
        assert!(matches!(take(idle.pid(), ReadMode::Running, Duration::ZERO), Err(ProcessTrouble::Late(_))));
    }
}
