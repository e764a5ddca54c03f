//! One borrowed thread, some calls. In: a process, an allocator, calls. Out: which thread made them, and how long they took.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use allocanary_heap::ptrace::Blocked;
use allocanary_heap::{Live, Memory};

use crate::remedy::Call;
use crate::threads::Threads;
use crate::{Borrowed, Done, Made, Refusal, Remedy, safety, symbols};

/// For so long a thread is looked for that can be borrowed.
const SEARCH: Duration = Duration::from_secs(2);

/// Has a thread of the process make the calls of a remedy. Each lock is waited for at most so long, where a call can be taken back.
pub fn carry_out(pid: u32, remedy: &Remedy, calls: &[Call], patience: Duration) -> Result<Done, Refusal> {
    // The thread that waits for the other one blocks signals too: none ends this command while a thread of the process is changed.
    let _blocked = Blocked::new();
    // The kernel lets every thread of the process go when the thread that traces it ends, whatever has failed.
    let made = std::thread::scope(|scope| scope.spawn(|| make(pid, remedy, calls, patience)).join());
    made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn make(pid: u32, remedy: &Remedy, calls: &[Call], patience: Duration) -> Result<Done, Refusal> {
    safety::check(pid)?;
    let live = Live::open(pid)?;
    let names: Vec<String> = remedy.names().collect();
    let (functions, looked) = symbols::find(pid, live.mappings(), &names);
    let files: BTreeSet<&str> = functions.iter().map(|function| function.file.as_str()).collect();
    if files.len() > 1 {
        let files = files.into_iter().collect::<Vec<_>>().join(" and ");
        return Err(Refusal::SeveralFunctions { pid, function: remedy.function, files });
    }
    let Some(function) = functions.into_iter().next() else {
        let allocator = remedy.allocator.to_string();
        return Err(Refusal::NoFunction { pid, allocator, function: remedy.function, looked: looked.join(", ") });
    };
    // Where the C library keeps a thread's `errno`. A program without that function has none that could change.
    let errno = symbols::find(pid, live.mappings(), &["__errno_location".into()]).0.into_iter().next();
    let mut borrowed = borrow(pid, calls.iter().any(|call| call.starts_thread))?;
    let place = match errno {
        Some(errno) => Some(borrowed.call(errno.at, &[], patience, false)?),
        None => None,
    };
    let before = place.and_then(|at| Some((at, borrowed.read(at, 4).ok()?)));
    let begun = Instant::now();
    let mut made = Vec::new();
    let result = calls.iter().try_for_each(|call| {
        let answer = borrowed.call(function.at, &call.arguments, patience, remedy.one_lock_at_a_time)? as i32;
        let error = if remedy.zero_is_good { answer } else { 0 };
        let out = borrowed.left(&call.arguments, 1)?;
        made.push(Made { name: call.name.clone(), error, may_fail: call.may_fail, out });
        Ok(())
    });
    let took = begun.elapsed();
    if let Some((at, bytes)) = before {
        let _ = borrowed.write(at, &bytes);
    }
    let (tid, wait) = (borrowed.tid(), borrowed.wait());
    drop(borrowed);
    result.map(|()| Done { tid, wait, function, calls: made, took })
}

/// Borrows the most harmless thread that waits.
fn borrow(pid: u32, starts_thread: bool) -> Result<Borrowed, Refusal> {
    let until = Instant::now() + SEARCH;
    loop {
        // A stack grows, and so does its mapping.
        let live = Live::open(pid)?;
        let threads = Threads::of(&live, pid);
        for waiting in &threads.waiting {
            if let Some(borrowed) = Borrowed::take(&live, pid, waiting, starts_thread)? {
                return Ok(borrowed);
            }
        }
        if Instant::now() >= until {
            return Err(Refusal::NoThread { pid, found: threads.words() });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
