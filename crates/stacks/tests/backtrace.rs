//! Compares stacks of this process with those that GCC's unwinder finds at the same place.
#![cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_env = "gnu"))]

use std::alloc::{Layout, alloc_zeroed};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use allocanary_stacks::object::MappedObject;
use allocanary_stacks::rules::Rules;
use allocanary_stacks::walk::{MOST, StackWalk, StackWalker, here, look_up};

unsafe extern "C" {
    fn _Unwind_Backtrace(tell: extern "C" fn(*mut c_void, *mut c_void) -> c_int, to: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// All nodes of the process of this test.
struct Nodes {
    rules: &'static Rules,
    all: Mutex<All>,
    objects: AtomicUsize,
}

/// The list of nodes (parent, return address), and the number of each node.
type All = (Vec<(u32, u64)>, HashMap<(u32, u64), u32>);

impl allocanary_stacks::walk::WalkHost for &'static Nodes {
    type Rules = Rules;

    fn rules(&self) -> &Rules {
        self.rules
    }

    fn is_own(&self, _: u64) -> bool {
        false
    }

    fn node(&self, parent: u32, pc: u64) -> u32 {
        let (list, map) = &mut *self.all.lock().unwrap();
        *map.entry((parent, pc)).or_insert_with(|| {
            list.push((parent, pc));
            list.len() as u32
        })
    }

    fn object(&self, object: &MappedObject) -> bool {
        assert!(object.start < object.end);
        self.objects.fetch_add(1, SeqCst);
        true
    }
}

fn zeroed<T>() -> &'static mut T {
    // SAFETY: only for types of which zeros are a value.
    unsafe { &mut *alloc_zeroed(Layout::new::<T>()).cast() }
}

fn nodes() -> &'static Nodes {
    static NODES: std::sync::OnceLock<&'static Nodes> = std::sync::OnceLock::new();
    NODES.get_or_init(|| {
        assert!(look_up());
        Box::leak(Box::new(Nodes { rules: zeroed(), all: Mutex::default(), objects: AtomicUsize::new(0) }))
    })
}

thread_local! {
    static WALKER: RefCell<&'static mut StackWalker> = RefCell::new(zeroed());
    /// Whether the outermost function of this thread's stack has no tables.
    static IS_BROKEN: Cell<bool> = const { Cell::new(false) };
}

/// The number of compared stacks.
static COMPARED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn collect(context: *mut c_void, to: *mut c_void) -> c_int {
    // SAFETY: the unwinder's own context, and the list of `compare`.
    unsafe {
        let to: &mut Vec<u64> = &mut *to.cast();
        to.push(_Unwind_GetIP(context) as u64);
    }
    0
}

fn frames(mut node: u32) -> Vec<u64> {
    let all = nodes().all.lock().unwrap();
    let mut found = Vec::new();
    while let Some((parent, pc)) = node.checked_sub(1).map(|at| all.0[at as usize]) {
        assert!(parent < node);
        found.push(pc);
        node = parent;
    }
    found
}

/// Compares the two unwinders at this place. The first frame is this function's caller.
#[inline(never)]
fn compare() -> StackWalk {
    let mut wanted: Vec<u64> = Vec::new();
    // SAFETY: the list outlives the call.
    unsafe { _Unwind_Backtrace(collect, (&raw mut wanted).cast()) };
    // SAFETY: the walk begins here, and each thread has its own walker.
    let walked = WALKER.with_borrow_mut(|walker| unsafe { walker.walk(here(), &nodes()) });
    // GCC's first frame is this function, and its last one may be 0. The first frame of the walk is a function of this
    // crate.
    let mut wanted: Vec<u64> = wanted.into_iter().skip(1).filter(|pc| *pc != 0).collect();
    let found = frames(walked.node);
    // If the closure of this function was not inlined, the walk begins in it.
    let skipped = found.iter().position(|pc| *pc == wanted[0]).unwrap_or_else(|| panic!("{found:x?} {wanted:x?}"));
    let found = &found[skipped..];
    assert_eq!(walked.is_cut, skipped + wanted.len() > MOST, "{} frames", wanted.len());
    wanted.truncate(found.len().max(if walked.is_cut { 0 } else { usize::MAX }));
    assert!(walked.is_cut || walked.is_broken == IS_BROKEN.get(), "{walked:?} {found:x?} {wanted:x?}");
    assert_eq!(found, wanted);
    COMPARED.fetch_add(1, SeqCst);
    walked
}

