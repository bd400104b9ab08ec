//! The schema: looked at on every new connection, and brought up to date by whoever comes first.
//!
//! On every connection, not only the first of a process: a database may have been replaced by an empty one.

use super::dialect::Dialect;
use super::link::{Columns, Failure, Link};

const VERSION_TEXT: &str = include_str!("common/schema_version.sql");

pub(super) async fn apply(link: &mut Link, dialect: &Dialect) -> Result<(), Failure> {
    let newest = dialect.texts.schema.len();
    if version(link, dialect).await? == newest {
        return Ok(());
    }
    let is_ours = link.row(dialect.fill(dialect.texts.schema_lock, &[]), |row| row.number(0)).await?;
    if is_ours != 1 {
        return Err(Failure::Lost("another process is bringing the schema up to date".to_owned()));
    }
    // Somebody may have done it while we waited.
    let applied = version(link, dialect).await?;
    for text in dialect.texts.schema.iter().skip(applied) {
        link.run(dialect.fill(text, &[])).await?;
    }
    link.run(dialect.fill(dialect.texts.schema_unlock, &[])).await?;
    Ok(())
}

/// How many migrations were applied; an error when it is more than there are.
async fn version(link: &mut Link, dialect: &Dialect) -> Result<usize, Failure> {
    let number = |row: &dyn Columns| row.number(0);
    if link.row(dialect.fill(dialect.texts.schema_exists, &[]), number).await? == 0 {
        return Ok(0);
    }
    let version = link.row(dialect.fill(VERSION_TEXT, &[]), number).await?;
    let ours = dialect.texts.schema.len();
    match usize::try_from(version) {
        Ok(version) if version <= ours => Ok(version),
        _ => Err(Failure::Refused(format!(
            "its tables are of version {version}, made by a newer Tidegate, and this one knows {ours}; start the \
             newer one on this node too, or give it another database in world.url"
        ))),
    }
}
