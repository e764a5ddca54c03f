//! Walks a waiting thread of this process as if it belonged to another process.

use super::*;
use std::fs;
use std::os::unix::fs::FileExt;

/// This process, read as if it were another one.
struct Own {
    memory: fs::File,
    code: Vec<(CodeMapping, String)>,
}

impl Own {
    fn new() -> Own {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let code = maps.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (range, modes, offset) = (words.next()?, words.next()?, words.next()?);
            let (from, to) = range.split_once('-')?;
            let hex = |text| u64::from_str_radix(text, 16).ok();
            let code = CodeMapping { from: hex(from)?, to: hex(to)?, offset: hex(offset)? };
            modes.contains('x').then(|| (code, words.nth(2).unwrap_or_default().to_string()))
        });
        Own { memory: fs::File::open("/proc/self/mem").unwrap(), code: code.collect() }
    }
}

impl OutsideProcess for Own {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.memory.read_exact_at(into, at).is_ok()
    }

    fn code(&self, at: u64) -> Option<CodeMapping> {
        self.code.iter().map(|(code, _)| *code).find(|code| (code.from..code.to).contains(&at))
    }

    fn read_file(&self, code: &CodeMapping, at: u64, into: &mut [u8]) -> bool {
        let Some((_, path)) = self.code.iter().find(|(one, _)| one == code) else { return false };
        let file = fs::File::open(path).ok().filter(|file| file.metadata().is_ok_and(|about| about.is_file()));
        file.is_some_and(|file| file.read_exact_at(into, at).is_ok())
    }
}

/// Three functions call each other. The walk finds their return addresses in this order, and reaches the thread's first frame.
#[test]
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_env = "gnu"))]
fn a_stack_is_walked_to_its_first_frame() {
    #[inline(never)]
    fn innermost(found: &mut Option<OutsideStack>) -> u64 {
        *found = Some(UnwindTables::new().walk(&Own::new(), crate::walk::here(), None));
        std::hint::black_box(1)
    }
    #[inline(never)]
    fn middle(found: &mut Option<OutsideStack>) -> u64 {
        innermost(found) + std::hint::black_box(2)
    }
    let stack = std::thread::spawn(|| {
        let mut found = None;
        assert_eq!(middle(&mut found) + std::hint::black_box(3), 6);
        found.unwrap()
    });
    let stack = stack.join().unwrap();
    assert_eq!(stack.end, End::Outermost, "{stack:x?}");
    let address = [innermost as *const () as u64, middle as *const () as u64];
    for (frame, function) in stack.frames.iter().zip(address) {
        assert!(frame.at.pc.wrapping_sub(function) < 4096, "{:x} in {function:x}", frame.at.pc);
    }
    assert!(stack.frames.is_sorted_by(|one, above| one.at.sp < above.at.sp));
    assert!(stack.frames[0].is_exact && stack.frames[1..].iter().all(|frame| !frame.is_exact));
}

#[test]
fn where_no_file_is_the_walk_ends_and_says_so() {
    let process = Own::new();
    let from = WalkRegisters { pc: 8, sp: 16, bp: 0 };
    let stack = UnwindTables::new().walk(&process, from, None);
    assert_eq!((stack.frames.len(), stack.end), (1, End::Broken));
}
