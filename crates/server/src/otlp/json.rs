//! The parts that all three messages share: who sends, attributes, numbers of 64 bits as strings.

use std::fmt::Write as _;
use tidegate_decisions::json_string;

/// Who sends.
#[derive(Clone, Debug)]
pub struct Resource {
    pub region: String,
    pub node: String,
}

impl Resource {
    /// `{"resourceX":[{"resource":…,"scopeX":[{"scope":…,"items":[` … `]}]}]}`, with what `fill` puts between.
    pub(super) fn around(&self, signal: Signal, fill: impl FnOnce(&mut String)) -> String {
        let mut out = String::with_capacity(4096);
        let Signal { resources, scopes, items } = signal;
        let _ = write!(out, "{{\"{resources}\":[{{\"resource\":{{\"attributes\":[");
        let version = env!("CARGO_PKG_VERSION");
        for (key, value) in [
            ("service.name", "tidegate"),
            ("service.version", version),
            ("service.instance.id", &self.node),
            ("tidegate.region", &self.region),
        ] {
            attribute(&mut out, key, value);
        }
        end_list(&mut out);
        let _ = write!(
            out,
            "}},\"{scopes}\":[{{\"scope\":{{\"name\":\"tidegate\",\"version\":\"{version}\"}},\"{items}\":["
        );
        fill(&mut out);
        end_list(&mut out);
        out.push_str("}]}]}");
        out
    }
}

/// What the lists of a message are called.
#[derive(Clone, Copy)]
pub(super) struct Signal {
    pub(super) resources: &'static str,
    pub(super) scopes: &'static str,
    pub(super) items: &'static str,
}

/// `{"key":…,"value":{"stringValue":…}},`
pub(super) fn attribute(out: &mut String, key: &str, value: &str) {
    out.push_str("{\"key\":");
    json_string(out, key);
    out.push_str(",\"value\":{\"stringValue\":");
    json_string(out, value);
    out.push_str("}},");
}

/// The same of a number.
pub(super) fn number(out: &mut String, key: &str, value: u64) {
    out.push_str("{\"key\":");
    json_string(out, key);
    let _ = write!(out, ",\"value\":{{\"intValue\":\"{}\"}}}},", i64::try_from(value).unwrap_or(i64::MAX));
}

/// Ends a list whose items end with commas.
pub(super) fn end_list(out: &mut String) {
    if out.ends_with(',') {
        out.pop();
    }
    out.push(']');
}
