//! The text of one YAML document without some of its fields.
//!
//! By lines where every field begins a line of its own; written anew, in quotes, where that isn't so.

use crate::error::Problems;
use crate::parse::read_files;
use crate::parse::tree::{MappingEntry, Node, Value};
use crate::source::Source;
use std::fmt::Write;

/// The document of `text` that `node` was read from, without these fields. Ends with a line break.
pub(super) fn without(text: &str, node: &Node<'_>, apart: &[&str], nesting_max: usize) -> String {
    let Value::Map(entries) = &node.value else { return String::new() };
    let kept: Vec<&MappingEntry<'_>> = entries.iter().filter(|entry| !apart.contains(&&*entry.key)).collect();
    if let Some(cut) = by_lines(text, entries, apart)
        && means(&cut, &kept, nesting_max)
    {
        return cut;
    }
    let mut anew = String::new();
    for entry in kept {
        quoted(&mut anew, &entry.key);
        anew.push_str(": ");
        flow(&mut anew, &entry.node.value);
        anew.push('\n');
    }
    anew
}

/// `None` where fields don't begin lines.
fn by_lines(text: &str, entries: &[MappingEntry<'_>], apart: &[&str]) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let line_of = |entry: &MappingEntry<'_>| usize::try_from(entry.key_place.line).ok()?.checked_sub(1);
    let starts: Vec<usize> = entries.iter().map(line_of).collect::<Option<_>>()?;
    let (first, last) = (*starts.first()?, *starts.last()?);
    if !starts.is_sorted_by(|a, b| a < b) || entries.iter().any(|entry| entry.key_place.column != 1) {
        return None;
    }
    let is_marker = |line: &str| line.starts_with("---") || line.starts_with("...");
    // Comments above the first field belong to it, up to the document's own beginning.
    let begin = lines[..first].iter().rposition(|line| is_marker(line)).map_or(0, |marker| marker + 1);
    let end =
        lines[last..].iter().position(|line| is_marker(line)).map_or(lines.len(), |marker| last + marker);
    let mut cut = String::new();
    lines[begin..first].iter().for_each(|line| cut.push_str(line));
    for (index, entry) in entries.iter().enumerate() {
        let until = starts.get(index + 1).copied().unwrap_or(end);
        if !apart.contains(&&*entry.key) {
            lines[starts[index]..until].iter().for_each(|line| cut.push_str(line));
        }
    }
    if !cut.ends_with('\n') {
        cut.push('\n');
    }
    Some(cut)
}

/// Whether a text has these fields and nothing else.
fn means(text: &str, kept: &[&MappingEntry<'_>], nesting_max: usize) -> bool {
    let source = Source { name: String::new(), text: text.as_bytes().to_vec() };
    let mut problems = Problems::default();
    let (files, _) = read_files(&[&source], nesting_max, &mut problems);
    match files.as_slice() {
        [(_, documents)] if problems.count() == 0 => match documents.as_slice() {
            [Node { value: Value::Map(entries), .. }] => {
                entries.len() == kept.len()
                    && entries.iter().zip(kept).all(|(a, b)| a.key == b.key && same(&a.node, &b.node))
            }
            _ => false,
        },
        _ => false,
    }
}

/// But for their places.
fn same(a: &Node<'_>, b: &Node<'_>) -> bool {
    match (&a.value, &b.value) {
        (Value::Null, Value::Null) => true,
        (Value::Scalar(a), Value::Scalar(b)) => a == b,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.key == b.key && same(&a.node, &b.node))
        }
        _ => false,
    }
}

fn flow(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Scalar(text) => quoted(out, text),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                flow(out, &item.value);
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                quoted(out, &entry.key);
                out.push_str(": ");
                flow(out, &entry.node.value);
            }
            out.push('}');
        }
    }
}

/// In double quotes, where YAML knows JSON's escapes.
pub(super) fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // What a line break or a mark of the text's order could be taken for.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                // Writing to a String can't fail.
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::NESTING_MAX;

    fn cut(text: &str) -> Vec<String> {
        let source = Source { name: "a".into(), text: text.into() };
        let (files, _) = read_files(&[&source], NESTING_MAX, &mut Problems::default());
        files[0].1.iter().map(|node| without(text, node, &["overrides"], NESTING_MAX)).collect()
    }

    #[test]
    fn a_field_goes_by_its_lines_and_comments_stay() {
        let text = "# whose\nnamespace: api # this\noverrides:\n  - { a: b }\n\n  - c: |\n      d\nrules: [] # none\n";
        assert_eq!(cut(text), ["# whose\nnamespace: api # this\nrules: [] # none\n"]);
        assert_eq!(cut("namespace: api\noverrides: []"), ["namespace: api\n"]);
        assert_eq!(cut("overrides:\n- a\nnamespace: api"), ["namespace: api\n"]);
        assert_eq!(
            cut("namespace: a\n---\n# b\nnamespace: b\noverrides: []\n...\n"),
            ["namespace: a\n", "# b\nnamespace: b\n"]
        );
    }

    #[test]
    fn what_has_no_lines_of_its_own_is_written_anew() {
        assert_eq!(
            cut("{ namespace: api, overrides: [], rules: [{ a: \"b\\n\" }, ~] }"),
            ["\"namespace\": \"api\"\n\"rules\": [{\"a\": \"b\\n\"}, null]\n"]
        );
        assert_eq!(cut("--- { namespace: api }\n"), ["\"namespace\": \"api\"\n"]);
        // Indented by one: the lines are there, and aren't trusted.
        assert_eq!(cut(" namespace: api\n overrides: []\n"), ["\"namespace\": \"api\"\n"]);
    }
}
