//! Finds the moment with the most live bytes, and the pages in which blocks had been until then.

use crate::ever::Ever;

/// Finds each time at which there are more live bytes than ever before.
pub struct PeakFinder {
    /// The last nanosecond at which a peak counts.
    until: u64,
    live: u64,
    most: u64,
    /// The pages in which blocks have been since the peak.
    since: Ever,
}

impl PeakFinder {
    /// Searches until this nanosecond.
    pub fn until(until: u64) -> PeakFinder {
        PeakFinder { until, live: 0, most: 0, since: Ever::default() }
    }

    /// Adds a block. Returns whether this is the peak so far. If it is, `ever` has the pages in which blocks have been until now.
    pub fn added(&mut self, nanos: u64, address: u64, size: u64, ever: &mut Ever) -> bool {
        self.live = self.live.saturating_add(size);
        let is_peak = self.live > self.most && nanos <= self.until;
        if is_peak {
            self.most = self.live;
            ever.join(&mut self.since);
            ever.add(address, size);
        } else {
            self.since.add(address, size);
        }
        is_peak
    }

    /// Removes a block.
    pub fn removed(&mut self, size: u64) {
        self.live = self.live.saturating_sub(size);
    }
}
