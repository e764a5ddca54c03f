//! The groups of a trace's stacks, as the flags want them. In: flags, stacks, names. Out: groups.

use crate::args::WhoFlags;
use allocanary_names::FrameNames;
use allocanary_rows::error::{Error, Result};
use allocanary_text::outside::harmless;
use allocanary_who::fold::Skip;
use allocanary_who::{BlockTally, By, Folding, StackGroups, sites};

/// The functions that are passed over: those of --skip, and those that are known by name.
pub(super) fn folding(flags: &WhoFlags) -> Folding {
    Folding { is_off: flags.no_fold, skip: Skip(flags.skip.clone()), ..Folding::default() }
}

/// The groups of stacks. If no function matches a pattern of --skip, this is an error, because the pattern is probably
/// misspelled.
pub(super) fn groups(flags: &WhoFlags, taken: &BlockTally, names: &mut FrameNames<'_>, by: By) -> Result<StackGroups> {
    let groups = StackGroups::of(taken, sites::one_in(taken).is_some(), names, by, &folding(flags));
    if let [pattern, ..] = groups.folding.skip.unknown(names.seen())[..] {
        return Err(Error::Input(format!(
            "--skip {}: wanted the whole name of a function of this trace, or of its program or library, found none: \
             a * is any text, as in 'sds*'",
            harmless(pattern)
        )));
    }
    Ok(groups)
}
