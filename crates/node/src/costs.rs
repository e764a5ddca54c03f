//! What the agent costs. In: the kernel's CPU clocks of this process and of its children. Out: CPU time by kind of work, which never
//! decreases.

use std::time::Duration;

use allocanary_sys::clocks::thread_cpu_time;
use allocanary_sys::proc::files::{ProcEntry, path};
use allocanary_sys::proc::stat::time;
use allocanary_sys::proc::{ProcStatus, Stat};
use allocanary_sys::sys::{first_number, read_whole, usage};

/// The CPU times that the kernel has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The CPU time of this process, with all its threads.
    pub own: Duration,
    /// The CPU time of the thread that counts processes and has heaps read.
    pub thread: Duration,
    /// The CPU time of all children: those that have ended, and the running one.
    pub children: Duration,
}

impl Clock {
    /// The CPU times so far: of this process, its ended children, and the running child, if any.
    pub fn now(child: Option<u32>) -> Clock {
        let own = usage();
        let ended = Stat::own()
            .map_or(Duration::ZERO, |stat| time(stat.user_of_children.saturating_add(stat.system_of_children)));
        let present = child.map_or(Duration::ZERO, |pid| {
            // The time is in nanoseconds if the kernel counts them, and otherwise in ticks.
            match read_whole(path(pid, ProcEntry::Schedstat)).ok().and_then(|text| first_number(&text)) {
                Some(nanos) if nanos > 0 => Duration::from_nanos(nanos),
                _ => Stat::of(pid).map_or(Duration::ZERO, |stat| time(stat.user.saturating_add(stat.system))),
            }
        });
        Clock {
            own: Duration::from_micros(own.user_us + own.system_us),
            thread: thread_cpu_time(),
            children: ended + present,
        }
    }
}

/// The resident bytes of a process. 0 if it has ended.
pub fn resident(status: std::io::Result<ProcStatus>) -> u64 {
    status.ok().and_then(|status| status.all_resident()).unwrap_or(0)
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Counting all processes.
    Count,
    /// Reading a heap.
    Walk,
    /// Reading a profile for whoever asks.
    Profile,
}

/// The CPU time since the start, by kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    at: Clock,
    /// Of counting processes.
    pub counts: Duration,
    /// Of reading heaps.
    pub walks: Duration,
    /// Of reading profiles.
    pub profiles: Duration,
    /// Of everything else: serving pages, asking the kubelet, and the start.
    pub rest: Duration,
}

impl Costs {
    /// Charges the CPU time since the last look. If `work` is given, the time of the thread and of the children counts as this work. A
    /// clock that goes back costs nothing: that of an ended child may go back by a tick.
    pub fn look(&mut self, now: Clock, work: Option<Work>) {
        let since = |now: Duration, then: Duration| now.saturating_sub(then);
        let (own, thread) = (since(now.own, self.at.own), since(now.thread, self.at.thread));
        let children = since(now.children, self.at.children);
        let (worked, other) = match work {
            Some(_) => (thread + children, own.saturating_sub(thread)),
            None => (Duration::ZERO, own + children),
        };
        match work {
            Some(Work::Count) => self.counts += worked,
            Some(Work::Walk) => self.walks += worked,
            Some(Work::Profile) => self.profiles += worked,
            None => {}
        }
        self.rest += other;
        self.at = Clock {
            own: now.own.max(self.at.own),
            thread: now.thread.max(self.at.thread),
            children: now.children.max(self.at.children),
        };
    }

    /// All but the cost of profiles, which have a budget of their own.
    pub fn without_profiles(&self) -> Duration {
        self.counts + self.walks + self.rest
    }

    /// The sum of all kinds of work.
    pub fn all(&self) -> Duration {
        self.without_profiles() + self.profiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(own: u64, thread: u64, children: u64) -> Clock {
        let [own, thread, children] = [own, thread, children].map(Duration::from_millis);
        Clock { own, thread, children }
    }

    fn told(costs: &Costs) -> [u128; 4] {
        [costs.counts, costs.walks, costs.rest, costs.all()].map(|one| one.as_millis())
    }

    #[test]
    fn each_kind_of_work_has_its_time_and_they_add_up_to_all() {
        let mut costs = Costs::default();
        costs.look(clock(5, 3, 0), None);
        assert_eq!(told(&costs), [0, 0, 5, 5], "the start");
        costs.look(clock(9, 6, 20), Some(Work::Count));
        assert_eq!(told(&costs), [23, 0, 6, 29], "another thread has served a page meanwhile");
        costs.look(clock(10, 7, 70), Some(Work::Walk));
        assert_eq!(told(&costs), [23, 51, 6, 80]);
    }

    #[test]
    fn a_child_that_goes_on_after_a_failure_or_is_replaced_is_not_counted_twice() {
        let mut costs = Costs::default();
        costs.look(clock(0, 0, 400), Some(Work::Walk));
        // It answered with an error, and goes on.
        costs.look(clock(0, 0, 450), Some(Work::Walk));
        // It was killed: its time is told in whole ticks, and the next one has begun.
        costs.look(clock(0, 0, 441), Some(Work::Walk));
        costs.look(clock(0, 0, 460), Some(Work::Walk));
        assert_eq!(told(&costs), [0, 460, 0, 460]);
    }

    #[test]
    fn no_kind_goes_back() {
        let mut costs = Costs::default();
        let mut last = told(&costs);
        for (at, work) in [None, Some(Work::Count), None, Some(Work::Walk), Some(Work::Count)].into_iter().enumerate() {
            let at = at as u64;
            costs.look(clock(at * 3 % 7, at * 5 % 7, at * 4 % 9), work);
            let now = told(&costs);
            assert!(now.iter().zip(last).all(|(now, last)| *now >= last), "{now:?} after {last:?}");
            last = now;
        }
    }

    #[test]
    fn this_process_has_a_clock() {
        let clock = Clock::now(Some(std::process::id()));
        assert!(clock.own > Duration::ZERO && clock.children >= clock.thread, "{clock:?}");
    }
}
