//! Times in JSON, in seconds. In: whole milliseconds or microseconds of our own values. Out: a number of seconds, and back. Each module is
//! for `#[serde(with = "...")]`.

/// Milliseconds.
pub mod millis {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the time in seconds.
    pub fn serialize<S: Serializer>(millis: &u64, to: S) -> Result<S::Ok, S::Error> {
        super::seconds(*millis, 1e3).serialize(to)
    }

    /// Reads the time from seconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        f64::deserialize(from).map(|seconds| super::whole(seconds, 1e3))
    }
}

/// Milliseconds, if they are known. Also for other numbers in thousandths, such as a quota of processors.
pub mod some_millis {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the time in seconds.
    pub fn serialize<S: Serializer>(millis: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        millis.map(|millis| super::seconds(millis, 1e3)).serialize(to)
    }

    /// Reads the time from seconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        Option::<f64>::deserialize(from).map(|seconds| seconds.map(|seconds| super::whole(seconds, 1e3)))
    }
}

/// Microseconds.
pub mod micros {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the time in seconds.
    pub fn serialize<S: Serializer>(micros: &u64, to: S) -> Result<S::Ok, S::Error> {
        super::seconds(*micros, 1e6).serialize(to)
    }

    /// Reads the time from seconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        f64::deserialize(from).map(|seconds| super::whole(seconds, 1e6))
    }
}

/// Microseconds, if they are known.
pub mod some_micros {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the time in seconds.
    pub fn serialize<S: Serializer>(micros: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        micros.map(|micros| super::seconds(micros, 1e6)).serialize(to)
    }

    /// Reads the time from seconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        Option::<f64>::deserialize(from).map(|seconds| seconds.map(|seconds| super::whole(seconds, 1e6)))
    }
}

/// The 15 digits of a number are enough for each microsecond of a time since 1970.
fn seconds(count: u64, in_a_second: f64) -> f64 {
    count as f64 / in_a_second
}

/// The nearest whole number. A number in a file may be arbitrarily large.
fn whole(seconds: f64, in_a_second: f64) -> u64 {
    (seconds * in_a_second).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_millisecond_of_this_century_and_each_microsecond_comes_back() {
        for millis in [0, 1, 999, 1_764_150_000_001, 1_795_775_825_941, 4_102_444_799_999] {
            assert_eq!(whole(seconds(millis, 1e3), 1e3), millis);
        }
        for micros in [0, 1, 3_000, 86_399_999_999, 1_764_150_000_000_001, 1_795_775_825_941_173] {
            assert_eq!(whole(seconds(micros, 1e6), 1e6), micros);
        }
        assert_eq!((whole(-1.0, 1e3), whole(f64::MAX, 1e3), whole(f64::NAN, 1e3)), (0, u64::MAX, 0));
    }
}
