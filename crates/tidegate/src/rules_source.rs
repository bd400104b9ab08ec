//! Rules that a command is about: a file, a directory, or `-` for stdin.

use std::io::{self, Read as _};
use std::path::Path;
use tidegate_rules::{ReadError, SOURCES_BYTES_MAX, Source, read_sources};

/// Reads rules files, or stdin when the path is `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<Source>, ReadError> {
    if path != Path::new("-") {
        return read_sources(path);
    }
    let mut text = Vec::new();
    // One byte more than fits tells "full" from "too large".
    let bytes_max = u64::try_from(SOURCES_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let read = io::stdin().lock().take(bytes_max).read_to_end(&mut text);
    read.map_err(|source| ReadError::Unreadable { path: path.to_owned(), source })?;
    if text.len() > SOURCES_BYTES_MAX {
        return Err(ReadError::TooLarge { path: path.to_owned() });
    }
    Ok(vec![Source { name: "stdin".to_owned(), text }])
}
