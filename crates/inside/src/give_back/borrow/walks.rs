//! Questions about the stacks of a process, which a child without rights answers: which threads can be borrowed, and the code by which a
//! thread returns.
//!
//! The files and the memory of a process may be hostile, and a file system may not answer. So the command asks a child ([`ask_by`]). The
//! child has closed all files when the first thread is stopped. Its answers may be false, but can harm only the process that they are
//! about.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use allocanary_heap::Mapping;
use allocanary_stacks::walk::WalkRegisters;
use serde::{Deserialize, Serialize};

use crate::give_back::Refusal;
use crate::give_back::borrow::places::CodeOwner;
pub use crate::give_back::borrow::standing::Ground;
use crate::give_back::borrow::standing::Unfit;
use crate::give_back::borrow::waits::SyscallState;
use crate::give_back::borrow::walker::ProcessWalker;
use crate::give_back::borrow::way_back::WayBack;
use crate::give_back::functions::CodeFunctions;

/// The address of the code, the stack pointer, the frame pointer, and the register of return addresses, if the machine has one. For a running
/// thread the kernel gives only the first two, and the others are 0.
type At = [u64; 4];

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WalkQuestion {
    /// Read the unwind tables of a process, and find the way back. After this no file is open.
    Prepare {
        /// The process.
        pid: u32,
        /// Functions that were found in its files.
        functions: CodeFunctions,
    },
    /// Which code these running threads are inside of.
    Round(Vec<At>),
    /// Whether a stopped thread can be borrowed.
    Stopped {
        /// Its registers.
        at: At,
        /// Whether it waits in futex.
        for_lock: bool,
    },
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WalkAnswer {
    /// The code by which a thread returns.
    Prepared(WayBack),
    /// The code that is missing for a return.
    Missing(String),
    /// The code that each thread is inside of.
    Round(Vec<Option<CodeOwner>>),
    /// Why the thread cannot be borrowed.
    Stopped(Option<Unfit>),
}

/// Answers a question. `ground` keeps the data for the next question.
pub fn answer(ground: &mut Option<Ground>, asked: &WalkQuestion) -> Result<WalkAnswer, String> {
    let registers = |[pc, sp, bp, _]: At| WalkRegisters { pc, sp, bp };
    let text = |error: io::Error| error.to_string();
    if let WalkQuestion::Prepare { pid, functions } = asked {
        let mut walker = ProcessWalker::open(*pid).map_err(text)?;
        let way = WayBack::find(&walker.seen, functions);
        walker.close();
        *ground = Some(Ground::new(functions, walker));
        return Ok(way.map_or_else(|missing| WalkAnswer::Missing(missing.into()), WalkAnswer::Prepared));
    }
    let ground = ground.as_mut().ok_or("the process's files were not read before")?;
    match asked {
        WalkQuestion::Prepare { .. } => unreachable!("it was answered above"),
        WalkQuestion::Round(all) => {
            ground.read_mappings().map_err(text)?;
            Ok(WalkAnswer::Round(all.iter().map(|at| ground.inside(registers(*at))).collect()))
        }
        WalkQuestion::Stopped { at, for_lock } => {
            let back = Some(at[3]).filter(|back| *back != 0);
            Ok(WalkAnswer::Stopped(ground.unfit(registers(*at), back, *for_lock)))
        }
    }
}

/// A function that answers questions about one process, each within a time limit.
pub type Ask = Box<dyn FnMut(&WalkQuestion, Duration) -> Result<WalkAnswer, String>>;

static ASK: OnceLock<fn(u32) -> Ask> = OnceLock::new();

/// From now on, the functions that `make` returns answer the questions, and not this process.
pub fn ask_by(make: fn(u32) -> Ask) {
    let _ = ASK.set(make);
}

/// Answers in this process.
fn here() -> Ask {
    let mut ground = None;
    Box::new(move |asked, _| answer(&mut ground, asked))
}

/// The time to read the files of a process.
const PREPARE: Duration = Duration::from_secs(30);
/// The time for all running threads.
const ROUND: Duration = Duration::from_secs(10);
/// The time for a stopped thread.
const STOPPED: Duration = Duration::from_secs(1);
/// The most threads of one question.
const AT_ONCE: usize = 1024;

/// The stacks of a process.
pub struct ProcessWalks {
    pid: u32,
    ask: Ask,
    /// The code that threads were inside of at the begin of this round.
    inside: BTreeMap<At, Option<CodeOwner>>,
}

impl ProcessWalks {
    /// Has the files of a process read. The inner error names the code that is missing for a return.
    pub fn prepare(
        pid: u32,
        functions: &CodeFunctions,
        mappings: &[Mapping],
    ) -> Result<Result<(ProcessWalks, WayBack), String>, Refusal> {
        let ask = ASK.get().map_or_else(here, |make| make(pid));
        let mut walks = ProcessWalks { pid, ask, inside: BTreeMap::new() };
        match walks.ask(&WalkQuestion::Prepare { pid, functions: functions.clone() }, PREPARE)? {
            WalkAnswer::Prepared(way) if way.is_in(mappings) => Ok(Ok((walks, way))),
            WalkAnswer::Prepared(_) => Err(walks.refusal("the code by which a thread returns is not in it")),
            WalkAnswer::Missing(missing) => Ok(Err(missing)),
            _ => Err(walks.refusal(ELSE)),
        }
    }

    /// Asks about running threads. Earlier answers are forgotten.
    pub fn round<'a>(&mut self, threads: impl Iterator<Item = &'a SyscallState>) -> Result<(), Refusal> {
        self.inside.clear();
        let until = Instant::now() + ROUND;
        let all: Vec<At> = threads.map(at).collect();
        for part in all.chunks(AT_ONCE) {
            let asked = WalkQuestion::Round(part.to_vec());
            let WalkAnswer::Round(inside) = self.ask(&asked, until.saturating_duration_since(Instant::now()))? else {
                return Err(self.refusal(ELSE));
            };
            if inside.len() != part.len() {
                return Err(self.refusal("it answered about other threads"));
            }
            self.inside.extend(part.iter().copied().zip(inside));
        }
        Ok(())
    }

    /// The code that a thread was inside of at the begin of this round.
    pub fn inside(&self, thread: &SyscallState) -> Option<CodeOwner> {
        self.inside.get(&at(thread)).copied().flatten()
    }

    /// Why a stopped thread cannot be borrowed. `back` is the value of its register of return addresses, or 0. `for_lock` says that it waits in
    /// futex.
    pub fn unfit(&mut self, registers: WalkRegisters, back: u64, for_lock: bool) -> Result<Option<Unfit>, Refusal> {
        let at = [registers.pc, registers.sp, registers.bp, back];
        match self.ask(&WalkQuestion::Stopped { at, for_lock }, STOPPED)? {
            WalkAnswer::Stopped(unfit) => Ok(unfit),
            _ => Err(self.refusal(ELSE)),
        }
    }

    fn ask(&mut self, asked: &WalkQuestion, time: Duration) -> Result<WalkAnswer, Refusal> {
        (self.ask)(asked, time).map_err(|why| self.refusal(&why))
    }

    fn refusal(&self, why: &str) -> Refusal {
        Refusal::of(self.pid, "reading its stacks", io::Error::other(why.to_string()))
    }
}

