//! The thread that writes the journal: looks at the node's health four times a second, and writes once a second.
//!
//! Apart from everything that answers: a disk that hangs holds up nothing but this.

use super::Journal;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_decisions::{Event, Log, LogOptions, LogRecordRef};

const POLL_EVERY: Duration = Duration::from_millis(250);
/// What a process that is killed can lose: a look less than a second.
const POLLS_PER_WRITE: u32 = 3;
/// How long somebody waits who asks for a write.
const WRITE_NOW_MAX: Duration = Duration::from_secs(1);
/// How long the end waits for the last write.
const LAST_WRITE_MAX: Duration = Duration::from_secs(2);

/// What happened to the node since it was last asked, by its clock.
pub type Watch = Box<dyn FnMut() -> (Nanos, Vec<Event>) + Send>;

/// Who is told what is logged, on the log's thread: it must not wait.
pub trait Shipper: Send {
    fn ship(&mut self, record: &LogRecordRef<'_>);

    /// A write is over: what was gathered may leave.
    fn written(&mut self) {}
}

/// A command to the thread that writes the log.
#[derive(Debug)]
pub(super) enum WriterCommand {
    /// Write now, and say so here.
    Write(Sender<()>),
    Stop,
}

#[derive(Debug)]
pub struct JournalWriter {
    commands: Sender<WriterCommand>,
    stopped: Receiver<()>,
}

impl JournalWriter {
    /// Opens the log in the background, as that may take a while, and writes until it is stopped. Where the journal
    /// has no directory, the shippers are all that is told.
    pub fn start(
        journal: Arc<Journal>,
        options: LogOptions,
        watch: Watch,
        shippers: Vec<Box<dyn Shipper>>,
    ) -> io::Result<Self> {
        let ((commands, ordered), (ended, stopped)) = (channel(), channel());
        // One writer: a second one would find the directory taken.
        let _ = journal.commands.set(commands.clone());
        thread::Builder::new().name("decisions".to_owned()).spawn(move || {
            run(&journal, options, watch, shippers, &ordered);
            // Nobody may wait any more.
            let _ = ended.send(());
        })?;
        Ok(JournalWriter { commands, stopped })
    }

    /// Waits for the last write, for a while.
    pub fn stop(self) {
        // It may have ended by itself.
        let _ = self.commands.send(WriterCommand::Stop);
        if self.stopped.recv_timeout(LAST_WRITE_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(fix = "check the disk", "the last decisions couldn't be logged in time");
        }
    }
}

impl Journal {
    /// Has everything written that was put down, so that it can be found; waits for that, for a while. Not on a thread
    /// that answers.
    pub fn write_now(&self) {
        let (written, is_written) = channel();
        if self.commands.get().is_some_and(|commands| commands.send(WriterCommand::Write(written)).is_ok()) {
            // What isn't there in time will be found later.
            let _ = is_written.recv_timeout(WRITE_NOW_MAX);
        }
    }
}

fn run(
    journal: &Journal,
    options: LogOptions,
    mut watch: Watch,
    mut shippers: Vec<Box<dyn Shipper>>,
    ordered: &Receiver<WriterCommand>,
) {
    let mut log = match journal.directory().map(|_| Log::open(options.clone())) {
        Some(Ok(log)) => log,
        None => Log::only_telling(options),
        Some(Err(error)) => {
            tracing::warn!(%error, "decisions aren't logged");
            if shippers.is_empty() {
                return;
            }
            Log::only_telling(options)
        }
    };
    let mut looks = 0;
    loop {
        let order = ordered.recv_timeout(POLL_EVERY);
        let (now, events) = watch();
        events.into_iter().for_each(|event| journal.event(event));
        looks += 1;
        if looks < POLLS_PER_WRITE && order.is_err() {
            continue;
        }
        looks = 0;
        let mut ship = |told: LogRecordRef<'_>| shippers.iter_mut().for_each(|shipper| shipper.ship(&told));
        if let Err(error) = log.write_telling(journal.recorder(), now, Some(&mut ship)) {
            tracing::warn!(
                %error,
                directory = ?journal.directory(),
                fix = "make room on the disk, or make the directory writable",
                "decisions can't be logged; those that are lost meanwhile are counted"
            );
        }
        shippers.iter_mut().for_each(|shipper| shipper.written());
        match order {
            // Who asked may have given up.
            Ok(WriterCommand::Write(written)) => drop(written.send(())),
            Ok(WriterCommand::Stop) => return drop(log.close(journal.recorder(), now)),
            Err(_) => {}
        }
    }
}
