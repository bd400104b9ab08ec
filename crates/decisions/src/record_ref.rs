//! What the log's writer tells those who ship it elsewhere, and the line of JSON that it makes.
//!
//! The same as goes into the files: a caller is a hash here too, never a name.

use crate::event::Event;
use crate::json::{event_fields, names, record_fields, text};
use crate::name::RuleName;
use crate::read::Writer;
use crate::record::{Record, RuleCount};
use crate::why::utc;
use std::fmt::Write as _;

/// A record as it is handed to those who ship the log elsewhere.
#[derive(Clone, Copy, Debug)]
pub enum LogRecordRef<'a> {
    Decision {
        record: &'a Record,
        rule: Option<&'a RuleName>,
        shard: Option<&'a str>,
    },
    /// Denials that are known by their number only.
    Count {
        count: &'a RuleCount,
        rule: Option<&'a RuleName>,
    },
    Event(&'a Event),
}

impl LogRecordRef<'_> {
    /// One line, with its end. `writer`: whose log it is.
    pub fn line(&self, writer: &Writer, out: &mut String) {
        match self {
            LogRecordRef::Decision { record, rule, shard } => {
                out.push_str("{\"kind\":\"decision\",");
                text(out, "at", &utc(record.at));
                text(out, "outcome", record.outcome.name());
                record_fields(out, record, *rule);
                if let Some(shard) = shard {
                    text(out, "shard", shard);
                }
            }
            LogRecordRef::Count { count, rule } => {
                out.push_str("{\"kind\":\"count\",");
                text(out, "at", &utc(count.first));
                text(out, "last", &utc(count.last));
                names(out, *rule);
                let _ = write!(out, "\"denials\":{},", count.count);
            }
            LogRecordRef::Event(event) => {
                out.push_str("{\"kind\":\"event\",");
                text(out, "at", &utc(event.at));
                event_fields(out, event);
            }
        }
        text(out, "region", &writer.region);
        text(out, "node", &writer.node);
        out.pop();
        out.push_str("}\n");
    }
}
