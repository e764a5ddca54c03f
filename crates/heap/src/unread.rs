//! A reading for a process that could not be read. It has only the kernel's counts.

use std::time::{SystemTime, UNIX_EPOCH};

use allocanary_process::status;
use allocanary_sys::proc::ProcStatus;

use crate::{Area, KernelCounts, ProcessSubject, ProcessTrouble, Reading, SCHEMA, Sort};

impl Reading {
    /// Makes a reading from the counts in `/proc/PID/status`. It reads none of the process's memory, and never waits.
    pub fn unread(pid: u32, problem: String) -> Result<Reading, ProcessTrouble> {
        let process = ProcessSubject::of(pid).ok_or(ProcessTrouble::Gone(pid))?;
        let status = status(pid);
        let status = status.map_err(|error| ProcessTrouble::of(pid, "reading what is resident", error))?;
        let taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        Ok(of(process, &status, taken, problem))
    }
}

fn of(process: ProcessSubject, status: &ProcStatus, taken: u64, problem: String) -> Reading {
    let [anonymous, files, shared, reserved] =
        [status.anonymous, status.files, status.shared, status.reserved_huge].map(Option::unwrap_or_default);
    let area = |name: &str, sort, resident| Area {
        name: name.into(),
        sort,
        resident,
        share: None,
        mappings: 0,
        how: "the kernel's count; the mappings were not read".into(),
        tool: String::new(),
        largest: Vec::new(),
    };
    let areas = [
        area("mapped files", Sort::Files, files),
        area("shared memory", Sort::Shared, shared),
        area("reserved huge pages", Sort::Unknown, reserved),
        area("not known", Sort::Unknown, anonymous),
    ];
    let resident = [anonymous, files, shared, reserved].into_iter().fold(0, u64::saturating_add);
    Reading {
        schema: SCHEMA,
        taken,
        process,
        stopped: None,
        resident,
        kernel: KernelCounts { resident, share: None, anonymous, lazy: None, swapped: status.swapped.unwrap_or(0) },
        heaps: Vec::new(),
        areas: areas.into_iter().filter(|area| area.resident > 0).collect(),
        undivided: Vec::new(),
        problems: vec![problem],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_add_up() {
        let status =
            b"Name:\tx\nVmRSS:\t 70 kB\nRssAnon:\t 40 kB\nRssFile:\t 30 kB\nRssShmem:\t 0 kB\nVmSwap:\t 5 kB\nHugetlbPages:\t 2048 kB\n";
        let reading = of(ProcessSubject::default(), &ProcStatus::parse(status), 1, "why".into());
        let sum: u64 = reading.areas.iter().map(|area| area.resident).sum();
        assert_eq!((reading.resident, sum, reading.kernel.swapped), (2118 << 10, 2118 << 10, 5 << 10));
        assert_eq!(
            reading.areas.iter().map(|area| area.name.as_str()).collect::<Vec<_>>(),
            ["mapped files", "reserved huge pages", "not known"]
        );
        assert!(!reading.is_divided() && reading.problems == ["why"]);
        assert!(matches!(Reading::unread(0x3fff_ffff, String::new()), Err(ProcessTrouble::Gone(_))));
    }
}
