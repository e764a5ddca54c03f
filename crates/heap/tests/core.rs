//! Compares a core file with the process that it was written from: whole, truncated, and without the mapped files. The
//! test writes the core itself, with the notes that the kernel writes.

#![allow(clippy::disallowed_methods)]

mod running;

use std::fs;
use std::path::Path;
use std::time::Duration;

use allocanary_heap::{CoreFile, Live, Mapping, Memory, Sure, take_core};
use allocanary_walkers::system as glibc;
use running::{compiled, start};

const PAGE: usize = 4096;

/// Writes a core of a waiting process. It has all readable memory; of mappings that are not writable it has only the
/// first page. `renamed` is put before the paths of mapped files.
fn write(live: &Live, path: &Path, renamed: &str) {
    let readable: Vec<&Mapping> =
        live.mappings().iter().filter(|one| one.readable && !one.name.starts_with("[v")).collect();
    let mut notes = Vec::new();
    for thread in live.threads() {
        let mut status = vec![0_u8; 336];
        status[32..36].copy_from_slice(&thread.tid.to_le_bytes());
        status[112 + 21 * 8..112 + 22 * 8].copy_from_slice(&thread.pointer.unwrap_or_default().to_le_bytes());
        note(&mut notes, 1, &status);
    }
    let mut about = vec![0_u8; 136];
    about[24..28].copy_from_slice(&live.pid().to_le_bytes());
    about[40..46].copy_from_slice(b"counts");
    note(&mut notes, 3, &about);
    let files: Vec<&&Mapping> = readable.iter().filter(|one| one.inode != 0).collect();
    let words = [files.len() as u64, PAGE as u64];
    let words = words.into_iter().chain(files.iter().flat_map(|one| [one.from, one.to, one.offset / PAGE as u64]));
    let mut table: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    files.iter().for_each(|one| table.extend(format!("{renamed}{}\0", one.name).bytes()));
    note(&mut notes, 0x4649_4c45, &table);

    let mut head: Vec<u8> = b"\x7fELF\x02\x01\x01".iter().copied().chain([0; 9]).collect();
    head.extend([4_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    head.extend(1_u32.to_le_bytes());
    head.extend([0_u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    head.extend(0_u32.to_le_bytes());
    head.extend([64_u16, 56, readable.len() as u16 + 1, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let notes_at = head.len() + 56 * (readable.len() + 1);
    let mut body = notes;
    body.resize((notes_at + body.len()).next_multiple_of(PAGE) - notes_at, 0);
    let segment = |head: &mut Vec<u8>, kind: u32, flags: u32, words: [u64; 6]| {
        head.extend([kind, flags].iter().flat_map(|word| word.to_le_bytes()));
        head.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    };
    segment(&mut head, 4, 0, [notes_at as u64, 0, 0, body.len() as u64, 0, 4]);
    for one in readable {
        let stored = if one.writable { one.bytes() } else { PAGE as u64 };
        let at = (notes_at + body.len()) as u64;
        let flags = 4 | u32::from(one.writable) << 1 | u32::from(one.executable);
        segment(&mut head, 1, flags, [at, one.from, 0, stored, one.bytes(), PAGE as u64]);
        let mut bytes = vec![0; stored as usize];
        assert!(live.read(one.from, &mut bytes), "{one:?}");
        body.extend(bytes);
    }
    fs::write(path, [head, body].concat()).unwrap();
}

fn note(notes: &mut Vec<u8>, kind: u32, desc: &[u8]) {
    notes.extend([5, desc.len() as u32, kind].iter().flat_map(|word| word.to_le_bytes()));
    notes.extend(b"CORE\0\0\0\0");
    notes.extend(desc);
    notes.resize(notes.len().next_multiple_of(4), 0);
}

#[test]
fn a_core_has_the_heap_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [&[][..], &["-static"]] {
        let Some(program) = compiled(folder.path(), "counts", flags) else { return };
        let mut running = start(&program, "half", "");
        let wanted = running.counts();
        let live = Live::open(running.pid()).unwrap();
        let path = folder.path().join("core");
        let mut forecast = 0;
        // Once with the mapped files, and once without: then only the structures show the release.
        for renamed in ["", "/nowhere"] {
            write(&live, &path, renamed);
            let core = CoreFile::open(&path, None).unwrap();
            assert_eq!((core.pid, core.name.as_str(), core.missing), (running.pid(), "counts", 0));
            let heap = glibc::read(&core).expect("it has glibc's malloc").unwrap();
            let free: u64 = heap.free.iter().map(|free| free.bytes).sum();
            assert_eq!((free, heap.walk.breaks, heap.walk.skipped), (wanted["fordblks"], 0, 0));
            let reading = take_core(&path, Duration::MAX).unwrap();
            assert_eq!(reading.heaps[0].sure, Sure::Exact, "{:?}", reading.problems);
            assert!(reading.heaps[0].parts.sum() <= wanted["arena"], "pages full of zeroes do not count");
            forecast = reading.heaps[0].remedies[0].bytes;
        }
        // A core does not say where the data segment ends. So the free block at its end is not in the forecast.
        running.go_on("");
        let given = running.counts()["given"];
        assert!(0 < forecast && forecast <= given, "{forecast} {given}");
    }
}

#[test]
fn a_truncated_core_tells_what_is_missing_and_divides_no_heap_that_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "counts", &[]) else { return };
    let mut running = start(&program, "half", "");
    running.counts();
    let path = folder.path().join("core");
    write(&Live::open(running.pid()).unwrap(), &path, "");
    let whole = fs::read(&path).unwrap();
    for (part, has_heap) in [(whole.len() - 3 * PAGE, true), (whole.len() / 2, false), (4 * PAGE, false)] {
        fs::write(&path, &whole[..part]).unwrap();
        let reading = take_core(&path, Duration::MAX).unwrap();
        assert!(reading.problems.iter().any(|why| why.contains("the core is truncated")), "{:?}", reading.problems);
        let is_divided = reading.heaps.iter().any(|heap| heap.sure != Sure::NotKnown);
        assert_eq!(is_divided, has_heap, "{part}: {:?}", reading.problems);
    }
    for part in [0, 10, 64, 200] {
        fs::write(&path, &whole[..part]).unwrap();
        assert!(take_core(&path, Duration::MAX).is_err(), "{part}");
    }
}
