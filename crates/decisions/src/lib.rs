//! The log of a node's decisions and of its health: why was this caller denied, and was everything all right then?
//!
//! Decisions are put down in memory ([`Recorder`]), without waiting, allocating or formatting; a writer of its own
//! ([`Log`]) appends them to segments of a directory once a second; [`read()`] finds them again, and [`why`] says what
//! they mean. It must never hold up a decision, and never lose one without counting it.

mod block;
mod caller;
mod entry;
mod event;
mod index;
mod json;
mod log;
mod name;
mod read;
mod record;
mod record_ref;
mod recorder;
mod segment;
mod thread_buffer;
pub mod why;

pub use caller::{Caller, PartTag, PartTags};
pub use event::{Event, EventKind};
pub use json::string as json_string;
pub use log::{CAP_BYTES_DEFAULT, CAP_BYTES_MIN, Log, LogError, LogOptions};
pub use name::{Algorithm, KeyForm, RuleName, rule_subject};
pub use read::{
    LogReadError, Query, QueryRecord, QueryResult, RECORDS_MAX, RuleFilter, WantedCallers, WantedValue,
    Writer, read,
};
pub use record::{
    KeyHash, Record, RecordOutcome, RecordPath, RequestTag, RuleCount, RuleId, ShardTag, Trace,
};
pub use record_ref::LogRecordRef;
pub use recorder::{Counters, Recorder};
pub use thread_buffer::{DenialKind, KEYS_MAX, RecordHeader};
