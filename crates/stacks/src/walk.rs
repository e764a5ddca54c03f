//! Walks the stack of the calling thread. In: the registers where the walk begins. Out: a number for the stack, from the host's table of
//! nodes.
//!
//! A thread keeps its last stack. A new walk stops at the first frame that is equal to a frame of the last stack in code, stack pointer and
//! frame pointer. Then it checks each frame further out: it computes the frame again from the words of the stack. These reads do not wait
//! for each other, and take about a nanosecond each.

use crate::copy::ADDRESSES;
use crate::frames::SIGNAL;
use crate::made::Made;
use crate::object::{self, MappedObject};
use crate::rule::{Cfa, Rbp, Rule};
use crate::rules::RuleCache;
pub use crate::stack::Bounds;
use crate::stack::StackBounds;

/// The maximum number of frames of a stack. If a stack is deeper, its innermost frames are kept.
pub const MOST: usize = 256;

/// Looks up the function that finds tables, and returns whether stacks can be walked here. Call it once, when an
/// allocation is allowed.
pub fn look_up() -> bool {
    object::look_up()
}

/// The registers at one place of the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkRegisters {
    /// The address of the code.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub bp: u64,
}

/// The registers of the function into which this one is inlined.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn here() -> WalkRegisters {
    let (pc, sp, bp);
    // SAFETY: only reads registers.
    unsafe {
        core::arch::asm!(
            "lea {pc}, [rip]", "mov {sp}, rsp", "mov {bp}, rbp",
            pc = out(reg) pc, sp = out(reg) sp, bp = out(reg) bp, options(nomem, nostack, preserves_flags),
        );
    }
    WalkRegisters { pc, sp, bp }
}

/// The registers of the function that this is compiled into.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn here() -> WalkRegisters {
    let (pc, sp, bp);
    // SAFETY: only reads registers.
    unsafe {
        core::arch::asm!(
            "adr {pc}, .", "mov {sp}, sp", "mov {bp}, x29",
            pc = out(reg) pc, sp = out(reg) sp, bp = out(reg) bp, options(nomem, nostack, preserves_flags),
        );
    }
    WalkRegisters { pc, sp, bp }
}

/// Returns zeros: stacks are not walked on this platform.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn here() -> WalkRegisters {
    WalkRegisters::default()
}

/// What a user of walks, such as the recorder, provides.
pub trait WalkHost {
    /// The type of the cache.
    type Rules: RuleCache;
    /// The cache of rules, for all threads.
    fn rules(&self) -> &Self::Rules;
    /// Whether frames of this code are left out at the innermost end of a stack, because the code is the host's own.
    fn is_own(&self, pc: u64) -> bool;
    /// The number of the node with this parent and return address; 0 if there is no room for a new node. A `parent` of 0 is the root.
    fn node(&self, parent: u32, pc: u64) -> u32;
    /// Reports to the host that a frame is in this file. If the host cannot store this now, it returns false, and the walk reports the file
    /// again later.
    fn object(&self, object: &MappedObject) -> bool;
}

/// A frame of the last stack.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Frame {
    at: WalkRegisters,
    rule: Rule,
    node: u32,
    /// Whether the address is that of an interrupted instruction, and not a return address.
    is_exact: bool,
}

/// The state of a thread. All zeros is a valid state.
#[repr(C)]
pub struct StackWalker {
    stack: StackBounds,
    /// The number of frames of the last stack. The outermost frame is stored first.
    count: usize,
    /// How often rules had been forgotten when the last walk began.
    forgotten: u64,
    /// Whether the last stack ended in code without tables.
    is_broken: bool,
    last: [Frame; MOST],
    /// The frames that the present walk has found, innermost first.
    new: [Frame; MOST],
    pub(crate) made: Made,
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackWalk {
    /// The node of the stack; 0 if nothing could be walked, or if there was no room.
    pub node: u32,
    /// Whether the stack had more than [`MOST`] frames.
    pub is_cut: bool,
    /// Whether the stack ended in code whose tables are missing or not supported here.
    pub is_broken: bool,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Outermost,
    Broken,
    Cut,
    /// At a frame of the last stack. This many frames of the last stack are still valid.
    Known(usize),
}

impl StackWalker {
    /// Prepares for a walk of another thread, which may have kept its [`bounds`](Self::bounds) from its last walk.
    pub fn change_thread(&mut self, bounds: Bounds) {
        (self.count, self.is_broken) = (0, false);
        self.stack.set_bounds(bounds);
    }

    /// The walker's knowledge of the last thread's stack.
    pub fn bounds(&self) -> Bounds {
        self.stack.bounds()
    }

