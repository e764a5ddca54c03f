//! Writes a core file of a running process, with the notes that the kernel writes.
//!
//! The kernel would kill the process to write a core, and a setting of the machine says where the kernel puts it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;

/// A line of `/proc/PID/maps`. This crate has its own parser, because it tests the crate that has the other one. A fault of the other
/// parser must not lead to a core that hides this fault.
struct Mapping {
    from: u64,
    to: u64,
    offset: u64,
    rights: String,
    inode: u64,
    name: String,
}

impl Mapping {
    fn parse(line: &str) -> Mapping {
        let mut words = line.splitn(6, ' ');
        let mut word = || words.next().expect("maps has five columns, and perhaps a name");
        let number = |text: &str| u64::from_str_radix(text, 16).expect("an address");
        let (from, to) = word().split_once('-').expect("two addresses");
        let (from, to) = (number(from), number(to));
        let (rights, offset, _device) = (word().to_string(), number(word()), word());
        let inode = word().trim().parse().expect("the number of a file, or 0");
        Mapping { from, to, offset, rights, inode, name: words.next().unwrap_or_default().trim().to_string() }
    }

    fn has(&self, right: char) -> bool {
        self.rights.contains(right)
    }
}

/// The bytes of a core of a process that waits. It contains all readable memory, but of mappings that are not writable only the first page.
/// `threads` are the IDs of its threads, each with the address of its thread-local data or 0. The paths of mapped files get the prefix
/// `renamed`.
pub fn of(pid: u32, name: &str, threads: &[(u32, u64)], renamed: &str) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the process is there");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("the process may be read");
    let mut all: Vec<Mapping> = maps.lines().map(Mapping::parse).collect();
    all.retain(|one| one.has('r') && !one.name.starts_with("[v"));

    let mut notes = Vec::new();
    for (tid, local) in threads {
        let mut status = vec![0_u8; 336];
        status[32..36].copy_from_slice(&tid.to_le_bytes());
        status[112 + 21 * 8..112 + 22 * 8].copy_from_slice(&local.to_le_bytes());
        note(&mut notes, 1, &status);
    }
    let mut about = vec![0_u8; 136];
    about[24..28].copy_from_slice(&pid.to_le_bytes());
    about[40..40 + name.len()].copy_from_slice(name.as_bytes());
    note(&mut notes, 3, &about);
    let files: Vec<&Mapping> = all.iter().filter(|one| one.inode != 0).collect();
    assert!(files.iter().any(|one| one.name.starts_with('/')), "a program is a file");
    let words = [files.len() as u64, PAGE];
    let words = words.into_iter().chain(files.iter().flat_map(|one| [one.from, one.to, one.offset / PAGE]));
    let mut table: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    files.iter().for_each(|one| table.extend(format!("{renamed}{}\0", one.name).bytes()));
    note(&mut notes, 0x4649_4c45, &table);

    let mut head: Vec<u8> = b"\x7fELF\x02\x01\x01".iter().copied().chain([0; 9]).collect();
    head.extend([4_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    head.extend(1_u32.to_le_bytes());
    head.extend([0_u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    head.extend(0_u32.to_le_bytes());
    head.extend([64_u16, 56, all.len() as u16 + 1, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let notes_at = head.len() + 56 * (all.len() + 1);
    let mut body = notes;
    body.resize((notes_at + body.len()).next_multiple_of(PAGE as usize) - notes_at, 0);
    let segment = |head: &mut Vec<u8>, kind: u32, flags: u32, words: [u64; 6]| {
        head.extend([kind, flags].iter().flat_map(|word| word.to_le_bytes()));
        head.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    };
    segment(&mut head, 4, 0, [notes_at as u64, 0, 0, body.len() as u64, 0, 4]);
    for one in &all {
        let stored = if one.has('w') { one.to - one.from } else { PAGE };
        let at = (notes_at + body.len()) as u64;
        let flags = 4 | u32::from(one.has('w')) << 1 | u32::from(one.has('x'));
        segment(&mut head, 1, flags, [at, one.from, 0, stored, one.to - one.from, PAGE]);
        let mut bytes = vec![0; stored as usize];
        // A page after the end of a mapped file cannot be read. It stays zero here, as in a core that the kernel writes.
        for (at, page) in bytes.chunks_mut(PAGE as usize).enumerate() {
            let _ = memory.read_exact_at(page, one.from + at as u64 * PAGE);
        }
        body.extend(bytes);
    }
    [head, body].concat()
}

fn note(notes: &mut Vec<u8>, kind: u32, desc: &[u8]) {
    notes.extend([5, desc.len() as u32, kind].iter().flat_map(|word| word.to_le_bytes()));
    notes.extend(b"CORE\0\0\0\0");
    notes.extend(desc);
    notes.resize(notes.len().next_multiple_of(4), 0);
}
