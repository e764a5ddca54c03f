//! The condition for giving back again, such as `free_pages > 200MiB`, and whether a reading meets it.

use allocanary_heap::{PARTS, Part, Reading};
use allocanary_text::units::parse_bytes;

use crate::give_back::plan::{forecast, plan};

/// A part of the memory, and the bound that it must exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    what: What,
    more_than: u64,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Part(Part),
    Resident,
    Overhead,
    Outside,
    /// What can be given back.
    Reclaimable,
}

impl Condition {
    /// Parses a part's key, a sum or `reclaimable`, then `>`, and a size.
    pub fn parse(text: &str) -> Result<Condition, String> {
        let names: Vec<&str> = PARTS.iter().map(|part| part.key()).collect();
        let wrong = || {
            let names = names.join(", ");
            format!(
                "--while: wanted such as `free_pages > 200MiB`, of reclaimable, resident, overhead, outside, {names}; found `{text}`"
            )
        };
        let (name, size) = text.split_once('>').ok_or_else(wrong)?;
        let what = match name.trim() {
            "reclaimable" => What::Reclaimable,
            "resident" => What::Resident,
            "overhead" => What::Overhead,
            "outside" => What::Outside,
            name => What::Part(Part::of(name).ok_or_else(wrong)?),
        };
        Ok(Condition { what, more_than: parse_bytes(size).ok_or_else(wrong)? })
    }

    /// Whether the condition is true. A figure that is not known counts as 0.
    pub fn holds(&self, reading: &Reading) -> bool {
        let parts = reading.parts();
        let found = match self.what {
            What::Part(part) => parts.of(part),
            What::Resident => parts.sum(),
            What::Overhead => parts.overhead(),
            What::Outside => parts.outside(),
            What::Reclaimable => forecast(&plan(reading)).unwrap_or(0),
        };
        found > self.more_than
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_names_a_part_and_a_size() {
        let condition = Condition::parse("free_pages > 200MiB").unwrap();
        assert_eq!(condition, Condition { what: What::Part(Part::FreePages), more_than: 200 << 20 });
        assert_eq!(
            Condition::parse("reclaimable>1G").unwrap(),
            Condition { what: What::Reclaimable, more_than: 1 << 30 }
        );
        for wrong in ["kept > 5", "free_pages < 5", "rss > 5MiB", "live > five"] {
            assert!(Condition::parse(wrong).unwrap_err().contains(&format!("found `{wrong}`")));
        }
    }
}
