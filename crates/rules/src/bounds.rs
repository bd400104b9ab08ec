//! How long and how many: every string and list of a rules file has a bound, so that no file can make a
//! node slow or large. A bound that users may meet is named in the error that they get.

/// All files of a set together.
pub const SOURCES_BYTES_MAX: usize = 64 << 20;
/// All rules of a set together.
pub const RULES_MAX: usize = 100_000;
/// Files of a directory.
pub(crate) const FILES_MAX: usize = 10_000;
/// Values in the YAML of a set, lists and maps included: what bounds the memory of reading it.
pub(crate) const NODES_MAX: usize = 8_000_000;
/// Rules need 5 levels; whatever is deeper is a mistake or an attack.
pub(crate) const NESTING_MAX: usize = 16;
/// Errors that are told of one set; the rest are only counted.
pub(crate) const ERRORS_MAX: usize = 50;
/// Warnings that are kept of one set.
pub(crate) const WARNINGS_MAX: usize = 200;

/// Of a rule, a namespace, a tenant.
pub(crate) const NAME_CHARS_MAX: usize = 128;
pub(crate) const ATTRIBUTE_CHARS_MAX: usize = 64;
/// Of a value or a `*` pattern.
pub(crate) const VALUE_CHARS_MAX: usize = 512;
pub(crate) const DESCRIPTION_CHARS_MAX: usize = 512;
pub(crate) const TIME_ZONE_CHARS_MAX: usize = 64;
/// Of a limit, a rate, a number or a timestamp.
pub(crate) const QUANTITY_CHARS_MAX: usize = 64;

pub(crate) const KEY_PARTS_MAX: usize = 8;
pub(crate) const CONDITIONS_MAX: usize = 16;
/// Values in one rule's `when`, all attributes together.
pub(crate) const CONDITION_VALUES_MAX: usize = 1000;

/// Of a file of envoyproxy/ratelimit: a level of descriptors takes two of YAML, a limit's `replaces` three more,
/// and `metadata` may hold anything.
pub(crate) const ENVOY_NESTING_MAX: usize = 64;
/// Levels of descriptors, and so the entries of a request's descriptor that can meet a limit.
pub(crate) const ENVOY_DEPTH_MAX: usize = 16;
/// All descriptors of a set together.
pub(crate) const ENVOY_DESCRIPTORS_MAX: usize = 100_000;
/// Of a key. A domain is a namespace, and no longer: a request that names it must be able to.
pub(crate) const ENVOY_KEY_CHARS_MAX: usize = 512;
/// Names in one limit's `replaces`.
pub(crate) const ENVOY_REPLACES_MAX: usize = 100;

/// What one request may have to be compared with in a namespace, in units of some 50 ns: about a millisecond.
pub(crate) const NAMESPACE_COST_MAX: usize = 20_000;
/// Of a condition: an attribute is looked up, and a sorted value is compared.
pub(crate) const CONDITION_COST: usize = 1;
/// A condition costs one unit more for so many attributes that the namespace's rules name: each may be looked at.
pub(crate) const NAMES_PER_UNIT: usize = 8;
/// So many of a request's attributes are looked at without asking first whether the namespace's rules name them.
pub(crate) const FEW_ATTRIBUTES: usize = 8;
/// So many bytes of a text that is compared cost one unit more.
pub(crate) const BYTES_PER_UNIT: usize = 64;
/// Of a pattern that is neither one beginning nor one end: it is compared by itself.
pub(crate) const PATTERN_COST: usize = 4;
/// Of a pattern with a piece between two `*`: the whole value, of up to 16 KiB, is searched for it.
pub(crate) const SEARCH_COST: usize = 320;
/// It costs as much again for so many bytes of such a pattern: long pieces, and many of them, are found more slowly.
pub(crate) const SEARCHED_BYTES_PER_COST: usize = 128;
/// So many networks cost one unit.
pub(crate) const NETWORKS_PER_UNIT: usize = 8;
/// Of an Envoy descriptor with a `*` in its key: key and value of an entry are joined for it.
pub(crate) const JOIN_COST: usize = 40;
