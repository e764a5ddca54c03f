//! Tests that the kind of memory is found from its mappings.

use super::*;
use crate::{PageRun, PageState, PageStates, ThreadId};
use allocanary_walkers::fake::FakeMemory;

/// The areas of a process whose memory no walk has divided: name and resident KiB.
fn named(memory: &FakeMemory, executable: &str) -> Vec<(String, u64)> {
    let areas = areas(&Sight { memory, executable }, &crate::counted::counted_of(memory), &|_| 0);
    areas.into_iter().map(|area| (area.name, area.resident >> 10)).collect()
}

fn wanted(names: &[(&str, u64)]) -> Vec<(String, u64)> {
    names.iter().map(|(name, kib)| (name.to_string(), *kib)).collect()
}

#[test]
fn files_stacks_and_shared_memory_are_told_apart() {
    let mut memory = FakeMemory::of(
        "400000-401000 r-xp 0 00:1 7 /bin/a\n401000-402000 rw-p 0 00:1 7 /bin/a\n402000-404000 rw-p 0 00:0 0 \n\
         500000-501000 r--p 0 00:1 8 /usr/locale\n600000-603000 rw-s 0 00:1 9 /dev/shm/a\n\
         700000-701000 ---p 0 00:0 0 \n701000-705000 rw-p 0 00:0 0 \n750000-751000 ---p 0 00:0 0 \n\
         751000-755000 rw-p 0 00:0 0 \n800000-801000 rw-p 0 00:0 0 \n\
         7ffc0000-7ffc1000 rw-p 0 00:0 0 [stack]\n",
    );
    // Of a thread that lives, of one that has ended, and of a coroutine, which has nothing of a thread.
    memory.threads = vec![ThreadId { tid: 1, pointer: Some(0x704700) }];
    let found =
        [("stacks", 20), ("program and libraries", 16), ("mapped files", 4), ("shared memory", 12), ("not known", 20)];
    assert_eq!(named(&memory, "a"), wanted(&found));
    memory.put(0x754700, &[0x754700, 0, 0x754700]);
    let found =
        [("stacks", 36), ("program and libraries", 16), ("mapped files", 4), ("shared memory", 12), ("not known", 4)];
    assert_eq!(named(&memory, "a"), wanted(&found));
}

/// As Erlang's: mapped twice, to write and to run.
#[test]
fn code_that_a_program_has_made_is_not_its_file() {
    let memory = FakeMemory::of(
        "600000-604000 rw-s 0 00:1 9 /memfd:vmem (deleted)\n700000-704000 r-xs 0 00:1 9 /memfd:vmem (deleted)\n",
    );
    assert_eq!(named(&memory, "beam.smp"), wanted(&[("shared memory", 32)]));
}

#[test]
fn a_long_stack_is_one_where_a_thread_has_its_data() {
    let maps = "1000000-1001000 ---p 0 00:0 0 \n1001000-5001000 rw-p 0 00:0 0 \n";
    let mut memory = FakeMemory::of(maps);
    assert_eq!(named(&memory, "a"), wanted(&[("not known", 65536)]));
    memory.threads = vec![ThreadId { tid: 1, pointer: Some(0x5000700) }];
    assert_eq!(named(&memory, "a"), wanted(&[("stacks", 65536)]));
}

#[test]
fn gos_arenas_are_whole_with_their_neighbours() {
    let maps = "547000-548000 rw-p 0 00:1 7 /opt/g\n15f598000000-15f59ac00000 ---p 0 00:0 0 \n\
                15f59ac00000-15f5a0000000 rw-p 0 00:0 0 \n7f0000000000-7f0000010000 rw-p 0 00:0 0 \n";
    let mut memory = FakeMemory::of(maps);
    assert_eq!(named(&memory, "g").len(), 2, "no mark of Go, no heap of Go's");
    let mark: Vec<u8> = b":fnidliub oG \xff".iter().rev().copied().collect();
    memory.write(0x547020, &mark);
    let arena = 84 << 10;
    let found = wanted(&[("Go's heap", arena), ("mapped files", 4), ("not known", 64)]);
    assert_eq!(named(&memory, "g"), found);
    memory.mappings[0].name = "/opt/g (deleted)".into();
    assert_eq!(named(&memory, "g"), found, "a program that was replaced while it runs is the same one");
}

#[test]
fn the_jvms_heap_lies_low_and_its_code_can_be_executed() {
    let maps = "f0000000-f0100000 rw-p 0 00:0 0 \n555500000000-555500021000 rw-p 0 00:0 0 [heap]\n\
                7f0000000000-7f0000040000 rwxp 0 00:0 0 \n7f1000000000-7f1000001000 r-xp 0 00:1 5 /lib/server/libjvm.so\n";
    let found =
        [("the JVM's heap", 1024), ("the JVM's compiled code", 256), ("program and libraries", 4), ("not known", 132)];
    assert_eq!(named(&FakeMemory::of(maps), "java"), wanted(&found));
}

