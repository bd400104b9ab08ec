//! Counts in SQL: publishing in sorted chunks, importing by pages, deleting in small batches.

use super::Session;
use super::link::{Columns, Failure, from_micros, micros};
use super::quotas::name_values;
use crate::{
    COUNT_KEPT_FOR, CellId, Component, Cursor, DELETED_MAX, DEMAND_FOR, Imported, OwnerId, Published, Row,
    SLICE_KEPT_FOR,
};
use std::fmt::Write as _;
use tidegate_core::{Nanos, Sequence};

/// A row to be published, and which one it was.
type Indexed<'a> = (usize, &'a Row);

/// A component and when it changed, or the present.
enum Read {
    Component(Nanos, Component),
    Present(Nanos),
}

impl Session<'_> {
    /// Chunks are sorted by key, as everybody's are: no two publishers ever wait for each other in a ring. A
    /// chunk with a value that the database won't have is halved until that row is found; the chunks that are
    /// fine come first.
    pub(super) async fn publish(self, owner: OwnerId, rows: &[Row]) -> Result<Published, Failure> {
        let mut refused = Vec::new();
        let mut sorted: Vec<Indexed<'_>> = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            match row.problem() {
                Some(problem) => refused.push((index, problem)),
                None => sorted.push((index, row)),
            }
        }
        sorted.sort_by_key(|(_, row)| (row.cell, std::cmp::Reverse(row.count)));
        // The largest of each cell is enough.
        sorted.dedup_by_key(|(_, row)| row.cell);
        let mut doubtful: Vec<&[Indexed<'_>]> = Vec::new();
        for chunk in sorted.chunks(self.options.chunk_rows.max(1)) {
            match self.link.run(self.publish_text(owner, chunk)).await {
                Ok(_) => {}
                Err(Failure::Value(_)) => doubtful.push(chunk),
                Err(failure) => return Err(failure),
            }
        }
        while let Some(chunk) = doubtful.pop() {
            let (left, right) = chunk.split_at(chunk.len() / 2);
            for half in [left, right].into_iter().filter(|half| !half.is_empty()) {
                match (self.link.run(self.publish_text(owner, half)).await, half) {
                    (Ok(_), _) => {}
                    (Err(Failure::Value(problem)), [(index, _)]) => refused.push((*index, problem)),
                    (Err(Failure::Value(_)), _) => doubtful.push(half),
                    (Err(failure), _) => return Err(failure),
                }
            }
        }
        refused.sort();
        Ok(Published { refused })
    }

    fn publish_text(&self, owner: OwnerId, chunk: &[Indexed<'_>]) -> String {
        let mut values = String::with_capacity(chunk.len() * 128);
        for (_, row) in chunk {
            let Row { cell, count, limit, expires, name } = row;
            let key = self.dialect.bytes(&cell.key.get().to_be_bytes());
            let comma = if values.is_empty() { "" } else { ",\n" };
            // Writing into a string can't fail.
            let _ = write!(
                values,
                "{comma}({key},{},{},{},{count},{limit},{},{})",
                cell.epoch,
                cell.sequence.0,
                owner.0,
                micros(*expires),
                name_values(self.dialect, name.as_deref())
            );
        }
        self.dialect.fill(self.dialect.texts.publish, &[("rows", &values)])
    }

    pub(super) async fn import(self, since: Cursor) -> Result<Imported, Failure> {
        let changed = since.changed.get() / 1000;
        let behind = since.after.map(|(CellId { key, epoch, sequence }, owner)| {
            let key = self.dialect.bytes(&key.get().to_be_bytes());
            let place = format!("({key}, {epoch}, {}, {})", sequence.0, owner.0);
            format!("(changed_at > {changed} OR (key_id, epoch, sequence, owner) > {place})")
        });
        let behind = behind.unwrap_or_else(|| "1 = 1".to_owned());
        let page_rows = self.options.page_rows.max(1);
        let values: [(&str, &(dyn std::fmt::Display + Sync)); 3] =
            [("changed", &changed), ("behind", &behind), ("rows_max", &page_rows)];
        let rows = self.link.rows(self.dialect.fill(self.dialect.texts.import, &values), read).await?;
        let (mut present, mut last, mut components) = (Nanos::ZERO, None, Vec::with_capacity(rows.len()));
        for row in rows {
            match row {
                Read::Present(now) => present = now,
                Read::Component(changed, component) => {
                    last = last.max(Some((changed, component.cell, component.owner)));
                    components.push(component);
                }
            }
        }
        let has_more = components.len() >= page_rows;
        let next = match last {
            Some((changed, cell, owner)) if has_more => Cursor { changed, after: Some((cell, owner)) },
            _ => Cursor { changed: present, after: None },
        };
        Ok(Imported { components, next, has_more })
    }

    pub(super) async fn delete_expired(self) -> Result<u64, Failure> {
        let values: [(&str, &(dyn std::fmt::Display + Sync)); 4] = [
            ("counts_before", &micros(COUNT_KEPT_FOR)),
            ("demands_before", &micros(DEMAND_FOR)),
            ("slices_before", &micros(SLICE_KEPT_FOR)),
            ("rows_max", &DELETED_MAX),
        ];
        self.link.run(self.dialect.fill(self.dialect.texts.delete_expired, &values)).await
    }
}

fn read(row: &dyn Columns) -> Result<Read, sqlx::Error> {
    let changed = from_micros(row.number(0)?);
    let Some(key) = row.key_if_any(1)? else { return Ok(Read::Present(changed)) };
    let epoch = u16::try_from(row.number(2)?).map_err(|_| super::link::nonsense(2))?;
    let owner = u32::try_from(row.number(4)?).map_err(|_| super::link::nonsense(4))?;
    let component = Component {
        owner: OwnerId(owner),
        cell: CellId { key, epoch, sequence: Sequence(row.number(3)?) },
        count: row.number(5)?,
        limit: row.number(6)?,
        expires: row.instant(7)?,
    };
    Ok(Read::Component(changed, component))
}
