//! A cache of rules for all threads. In: an address of code. Out: its rule, if it was looked up before.
//!
//! The table has no lock. Each entry has the rule, and the rule xor the address. If two threads write an entry at the
//! same time, the two words may not match, and the rule is looked up again. All zeros is an empty table.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::rule::Rule;

/// The maximum number of entries. They take 512 KiB.
pub const MOST: usize = 1 << 15;
/// The number of entries in one page.
const OF_PAGE: usize = 4096 / size_of::<Entry>();
/// Bits of an address of code in user space. The bits above them count the calls of [`Rules::forget`].
const ADDRESS_BITS: u32 = 48;

#[repr(C)]
struct Entry {
    mixed: AtomicU64,
    rule: AtomicU64,
}

/// The table, with a power of two of entries of 16 bytes. Only pages with a rule are resident.
#[repr(C)]
pub struct Rules<const PLACES: usize = MOST> {
    entries: [Entry; PLACES],
    /// The pages that were written to.
    touched: [AtomicU64; MOST / OF_PAGE / 64],
    forgotten: AtomicU64,
}

/// The functions of a table of any size that a walk needs.
pub trait RuleCache {
    /// The rule of an address.
    fn get(&self, pc: u64) -> Option<Rule>;
    /// Stores the rule of an address.
    fn put(&self, pc: u64, rule: Rule);
    /// How often [`forget`](Rules::forget) was called.
    fn forgotten(&self) -> u64;
}

impl<const PLACES: usize> Rules<PLACES> {
    #[inline(always)]
    fn place_of(key: u64) -> usize {
        const { assert!(PLACES.is_power_of_two() && PLACES <= MOST) };
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACES.ilog2())) as usize & (PLACES - 1)
    }

    #[inline(always)]
    fn key(&self, pc: u64) -> u64 {
        pc ^ self.forgotten.load(Relaxed) << ADDRESS_BITS
    }

    /// Forgets all rules. Call it when a library was closed, because another one may get its addresses.
    pub fn forget(&self) {
        self.forgotten.fetch_add(1, Relaxed);
    }

    /// Forgets all rules, and gives back their memory. The table must be in a private anonymous mapping, because its whole pages become zeros.
    ///
    /// # Safety
    ///
    /// `self` lies in a private mapping without a file.
    pub unsafe fn empty(&self) {
        let from = (&raw const self.entries).addr().next_multiple_of(4096);
        let to = ((&raw const self.entries).addr() + size_of_val(&self.entries)) & !4095;
        // SAFETY: whole pages of the entries, by the caller's promise of such a mapping. Zeros are empty entries.
        unsafe {
            libc::madvise(std::ptr::with_exposed_provenance_mut(from), to.saturating_sub(from), libc::MADV_DONTNEED)
        };
    }

    /// The resident bytes of the table: those of the pages that were written to.
    pub fn resident(&self) -> u64 {
        let pages: u32 = self.touched.iter().map(|pages| pages.load(Relaxed).count_ones()).sum();
        (u64::from(pages) + 1) * 4096
    }
}

impl<const PLACES: usize> RuleCache for Rules<PLACES> {
    #[inline(always)]
    fn get(&self, pc: u64) -> Option<Rule> {
        let key = self.key(pc);
        let entry = &self.entries[Self::place_of(key)];
        let rule = entry.rule.load(Relaxed);
        (entry.mixed.load(Relaxed) ^ rule == key && rule != 0).then_some(Rule(rule))
    }

    fn put(&self, pc: u64, rule: Rule) {
        let key = self.key(pc);
        let place = Self::place_of(key);
        self.touched[place / OF_PAGE / 64].fetch_or(1 << (place / OF_PAGE % 64), Relaxed);
        let entry = &self.entries[place];
        entry.mixed.store(key ^ rule.0, Relaxed);
        entry.rule.store(rule.0, Relaxed);
    }

    #[inline(always)]
    fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Cfa, Rbp};

    fn empty() -> Box<Rules> {
        // SAFETY: all zeros is an empty table.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<Rules>()).cast()) }
    }

    #[test]
    fn a_rule_is_found_until_all_are_forgotten() {
        let rules = empty();
        let rule = |distance| Rule::new(Cfa::Rsp(distance), Rbp::Same);
        assert_eq!((rules.get(0), rules.get(100)), (None, None));
        for pc in 0..1000 {
            rules.put(0x7F00_0000_0000 + pc, rule(pc as i64));
        }
        let found = (0..1000).filter(|pc| rules.get(0x7F00_0000_0000 + pc) == Some(rule(*pc as i64))).count();
        assert!(found > 950, "{found}: two addresses rarely share a place");
        assert!((0..1000).all(|pc| rules.get(0x7F00_0000_0000 + pc).is_none_or(|found| found == rule(pc as i64))));
        rules.forget();
        assert!((0..1000).all(|pc| rules.get(0x7F00_0000_0000 + pc).is_none()));
    }

    #[test]
    fn a_place_that_two_threads_have_written_is_not_read() {
        let rules = empty();
        let (first, second) = (Rule::new(Cfa::Rsp(8), Rbp::Same), Rule::new(Cfa::Rsp(16), Rbp::Same));
        rules.put(100, first);
        rules.entries[Rules::<MOST>::place_of(100)].rule.store(second.0, Relaxed);
        assert_eq!(rules.get(100), None);
    }
}