#[test]
fn v8s_pieces_have_their_length_and_bounds() {
    let maps = "3dd1dc0000-3dd1e00000 rw-p 0 00:0 0 \n4dd1dc0000-4dd1e00000 rw-p 0 00:0 0 \n";
    let mut memory = FakeMemory::of(maps);
    memory.put(0x3dd1dc0000, &[0x40000, 0x12, 0x189d6020, 0x3dd1dc1148, 0x3dd1e00000]);
    assert_eq!(named(&memory, "node"), wanted(&[("V8's heap", 256), ("not known", 256)]));
    assert_eq!(named(&memory, "a"), wanted(&[("not known", 512)]));
}

#[test]
fn cpythons_pools_prove_themselves() {
    let maps = "7f0000000000-7f0000100000 rw-p 0 00:0 0 \n7f1000000000-7f1000100000 rw-p 0 00:0 0 \n";
    let mut memory = FakeMemory::of(maps);
    for pool in 0..40_u64 {
        // The pool has objects of 32 bytes: class 1, with the last one at 16 KiB - 32.
        let words = [100, 0, 0, 0, 1 << 32, 48 | (16384 - 32) << 32];
        memory.put(0x7f0000000000 + pool * 16384, &words);
        memory.put(0x7f1000000000 + pool * 16384, &[100, 0, 0, 0, 1 << 32, 48 | 16384 << 32]);
    }
    assert_eq!(named(&memory, "python3.11"), wanted(&[("CPython's arenas", 1024), ("not known", 1024)]));
}

#[test]
fn phps_chunks_are_in_a_ring_that_closes() {
    let maps = "7f62a8e00000-7f62a9200000 rw-p 0 00:0 0 \n7f62b1b00000-7f62b1e00000 rw-p 0 00:0 0 \n";
    let mut memory = FakeMemory::of(maps);
    let (one, two) = (0x7f62a9000000, 0x7f62b1c00000);
    memory.put(one, &[two + 64, two, two, 7 | 5 << 32, 1]);
    memory.put(two, &[two + 64, one, one, 0]);
    assert_eq!(named(&memory, "php8.2"), wanted(&[("PHP's heap", 7168)]));
    assert_eq!(named(&memory, "a"), wanted(&[("not known", 7168)]));
    memory.put(two + 16, &[two]);
    assert_eq!(named(&memory, "php8.2"), wanted(&[("not known", 7168)]), "neither is in a ring");
}

#[test]
fn phps_kept_chunks_are_in_a_list_as_long_as_its_heap_counts() {
    let maps = "7f62a9000000-7f62a9200000 rw-p 0 00:0 0 \n7f62b1c00000-7f62b2200000 rw-p 0 00:0 0 \n";
    let mut memory = FakeMemory::of(maps);
    let (first, one, two, three) = (0x7f62a9000000, 0x7f62b1c00000, 0x7f62b1e00000, 0x7f62b2000000);
    memory.put(first, &[first + 64, first, first, 511 | 1 << 32]);
    memory.put(first + 64 + 400, &[first, two, 1 | 4 << 32, 3]);
    memory.put(one, &[0, three, 0]);
    memory.put(two, &[0, one, 0]);
    memory.put(three, &[0, 0, 0]);
    assert_eq!(named(&memory, "php8.2"), wanted(&[("PHP's kept chunks", 6144), ("PHP's heap", 2048)]));
    let mut other = |list: &[u64], count| {
        memory.put(first + 64 + 400, &[first, list[0], 1 | 4 << 32, count]);
        memory.put(three, &[0, list[1], 0]);
        named(&memory, "php8.2") == wanted(&[("PHP's heap", 2048), ("not known", 6144)])
    };
    assert!(other(&[two, 0], 2), "the heap counts two");
    assert!(other(&[two, two], 3), "the list does not end");
    assert!(other(&[two + 8, 0], 3), "no chunk begins there");
}

#[test]
fn pools_are_looked_for_on_resident_pages_only() {
    let (from, to) = (0x100000000000, 0x700000000000);
    let mut memory = FakeMemory::of("100000000000-700000000000 rw-p 0 00:0 0 \n");
    memory.put(from + (1 << 20), &[100, 0, 0, 0, 1 << 32, 48 | (16384 - 32) << 32]);
    let resident = |from, to| {
        let mut pages = PageStates::default();
        pages.push(PageRun { from, to, state: PageState::Resident });
        pages
    };
    memory.pages = resident(from + (1 << 20), from + (1 << 20) + (16 << 10));
    assert_eq!(named(&memory, "python3"), wanted(&[("CPython's arenas", 16)]));
    memory.pages = resident(to - (16 << 10), to);
    assert_eq!(named(&memory, "python3"), wanted(&[("not known", 16)]));
}

#[test]
fn the_share_of_an_area_is_in_proportion() {
    let memory = FakeMemory::of("700000-704000 rw-p 0 00:0 0 [anon: pool]\n");
    let sight = Sight { memory: &memory, executable: "a" };
    let areas = areas(&sight, &crate::counted::counted_of(&memory), &|_| 0x1000);
    assert_eq!((areas[0].name.as_str(), areas[0].resident, areas[0].share), ("named `pool`", 0x3000, Some(0x1800)));
}
