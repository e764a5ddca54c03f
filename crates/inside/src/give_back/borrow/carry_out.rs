//! Borrows one thread of a process, and has it make calls: the calls of a remedy, or functions by name that the caller's code chooses one
//! after the other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use allocanary_heap::ptrace::SignalMask;
use allocanary_heap::{LiveProcess, Memory};

use crate::give_back::borrow::borrowed::{BorrowPlan, BorrowResult, Borrowed};
use crate::give_back::borrow::places::CodeOwner;
use crate::give_back::borrow::reader::ThreadReader;
use crate::give_back::borrow::threads::{Threads, WaitingThread};
use crate::give_back::borrow::walks::ProcessWalks;
use crate::give_back::borrow::{locks, safety, sockets, waits};
use crate::give_back::remedy::{Argument, Does, FunctionCall};
use crate::give_back::symbols::{CodeFunction, CodeFunctions, FunctionSearch};
use crate::give_back::{CallDone, GiveBackResult, Limits, Refusal, ReleaseCall};

/// The longest time to search for a thread that can be borrowed.
const SEARCH: Duration = Duration::from_secs(2);

/// What the calls do, and under which conditions a thread is borrowed.
#[derive(Clone, Copy, Debug)]
struct Terms {
    does: Does,
    starts_thread: bool,
    one_lock_at_a_time: bool,
    every: Option<Duration>,
}

/// A borrowed thread for code that chooses each call by the result of the call before.
pub struct BorrowedCaller<'a> {
    borrowed: Borrowed<'a>,
    functions: &'a CodeFunctions,
    pid: u32,
    patience: Duration,
}

impl BorrowedCaller<'_> {
    /// The thread.
    pub fn tid(&self) -> u32 {
        self.borrowed.tid()
    }

    /// Calls a function by its name. If the call waits for the first lock that it needs for longer than the patience, it is abandoned.
    pub fn call(&mut self, name: &'static str, arguments: &[Argument]) -> Result<u64, Refusal> {
        let function = self.functions.all.iter().find(|one| one.name == name).ok_or_else(|| missing(self.pid, name))?;
        self.borrowed.call(function.at, arguments, self.patience, true)
    }

    /// Reads memory of the process.
    pub fn read(&self, at: u64, count: usize) -> Result<Vec<u8>, Refusal> {
        self.borrowed.reader().bytes(at, count)
    }

    /// Writes to memory of the process that nothing else uses.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.borrowed.reader().write(at, bytes)
    }
}

fn missing(pid: u32, name: &str) -> Refusal {
    let state = format!("its C library has no function `{name}`: wanted glibc 2.34 or later, linked dynamically");
    Refusal::State { pid, state, instead: "Record it from its start: `allocanary record -- PROGRAM`" }
}

