//! Compares the resident pages of a reading with the kernel's count. They differ if memory moved during the reading, as `mremap` moves it,
//! or if the process has memory without page states.

use allocanary_sys::sys::page_bytes;

use crate::{KernelCounts, Reading};

/// The resident bytes may differ from the kernel's count by 1 / `PART`, plus `FEW`. Kernels before 6.17 can also have up to 64 pages for
/// each processor that are not counted yet.
const PART: u64 = 50;
const FEW: u64 = 4 << 20;
const OF_A_PROCESSOR: u64 = 64;

/// By how many bytes a reading may differ from a count.
fn may(count: u64) -> u64 {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    count / PART + FEW.max(processors * OF_A_PROCESSOR * page_bytes())
}

/// The problem, if the pages do not agree with what the kernel counted at the same time.
pub(crate) fn apart(reading: &Reading, kernel: [KernelCounts; 2]) -> Option<String> {
    let counts = kernel.map(|kernel| kernel.resident);
    let (least, most) = (counts[0].min(counts[1]), counts[0].max(counts[1]));
    let fits = reading.resident + may(least) >= least && reading.resident <= most + may(most);
    (!fits).then(|| {
        format!(
            "its pages are {} bytes, and the kernel counted {least} to {most} while they were read: it changed, or has memory of another kind; \
             wanted a difference of less than 2 %",
            reading.resident
        )
    })
}

impl Reading {
    /// By how many bytes its pages differ from the kernel's count.
    pub fn is_apart_by(&self) -> u64 {
        self.resident.abs_diff(self.kernel.resident)
    }

    /// Whether the difference is more than 2 % and a few MiB. Then the parts are not from one moment.
    pub fn is_apart(&self) -> bool {
        self.is_apart_by() > may(self.kernel.resident)
    }

    /// The resident bytes of the process: the sum of its pages, or the kernel's count if the two differ too much.
    pub fn counted_resident(&self) -> u64 {
        if self.is_apart() { self.kernel.resident } else { self.resident }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadMode, take};

    #[test]
    fn pages_that_were_missed_are_noticed_and_the_kernel_s_count_is_told() {
        let idle = allocanary_testing::programs::Running::idle();
        let mut reading = take(idle.pid(), ReadMode::Running, std::time::Duration::MAX).unwrap();
        reading.kernel.resident = 200 << 20;
        for (resident, is_apart) in [(200, false), (197, false), (160, true), (240, true)] {
            reading.resident = resident << 20;
            let counted = if is_apart { 200 } else { resident };
            assert_eq!((reading.is_apart(), reading.counted_resident()), (is_apart, counted << 20), "{resident}");
            assert_eq!(apart(&reading, [reading.kernel; 2]).is_some(), is_apart);
        }
    }
}
