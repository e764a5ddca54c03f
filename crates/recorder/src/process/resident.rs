//! The program's resident memory. In: the kernel's text. Out: the KiB of the program, without those of the recorder.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::{Process, SAMPLE_NS};
use crate::clocks::ticks_and_nanos;
use crate::stacks;
use allocanary_trace::format::at;

impl Process {
    /// Reads RssAnon in KiB, if it is time, and updates the header's clock. It makes system calls, so the caller must call it within
    /// `undisturbed`.
    pub(crate) fn sample(&self, now: u64) -> Option<u64> {
        if !self.is_due(now) || self.sampling.swap(1, SeqCst) != 0 {
            return None;
        }
        Some(self.read_resident())
    }

    fn read_resident(&self) -> u64 {
        let (now, monotonic) = ticks_and_nanos();
        self.long(at::LAST_TICKS).store(now, Relaxed);
        self.long(at::LAST_MONOTONIC).store(monotonic, Relaxed);
        let ticks = now.saturating_sub(self.long(at::START_TICKS).load(Relaxed));
        let nanos = monotonic.saturating_sub(self.long(at::START_MONOTONIC).load(Relaxed));
        if nanos > 1_000_000 {
            let wanted = u128::from(SAMPLE_NS) * u128::from(ticks) / u128::from(nanos);
            self.sample_ticks.store(wanted.min(1 << 40) as u64, Relaxed);
        }
        // SAFETY: `sampling` has made this thread the only one.
        let text = unsafe { &mut *self.text.0.get() };
        let length = allocanary_sys::sys::read_once(c"/proc/self/status", text);
        let own = (self.own_bytes.load(Relaxed) + stacks::own_bytes(self)) >> 10;
        let (kib, most) = anonymous(&text[..length], own, &self.most_apart);
        self.long(at::RESIDENT).store(kib << 10, Relaxed);
        self.long(at::MOST_RESIDENT).fetch_max(most << 10, Relaxed);
        self.next_sample.store(now + self.sample_ticks.load(Relaxed).max(1), Relaxed);
        self.sampling.store(0, SeqCst);
        kib
    }
}

/// The program's RssAnon now, and the most that it has had, in KiB, from the text of `/proc/self/status`.
///
/// Between two readings a process may have more. The kernel keeps the process's highest resident memory. This value also contains files,
/// shared memory and the recorder's `own` memory. So the largest sum of these three at any reading, `most_apart`, is subtracted.
fn anonymous(status: &[u8], own: u64, most_apart: &AtomicU64) -> (u64, u64) {
    let line = |key: &[u8]| allocanary_sys::sys::line_number(status, key).unwrap_or(0);
    let anonymous = line(b"RssAnon:");
    let apart = line(b"VmRSS:").saturating_sub(anonymous) + own;
    let apart = most_apart.fetch_max(apart, Relaxed).max(apart);
    let now = anonymous.saturating_sub(own);
    (now, now.max(line(b"VmHWM:").saturating_sub(apart)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_between_two_readings_counts_without_what_is_not_the_program_s() {
        let apart = AtomicU64::new(0);
        let read = |most: u64, rss: u64, anonymous: u64, own| {
            let status = format!("VmHWM:\t{most} kB\nVmRSS:\t{rss} kB\nRssAnon:\t{anonymous} kB\n");
            super::anonymous(status.as_bytes(), own, &apart)
        };
        assert_eq!(read(100, 100, 90, 5), (85, 85));
        assert_eq!(read(150, 100, 90, 5), (85, 135), "10 of files and 5 of its own were in the 150");
        assert_eq!(read(150, 120, 90, 5), (85, 115), "files may have had 30 then");
        assert_eq!(read(150, 100, 90, 5), (85, 115), "and that is remembered");
        assert_eq!(super::anonymous(b"", 5, &apart), (0, 0));
    }
}
