//! The proof of an allocator that is not ours. The loader loads this library in addition to the allocator, and the library reads the
//! allocator's settings. In: the variables of the proof, and the allocator's own functions. Out: the lines of the proof, as our
//! preloads write them.
//!
//! It exports nothing, so it replaces no function of the program. `LD_PRELOAD` names it before the allocator's library. So the loader
//! runs its constructor after that of the allocator, which has read its variables by then. The library itself allocates nothing. But
//! the loader allocates a few bytes if a function does not exist, and jemalloc makes the tables of `mallctl`: docs/lab/programs.md has the
//! cost.
//!
//! The line at the end has the settings again, because a program may change them.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::sync::atomic::{AtomicI32, Ordering};

use allocanary_sys::sys;

use crate::line::JsonLine;
use crate::proof::{self, add_exe, append};
use crate::raw;
use next::next;
use reader::AllocatorReader;
use value::ReadBack;

mod jemalloc;
mod mimalloc;
mod next;
mod reader;
mod tcmalloc;
mod value;

/// The variable that says what to prove: `NAME READER SETTING=KIND...`, such as `jemalloc@5.3.0 jemalloc narenas=number
/// tcache=flag`.
pub const VARIABLE: &CStr = c"ALLOCANARY_PROVE";

/// The longest text of each variable, with its NUL.
const MOST: usize = 4096;

/// The data of the lines. The constructor writes them; the end of the process reads them.
struct Place {
    path: [u8; MOST],
    asked: [u8; MOST],
    exe: JsonLine,
    line: JsonLine,
}

struct Cell(UnsafeCell<Place>);

// SAFETY: the constructor writes it before there is a second thread. At the end only the thread that has changed `PROVEN` uses it.
unsafe impl Sync for Cell {}

static PLACE: Cell = Cell(UnsafeCell::new(Place {
    path: [0; MOST],
    asked: [0; MOST],
    exe: JsonLine::new(),
    line: JsonLine::new(),
}));

/// The process that will write a last line; 0 if none.
static PROVEN: AtomicI32 = AtomicI32::new(0);

/// Makes a library that proves the settings of an allocator that is not ours: `prove!(build = BUILD)`. Use it once, at
/// the root of a binary.
#[macro_export]
macro_rules! prove {
    (build = $build:expr) => {
        $crate::started_by_hand!($crate::by_hand::say_parts(&[
            "preload-prove: a library of allocanary that reads the settings of other allocators back. `allocanary run` preloads it with \
             candidates such as jemalloc@5.3.0 and tcmalloc; it changes nothing by itself.\n",
        ]));

        extern "C" fn start() {
            // SAFETY: the loader runs the constructor, once, before the program's `main`.
            unsafe { $crate::prove::at_load($build) }
        }
        #[used]
        #[unsafe(link_section = ".init_array")]
        static START: extern "C" fn() = start;

        extern "C" fn finish() {
            $crate::prove::at_exit();
        }
        #[used]
        #[unsafe(link_section = ".fini_array")]
        static FINISH: extern "C" fn() = finish;
    };
}

/// Writes the line of a process's start, if the variables ask for it.
///
/// # Safety
///
/// Called once, by the constructor, while there is no second thread that changes variables.
pub unsafe fn at_load(build: &str) {
    // SAFETY: the constructor's only thread reads the variables.
    let (path, asked) = unsafe { (sys::variable(proof::VARIABLE), sys::variable(VARIABLE)) };
    let (Some(path), Some(asked)) = (path, asked) else { return };
    if path.is_empty() || path.len() >= MOST || asked.len() >= MOST {
        return;
    }
    // SAFETY: the constructor's only thread.
    let place = unsafe { &mut *PLACE.0.get() };
    place.path[..path.len()].copy_from_slice(path);
    place.asked[..asked.len()].copy_from_slice(asked);
    add_exe(&mut place.exe);
    let asked = Asked::of(&place.asked);
    let (line, pid) = (&mut place.line, raw::pid());
    let _ = write!(line, "{{\"at\":\"load\",\"pid\":{pid}");
    line.add_bytes(place.exe.bytes());
    line.add(",\"allocator\":");
    line.add_text(asked.name);
    line.add(",\"build\":");
    line.add_text(build.as_bytes());
    line.add(",\"malloc\":");
    line.add_text(library_of_malloc());
    line.add(",\"version\":\"");
    asked.reader.write_version(line);
    line.add("\"");
    asked.add_settings(line);
    line.add("}\n");
    append(&place.path, line);
    PROVEN.store(pid, Ordering::Release);
}

