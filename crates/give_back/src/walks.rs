//! The walks of a process's stacks, and the code by which a thread of it returns. Both are found in files that may be
//! hostile, so the command has a child without rights read them ([`ask_by`]). In: questions. Out: numbers.
//!
//! The answers may be false, and can harm only the process that they are about: the command never uses an address of
//! them but in that process.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use allocanary_stacks::outside::{End, Frame, MOST, Stack};
use allocanary_stacks::walk::Registers;
use serde::{Deserialize, Serialize};

use crate::Refusal;
use crate::functions::Functions;
use crate::walker::Walker;
use crate::way_back::{WayBack, is_wanted};

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Asked {
    /// Open the files with code of a process, and find the way back in them. After this no file is opened: threads are
    /// about to be stopped, and no file system may keep them waiting.
    Prepare {
        /// The process.
        pid: u32,
        /// Functions of its C library.
        functions: Functions,
    },
    /// Walk the stacks that begin with these registers.
    Walk {
        /// Whether the mappings are read before: a stack grows, and its mapping with it.
        again: bool,
        /// Address of the code, stack pointer and frame pointer of each.
        from: Vec<[u64; 3]>,
    },
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The way back.
    Prepared(WayBack),
    /// What is missing for it.
    Missing(String),
    /// The stacks.
    Walked(Vec<Walked>),
}

/// A stack: how the walk ended, and the frames: address of the code, stack pointer, frame pointer, and whether the
/// address is that of an interrupted instruction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Walked(Ended, Vec<(u64, u64, u64, bool)>);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Ended {
    Outermost,
    Broken,
    Cut,
}

impl Walked {
    fn of(stack: &Stack) -> Walked {
        let frame = |one: &Frame| (one.at.pc, one.at.sp, one.at.bp, one.is_exact);
        let ended = match stack.end {
            End::Outermost => Ended::Outermost,
            End::Broken => Ended::Broken,
            End::Cut => Ended::Cut,
        };
        Walked(ended, stack.frames.iter().map(frame).collect())
    }

    /// The stack. `None` if it does not begin where the walk was to begin.
    fn stack(self, from: Registers) -> Option<Stack> {
        let frame = |(pc, sp, bp, is_exact)| Frame { at: Registers { pc, sp, bp }, is_exact };
        let frames: Vec<Frame> = self.1.into_iter().map(frame).collect();
        let end = match self.0 {
            Ended::Outermost => End::Outermost,
            Ended::Broken => End::Broken,
            Ended::Cut => End::Cut,
        };
        let is_right = frames.first() == Some(&Frame { at: from, is_exact: true }) && frames.len() <= MOST;
        is_right.then_some(Stack { frames, end })
    }
}

/// What answers questions about one process, each within a time.
pub type Ask = Box<dyn FnMut(&Asked, Duration) -> Result<Answer, String>>;

static ASK: OnceLock<fn(u32) -> Ask> = OnceLock::new();

/// From now on the questions about a process are answered in this way, and not in this process.
pub fn ask_by(make: fn(u32) -> Ask) {
    let _ = ASK.set(make);
}

/// Answers a question. `walker` is what an answer leaves for the next one.
pub fn answer(walker: &mut Option<Walker>, asked: &Asked) -> Result<Answer, String> {
    match asked {
        Asked::Prepare { pid, functions } => {
            let prepared = walker.insert(Walker::open(*pid).map_err(|error| error.to_string())?);
            Ok(match WayBack::find(&prepared.seen, functions) {
                Ok(way) => Answer::Prepared(way),
                Err(missing) => Answer::Missing(missing.into()),
            })
        }
        Asked::Walk { again, from } => {
            let walker = walker.as_mut().ok_or("the process's files were not opened before")?;
            if *again {
                walker.read_mappings().map_err(|error| error.to_string())?;
            }
            let walk = |[pc, sp, bp]: &[u64; 3]| Walked::of(&walker.walk(Registers { pc: *pc, sp: *sp, bp: *bp }));
            Ok(Answer::Walked(from.iter().map(walk).collect()))
        }
    }
}

/// The time to open the files of a process.
const PREPARE: Duration = Duration::from_secs(30);
/// The time to walk stacks of threads that run.
const RUNNING: Duration = Duration::from_secs(10);
/// The time to walk the stack of a thread that is stopped.
const STOPPED: Duration = Duration::from_secs(1);
/// The most stacks of one question.
const AT_ONCE: usize = 64;

/// The stacks of a process.
pub struct Walks {
    pid: u32,
    ask: Ask,
    /// Those of threads that ran at the begin of this round.
    known: BTreeMap<[u64; 3], Stack>,
}

