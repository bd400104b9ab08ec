//! What a run cost the database: its own counters, and its process's.

use crate::{Bounds, print};
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_testkit::MariaDb;

#[derive(Debug)]
pub(crate) struct Meter {
    status: BTreeMap<String, f64>,
    processor_s: f64,
}

/// Each a second.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) rows_read: f64,
    pub(crate) bytes_sent: f64,
    bytes_received: f64,
    pub(crate) rows_written: f64,
    pub(crate) processor: f64,
    statements: f64,
}

impl Meter {
    pub(crate) fn start(server: &MariaDb) -> Self {
        Meter { status: status(server), processor_s: server.processor_time().as_secs_f64() }
    }

    /// `rows_written` is what the scheme itself counted; `length` how long the run was meant to take: on a busy
    /// machine it may have taken longer, for the same work.
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    pub(crate) fn stop(self, server: &MariaDb, rows_written: u64, length: Duration) -> Load {
        let seconds = length.as_secs_f64();
        let (processor_s, now) = (server.processor_time().as_secs_f64(), status(server));
        let grown = |name: &str| {
            let of = |status: &BTreeMap<String, f64>| status.get(name).copied().unwrap_or(0.0);
            (of(&now) - of(&self.status)) / seconds
        };
        // The newer ones don't count by engine any more.
        let handler = ["first", "key", "last", "next", "prev", "rnd", "rnd_next"];
        Load {
            rows_read: handler.iter().map(|name| grown(&format!("handler_read_{name}"))).sum(),
            bytes_sent: grown("bytes_sent"),
            bytes_received: grown("bytes_received"),
            rows_written: rows_written as f64 / seconds,
            processor: (processor_s - self.processor_s) / seconds,
            statements: grown("questions"),
        }
    }
}

impl Load {
    pub(crate) fn print(&self, case: &str) {
        let figures = [
            ("rows read a second", self.rows_read),
            ("kB read a second", self.bytes_sent / 1000.0),
            ("kB sent to it a second", self.bytes_received / 1000.0),
            ("rows written a second", self.rows_written),
            ("processors of mariadbd", self.processor),
            ("statements a second", self.statements),
        ];
        for (figure, value) in figures {
            print(6, case, figure, value, &Bounds::Told);
        }
    }
}

fn status(server: &MariaDb) -> BTreeMap<String, f64> {
    let rows = server.query("", "SHOW GLOBAL STATUS");
    let value = |row: Vec<String>| Some((row.first()?.to_lowercase(), row.get(1)?.parse().ok()?));
    rows.into_iter().filter_map(value).collect()
}
