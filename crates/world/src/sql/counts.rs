//! Counts in SQL: publishing into the log, importing by pages, deleting in small batches. `merge.rs` brings the log
//! into the table.

use super::Session;
use super::link::{Columns, Failure, micros, nonsense};
use super::log::{LogReadSet, pack, pack_names, unpack};
use super::quotas::owner;
use crate::{
    After, COUNT_RETENTION, CellId, Component, Cursor, DELETED_MAX, DEMAND_TTL, ImportPage, OwnerId,
    PublishReply, Row, SLICE_RETENTION, StoredCounts,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use tidegate_core::{KeyId, Nanos, Sequence};

/// How many entries of the log a page has.
const LOG_ENTRIES_MAX: usize = 40;
/// How long entries are kept after they were merged into the table.
const LOG_RETENTION: Nanos = Nanos::from_secs(300);
/// Who was away for longer reads everything.
const LOG_READ_WINDOW: Nanos = Nanos::from_secs(240);
/// What was written longer ago than this can be seen by everybody.
const COMMIT_REORDER_WINDOW: Nanos = Nanos::from_secs(2);

/// An entry of the log, and when it was read. One without content needn't be read again, or marks how far
/// back the log reaches.
struct CachedLogEntry {
    written: Nanos,
    id: u64,
    content: Option<Vec<Component>>,
    now: Nanos,
}

impl Session<'_> {
    /// One entry of the log for each chunk: the table of counts is written when the log is merged into it.
    pub(super) async fn publish(self, owner: OwnerId, rows: &[Row]) -> Result<PublishReply, Failure> {
        let (sorted, refused) = sorted(rows);
        for chunk in sorted.chunks(self.options.chunk_rows.max(1)) {
            self.link.run(self.publish_text(owner, chunk)).await?;
        }
        Ok(PublishReply { refused })
    }

    /// The last chunk goes with the question for what changed: of both, what costs a database most is that a
    /// connection of it wakes up.
    pub(super) async fn publish_and_import(
        mut self,
        owner: OwnerId,
        rows: &[Row],
        since: Cursor,
    ) -> Result<(PublishReply, ImportPage), Failure> {
        let (sorted, refused) = sorted(rows);
        let mut chunks: Vec<&[&Row]> = sorted.chunks(self.options.chunk_rows.max(1)).collect();
        let last = match since.after {
            After::Entries(_) => chunks.pop(),
            After::Nothing | After::Row(..) => None,
        };
        for chunk in chunks {
            self.link.run(self.publish_text(owner, chunk)).await?;
        }
        let first = last.map_or_else(String::new, |chunk| self.publish_text(owner, chunk));
        Ok((PublishReply { refused }, self.import_after(first, since).await?))
    }

    fn publish_text(&self, owner: OwnerId, chunk: &[&Row]) -> String {
        let payload = self.dialect.bytes(&pack(chunk.iter().copied()));
        let names = pack_names(chunk.iter().copied());
        let names = if names.is_empty() { "NULL".to_owned() } else { self.dialect.bytes(&names) };
        let values: [(&str, &(dyn Display + Sync)); 4] =
            [("owner", &owner.0), ("cells", &chunk.len()), ("payload", &payload), ("names", &names)];
        self.dialect.fill(include_str!("common/add_to_log.sql"), &values)
    }

    /// By the log as long as it reaches back, which is what happens all day; by the whole table for a first
    /// import and after a long absence.
    pub(super) async fn import(mut self, since: Cursor) -> Result<ImportPage, Failure> {
        self.import_after(String::new(), since).await
    }

    /// `first`: statements to be run before, where the cursor is of the log.
    async fn import_after(&mut self, first: String, since: Cursor) -> Result<ImportPage, Failure> {
        let by_log = match since.after {
            After::Row(cell, owner) => return self.import_rows(since.changed, Some((cell, owner))).await,
            After::Nothing if since.changed == Nanos::ZERO => None,
            After::Nothing | After::Entries(_) => self.import_log(first, since).await?,
        };
        match by_log {
            Some(imported) => Ok(imported),
            None => {
                let first = self.import_rows(Nanos::ZERO, None).await?;
                Ok(ImportPage { is_restart: since != Cursor::default(), ..first })
            }
        }
    }

    /// `None` when the log doesn't reach back so far, or is another one: of a database that was set up anew.
    async fn import_log(&mut self, first: String, since: Cursor) -> Result<Option<ImportPage>, Failure> {
        let known = match since.after {
            After::Entries(seen) => Some(seen),
            After::Nothing | After::Row(..) => None,
        };
        let text = first + &self.import_log_text(known, since.changed);
        let mut entries = self.link.rows(text, read_entry).await?;
        // A log that was empty has no entry to know it by, and may be empty still.
        let was_empty = known.is_some_and(|seen| seen.last() == 0);
        let Some(present) = entries.first().map(|entry| entry.now) else {
            let nothing =
                ImportPage { components: Vec::new(), next: since, has_more: false, is_restart: false };
            return Ok(was_empty.then_some(nothing));
        };
        let is_same = was_empty
            || known.is_none_or(|seen| entries.iter().any(|entry| seen.is_last(entry.id, entry.written)));
        // What isn't merged stays, however old it is.
        let reaches_back = known.is_none()
            && entries.iter().any(|entry| entry.written <= since.changed.plus(COMMIT_REORDER_WINDOW));
        if !is_same || !(reaches_back || since.changed.plus(LOG_READ_WINDOW) >= present) {
            return Ok(None);
        }
        let has_more = entries.len() > LOG_ENTRIES_MAX;
        entries.sort_by_key(|entry| entry.id);
        // What was before the first of all needn't be waited for.
        let first =
            entries.iter().find(|entry| entry.content.is_some()).map(|entry| entry.id.saturating_sub(1));
        let newest = entries.last().map_or(0, |entry| entry.id);
        let mut seen = known.unwrap_or_else(|| LogReadSet::up_to(first.unwrap_or(newest)));
        let mut components = Vec::new();
        for CachedLogEntry { id, written, content, .. } in entries {
            if let Some(content) = content {
                seen.read(id, written);
                components.extend(content);
            }
        }
        let next = Cursor { changed: present, after: After::Entries(seen), writes: 0 };
        Ok(Some(ImportPage { components, next, has_more, is_restart: false }))
    }

    /// Entries that weren't seen, or of that time on.
    fn import_log_text(&self, seen: Option<LogReadSet>, changed: Nanos) -> String {
        let entries_max = LOG_ENTRIES_MAX + 1;
        let Some(seen) = seen else {
            let values: [(&str, &(dyn Display + Sync)); 2] =
                [("changed", &(changed.get() / 1000)), ("entries_max", &entries_max)];
            return self.dialect.fill(self.dialect.texts.import_log, &values);
        };
        let missing: Vec<String> = seen.missing().iter().map(u64::to_string).collect();
        let missing =
            if missing.is_empty() { String::new() } else { format!("OR id IN ({})", missing.join(",")) };
        let values: [(&str, &(dyn Display + Sync)); 3] =
            [("last", &seen.last()), ("missing", &missing), ("entries_max", &entries_max)];
        self.dialect.fill(include_str!("common/import_entries.sql"), &values)
    }

    /// Everything, in the order of keys; then of the log what wasn't merged into the table at the beginning.
    async fn import_rows(
        &mut self,
        unmerged: Nanos,
        after: Option<(CellId, OwnerId)>,
    ) -> Result<ImportPage, Failure> {
        let from = after.map(|(CellId { key, epoch, sequence }, owner)| {
            let key = self.dialect.bytes(&key.get().to_be_bytes());
            let sequence = sequence.0;
            // Spelt out, so that every database finds the place by its index.
            format!(
                "key_id >= {key} AND (key_id > {key} OR epoch > {epoch} OR (epoch = {epoch} AND (sequence > {sequence} \
                 OR (sequence = {sequence} AND owner > {}))))",
                owner.0
            )
        });
        let from = from.unwrap_or_else(|| "1 = 1".to_owned());
        let page_rows = self.options.page_rows.max(1);
        let values: [(&str, &(dyn Display + Sync)); 2] = [("from", &from), ("rows_max", &page_rows)];
        let rows =
            self.link.rows(self.dialect.fill(self.dialect.texts.import_all, &values), read_row).await?;
        let (mut oldest, mut components) = (Nanos::ZERO, Vec::with_capacity(rows.len()));
        for row in rows {
            match row {
                Ok(component) => components.push(component),
                Err(written) => oldest = written,
            }
        }
        let unmerged = if unmerged == Nanos::ZERO { oldest.minus(COMMIT_REORDER_WINDOW) } else { unmerged };
        let last = components.iter().map(|component| (component.cell, component.owner)).max();
        let after = match last {
            Some((cell, owner)) if components.len() >= page_rows => After::Row(cell, owner),
            _ => After::Nothing,
        };
        let next = Cursor { changed: unmerged, after, writes: 0 };
        Ok(ImportPage { components, next, has_more: true, is_restart: false })
    }

    /// By the table alone: the log may be gone before somebody comes who reads both.
    pub(super) async fn stored_counts(
        self,
        owner: OwnerId,
        cells: &[CellId],
    ) -> Result<StoredCounts, Failure> {
        let keys: BTreeSet<KeyId> = cells.iter().map(|cell| cell.key).collect();
        let (mut found, mut lag) = (BTreeMap::new(), Nanos::ZERO);
        let keys: Vec<String> = keys.iter().map(|key| self.dialect.bytes(&key.get().to_be_bytes())).collect();
        for keys in keys.chunks(self.options.chunk_rows.max(1)) {
            let values: [(&str, &(dyn Display + Sync)); 2] = [("owner", &owner.0), ("keys", &keys.join(","))];
            let text = self.dialect.fill(include_str!("common/stored_counts.sql"), &values);
            for row in self.link.rows(text, read_stored).await? {
                match row {
                    StoredRow::Count(cell, count) => drop(found.insert(cell, count)),
                    StoredRow::Lag(behind) => lag = lag.max(behind.plus(COMMIT_REORDER_WINDOW)),
                }
            }
        }
        let counts = cells.iter().map(|cell| found.get(cell).copied().unwrap_or(0)).collect();
        Ok(StoredCounts { counts, lag })
    }

    pub(super) async fn delete_expired(self) -> Result<u64, Failure> {
        let values: [(&str, &(dyn Display + Sync)); 5] = [
            ("counts_before", &micros(COUNT_RETENTION)),
            ("log_before", &micros(LOG_RETENTION)),
            ("demands_before", &micros(DEMAND_TTL)),
            ("slices_before", &micros(SLICE_RETENTION)),
            ("rows_max", &DELETED_MAX),
        ];
        self.link.run(self.dialect.fill(self.dialect.texts.delete_expired, &values)).await
    }
}

