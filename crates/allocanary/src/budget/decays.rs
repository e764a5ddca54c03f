//! The decay times of an allocator, saved while freed pages are not kept. In: the present time of each arena. Out: the time to set.

/// The maximum number of arenas that are recorded. jemalloc makes four for each processor. An arena beyond the maximum
/// keeps its pages as before.
const ARENAS: usize = 1024;

/// The times before they were set to zero, in milliseconds; -1 means never.
#[derive(Debug)]
pub struct Decays {
    /// The time of arenas that are made later, or of the whole allocator.
    to_come: Option<i64>,
    of: [Option<i64>; ARENAS],
}

impl Decays {
    /// No time is recorded.
    pub const fn new() -> Decays {
        Decays { to_come: None, of: [None; ARENAS] }
    }

    /// Records `now`, the present decay time of arenas that are made later. Returns the decay time to set for them, if
    /// it has to change.
    pub fn stop_to_come(&mut self, now: i64) -> Option<i64> {
        self.to_come = Some(now);
        (now != 0).then_some(0)
    }

    /// Records `now`, the present decay time of an arena. Returns the decay time to set for it, if it has to change.
    pub fn stop(&mut self, arena: usize, now: i64) -> Option<i64> {
        *self.of.get_mut(arena)? = Some(now);
        (now != 0).then_some(0)
    }

    /// The time to restore for arenas that are made later, if one is recorded. `now` is their present time. A time that the
    /// program has set meanwhile stays. Call it before [`again`](Decays::again): an arena that is made later then has the
    /// restored time.
    pub fn again_to_come(&self, now: i64) -> Option<i64> {
        self.to_come.filter(|before| now == 0 && *before != 0)
    }

    /// The time to restore for an arena. `now` is its present time. An arena that was made meanwhile gets the time of new arenas. The arena
    /// of huge blocks (`is_huge`) gets zero, as the allocator sets it, or -1 (never).
    pub fn again(&mut self, arena: usize, now: i64, is_huge: bool) -> Option<i64> {
        let new = self.to_come.map(|millis| if is_huge { millis.min(0) } else { millis });
        let before = self.of.get_mut(arena)?.take().or(new)?;
        (now == 0 && before != 0).then_some(before)
    }
}

impl Default for Decays {
    fn default() -> Decays {
        Decays::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stops decay with these times, then restores it with what `meanwhile` leaves. Returns the times after that: of arenas that are
    /// made later, and of each arena.
    fn around(
        to_come: i64,
        before: &[i64],
        huge: usize,
        meanwhile: impl Fn(&mut i64, &mut Vec<i64>),
    ) -> (i64, Vec<i64>) {
        let (mut decays, mut to_come, mut of) = (Decays::new(), to_come, before.to_vec());
        to_come = decays.stop_to_come(to_come).unwrap_or(to_come);
        for (arena, now) in of.iter_mut().enumerate() {
            *now = decays.stop(arena, *now).unwrap_or(*now);
        }
        assert!(to_come == 0 && of.iter().all(|now| *now == 0), "nothing is kept");
        meanwhile(&mut to_come, &mut of);
        to_come = decays.again_to_come(to_come).unwrap_or(to_come);
        for (arena, now) in of.iter_mut().enumerate() {
            *now = decays.again(arena, *now, arena == huge).unwrap_or(*now);
        }
        (to_come, of)
    }

    #[test]
    fn each_arena_has_its_own_time_again() {
        let before = [10_000, 500, -1, 0];
        assert_eq!(
            around(10_000, &before, 3, |_, _| ()),
            (10_000, before.to_vec()),
            "and the one for huge blocks zero"
        );
    }

    #[test]
    fn a_time_that_was_set_meanwhile_stays() {
        let set = |to_come: &mut i64, of: &mut Vec<i64>| (*to_come, of[1]) = (7, 8);
        assert_eq!(around(10_000, &[10_000, 10_000], 9, set), (7, vec![10_000, 8]));
    }

    #[test]
    fn an_arena_that_was_made_meanwhile_has_the_time_that_it_would_have_had() {
        let made = |_: &mut i64, of: &mut Vec<i64>| of.extend([0, 0]);
        assert_eq!(around(10_000, &[10_000], 2, made).1, [10_000, 10_000, 0]);
        assert_eq!(around(-1, &[-1], 2, made).1, [-1, -1, -1]);
    }

    #[test]
    fn an_arena_without_a_place_is_left_alone_and_no_time_of_the_program_is_undone() {
        let mut decays = Decays::new();
        decays.stop_to_come(10_000);
        assert_eq!((decays.stop(ARENAS, 5), decays.again(ARENAS, 0, false)), (None, None));
        decays.stop(0, 500);
        assert_eq!((decays.again(0, 0, false), decays.again(0, 7, false)), (Some(500), None));
    }
}
