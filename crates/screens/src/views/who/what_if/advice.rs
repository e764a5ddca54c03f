//! What a developer can do about a site. In: what its replays save. Out: at most two sentences, or none if no advice is certain.

use allocanary_who::WhatIf;

use super::saved::{Effect, MARGIN, Saved};
use super::{Change, Changes};

/// A site counts as short-lived if at least this share of its blocks is.
const MOSTLY: f64 = 0.9;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Allocate the long-lived blocks in a place separate from the short-lived ones.
    Separate {
        /// Whether placing the whole site elsewhere certainly saves less: nothing, or less than half as much.
        is_better: bool,
    },
    /// Use a pool or an arena for the site.
    Arena,
    /// Allocate fewer blocks, by reusing them.
    Reuse,
    /// Change settings: the pages are free, but the allocator keeps them.
    Settings,
    /// Nothing by itself: other sites hold the same pages.
    Shared,
    /// Nothing.
    Keep,
}

impl Advice {
    /// The advice of the first rule that applies.
    pub fn of(what_if: &WhatIf, changes: &Changes) -> Option<Advice> {
        let both = [&changes.survivors, &changes.whole];
        let of = |what: fn(&Change) -> &Saved| {
            // If no block lives, nothing is saved.
            both.map(|change| {
                change.as_ref().map_or((Effect::Nothing, 0.0), |one| (changes.effect(what(one)), what(one).bytes))
            })
        };
        let (saved, freed) = (of(|one| &one.resident), of(|one| &one.holding));
        let [survivors, whole] = saved.map(|(effect, _)| effect);
        let most = |all: [(Effect, f64); 2]| {
            all.into_iter().filter(|one| one.0 == Effect::Saves).map(|one| one.1).fold(0.0, f64::max)
        };
        let is_less = saved[1].1 < saved[0].1 / 2.0;
        let site = &what_if.site;
        let is_short = site.short as f64 >= MOSTLY * site.allocations.max(1) as f64;
        let is_none = |effect: Effect| matches!(effect, Effect::Nothing | Effect::Costs);
        let limit = MARGIN * changes.as_it_is.resident as f64;
        if most(freed) > 2.0 * most(saved) {
            // If the amount that goes back is not certain, it may be half or more.
            let may_save = |change: &Change| {
                changes.effect(&change.resident) == Effect::Unsure && 2.0 * change.resident.high >= most(freed)
            };
            let is_known = !both.into_iter().flatten().any(may_save);
            return is_known.then_some(Advice::Settings);
        }
        match (survivors, whole) {
            (Effect::Saves, whole) if whole != Effect::Saves || is_less => {
                Some(Advice::Separate { is_better: whole != Effect::Unsure })
            }
            (survivors, Effect::Saves) if survivors != Effect::Saves && (is_short || changes.survivors.is_none()) => {
                Some(Advice::Reuse)
            }
            (_, Effect::Saves) => Some(Advice::Arena),
            (survivors, whole) if is_none(survivors) && is_none(whole) && freed.iter().all(|one| is_none(one.0)) => {
                let share = &what_if.share;
                match (share.pinned as f64 > limit, share.alone as f64 > limit) {
                    (false, _) => Some(Advice::Keep),
                    (true, false) => Some(Advice::Shared),
                    // The site pins pages alone, but nothing is saved, because other blocks take these places. The reason is not known, so
                    // there is no advice.
                    (true, true) => None,
                }
            }
            _ => None,
        }
    }

    /// For a script.
    pub fn name(self) -> &'static str {
        match self {
            Advice::Separate { .. } => "separate",
            Advice::Arena => "arena",
            Advice::Reuse => "reuse",
            Advice::Settings => "settings",
            Advice::Shared => "shared",
            Advice::Keep => "keep",
        }
    }

    /// In words.
    pub fn text(self, what_if: &WhatIf) -> String {
        let name = &what_if.site.name;
        match self {
            Advice::Separate { is_better } => format!(
                "Separate the long-lived blocks of `{name}` from its short-lived ones: allocate them first, or from a pool of their own.{}",
                if is_better { " A pool for all blocks of the site is not enough." } else { "" }
            ),
            Advice::Arena => format!(
                "Give `{name}` an arena, or a pool of its block sizes. It need not be known which of its blocks live long."
            ),
            Advice::Reuse => format!(
                "The blocks of `{name}` leave holes that others live in: reuse a buffer, or take them from a pool of their own."
            ),
            Advice::Settings => format!(
                "With blocks of `{name}` elsewhere more pages are free, and this allocator keeps them. Settings that give back come first \
                 (`allocanary tune`), or `allocanary give-back`."
            ),
            Advice::Shared => format!(
                "Other sites have blocks in the pages of `{name}`: alone it frees none. Look for what these blocks have in common."
            ),
            Advice::Keep => format!(
                "This allocator keeps the blocks of `{name}` apart already, or they hold too little: no change is expected."
            ),
        }
    }
}

#[cfg(test)]
mod tests;
