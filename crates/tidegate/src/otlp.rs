//! Sends metrics, log records and spans to an OpenTelemetry collector, as OTLP over HTTP with JSON.
//!
//! A thread of its own, so that a collector that hangs holds up nothing. Every call has a deadline. What a collector
//! can't take now is tried again, ever more seldom; what it refuses, or doesn't take after several tries, is dropped
//! and counted. Metrics aren't tried again: the next ones say the same and more.

use crate::http_client::{self, Message, RequestOptions, Url};
use crate::node;
use crate::supervisor::Supervisor;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_node::spans;
use tidegate_server::App;
use tidegate_server::otlp::{self, LogQueue, Resource};
use tokio::runtime::Runtime;

/// For a collector to answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Log records or spans of one message.
const BATCH_MAX: usize = 1000;
/// Messages of one kind in a row; what is left goes next time.
const BATCHES_MAX: usize = 16;
/// How often a message is tried before it is given up.
const TRIES_MAX: u32 = 5;
/// The first wait between two tries; each one is twice the one before.
const WAIT_FIRST: Duration = Duration::from_millis(250);
/// How long the end waits for what is left.
const LAST_MAX: Duration = Duration::from_secs(2);

/// Where a collector is: `http://host:port`, and what stands before `/v1/metrics`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Collector {
    shown: String,
    url: Url,
    prefix: String,
}

impl Collector {
    /// `None` for what isn't an `http://` address.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let authority = text.strip_prefix("http://")?;
        let (authority, prefix) = match authority.split_once('/') {
            Some((authority, prefix)) => (authority, format!("/{}", prefix.trim_end_matches('/'))),
            None => (authority, String::new()),
        };
        let prefix = if prefix == "/" { String::new() } else { prefix };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
        let url = Url::parse(&format!("http://{authority}"))?;
        prefix.chars().all(is_plain).then(|| Collector { shown: text.to_owned(), url, prefix })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// What is sent from where.
pub(crate) struct Telemetry {
    pub(crate) collector: Collector,
    pub(crate) interval: Duration,
    pub(crate) resource: Resource,
    /// Whose metrics are sent, and since when it counts; `None`: only spans and log records.
    pub(crate) node: Option<(Arc<App>, Nanos)>,
    pub(crate) logs: Arc<LogQueue>,
}

/// A thread that sends until it is stopped.
#[derive(Debug)]
pub(crate) struct Sending {
    stop: Sender<()>,
    stopped: Receiver<()>,
}

impl Sending {
    /// From here on spans are kept. Without a thread there is a warning, and nothing is sent.
    pub(crate) fn start(telemetry: Telemetry, supervisor: &Supervisor) -> Option<Self> {
        let ((stop, stopping), (ended, stopped)) = (mpsc::channel(), mpsc::channel());
        let runtime = node::runtime().ok()?;
        let watched = supervisor.watch_for_panics("the sending to the collector");
        let run = move || {
            let _watched = watched;
            Exporter { telemetry, runtime, is_failing: false, is_stopping: false }.run(&stopping);
            // Nobody may wait any more.
            let _ = ended.send(());
        };
        match thread::Builder::new().name("otlp".to_owned()).spawn(run) {
            Ok(_) => {
                spans::start_recording();
                Some(Sending { stop, stopped })
            }
            Err(error) => {
                tracing::warn!(%error, "nothing is sent to the collector: there is no thread for it");
                None
            }
        }
    }

    /// Sends what is left, for a while.
    pub(crate) fn stop(self) {
        // It may have ended by itself.
        let _ = self.stop.send(());
        if self.stopped.recv_timeout(LAST_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the collector didn't take the last records in time");
        }
    }
}

struct Exporter {
    telemetry: Telemetry,
    runtime: Runtime,
    is_failing: bool,
    /// It was told to end while it waited for another try.
    is_stopping: bool,
}

/// What became of a message.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Taken,
    /// It may be taken later.
    Later(String),
    Refused(String),
}