const ELSE: &str = "it answered something else";

fn at(told: &SyscallState) -> At {
    [told.pc, told.sp, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walks(answer: fn(&WalkQuestion) -> WalkAnswer) -> ProcessWalks {
        ProcessWalks { pid: 7, ask: Box::new(move |asked, _| Ok(answer(asked))), inside: BTreeMap::new() }
    }

    #[test]
    fn an_answer_to_another_question_is_refused() {
        let told = SyscallState { number: 0, arguments: [0; 6], sp: 0x7000, pc: 0x1000 };
        let mut few = walks(|_| WalkAnswer::Round(Vec::new()));
        assert!(few.round([told].iter()).unwrap_err().to_string().contains("other threads"));
        assert!(few.unfit(WalkRegisters::default(), 0, false).unwrap_err().to_string().contains(ELSE));
        let mut right = walks(|_| WalkAnswer::Round(vec![Some(CodeOwner::Fork)]));
        right.round([told].iter()).unwrap();
        assert_eq!(right.inside(&told), Some(CodeOwner::Fork));
        assert_eq!(right.inside(&SyscallState { pc: 0x1001, ..told }), None);
    }

    #[test]
    fn nothing_is_answered_before_the_files_are_read() {
        let stopped = WalkQuestion::Stopped { at: [1, 2, 3, 4], for_lock: false };
        assert!(answer(&mut None, &stopped).unwrap_err().contains("not read before"));
    }
}
