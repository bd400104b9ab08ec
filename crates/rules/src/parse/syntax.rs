//! From text to trees: YAML's own rules, and the bounds on it.
//!
//! Aliases and tags are refused: rules have no use for them, and aliases are how a kilobyte of YAML becomes
//! a gigabyte. After a syntax error the next document is still read, so that its errors are told too.

use super::cursor::shown_name;
use super::tree::{MappingEntry, Node, SourcePosition, Value};
use crate::bounds::NODES_MAX;
use crate::error::{Problems, Refusal, RuleError, quoted};
use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Whether every document of a file could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Syntax {
    Sound,
    Broken,
}

/// Reads every document of a file. `nodes_left` is what remains of the set's bound.
pub(crate) fn read_documents<'t>(
    file: &Arc<str>,
    text: &'t str,
    nesting_max: usize,
    nodes_left: &mut usize,
    problems: &mut Problems,
) -> (Vec<Node<'t>>, Syntax) {
    let options = granit_parser::options! {
        flow_nesting_limit: nesting_max,
        block_nesting_limit: nesting_max,
        emit_comments: false,
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut builder =
        Builder { file, text, problems, nesting_max, nodes_left, open: Vec::new(), documents: Vec::new() };
    let mut syntax = Syntax::Sound;
    loop {
        match builder.read_to_end(&mut parser) {
            Ok(()) => return (builder.documents, syntax),
            Err(stop) => {
                syntax = Syntax::Broken;
                let bounded = stop == Stop::Here || builder.problems.count() >= crate::bounds::ERRORS_MAX;
                builder.open.clear();
                if bounded || !matches!(parser.proceed_next_document(), Ok(true)) {
                    return (builder.documents, syntax);
                }
            }
        }
    }
}

/// After an error: whether the next document is worth a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    ThisDocument,
    Here,
}

/// A list or a map whose end hasn't come yet.
enum Open<'t> {
    List { place: SourcePosition, items: Vec<Node<'t>> },
    Map { place: SourcePosition, entries: Vec<MappingEntry<'t>>, key: Option<(Cow<'t, str>, SourcePosition)> },
}

struct Builder<'b, 't> {
    file: &'b Arc<str>,
    text: &'t str,
    problems: &'b mut Problems,
    nesting_max: usize,
    nodes_left: &'b mut usize,
    open: Vec<Open<'t>>,
    documents: Vec<Node<'t>>,
}