    /// Walks the stack from these registers. They belong to the caller, which must not return before this does.
    ///
    /// # Safety
    ///
    /// - The registers are those of a function of the calling thread that has not returned: [`here`]. Other registers
    ///   are allowed only if their stack pointer is in no thread's stack: the kernel copies such memory, and refuses
    ///   unmapped memory.
    /// - Only one thread has walked with this walker, or [`change_thread`](Self::change_thread) was called for this
    ///   thread with the bounds that this thread itself knew. The walker knows the bounds of the thread's stack, which
    ///   ends with the thread.
    /// - The host's rules belong to this process, and are forgotten when a library is closed.
    ///
    /// ```compile_fail,E0133
    /// use allocanary_stacks::walk::{StackWalk, StackWalker, WalkHost, here};
    ///
    /// fn walk(walker: &mut StackWalker, host: &impl WalkHost) -> StackWalk {
    ///     walker.walk(here(), host)
    /// }
    /// ```
    pub unsafe fn walk(&mut self, from: WalkRegisters, host: &impl WalkHost) -> StackWalk {
        let forgotten = host.rules().forgotten();
        if self.forgotten != forgotten {
            (self.forgotten, self.count) = (forgotten, 0);
            self.made.forget();
        }
        // SAFETY: the caller's promise.
        unsafe { self.stack.begin(from.sp) };
        let Some(next) = self.first(from, host) else { return StackWalk { is_broken: true, ..StackWalk::default() } };
        let (known, mut count, mut end) = self.frames(next, self.count.min(MOST), 0, host);
        if end == End::Broken {
            (count, end) = self.go_on(known, count, host);
        }
        self.keep(count, end, host)
    }

    /// Finds the frames from `next` on, until a frame is known or the stack ends. Returns how many frames of the last stack may still be
    /// valid, how many frames are new, and how the walk ended.
    #[inline(always)]
    fn frames(
        &mut self,
        mut next: Frame,
        mut known: usize,
        mut count: usize,
        host: &impl WalkHost,
    ) -> (usize, usize, End) {
        let mut end = End::Outermost;
        while next.at.pc != 0 {
            while known > 0 && self.last[known - 1].at.sp < next.at.sp {
                known -= 1;
            }
            if known > 0 && is_same(&self.last[known - 1], &next) {
                if self.is_still(known) && known + count <= MOST {
                    end = End::Known(known);
                    break;
                }
                known = 0;
            }
            let Some(place) = self.new.get_mut(count) else {
                end = End::Cut;
                break;
            };
            next.rule = rule_of(&next, host);
            *place = next;
            count += 1;
            match step(&mut self.stack, &next) {
                Ok(caller) => next = caller,
                Err(why) => {
                    end = why;
                    break;
                }
            }
        }
        (known, count, end)
    }

    /// Continues after a frame without a table, by the frame's code. It is a separate function, so that the usual walk does not pay for it.
    #[cold]
    #[inline(never)]
    fn go_on(&mut self, mut known: usize, mut count: usize, host: &impl WalkHost) -> (usize, End) {
        let mut end = End::Broken;
        while end == End::Broken {
            let Some(next) = self.caller_by_code(count, host) else { break };
            (known, count, end) = self.frames(next, known, count, host);
        }
        (count, end)
    }

    /// The caller of the last of `count` new frames. The rule is cached, so the code is read only once.
    fn caller_by_code(&mut self, count: usize, host: &impl WalkHost) -> Option<Frame> {
        // Only code of x86-64 is understood.
        if HAS_FRAMES {
            return None;
        }
        let frame = self.new.get_mut(count.checked_sub(1)?).filter(|frame| frame.rule == Rule::UNKNOWN)?;
        let pc = frame.at.pc.wrapping_sub(1);
        // If a signal has interrupted such code, nobody knows how much of its frame is built. SAFETY: the object is only checked for
        // existence.
        if frame.is_exact || host.rules().get(pc).is_some() || unsafe { MappedObject::of(pc) }.is_some() {
            return None;
        }
        frame.rule = self.made.rule(frame.at.pc, &mut self.stack)?;
        host.rules().put(pc, frame.rule);
        step(&mut self.stack, frame).ok()
    }

    /// The first frame that does not belong to the host.
    #[inline]
    fn first(&mut self, from: WalkRegisters, host: &impl WalkHost) -> Option<Frame> {
        let mut frame = Frame { at: from, is_exact: true, ..Frame::default() };
        for _ in 0..MOST {
            frame.rule = rule_of(&frame, host);
            frame = step(&mut self.stack, &frame).ok()?;
            if !host.is_own(frame.at.pc) {
                return Some(frame);
            }
        }
        None
    }

    /// Whether the first `known` frames of the last stack, from the innermost of them outwards, are unchanged.
    fn is_still(&mut self, known: usize) -> bool {
        for at in (1..known).rev() {
            let (frame, above) = (self.last[at], self.last[at - 1]);
            if !step(&mut self.stack, &frame).is_ok_and(|caller| is_same(&above, &caller)) {
                return false;
            }
        }
        let outermost = self.last[0];
        step(&mut self.stack, &outermost).map_or(true, |caller| caller.at.pc == 0)
    }