impl Exporter {
    fn run(mut self, stopping: &Receiver<()>) {
        loop {
            let interval = if self.is_stopping { Duration::ZERO } else { self.telemetry.interval };
            let waited = stopping.recv_timeout(interval);
            if waited != Err(RecvTimeoutError::Timeout) || self.is_stopping {
                // What came last; nobody waits for several tries.
                return self.send_all(1, stopping);
            }
            self.send_all(TRIES_MAX, stopping);
        }
    }

    fn send_all(&mut self, tries: u32, stopping: &Receiver<()>) {
        if let Some((app, started)) = &self.telemetry.node {
            let message = otlp::metrics(app, &self.telemetry.resource, *started);
            self.send("/v1/metrics", &message, 1, stopping);
        }
        for _ in 0..BATCHES_MAX {
            let records = self.telemetry.logs.take(BATCH_MAX);
            if records.is_empty() {
                break;
            }
            let message = LogQueue::message(&records, &self.telemetry.resource);
            if !self.send("/v1/logs", &message, tries, stopping) {
                otlp::count_dropped(records.len() as u64);
            }
        }
        for _ in 0..BATCHES_MAX {
            let spans = spans::take(BATCH_MAX);
            if spans.is_empty() {
                break;
            }
            let message = otlp::traces(&spans, &self.telemetry.resource);
            if !self.send("/v1/traces", &message, tries, stopping) {
                otlp::count_dropped(spans.len() as u64);
            }
        }
    }

    /// Whether it was taken.
    fn send(&mut self, path: &str, message: &str, tries: u32, stopping: &Receiver<()>) -> bool {
        let mut wait = WAIT_FIRST;
        for left in (0..tries).rev() {
            let problem = match self.post(path, message) {
                Outcome::Taken => {
                    otlp::count_sent();
                    self.is_failing = false;
                    return true;
                }
                Outcome::Later(_) if left > 0 => {
                    otlp::count_failure();
                    // Whoever wants to stop isn't kept waiting.
                    if self.is_stopping || stopping.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                        self.is_stopping = true;
                        return false;
                    }
                    wait *= 2;
                    continue;
                }
                Outcome::Later(problem) | Outcome::Refused(problem) => problem,
            };
            otlp::count_failure();
            if !std::mem::replace(&mut self.is_failing, true) {
                tracing::warn!(
                    collector = %self.telemetry.collector,
                    problem,
                    "the collector doesn't take telemetry; what is lost meanwhile is counted"
                );
            }
            break;
        }
        false
    }

    fn post(&self, path: &str, message: &str) -> Outcome {
        let Collector { url, prefix, .. } = &self.telemetry.collector;
        let path = format!("{prefix}{path}");
        let message = Message {
            method: "POST",
            path: &path,
            body: message.as_bytes(),
            answer_within: REPLY_TIMEOUT,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let manner = RequestOptions { token: None, tls: None };
        match self.runtime.block_on(http_client::status(url, &manner, message)) {
            Ok(200..=299) => Outcome::Taken,
            // Those that OTLP says are worth another try.
            Ok(status @ (429 | 502 | 503 | 504)) => Outcome::Later(format!("HTTP {status}")),
            Ok(status) => Outcome::Refused(format!("HTTP {status}")),
            Err(error) => Outcome::Later(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collectors_address_may_have_a_path() {
        let prefix = |text| Collector::parse(text).map(|collector| collector.prefix);
        assert_eq!(prefix("http://127.0.0.1:4318").as_deref(), Some(""));
        assert_eq!(prefix("http://h:4318/").as_deref(), Some(""));
        assert_eq!(prefix("http://h/otlp/x/").as_deref(), Some("/otlp/x"));
        for wrong in
            ["", "h:4318", "https://h", "http://", "http://h:x", "http://h/a b", "http://h/?a", "http://u@h"]
        {
            assert_eq!(prefix(wrong), None, "{wrong}");
        }
    }
}
