//! Times as scenario files write them: milliseconds, a whole number where they are whole, exact to the nanosecond.
//!
//! An instant counts from [`START`] and may be before it. `inf` is never.

use crate::START;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use tidegate_core::Nanos;

const PER_MILLI: i64 = 1_000_000;
const PER_MILLI_F64: f64 = 1e6;

/// A signed number of nanoseconds that is written in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Millis {
    /// `None` is never.
    nanos: Option<i64>,
}

impl Millis {
    #[expect(clippy::cast_possible_truncation, reason = "saturates: a file may hold any number")]
    fn of_float(millis: f64) -> Self {
        Millis { nanos: millis.is_finite().then_some((millis * PER_MILLI_F64).round() as i64) }
    }

    /// Reads a number of milliseconds that has more digits than a floating-point number.
    fn of_decimal(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.')?;
        let (is_negative, whole) = whole.strip_prefix('-').map_or((false, whole), |whole| (true, whole));
        let size = whole.parse::<i64>().ok()?.checked_mul(PER_MILLI)?;
        let size = size.checked_add(format!("{fraction:0<6}").parse().ok()?)?;
        (fraction.len() <= 6).then_some(Millis { nanos: Some(if is_negative { -size } else { size }) })
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(nanos) = self.nanos else { return serializer.serialize_f64(f64::INFINITY) };
        if nanos % PER_MILLI == 0 {
            return serializer.serialize_i64(nanos / PER_MILLI);
        }
        let millis = nanos as f64 / PER_MILLI_F64;
        if Millis::of_float(millis) == *self {
            return serializer.serialize_f64(millis);
        }
        let size = nanos.unsigned_abs();
        let per_milli = PER_MILLI.unsigned_abs();
        let sign = if nanos < 0 { "-" } else { "" };
        serializer.serialize_str(&format!("{sign}{}.{:06}", size / per_milli, size % per_milli))
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MillisVisitor)
    }
}

struct MillisVisitor;

impl Visitor<'_> for MillisVisitor {
    type Value = Millis;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number of milliseconds")
    }

    fn visit_i64<E: de::Error>(self, millis: i64) -> Result<Millis, E> {
        let nanos = millis.checked_mul(PER_MILLI).ok_or_else(|| E::custom("the time is out of range"))?;
        Ok(Millis { nanos: Some(nanos) })
    }

    fn visit_f64<E: de::Error>(self, millis: f64) -> Result<Millis, E> {
        Ok(Millis::of_float(millis))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Millis, E> {
        Millis::of_decimal(text).ok_or_else(|| E::custom("a time is a number of milliseconds"))
    }
}

/// An instant, in milliseconds from [`START`].
#[derive(Clone, Copy)]
pub(super) struct Instant(pub(super) Nanos);

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nanos = (self.0 != Nanos::MAX).then(|| self.0.get().wrapping_sub(START.get()).cast_signed());
        Millis { nanos }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(nanos) = Millis::deserialize(deserializer)?.nanos else { return Ok(Instant(Nanos::MAX)) };
        let instant = START.get().checked_add_signed(nanos);
        instant
            .map(|nanos| Instant(Nanos::new(nanos)))
            .ok_or_else(|| de::Error::custom("the time is out of range"))
    }
}

/// A length of time, in milliseconds.
#[derive(Clone, Copy)]
pub(super) struct Length(pub(super) Nanos);

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nanos = (self.0 != Nanos::MAX).then(|| self.0.get().cast_signed());
        Millis { nanos }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(nanos) = Millis::deserialize(deserializer)?.nanos else { return Ok(Length(Nanos::MAX)) };
        let length =
            u64::try_from(nanos).map_err(|_| de::Error::custom("a length of time is never negative"))?;
        Ok(Length(Nanos::new(length)))
    }
}

/// For a field that is an instant.
pub(crate) mod instant {
    use super::{Deserialize, Deserializer, Instant, Nanos, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(at: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
        Instant(*at).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        Instant::deserialize(deserializer).map(|instant| instant.0)
    }
}

/// For a field that is a list of instants.
pub(crate) mod instants {
    use super::{Deserialize, Deserializer, Instant, Nanos, Serializer};

    pub(crate) fn serialize<S: Serializer>(list: &[Nanos], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().copied().map(Instant))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Nanos>, D::Error> {
        Ok(Vec::<Instant>::deserialize(deserializer)?.into_iter().map(|instant| instant.0).collect())
    }
}

/// For a field that is a length of time.
pub(crate) mod length {
    use super::{Deserialize, Deserializer, Length, Nanos, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(length: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
        Length(*length).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        Length::deserialize(deserializer).map(|length| length.0)
    }
}

/// For a field that is how far a clock is off.
pub(crate) mod offset {
    use super::{Deserialize, Deserializer, Millis, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(nanos: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        Millis { nanos: Some(*nanos) }.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        Ok(Millis::deserialize(deserializer)?.nanos.unwrap_or(i64::MAX))
    }
}

/// For a field that says how far several clocks are off.
pub(crate) mod offsets {
    use super::{Deserialize, Deserializer, Millis, Serializer};

    pub(crate) fn serialize<S: Serializer>(list: &[i64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|nanos| Millis { nanos: Some(*nanos) }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i64>, D::Error> {
        let list = Vec::<Millis>::deserialize(deserializer)?;
        Ok(list.into_iter().map(|millis| millis.nanos.unwrap_or(i64::MAX)).collect())
    }
}

/// For a list of what happens at which instant: `[at_ms, fault]`.
pub(crate) mod timed {
    use super::{Deserialize, Deserializer, Instant, Nanos, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer, F: Serialize>(
        list: &[(Nanos, F)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|(at, fault)| (Instant(*at), fault)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, F: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<Vec<(Nanos, F)>, D::Error> {
        let list = Vec::<(Instant, F)>::deserialize(deserializer)?;
        Ok(list.into_iter().map(|(at, fault)| (at.0, fault)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::Value;

    #[test]
    fn times_come_back_to_the_nanosecond() {
        let days = 40 * 86_400 * Nanos::PER_SECOND;
        for nanos in [0, 1, 999_999, 1_000_000, 1_234_567, 19_999_999_999, days + 1, days + 123_456_789] {
            for at in [START.plus(Nanos::new(nanos)), START.minus(Nanos::new(nanos)), Nanos::MAX] {
                let text = Value::try_from(Instant(at)).unwrap();
                let back: Instant = text.clone().try_into().unwrap();
                assert_eq!(back.0, at, "{text}");
            }
        }
        assert_eq!(Value::try_from(Instant(START.plus(Nanos::new(1_500_000)))).unwrap(), Value::Float(1.5));
        assert!(Value::from(-1).try_into::<Length>().is_err());
    }
}