/// In the order of keys, of each cell the largest; and those that no store keeps.
fn sorted(rows: &[Row]) -> (Vec<&Row>, Vec<(usize, String)>) {
    let mut refused = Vec::new();
    let mut sorted: Vec<&Row> = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        match row.problem() {
            Some(problem) => refused.push((index, problem)),
            None => sorted.push(row),
        }
    }
    sorted.sort_by_key(|row| (row.cell, std::cmp::Reverse(row.count)));
    sorted.dedup_by_key(|row| row.cell);
    (sorted, refused)
}

fn read_entry(row: &dyn Columns) -> Result<CachedLogEntry, sqlx::Error> {
    let (written, id, now) = (row.instant(0)?, row.number(1)?, row.instant(4)?);
    let Some(payload) = row.bytes(3)? else { return Ok(CachedLogEntry { written, id, content: None, now }) };
    let content = unpack(owner(row, 2)?, &payload).ok_or_else(|| nonsense(3))?;
    Ok(CachedLogEntry { written, id, content: Some(content), now })
}

/// A row of [`Session::stored_counts`].
enum StoredRow {
    Count(CellId, u64),
    /// By how much the table is behind the log.
    Lag(Nanos),
}

fn read_stored(row: &dyn Columns) -> Result<StoredRow, sqlx::Error> {
    let Some(key) = row.key_if_any(0)? else {
        return Ok(StoredRow::Lag(row.instant(4)?.minus(row.instant(3)?)));
    };
    let epoch = u16::try_from(row.number(1)?).map_err(|_| nonsense(1))?;
    Ok(StoredRow::Count(CellId { key, epoch, sequence: Sequence(row.number(2)?) }, row.number(3)?))
}

/// A component, or since when the log isn't merged.
fn read_row(row: &dyn Columns) -> Result<Result<Component, Nanos>, sqlx::Error> {
    let Some(key) = row.key_if_any(1)? else { return Ok(Err(row.instant(0)?)) };
    let epoch = u16::try_from(row.number(2)?).map_err(|_| nonsense(2))?;
    Ok(Ok(Component {
        owner: owner(row, 4)?,
        cell: CellId { key, epoch, sequence: Sequence(row.number(3)?) },
        count: row.number(5)?,
        limit: row.number(6)?,
        expires: row.instant(7)?,
    }))
}
