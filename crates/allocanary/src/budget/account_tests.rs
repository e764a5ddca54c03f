use super::*;

/// A process: what it holds, what its allocator keeps, and a clock.
struct Process {
    account: BudgetHistory,
    limit: Option<u64>,
    alive: u64,
    kept: u64,
    /// The block that is about to be used.
    more: u64,
    now: u64,
    /// How long a purge takes.
    dear: u64,
    faults: u64,
    purges: Vec<u64>,
    told: Vec<Level>,
    said: u32,
    everyone: u32,
    keeps: Vec<bool>,
}

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

impl Process {
    fn under(limit: u64) -> Process {
        Process {
            account: BudgetHistory::new(),
            limit: Some(limit * MIB),
            alive: 0,
            kept: 0,
            more: 0,
            now: 100 * SECOND,
            dear: SECOND / 100,
            faults: 0,
            purges: Vec::new(),
            told: Vec::new(),
            said: 0,
            everyone: 0,
            keeps: Vec::new(),
        }
    }

    fn reading(&self) -> BudgetUsage {
        BudgetUsage {
            limit: self.limit,
            used: self.alive + self.kept,
            more: self.more,
            now: self.now,
            took: 10_000,
            faults: self.faults,
        }
    }

    /// Makes a reading a millisecond later, and carries out the orders. Returns the bytes until the next reading.
    fn look(&mut self) -> u64 {
        self.now += SECOND / 1000;
        let mut orders = self.account.look(self.reading());
        if orders.purge {
            self.purges.push((self.alive + self.kept) / MIB);
            self.everyone += u32::from(orders.everyone);
            self.keep(orders.keep_nothing);
            let (began, before) = (self.now, self.alive + self.kept);
            (self.kept, self.now) = (0, self.now + self.dear);
            orders = self.account.purged(began, before, self.reading());
        }
        self.keep(orders.keep_nothing);
        self.told.extend(orders.tell);
        self.said += u32::from(orders.say);
        orders.next
    }

    fn keep(&mut self, order: Option<bool>) {
        if let Some(nothing) = order {
            self.keeps.push(nothing);
            self.account.keeps(nothing);
        }
    }

    /// Lets enough time pass for a full purse.
    fn rest(&mut self) {
        self.now += 25 * SECOND;
    }

    /// Reads before a block of `block` MiB is used.
    fn before(&mut self, block: u64) -> u64 {
        self.more = block * MIB;
        let next = self.look();
        self.more = 0;
        next
    }

    /// Reads with this many MiB alive and kept.
    fn at(&mut self, alive: u64, kept: u64) -> u64 {
        (self.alive, self.kept) = (alive * MIB, kept * MIB);
        self.look()
    }
}

#[test]
fn kept_pages_go_back_at_80_percent_and_nothing_happens_below() {
    let mut process = Process::under(1000);
    process.at(100, 690);
    assert_eq!((process.purges.len(), process.account.told()), (0, Level::Calm));
    process.at(100, 700);
    assert_eq!(process.purges, [800]);
    assert_eq!((process.everyone, &process.told[..], process.said), (0, &[][..], 0), "what was kept was all");
    assert_eq!(process.account.told(), Level::Calm);
    process.rest();
    process.at(100, 700);
    assert_eq!(process.purges, [800, 800], "and again, when it was calm meanwhile");
}

#[test]
fn at_90_percent_every_thread_gives_back_and_below_70_the_old_settings_return() {
    let mut process = Process::under(1000);
    process.at(750, 150);
    assert_eq!((process.everyone, &process.keeps[..], &process.told[..]), (1, &[true][..], &[][..]));
    process.at(700, 0);
    assert_eq!(process.keeps, [true], "70 % is not below 70 %");
    process.at(799, 0);
    assert_eq!(process.purges, [900], "it grew, and is below 80 % still");
    process.at(700, 0);
    process.at(699, 0);
    assert_eq!((&process.keeps[..], &process.told[..]), (&[true, false][..], &[][..]));
    process.at(699, 0);
    assert_eq!(process.keeps, [true, false], "once");
}

#[test]
fn at_95_percent_after_the_purge_the_program_is_told_and_a_line_is_said() {
    let mut process = Process::under(1000);
    process.at(900, 60);
    assert_eq!((&process.told[..], process.said), (&[Level::Severe][..], 0), "90 % are left");
    let mut process = Process::under(1000);
    process.at(960, 20);
    assert_eq!((&process.told[..], process.said, process.everyone), (&[Level::Last][..], 1, 1));
}

#[test]
fn each_level_on_the_way_up_purges_once_more() {
    let mut process = Process::under(1000);
    for alive in [810, 905, 955] {
        process.at(alive, 0);
        process.at(alive, 0);
    }
    assert_eq!(process.purges, [810, 905, 955]);
    assert_eq!(process.told, [Level::High, Level::Severe, Level::Last]);
}

