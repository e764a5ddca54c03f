//! The border to C. In: the results of our code, including panics. Out: a code, the text of the last error, and texts
//! in the caller's buffers.
//!
//! Nothing here allocates, because an error must be reported even if memory is short, and while a thread ends.

use std::cell::RefCell;
use std::ffi::c_char;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use allocanary::tuning;

/// The result of a call. `allocanary_last_error` has the message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // two are for checked builds only, but C's enum is the same in all builds
pub enum AllocanaryCode {
    /// Success.
    Ok = 0,
    /// A pointer is null that must not be null.
    Null = 1,
    /// The function does not take this argument.
    Argument = 2,
    /// This allocator cannot do it.
    Unsupported = 3,
    /// The allocator, or the system, refused.
    Refused = 4,
    /// Settings are invalid, or the allocator did not take them.
    Settings = 5,
    /// The text does not fit the buffer, and was cut.
    Buffer = 6,
    /// The block was freed before. Only a checked build finds this.
    FreedTwice = 7,
    /// The pointer is not a block of this library. Only a checked build finds this.
    Foreign = 8,
    /// The data that were read back differ from those that were written.
    Damaged = 9,
    /// A bug in this library: it panicked, and the panic was caught.
    Panic = 10,
}

/// A code that is not `Ok`, and its message.
pub type Problem<'a> = (AllocanaryCode, fmt::Arguments<'a>);

/// Runs `work` and returns its code. A panic becomes a code too.
pub fn guard(work: impl FnOnce() -> AllocanaryCode) -> AllocanaryCode {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(code) => code,
        Err(payload) => {
            let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
                (Some(text), _) => text,
                (None, Some(text)) => text.as_str(),
                (None, None) => "no message",
            };
            let code = problem((AllocanaryCode::Panic, format_args!("a bug in allocanary: {text}")));
            // The payload is not dropped, because its drop could panic again.
            std::mem::forget(payload);
            code
        }
    }
}

/// Keeps the message of a problem for this thread, and returns its code.
pub fn problem((code, words): Problem) -> AllocanaryCode {
    LAST.with_borrow_mut(|last| {
        last.text.fill(0);
        let mut text = Text::new(&mut last.text);
        // A text that is too long is cut, which is not an error.
        let _ = text.write_fmt(words);
    });
    code
}

/// The code for a result of tuning.
pub fn tuned(result: tuning::Result<()>) -> AllocanaryCode {
    let Err(error) = result else { return AllocanaryCode::Ok };
    let code = match &error {
        tuning::Error::Unsupported { .. } => AllocanaryCode::Unsupported,
        tuning::Error::Settings(_) => AllocanaryCode::Settings,
        _ => AllocanaryCode::Refused,
    };
    problem((code, format_args!("{error}")))
}

/// Reports that the pointer named `name` is null.
pub fn null(name: &str) -> AllocanaryCode {
    problem((AllocanaryCode::Null, format_args!("{name} is null")))
}

/// The message of a thread's last error. It has no destructor, so it exists until the thread is gone.
struct Last {
    text: [u8; 1024],
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { text: [0; 1024] }) };
}

/// The message of the last error of the calling thread; empty without an error. Writes as much of it as fits to `text`,
/// with a NUL at the end. Returns the length of the whole message without the NUL, as snprintf does. `text` may be null
/// if `size` is 0.
///
/// # Safety
///
/// `text` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_last_error(text: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller promises it.
    let Some(buffer) = (unsafe { buffer(text, size) }) else { return 0 };
    LAST.with_borrow(|last| {
        let end = last.text.iter().position(|byte| *byte == 0).unwrap_or(last.text.len());
        let mut text = Text::new(buffer);
        let _ = text.write_str(std::str::from_utf8(&last.text[..end]).unwrap_or_default());
        text.needed
    })
}

/// The caller's buffer, filled with zeros; `None` if the pointer is null although the size is not 0.
///
/// # Safety
///
/// `text` is null or points to `size` bytes. Nothing else uses these bytes while the slice exists.
pub unsafe fn buffer<'a>(text: *mut c_char, size: usize) -> Option<&'a mut [u8]> {
    match (text.is_null(), size) {
        (_, 0) => Some(&mut []),
        (true, _) => None,
        (false, _) => {
            // C's memory may never have been written, so it is filled with zeros first.
            // SAFETY: the caller promises it.
            unsafe { text.write_bytes(0, size) };
            // SAFETY: as above; the bytes are initialised now.
            Some(unsafe { std::slice::from_raw_parts_mut(text.cast::<u8>(), size) })
        }
    }
}

/// Writes as much as fits into a buffer of zeros, keeps a NUL at the end, and counts the length of the whole text.
pub struct Text<'a> {
    buffer: &'a mut [u8],
    filled: usize,
    /// The length of the whole text, whether it fits or not.
    pub needed: usize,
}

impl<'a> Text<'a> {
    /// A text in `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Text { buffer, filled: 0, needed: 0 }
    }

    /// Whether a part was left out.
    pub fn is_cut(&self) -> bool {
        self.filled < self.needed
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buffer.len().saturating_sub(1) - self.filled;
        // After the first cut nothing more is written, because a later piece that fits would be in the wrong place.
        let mut fits = if self.is_cut() { 0 } else { text.len().min(room) };
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        self.buffer[self.filled..self.filled + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.filled += fits;
        self.needed += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        let mut text = [1_u8; 200];
        // SAFETY: the buffer has the given length.
        let length = unsafe { allocanary_last_error(text.as_mut_ptr().cast(), text.len()) };
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_panic_becomes_a_code_and_words() {
        assert_eq!(guard(|| panic!("no {}", "way")), AllocanaryCode::Panic);
        assert_eq!(last_error(), "a bug in allocanary: no way");
        assert_eq!(guard(|| std::panic::panic_any(7)), AllocanaryCode::Panic);
        assert_eq!(last_error(), "a bug in allocanary: no message");
        assert_eq!(guard(|| AllocanaryCode::Ok), AllocanaryCode::Ok);
    }

    #[test]
    fn a_text_is_cut_at_a_letter_and_counted_whole() {
        let mut buffer = [0_u8; 5];
        let mut text = Text::new(&mut buffer);
        text.write_str("abcß").unwrap();
        text.write_str("x").unwrap();
        assert!(text.is_cut());
        assert_eq!(text.needed, 6);
        assert_eq!(&buffer, b"abc\0\0");
        let mut text = Text::new(&mut []);
        write!(text, "abc").unwrap();
        assert!(text.is_cut());
    }

    #[test]
    fn an_error_is_its_threads_own() {
        null("here");
        std::thread::spawn(|| assert_eq!(last_error(), "")).join().unwrap();
        assert_eq!(last_error(), "here is null");
    }
}
