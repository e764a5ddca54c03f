//! The errors for a process whose reading would cost too much, with their texts.

use std::fmt;
use std::time::Duration;

/// The limit that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The reading took more than this time.
    Time(Duration),
    /// The reading took more than this memory, in bytes.
    Memory(u64),
    /// The child could not give up its rights, and has read nothing.
    Rights,
    /// The child ended, or could not be started. The text continues a sentence whose subject is the child.
    Ended(String),
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cost::Time(time) => write!(f, "reading it took more than {} s", time.as_secs_f64()),
            Cost::Memory(bytes) if *bytes < 1 << 20 => write!(f, "reading it took more than {bytes} bytes of memory"),
            Cost::Memory(bytes) => write!(f, "reading it took more than {} MiB of memory", bytes >> 20),
            Cost::Rights => write!(
                f,
                "the child that was to read it could not give up its rights: wanted a kernel with filters of system calls \
                 (CONFIG_SECCOMP_FILTER). {}=1 lets it read with the rights of this command",
                crate::confine::ALLOW
            ),
            Cost::Ended(how) => write!(f, "the child that was to read it {how}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_too_much_is_told() {
        assert_eq!(Cost::Time(Duration::from_millis(2500)).to_string(), "reading it took more than 2.5 s");
        assert_eq!(Cost::Memory(256 << 20).to_string(), "reading it took more than 256 MiB of memory");
        assert_eq!(
            Cost::Ended("ended by signal 11".into()).to_string(),
            "the child that was to read it ended by signal 11"
        );
    }
}