/// Borrows a thread of a process for functions of its C library that open a library, and lets `work` call them.
pub fn call_inside<T: Send>(
    pid: u32,
    names: &[&'static str],
    patience: Duration,
    work: impl FnOnce(&mut BorrowedCaller) -> Result<T, Refusal> + Send,
) -> Result<T, Refusal> {
    let _blocked = SignalMask::new();
    let inside = || {
        let notice = safety::check(pid)?;
        let reader = ThreadReader::open(pid)?;
        let own = names.iter().map(|name| (*name).to_string()).collect();
        let wanted = FunctionSearch { names: own, to_borrow: true, ..FunctionSearch::default() };
        let mut functions = searched(pid, &reader, &wanted)?;
        if let Some(name) = names.iter().find(|name| functions.all.iter().all(|one| one.name != **name)) {
            return Err(missing(pid, name));
        }
        // A preload may have functions of these names as well. The C library's functions must be called.
        let own = functions.all.iter().find(|one| one.name == "__errno_location").map(|one| one.file.clone());
        functions.all.sort_by_key(|one| own.as_ref() != Some(&one.file));
        let terms = Terms { does: Does::Opens, starts_thread: false, one_lock_at_a_time: false, every: None };
        with_thread(pid, notice, &reader, &functions, terms, |borrowed| {
            work(&mut BorrowedCaller { borrowed, functions: &functions, pid, patience })
        })
    };
    let made = std::thread::scope(|scope| scope.spawn(inside).join());
    made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Has a thread of the process make the calls of a remedy. With no calls, it does everything else: the thread is stopped, examined and released.
pub fn carry_out(
    pid: u32,
    remedy: &ReleaseCall,
    calls: &[FunctionCall],
    limits: Limits,
) -> Result<GiveBackResult, Refusal> {
    // This thread, which waits for the other one, blocks signals too. So no signal ends this command while a thread of the process
    // is changed.
    let _blocked = SignalMask::new();
    // When the tracing thread ends, the kernel releases every thread of the process, whatever has failed.
    let made = std::thread::scope(|scope| scope.spawn(|| make(pid, remedy, calls, limits)).join());
    made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether a process has the function of a remedy.
pub fn has_function(pid: u32, remedy: &ReleaseCall) -> bool {
    CodeFunctions::find(pid, &FunctionSearch::of(remedy, false)).is_ok_and(|functions| !functions.of(remedy).is_empty())
}

/// Those of the wanted functions that the process has.
fn searched(pid: u32, reader: &ThreadReader, wanted: &FunctionSearch) -> Result<CodeFunctions, Refusal> {
    Ok(CodeFunctions::find(pid, wanted)?.within(reader.mappings()))
}

fn make(pid: u32, remedy: &ReleaseCall, calls: &[FunctionCall], limits: Limits) -> Result<GiveBackResult, Refusal> {
    let notice = safety::check(pid)?;
    let reader = ThreadReader::open(pid)?;
    let functions = searched(pid, &reader, &FunctionSearch::of(remedy, true))?;
    let function = the_function(pid, remedy, &functions)?;
    let starts_thread = calls.iter().any(|call| call.starts_thread);
    let (does, one_lock_at_a_time) = (remedy.does, remedy.one_lock_at_a_time);
    let terms = Terms { does, starts_thread, one_lock_at_a_time, every: limits.every };
    with_thread(pid, notice, &reader, &functions, terms, |borrowed| {
        made(borrowed, function.clone(), remedy, calls, limits)
    })
}

/// Finds a thread that can be borrowed, and passes it to `work`.
fn with_thread<T>(
    pid: u32,
    notice: Option<i32>,
    reader: &ThreadReader,
    functions: &CodeFunctions,
    terms: Terms,
    work: impl FnOnce(Borrowed) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let prepared = ProcessWalks::prepare(pid, functions, reader.mappings())?;
    let (walks, way) = prepared.map_err(|missing| missing_way(pid, &missing))?;
    let walks = RefCell::new(walks);
    let until = Instant::now() + SEARCH;
    let mut unfit = Unfit::new();
    loop {
        // The mappings are read each time, because a stack grows, and its mapping with it.
        let reader = ThreadReader::open(pid)?;
        let prepared = BorrowPlan {
            reader: &reader,
            walks: &walks,
            way: &way,
            notice,
            does: terms.does,
            starts_thread: terms.starts_thread,
        };
        match borrow(&prepared, pid, terms, &mut unfit)? {
            Ok(borrowed) => return work(*borrowed),
            Err(threads) if Instant::now() >= until => {
                return Err(Refusal::NoThread { pid, found: threads.words(), help: threads.help() });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The refusal if a piece of code is missing by which the thread would return.
pub(super) fn missing_way(pid: u32, missing: &str) -> Refusal {
    let state = format!("{missing} was not found in its C library, by which the thread goes back");
    Refusal::State { pid, state, instead: "Have the program make the call itself" }
}

/// The function of a remedy in a process.
pub(super) fn the_function<'a>(
    pid: u32,
    remedy: &ReleaseCall,
    functions: &'a CodeFunctions,
) -> Result<&'a CodeFunction, Refusal> {
    let found = functions.of(remedy);
    let files: BTreeSet<&str> = found.iter().map(|function| function.file.as_str()).collect();
    // Two builds with different prefixes are two allocators, in one file too.
    let is_other = |one: &&&CodeFunction| remedy.other_prefix(&one.name).is_some();
    if files.len() > 1 || found.len() > 1 && found.iter().any(|one| is_other(&one)) {
        let files = files.into_iter().collect::<Vec<_>>().join(" and ");
        return Err(Refusal::SeveralFunctions { pid, function: remedy.function, files });
    }
    found.into_iter().next().ok_or_else(|| {
        let allocator = remedy.allocator.to_string();
        let looked = match functions.looked.as_slice() {
            [one] => one.clone(),
            all => format!("its {} files", all.len()),
        };
        Refusal::NoFunction { pid, allocator, function: remedy.function, looked }
    })
}

/// Threads that cannot be borrowed where they are, with the reason. The key is the thread ID, the stack pointer and the code address. While
/// these are the same, the thread is not stopped again.
type Unfit = BTreeMap<(u32, u64, u64), String>;

/// Borrows the waiting thread that is most harmless to borrow. The inner error says what the threads do, if none can be
/// borrowed.
fn borrow<'a>(
    prepared: &'a BorrowPlan<'a>,
    pid: u32,
    terms: Terms,
    unfit: &mut Unfit,
) -> Result<Result<Box<Borrowed<'a>>, Threads>, Refusal> {
    let mut threads = Threads::of(prepared.reader, pid);
    prepared.walks.borrow_mut().round(threads.asleep.iter().map(|(_, told)| told))?;
    match (nobody_forks(prepared, pid, &threads), terms.does) {
        (Err(Refusal::State { state, .. }), Does::Opens) => {
            threads.waiting.clear();
            *threads.others.entry(state).or_default() += 1;
            return Ok(Err(threads));
        }
        (Err(refusal), _) if !terms.one_lock_at_a_time => return Err(refusal),
        _ => {}
    }
    if terms.does == Does::Opens
        && let Some(tid) = locks::holder_of_loader(prepared.reader, pid)
    {
        let why = format!("holding the dynamic loader's lock (thread {tid})");
        threads.waiting.clear();
        *threads.others.entry(why).or_default() += 1;
        return Ok(Err(threads));
    }
    let holders = if terms.one_lock_at_a_time { BTreeMap::new() } else { holders(pid, &threads.waiting)? };
    for waiting in std::mem::take(&mut threads.waiting) {
        let told = &waiting.told;
        let on_socket = || sockets::time_out(pid, told.arguments[0]).filter(|_| waiting.wait.may_be_on_socket());
        let time_out = terms.every.and_then(|_| {
            waits::time_out(told.number, &told.arguments, |at| prepared.reader.word(at)).or_else(on_socket)
        });
        let key = (waiting.tid, told.sp, told.pc);
        let known = || unfit.get(&key).cloned().or_else(|| inside(prepared, &waiting));
        let why = match (known(), holders.get(&waiting.tid), time_out.zip(terms.every)) {
            (Some(why), ..) => why,
            (None, Some(count), _) => format!("waiting in {} with {count} mutexes locked", waiting.name()),
            (None, None, Some((time_out, every))) if time_out > every => {
                format!("waiting in {} for {time_out:?}, which would begin anew each {every:?}", waiting.name())
            }
            _ => match Borrowed::take(prepared, pid, &waiting)? {
                BorrowResult::Borrowed(borrowed) => return Ok(Ok(borrowed)),
                BorrowResult::GoneOn => "gone on meanwhile".into(),
                BorrowResult::Unfit(why) => unfit.entry(key).or_insert(why).clone(),
            },
        };
        *threads.others.entry(why).or_default() += 1;
    }
    Ok(Err(threads))
}

/// Why a thread cannot be borrowed, as far as this is known without stopping it.
fn inside(prepared: &BorrowPlan, waiting: &WaitingThread) -> Option<String> {
    let place = prepared.walks.borrow().inside(&waiting.told)?;
    Some(format!("waiting in {} inside of {}", waiting.name(), place.words()))
}

/// Refuses if a thread waits inside of `fork`: the handlers of an allocator may have locked all of the allocator until the
/// fork continues.
fn nobody_forks(prepared: &BorrowPlan, pid: u32, threads: &Threads) -> Result<(), Refusal> {
    let forks = |told: &waits::SyscallState| prepared.walks.borrow().inside(told) == Some(CodeOwner::Fork);
    match threads.asleep.iter().find(|(_, told)| forks(told)) {
        None => Ok(()),
        Some((tid, _)) => {
            let state =
                format!("its thread {tid} waits inside of fork, and the allocator is locked until that goes on");
            Err(Refusal::State { pid, state, instead: "Try again when it has" })
        }
    }
}

/// Which of these threads hold a mutex, and how many.
fn holders(pid: u32, waiting: &[WaitingThread]) -> Result<BTreeMap<u32, usize>, Refusal> {
    if waiting.is_empty() {
        return Ok(BTreeMap::new());
    }
    let tids: Vec<u32> = waiting.iter().map(|one| one.tid).collect();
    Ok(locks::held(&LiveProcess::open(pid)?, &tids))
}

fn made(
    mut borrowed: Borrowed,
    function: CodeFunction,
    remedy: &ReleaseCall,
    calls: &[FunctionCall],
    limits: Limits,
) -> Result<GiveBackResult, Refusal> {
    let begun = Instant::now();
    let mut made = Vec::new();
    let result = calls.iter().try_for_each(|call| {
        let answer = borrowed.call(function.at, &call.arguments, limits.patience, remedy.one_lock_at_a_time)? as i32;
        let error = if remedy.zero_is_good { answer } else { 0 };
        let out = borrowed.left(&call.arguments, 1)?;
        made.push(CallDone { name: call.name.clone(), error, may_fail: call.may_fail, out });
        Ok(())
    });
    let took = begun.elapsed();
    let (tid, wait) = (borrowed.tid(), borrowed.wait());
    drop(borrowed);
    result.map(|()| GiveBackResult { tid, wait, function, calls: made, took })
}
