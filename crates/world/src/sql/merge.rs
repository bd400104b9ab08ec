//! From the log into the table of counts: what publishes wrote since the last time, each cell once.
//!
//! A publish is one row of the log, whatever it carries, so the table may lag behind it by minutes and a cell that
//! grows all the time is written seldom. Nothing depends on who does this, or on when: everything is merged by max,
//! an entry is marked when all of it is in the table and stays in the log for some time after that, and whoever is
//! interrupted has only written what the next one writes again.

use super::link::{Columns, Failure, micros, nonsense};
use super::log::{unpack, unpack_names};
use super::quotas::{name_values, owner};
use super::{Session, late_after};
use crate::{COUNT_RETENTION, CellId, Component, KeyName, MERGED_MAX, MergeReport, OwnerId};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use tidegate_core::Nanos;
use tokio::time::Instant;

/// How many deadlines a whole merge may take: each statement has one.
pub(super) const DEADLINES: u32 = 15;
/// How many entries of the log a page has.
const ENTRIES_MAX: usize = 40;

/// An entry that isn't merged yet, and when it was read.
struct PendingLogEntry {
    written: Nanos,
    id: u64,
    components: Vec<Component>,
    names: Vec<(usize, Arc<KeyName>)>,
    now: Nanos,
}

/// What the table is to have of one cell of one owner.
struct Newest {
    count: u64,
    limit: u64,
    expires: Nanos,
    changed: Nanos,
    name: Option<Arc<KeyName>>,
}

type Id = (CellId, OwnerId);
type Rows = BTreeMap<Id, Newest>;

impl Session<'_> {
    pub(super) async fn merge_log(mut self) -> Result<MergeReport, Failure> {
        let (rows, entries) = self.unmerged().await?;
        let mut merged = MergeReport::default();
        for are_named in [true, false] {
            // In the order of keys, as everybody's are: no two ever wait for each other in a ring.
            let rows: Vec<(&Id, &Newest)> =
                rows.iter().filter(|(_, newest)| newest.name.is_some() == are_named).collect();
            for chunk in rows.chunks(self.options.chunk_rows.max(1)) {
                self.merge(chunk, &mut merged).await?;
            }
        }
        for entries in entries.chunks(self.options.chunk_rows.max(1)) {
            let entries: Vec<String> = entries.iter().map(u64::to_string).collect();
            let text = include_str!("common/merged.sql");
            let text = self.dialect.fill(text, &[("entries", &entries.join(","))]);
            self.run_in_time(text).await?;
        }
        Ok(merged)
    }

    /// Of each cell the largest, and the entries that they are from. A store that is slow is asked for less: reading
    /// takes about a tenth of the time.
    async fn unmerged(&mut self) -> Result<(Rows, Vec<u64>), Failure> {
        let until = Instant::now() + self.options.deadline.saturating_mul(DEADLINES) / 10;
        let (mut rows, mut entries) = (Rows::new(), Vec::new());
        while rows.len() < MERGED_MAX && (entries.is_empty() || Instant::now() < until) {
            let after: u64 = entries.last().copied().unwrap_or(0);
            let values: [(&str, &(dyn Display + Sync)); 2] =
                [("after", &after), ("entries_max", &ENTRIES_MAX)];
            let text = self.dialect.fill(include_str!("common/unmerged.sql"), &values);
            let page = tokio::time::timeout(self.options.deadline, self.link.rows(text, read_entry)).await;
            let page = page.unwrap_or_else(|_| Err(late_after(self.options.deadline)))?;
            let is_last = page.len() < ENTRIES_MAX;
            for entry in page {
                entries.push(entry.id);
                take(&mut rows, entry);
            }
            if is_last {
                break;
            }
        }
        Ok((rows, entries))
    }

    /// A chunk with a value that the database won't have is halved until that row is found.
    async fn merge(&mut self, chunk: &[(&Id, &Newest)], merged: &mut MergeReport) -> Result<(), Failure> {
        let mut left = vec![chunk];
        while let Some(chunk) = left.pop() {
            match self.run_in_time(self.merge_text(chunk)).await {
                Ok(_) => merged.rows += chunk.len(),
                Err(Failure::Value(problem)) if chunk.len() <= 1 => merged.refused.push(problem),
                Err(Failure::Value(_)) => {
                    let (first, second) = chunk.split_at(chunk.len() / 2);
                    left.extend([second, first]);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Only a cell's first row has a name: without one, a row costs the database a third less.
    fn merge_text(&self, chunk: &[(&Id, &Newest)]) -> String {
        let mut values = String::new();
        let mut are_named = false;
        for ((cell, owner), Newest { count, limit, expires, changed, name }) in chunk {
            let key = self.dialect.bytes(&cell.key.get().to_be_bytes());
            let comma = if values.is_empty() { "" } else { ",\n" };
            let (epoch, sequence, owner) = (cell.epoch, cell.sequence.0, owner.0);
            let (expires, changed) = (micros(*expires), micros(*changed));
            // Writing into a string can't fail.
            let _ = write!(
                values,
                "{comma}({key},{epoch},{sequence},{owner},{count},{limit},{expires},{changed}"
            );
            if name.is_some() {
                are_named = true;
                let _ = write!(values, ",{}", name_values(self.dialect, name.as_deref()));
            }
            values.push(')');
        }
        let texts = &self.dialect.texts;
        self.dialect.fill(if are_named { texts.merge_named } else { texts.merge }, &[("rows", &values)])
    }

    /// A database that falls silent in the middle is given up as soon as in any other call.
    async fn run_in_time(&mut self, text: String) -> Result<u64, Failure> {
        let run = tokio::time::timeout(self.options.deadline, self.link.run(text)).await;
        run.unwrap_or_else(|_| Err(late_after(self.options.deadline)))
    }
}

fn take(rows: &mut Rows, entry: PendingLogEntry) {
    let PendingLogEntry { written, components, names, now, .. } = entry;
    let mut names = names.into_iter().peekable();
    for (index, component) in components.into_iter().enumerate() {
        let Component { owner, cell, count, limit, expires } = component;
        let name = names.next_if(|(named, _)| *named == index).map(|(_, name)| name);
        // What is about to be deleted.
        if expires.plus(COUNT_RETENTION) <= now {
            continue;
        }
        let known = rows.entry((cell, owner)).or_insert(Newest {
            count,
            limit,
            expires,
            changed: written,
            name: None,
        });
        if count > known.count {
            (known.count, known.limit, known.changed) = (count, limit, written);
        }
        known.expires = known.expires.max(expires);
        known.name = known.name.take().or(name);
    }
}

fn read_entry(row: &dyn Columns) -> Result<PendingLogEntry, sqlx::Error> {
    let (written, id, now) = (row.instant(0)?, row.number(1)?, row.instant(5)?);
    let payload = row.bytes(3)?.ok_or_else(|| nonsense(3))?;
    let components = unpack(owner(row, 2)?, &payload).ok_or_else(|| nonsense(3))?;
    let names = unpack_names(&row.bytes(4)?.unwrap_or_default()).ok_or_else(|| nonsense(4))?;
    Ok(PendingLogEntry { written, id, components, names, now })
}
