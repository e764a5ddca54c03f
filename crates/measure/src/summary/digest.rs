//! A hash of a row's fields. In: any value that can be serialized. Out: 64 bits, equal for equal fields. Making a text of the value, or
//! using std's hasher, would take longer than reading the row.

use std::fmt::Display;

use serde::ser::{self, Serialize, Serializer};

/// The hash of a value. Among a hundred thousand rows, two have the same hash in one of a few billion reports.
pub fn digest(value: &impl Serialize) -> u64 {
    let mut fields = Fields(START);
    value.serialize(&mut fields).expect("hashing cannot fail");
    fields.0
}

/// Digits of pi: odd, and without a pattern.
const START: u64 = 0x243f_6a88_85a3_08d3;
const FACTOR: u64 = 0x1319_8a2e_0370_7345;

/// The hash so far. Each field is mixed in after its kind and its length, so that different values do not look alike.
struct Fields(u64);

impl Fields {
    /// Mixes 64 bits in: both halves of a product, so that every bit reaches every other.
    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(START);
    }

    /// A number, or the length of what follows.
    #[inline]
    fn number(&mut self, kind: u8, value: u64) -> Result<(), Never> {
        self.mix(u64::from(kind));
        self.mix(value);
        Ok(())
    }

    fn bytes(&mut self, kind: u8, bytes: &[u8]) -> Result<(), Never> {
        self.number(kind, bytes.len() as u64)?;
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.mix(u64::from_le_bytes(word));
        }
        Ok(())
    }
}

/// A length that may be unknown before the end.
fn of(length: Option<usize>) -> u64 {
    length.map_or(u64::MAX, |length| length as u64)
}

/// The error type that the trait needs. Hashing never fails.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Never(String);

impl ser::Error for Never {
    fn custom<T: Display>(text: T) -> Self {
        Never(text.to_string())
    }
}

macro_rules! numbers {
    ($($name:ident $type:ty,)*) => {
        $(fn $name(self, value: $type) -> Result<(), Never> {
            self.number(1, value as u64)
        })*
    };
}

impl<'a> Serializer for &'a mut Fields {
    type Ok = ();
    type Error = Never;
    type SerializeSeq = &'a mut Fields;
    type SerializeTuple = &'a mut Fields;
    type SerializeTupleStruct = &'a mut Fields;
    type SerializeTupleVariant = &'a mut Fields;
    type SerializeMap = &'a mut Fields;
    type SerializeStruct = &'a mut Fields;
    type SerializeStructVariant = &'a mut Fields;

    numbers! {
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_char char,
    }

    fn serialize_f32(self, value: f32) -> Result<(), Never> {
        self.number(1, value.to_bits().into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Never> {
        self.number(1, value.to_bits())
    }

    fn serialize_str(self, value: &str) -> Result<(), Never> {
        self.bytes(2, value.as_bytes())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Never> {
        self.bytes(2, value)
    }

    fn serialize_none(self) -> Result<(), Never> {
        self.number(3, 0)
    }

    fn serialize_unit(self) -> Result<(), Never> {
        self.number(3, 0)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Never> {
        self.number(3, 0)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Never> {
        self.number(4, 0)?;
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), Never> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Never> {
        self.bytes(2, variant.as_bytes())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Never> {
        self.bytes(5, variant.as_bytes())?;
        value.serialize(self)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self, Never> {
        self.number(6, of(length)).map(|()| self)
    }

    fn serialize_tuple(self, length: usize) -> Result<Self, Never> {
        self.number(6, length as u64).map(|()| self)
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Self, Never> {
        self.number(6, length as u64).map(|()| self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self, Never> {
        self.bytes(7, variant.as_bytes())?;
        self.number(6, length as u64).map(|()| self)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self, Never> {
        self.number(8, of(length)).map(|()| self)
    }

    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Self, Never> {
        self.number(8, length as u64).map(|()| self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self, Never> {
        self.bytes(9, variant.as_bytes())?;
        self.number(8, length as u64).map(|()| self)
    }
}

macro_rules! elements {
    ($($trait:ident $method:ident,)*) => {
        $(impl ser::$trait for &mut Fields {
            type Ok = ();
            type Error = Never;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Never> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Never> {
                Ok(())
            }
        })*
    };
}

elements! {
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
}

macro_rules! fields {
    ($($trait:ident)*) => {
        $(impl ser::$trait for &mut Fields {
            type Ok = ();
            type Error = Never;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Never> {
                self.bytes(2, name.as_bytes())?;
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Never> {
                Ok(())
            }
        })*
    };
}

fields!(SerializeStruct SerializeStructVariant);

impl ser::SerializeMap for &mut Fields {
    type Ok = ();
    type Error = Never;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Never> {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Never> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Never> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;
    use allocanary_rows::sample::Sample;

    fn sample() -> Sample {
        let rows = include_str!("../../../../tests/golden/sample.jsonl");
        serde_json::from_str(rows.lines().next().unwrap()).unwrap()
    }

    #[test]
    fn a_row_in_another_spelling_is_the_same_row() {
        let row = sample();
        let value = serde_json::to_value(&row).unwrap();
        let other: Sample = serde_json::from_str(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
        assert_eq!(digest(&row), digest(&other));
    }

    #[test]
    fn each_field_counts() {
        let row = sample();
        let mut seen = vec![digest(&row)];
        let mut changed = |change: fn(&mut Sample)| {
            let mut row = row.clone();
            change(&mut row);
            let digest = digest(&row);
            assert!(!seen.contains(&digest), "{row:?}");
            seen.push(digest);
        };
        changed(|row| row.wall_us += 1);
        changed(|row| row.started_ms += 1);
        changed(|row| row.cell.repeat += 1);
        changed(|row| row.cell.cores = Some(0));
        changed(|row| row.cell.candidate.spec.name.push('x'));
        changed(|row| row.provenance.host.name.push('x'));
        changed(|row| row.measured = None);
        changed(|row| row.measured.as_mut().unwrap().requested_bytes[0] ^= 1);
        changed(|row| *row.measured.as_mut().unwrap().readings.values_mut().next().unwrap().last_mut().unwrap() = None);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let lists = |parts: &[&[&str]]| digest(&parts);
        assert_ne!(lists(&[&["a", "b"], &[]]), lists(&[&["a"], &["b"]]));
        assert_ne!(digest(&("ab", "c")), digest(&("a", "bc")));
        assert_ne!(digest(&BTreeMap::from([("a", "b")])), digest(&BTreeMap::from([("b", "a")])));
        assert_ne!(digest(&Some(0_u8)), digest(&None::<u8>));
        assert_ne!(digest(&1.0_f64), digest(&2.0_f64));
        assert_ne!(digest(&"12345678"), digest(&"123456780"));
        assert_ne!(digest(&"\0"), digest(&""));
    }

    #[test]
    fn a_hundred_thousand_rows_that_are_nearly_alike_have_as_many_hashes() {
        let hashes: HashSet<u64> =
            (0..100_000_u64).map(|at| digest(&("row", at / 300, at % 300, [at % 7; 3]))).collect();
        assert_eq!(hashes.len(), 100_000);
        // Each bit is set in half of them, so that a table spreads them.
        for bit in 0..64 {
            let set = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count();
            assert!((48_500..51_500).contains(&set), "bit {bit}: {set}");
        }
    }
}