/// Writes the line of a process's end, once. It has settings only if they can be read without a lock.
pub fn at_exit() {
    let proven = PROVEN.load(Ordering::Acquire);
    if proven == 0
        || proven != raw::pid()
        || PROVEN.compare_exchange(proven, 0, Ordering::AcqRel, Ordering::Acquire).is_err()
    {
        return;
    }
    // SAFETY: only the thread that has changed `PROVEN` comes here.
    let place = unsafe { &mut *PLACE.0.get() };
    let asked = Asked::of(&place.asked);
    if asked.reader.takes_locks() {
        return;
    }
    let line = &mut place.line;
    line.clear();
    let _ = write!(line, "{{\"at\":\"exit\",\"pid\":{proven}");
    line.add_bytes(place.exe.bytes());
    asked.add_settings(line);
    line.add("}\n");
    append(&place.path, line);
}

/// The request in the variable.
struct Asked<'a> {
    name: &'a [u8],
    reader: AllocatorReader,
    settings: &'a [u8],
}

impl<'a> Asked<'a> {
    fn of(text: &'a [u8]) -> Asked<'a> {
        let text = &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())];
        let (name, rest) = split(text, b' ');
        let (reader, settings) = split(rest, b' ');
        Asked { name, reader: AllocatorReader::named(reader), settings }
    }

    fn add_settings(&self, line: &mut JsonLine) {
        line.add(",\"settings\":{");
        let mut comma = "";
        for setting in self.settings.split(|byte| *byte == b' ').filter(|setting| !setting.is_empty()) {
            let (name, kind) = split(setting, b'=');
            let Some(value) = self.reader.read(name, kind) else { continue };
            line.add(comma);
            line.add_text(name);
            line.add(":");
            match value {
                ReadBack::Flag(flag) => drop(write!(line, "\"{flag}\"")),
                ReadBack::Number(number) => drop(write!(line, "\"{number}\"")),
                ReadBack::Word(word) => line.add_text(word.as_bytes()),
            }
            comma = ",";
        }
        line.add("}");
    }
}

fn split(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == at) {
        Some(place) => (&text[..place], &text[place + 1..]),
        None => (text, &[]),
    }
}

/// The path of the library whose `malloc` serves the program's calls; empty if there is none. The program itself is not searched,
/// because a program with its own `malloc` is not run under a preload.
fn library_of_malloc() -> &'static [u8] {
    let malloc = next(c"malloc");
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null::<c_char>(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: fills in the structure for any address, or returns 0.
    if malloc.is_null() || unsafe { libc::dladdr(malloc, &mut found) } == 0 || found.dli_fname.is_null() {
        return &[];
    }
    // SAFETY: the loader's own text, which stays as long as the library; preloads are not unloaded.
    unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_a_name_a_reader_and_settings() {
        let asked = Asked::of(b"jemalloc@5.3.0 jemalloc narenas=number tcache=flag\0\0");
        assert_eq!((asked.name, asked.settings), (&b"jemalloc@5.3.0"[..], &b"narenas=number tcache=flag"[..]));
        assert!(matches!(asked.reader, AllocatorReader::Jemalloc));
        let asked = Asked::of(b"snmalloc@0.7.6 snmalloc");
        assert!(asked.settings.is_empty() && matches!(asked.reader, AllocatorReader::None));
    }

    #[test]
    fn a_library_without_a_reader_has_no_settings_and_malloc_is_found_where_it_is() {
        let mut line = Box::new(JsonLine::new());
        Asked::of(b"mesh mesh x=flag").add_settings(&mut line);
        assert_eq!(line.bytes(), b",\"settings\":{}");
        let library = String::from_utf8_lossy(library_of_malloc());
        assert!(library.contains("libc.so"), "{library}");
    }
}
