//! Other work of the machine while a cell ran. In: /proc and the control group, before and after. Out: a few numbers in
//! the cell's row. From these a report says how reliable its figures are.

use std::fs;

use serde::{Deserialize, Serialize};

use allocanary_sys::cgroups::{ControlGroups, Controller, GroupFolder};
use allocanary_sys::container::Cpus;
use allocanary_sys::sys::{first_number, line_number};

/// The machine's other work around one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Other tasks that ran or waited for a CPU when the cell was started.
    pub runnable: u32,
    /// The load average of the last minute at that time. It includes the study's own cells.
    pub average: f64,
    /// CPUs available to this process. A quota counts.
    pub cpus: u32,
    /// Steal time: CPU time that the hypervisor gave to others while the cell ran, over all CPUs, in milliseconds.
    pub stolen_ms: u64,
    /// Time for which the control group, or one above it, was throttled by its quota while the cell ran, in microseconds.
    pub throttled_us: u64,
}

impl Load {
    /// The present state, with the counters since the machine's start: see [`Load::until_now`].
    pub fn now() -> Load {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (average, runnable) = load_average(&read("/proc/loadavg")).unwrap_or_default();
        Load {
            runnable,
            average,
            cpus: Cpus::here().count(),
            stolen_ms: stolen_ms(&read("/proc/stat")),
            throttled_us: throttled_us(ControlGroups::own(&mut [0; 4096])),
        }
    }

    /// This reading, with the counters replaced by their increase until now.
    pub fn until_now(self) -> Load {
        self.until(Load::now())
    }

    fn until(self, now: Load) -> Load {
        Load {
            stolen_ms: now.stolen_ms.saturating_sub(self.stolen_ms),
            throttled_us: now.throttled_us.saturating_sub(self.throttled_us),
            ..self
        }
    }
}

/// The load average and the number of running tasks without the calling one, from `0.20 0.18 0.12 1/80 11206`.
fn load_average(text: &str) -> Option<(f64, u32)> {
    let mut words = text.split_whitespace();
    let average = words.next()?.parse().ok()?;
    let running: u32 = words.nth(2)?.split('/').next()?.parse().ok()?;
    Some((average, running.saturating_sub(1)))
}

/// The eighth number of the line `cpu` in /proc/stat, in ticks of 10 ms (USER_HZ is 100 on every supported target).
fn stolen_ms(stat: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks = line.and_then(|line| first_number(line.split_whitespace().nth(7)?.as_bytes()));
    ticks.unwrap_or(0) * 10
}

/// The throttled time in `cpu.stat` of the group that was throttled most, from the process's own up to the root, in
/// microseconds.
fn throttled_us(groups: ControlGroups) -> u64 {
    let throttled = |group: GroupFolder| {
        let (key, unit) = if group.is_v2 { (&b"throttled_usec "[..], 1) } else { (&b"throttled_time "[..], 1000) };
        Some(line_number(group.read("cpu.stat", &mut [0; 1024]).ok()?, key)? / unit)
    };
    groups.of(Controller::Cpu).filter_map(throttled).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(load_average("30.25 18.00 9.12 31/412 11206\n"), Some((30.25, 30)));
        assert_eq!(load_average("garbage"), None);
        assert_eq!(stolen_ms("cpu  100 2 30 4000 5 0 6 70 0 0\ncpu0 1 1 1 1 1 1 1 1\n"), 700);
        assert_eq!(stolen_ms(""), 0);
    }

    #[test]
    fn the_group_that_is_throttled_most_counts_in_either_version() {
        let found = |listed: &str, files: &[(&str, &str)]| {
            let mount = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = mount.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            throttled_us(ControlGroups::new(listed, mount.path().to_str().unwrap()))
        };
        let text = "usage_usec 9\nthrottled_usec 1234\n";
        assert_eq!(found("0::/a/b\n", &[("a/b/cpu.stat", text)]), 1234);
        assert_eq!(found("0::/a/b\n", &[("a/b/cpu.stat", "throttled_usec 5\n"), ("a/cpu.stat", text)]), 1234);
        assert_eq!(found("0::/host/path\n", &[("cpu.stat", text)]), 1234);
        let text = "nr_throttled 2\nthrottled_time 5000\n";
        assert_eq!(found("3:cpu,cpuacct:/x\n0::/\n", &[("cpu/x/cpu.stat", text)]), 5);
        assert_eq!(found("0::/\n", &[]), 0);
    }

    #[test]
    fn counters_are_told_by_what_they_grew() {
        let before = Load { runnable: 3, average: 1.5, cpus: 2, stolen_ms: 100, throttled_us: 40 };
        let later = Load { runnable: 9, average: 4.0, cpus: 4, stolen_ms: 170, throttled_us: 45 };
        assert_eq!(before.until(later), Load { stolen_ms: 70, throttled_us: 5, ..before });
        // A control group that the process was moved to counts from zero.
        assert_eq!(later.until(before), Load { stolen_ms: 0, throttled_us: 0, ..later });
        assert!(Load::now().until_now().cpus >= 1);
    }
}
