//! The name of a node. In: its message. Out: the first 20 bytes of the SHA-512, and Dolt's text for them.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha512};

pub(super) const HASH_BYTES: usize = 20;

/// The first 20 bytes of the SHA-512 of a node's message. As text it has 32 digits of base 32, most significant first,
/// in the alphabet `0` to `9`, `a` to `v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; HASH_BYTES]);

/// A text that is not a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash: wanted 32 digits of 0-9 and a-v, found `{0}`")]
pub struct HashError(String);

const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

impl Hash {
    /// The root of an empty value, which has no node.
    pub const ZERO: Hash = Hash([0; HASH_BYTES]);

    /// The hash of a message.
    pub fn of(message: &[u8]) -> Hash {
        let digest = Sha512::digest(message);
        let mut hash = Hash::ZERO;
        hash.0.copy_from_slice(&digest[..HASH_BYTES]);
        hash
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // Five bytes are eight digits.
        for five in self.0.chunks_exact(5) {
            let bits = five.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
            for digit in (0..8).rev() {
                write!(f, "{}", char::from(DIGITS[(bits >> (5 * digit) & 31) as usize]))?;
            }
        }
        Ok(())
    }
}

impl FromStr for Hash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Hash, HashError> {
        let wrong = || HashError(text.into());
        if text.len() != 32 {
            return Err(wrong());
        }
        let mut hash = Hash::ZERO;
        for (eight, five) in text.as_bytes().chunks_exact(8).zip(hash.0.chunks_exact_mut(5)) {
            let mut bits = 0;
            for digit in eight {
                let value = DIGITS.iter().position(|known| known == digit).ok_or_else(wrong)?;
                bits = bits << 5 | value as u64;
            }
            five.copy_from_slice(&bits.to_be_bytes()[3..]);
        }
        Ok(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_are_the_same_hash() {
        assert_eq!(Hash::ZERO.to_string(), "0".repeat(32));
        assert_eq!(Hash([255; 20]).to_string(), "v".repeat(32));
        let mut counted = Hash::ZERO;
        counted.0.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
        assert_eq!(counted.to_string(), "000g40o40k30e209185go38e1s8124gj");
        for hash in [Hash::ZERO, Hash([255; 20]), counted, Hash::of(b"node")] {
            assert_eq!(hash.to_string().parse(), Ok(hash));
        }
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        for text in ["", "0", &"w".repeat(32), &"0".repeat(33), &"V".repeat(32), &"é".repeat(16)] {
            let error = text.parse::<Hash>().unwrap_err().to_string();
            assert_eq!(error, format!("a hash: wanted 32 digits of 0-9 and a-v, found `{text}`"));
        }
    }
}
