//! Makes the file of one process: its name, its mapping, its header, and the message if it cannot be made.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;

use allocanary_sys::sys::{longest_file, map_zeroed, unmap, without_write_signals};

use super::ring::RING;
use super::{Process, SAMPLE_NS};
use crate::clocks::{clock, ticks_and_nanos};
use crate::config::Config;
use crate::memory::{errno, populate};
use crate::stacks;
use allocanary_trace::format::{HEADER, MAGIC, STAMP_TICKS, TICK_SHIFT, VERSION, at, parts_of};

/// The shortest file that is useful, in bytes.
const LEAST: u64 = 64 << 10;

/// Buffers that are needed to begin a file. They are not on the stack, because a coroutine's stack may have only 8 KiB.
/// All zeros is the first state.
pub(super) struct Scratch {
    program: [u8; 512],
    path: Text<4096>,
    command: [u8; HEADER - at::COMMAND],
}

impl Scratch {
    /// Calls `work` with new buffers. Returns the system's error if there is no memory.
    pub(super) fn with<R>(work: impl FnOnce(&mut Scratch) -> Result<R, i32>) -> Result<R, i32> {
        let memory = map_zeroed(size_of::<Scratch>()).ok_or(libc::ENOMEM)?;
        // SAFETY: zeros are a valid state, and no other code knows the memory, which is page-aligned.
        let done = work(unsafe { &mut *memory.as_ptr().cast() });
        // SAFETY: nobody uses it any more.
        unsafe { unmap(memory, size_of::<Scratch>()) };
        done
    }
}

/// Creates and maps the file, and writes its header. The error is the system's error number.
pub(super) fn open_file(process: &Process, config: &Config, scratch: &mut Scratch) -> Result<(), i32> {
    // The file is at most as long as the longest file that this process may make. The recording stops there, as at the
    // maximum size.
    let most = config.limit.min(longest_file()) & !4095;
    if most < LEAST {
        return Err(libc::EFBIG);
    }
    let Scratch { program, path, command } = scratch;
    // SAFETY: the kernel writes at most one byte less than the buffer has.
    let length = unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), program.as_mut_ptr().cast(), program.len() - 1) };
    let program = &program[..usize::try_from(length).unwrap_or(0)];
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    // SAFETY: no argument.
    let pid = unsafe { libc::getpid() };
    let mut file = -1;
    // A process that has changed its user may be unable to write where its parent did.
    let folders = [config.folder(), config.others()].into_iter().filter(|folder| !folder.is_empty());
    let mut error = libc::ENOENT;
    for folder in folders {
        for number in 0..10_000 {
            path.clear();
            path.add(folder);
            path.add(b"/");
            path.add(&name[..name.len().min(64)]);
            path.add(b"-");
            path.add_number(pid as u64);
            path.add(b"-");
            path.add_number(number);
            path.add(b".trace");
            // SAFETY: the path ends in NUL.
            file = unsafe {
                let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
                libc::open(path.bytes.as_ptr().cast(), flags, 0o600)
            };
            error = errno();
            if file >= 0 || error != libc::EEXIST {
                break;
            }
        }
        if file >= 0 || error != libc::EACCES {
            break;
        }
    }
    if file < 0 {
        return Err(error);
    }
    let made = map_file(file, most).and_then(|(base, limit)| {
        // SAFETY: the header's page is mapped and ours, and no other thread knows it yet.
        let started = write_header(unsafe { &mut *base.cast() }, config, (program, command), limit);
        take(process, config, base, limit, started)
    });
    made.inspect_err(|_| {
        // SAFETY: the path ends in NUL. The file is ours, and has no event.
        unsafe { libc::unlink(path.bytes.as_ptr().cast()) };
    })
}

