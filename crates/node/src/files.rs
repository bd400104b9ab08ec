//! Files that outlive the process: written whole beside the old one and put in its place in one step, so that
//! the next start never finds half of one.
//!
//! Blocks for as long as the disk does.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Only its owner looks into a directory that is made here.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Replaces a file by what `write` writes, in a directory that is there. What went wrong leaves the old file.
pub fn replace<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(BufWriter<File>) -> Result<(T, BufWriter<File>), E>,
) -> Result<T, E> {
    let partial = beside(path, "partial");
    let written =
        write_whole(&partial, write).and_then(|told| Ok(fs::rename(&partial, path).map(|()| told)?));
    match written {
        Ok(written) => {
            // The new name is on the disk only when its directory is.
            File::open(directory_of(path))?.sync_all()?;
            Ok(written)
        }
        Err(error) => {
            // A full disk gets its room back.
            let _ = fs::remove_file(&partial);
            Err(error)
        }
    }
}

/// Replaces a file that only its owner may read, in a directory that is there.
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = beside(path, "partial");
    // One that was left behind may have another mode.
    let _ = fs::remove_file(&partial);
    let write = || {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        File::open(directory_of(path))?.sync_all()
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write_whole<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(BufWriter<File>) -> Result<(T, BufWriter<File>), E>,
) -> Result<T, E> {
    let (written, file) = write(BufWriter::with_capacity(64 * 1024, File::create(path)?))?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(written)
}

/// Moves a file that can't be used out of the way of the next save, for whoever wants to look at it. Says where
/// it is now.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = beside(path, "refused");
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// `counts.snapshot.partial` for `counts.snapshot`.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The current one for a bare name.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
