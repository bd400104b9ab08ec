//! The table of all metrics in `docs/metrics.md`, as tests compare with it.

use crate::read;
use std::collections::BTreeMap;

/// A row: its section's heading, the metric's kind, and what it means.
pub(crate) struct Row {
    pub(crate) section: String,
    pub(crate) kind: String,
    pub(crate) meaning: String,
}

pub(crate) fn rows() -> BTreeMap<String, Row> {
    let page = read("docs/metrics.md");
    let mut rows = BTreeMap::new();
    let mut section = "";
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            section = heading;
        }
        if !line.starts_with("| `tidegate_") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, _, meaning, ..] = cells[..] else { panic!("{line}") };
        let row = Row { section: section.to_owned(), kind: kind.to_owned(), meaning: meaning.to_owned() };
        let before = rows.insert(name.trim_matches('`').to_owned(), row);
        assert!(before.is_none(), "{name} is there twice");
    }
    rows
}

/// The names of some sections.
pub(crate) fn names_of(sections: &[&str]) -> Vec<String> {
    let rows = rows();
    for section in sections {
        assert!(rows.values().any(|row| row.section == *section), "no section {section}");
    }
    let wanted = rows.into_iter().filter(|(_, row)| sections.contains(&row.section.as_str()));
    wanted.map(|(name, _)| name).collect()
}

/// Whether there is such a metric, or such a part of a histogram.
pub(crate) fn is_known(rows: &BTreeMap<String, Row>, name: &str) -> bool {
    let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|ending| {
        let whole = name.strip_suffix(ending).and_then(|name| rows.get(name));
        whole.is_some_and(|row| row.kind == "histogram")
    });
    of_histogram || rows.contains_key(name)
}

/// Every name of ours in a text: `tidegate_…`, and `tidegate_a_(b|c)` as both.
pub(crate) fn mentioned(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (start, _) in text.match_indices("tidegate_") {
        let rest = &text[start..];
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        match rest[end..].strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((several, _)) => {
                names.extend(several.split('|').map(|part| format!("{}{part}", &rest[..end])));
            }
            None => names.push(rest[..end].to_owned()),
        }
    }
    names
}
