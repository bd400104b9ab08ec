//! The one request type that every front end converts into, and the one answer that it converts from.
//!
//! Wire types stay at the edge: nothing here knows JSON, protobuf or RESP. Everything in a `Request` is valid
//! by its type; lengths and counts are what [`RequestError`] is for.

use smallvec::SmallVec;
use tidegate_core::ask::AskReason;
use tidegate_core::batch::{ITEMS_INLINE, ITEMS_MAX};
use tidegate_core::identity::Shape;
use tidegate_core::{Accuracy, Burst, Class, Cost, Decision, Limit, Period, Rate, Role, Spec};
use tidegate_rules::envoy::RequestLimit;
use tidegate_rules::{Attributes, Rule, Scope};

/// The longest namespace, in characters.
pub const NAMESPACE_CHARS_MAX: usize = 128;
/// The same, of a limit that a request gives itself: nothing but its key is made of it.
pub const GIVEN_NAMESPACE_CHARS_MAX: usize = 512;
/// The longest value of an attribute, identifier or key, in bytes: as long as a request's head may be, so that
/// no header or path that a proxy passes on is refused. Values are only hashed and compared; whatever shows one
/// shortens it with [`tidegate_rules::shown`].
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 16 << 10;
/// The longest values of all attributes of a request together, in bytes: each of 100 rules may hash all of them.
pub const ATTRIBUTES_BYTES_MAX: usize = 32 << 10;
/// The longest identifier of Unkey's API, in characters.
pub const IDENTIFIER_CHARS_MAX: usize = 512;
/// The most attributes of a request, and the longest name of one.
pub const ATTRIBUTES_MAX: usize = 64;
pub const ATTRIBUTE_NAME_CHARS_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub tenant: &'a str,
    pub purpose: Purpose,
    pub subject: Subject<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// May it pass? Charged if so.
    Check,
    /// It has passed already: charge it whatever the limits say.
    Report,
}

#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// Limited by the rules of a namespace.
    Rules { namespace: &'a str, attributes: Attributes<'a>, cost: Cost },
    /// Several checks by the rules of one namespace, 1 to 100, all or none.
    Descriptors { namespace: &'a str, descriptors: &'a [Descriptor<'a>] },
    /// Limited by what the request itself says: 1 to 100 limits, all or none.
    Limits(&'a [GivenLimit<'a>]),
}

/// One of several attribute sets of a request. A rule that several of them meet is charged for each.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    pub attributes: Attributes<'a>,
    pub cost: Cost,
    /// Stands for the rules of a namespace that exists: one window, for exactly these attributes.
    pub limit: Option<RequestLimit>,
}

/// A limit that was given in the request.
#[derive(Clone, Copy, Debug)]
pub struct GivenLimit<'a> {
    pub namespace: &'a str,
    pub identifier: &'a str,
    pub policy: GivenPolicy,
    pub cost: Cost,
    pub class: Class,
    pub accuracy: Accuracy,
    pub scope: Option<Scope>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GivenPolicy {
    Sliding { limit: Limit, period: Period },
    Fixed { limit: Limit, period: Period },
    Gcra { rate: Rate, burst: Burst },
}

impl GivenPolicy {
    pub(crate) fn spec(self) -> Spec {
        match self {
            GivenPolicy::Sliding { limit, period } => Spec::Sliding { limit, period },
            GivenPolicy::Fixed { limit, period } => Spec::Fixed { limit, period },
            GivenPolicy::Gcra { rate, burst } => Spec::Gcra { rate, burst },
        }
    }

    pub(crate) fn shape(self) -> Shape<'static> {
        match self {
            GivenPolicy::Sliding { period, .. } => Shape::Sliding(period),
            GivenPolicy::Fixed { period, .. } => Shape::Fixed(period),
            GivenPolicy::Gcra { .. } => Shape::Gcra,
        }
    }
}

/// What was wrong with a request. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    #[error("a namespace has 1 to {chars_max} characters")]
    Namespace { chars_max: usize },
    #[error("an identifier has 1 to {ATTRIBUTE_VALUE_BYTES_MAX} bytes")]
    Identifier { index: usize },
    #[error("a request has at most {ATTRIBUTES_MAX} attributes")]
    TooManyAttributes,
    #[error("an attribute's name has 1 to {ATTRIBUTE_NAME_CHARS_MAX} characters")]
    AttributeName { name: String },
    #[error("an attribute's value has at most {ATTRIBUTE_VALUE_BYTES_MAX} bytes")]
    AttributeValue { name: String },
    #[error("the values of a request's attributes have at most {ATTRIBUTES_BYTES_MAX} bytes together")]
    AttributesTooLong,
    #[error("a request names 1 to {ITEMS_MAX} limits")]
    LimitCount,
    #[error("a request has 1 to {ITEMS_MAX} descriptors")]
    DescriptorCount,
    #[error("more than {ITEMS_MAX} rules match this request")]
    TooManyRules,
}

