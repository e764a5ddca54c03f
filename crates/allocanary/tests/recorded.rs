//! A program with its own allocator linked in records itself. This file is the program: it starts itself again.

use std::alloc::{GlobalAlloc, Layout};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;

use allocanary::Recording;
use allocanary_names::FrameNames;
use allocanary_trace::format::TraceEnd;
use allocanary_trace::info::{Info, info};
use allocanary_trace::reader::Trace;
use allocanary_trace::record::traces;
use allocanary_who::{By, Folding, sites};

allocanary::install!(jemalloc, narenas = 2, wrap = Recording);

const BLOCKS: u64 = 20_000;

/// Blocks of 100 bytes that another thread frees, 50 blocks with an alignment, 70 zeroed ones, 30 that grow.
#[test]
#[ignore = "the program that the other test starts"]
fn program() {
    works();
}

/// A separate function, so that its name is in the stack.
#[inline(never)]
fn works() {
    let (send, receive) = channel::<Vec<u8>>();
    let consumer = std::thread::spawn(move || receive.into_iter().map(|block| block.len()).sum::<usize>());
    for _ in 0..BLOCKS {
        send.send(vec![1; 100]).unwrap();
    }
    drop(send);
    assert_eq!(consumer.join().unwrap(), 100 * BLOCKS as usize);
    let layout = Layout::from_size_align(5000, 256).unwrap();
    for _ in 0..50 {
        // SAFETY: the block has this layout.
        unsafe { std::alloc::dealloc(std::hint::black_box(std::alloc::alloc(layout)), layout) };
    }
    for _ in 0..70 {
        std::hint::black_box(vec![0_u8; 3000]);
    }
    for _ in 0..30 {
        let mut grows = std::hint::black_box(Vec::<u8>::with_capacity(4001));
        grows.reserve_exact(9001);
        std::hint::black_box(&grows);
    }
}

fn run(folder: Option<&Path>) -> Vec<Info> {
    let infos = |path: PathBuf| info(&Trace::open(&path).unwrap()).unwrap();
    record(folder, "0").into_iter().map(infos).collect()
}

/// Runs the program, and returns its traces.
fn record(folder: Option<&Path>, stacks: &str) -> Vec<PathBuf> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "program", "--test-threads", "1"]);
    if let Some(folder) = folder {
        command.env("ALLOCANARY_RECORD", folder).env("ALLOCANARY_RECORD_STACK_SAMPLE", stacks);
    }
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let made = folder.map_or(Vec::new(), |folder| traces(folder).unwrap());
    made.into_iter().map(|(path, _)| path).collect()
}

#[test]
fn a_program_with_its_own_allocator_records_itself() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(None).is_empty());
    let infos = run(Some(folder.path()));
    let [info] = &infos[..] else { panic!("{} traces", infos.len()) };
    assert_eq!((info.merged.strays, info.merged.lost_frees, info.merged.damage.len()), (0, 0, 0), "{:?}", info.merged);
    assert_eq!(info.header.state, TraceEnd::Exited);
    // The channel allocates too: one block for 31 messages.
    let near = |found: u64, least: u64| (least..least + 1000).contains(&found);
    assert!(near(info.crossing, BLOCKS), "{}", info.crossing);
    assert!(near(info.aligned, 50) && near(info.callocs, 70) && near(info.resizes, 30), "{info:?}");
    assert!(info.allocations > BLOCKS + 150 && info.threads.len() >= 3, "{} {:?}", info.allocations, info.threads);
}

/// The recorder's functions are part of the program, but are not a site.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[test]
fn its_stacks_name_the_function_that_allocates() {
    let folder = tempfile::tempdir().unwrap();
    let made = record(Some(folder.path()), "1");
    let [path] = &made[..] else { panic!("{} traces", made.len()) };
    let trace = Trace::open(path).unwrap();
    let stacks = trace.stacks().unwrap();
    let (taken, ..) = sites::take(&trace, sites::moment(&trace, None).unwrap(), false).unwrap();
    let found = sites::find("recorded", &taken, None, &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    let works = found.sites.iter().find(|site| site.name.ends_with("recorded::works"));
    assert!(works.is_some_and(|site| site.allocations >= BLOCKS + 150), "{works:?} of {:?}", found.sites);
    let own =
        found.sites.iter().find(|site| site.name.contains("allocanary_recorder") || site.name.contains("Recording"));
    assert_eq!(own, None);
}

/// The wrapper returns the results of the allocator.
#[test]
fn the_allocator_inside_serves_the_calls() {
    static WRAPPED: Recording<std::alloc::System> = Recording::new(std::alloc::System);
    let layout = Layout::from_size_align(100, 64).unwrap();
    // SAFETY: each block has the layout that is named.
    unsafe {
        let block = WRAPPED.alloc_zeroed(layout);
        assert!(block.addr().is_multiple_of(64) && (0..100).all(|at| block.add(at).read() == 0));
        block.write(7);
        let block = WRAPPED.realloc(block, layout, 5000);
        assert_eq!(block.read(), 7);
        WRAPPED.dealloc(block, Layout::from_size_align(5000, 64).unwrap());
    }
    let _: &std::alloc::System = WRAPPED.inner();
}