#[test]
fn a_limit_below_what_is_alive_is_said_once_and_does_not_spin() {
    let mut process = Process::under(100);
    let mut next = 0;
    for _ in 0..1000 {
        next = process.at(300, 0);
        process.now += SECOND;
    }
    assert_eq!((&process.purges[..], process.said), (&[300][..], 1));
    assert!(next >= 100 * MIB / 512, "{next}");
    // The process grows by 300 MiB in small steps: there is one purge for each 2 % of the limit, and no more.
    for more in 0..300 {
        process.at(300 + more, 0);
        process.now += SECOND;
    }
    assert!((140..=151).contains(&process.purges.len()), "{}", process.purges.len());
    assert_eq!(process.said, 1);
}

/// A process that was purged at 81 % of its limit. The purge took more time than the purse has.
fn that_owes() -> Process {
    let mut process = Process::under(1000);
    process.dear = SECOND / 2;
    process.at(810, 0);
    process.dear = SECOND / 100;
    process
}

#[test]
fn what_is_owed_puts_a_purge_off_until_the_edge() {
    let mut process = that_owes();
    process.at(810, 40);
    process.at(810, 89);
    assert_eq!(process.purges, [810], "put off");
    assert_eq!(
        (&process.told[..], process.said),
        (&[Level::High][..], 0),
        "and not told, as it may not be so after a purge"
    );
    process.at(810, 160);
    assert_eq!((&process.purges[..], process.everyone), (&[810, 970][..], 1), "what was given back there was much");
    process.at(810, 80);
    process.at(810, 160);
    assert_eq!(process.purges, [810, 970, 970], "and keeps the process alive, whatever it costs");
    process.rest();
    process.at(810, 40);
    assert_eq!(process.purges, [810, 970, 970, 850]);
}

#[test]
fn at_the_edge_two_purges_in_vain_are_followed_by_those_that_are_earned() {
    let mut process = that_owes();
    let began = process.now;
    for round in 0..10_000 {
        process.now += SECOND / 100;
        process.at(if round % 2 == 0 { 950 } else { 990 }, 1);
    }
    let seconds = (process.now - began) / SECOND;
    // The purse earns a purge of 10 ms in 200 ms.
    let most = 2 + 5 * seconds;
    let purges = process.purges.len() as u64;
    assert!((most / 4..=most + 10).contains(&purges), "{purges} in {seconds} s");
}

#[test]
fn purges_in_vain_are_forgotten_when_it_was_calm_meanwhile() {
    let mut process = that_owes();
    process.at(900, 1);
    process.at(925, 1);
    assert_eq!(process.purges, [810, 901], "both were in vain");
    process.at(300, 0);
    process.at(300, 610);
    assert_eq!(process.purges, [810, 901, 910]);
}

#[test]
fn a_limit_that_is_passed_is_none_for_which_any_cost_is_paid() {
    let mut process = that_owes();
    process.at(810, 160);
    assert_eq!(process.purges, [810, 970]);
    process.at(810, 191);
    for _ in 0..100 {
        process.at(810, 0);
        process.at(810, 180);
    }
    assert!(process.purges.len() <= 4, "{:?}", process.purges);
    process.at(100, 0);
    process.rest();
    process.at(810, 170);
    assert_eq!(process.purges.last(), Some(&980));
}

#[test]
fn freed_pages_are_kept_again_when_their_page_faults_are_not_earned() {
    let mut process = Process::under(1000);
    process.at(700, 200);
    assert_eq!(process.keeps, [true]);
    for _ in 0..20_000 {
        process.now += SECOND / 1000;
        // While freed pages are not kept, the process has a page fault each microsecond.
        process.faults += if process.keeps.last() == Some(&true) { 1000 } else { 0 };
        process.at(760, if process.keeps.last() == Some(&true) { 0 } else { 150 });
    }
    assert!(process.faults < 450_000, "5 % of 42 seconds: {}", process.faults);
    assert_eq!(process.keeps, [true, false]);
    process.at(100, 0);
    process.rest();
    process.at(700, 200);
    assert_eq!(process.keeps, [true, false, true]);
}

#[test]
fn readings_that_come_close_together_are_set_apart() {
    let mut process = Process::under(1000);
    let fewest = 1000 * MIB / 512;
    assert_eq!(process.at(799, 0), fewest);
    // Each reading takes 10 us, but the program has allocated the bytes between two readings after 1 us.
    let mut next = 0;
    for _ in 0..10 {
        process.now -= SECOND / 1000 - 1000;
        next = process.look();
    }
    assert_eq!(next, 8 * fewest);
    process.now += SECOND;
    assert_eq!(process.look(), fewest);
}