/// How a request was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecisionPath {
    Local,
    /// The region was asked first, for this reason.
    Asked(AskReason),
    /// The region's part of a limit of the world denied it.
    Quota,
    /// A limit had no room in the counter table, or couldn't ask its region, and was decided by its class.
    Unverified,
}

/// Something to say about the request as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    NoRuleMatches,
    UnknownNamespace,
    NamespaceOff,
    /// The region's store didn't answer, so that a limit was decided by its class.
    StoreUnavailable,
    /// The counter table had no room for a key, which was decided by its class.
    TableFull,
}

#[derive(Clone, Debug)]
pub struct Answer<'r> {
    pub allowed: bool,
    pub limits: SmallVec<[LimitAnswer<'r>; ITEMS_INLINE]>,
    pub path: DecisionPath,
    pub reason: Option<Reason>,
    pub rule_version: u64,
}

/// The source of a limit: a rule, or the request itself.
#[derive(Clone, Copy, Debug)]
pub enum LimitSource<'r> {
    Rule(&'r Rule),
    /// The `index`-th limit of the request, or the limit of its `index`-th descriptor.
    Given {
        index: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct LimitAnswer<'r> {
    pub source: LimitSource<'r>,
    pub role: Role,
    /// Which of the request's descriptors it is about; 0 when it has none.
    pub descriptor: u8,
    pub outcome: LimitOutcome<'r>,
}

/// The outcome of one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitOutcome<'r> {
    Decided(Decision),
    /// An override lifts the limit.
    Unlimited,
    /// The rule denies requests that lack this attribute, or whose value of it should be an address and isn't.
    Missing {
        attribute: &'r str,
        is_malformed: bool,
    },
}

impl LimitAnswer<'_> {
    pub fn is_allowed(&self) -> bool {
        match self.outcome {
            LimitOutcome::Decided(decision) => decision.is_admitted(),
            LimitOutcome::Unlimited => true,
            LimitOutcome::Missing { .. } => false,
        }
    }

    /// Whether it is over: alone enough to deny, or only together with all other quotas.
    pub fn is_over(&self) -> bool {
        self.role != Role::Shadow && !self.is_allowed()
    }
}

impl Request<'_> {
    /// Checks what types can't: lengths and counts.
    pub fn validate(&self) -> Result<(), RequestError> {
        match self.subject {
            Subject::Rules { namespace, attributes, .. } => {
                validate_namespace(namespace, NAMESPACE_CHARS_MAX)?;
                validate_attributes(attributes)
            }
            Subject::Descriptors { namespace, descriptors } => {
                if descriptors.is_empty() || descriptors.len() > ITEMS_MAX {
                    return Err(RequestError::DescriptorCount);
                }
                validate_namespace(namespace, NAMESPACE_CHARS_MAX)?;
                descriptors.iter().try_for_each(|descriptor| validate_attributes(descriptor.attributes))
            }
            Subject::Limits(limits) => {
                if limits.is_empty() || limits.len() > ITEMS_MAX {
                    return Err(RequestError::LimitCount);
                }
                limits.iter().enumerate().try_for_each(|(index, limit)| {
                    validate_namespace(limit.namespace, GIVEN_NAMESPACE_CHARS_MAX)?;
                    let fits = (1..=ATTRIBUTE_VALUE_BYTES_MAX).contains(&limit.identifier.len());
                    fits.then_some(()).ok_or(RequestError::Identifier { index })
                })
            }
        }
    }
}

fn validate_namespace(namespace: &str, chars_max: usize) -> Result<(), RequestError> {
    let valid = !namespace.is_empty() && fits(namespace, chars_max);
    valid.then_some(()).ok_or(RequestError::Namespace { chars_max })
}

fn validate_attributes(attributes: Attributes<'_>) -> Result<(), RequestError> {
    if attributes.0.len() > ATTRIBUTES_MAX {
        return Err(RequestError::TooManyAttributes);
    }
    let mut bytes = 0;
    for (name, value) in attributes.0 {
        bytes += value.len();
        if name.is_empty() || !fits(name, ATTRIBUTE_NAME_CHARS_MAX) {
            return Err(RequestError::AttributeName { name: name.chars().take(80).collect() });
        }
        if value.len() > ATTRIBUTE_VALUE_BYTES_MAX {
            return Err(RequestError::AttributeValue { name: (*name).to_owned() });
        }
    }
    if bytes > ATTRIBUTES_BYTES_MAX {
        return Err(RequestError::AttributesTooLong);
    }
    Ok(())
}

/// Whether a text has at most so many characters; counts them only when its bytes leave a doubt.
fn fits(text: &str, chars_max: usize) -> bool {
    text.len() <= chars_max || (text.len() <= 4 * chars_max && text.chars().count() <= chars_max)
}
