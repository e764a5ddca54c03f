//! The limits of a profile's figures. In: the table's counts. Out: sentences.

use allocanary_text::units::Bytes;

use super::TableProfile;
use crate::interval::unseen;
use crate::weight::MEANS;

impl TableProfile {
    /// Says what limits the figures, in one sentence for each reason.
    pub fn limits(&self) -> Vec<String> {
        let (profile, counts) = (self, &self.counts);
        let mib = |bytes: f64| Bytes(bytes as u64);
        let mut notes = vec![format!(
            "Samples are {} apart on average: a site with less than {} may be missing.",
            mib(profile.mean as f64),
            mib(unseen(profile.mean))
        )];
        if profile.is_forked {
            notes.push("The process is a fork's child: blocks from before the fork are not known.".into());
        }
        if profile.is_late {
            notes.push("The profile was turned on while the program ran: blocks from before are not known. Live bytes are too low.".into());
        }
        if counts.full > 0 {
            // The setting takes whole numbers only.
            let larger = profile.mean.saturating_mul(8).clamp(MEANS[0], MEANS[1]) >> 10;
            notes.push(format!(
                "The table was full: {} samples are not in it, which stood for {} allocated. Live bytes are too low. Restart with a larger \
                 mean distance: ALLOCANARY_PRELOAD=profile={larger}KiB with a preload, ALLOCANARY_PROFILE={larger}KiB with install!.",
                counts.full,
                mib(counts.full_bytes as f64)
            ));
        }
        if counts.no_frame > 0 {
            notes.push(format!("{} samples have no stack: the table has no place for more frames.", counts.no_frame));
        }
        if counts.no_stack * 100 > counts.sampled {
            notes.push(format!(
                "{} of {} samples have no stack: it could not be walked.",
                counts.no_stack, counts.sampled
            ));
        }
        if counts.no_walker * 100 > counts.sampled {
            notes.push(format!(
                "{} of {} samples have no stack: six other threads were walking theirs at that moment.",
                counts.no_walker, counts.sampled
            ));
        }
        if counts.cut > 0 {
            notes.push(format!(
                "{} stacks are deeper than 256 frames: their outermost frames are left out.",
                counts.cut
            ));
        }
        if counts.closed > 0 {
            notes.push(format!(
                "{} libraries were closed: functions of such a library have no name, or that of a library that has its addresses now.",
                counts.closed
            ));
        }
        if counts.filtered > 0 {
            notes.push(format!(
                "{} samples were not taken, because the process has given itself a filter of system calls.",
                counts.filtered
            ));
        }
        if profile.tables > 1 {
            notes.push(format!(
                "{} libraries profile this process: this is the one with the most samples.",
                profile.tables
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::TableCounts;

    #[test]
    fn what_limits_a_profile_is_said() {
        let counts = TableCounts {
            sampled: 100,
            full: 3,
            no_frame: 4,
            no_stack: 2,
            closed: 1,
            full_bytes: 9 << 20,
            ..TableCounts::default()
        };
        let profile = TableProfile {
            mean: 512 << 10,
            is_forked: true,
            is_late: true,
            tables: 2,
            counts,
            ..TableProfile::default()
        };
        let notes = profile.limits();
        let has = |text: &str| assert!(notes.iter().any(|note| note.contains(text)), "{text}: {notes:?}");
        [
            "Samples are 512 KiB apart",
            "before the fork",
            "turned on while the program ran",
            "The table was full: 3 samples are not in it, which stood for 9.00 MiB",
            "ALLOCANARY_PRELOAD=profile=4096KiB with",
            "no place for more frames",
            "2 of 100 samples",
            "1 libraries",
            "2 libraries profile",
        ]
        .into_iter()
        .for_each(has);
        assert_eq!(TableProfile { mean: 512 << 10, ..TableProfile::default() }.limits().len(), 1);
    }
}
