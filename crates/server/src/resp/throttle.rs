//! `CL.THROTTLE key max_burst count period [quantity]`, with redis-cell's meaning and reply.
//!
//! Times in the reply are rounded as redis-cell rounds them: up to whole seconds, from a millisecond on. The
//! arithmetic is ours, and exact where redis-cell's goes by whole microseconds.

use super::number::integer;
use super::reply;
use tidegate_core::{Accuracy, Burst, Class, Cost, Decision, Item, KeyPrefix, Nanos, Rate, Spec, Verdict};
use tidegate_node::request::ATTRIBUTE_VALUE_BYTES_MAX;
use tidegate_node::{GivenLimit, GivenPolicy};

/// Where the keys of this command live. `/v1/limit` and `/v1/reset` reach them by this name.
pub(crate) const NAMESPACE: &str = "resp";

/// What is wrong with a command. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("wrong number of arguments for '{}' command", if *.0 { "cl.throttle" } else { "throttle" })]
    WordCount(bool),
    #[error("value is not an integer or out of range")]
    Integer,
    #[error("a key has 1 to {ATTRIBUTE_VALUE_BYTES_MAX} bytes")]
    KeyLength,
    #[error("a key is UTF-8 text; send other bytes encoded, as hex or base64")]
    KeyText,
    #[error("max_burst is a whole number from -1 to 2^53-1")]
    MaxBurst,
    #[error("zero rates are not supported; count and period are at least 1")]
    ZeroRate,
    #[error("count per period is from 1 per 366 days to 1000000000 per second, over 1 second to 366 days")]
    Rate,
    #[error("max_burst takes more than 100 years to refill at that rate; use a smaller one")]
    Refill,
    #[error("quantity is a whole number from 0 to 2^53; 0 only looks")]
    Quantity,
}

/// A command that was understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Throttle<'a> {
    pub(crate) key: &'a str,
    rate: Rate,
    burst: Burst,
    cost: Cost,
}

/// The limit of the command before: nearly always the next one's too, and not worth reducing again.
#[derive(Debug, Default)]
pub(crate) struct LastLimit(Option<([i64; 3], Rate, Burst)>);

/// Whether a word names the command, by either name.
#[inline]
pub(crate) fn is_throttle(word: &[u8]) -> bool {
    match word.len() {
        11 => word == b"CL.THROTTLE" || word.eq_ignore_ascii_case(b"CL.THROTTLE"),
        8 => word.eq_ignore_ascii_case(b"THROTTLE"),
        _ => false,
    }
}

impl<'a> Throttle<'a> {
    /// Reads a command; its first word is known to name it.
    #[inline]
    pub(crate) fn read(words: &[&'a [u8]], last: &mut LastLimit) -> Result<Self, Wrong> {
        let (key, numbers, quantity) = match *words {
            [_, key, max_burst, count, period] => (key, [max_burst, count, period], None),
            [_, key, max_burst, count, period, quantity] => (key, [max_burst, count, period], Some(quantity)),
            _ => return Err(Wrong::WordCount(words.first().is_some_and(|name| name.len() == 11))),
        };
        let whole = |word| integer(word).ok_or(Wrong::Integer);
        let numbers = [whole(numbers[0])?, whole(numbers[1])?, whole(numbers[2])?];
        let cost = match quantity {
            None => Cost::ONE,
            Some(word) => {
                let quantity = u64::try_from(whole(word)?).map_err(|_| Wrong::Quantity)?;
                Cost::new(quantity).map_err(|_| Wrong::Quantity)?
            }
        };
        let (rate, burst) = last.limit(numbers)?;
        Ok(Throttle { key: valid_key(key)?, rate, burst, cost })
    }

    /// As the table decides it.
    #[inline]
    pub(crate) fn item(&self, keys: &KeyPrefix) -> Item {
        let spec = Spec::Gcra { rate: self.rate, burst: self.burst };
        Item {
            accuracy: Accuracy::default(),
            class: Class::default(),
            ..Item::new(keys.key(self.key), spec, self.cost)
        }
    }

    /// As the engine decides it when the table alone can't.
    pub(crate) fn given(&self) -> GivenLimit<'a> {
        GivenLimit {
            namespace: NAMESPACE,
            identifier: self.key,
            policy: GivenPolicy::Gcra { rate: self.rate, burst: self.burst },
            cost: self.cost,
            class: Class::default(),
            accuracy: Accuracy::default(),
            scope: None,
        }
    }
}

#[inline]
fn valid_key(key: &[u8]) -> Result<&str, Wrong> {
    if key.is_empty() || key.len() > ATTRIBUTE_VALUE_BYTES_MAX {
        return Err(Wrong::KeyLength);
    }
    std::str::from_utf8(key).map_err(|_| Wrong::KeyText)
}

impl LastLimit {
    /// The limit of `[max_burst, count, period]`.
    #[inline]
    fn limit(&mut self, numbers: [i64; 3]) -> Result<(Rate, Burst), Wrong> {
        if let Some((known, rate, burst)) = self.0
            && known == numbers
        {
            return Ok((rate, burst));
        }
        let (rate, burst) = limit(numbers)?;
        self.0 = Some((numbers, rate, burst));
        Ok((rate, burst))
    }
}

fn limit([max_burst, count, period]: [i64; 3]) -> Result<(Rate, Burst), Wrong> {
    // What is admitted at once is one more than `max_burst`: the one that is always due.
    let at_once = max_burst.checked_add(1).and_then(|burst| u64::try_from(burst).ok());
    let burst = at_once.and_then(|burst| Burst::new(burst).ok()).ok_or(Wrong::MaxBurst)?;
    if count == 0 || period == 0 {
        return Err(Wrong::ZeroRate);
    }
    let [count, period] = [count, period].map(u64::try_from);
    let (Ok(count), Ok(period)) = (count, period) else { return Err(Wrong::Rate) };
    let rate = Rate::new(count, Nanos::from_secs(period)).map_err(|_| Wrong::Rate)?;
    rate.refills(burst).map_err(|_| Wrong::Refill)?;
    Ok((rate, burst))
}

/// Limited or not, the limit, what remains of it, seconds until a retry or -1, seconds until all is back.
#[inline]
pub(crate) fn answer(out: &mut Vec<u8>, decision: &Decision, now: Nanos) {
    let (limited, retry_after) = match decision.verdict {
        Verdict::Admit => (0, -1),
        Verdict::Deny { retry_after } => (1, retry_after.map_or(-1, seconds)),
    };
    let reset_after = seconds(decision.reset.minus(now));
    let number = |value| i64::try_from(value).unwrap_or(i64::MAX);
    reply::five(out, [limited, number(decision.limit), number(decision.remaining), retry_after, reset_after]);
}

/// Whole seconds, and one more for a rest of at least a millisecond.
#[inline]
fn seconds(length: Nanos) -> i64 {
    let (whole, rest) = (length.get() / Nanos::PER_SECOND, length.get() % Nanos::PER_SECOND);
    i64::try_from(whole).unwrap_or(i64::MAX) + i64::from(rest >= Nanos::PER_MILLI)
}

#[cfg(test)]
mod tests;
