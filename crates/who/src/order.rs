//! The order in which sites are shown. In: the sites and pages. Out: the sites, the largest first.

use std::cmp::Reverse;

use crate::answer::Choice;
use crate::sites::{AllocationSite, SiteReport};

/// The figure by which sites are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
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
pub const ORDERS: &[(&str, Order)] = &[
    ("pinned", Order::Pinned),
    ("requested", Order::Requested),
    ("allocated", Order::Allocated),
    ("grows", Order::Grows),
];

impl Order {
    /// The default order: by pinned bytes if these are a large part of the heap, else by requested bytes.
    pub fn of(found: &SiteReport) -> Order {
        match Choice::of(found) {
            Choice::Pinned | Choice::Both => Order::Pinned,
            Choice::Empty | Choice::Requested | Choice::Nothing => Order::Requested,
        }
    }

    /// The order in words, such as "those that pin most first".
    pub fn words(self) -> &'static str {
        match self {
            Order::Pinned => "those that pin most first",
            Order::Requested => "those that hold most first",
            Order::Allocated => "those that allocated most first",
            Order::Grows => "those that grow fastest first",
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
            Order::Pinned => {}
            Order::Requested => sites.sort_by_key(|site| Reverse(site.live)),
            Order::Allocated => sites.sort_by_key(|site| Reverse(site.bytes)),
            Order::Grows => sites.sort_by(|a, b| speed(b).total_cmp(&speed(a))),
        }
        sites
    }
}

/// Growth in bytes a second; if it is not known, a value below all others.
fn speed(site: &AllocationSite) -> f64 {
    site.slope.as_ref().map_or(f64::NEG_INFINITY, |slope| slope.per_second)
}
