//! Walks the stack of a stopped thread of another process. In: the thread's registers, and a way to read the process. Out: the frames,
//! innermost first, and how the walk ended. The rules are those of [`frames`](crate::frames), read from the files that the process has
//! mapped.
//!
//! This is for a program that examines other processes. It allocates, so it must not run inside another program's
//! `malloc`.

mod file;

use std::collections::BTreeMap;

use crate::epilogue::{self, AFTER, BEFORE};
use crate::frames::SIGNAL;
use crate::rule::{Back, CallerRule, Cfa, Rbp};
use crate::walk::WalkRegisters;
use file::Tables;

/// The maximum number of bytes that all tables of a process may have.
const LARGEST: u64 = 96 << 20;

/// The maximum number of frames of a stack.
pub const MOST: usize = 4096;

/// A mapping with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// Its first address.
    pub from: u64,
    /// The address after its last one.
    pub to: u64,
    /// Its offset in the file.
    pub offset: u64,
}

/// A process that can be read.
pub trait OutsideProcess {
    /// Copies bytes. Returns whether all were copied.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;
    /// The executable mapping that has an address.
    fn code(&self, at: u64) -> Option<CodeMapping>;
    /// Copies bytes of the mapping's file, from the offset `at`. Returns whether all were copied, which is false for memory without a file.
    fn read_file(&self, code: &CodeMapping, at: u64, into: &mut [u8]) -> bool;
    /// The bits of a return address that are an address. On aarch64 a program can sign its return addresses, in the other bits.
    fn address_bits(&self) -> u64 {
        u64::MAX
    }
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideFrame {
    /// The registers with which the code continues in this frame.
    pub at: WalkRegisters,
    /// Whether the address is that of an interrupted instruction. Otherwise it is a return address.
    pub is_exact: bool,
    /// The return address, if it is known that it is in a register: in x30 of aarch64, in the innermost frame of a stopped thread.
    pub back: Option<u64>,
}

impl OutsideFrame {
    /// An address inside the frame's present instruction. A return address is after the call, so it may already be in
    /// the next function.
    pub fn inside(&self) -> u64 {
        self.at.pc.wrapping_sub(u64::from(!self.is_exact))
    }
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The last frame has no caller.
    Outermost,
    /// The caller of the last frame was not found, because no table covers its code.
    Broken,
    /// There are more frames than [`MOST`].
    Cut,
}

/// The result of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideStack {
    /// The frames, the innermost first.
    pub frames: Vec<OutsideFrame>,
    /// How the walk ended.
    pub end: End,
}

/// The tables that were read from a process's files, and the rules that were found in them. Use one value for all
/// stacks of a process, as long as its mappings do not change.
#[derive(Default)]
pub struct UnwindTables {
    tables: BTreeMap<u64, (CodeMapping, Option<Tables>)>,
    rules: BTreeMap<u64, CallerRule>,
    /// The number of bytes of all tables.
    bytes: u64,
}

impl std::fmt::Debug for UnwindTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UnwindTables({} mappings)", self.tables.len())
    }
}

impl UnwindTables {
    /// No tables yet.
    pub fn new() -> UnwindTables {
        UnwindTables::default()
    }

    /// Reads the tables of a mapping with code, if they were not read before. A walk does this itself when it needs them.
    pub fn read(&mut self, process: &dyn OutsideProcess, code: CodeMapping) {
        let bytes = &mut self.bytes;
        self.tables.entry(code.from).or_insert_with(|| {
            let read = |at: u64, into: &mut [u8]| process.read_file(&code, at, into);
            let tables = Tables::read(&read, &code, LARGEST.saturating_sub(*bytes));
            *bytes += tables.as_ref().map_or(0, Tables::bytes);
            (code, tables)
        });
    }

    /// Forgets the tables of mappings that have changed or are gone.
    pub fn keep(&mut self, is_there: impl Fn(&CodeMapping) -> bool) {
        let before = self.tables.len();
        self.tables.retain(|_, (code, _)| is_there(code));
        if self.tables.len() < before {
            self.rules.clear();
        }
    }

