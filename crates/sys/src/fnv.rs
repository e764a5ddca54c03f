//! FNV-1a, a hash that is the same in every build.
//!
//! The standard library's hasher may change between compilers, but the hashes of several builds are compared. FNV-1a does not resist
//! attacks. Nothing here needs that.

/// A hash of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds these bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The number.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_its_authors() {
        let hash = |text: &str| {
            let mut hash = Fnv::default();
            let (start, end) = text.as_bytes().split_at(text.len() / 2);
            hash.add(start);
            hash.add(end);
            hash.value()
        };
        assert_eq!([hash(""), hash("a"), hash("foobar")], [0xcbf29ce484222325, 0xaf63dc4c8601ec8c, 0x85944171f73967e8]);
    }
}
