//! The rule log in SQL. What an entry changes is written with it, in one transaction that holds the head's row.

use super::Session;
use super::link::{Columns, Failure, micros, nonsense};
use crate::WorldError;
use crate::rules::{
    HistoryPage, NewRuleLogEntry, Remainder, RuleItem, RuleItemId, RuleItemsPage, RuleLogEntry,
    RuleLogEntrySize, RuleLogSubject, Summary,
};
use crate::store::check_entries;
use std::collections::BTreeMap;
use std::fmt::Display;

/// A statement is about this long at most, but for a single entry or value that is longer.
const STATEMENT_BYTES: usize = 1 << 20;
/// The bytes of a page of entries.
const PAGE_BYTES: u64 = 8 << 20;
/// The entries of a page, at most.
const PAGE_ENTRIES: usize = 1000;
/// Of [`Summary`], in order.
const SUMMARY_COLUMNS: &str = "version, logged_at, author, reason, changes";

/// Statements on their way: sent whenever they are many.
struct Texts {
    text: String,
}

impl Session<'_> {
    pub(super) async fn head(self) -> Result<u64, Failure> {
        let text = self.dialect.fill(include_str!("common/rule_head.sql"), &[]);
        self.link.row(text, |row| row.number(0)).await
    }

    pub(super) async fn append(mut self, head: u64, entries: &[NewRuleLogEntry]) -> Result<(), Failure> {
        check_entries(entries)?;
        let lock = self.dialect.fill(include_str!("common/rule_lock.sql"), &[]);
        let theirs = self.link.row(lock, |row| row.number(0)).await?;
        if theirs != head {
            self.link.run("ROLLBACK".to_owned()).await?;
            return Err(WorldError::Outdated { theirs }.into());
        }
        let (mut texts, mut last) = (Texts { text: String::new() }, head);
        for entry in entries {
            last += 1;
            self.entry_texts(last, entry, &mut texts).await?;
        }
        let advance = self.dialect.fill(include_str!("common/rule_advance.sql"), &[("head", &last)]);
        self.link.run(texts.text + &advance).await?;
        Ok(())
    }

    /// What one entry writes. Sends what is long enough.
    async fn entry_texts(
        &mut self,
        version: u64,
        entry: &NewRuleLogEntry,
        texts: &mut Texts,
    ) -> Result<(), Failure> {
        let now = self.dialect.now().to_owned();
        let at = entry.at.map_or(now, |at| micros(at).to_string());
        let values: [(&str, &(dyn Display + Sync)); 7] = [
            ("version", &version),
            ("at", &at),
            ("author", &self.dialect.text(&entry.author)),
            ("reason", &self.dialect.text(&entry.reason)),
            ("changes", &entry.changes),
            ("changed", &self.dialect.bytes(&entry.changed)),
            ("nothing", &self.dialect.bytes(&[])),
        ];
        self.send(texts, &self.dialect.fill(include_str!("common/rule_entry.sql"), &values)).await?;
        // Apart: a server takes only so much at once.
        let values: [(&str, &(dyn Display + Sync)); 2] =
            [("version", &version), ("replaced", &self.dialect.bytes(&entry.replaced))];
        self.send(texts, &self.dialect.fill(include_str!("common/rule_replaced.sql"), &values)).await?;
        for chunk in entry.subjects.chunks(self.options.chunk_rows.max(1)) {
            let rows: Vec<String> = chunk
                .iter()
                .map(|subject| format!("({},{version})", self.dialect.bytes(&subject.0)))
                .collect();
            let text = include_str!("common/rule_subjects.sql");
            self.send(texts, &self.dialect.fill(text, &[("rows", &rows.join(",\n"))])).await?;
        }
        self.item_texts(version, entry, texts).await
    }

    async fn item_texts(
        &mut self,
        version: u64,
        entry: &NewRuleLogEntry,
        texts: &mut Texts,
    ) -> Result<(), Failure> {
        let mut rows = String::new();
        let mut gone: BTreeMap<RuleLogSubject, Vec<[u8; 32]>> = BTreeMap::new();
        for (id, value) in &entry.items {
            let Some(value) = value else {
                gone.entry(id.place).or_default().push(id.item);
                continue;
            };
            let comma = if rows.is_empty() { "" } else { ",\n" };
            let [place, item, value] =
                [&id.place.0[..], &id.item[..], value].map(|bytes| self.dialect.bytes(bytes));
            rows += &format!("{comma}({place},{item},{value},{version})");
            if rows.len() >= STATEMENT_BYTES {
                let text = self.dialect.fill(self.dialect.texts.put_rules, &[("rows", &rows)]);
                self.send(texts, &text).await?;
                rows.clear();
            }
        }
        if !rows.is_empty() {
            let text = self.dialect.fill(self.dialect.texts.put_rules, &[("rows", &rows)]);
            self.send(texts, &text).await?;
        }
        for (place, items) in gone {
            for chunk in items.chunks(self.options.chunk_rows.max(1)) {
                let text = self.of_place(include_str!("common/rule_delete.sql"), place, chunk);
                self.send(texts, &text).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, texts: &mut Texts, text: &str) -> Result<(), Failure> {
        if !texts.text.is_empty() && texts.text.len() + text.len() > STATEMENT_BYTES {
            self.link.run(std::mem::take(&mut texts.text)).await?;
        }
        texts.text += text;
        Ok(())
    }

    fn of_place(&self, text: &str, place: RuleLogSubject, items: &[[u8; 32]]) -> String {
        let items: Vec<String> = items.iter().map(|item| self.dialect.bytes(item)).collect();
        let values: [(&str, &(dyn Display + Sync)); 2] =
            [("place", &self.dialect.bytes(&place.0)), ("items", &items.join(","))];
        self.dialect.fill(text, &values)
    }

    pub(super) async fn entries(self, after: u64) -> Result<Vec<RuleLogEntry>, Failure> {
        let values: [(&str, &(dyn Display + Sync)); 2] = [("after", &after), ("rows_max", &PAGE_ENTRIES)];
        let text = self.dialect.fill(include_str!("common/rule_sizes.sql"), &values);
        let sizes = self.link.rows(text, |row| Ok((row.number(0)?, row.number(1)?))).await?;
        let mut bytes = 0;
        let fits = |(_, size): &&(u64, u64)| {
            let is_first = bytes == 0;
            bytes += size;
            is_first || bytes <= PAGE_BYTES
        };
        let Some((last, _)) = sizes.iter().take_while(fits).last() else { return Ok(Vec::new()) };
        self.range(after, *last).await
    }

    pub(super) async fn entry(self, version: u64) -> Result<Option<RuleLogEntry>, Failure> {
        let Some(before) = version.checked_sub(1) else { return Ok(None) };
        Ok(self.range(before, version).await?.pop())
    }

    async fn range(self, after: u64, last: u64) -> Result<Vec<RuleLogEntry>, Failure> {
        let last = last.min(crate::STORED_MAX);
        let values: [(&str, &(dyn Display + Sync)); 3] =
            [("columns", &SUMMARY_COLUMNS), ("after", &after.min(last)), ("last", &last)];
        let text = self.dialect.fill(include_str!("common/rule_entries.sql"), &values);
        let read = |row: &dyn Columns| {
            let bytes = |column: usize| row.bytes(column)?.ok_or_else(|| nonsense(column));
            Ok(RuleLogEntry { summary: summary(row)?, changed: bytes(5)?, replaced: bytes(6)? })
        };
        self.link.rows(text, read).await
    }

    pub(super) async fn history(self, page: HistoryPage) -> Result<Vec<Summary>, Failure> {
        let of_subject = |subject: RuleLogSubject| {
            let subject = self.dialect.bytes(&subject.0);
            self.dialect.fill(include_str!("common/rule_of_subject.sql"), &[("subject", &subject)])
        };
        let condition = page.subject.map_or(String::new(), of_subject);
        let values: [(&str, &(dyn Display + Sync)); 4] = [
            ("columns", &SUMMARY_COLUMNS),
            ("before", &page.before.min(crate::STORED_MAX)),
            ("of_subject", &condition),
            ("rows_max", &page.rows_max),
        ];
        let text = self.dialect.fill(include_str!("common/rule_history.sql"), &values);
        self.link.rows(text, summary).await
    }

    pub(super) async fn sizes(
        self,
        subject: RuleLogSubject,
        rows_max: usize,
    ) -> Result<Vec<RuleLogEntrySize>, Failure> {
        let values: [(&str, &(dyn Display + Sync)); 2] =
            [("subject", &self.dialect.bytes(&subject.0)), ("rows_max", &rows_max)];
        let text = self.dialect.fill(include_str!("common/rule_sizes_of_subject.sql"), &values);
        let read = |row: &dyn Columns| {
            let [version, changed, replaced] = [row.number(0)?, row.number(1)?, row.number(2)?];
            Ok(RuleLogEntrySize { version, changed, replaced })
        };
        self.link.rows(text, read).await
    }

    /// One statement for each: a server takes only so much at once, and any of them may stay undone.
    pub(super) async fn prune(self, remainders: &[Remainder]) -> Result<(), Failure> {
        for Remainder { version, changed, replaced } in remainders {
            let values: [(&str, &(dyn Display + Sync)); 3] = [
                ("version", version),
                ("changed", &self.dialect.bytes(changed)),
                ("replaced", &self.dialect.bytes(replaced)),
            ];
            self.link.run(self.dialect.fill(include_str!("common/rule_prune.sql"), &values)).await?;
        }
        Ok(())
    }

    /// What is left of the last one's place, and then of the places behind it: two ranges of one index, where one
    /// condition on both columns would have some databases look at everything before.
    pub(super) async fn items(mut self, page: RuleItemsPage) -> Result<Vec<RuleItem>, Failure> {
        let bytes = |bytes: &[u8]| self.dialect.bytes(bytes);
        let behind =
            page.after.map(|id| format!("place = {} AND item > {}", bytes(&id.place.0), bytes(&id.item)));
        let others = match (page.place, page.after) {
            (Some(place), None) => Some(format!("place = {}", bytes(&place.0))),
            (None, None) => Some("1 = 1".to_owned()),
            (None, Some(id)) => Some(format!("place > {}", bytes(&id.place.0))),
            (Some(place), Some(id)) if place > id.place => Some(format!("place = {}", bytes(&place.0))),
            (Some(_), Some(_)) => None,
        };
        let is_elsewhere = |id: RuleItemId| page.place.is_some_and(|place| place != id.place);
        let behind = behind.filter(|_| !page.after.is_some_and(is_elsewhere));
        let mut items = Vec::new();
        for condition in behind.into_iter().chain(others) {
            let rows_max = self.options.page_rows - items.len();
            if rows_max > 0 {
                items.extend(self.range_of_items(&condition, rows_max).await?);
            }
        }
        Ok(items)
    }

    async fn range_of_items(&mut self, condition: &str, rows_max: usize) -> Result<Vec<RuleItem>, Failure> {
        let values: [(&str, &(dyn Display + Sync)); 2] = [("condition", &condition), ("rows_max", &rows_max)];
        let text = self.dialect.fill(include_str!("common/rule_items.sql"), &values);
        self.link.rows(text, item).await
    }

    pub(super) async fn find(self, items: &[RuleItemId]) -> Result<Vec<RuleItem>, Failure> {
        let mut by_place: BTreeMap<RuleLogSubject, Vec<[u8; 32]>> = BTreeMap::new();
        for id in items {
            by_place.entry(id.place).or_default().push(id.item);
        }
        let mut found = Vec::new();
        for (place, items) in by_place {
            for chunk in items.chunks(self.options.chunk_rows.max(1)) {
                let text = self.of_place(include_str!("common/rule_find.sql"), place, chunk);
                found.extend(self.link.rows(text, item).await?);
            }
        }
        Ok(found)
    }
}

fn summary(row: &dyn Columns) -> Result<Summary, sqlx::Error> {
    let text = |column: usize| row.text(column)?.ok_or_else(|| nonsense(column));
    Ok(Summary {
        version: row.number(0)?,
        at: row.instant(1)?,
        author: text(2)?,
        reason: text(3)?,
        changes: u32::try_from(row.number(4)?).map_err(|_| nonsense(4))?,
    })
}

fn item(row: &dyn Columns) -> Result<RuleItem, sqlx::Error> {
    let bytes = |column: usize| row.bytes(column)?.ok_or_else(|| nonsense(column));
    let place = <[u8; 16]>::try_from(bytes(0)?).map_err(|_| nonsense(0))?;
    let item = <[u8; 32]>::try_from(bytes(1)?).map_err(|_| nonsense(1))?;
    let id = RuleItemId { place: RuleLogSubject(place), item };
    Ok(RuleItem { id, value: bytes(2)?, version: row.number(3)? })
}
