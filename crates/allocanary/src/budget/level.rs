//! How much of a limit is in use, in four levels. In: two numbers of bytes, and the previous level. Out: the present level.

/// How near a process is to its memory limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// Nothing is to be done.
    #[default]
    Calm,
    /// 80 % of the limit: the allocator gives back the pages that it keeps.
    High,
    /// 90 %: each thread also gives back what it keeps, and the allocator stops keeping freed pages.
    Severe,
    /// 95 % are in use after everything was given back: the program itself must free memory.
    Last,
}

/// The levels from the highest to the lowest.
const DOWN: [Level; 4] = [Level::Last, Level::Severe, Level::High, Level::Calm];

/// A level ends when the bytes in use are this percentage of the limit below the level's start.
const HYSTERESIS: u64 = 10;

impl Level {
    /// The share of the limit at which it begins, in percent.
    pub const fn percent(self) -> u64 {
        match self {
            Level::Calm => 0,
            Level::High => 80,
            Level::Severe => 90,
            Level::Last => 95,
        }
    }

    /// Its name: `calm`, `high`, `severe`, `last`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Calm => "calm",
            Level::High => "high",
            Level::Severe => "severe",
            Level::Last => "last",
        }
    }

    /// Returns the level with `used` of `limit` bytes in use, if this is the present level. A level rises at once. It falls only when the
    /// bytes in use are clearly lower, so that it does not change to and fro.
    pub fn moved(self, used: u64, limit: u64) -> Level {
        let reached = |level: &Level| {
            let percent = if *level <= self { level.percent().saturating_sub(HYSTERESIS) } else { level.percent() };
            used >= share(limit, percent)
        };
        DOWN.into_iter().find(reached).unwrap_or(Level::Calm)
    }
}

pub(super) fn share(limit: u64, percent: u64) -> u64 {
    (u128::from(limit) * u128::from(percent) / 100) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_reached_at_once_and_left_with_a_distance() {
        let from = |level: Level, used: &[u64]| used.iter().fold(level, |level, used| level.moved(*used, 100));
        use Level::*;
        for (used, level) in [(79, Calm), (80, High), (89, High), (90, Severe), (95, Last), (300, Last)] {
            assert_eq!(from(Calm, &[used]), level, "{used}");
        }
        assert_eq!(
            [from(Last, &[85]), from(Last, &[84]), from(Last, &[79]), from(Last, &[69])],
            [Last, Severe, High, Calm]
        );
        assert_eq!([from(High, &[70]), from(High, &[69]), from(High, &[69, 79])], [High, Calm, Calm]);
        assert_eq!(from(Severe, &[80, 94]), Severe);
        assert_eq!([Calm.moved(u64::MAX / 2, u64::MAX), Calm.moved(u64::MAX, u64::MAX)], [Calm, Last], "no overflow");
    }
}
