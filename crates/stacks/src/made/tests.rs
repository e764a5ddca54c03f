#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

use std::cell::{Cell, RefCell};

use super::*;
use crate::object::MappedObject;
use crate::rule::{Cfa, Rbp};
use crate::rules::Rules;
use crate::walk::{StackWalk, StackWalker, WalkHost, here, look_up};

/// A trampoline of Python 3.12: sub $8,%rsp; call *%rcx; add $8,%rsp; ret
const PYTHON: [u8; 11] = [0x48, 0x83, 0xEC, 8, 0xFF, 0xD1, 0x48, 0x83, 0xC4, 8, 0xC3];
/// push %rbp; mov %rsp,%rbp; call *%rcx; pop %rbp; ret
const POINTER: [u8; 8] = [0x55, 0x48, 0x89, 0xE5, 0xFF, 0xD1, 0x5D, 0xC3];
/// push %rbp; mov %rsp,%rbp; sub $32,%rsp; call *%rcx; leave; ret
const LEAVES: [u8; 12] = [0x55, 0x48, 0x89, 0xE5, 0x48, 0x83, 0xEC, 32, 0xFF, 0xD1, 0xC9, 0xC3];

/// Memory for code: one page, followed by a page that cannot be read.
struct Page(*mut u8);

impl Page {
    fn new(rights: i32) -> Page {
        // SAFETY: our own memory.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), 8192, rights, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(page.add(4096), 4096, libc::PROT_NONE), 0);
            Page(page.cast())
        }
    }

    fn code() -> Page {
        Page::new(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)
    }

    /// Writes code to the page, and returns its address.
    fn put(&self, at: usize, code: &[u8]) -> u64 {
        // SAFETY: within the page.
        unsafe { self.0.add(at).copy_from(code.as_ptr(), code.len()) };
        self.0.expose_provenance() as u64 + at as u64
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: our own memory.
        unsafe { libc::munmap(self.0.cast(), 8192) };
    }
}

fn zeroed<T>() -> Box<T> {
    // SAFETY: only for types of which zeros are a value.
    unsafe { Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<T>()).cast()) }
}

/// Walks the stack while made code runs.
struct Asks {
    rules: Box<Rules>,
    walker: RefCell<Box<StackWalker>>,
    nodes: RefCell<Vec<(u32, u64)>>,
    walked: Cell<StackWalk>,
    trampoline: u64,
}

impl WalkHost for &Asks {
    type Rules = Rules;

    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn is_own(&self, _: u64) -> bool {
        false
    }

    fn node(&self, parent: u32, pc: u64) -> u32 {
        let mut nodes = self.nodes.borrow_mut();
        let known = nodes.iter().position(|node| *node == (parent, pc));
        let at = known.unwrap_or_else(|| {
            nodes.push((parent, pc));
            nodes.len() - 1
        });
        at as u32 + 1
    }

    fn object(&self, _: &MappedObject) -> bool {
        true
    }
}

impl Asks {
    fn of(trampoline: u64) -> Asks {
        assert!(look_up());
        Asks {
            rules: zeroed(),
            walker: RefCell::new(zeroed()),
            nodes: RefCell::default(),
            walked: Cell::default(),
            trampoline,
        }
    }

    /// The stack of the caller, innermost frame first.
    #[inline(never)]
    fn stack(&self) -> Vec<u64> {
        // SAFETY: the walk begins here, and the test has only this thread.
        let walked = unsafe { self.walker.borrow_mut().walk(here(), &self) };
        self.walked.set(walked);
        let nodes = self.nodes.borrow();
        let next = |node: &u32| nodes.get((*node as usize).checked_sub(1)?).map(|(parent, _)| *parent);
        let all = std::iter::successors(Some(walked.node), next).filter(|node| *node != 0);
        all.map(|node| nodes[node as usize - 1].1).collect()
    }
}

type Called = extern "C" fn(&Asks, u64, &mut Vec<u64>);

/// Calls itself through the trampoline `depth` times, and then asks for the stack.
#[inline(never)]
extern "C" fn deep(asks: &Asks, depth: u64, stack: &mut Vec<u64>) {
    if depth == 0 {
        *stack = asks.stack();
        return;
    }
    // SAFETY: made code, which calls its fourth argument with the first three.
    let trampoline: extern "C" fn(&Asks, u64, &mut Vec<u64>, Called) =
        unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<()>(asks.trampoline as usize)) };
    trampoline(asks, depth - 1, stack, deep);
    std::hint::black_box(depth);
}

/// The stack at this depth.
fn stack(asks: &Asks, depth: u64) -> Vec<u64> {
    let mut stack = Vec::new();
    deep(asks, depth, &mut stack);
    stack
}