#[inline(never)]
fn recursive(depth: u32, seed: u64) -> u64 {
    let mut local = [seed; 16];
    black_box(&mut local);
    if depth == 0 {
        compare();
        return local[3];
    }
    let next = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
    let found = if next >> 63 == 0 { recursive(depth - 1, next) } else { other(depth - 1, next) };
    if next >> 60 & 3 == 0 {
        compare();
    }
    black_box(found) + local[1]
}

#[inline(never)]
fn other(depth: u32, seed: u64) -> u64 {
    let list: Vec<u64> = (0..depth as u64 % 5).map(|at| at ^ seed).collect();
    black_box(&list);
    recursive(depth, seed) + list.len() as u64
}

#[test]
fn recursion() {
    for round in 0..200 {
        recursive(round % 60, u64::from(round));
    }
    assert!(nodes().objects.load(SeqCst) > 0);
}

#[test]
fn the_same_place_again_and_again_is_one_node() {
    let nodes: Vec<u32> = (0..100).map(|_| compare().node).collect();
    assert!(nodes.iter().all(|node| *node == nodes[0] && *node != 0));
}

#[test]
fn a_deep_stack_is_cut_and_is_no_root_of_others() {
    let program = || {
        for depth in [MOST as u32 + 50, MOST as u32 + 51, 20, MOST as u32 + 50, 400, 3] {
            recursive(depth, 7);
        }
    };
    std::thread::Builder::new().stack_size(16 << 20).spawn(program).unwrap().join().unwrap();
}

#[test]
fn several_threads() {
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            scope.spawn(move || (0..300).for_each(|round| _ = recursive((round % 50) as u32, thread << 20 | round)));
        }
    });
}

/// The C library calls back, and its frames have no frame pointers.
#[test]
fn in_functions_that_the_c_library_calls() {
    extern "C" fn order(one: *const c_void, other: *const c_void) -> c_int {
        compare();
        // SAFETY: numbers of the list.
        unsafe { *one.cast::<i32>() - *other.cast::<i32>() }
    }
    let mut list: Vec<i32> = (0..200).map(|at| at * 7919 % 200).collect();
    // SAFETY: a list of numbers.
    unsafe { libc::qsort(list.as_mut_ptr().cast(), list.len(), 4, Some(order)) };
    assert!(list.is_sorted());
}

#[test]
fn unwinding() {
    struct Compares;
    impl Drop for Compares {
        fn drop(&mut self) {
            compare();
        }
    }
    #[inline(never)]
    fn fails(depth: u32) -> u32 {
        let _guard = Compares;
        if depth == 0 { std::panic::resume_unwind(Box::new(1)) } else { fails(depth - 1) + 1 }
    }
    for depth in 0..30 {
        assert!(std::panic::catch_unwind(|| fails(depth)).is_err());
        compare();
    }
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: c_int) {
    recursive(5, 3);
    HANDLED.fetch_add(1, SeqCst);
}

/// Tests a handler with and without a separate stack.
#[test]
fn in_a_handler_of_a_signal() {
    let program = |own_stack: bool| {
        // SAFETY: the handler stays, and the memory of its stack is never freed.
        unsafe {
            if own_stack {
                let place = Vec::leak(vec![0_u8; 256 << 10]);
                let stack = libc::stack_t { ss_sp: place.as_mut_ptr().cast(), ss_flags: 0, ss_size: place.len() };
                assert_eq!(libc::sigaltstack(&stack, std::ptr::null_mut()), 0);
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
            for depth in 0..20 {
                recursive(depth, 1);
                libc::raise(libc::SIGUSR1);
                interrupted(depth);
            }
        }
    };
    std::thread::spawn(move || program(true)).join().unwrap();
    std::thread::spawn(move || program(false)).join().unwrap();
    assert_eq!(HANDLED.load(SeqCst), 80);
}

#[inline(never)]
fn interrupted(depth: u32) {
    if depth > 0 {
        interrupted(depth - 1);
    } else {
        // SAFETY: the test has set a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
    black_box(depth);
}

/// The interrupted instruction is the first one of a function. The address before it would have the rule of another
/// function.
#[test]
#[cfg(target_arch = "x86_64")]
fn in_a_handler_of_a_signal_at_the_begin_of_a_function() {
    #[unsafe(naked)]
    extern "C" fn begins_with_a_fault() {
        core::arch::naked_asm!(".cfi_startproc", "ud2", "ret", ".cfi_endproc")
    }
    extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        assert!(frames(compare().node).contains(&(begins_with_a_fault as *const () as u64)));
        // SAFETY: the kernel's own context; the instruction has two bytes.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] += 2 };
        HANDLED_FAULTS.fetch_add(1, SeqCst);
    }
    static HANDLED_FAULTS: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: a handler that stays.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut());
    }
    for _ in 0..10 {
        begins_with_a_fault();
    }
    assert_eq!(HANDLED_FAULTS.load(SeqCst), 10);
}

