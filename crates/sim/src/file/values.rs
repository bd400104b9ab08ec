//! Values of other crates, and lists, as scenario files write them.

use super::time::{Instant, Length};
use crate::scenario::{Arrival, LimitUse};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use tidegate_control::Flaw;
use tidegate_core::{Accuracy, Burst, Class, Limit, Nanos, OutOfRange, Period, Rate};
use tidegate_node::GivenPolicy;
use tidegate_world::{PublishPolicy, PublishThreshold};

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Class", rename_all = "kebab-case")]
pub(crate) enum ClassText {
    Paid,
    Free,
    Abuse,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Accuracy", rename_all = "kebab-case")]
pub(crate) enum AccuracyText {
    Fast,
    Bounded,
    Exact,
    Async,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Flaw", rename_all = "kebab-case")]
pub(crate) enum FlawText {
    None,
    RaisesFirst,
    IgnoresSilence,
    RoundsUp,
    ActivatesAtOnce,
}

/// `{ sliding = { limit = 10, period_ms = 60000 } }`, `{ gcra = { rate = 5, burst = 10 } }`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum PolicyText {
    Sliding {
        limit: u64,
        period_ms: Length,
    },
    Fixed {
        limit: u64,
        period_ms: Length,
    },
    /// `rate` units per `per_ms`, or per second.
    Gcra {
        rate: u64,
        #[serde(default = "a_second", skip_serializing_if = "is_a_second")]
        per_ms: Length,
        burst: u64,
    },
}

fn a_second() -> Length {
    Length(Nanos::from_secs(1))
}

fn is_a_second(length: &Length) -> bool {
    length.0 == Nanos::from_secs(1)
}

/// For a field that is what a key is limited to.
pub(crate) mod limit_policy {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(policy: &GivenPolicy, serializer: S) -> Result<S::Ok, S::Error> {
        text_of(*policy).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GivenPolicy, D::Error> {
        let text = PolicyText::deserialize(deserializer)?;
        policy_of(&text).map_err(D::Error::custom)
    }
}

fn text_of(policy: GivenPolicy) -> PolicyText {
    match policy {
        GivenPolicy::Sliding { limit, period } => {
            PolicyText::Sliding { limit: limit.get(), period_ms: Length(period.length()) }
        }
        GivenPolicy::Fixed { limit, period } => {
            PolicyText::Fixed { limit: limit.get(), period_ms: Length(period.length()) }
        }
        GivenPolicy::Gcra { rate, burst } => {
            let (interval_ns, count) = (rate.interval_numerator_ns(), rate.interval_denominator());
            // Per second where that is a whole number, which also is at least the shortest period of a rate.
            let factor = if Nanos::PER_SECOND.is_multiple_of(interval_ns) {
                Nanos::PER_SECOND / interval_ns
            } else {
                1
            };
            PolicyText::Gcra {
                rate: count.saturating_mul(factor),
                per_ms: Length(Nanos::new(interval_ns * factor)),
                burst: burst.get(),
            }
        }
    }
}

fn policy_of(text: &PolicyText) -> Result<GivenPolicy, OutOfRange> {
    Ok(match *text {
        PolicyText::Sliding { limit, period_ms } => {
            GivenPolicy::Sliding { limit: Limit::new(limit)?, period: Period::new(period_ms.0)? }
        }
        PolicyText::Fixed { limit, period_ms } => {
            GivenPolicy::Fixed { limit: Limit::new(limit)?, period: Period::new(period_ms.0)? }
        }
        PolicyText::Gcra { rate, per_ms, burst } => {
            GivenPolicy::Gcra { rate: Rate::new(rate, per_ms.0)?, burst: Burst::new(burst)? }
        }
    })
}

/// How a region publishes to the world.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorldPolicyText {
    publish: PublishText,
    interval_ms: Length,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PublishText {
    Headroom,
    Floor(f64),
}

/// For a field that is how a region publishes to the world.
pub(crate) mod world_policy {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(policy: &PublishPolicy, serializer: S) -> Result<S::Ok, S::Error> {
        let publish = match policy.publish {
            PublishThreshold::Headroom => PublishText::Headroom,
            PublishThreshold::Floor(part) => PublishText::Floor(part),
        };
        WorldPolicyText { publish, interval_ms: Length(policy.interval) }.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PublishPolicy, D::Error> {
        let text = WorldPolicyText::deserialize(deserializer)?;
        let publish = match text.publish {
            PublishText::Headroom => PublishThreshold::Headroom,
            PublishText::Floor(part) => PublishThreshold::Floor(part),
        };
        Ok(PublishPolicy { publish, interval: text.interval_ms.0 })
    }
}

/// For a seed: a number, or `"0x…"` where it is larger than numbers of a file are.
pub(crate) mod seed {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum SeedText {
        Number(i64),
        Hexadecimal(String),
    }