    /// Stores the stack: its known frames, and the new frames further in.
    fn keep(&mut self, count: usize, end: End, host: &impl WalkHost) -> StackWalk {
        let known = if let End::Known(known) = end { known } else { 0 };
        let mut node = match known.checked_sub(1) {
            Some(innermost) => self.last[innermost].node,
            None => 0,
        };
        self.is_broken = if let End::Known(_) = end { self.is_broken } else { end == End::Broken };
        let (is_cut, is_broken) = (end == End::Cut, self.is_broken);
        for (at, frame) in self.new[..count.min(MOST)].iter().rev().enumerate() {
            node = host.node(node, frame.at.pc);
            if node == 0 {
                self.count = 0;
                return StackWalk { node, is_cut, is_broken };
            }
            // Each frame has a place, because known frames are kept only if both parts fit.
            if let Some(place) = self.last.get_mut(known + at) {
                *place = Frame { node, ..*frame };
            }
        }
        // A stack that was cut must not become the outer part of another stack.
        self.count = if is_cut { 0 } else { known + count };
        StackWalk { node, is_cut, is_broken }
    }
}

/// Whether each function that calls another one has its frame, and no table is read.
const HAS_FRAMES: bool = cfg!(target_arch = "aarch64");

/// The bits of a return address that are not a signature of it. On aarch64 a program can sign the addresses that it puts on its stack.
const UNSIGNED: u64 = if HAS_FRAMES { ADDRESSES - 1 } else { u64::MAX };

/// On aarch64: how far below the frame that it makes for an interrupted function the kernel saves its registers, the first one first. The
/// 33rd is the address of the code.
const OF_SIGNAL: u64 = 4688 - 312;

#[inline]
fn is_same(one: &Frame, other: &Frame) -> bool {
    one.at == other.at && one.is_exact == other.is_exact
}

/// The rule of a frame. A return address is after the call, so the rule is looked up for the call itself.
#[inline]
fn rule_of(frame: &Frame, host: &impl WalkHost) -> Rule {
    let pc = frame.at.pc.wrapping_sub(u64::from(!frame.is_exact));
    host.rules().get(pc).unwrap_or_else(|| find_rule(pc, host))
}

#[cold]
#[inline(never)]
fn find_rule(pc: u64, host: &impl WalkHost) -> Rule {
    // SAFETY: the calling thread has a frame in the file, or an invalid address leads there: see `made`.
    let Some(object) = (unsafe { MappedObject::of(pc) }) else { return Rule::UNKNOWN };
    let rule = match HAS_FRAMES {
        // A return address in the kernel's code is that of a signal's handler.
        true if object.path().starts_with(b"linux-vdso") => Rule::new(Cfa::Signal, Rbp::Same),
        true => Rule::of_frame(),
        false => object.tables().map_or(Rule::UNKNOWN, |tables| tables.rule(pc)),
    };
    if host.object(&object) {
        host.rules().put(pc, rule);
    }
    rule
}

/// The caller's frame, without the rule of its own caller.
#[inline(always)]
fn step(stack: &mut StackBounds, frame: &Frame) -> Result<Frame, End> {
    let WalkRegisters { sp, bp, .. } = frame.at;
    // The program's and a thread's first function begin without a frame.
    if HAS_FRAMES && bp == 0 {
        return Err(End::Outermost);
    }
    let mut word = |address: u64| stack.word(address).ok_or(End::Broken);
    let cfa = match frame.rule.cfa() {
        Cfa::Rsp(distance) => sp.wrapping_add(distance as u64),
        Cfa::Rbp(distance) => bp.wrapping_add(distance as u64),
        Cfa::AtRbp(distance) => word(bp.wrapping_add(distance as u64))?,
        // The kernel has made a frame for the interrupted function, whose stack can be another one.
        Cfa::Signal if HAS_FRAMES => {
            let (back, above) = (word(bp.wrapping_add(8))?, word(bp)?);
            let saved = |at: u64| bp.wrapping_sub(OF_SIGNAL).wrapping_add(8 * at);
            // Where vectors are long, the registers are further away: then the interrupted function itself is left out.
            let is_there = word(saved(29)) == Ok(above) && word(saved(30)) == Ok(back);
            let pc = if is_there { word(saved(32))? } else { back };
            let at = WalkRegisters { pc: pc & UNSIGNED, sp: above, bp: above };
            return Ok(Frame { at, is_exact: is_there, ..Frame::default() });
        }
        Cfa::Signal => {
            let [sp, bp, pc] = SIGNAL.map(|distance| sp.wrapping_add(distance as u64));
            let at = WalkRegisters { pc: word(pc)?, sp: word(sp)?, bp: word(bp)? };
            return Ok(Frame { at, is_exact: true, ..Frame::default() });
        }
        Cfa::End => return Err(End::Outermost),
        Cfa::Unknown => return Err(End::Broken),
    };
    // The caller's frame must be above this one.
    if cfa <= sp {
        return Err(End::Broken);
    }
    let bp = match frame.rule.rbp() {
        Rbp::Same => bp,
        Rbp::AtCfa(apart) => word(cfa.wrapping_add(apart as u64))?,
        Rbp::AtRbp(apart) => word(bp.wrapping_add(apart as u64))?,
    };
    Ok(Frame { at: WalkRegisters { pc: word(cfa.wrapping_sub(8))? & UNSIGNED, sp: cfa, bp }, ..Frame::default() })
}
