//! Sorts the sites for the tables, the largest first.

use std::cmp::Reverse;

use crate::answer::FreeMemoryState;
use crate::sites::{AllocationSite, SiteReport};

/// The figure by which sites are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteOrder {
    /// By the free bytes that they pin.
    Pinned,
    /// By the bytes that the program asked for in their live blocks.
    Requested,
    /// By the bytes that they allocated in the whole trace.
    Allocated,
    /// By how fast their live bytes grow.
    Grows,
}

/// The orders by the names that users give.
pub const ORDERS: &[(&str, SiteOrder)] = &[
    ("pinned", SiteOrder::Pinned),
    ("requested", SiteOrder::Requested),
    ("allocated", SiteOrder::Allocated),
    ("grows", SiteOrder::Grows),
];

impl SiteOrder {
    /// The default order: by pinned bytes if these are a large part of the heap, else by requested bytes.
    pub fn of(found: &SiteReport) -> SiteOrder {
        match FreeMemoryState::of(found) {
            FreeMemoryState::Pinned | FreeMemoryState::Both => SiteOrder::Pinned,
            FreeMemoryState::Empty | FreeMemoryState::Requested | FreeMemoryState::Nothing => SiteOrder::Requested,
        }
    }

    /// The order in words, such as "those that pin most first".
    pub fn words(self) -> &'static str {
        match self {
            SiteOrder::Pinned => "those that pin most first",
            SiteOrder::Requested => "those that hold most first",
            SiteOrder::Allocated => "those that allocated most first",
            SiteOrder::Grows => "those that grow fastest first",
        }
    }

    /// The name that users give.
    pub fn name(self) -> &'static str {
        ORDERS.iter().find(|(_, order)| *order == self).map_or("", |(name, _)| name)
    }

    /// The sites in this order. Of equal sites, the one that pins more is first.
    pub fn sorted(self, found: &SiteReport) -> Vec<&AllocationSite> {
        let mut sites: Vec<&AllocationSite> = found.sites.iter().collect();
        match self {
            SiteOrder::Pinned => {}
            SiteOrder::Requested => sites.sort_by_key(|site| Reverse(site.live)),
            SiteOrder::Allocated => sites.sort_by_key(|site| Reverse(site.bytes)),
            SiteOrder::Grows => sites.sort_by(|a, b| speed(b).total_cmp(&speed(a))),
        }
        sites
    }
}

/// Growth in bytes a second; if it is not known, a value below all others.
fn speed(site: &AllocationSite) -> f64 {
    site.slope.as_ref().map_or(f64::NEG_INFINITY, |slope| slope.per_second)
}