#[test]
fn a_walk_goes_on_through_code_that_is_understood() {
    let page = Page::code();
    // The code is once at the start of the page, where the bytes before it cannot be read, and once at the page's end.
    for (code, back) in [(&PYTHON[..], 6), (&POINTER, 6), (&LEAVES, 10)] {
        for at in [0, 77, 4096 - code.len()] {
            let asks = Asks::of(page.put(at, code));
            let flat = stack(&asks, 0);
            assert!(!asks.walked.get().is_broken && flat.len() > 3, "{:?}", asks.walked);
            for depth in [1, 2, 30, 3] {
                let found = stack(&asks, depth);
                assert!(!asks.walked.get().is_broken, "{code:x?} {at}: {:?}", asks.walked);
                let through = found.iter().filter(|pc| **pc == asks.trampoline + back).count();
                assert_eq!((through as u64, found.len() as u64), (depth, flat.len() as u64 + 2 * depth));
                // The caller's frames are the same; only its own return address may differ.
                assert_eq!(found[found.len() - (flat.len() - 3)..], flat[3..]);
            }
        }
    }
}

#[test]
fn a_walk_ends_in_code_that_goes_on() {
    let page = Page::code();
    // sub $8,%rsp; call *%rcx; nop; add $8,%rsp; ret
    let code = [0x48, 0x83, 0xEC, 8, 0xFF, 0xD1, 0x90, 0x48, 0x83, 0xC4, 8, 0xC3];
    let asks = Asks::of(page.put(0, &code));
    for depth in [1, 5, 1] {
        let found = stack(&asks, depth);
        assert!(asks.walked.get().is_broken);
        assert_eq!(found.last(), Some(&(asks.trampoline + 6)));
        assert_eq!(found.iter().filter(|pc| **pc == asks.trampoline + 6).count(), 1, "the first one ends it");
    }
    assert_eq!(asks.walker.borrow().made.refused, 1, "asked once");
}

/// The code is replaced by code that pushes five words instead of one. The old rule then names a word that is not an
/// address of code.
#[test]
fn a_rule_of_code_that_was_replaced_ends_the_walk_until_it_is_forgotten() {
    let page = Page::code();
    // Six nops; sub $8,%rsp; call *%rcx; add $8,%rsp; ret
    let code = [&[0x90; 6], &PYTHON[..]].concat();
    let asks = Asks::of(page.put(0, &code));
    let length = stack(&asks, 3).len();
    // push $1, five times; call *%rcx; add $40,%rsp; ret
    let pushes =
        [&[0x6A, 1, 0x6A, 1, 0x6A, 1, 0x6A, 1, 0x6A, 1][..], &[0xFF, 0xD1, 0x48, 0x83, 0xC4, 40, 0xC3]].concat();
    page.put(0, &pushes);
    let found = stack(&asks, 3);
    assert!(asks.walked.get().is_broken);
    assert_eq!((found[found.len() - 2], found.last()), (asks.trampoline + 12, Some(&1)));
    asks.rules.forget();
    assert_eq!(stack(&asks, 3).len(), length);
    assert!(!asks.walked.get().is_broken);
}

/// Unmapped memory has no rule. Data that look like code are not taken for code, neither now nor later.
#[test]
fn only_mapped_code_that_may_be_executed_has_a_rule() {
    let (mut made, mut stack): (Box<Made>, Box<StackBounds>) = (zeroed(), zeroed());
    let data = Page::new(libc::PROT_READ | libc::PROT_WRITE);
    let at = data.put(0, &PYTHON) + 6;
    assert_eq!(made.rule(at, &mut stack), Some(Rule::UNKNOWN));
    let page = Page::code();
    let at = page.put(0, &PYTHON) + 6;
    assert_eq!(made.rule(at, &mut stack), Some(Rule::new(Cfa::Rsp(16), Rbp::Same)));
    assert_eq!(made.rule(at + 1, &mut stack), Some(Rule::UNKNOWN), "behind no call");
    for address in [0, 1, 4095, 1 << 46, 1 << 47, u64::MAX, at - 6 + 4096] {
        assert_eq!(made.rule(address, &mut stack), None, "{address:x}");
    }
    // SAFETY: our own memory.
    unsafe { libc::mprotect(page.0.cast(), 4096, libc::PROT_NONE) };
    assert_eq!(made.rule(at, &mut stack), None, "it can be read no more");
}

/// After a damaged frame, each walk may meet another address. The number of system calls for such addresses is limited.
#[test]
fn a_thread_that_has_found_no_code_too_often_looks_for_no_more() {
    let (mut made, mut stack): (Box<Made>, Box<StackBounds>) = (zeroed(), zeroed());
    let page = Page::code();
    let at = page.put(0, &PYTHON) + 6;
    for _ in 1..MOST_REFUSED {
        made.rule(1 << 46, &mut stack);
    }
    assert!(made.rule(at, &mut stack).is_some());
    made.rule(1 << 46, &mut stack);
    assert_eq!(made.rule(at, &mut stack), None);
    made.forget();
    assert!(made.rule(at, &mut stack).is_some(), "a library was closed");
}