/// Maps the whole file that was just made, or as much of it as the limit on address space allows. Returns the place and
/// the length.
fn map_file(file: i32, mut limit: u64) -> Result<(*mut u8, u64), i32> {
    let mut base = libc::MAP_FAILED;
    while base == libc::MAP_FAILED && limit >= LEAST {
        // SAFETY: a new mapping of a file that we just made.
        base = unsafe {
            // The limit may have changed since it was read.
            if without_write_signals(|| libc::ftruncate(file, limit as libc::off_t)) == 0 {
                libc::mmap(null_mut(), limit as usize, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file, 0)
            } else {
                libc::MAP_FAILED
            }
        };
        if base == libc::MAP_FAILED {
            limit = (limit / 4) & !4095;
        }
    }
    let error = errno();
    // SAFETY: our own descriptor; the mapping keeps the file.
    unsafe { libc::close(file) };
    if base == libc::MAP_FAILED {
        return Err(error);
    }
    // SAFETY: our own mapping of that length.
    unsafe { libc::madvise(base, limit as usize, libc::MADV_DONTFORK) };
    // Without this, the first write to a page would also read the disk's whole read-ahead and fill it with zeros. With
    // 8 MiB this took 2 to 15 ms in each process. SAFETY: as above.
    unsafe { libc::madvise(base, limit as usize, libc::MADV_RANDOM) };
    if !populate(base.cast(), HEADER) {
        return Err(errno());
    }
    Ok((base.cast(), limit))
}

/// Makes a mapped file the process's file.
fn take(process: &Process, config: &Config, base: *mut u8, limit: u64, started: u64) -> Result<(), i32> {
    if config.window > 0 && !process.queue.map(limit / RING as u64) {
        return Err(errno());
    }
    let one_in = stacks(config);
    if one_in > 0 && !stacks::begin(process, base) {
        return Err(libc::ENOMEM);
    }
    process.one_in.store(one_in, SeqCst);
    process.base.store(base, SeqCst);
    process.limit.store(limit, SeqCst);
    process.given.store(HEADER as u64, SeqCst);
    process.rate.store(config.rate, SeqCst);
    process.window.store(config.window, SeqCst);
    process.next_sample.store(started, SeqCst);
    // Until the first reading, this is a guess: a counter of 2.5 GHz.
    process.sample_ticks.store((SAMPLE_NS * 5 / 2) >> TICK_SHIFT, SeqCst);
    Ok(())
}

/// The stack of one allocation in this many is recorded; 0 for none.
fn stacks(config: &Config) -> u32 {
    if stacks::are_possible() { config.stacks } else { 0 }
}

/// The host's name, kernel and processor.
fn host() -> Text<256> {
    let mut host = Text::new();
    // SAFETY: all zeros are a valid utsname, and the kernel fills it with texts that end in NUL.
    unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        if libc::uname(&mut names) == 0 {
            for name in [names.nodename.as_ptr(), names.release.as_ptr(), names.machine.as_ptr()] {
                host.add(CStr::from_ptr(name).to_bytes());
                host.add(b" ");
            }
        }
    }
    host
}

