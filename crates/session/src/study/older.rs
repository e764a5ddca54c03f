//! Reads older study files, which had one `[full]` table instead of a list of `[[full]]` tables. In: either form. Out:
//! a list.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::Full;

/// Reads one table or a list of tables. The error of an untagged enum would not name the wrong key.
pub fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Full>, D::Error> {
    struct Either;

    impl<'de> Visitor<'de> for Either {
        type Value = Vec<Full>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a `[[full]]` table")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Full>, A::Error> {
            Ok(vec![Full::deserialize(MapAccessDeserializer::new(map))?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<Full>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }

    from.deserialize_any(Either)
}
