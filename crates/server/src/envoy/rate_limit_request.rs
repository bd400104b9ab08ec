//! A rate limit request, borrowed from the bytes that it came in: the same for protobuf and for JSON.
//!
//! Not checked before [`RateLimitRequest::descriptors`] makes the engine's own types of it.

use crate::refusal::{Code, Refusal};
use smallvec::SmallVec;
use tidegate_core::Cost;
use tidegate_core::batch::ITEMS_MAX;
use tidegate_node::Descriptor;
use tidegate_node::request::ATTRIBUTES_MAX;
use tidegate_rules::Attributes;
use tidegate_rules::envoy::{EnvoyUnit, RequestLimit};

pub(crate) type Entries<'a> = SmallVec<[(&'a str, &'a str); 8]>;
pub(crate) type RequestDescriptors = SmallVec<[RequestDescriptor; 4]>;
pub(crate) type Descriptors<'a> = SmallVec<[Descriptor<'a>; 4]>;

/// Envoy's rate limit request, before it is checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RateLimitRequest<'a> {
    pub domain: &'a str,
    /// Of all descriptors, one after the other.
    pub entries: Entries<'a>,
    pub descriptors: RequestDescriptors,
    /// 0 when it wasn't given: counts 1.
    pub hits_addend: u32,
}

/// One descriptor of Envoy's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RequestDescriptor {
    /// Where its entries end; they begin where those of the descriptor before it do.
    pub entries_end: usize,
    /// Stands for the request's own, also when it is 0, which peeks.
    pub hits_addend: Option<u64>,
    pub limit: Option<DescriptorLimit>,
}

/// The limit that a descriptor gives itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DescriptorLimit {
    pub requests_per_unit: u32,
    /// As the enum's number.
    pub unit: u64,
    /// How many units the window has; 1 when it wasn't given.
    pub unit_multiplier: Option<u32>,
}

impl<'a> RateLimitRequest<'a> {
    /// The request as the engine takes it.
    pub(crate) fn descriptors(&self) -> Result<Descriptors<'_>, Refusal> {
        if self.domain.is_empty() {
            return Err(no_domain());
        }
        if self.descriptors.is_empty() {
            return Err(no_descriptors());
        }
        let mut begin = 0;
        let mut list = Descriptors::new();
        for (index, asked) in self.descriptors.iter().enumerate() {
            let entries = &self.entries[begin..asked.entries_end];
            begin = asked.entries_end;
            if entries.is_empty() {
                return Err(no_entries().within("descriptors", index));
            }
            let hits = asked.hits_addend.unwrap_or(u64::from(self.hits_addend.max(1)));
            let cost = Cost::new(hits).map_err(|_| hits_too_large(hits).within("descriptors", index))?;
            let limit = asked.limit.map(DescriptorLimit::given).transpose();
            let limit = limit.map_err(|refusal| refusal.within("descriptors", index))?;
            list.push(Descriptor { attributes: Attributes(entries), cost, limit });
        }
        Ok(list)
    }

    /// Refuses one entry more than a descriptor may have.
    pub(crate) fn push_entry(&mut self, key: &'a str, value: &'a str) -> Result<(), Refusal> {
        let begin = self.descriptors.last().map_or(0, |last| last.entries_end);
        if self.entries.len() - begin == ATTRIBUTES_MAX {
            return Err(too_many_entries());
        }
        self.entries.push((key, value));
        Ok(())
    }
}

/// Refuses one descriptor more than a request may have.
pub(crate) fn push_descriptor(
    list: &mut RequestDescriptors,
    asked: RequestDescriptor,
) -> Result<(), Refusal> {
    if list.len() == ITEMS_MAX {
        let message = format!("`descriptors` has more than {ITEMS_MAX} of them");
        let fix = "send 1 to 100 descriptors; split more over requests";
        return Err(Refusal::of_field(Code::TooMany, "descriptors", message, fix));
    }
    list.push(asked);
    Ok(())
}

impl DescriptorLimit {
    fn given(self) -> Result<RequestLimit, Refusal> {
        let unit = EnvoyUnit::from_number(self.unit).ok_or_else(|| self.no_unit())?;
        let given = RequestLimit::new(self.requests_per_unit, unit, self.unit_multiplier.unwrap_or(1));
        given.ok_or_else(|| self.no_window())
    }

    #[cold]
    fn no_window(self) -> Refusal {
        let multiplier = self.unit_multiplier.unwrap_or(1);
        let message =
            format!("`limit.unit_multiplier` {multiplier} makes a window of no length, or of over 366 days");
        let fix = "give a multiplier of at least 1 and a window of at most 366 days";
        Refusal::of_field(Code::OutOfRange, "limit.unit_multiplier", message, fix)
    }

    #[cold]
    fn no_unit(self) -> Refusal {
        let message = format!("`limit.unit` {} is not a unit that a limit can have", self.unit);
        let fix = "give SECOND (1), MINUTE (2), HOUR (3), DAY (4), MONTH (5), YEAR (6) or WEEK (7)";
        Refusal::of_field(Code::UnknownValue, "limit.unit", message, fix)
    }
}

#[cold]
fn no_domain() -> Refusal {
    let fix = "name the namespace whose rules apply, as `domain` of Envoy's filter";
    Refusal::of_field(Code::MissingField, "domain", "rate limit domain must not be empty", fix)
}

#[cold]
fn no_descriptors() -> Refusal {
    let fix = "send 1 to 100 descriptors: a route's `rate_limits` make them";
    Refusal::of_field(Code::MissingField, "descriptors", "rate limit descriptor list must not be empty", fix)
}

#[cold]
fn no_entries() -> Refusal {
    let message = "a rate limit descriptor must have entries";
    Refusal::of_field(Code::MissingField, "entries", message, "send at least one key and value")
}

#[cold]
fn hits_too_large(hits: u64) -> Refusal {
    let message = format!("`hits_addend` must be from 0 to {}, not {hits}", Cost::MAX.get());
    Refusal::of_field(Code::OutOfRange, "hits_addend", message, "send a smaller number")
}

/// Charging what should be given back would deny callers for work that failed.
#[cold]
pub(crate) fn no_refunds() -> Refusal {
    let message = "`is_negative_hits` asks for a refund, and refunds aren't supported";
    let fix = "remove `is_negative_hits` from the `hits_addend` of the route's `rate_limits`";
    Refusal::of_field(Code::Unsupported, "is_negative_hits", message, fix)
}

#[cold]
pub(crate) fn too_many_entries() -> Refusal {
    let message = format!("a descriptor has more than {ATTRIBUTES_MAX} entries");
    Refusal::of_field(Code::TooMany, "entries", message, "send only the entries that rules use")
}