impl Walks {
    /// Opens the files of a process. The inner error is what is missing to let a thread return.
    pub fn prepare(pid: u32, functions: &Functions) -> Result<Result<(Walks, WayBack), String>, Refusal> {
        let ask = ASK.get().map_or_else(here, |make| make(pid));
        let mut walks = Walks { pid, ask, known: BTreeMap::new() };
        let all = functions.all.iter().filter(|one| is_wanted(&one.name)).cloned().collect();
        let asked = Asked::Prepare { pid, functions: Functions { all, looked: Vec::new() } };
        match walks.ask(&asked, PREPARE)? {
            Answer::Prepared(way) => Ok(Ok((walks, way))),
            Answer::Missing(missing) => Ok(Err(missing)),
            Answer::Walked(_) => Err(walks.refusal("it answered something else")),
        }
    }

    /// Walks the stacks of threads that run. Those of before are forgotten.
    pub fn round(&mut self, all: &[Registers]) -> Result<(), Refusal> {
        self.known.clear();
        for (number, part) in all.chunks(AT_ONCE).enumerate() {
            let stacks = self.walks(number == 0, part, RUNNING)?;
            self.known.extend(part.iter().map(key).zip(stacks));
        }
        Ok(())
    }

    /// The stack of a thread that ran at the begin of this round.
    pub fn known(&self, from: Registers) -> Option<&Stack> {
        self.known.get(&key(&from))
    }

    /// Walks the stack of a thread that is stopped.
    pub fn walk(&mut self, from: Registers) -> Result<Stack, Refusal> {
        let stack = self.walks(false, &[from], STOPPED)?.pop();
        stack.ok_or_else(|| self.refusal("it answered nothing"))
    }

    fn walks(&mut self, again: bool, from: &[Registers], time: Duration) -> Result<Vec<Stack>, Refusal> {
        let asked = Asked::Walk { again, from: from.iter().map(key).collect() };
        let Answer::Walked(walked) = self.ask(&asked, time)? else {
            return Err(self.refusal("it answered something else"));
        };
        let count = walked.len();
        let stacks: Option<Vec<Stack>> = walked.into_iter().zip(from).map(|(one, from)| one.stack(*from)).collect();
        let stacks = stacks.filter(|stacks| stacks.len() == from.len() && count == from.len());
        stacks.ok_or_else(|| self.refusal("it answered about other stacks"))
    }

    fn ask(&mut self, asked: &Asked, time: Duration) -> Result<Answer, Refusal> {
        (self.ask)(asked, time).map_err(|why| self.refusal(&why))
    }

    fn refusal(&self, why: &str) -> Refusal {
        Refusal::of(self.pid, "walking its stacks", io::Error::other(why.to_string()))
    }
}

fn key(from: &Registers) -> [u64; 3] {
    [from.pc, from.sp, from.bp]
}

/// Answers in this process.
fn here() -> Ask {
    let mut walker = None;
    Box::new(move |asked, _| answer(&mut walker, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Registers = Registers { pc: 0x1000, sp: 0x7000, bp: 0 };

    fn asked(answer: fn(&Asked) -> Answer) -> Walks {
        Walks { pid: 7, ask: Box::new(move |asked, _| Ok(answer(asked))), known: BTreeMap::new() }
    }

    #[test]
    fn a_false_answer_is_refused() {
        let mut none = asked(|_| Answer::Walked(Vec::new()));
        assert!(none.walk(FROM).unwrap_err().to_string().contains("other stacks"));
        let mut empty = asked(|_| Answer::Walked(vec![Walked(Ended::Outermost, Vec::new())]));
        assert!(empty.walk(FROM).unwrap_err().to_string().contains("other stacks"));
        let mut another = asked(|_| Answer::Walked(vec![Walked(Ended::Outermost, vec![(1, 2, 3, true)])]));
        assert!(another.walk(FROM).unwrap_err().to_string().contains("other stacks"));
        let frames = |count| vec![(FROM.pc, FROM.sp, FROM.bp, true); count];
        let mut two = asked(|_| Answer::Walked(vec![Walked(Ended::Cut, vec![(0x1000, 0x7000, 0, true)]); 2]));
        assert!(two.round(&[FROM]).unwrap_err().to_string().contains("other stacks"));
        assert!(Walked(Ended::Cut, frames(MOST + 1)).stack(FROM).is_none());
        assert!(Walked(Ended::Cut, frames(MOST)).stack(FROM).is_some());
    }

    #[test]
    fn no_stack_is_walked_before_the_files_are_open() {
        let walk = Asked::Walk { again: true, from: vec![key(&FROM)] };
        assert!(answer(&mut None, &walk).unwrap_err().contains("not opened before"));
    }

    #[test]
    fn a_stack_comes_back_as_it_was() {
        let caller = Frame { at: Registers { pc: 0x2000, sp: 0x7010, bp: 5 }, is_exact: false };
        let stack = Stack { frames: vec![Frame { at: FROM, is_exact: true }, caller], end: End::Broken };
        let text = serde_json::to_string(&Walked::of(&stack)).unwrap();
        let back: Walked = serde_json::from_str(&text).unwrap();
        assert_eq!(back.stack(FROM), Some(stack));
    }
}
