//! The values that Go's runtime has in force. In: a process, and the addresses of its variables. Out: the values.

use std::fs::File;
use std::os::unix::fs::FileExt;

use allocanary_sys::proc::files::{self, path};

/// Addresses of the runtime's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Globals {
    /// The collector's variable. Its first field is `gcPercent`, and the next is `memoryLimit` in releases that have one.
    pub(super) controller: u64,
    /// The variable with the number of threads that run Go code.
    pub(super) procs: u64,
}

/// The values that Go's runtime has in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeMemory {
    /// GOGC in percent. -1 means off.
    pub percent: i32,
    /// GOMEMLIMIT in bytes. The largest number means no limit.
    pub limit: i64,
    /// GOMAXPROCS: the number of threads that run Go code.
    pub procs: i32,
}

impl Globals {
    /// Reads a process; `None` if it may not be read, or if its runtime has not begun.
    pub fn read(&self, pid: u32) -> Option<RuntimeMemory> {
        let memory = File::open(path(pid, files::ProcEntry::Mem)).ok()?;
        let (mut controller, mut procs) = ([0; 16], [0; 4]);
        memory.read_exact_at(&mut controller, self.controller).ok()?;
        memory.read_exact_at(&mut procs, self.procs).ok()?;
        RuntimeMemory::of(&controller, procs)
    }
}

impl RuntimeMemory {
    fn of(controller: &[u8; 16], procs: [u8; 4]) -> Option<RuntimeMemory> {
        let percent = i32::from_ne_bytes(controller[..4].try_into().ok()?);
        let limit = i64::from_ne_bytes(controller[8..].try_into().ok()?);
        let procs = i32::from_ne_bytes(procs);
        (limit > 0 && procs > 0).then_some(RuntimeMemory { percent, limit, procs })
    }

    /// The value of a setting, as the user would write it.
    pub fn value(&self, setting: &str) -> Option<String> {
        match setting {
            "gogc" if self.percent < 0 => Some("off".into()),
            "gogc" => Some(self.percent.to_string()),
            "memlimit" => Some(self.limit.to_string()),
            "maxprocs" => Some(self.procs.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_says_what_it_took_once_it_has_begun() {
        let bytes = |percent: i32, limit: i64| -> [u8; 16] {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&percent.to_ne_bytes());
            bytes[8..].copy_from_slice(&limit.to_ne_bytes());
            bytes
        };
        let taken = RuntimeMemory::of(&bytes(-1, 64 << 20), 2_i32.to_ne_bytes()).unwrap();
        let values = ["gogc", "memlimit", "maxprocs", "xss"].map(|name| taken.value(name));
        assert_eq!(values, [Some("off".into()), Some("67108864".into()), Some("2".into()), None]);
        assert_eq!(
            RuntimeMemory::of(&bytes(100, 1), 1_i32.to_ne_bytes()).unwrap().value("gogc").as_deref(),
            Some("100")
        );
        assert_eq!(RuntimeMemory::of(&bytes(0, 0), [0; 4]), None);
    }
}
