// Makes tables, trees and texts of Rust, loses some blocks, and knows how many of each. Waits until its input ends.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hint::black_box;
use std::io::Read;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts live blocks.
struct Counted;
static LIVE: AtomicU64 = AtomicU64::new(0);

// SAFETY: it passes all on to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(1, Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Relaxed);
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

struct Peer {
    other: RefCell<Option<Rc<Peer>>>,
    _data: [u64; 4],
}

#[derive(Default)]
struct Things {
    names: HashMap<u64, String>,
    seen: HashSet<u64>,
    small: Vec<HashMap<u64, u64>>,
    order: BTreeMap<u64, u64>,
    texts: BTreeMap<u32, String>,
}

static mut THINGS: Option<Box<Things>> = None;

/// The blocks that are made meanwhile.
fn counted(make: impl FnOnce()) -> u64 {
    let before = LIVE.load(Relaxed);
    make();
    LIVE.load(Relaxed) - before
}

#[inline(never)]
fn lose() {
    for _ in 0..1000 {
        let peer = || Rc::new(Peer { other: RefCell::new(None), _data: [7; 4] });
        let (one, other) = (peer(), peer());
        *one.other.borrow_mut() = Some(other.clone());
        *other.other.borrow_mut() = Some(one.clone());
    }
    for at in 0..2000_u64 {
        std::mem::forget(black_box(Box::new([at + 1; 6])));
    }
    for at in 0..1000 {
        std::mem::forget(black_box(String::from(format!("a lost text, number {:06}", at).as_str())));
    }
}

#[inline(never)]
fn clear() {
    black_box([0_u8; 65536]);
}

fn main() {
    let mut things = Box::<Things>::default();
    let text = |at: u64| String::from(format!("the text of number {}", 1_000_000 + at).as_str());
    things.names = (0..50_000).map(|at| (at, text(at))).collect();
    things.seen = (0..30_000).collect();
    things.small = (0..2000).map(|at| (0..20).map(|key| (at * 20 + key, key)).collect()).collect();
    let order = counted(|| things.order.extend((0..100_000).map(|at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15), at))));
    let texts = counted(|| things.texts.extend((0..20_000).map(|at: u32| (at, text(at.into()))))) - 20_000;
    unsafe { THINGS = Some(things) };
    let lost = counted(lose);
    clear();
    println!("lost={lost} tables=2002 strings={} btree={}", 50_000 + 20_000, order + texts);
    let _ = std::io::stdin().read(&mut [0; 1]);
}
