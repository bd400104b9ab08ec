//! The files of a set as trees: their bytes, their encoding, and the bounds on all of them together.
//!
//! A file that can't be read hides no mistake of the next one.

use super::syntax::{Syntax, read_documents};
use super::tree::{Node, SourcePosition, Value};
use crate::bounds::{NODES_MAX, SOURCES_BYTES_MAX};
use crate::error::{Problems, Refusal, RuleError};
use crate::source::Source;
use std::sync::Arc;

/// A file's name and its documents.
pub(crate) type File<'t> = (Arc<str>, Vec<Node<'t>>);

pub(crate) fn read_files<'s>(
    sources: &[&'s Source],
    nesting_max: usize,
    problems: &mut Problems,
) -> (Vec<File<'s>>, Syntax) {
    let (mut files, mut all_sound) = (Vec::new(), Syntax::Sound);
    let (mut bytes_left, mut nodes_left) = (SOURCES_BYTES_MAX, NODES_MAX);
    for source in sources {
        let file: Arc<str> = source.name.as_str().into();
        let Some(left) = bytes_left.checked_sub(source.text.len()) else {
            let message = format!("the rules are larger than {} MiB", SOURCES_BYTES_MAX >> 20);
            let refusal = Refusal::new(message, "split them, or use a control plane");
            refuse_file(&file, SourcePosition::START, refusal, problems);
            return (files, Syntax::Broken);
        };
        bytes_left = left;
        match std::str::from_utf8(&source.text) {
            Ok(text) => {
                let (documents, syntax) = read_documents(&file, text, nesting_max, &mut nodes_left, problems);
                all_sound = if syntax == Syntax::Broken { syntax } else { all_sound };
                files.push((file, documents));
            }
            Err(error) => {
                all_sound = Syntax::Broken;
                let place = place_after(&source.text[..error.valid_up_to()]);
                let refusal = Refusal::new("a byte here isn't UTF-8", "save the file as UTF-8");
                refuse_file(&file, place, refusal, problems);
            }
        }
    }
    (files, all_sound)
}

/// Whether there isn't a value in any of them.
pub(crate) fn says_nothing(files: &[File<'_>]) -> bool {
    files.iter().all(|(_, documents)| documents.iter().all(|node| matches!(node.value, Value::Null)))
}

pub(crate) fn refuse_file(
    file: &Arc<str>,
    SourcePosition { line, column }: SourcePosition,
    Refusal { message, fix }: Refusal,
    problems: &mut Problems,
) {
    problems.push(RuleError { file: file.clone(), line, column, field: "document".to_owned(), message, fix });
}

/// The place right after a valid piece of text.
fn place_after(text: &[u8]) -> SourcePosition {
    let text = std::str::from_utf8(text).unwrap_or("");
    let last_line = text.rsplit('\n').next().unwrap_or("");
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    SourcePosition { line: number(text.matches('\n').count()), column: number(last_line.chars().count()) }
}
