//! Decisions for people: those of one caller by one rule with one cause are one paragraph, with their number.

use crate::output::{counted, plain};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Returns a paragraph for each group, the newest first.
pub(super) fn in_words(decisions: &[&Value]) -> String {
    let mut text = String::new();
    for group in grouped(decisions) {
        paragraph(&group, &mut text);
    }
    text
}

/// A caller's name, where the log has names; else the hash of its key, as far as it takes to ask for it.
pub(super) fn who(of: &Value) -> String {
    const HASH_DIGITS: usize = 16;
    match (of["caller"].as_str(), of["key"].as_str()) {
        (Some(name), _) => plain(name),
        (None, Some(key)) => plain(key.get(..HASH_DIGITS).unwrap_or(key)),
        (None, None) => "somebody".to_owned(),
    }
}

/// In the order of their newest decisions.
fn grouped<'d>(decisions: &[&'d Value]) -> Vec<Vec<&'d Value>> {
    let mut groups: Vec<Vec<&Value>> = Vec::new();
    let mut places: HashMap<Vec<&str>, usize> = HashMap::new();
    for decision in decisions {
        let names = ["tenant", "namespace", "rule", "key", "cause", "outcome", "path", "node"];
        let name = names.map(|name| decision[name].as_str().unwrap_or("")).to_vec();
        let place = *places.entry(name).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(decision),
            None => groups.push(vec![decision]),
        }
    }
    groups
}

fn paragraph(group: &[&Value], text: &mut String) {
    let Some(newest) = group.first() else { return };
    let word = |name: &str| plain(newest[name].as_str().unwrap_or(""));
    // Writing to a String can't fail.
    let _ = writeln!(text, "{}", word("sentence"));
    let mut known = Vec::new();
    for name in ["cause", "path", "shard", "node", "request"] {
        if newest[name].is_string() {
            known.push(format!("{name} {}", word(name)));
        }
    }
    let _ = writeln!(text, "  {}", known.join(", "));
    let more = |decision: &&Value| 1 + decision["more"].as_u64().unwrap_or(0);
    let all: u64 = group.iter().map(more).sum();
    if group.len() > 1 {
        let oldest = group.last().unwrap_or(newest)["at"].as_str().unwrap_or("");
        let times = counted(usize::try_from(all).unwrap_or(usize::MAX), "time");
        let _ = writeln!(text, "  the same {times} since {}", plain(oldest));
    }
    for (name, shown) in [("unwell", "unwell then"), ("changed_before", "changed before")] {
        for event in newest[name].as_array().into_iter().flatten() {
            let word = |name: &str| plain(event[name].as_str().unwrap_or(""));
            let [what, subject, since, more] = ["what", "subject", "since", "text"].map(word);
            let line = format!("{shown}: {what} {subject} since {since} {more}");
            let _ = writeln!(text, "  {}", line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
}