/// Writes the header of a new file, whose magic number comes last. Returns the ticks of the file's start.
fn write_header(
    header: &mut [u8; HEADER],
    config: &Config,
    (program, command): (&[u8], &mut [u8; HEADER - at::COMMAND]),
    limit: u64,
) -> u64 {
    let (started, monotonic) = ticks_and_nanos();
    // SAFETY: no argument.
    let (pid, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    let host = host();
    let length = allocanary_sys::sys::read_once(c"/proc/self/cmdline", &mut command[..HEADER - at::COMMAND - 1]);
    let command = &mut command[..length.saturating_sub(1)];
    command.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    let mut put = |offset: usize, bytes: &[u8]| header[offset..offset + bytes.len()].copy_from_slice(bytes);
    let stacks = stacks(config);
    put(at::STAMP_TICKS, &STAMP_TICKS.to_le_bytes());
    put(at::STACKS, &(if config.stacks > 0 { stacks.max(1) } else { 0 }).to_le_bytes());
    put(at::VERSION, &VERSION.to_le_bytes());
    put(at::PARTS, &parts_of(config.window > 0, stacks > 0).to_le_bytes());
    put(12, &(HEADER as u32).to_le_bytes());
    put(at::USED, &(HEADER as u64).to_le_bytes());
    put(at::LIMIT, &limit.to_le_bytes());
    put(at::RATE, &config.rate.to_le_bytes());
    put(at::PID, &pid.to_le_bytes());
    put(at::PARENT, &parent.to_le_bytes());
    put(at::START_TICKS, &started.to_le_bytes());
    put(at::START_MONOTONIC, &monotonic.to_le_bytes());
    put(at::START_WALL, &clock(libc::CLOCK_REALTIME).to_le_bytes());
    put(at::LAST_TICKS, &started.to_le_bytes());
    put(at::LAST_MONOTONIC, &monotonic.to_le_bytes());
    put(at::PAGE, &(allocanary_sys::sys::page_bytes() as u32).to_le_bytes());
    if config.window > 0 {
        put(at::WINDOW, &config.window.to_le_bytes());
        put(at::RING, &(RING as u32).to_le_bytes());
    }
    put(at::ATTACHED, &u32::from(config.is_attached).to_le_bytes());
    // SAFETY: the text is not used after this function.
    let python = unsafe { allocanary_sys::sys::variable(c"PYTHONMALLOC") };
    let is_malloc = python.is_some_and(|python| python == b"malloc" || python == b"malloc_debug");
    put(at::PYTHON_MALLOC, &u32::from(is_malloc).to_le_bytes());
    put(at::PROGRAM, program);
    put(at::HOST, &host.bytes[..host.length]);
    put(at::BUILD, concat!("allocanary ", env!("CARGO_PKG_VERSION")).as_bytes());
    put(at::COMMAND, command);
    put(0, &MAGIC);
    started
}

/// Writes to standard error why nothing is recorded. The text is built here, because the C library's functions may
/// allocate.
pub(super) fn say_why(config: &Config, error: i32, scratch: &mut Scratch) {
    let line = &mut scratch.path;
    line.clear();
    line.add(b"allocanary: ALLOCANARY_RECORD: ");
    line.add(config.folder());
    line.add(b": wanted a folder in which this program may make a file, found: ");
    line.add(match error {
        libc::ENOENT => b"there is no such folder",
        libc::ENOTDIR => b"a part of it is no folder",
        libc::EACCES | libc::EPERM => b"permission denied",
        libc::EROFS => b"the file system is read-only",
        // EFAULT: the kernel could not make a page of a mapped file.
        libc::ENOSPC | libc::EDQUOT | libc::EFAULT => b"there is no space",
        libc::EMFILE | libc::ENFILE => b"too many open files",
        libc::ENOMEM => b"there is no memory",
        libc::EFBIG => b"a limit on the length of files that is below 64 KiB (ulimit -f)",
        _ => b"an error",
    });
    if error == libc::EACCES {
        line.add(b" for user ");
        // SAFETY: no argument.
        line.add_number(u64::from(unsafe { libc::geteuid() }));
    }
    line.add(b" (errno ");
    line.add_number(error as u64);
    line.add(b"). Nothing of process ");
    // SAFETY: no argument.
    line.add_number(unsafe { libc::getpid() } as u64);
    line.add(b" is recorded. ");
    line.add(if error == libc::EFBIG { b"Raise the limit\n" } else { b"Make the folder, or name another\n" });
    // SAFETY: the buffer has this many bytes.
    without_write_signals(|| unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.length) });
}

/// A text that is built on the stack.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    fn new() -> Self {
        Text { bytes: [0; N], length: 0 }
    }

    fn clear(&mut self) {
        self.bytes.fill(0);
        self.length = 0;
    }

    /// Adds as much of the text as fits. The last byte stays 0.
    fn add(&mut self, text: &[u8]) {
        let room = (N - 1 - self.length).min(text.len());
        self.bytes[self.length..self.length + room].copy_from_slice(&text[..room]);
        self.length += room;
    }

    fn add_number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.add(&digits[first..]);
    }
}
