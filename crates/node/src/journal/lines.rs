//! What is logged, as lines of JSON to standard output or a file, for those who collect such lines.
//!
//! On a thread of its own behind a short queue: a pipe that nobody reads, or a disk that hangs, costs lines, which are
//! counted, and never holds up the log itself. A file that was moved or removed is made anew at the next write, so that
//! whoever rotates it needs to tell nobody.

use super::Journal;
use super::writer::Shipper;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use tidegate_decisions::{LogRecordRef, Writer};

/// Handed over at once.
const CHUNK_BYTES: usize = 128 << 10;
/// That wait for the disk or the pipe: 8 MB.
const CHUNKS_MAX: usize = 64;
/// How long the end waits for the last of them.
const LAST_LINES_MAX: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinesTo {
    StandardOutput,
    File(PathBuf),
}

/// Lines that were made together.
#[derive(Debug, Default)]
struct Chunk {
    text: String,
    lines: u64,
}

#[derive(Debug)]
pub struct Lines {
    writer: Writer,
    journal: Weak<Journal>,
    chunk: Chunk,
    queue: Option<SyncSender<Chunk>>,
    ended: Receiver<()>,
}

impl Lines {
    /// `writer`: whose log it is. `held`: dropped when the thread ends, also by a panic.
    pub fn start(
        to: LinesTo,
        writer: Writer,
        journal: &Arc<Journal>,
        held: Box<dyn Send>,
    ) -> io::Result<Self> {
        let (queue, queued) = sync_channel(CHUNKS_MAX);
        let (end, ended) = sync_channel(1);
        let of = Arc::downgrade(journal);
        thread::Builder::new().name("decision-lines".to_owned()).spawn({
            let journal = of.clone();
            move || {
                let _held = held;
                run(Output::new(to), &queued, &journal);
                // Nobody may wait any more.
                let _ = end.send(());
            }
        })?;
        Ok(Lines { writer, journal: of, chunk: Chunk::default(), queue: Some(queue), ended })
    }

    fn hand_over(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        let Some(queue) = self.queue.as_ref().filter(|_| chunk.lines > 0) else { return };
        if let Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) = queue.try_send(chunk)
            && let Some(journal) = self.journal.upgrade()
        {
            journal.recorder().counters().lines_lost(chunk.lines);
        }
    }
}

impl Shipper for Lines {
    fn ship(&mut self, record: &LogRecordRef<'_>) {
        record.line(&self.writer, &mut self.chunk.text);
        self.chunk.lines += 1;
        if self.chunk.text.len() >= CHUNK_BYTES {
            self.hand_over();
        }
    }

    fn written(&mut self) {
        self.hand_over();
    }
}

impl Drop for Lines {
    /// Waits for the last lines, for a while.
    fn drop(&mut self) {
        self.hand_over();
        self.queue = None;
        if self.ended.recv_timeout(LAST_LINES_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                fix = "check who reads standard output, or the disk",
                "the last lines of decisions couldn't be written in time"
            );
        }
    }
}

fn run(mut output: Output, queued: &Receiver<Chunk>, journal: &Weak<Journal>) {
    let mut is_failing = false;
    while let Ok(chunk) = queued.recv() {
        let written = output.write(chunk.text.as_bytes());
        let Some(journal) = journal.upgrade() else { return };
        let counters = journal.recorder().counters();
        match written {
            Ok(()) => {
                counters.lines_written(chunk.lines);
                is_failing = false;
            }
            Err(error) => {
                counters.lines_lost(chunk.lines);
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(
                        %error,
                        to = %output.shown(),
                        fix = "make room, or make the file writable (log.decisions_json)",
                        "decisions can't be written as lines; those that are lost meanwhile are counted"
                    );
                }
            }
        }
    }
}

enum Output {
    StandardOutput,
    File { path: PathBuf, open: Option<File> },
}

impl Output {
    fn new(to: LinesTo) -> Self {
        match to {
            LinesTo::StandardOutput => Output::StandardOutput,
            LinesTo::File(path) => Output::File { path, open: None },
        }
    }

    fn shown(&self) -> String {
        match self {
            Output::StandardOutput => "stdout".to_owned(),
            Output::File { path, .. } => path.display().to_string(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::StandardOutput => {
                let mut output = io::stdout().lock();
                output.write_all(bytes)?;
                output.flush()
            }
            Output::File { path, open } => {
                if open.as_ref().is_some_and(|file| !is_at(file, path)) {
                    *open = None;
                }
                let mut file = match open.take() {
                    Some(file) => file,
                    None => File::options().create(true).append(true).open(&*path)?,
                };
                // After a failure it is opened again: half a line may be in it.
                file.write_all(bytes)?;
                *open = Some(file);
                Ok(())
            }
        }
    }
}

/// Whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let ids = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata().map(ids), fs::metadata(path).map(ids)), (Ok(open), Ok(named)) if open == named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_moved_or_removed_is_made_anew() {
        let path = std::env::temp_dir().join(format!("tidegate-lines-{}.json", std::process::id()));
        let moved = path.with_extension("1");
        let _ = fs::remove_file(&path);
        let mut output = Output::new(LinesTo::File(path.clone()));
        output.write(b"one\n").unwrap();
        output.write(b"two\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        output.write(b"three\n").unwrap();
        fs::remove_file(&path).unwrap();
        output.write(b"four\n").unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "four\n");
        [path, moved].iter().for_each(|path| fs::remove_file(path).unwrap());
    }

    #[test]
    fn a_file_that_cant_be_written_is_an_error_and_tried_again() {
        let directory = std::env::temp_dir().join(format!("tidegate-lines-{}-absent", std::process::id()));
        let mut output = Output::new(LinesTo::File(directory.join("lines.json")));
        assert!(output.write(b"one\n").is_err());
        fs::create_dir(&directory).unwrap();
        output.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(directory.join("lines.json")).unwrap(), "two\n");
        fs::remove_dir_all(&directory).unwrap();
    }
}
