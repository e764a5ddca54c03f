//! The proof: one line for the start of each process and one for its end, in the file that `ALLOCANARY_PROOF` names. In: the
//! allocator. Out: JSON lines, each written by one call. The lines are made without an allocation. The line of the start takes no
//! lock.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::fmt::Write;
use std::sync::atomic::{AtomicI32, Ordering};

use allocanary::Allocator;

use crate::line::JsonLine;
use crate::settings::Problem;
use crate::this::This;
use crate::{budget, gave_back, handlers, raw, sandbox};

/// The variable that has the file's path.
pub const VARIABLE: &CStr = c"ALLOCANARY_PROOF";

/// The longest path, with its NUL.
const MOST_PATH: usize = 4096;

/// The data of the lines. The constructor writes them; the end of the process reads them.
struct Proof {
    /// The file's path. It is a copy, because a program may overwrite its variables.
    path: [u8; MOST_PATH],
    allocator: Option<&'static dyn Allocator>,
    /// `,"exe":"/usr/bin/python3"`.
    exe: JsonLine,
    line: JsonLine,
}

struct Place(UnsafeCell<Proof>);

// SAFETY: the constructor writes it before there is a second thread. At the end only the thread that has changed `PROVEN` uses it.
unsafe impl Sync for Place {}

static PROOF: Place = Place(UnsafeCell::new(Proof {
    path: [0; MOST_PATH],
    allocator: None,
    exe: JsonLine::new(),
    line: JsonLine::new(),
}));

/// The process that will write a last line; 0 if none. The number is compared with the process id, because a child of `vfork` shares
/// its parent's memory.
static PROVEN: AtomicI32 = AtomicI32::new(0);

/// Writes the first line. Runs in the constructor.
pub(crate) fn at_load(this: &This, path: &[u8], problem: Option<Problem>) {
    if path.is_empty() || path.len() >= MOST_PATH {
        return;
    }
    // SAFETY: only the constructor's thread exists.
    let proof = unsafe { &mut *PROOF.0.get() };
    proof.path[..path.len()].copy_from_slice(path);
    proof.allocator = Some(this.allocator);
    add_exe(&mut proof.exe);

    let (line, pid) = (&mut proof.line, raw::pid());
    let _ = write!(line, "{{\"at\":\"load\",\"pid\":{pid}");
    line.add_bytes(proof.exe.bytes());
    line.add(",\"allocator\":");
    line.add_text(this.allocator.name().as_bytes());
    line.add(",\"version\":\"");
    let _ = this.allocator.write_version(line);
    line.add("\",\"build\":");
    line.add_text(this.build.as_bytes());
    line.add(",\"settings\":{");
    let mut comma = "";
    this.allocator.each_effective(&mut |name, value| {
        line.add(comma);
        line.add_text(name.as_bytes());
        line.add(":");
        line.add_text(value.as_bytes());
        comma = ",";
    });
    line.add("}");
    budget::prove_limit(line);
    if let Some(Problem { part, wanted }) = problem {
        line.add(",\"problem\":");
        line.add_text_of(&[b"ALLOCANARY_PRELOAD: `", part.as_bytes(), b"`: ", wanted.as_bytes()]);
    }
    line.add("}\n");
    append(&proof.path, line);
    handlers::learn();
    PROVEN.store(pid, Ordering::Release);
    // SAFETY: the function runs in a fork's child. glibc has room to register it without an allocation.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// A fork's child writes its own last line.
unsafe extern "C" fn in_child() {
    gave_back::begin_anew();
    allocanary::budget::begin_anew();
    if !sandbox::is_entered() {
        PROVEN.store(raw::pid(), Ordering::Release);
    }
}

/// Writes the last line, once. With `counters` the line has the allocator's counters, unless the calling thread may be in a signal
/// handler: the allocator takes locks for its counters, and the interrupted code may hold them.
#[inline]
pub fn at_exit(counters: bool) {
    let proven = PROVEN.load(Ordering::Acquire);
    if proven != 0 {
        prove_end(proven, counters);
    }
}

fn prove_end(proven: i32, counters: bool) {
    if proven != raw::pid()
        || PROVEN.compare_exchange(proven, 0, Ordering::AcqRel, Ordering::Acquire).is_err()
    {
        return;
    }
    // SAFETY: only the thread that has changed `PROVEN` comes here.
    let proof = unsafe { &mut *PROOF.0.get() };
    let asked = proof.allocator.filter(|_| counters);
    let found = asked.and_then(|allocator| handlers::outside(|| allocator.counters())).unwrap_or_default();
    let line = &mut proof.line;
    line.clear();
    let _ = write!(line, "{{\"at\":\"exit\",\"pid\":{proven}");
    line.add_bytes(proof.exe.bytes());
    line.add_number("allocator_allocated_bytes", found.allocated);
    line.add_number("allocator_active_bytes", found.active);
    line.add_number("allocator_resident_bytes", found.resident);
    line.add_number("allocator_mapped_bytes", found.mapped);
    line.add_number("allocator_metadata_bytes", found.metadata);
    line.add_number("allocator_arenas", found.arenas);
    line.add_number("gave_back", Some(gave_back::times()));
    budget::prove_counts(line);
    line.add("}\n");
    append(&proof.path, line);
}

/// Adds `,"exe":` and the path of the process's program.
pub(crate) fn add_exe(line: &mut JsonLine) {
    line.add(",\"exe\":");
    let mut exe = [0; MOST_PATH];
    // SAFETY: the path ends in NUL, and the kernel writes at most that many bytes.
    let length = unsafe {
        let arguments =
            [libc::AT_FDCWD as usize, c"/proc/self/exe".as_ptr() as usize, exe.as_mut_ptr() as usize, exe.len(), 0, 0];
        raw::call(libc::SYS_readlinkat, arguments)
    };
    line.add_text(&exe[..usize::try_from(length).unwrap_or(0)]);
}

/// Appends a line to the file at a path that ends in NUL.
pub(crate) fn append(path: &[u8], line: &JsonLine) {
    if let Ok(path) = CStr::from_bytes_until_nul(path) {
        raw::append(path, line.bytes()); // an error is ignored: the reader of the proof sees that the line is missing
    }
}
