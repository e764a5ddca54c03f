//! The state of each page in the kernel, as runs of pages with one state, in the order of their addresses.

/// The bytes of the smallest page of all machines. Those of others are multiples of it ([`Machine`](crate::Machine)).
pub const PAGE: u64 = 4096;

/// The state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// In memory and counted as resident, but neither `OfFile` nor `Huge`.
    Resident,
    /// In memory and counted as resident: a page of a private file mapping to which the process has not written.
    OfFile,
    /// In memory as a part of a huge page, and counted as resident.
    Huge,
    /// The kernel's shared page of zeroes: the process has read the page and never written to it. Not counted as resident.
    Zero,
    /// Full of zeroes: either the shared page of zeroes or a resident page. Kernels before 6.7 do not say which.
    Unclear,
    /// In swap. Reading it would load it back into memory.
    Swapped,
    /// A guard page that the program has made (`MADV_GUARD_INSTALL`). It has no memory, and cannot be read.
    Guard,
}

impl PageState {
    /// Whether the kernel counts the page as resident.
    pub fn is_resident(self) -> bool {
        matches!(self, PageState::Resident | PageState::OfFile | PageState::Huge)
    }

    /// Whether the page may be read. A page in swap may not, since the read would load it back into memory. A guard page cannot.
    pub fn may_be_read(self) -> bool {
        !matches!(self, PageState::Swapped | PageState::Guard)
    }
}

/// A run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Its first address.
    pub from: u64,
    /// The first address after it.
    pub to: u64,
    /// The state of all its pages.
    pub state: PageState,
}

/// The pages of a process, as runs of the same state. A page that is in no run was never touched, or has been given back.
#[derive(Clone, Debug, Default)]
pub struct PageStates(Vec<PageRun>);

impl PageStates {
    /// Appends a run. It is ignored if it is empty, or begins before the end of the last run.
    pub fn push(&mut self, run: PageRun) {
        let end = self.0.last().map_or(0, |last| last.to);
        if run.from < end || run.from >= run.to {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.to == run.from && last.state == run.state => last.to = run.to,
            _ => self.0.push(run),
        }
    }

    /// These runs and the others together. Where both have pages, the others are ignored.
    pub fn with(self, others: PageStates) -> PageStates {
        let mut all = self.0;
        all.extend(others.0);
        // The sort is stable: of two runs with the same begin, the one of `self` comes first.
        all.sort_by_key(|run| run.from);
        let mut pages = PageStates::default();
        all.into_iter().for_each(|run| pages.push(run));
        pages
    }

    /// The state of the page with this address.
    pub fn state(&self, at: u64) -> Option<PageState> {
        let after = self.0.partition_point(|run| run.from <= at);
        self.0[..after].last().filter(|run| at < run.to).map(|run| run.state)
    }

    /// The runs that overlap a range, cut to it.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = PageRun> + '_ {
        let first = self.0.partition_point(|run| run.to <= from);
        self.0[first..].iter().take_while(move |run| run.from < to).map(move |run| PageRun {
            from: run.from.max(from),
            to: run.to.min(to),
            state: run.state,
        })
    }

    /// The bytes of a range that count as resident.
    pub fn resident(&self, from: u64, to: u64) -> u64 {
        self.within(from, to).filter(|run| run.state.is_resident()).map(|run| run.to - run.from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> PageStates {
        let mut pages = PageStates::default();
        for (from, to, state) in [
            (1, 3, PageState::Resident),
            (3, 4, PageState::Resident),
            (6, 7, PageState::Zero),
            (7, 9, PageState::Swapped),
        ] {
            pages.push(PageRun { from: from * PAGE, to: to * PAGE, state });
        }
        pages
    }

    #[test]
    fn equal_neighbours_are_one_run_and_holes_have_no_state() {
        let pages = pages();
        assert_eq!(pages.0.len(), 3);
        assert_eq!(pages.state(3 * PAGE + 5), Some(PageState::Resident));
        assert_eq!(pages.state(5 * PAGE), None);
        assert_eq!(pages.state(8 * PAGE), Some(PageState::Swapped));
    }

    #[test]
    fn zero_and_swapped_pages_are_not_resident() {
        assert_eq!(pages().resident(2 * PAGE, 20 * PAGE), 2 * PAGE);
    }

    #[test]
    fn others_are_put_where_no_page_was() {
        let mut others = PageStates::default();
        for (from, to) in [(4, 6), (9, 10)] {
            others.push(PageRun { from: from * PAGE, to: to * PAGE, state: PageState::Resident });
        }
        let all = pages().with(others);
        let states: Vec<_> = (1..10).map(|page| all.state(page * PAGE)).collect();
        let resident = Some(PageState::Resident);
        let rest = [Some(PageState::Zero), Some(PageState::Swapped), Some(PageState::Swapped), resident];
        assert_eq!(states, [[resident; 5].as_slice(), &rest].concat());
    }

    #[test]
    fn a_run_that_goes_back_is_left_out() {
        let mut pages = pages();
        pages.push(PageRun { from: 0, to: PAGE, state: PageState::Huge });
        assert_eq!(pages.state(0), None);
    }
}
