//! Reading rules files: one file, or every `*.yaml` and `*.yml` of a directory, symbolic links followed.
//!
//! Reads at most the bound of a set, whatever it is pointed at, and never a mix of two versions of a
//! Kubernetes ConfigMap: those swap the link `..data` under the files' feet, and the reading starts again.

use crate::bounds::{FILES_MAX, SOURCES_BYTES_MAX};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A rules file's name, as errors show it, and its bytes, which may be anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    pub name: String,
    pub text: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("can't read rules from {}: {source}; check the path and its permissions", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} isn't a regular file; rules are read again when they change, so give a file or a directory", .path.display())]
    NotAFile { path: PathBuf },
    #[error("the rules at {} are larger than {} MiB; split them, or use a control plane", .path.display(), SOURCES_BYTES_MAX >> 20)]
    TooLarge { path: PathBuf },
    #[error("{} has no *.yaml or *.yml file; for no rules at all, put a file with `namespace: default` in it there", .path.display())]
    NoFiles { path: PathBuf },
    #[error("{} has more than {FILES_MAX} files; keep the rules in fewer", .path.display())]
    TooManyFiles { path: PathBuf },
}

/// Reads a file, or a directory's files in the order of their names. Dot-names and subdirectories are left
/// out.
pub fn read_sources(path: &Path) -> Result<Vec<Source>, ReadError> {
    let metadata = fs::metadata(path).map_err(|source| unreadable(path, source))?;
    if !metadata.is_dir() {
        let mut room = SOURCES_BYTES_MAX;
        return Ok(vec![read_file(path, &mut room)?]);
    }
    const SWAPS_MAX: usize = 5;
    let mut version = config_map_version(path);
    let mut sources = read_directory(path);
    for _ in 0..SWAPS_MAX {
        let version_after = config_map_version(path);
        if version_after == version {
            break;
        }
        version = version_after;
        sources = read_directory(path);
    }
    sources
}

/// What the file system says of rules files without their being read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamp(Vec<FileStamp>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct FileStamp {
    path: PathBuf,
    inode: u64,
    bytes: u64,
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

impl Stamp {
    /// Of a file, or of a directory's rules files.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let metadata = fs::metadata(path).map_err(|source| unreadable(path, source))?;
        let files = if metadata.is_dir() { rule_files(path)? } else { vec![path.to_owned()] };
        files.into_iter().map(FileStamp::read).collect::<Result<_, _>>().map(Stamp)
    }
}

impl FileStamp {
    fn read(path: PathBuf) -> Result<Self, ReadError> {
        use std::os::unix::fs::MetadataExt;
        let metadata = file_metadata(&path)?;
        Ok(FileStamp {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: (metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: (metadata.ctime(), metadata.ctime_nsec()),
            path,
        })
    }
}

/// Where a ConfigMap's `..data` points to; `None` in any other directory.
fn config_map_version(directory: &Path) -> Option<PathBuf> {
    fs::read_link(directory.join("..data")).ok()
}

fn read_directory(directory: &Path) -> Result<Vec<Source>, ReadError> {
    let mut room = SOURCES_BYTES_MAX;
    let mut sources = Vec::new();
    for path in rule_files(directory)? {
        sources.push(read_file(&path, &mut room)?);
    }
    if sources.is_empty() {
        return Err(ReadError::NoFiles { path: directory.to_owned() });
    }
    Ok(sources)
}

fn rule_files(directory: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(|source| unreadable(directory, source))? {
        let path = entry.map_err(|source| unreadable(directory, source))?.path();
        if !has_rule_name(&path) || path.is_dir() {
            continue;
        }
        if files.len() == FILES_MAX {
            return Err(ReadError::TooManyFiles { path: directory.to_owned() });
        }
        files.push(path);
    }
    files.sort();
    Ok(files)
}

fn has_rule_name(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn read_file(path: &Path, room: &mut usize) -> Result<Source, ReadError> {
    file_metadata(path)?;
    let mut text = Vec::new();
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    // One byte more than fits tells "full" from "too large".
    let bytes_max = u64::try_from(*room).unwrap_or(u64::MAX).saturating_add(1);
    file.take(bytes_max).read_to_end(&mut text).map_err(|source| unreadable(path, source))?;
    *room = room.checked_sub(text.len()).ok_or_else(|| ReadError::TooLarge { path: path.to_owned() })?;
    Ok(Source { name: path.display().to_string(), text })
}

/// Of a regular file, links followed. A pipe can be read only once, and not at all when nobody writes to it.
fn file_metadata(path: &Path) -> Result<fs::Metadata, ReadError> {
    let metadata = fs::metadata(path).map_err(|source| unreadable(path, source))?;
    if metadata.is_file() { Ok(metadata) } else { Err(ReadError::NotAFile { path: path.to_owned() }) }
}

fn unreadable(path: &Path, source: io::Error) -> ReadError {
    ReadError::Unreadable { path: path.to_owned(), source }
}