    /// Walks the stack of a thread that has these registers. `back` is the value of the register of return addresses, if the machine has
    /// one and its value is known.
    pub fn walk(&mut self, process: &dyn OutsideProcess, from: WalkRegisters, back: Option<u64>) -> OutsideStack {
        let mut frames = Vec::new();
        let mut next = OutsideFrame { at: from, is_exact: true, back };
        let end = loop {
            if frames.len() == MOST {
                break End::Cut;
            }
            frames.push(next);
            let rule = self.rule(process, &next);
            match step(process, &next, rule) {
                // The first function of a program has no caller. Some C libraries mark this by a return address of 0.
                Ok(caller) if caller.at.pc == 0 => break End::Outermost,
                Ok(caller) => next = caller,
                Err(end) => break end,
            }
        };
        OutsideStack { frames, end }
    }

    fn rule(&mut self, process: &dyn OutsideProcess, frame: &OutsideFrame) -> CallerRule {
        let pc = frame.inside();
        if let Some(rule) = self.rules.get(&pc) {
            return *rule;
        }
        let rule = process.code(pc).map_or(CallerRule::UNKNOWN, |code| {
            self.read(process, code);
            match self.tables.get(&code.from).and_then(|(_, tables)| tables.as_ref()) {
                Some(tables) => tables.rule(pc),
                // An interrupted instruction gets no such rule, because nobody knows how much of the frame is built there.
                None if !frame.is_exact => by_code(process, frame.at.pc),
                None => CallerRule::UNKNOWN,
            }
        });
        self.rules.insert(pc, rule);
        rule
    }
}

/// Derives the rule of a return address from the code around it. This is for code that a runtime has made. It understands code of x86-64 only.
fn by_code(process: &dyn OutsideProcess, pc: u64) -> CallerRule {
    if !cfg!(target_arch = "x86_64") {
        return CallerRule::UNKNOWN;
    }
    let (mut before, mut after) = ([0; BEFORE], [0; AFTER]);
    let is_read = process.read(pc.wrapping_sub(BEFORE as u64), &mut before) && process.read(pc, &mut after);
    if is_read { epilogue::rule(&before, &after).into() } else { CallerRule::UNKNOWN }
}

/// The caller's frame.
fn step(process: &dyn OutsideProcess, frame: &OutsideFrame, rule: CallerRule) -> Result<OutsideFrame, End> {
    let WalkRegisters { sp, bp, .. } = frame.at;
    let word = |address: u64| {
        let mut bytes = [0; 8];
        process.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes)).ok_or(End::Broken)
    };
    let cfa = match rule.cfa {
        Cfa::Rsp(distance) => sp.wrapping_add(distance as u64),
        Cfa::Rbp(distance) => bp.wrapping_add(distance as u64),
        Cfa::AtRbp(distance) => word(bp.wrapping_add(distance as u64))?,
        Cfa::Signal => {
            let [sp, bp, pc] = SIGNAL.map(|distance| sp.wrapping_add(distance as u64));
            return Ok(OutsideFrame {
                at: WalkRegisters { pc: word(pc)?, sp: word(sp)?, bp: word(bp)? },
                is_exact: true,
                back: None,
            });
        }
        Cfa::End => return Err(End::Outermost),
        Cfa::Unknown => return Err(End::Broken),
    };
    let (pc, lowest) = match rule.back {
        // The caller's frame must be above this one.
        Back::AtCfa(apart) => (word(cfa.wrapping_add(apart as u64))?, sp.saturating_add(1)),
        // A function that calls no other one can have no frame.
        Back::Register => (frame.back.ok_or(End::Broken)?, sp),
    };
    if cfa < lowest {
        return Err(End::Broken);
    }
    let bp = match rule.rbp {
        Rbp::Same => bp,
        Rbp::AtCfa(apart) => word(cfa.wrapping_add(apart as u64))?,
        Rbp::AtRbp(apart) => word(bp.wrapping_add(apart as u64))?,
    };
    let at = WalkRegisters { pc: pc & process.address_bits(), sp: cfa, bp };
    Ok(OutsideFrame { at, is_exact: false, back: None })
}

#[cfg(test)]
mod tests;