impl<'t> Builder<'_, 't> {
    fn read_to_end(&mut self, parser: &mut Parser<'t, StrInput<'t>>) -> Result<(), Stop> {
        while let Some(next) = parser.next_event() {
            match next {
                Ok((event, span)) => self.take(event, &span)?,
                Err(error) => {
                    let place = place_of(error.marker());
                    let place = if is_about_a_tab(&error) { tab_from(place, self.text) } else { place };
                    self.refuse(place, syntax_refusal(&error, self.nesting_max));
                    return Err(Stop::ThisDocument);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'t>, span: &Span) -> Result<(), Stop> {
        let place = place_of(&span.start);
        if let Some(tag) = event.tag() {
            let message = format!("the tag {} isn't used in rules", quoted(&tag.original()));
            self.refuse(
                place,
                Refusal::new(message, "remove it, or put a value that starts with `!` in quotes"),
            );
        }
        match event {
            Event::Scalar(text, style, ..) => self.node(place, scalar(text, style)),
            Event::SequenceStart(..) => {
                self.open.push(Open::List { place, items: Vec::new() });
                Ok(())
            }
            Event::MappingStart(..) => {
                self.open.push(Open::Map { place, entries: Vec::new(), key: None });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(_) => {
                let message = "YAML aliases aren't allowed in rules";
                let fix = "write the value out, or put a pattern in quotes: \"*\"";
                self.refuse(place, Refusal::new(message, fix));
                self.node(place, Value::Null)
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self) -> Result<(), Stop> {
        match self.open.pop() {
            Some(Open::List { place, items }) => self.node(place, Value::List(items)),
            Some(Open::Map { place, entries, .. }) => {
                let entries = self.without_duplicates(entries);
                self.node(place, Value::Map(entries))
            }
            None => Ok(()),
        }
    }

    /// Puts a finished value into what is open around it.
    fn node(&mut self, place: SourcePosition, value: Value<'t>) -> Result<(), Stop> {
        let Some(left) = self.nodes_left.checked_sub(1) else {
            let message = format!("the rules have more than {NODES_MAX} values");
            self.refuse(place, Refusal::new(message, "split them, or use a control plane"));
            return Err(Stop::Here);
        };
        *self.nodes_left = left;
        match self.open.last_mut() {
            None => self.documents.push(Node { place, value }),
            Some(Open::List { items, .. }) => items.push(Node { place, value }),
            Some(Open::Map { entries, key, .. }) => match (key.take(), value) {
                (Some((key, key_place)), value) => {
                    entries.push(MappingEntry { key, key_place, node: Node { place, value } });
                }
                (None, Value::Scalar(text)) => *key = Some((text, place)),
                (None, value) => {
                    *key = Some((Cow::Borrowed("?"), place));
                    let message = format!("a field's name is text, found {}", value.kind());
                    let fix = "write `name: value`; put values that contain `{`, `[` or `: ` in quotes";
                    self.refuse(place, Refusal::new(message, fix));
                }
            },
        }
        Ok(())
    }

    /// Keeps the first of each; YAML leaves open which would win.
    fn without_duplicates(&mut self, entries: Vec<MappingEntry<'t>>) -> Vec<MappingEntry<'t>> {
        let mut first_places: HashMap<Cow<'t, str>, SourcePosition> = HashMap::with_capacity(entries.len());
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            match first_places.get(&entry.key) {
                None => {
                    first_places.insert(entry.key.clone(), entry.key_place);
                    kept.push(entry);
                }
                Some(first) => {
                    let message =
                        format!("{} is given twice, first on line {}", quoted(&entry.key), first.line);
                    let field = self.field(Some(&entry.key));
                    self.refuse_field(entry.key_place, field, Refusal::new(message, "keep one of the two"));
                }
            }
        }
        kept
    }

    fn refuse(&mut self, place: SourcePosition, refusal: Refusal) {
        let field = self.field(None);
        self.refuse_field(place, field, refusal);
    }

    fn refuse_field(&mut self, place: SourcePosition, field: String, Refusal { message, fix }: Refusal) {
        let SourcePosition { line, column } = place;
        self.problems.push(RuleError { file: self.file.clone(), line, column, field, message, fix });
    }

    /// The path to where the parser stands, and to `name` in it.
    fn field(&self, name: Option<&str>) -> String {
        let mut path = String::new();
        let mut step = |name: &str| {
            let dot = if path.is_empty() { "" } else { "." };
            path = format!("{path}{dot}{}", shown_name(name));
        };
        for open in &self.open {
            match open {
                Open::List { items, .. } => step(&format!("[{}]", items.len())),
                Open::Map { key: Some((key, _)), .. } => step(key),
                Open::Map { .. } => {}
            }
        }
        name.map(step);
        let path = path.replace(".[", "[");
        if path.is_empty() { "document".to_owned() } else { path }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Value<'_> {
    let plain = style == ScalarStyle::Plain;
    if plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
        Value::Null
    } else {
        Value::Scalar(text)
    }
}

fn place_of(marker: &Marker) -> SourcePosition {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    SourcePosition { line: number(marker.line()).max(1), column: number(marker.col()).saturating_add(1) }
}

fn is_about_a_tab(error: &ScanError) -> bool {
    matches!(error.kind(), ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation)
        || error.info().contains("found a tab")
}

/// Where the next line that is indented with a tab has it: the parser names the value before it.
fn tab_from(place: SourcePosition, text: &str) -> SourcePosition {
    let lines = text.lines().zip(1_u32..).skip(usize::try_from(place.line).unwrap_or(usize::MAX) - 1);
    let mut tabs = lines.filter_map(|(text, line)| {
        let indented = text.len() - text.trim_start().len();
        let before = text[..indented].find('\t')?;
        Some(SourcePosition { line, column: u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1) })
    });
    tabs.next().unwrap_or(place)
}

fn syntax_refusal(error: &ScanError, nesting_max: usize) -> Refusal {
    let fix = match error.kind() {
        _ if is_about_a_tab(error) => "indent with spaces, not tabs".to_owned(),
        ErrorKind::UnknownAnchor | ErrorKind::MissingAnchorOrAliasName => {
            "put `*` patterns in quotes: \"acme-*\"".to_owned()
        }
        ErrorKind::RecursionLimitExceeded => format!("nest at most {nesting_max} levels"),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidIndentation => {
            "check the indentation, and put values that contain `: ` in quotes".to_owned()
        }
        _ => "correct the YAML here or just before: indentation, brackets, quotes".to_owned(),
    };
    Refusal::new(format!("this isn't valid YAML: {}", error.info()), fix)
}