/// A function ends by a long jump: the frames that it skips no longer exist.
#[test]
fn jumps() {
    #[repr(C, align(16))]
    struct Buffer([u64; 64]);
    unsafe extern "C" {
        #[link_name = "_setjmp"]
        fn setjmp(buffer: *mut Buffer) -> c_int;
        fn longjmp(buffer: *mut Buffer, value: c_int) -> !;
    }
    #[inline(never)]
    fn jumps(depth: u32, buffer: *mut Buffer) {
        compare();
        if depth == 0 {
            // SAFETY: jumps to the frame of `lands`, which has not returned. No destructor is skipped.
            unsafe { longjmp(buffer, 1) };
        }
        jumps(depth - 1, buffer);
        black_box(depth);
    }
    #[inline(never)]
    fn lands(depth: u32) {
        let mut buffer = Buffer([0; 64]);
        // SAFETY: no local is changed between the two returns.
        if unsafe { setjmp(&mut buffer) } == 0 {
            jumps(depth, &mut buffer);
        }
        compare();
    }
    for depth in 0..20 {
        lands(depth);
        compare();
    }
}

/// Walks stacks that the program itself makes.
#[test]
fn coroutines() {
    // SAFETY: zeros are a valid value of this type.
    static mut CONTEXTS: [libc::ucontext_t; 2] = unsafe { std::mem::zeroed() };
    extern "C" fn routine() {
        // The C library's first function of a coroutine has no tables. On aarch64 it begins without a frame, as that of a thread.
        IS_BROKEN.set(cfg!(target_arch = "x86_64"));
        for depth in 0..20 {
            recursive(depth, 11);
            // SAFETY: the two contexts of this test, on one thread.
            unsafe { libc::swapcontext(&raw mut CONTEXTS[1], &raw const CONTEXTS[0]) };
        }
    }
    let place = Vec::leak(vec![0_u8; 256 << 10]);
    // SAFETY: as above; the stack is never given back.
    unsafe {
        libc::getcontext(&raw mut CONTEXTS[1]);
        CONTEXTS[1].uc_stack.ss_sp = place.as_mut_ptr().cast();
        CONTEXTS[1].uc_stack.ss_size = place.len();
        CONTEXTS[1].uc_link = &raw mut CONTEXTS[0];
        libc::makecontext(&raw mut CONTEXTS[1], routine, 0);
        for _ in 0..20 {
            libc::swapcontext(&raw mut CONTEXTS[0], &raw const CONTEXTS[1]);
            IS_BROKEN.set(false);
            compare();
            IS_BROKEN.set(cfg!(target_arch = "x86_64"));
        }
    }
}

/// A stack ends right below unreadable memory, and an invalid frame points to this memory.
#[test]
fn a_frame_that_leads_out_of_the_stack_ends_the_walk() {
    // SAFETY: our own two pages; the second one cannot be read.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(std::ptr::null_mut(), 8192, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_eq!(libc::mprotect(pages.add(4096), 4096, libc::PROT_NONE), 0);
        let walk = |sp: u64, bp: u64| {
            let from = allocanary_stacks::walk::WalkRegisters { sp, bp, ..here() };
            WALKER.with_borrow_mut(|walker| walker.walk(from, &nodes()))
        };
        for sp in [pages.addr() as u64 + 4088, pages.addr() as u64 + 4096, 0, 8, u64::MAX - 7, u64::MAX, 1 << 46] {
            let walked = walk(sp, sp);
            assert_eq!(walked, StackWalk { is_broken: true, ..walked });
        }
        libc::munmap(pages, 8192);
    }
    compare();
}
