//! The fleet's secret in SQL: one row of a table of its own.
//!
//! The table isn't a version of the schema: releases that don't know it must go on beside those that do. It is made by
//! whoever stores the first secret. No error here shows what is stored.

use super::Session;
use super::link::{Columns, Failure};
use std::fmt::Display;
use tidegate_core::{FleetSecret, StoredSecret};

impl Session<'_> {
    /// Returns what is stored. Stores `ours` first if nothing is and no region uses another secret: the row's key is
    /// unique, so whoever comes first wins.
    pub(super) async fn fleet_secret(mut self, ours: Option<FleetSecret>) -> Result<StoredSecret, Failure> {
        let found = self.stored_secret().await?;
        let Some(ours) = ours.filter(|ours| found.accepts(ours)) else { return Ok(found) };
        let secret = self.dialect.text(&StoredSecret::text_of(&ours));
        let values: [(&str, &(dyn Display + Sync)); 1] = [("secret", &secret)];
        for text in [include_str!("common/make_secret_table.sql"), include_str!("common/put_secret.sql")] {
            self.link.run(self.dialect.fill(text, &values)).await?;
        }
        self.stored_secret().await
    }

    async fn stored_secret(&mut self) -> Result<StoredSecret, Failure> {
        let marker = self.dialect.fill(include_str!("common/secret_marker.sql"), &[]);
        let marker = self.link.rows(marker, |row: &dyn Columns| row.pattern(0)).await?;
        let mut stored = StoredSecret { secret: None, marker: marker.first().copied() };
        let exists = self.dialect.fill(self.dialect.texts.schema_exists, &[]);
        let exists = exists.replace("tidegate_schema", "tidegate_secret");
        if self.link.row(exists, |row: &dyn Columns| row.number(0)).await? == 0 {
            return Ok(stored);
        }
        let secret = self.dialect.fill(include_str!("common/secret.sql"), &[]);
        let rows = self.link.rows(secret, |row: &dyn Columns| row.text(0)).await?;
        if let Some(text) = rows.into_iter().flatten().next() {
            let unread = || {
                let problem =
                    "tidegate_secret holds none that this version reads; start the newer Tidegate here too";
                Failure::Refused(problem.to_owned())
            };
            stored.secret = Some(StoredSecret::read(&text).ok_or_else(unread)?);
        }
        Ok(stored)
    }
}
