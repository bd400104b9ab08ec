//! Rules: the model, the YAML rules file, validation with exact places, and matching.
//!
//! A [`RuleSet`] that exists is valid; a bad set of files is refused whole, with every error's line, column
//! and remedy. Rules of a control plane come as a [`Snapshot`] and [`Delta`]s, and are kept in [`RuleFiles`]. Nothing
//! here touches a network or reads a clock: `now` is an argument.

mod address;
mod attributes;
mod bounds;
mod bytes;
mod change;
mod condition;
mod describe;
pub mod envoy;
mod error;
mod form;
mod identifier;
mod matching;
mod normal;
mod overrides;
mod parse;
mod pattern;
mod place;
mod policy;
mod pushed;
mod rule;
mod rule_files;
mod series;
mod set;
mod shown;
mod snapshot;
mod source;
pub mod suggest;
mod words;

pub use attributes::Attributes;
pub use bounds::{RULES_MAX, SOURCES_BYTES_MAX};
pub use bytes::DecodeError;
pub use change::{
    DELTA_BYTES_MAX, DELTA_CHANGES_MAX, Delta, DeltaError, DocumentName, OverrideName, RuleChange,
};
pub use describe::{Description, NamespaceDescription, RuleDescription};
pub use error::{RuleError, RuleErrors, Warning};
pub use identifier::{KeyPart, address_values, caller_key, identifier_text, identifier_values};
pub use matching::{Effect, Match, MatchResult, Matches};
pub use overrides::{Override, OverrideEffect};
pub use pattern::Pattern;
pub use place::PlaceBy;
pub use policy::Policy;
pub use pushed::{PushedRules, with_overrides};
pub use rule::{Declaration, LogSampling, Mode, OnMissing, Rule, Scope};
pub use rule_files::{CompactedFile, Compaction, Download, Finding, RuleFiles, RuleFilesError};
pub use series::SeriesSlot;
pub use set::{ApplyError, Namespace, RuleOptions, RuleSet, RuleSetSize};
pub use shown::shown;
pub use snapshot::{LookupSeed, Snapshot, SnapshotError, SnapshotId, SnapshotWriter, WriteError};
pub use source::{ReadError, Source, Stamp, read_sources};
pub use words::rate as rate_words;