#[test]
fn a_limit_that_changes_counts_from_the_next_reading() {
    let mut process = Process::under(1000);
    process.at(500, 200);
    process.limit = Some(600 * MIB);
    process.look();
    assert_eq!((&process.purges[..], process.account.told()), (&[700][..], Level::High));
    process.limit = Some(500 * MIB);
    process.look();
    process.look();
    assert_eq!((&process.purges[..], process.said, process.account.told()), (&[700, 500][..], 1, Level::Last));
    process.limit = Some(400 * MIB);
    process.now += 61 * SECOND;
    process.look();
    assert_eq!(process.said, 2, "it is another limit");
    process.limit = Some(4000 * MIB);
    process.look();
    assert_eq!((process.account.told(), process.told.last()), (Level::Calm, Some(&Level::Calm)));
    process.limit = None;
    assert_eq!((process.look(), process.account.limit()), (MOST, 0));
    assert_eq!(process.keeps, [true, false]);
}

#[test]
fn without_a_limit_nothing_is_done_and_readings_go_on() {
    let mut process = Process::under(0);
    for limit in [None, Some(0)] {
        process.limit = limit;
        assert_eq!(process.at(900, 900), MOST);
    }
    process.limit = Some(1000 * MIB);
    process.look();
    assert_eq!(process.purges, [1800], "one that came later is seen");
}

#[test]
fn lines_are_a_minute_apart() {
    let mut process = Process::under(1000);
    for _ in 0..10 {
        process.at(960, 0);
        process.at(100, 0);
        process.now += 10 * SECOND;
    }
    assert_eq!((process.said, process.purges.len()), (2, 10));
}

#[test]
fn readings_come_closer_together_towards_a_level_and_no_burst_passes_one() {
    let mut process = Process::under(1000);
    assert_eq!([process.at(0, 0), process.at(700, 0), process.at(780, 0)], [MOST, 50 * MIB, 10 * MIB]);
    assert_eq!(process.at(799, 0), 1000 * MIB / 512);
    // The process allocates and touches as much as it may before each reading.
    let mut process = Process::under(1000);
    let (mut used, mut looks) = (0, 0);
    while used < 1000 * MIB {
        (process.alive, process.kept) = (0, used);
        let before = process.purges.len();
        let next = process.look();
        looks += 1;
        if process.purges.len() > before {
            break;
        }
        used += next;
    }
    assert!(process.purges[0] <= 803 && looks < 40, "{:?} after {looks} readings", process.purges);
    assert_eq!(Process::under(1).at(0, 0), 419_430, "half of 80 % of a MiB");
}

#[test]
fn a_large_block_that_is_freed_again_does_not_switch_the_budget_off() {
    let mut process = Process::under(1000);
    process.at(720, 0);
    process.before(300);
    assert_eq!(process.purges, [720], "before the block is used");
    process.at(720, 0);
    process.at(720, 270);
    assert_eq!(process.purges, [720, 990], "it grew by kept pages");
    // A block that is used, and freed after the purge, has the same effect.
    let mut process = Process::under(1000);
    process.at(1020, 0);
    process.at(720, 0);
    process.rest();
    process.at(720, 80);
    assert_eq!(process.purges, [1020, 800]);
}

#[test]
fn a_purge_counts_from_the_least_in_use_since() {
    let mut process = Process::under(1000);
    process.dear = 0;
    for (alive, kept) in [(880, 0), (800, 0), (800, 30)] {
        process.at(alive, kept);
    }
    assert_eq!(process.purges, [880, 830], "below what was in use after the last purge, and 3 % of it are kept");
}

#[test]
fn a_block_that_is_not_touched_makes_a_purge_due_and_is_not_told_of() {
    let mut process = Process::under(1000);
    process.at(100, 400);
    process.before(460);
    assert_eq!((&process.purges[..], process.said, &process.told[..]), (&[500][..], 0, &[][..]));
    process.at(100, 0);
    process.before(1000);
    assert_eq!((process.said, &process.told[..]), (0, &[][..]), "a reservation of all there is");
    process.rest();
    process.at(960, 0);
    assert_eq!((process.said, &process.told[..]), (1, &[Level::Last][..]), "what is touched is");
}

#[test]
fn a_block_above_the_limit_makes_no_purge_due_and_the_next_reading_comes_soon() {
    let mut process = Process::under(1000);
    process.at(100, 400);
    assert_eq!(process.before(1001), 1000 * MIB / 512, "it may be touched");
    process.before(1 << 43);
    process.more = u64::MAX;
    assert_eq!(process.look(), 1000 * MIB / 512);
    assert_eq!((process.purges.len(), process.keeps.len(), process.account.told()), (0, 0, Level::Calm));
}

#[test]
fn a_purge_without_a_reading_after_it_is_not_repeated_and_says_nothing() {
    let mut process = Process::under(1000);
    process.alive = 960 * MIB;
    assert!(process.account.look(process.reading()).purge);
    let orders = process.account.purged_unread(process.now, process.reading());
    assert_eq!((orders.say, orders.tell, orders.keep_nothing), (false, None, None));
    assert_eq!((process.account.limit(), process.account.told()), (1000 * MIB, Level::Calm));
    process.look();
    assert_eq!((process.purges.len(), process.account.told()), (0, Level::Last), "in vain, as far as is known");
}