    pub(crate) fn serialize<S: Serializer>(seed: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        let text = i64::try_from(*seed)
            .map_or_else(|_| SeedText::Hexadecimal(format!("{seed:#x}")), SeedText::Number);
        text.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let seed = match SeedText::deserialize(deserializer)? {
            SeedText::Number(number) => u64::try_from(number).ok(),
            SeedText::Hexadecimal(text) => {
                text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok())
            }
        };
        seed.ok_or_else(|| D::Error::custom("a seed is a number from 0 on, or \"0x…\""))
    }
}

/// For the limits of a request.
pub(crate) mod limit_uses {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(list: &[LimitUse], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SmallVec<[LimitUse; 5]>, D::Error> {
        Ok(Vec::<LimitUse>::deserialize(deserializer)?.into())
    }
}

/// For requests: `[at_ms, node, template]`, or `[at_ms, node, template, times, every_ms]` for several at even
/// distances.
pub(crate) mod arrivals {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum ArrivalText {
        Several(Instant, usize, usize, u32, Length),
        One(Instant, usize, usize),
    }

    pub(crate) fn serialize<S: Serializer>(list: &[Arrival], serializer: S) -> Result<S::Ok, S::Error> {
        let mut texts = Vec::new();
        let mut rest = list;
        while let Some(first) = rest.first() {
            let times = evenly_spaced(rest);
            let Arrival { at, node, template } = *first;
            if times > 2 {
                let every = Length(rest[1].at.minus(at));
                let count = u32::try_from(times).map_err(serde::ser::Error::custom)?;
                texts.push(ArrivalText::Several(Instant(at), node, template, count, every));
            } else {
                texts.extend(
                    rest[..times].iter().map(|one| ArrivalText::One(Instant(one.at), one.node, one.template)),
                );
            }
            rest = &rest[times..];
        }
        serializer.collect_seq(texts)
    }

    /// How many of the first are alike and at even distances: at least one.
    fn evenly_spaced(list: &[Arrival]) -> usize {
        let is_alike =
            |pair: &[Arrival]| pair[0].node == pair[1].node && pair[0].template == pair[1].template;
        let distance = |pair: &[Arrival]| pair[1].at.get().checked_sub(pair[0].at.get());
        let Some(first) = list.windows(2).next().filter(|pair| is_alike(pair)).and_then(distance) else {
            return 1;
        };
        1 + list.windows(2).take_while(|pair| is_alike(pair) && distance(pair) == Some(first)).count()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arrival>, D::Error> {
        let mut arrivals = Vec::new();
        for text in Vec::<ArrivalText>::deserialize(deserializer)? {
            match text {
                ArrivalText::One(at, node, template) => arrivals.push(Arrival { at: at.0, node, template }),
                ArrivalText::Several(at, node, template, times, every) => {
                    let nth =
                        |index: u32| at.0.plus(Nanos::new(every.0.get().saturating_mul(u64::from(index))));
                    arrivals.extend((0..times).map(|index| Arrival { at: nth(index), node, template }));
                }
            }
        }
        Ok(arrivals)
    }
}
