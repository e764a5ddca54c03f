//! A notice in this process's memory that lists the settings which code has given its allocator (`install!`, or a preload). It is a text
//! after a mark. `doctor PID` finds it from outside, without symbols.
//!
//! The first line is `install jemalloc` or `preload jemalloc`. Then there is a line `name=value` for each setting. `refused PART: WANTED`
//! says that a part was invalid, and that therefore none of the settings is in force. The notice does not contain the environment: it takes
//! precedence, and the kernel lets others read it. Writing allocates nothing, and a process without settings does not write to this page.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::request::Value;
use crate::setting::PerCore;

/// The mark before the text.
pub const MARK: [u8; 16] =
    [0xa1, 0x10, 0xca, 0x4a, 0x21, b'i', b'n', b' ', b'f', b'o', b'r', b'c', b'e', 0xf0, 0x9f, 0x1a];
/// The maximum size of a text in bytes. If the text would be longer, it is cut, and the last line is [`CUT`].
pub const MOST: usize = 1000;
/// The last line of a text that was cut.
pub const CUT: &str = "and more\n";

/// The mark, the length of the text in bytes, and the text.
#[repr(C, align(16))]
struct Notice {
    mark: [u8; MARK.len()],
    length: AtomicU32,
    text: [AtomicU8; MOST],
}

static NOTICE: Notice = Notice { mark: MARK, length: AtomicU32::new(0), text: [const { AtomicU8::new(0) }; MOST] };

/// Writes lines of the notice. Runs before the first allocation, in the only thread.
pub struct NoticeWriter(usize);

impl NoticeWriter {
    /// Begins a notice. `by` says where the settings come from: `install` or `preload`.
    #[inline]
    pub fn begin(by: &str, allocator: &str) -> NoticeWriter {
        // Nothing in this process reads the mark. Without this line the compiler may leave it out.
        std::hint::black_box(&NOTICE);
        let mut writer = NoticeWriter(0);
        writer.line(&[by, " ", allocator]);
        writer
    }

    /// Adds each setting, with its value for the CPUs that this process may use. `rule` is the allocator's rule for
    /// `auto`.
    #[inline]
    pub fn settings(&mut self, settings: &[(&str, Value)], rule: Option<&PerCore>) {
        for (name, value) in settings {
            let rule = rule.filter(|rule| rule.setting == *name);
            value.with_text(rule, |value| self.line(&[name, "=", value]));
        }
    }

    /// Adds a line.
    #[inline]
    pub fn line(&mut self, parts: &[&str]) {
        let bytes = || parts.iter().flat_map(|part| part.bytes()).chain(*b"\n");
        if self.0 + bytes().count() + CUT.len() <= MOST {
            self.write(bytes());
        } else if self.0 < MOST {
            self.write(CUT.bytes());
            // Now the notice is full, and later lines are ignored.
            self.0 = MOST;
        }
    }

    #[inline]
    fn write(&mut self, bytes: impl Iterator<Item = u8>) {
        for byte in bytes {
            NOTICE.text[self.0].store(byte, Ordering::Relaxed);
            self.0 += 1;
        }
        // The length is written last, so that a reader never sees half a line.
        NOTICE.length.store(self.0 as u32, Ordering::Release);
    }
}

/// The text of this process's notice; empty if there is none.
pub fn here() -> String {
    let length = NOTICE.length.load(Ordering::Acquire) as usize;
    let bytes = NOTICE.text[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    String::from_utf8(bytes).unwrap_or_default()
}

/// Reads the text of a notice from a piece of another process's memory that begins with the mark. `None` if there is no notice, or if it is
/// damaged.
pub fn parse(bytes: &[u8]) -> Option<&str> {
    let rest = bytes.strip_prefix(&MARK)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let text = rest.get(..length).filter(|text| !text.is_empty() && text.len() <= MOST)?;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test only, because a process has one notice.
    #[test]
    fn settings_are_lines_and_a_text_that_is_too_long_says_so() {
        let mut writer = NoticeWriter::begin("install", "jemalloc");
        let settings = [("tcache", Value::Text("false")), ("narenas", Value::Number(3))];
        writer.settings(&settings, None);
        assert_eq!(here(), "install jemalloc\ntcache=false\nnarenas=3\n");
        for _ in 0..100 {
            writer.line(&["a setting with a long name", "=", "1234567890"]);
        }
        let text = here();
        assert!(text.len() <= MOST && text.ends_with("1234567890\nand more\n"), "{text}");
        assert_eq!(text.matches(CUT).count(), 1);

        // The bytes that another process sees.
        let mut seen = MARK.to_vec();
        seen.extend((text.len() as u32).to_le_bytes());
        seen.extend(text.bytes());
        assert_eq!(parse(&seen), Some(&*text));
        assert_eq!(parse(&seen[1..]), None, "no mark");
        assert_eq!(parse(&seen[..40]), None, "cut");
        assert_eq!(parse(&MARK), None, "no length");
    }
}
