//! One connection to a database, of whichever kind, and what its errors mean.

use super::dialect::{Dialect, MYSQL, POSTGRES, SQLITE};
use super::tls::Server;
use crate::WorldError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::sqlite::SqliteSynchronous;
use sqlx::{AssertSqlSafe, ConnectOptions, Row as _};
use sqlx::{MySqlConnection, PgConnection, SqliteConnection};
use tidegate_core::{KeyId, Nanos};

/// How long a statement may take, as `session.sql` says.
const STATEMENT_WITHIN_MS: u64 = 1000;

/// How to reach a database.
#[derive(Clone, Debug)]
pub(super) enum Address {
    Sqlite(sqlx::sqlite::SqliteConnectOptions),
    MySql(Server<sqlx::mysql::MySqlConnectOptions>),
    Postgres(Server<sqlx::postgres::PgConnectOptions>),
}

/// A connection. Dropping it closes it and undoes what wasn't committed.
#[derive(Debug)]
pub(super) enum Link {
    Sqlite(SqliteConnection),
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

/// What came of a statement that failed, by what a caller does about it.
#[derive(Debug)]
pub(super) enum Failure {
    /// A value that the database won't have: of several rows, the others may be fine.
    Value(String),
    /// The database refused for another reason.
    Refused(String),
    /// It gave up: the statement took too long, or waited too long for somebody else's.
    Late,
    /// It is out of reach, or what it says makes no sense: the connection is of no more use.
    Lost(String),
    /// The answer itself is an error of the contract's.
    World(WorldError),
}

/// The columns of a row that was read. Everything in our tables is one of these.
pub(super) trait Columns {
    fn signed(&self, column: usize) -> Result<Option<i64>, sqlx::Error>;
    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, sqlx::Error>;
    fn text(&self, column: usize) -> Result<Option<String>, sqlx::Error>;
}

macro_rules! columns {
    ($row:ty) => {
        impl Columns for $row {
            fn signed(&self, column: usize) -> Result<Option<i64>, sqlx::Error> {
                self.try_get_unchecked(column)
            }

            fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, sqlx::Error> {
                self.try_get_unchecked(column)
            }

            fn text(&self, column: usize) -> Result<Option<String>, sqlx::Error> {
                self.try_get_unchecked(column)
            }
        }
    };
}

columns!(sqlx::sqlite::SqliteRow);
columns!(sqlx::mysql::MySqlRow);
columns!(sqlx::postgres::PgRow);

impl dyn Columns + '_ {
    /// A number that is never negative in what we write.
    pub(super) fn number(&self, column: usize) -> Result<u64, sqlx::Error> {
        self.number_if_any(column)?.ok_or_else(|| nonsense(column))
    }

    pub(super) fn number_if_any(&self, column: usize) -> Result<Option<u64>, sqlx::Error> {
        let number = self.signed(column)?.map(u64::try_from).transpose();
        number.map_err(|_| nonsense(column))
    }

    /// Any 64 bits.
    pub(super) fn pattern(&self, column: usize) -> Result<u64, sqlx::Error> {
        self.signed(column)?.map(i64::cast_unsigned).ok_or_else(|| nonsense(column))
    }

    /// An instant, kept in microseconds.
    pub(super) fn instant(&self, column: usize) -> Result<Nanos, sqlx::Error> {
        Ok(from_micros(self.number(column)?))
    }

    pub(super) fn key_if_any(&self, column: usize) -> Result<Option<KeyId>, sqlx::Error> {
        let Some(bytes) = self.bytes(column)? else { return Ok(None) };
        let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| nonsense(column))?;
        Ok(Some(KeyId::from_hash(u128::from_be_bytes(bytes))))
    }

    pub(super) fn key(&self, column: usize) -> Result<KeyId, sqlx::Error> {
        self.key_if_any(column)?.ok_or_else(|| nonsense(column))
    }
}

/// Somebody else wrote that.
pub(super) fn nonsense(column: usize) -> sqlx::Error {
    sqlx::Error::Decode(
        format!("column {} of a table of Tidegate's has a value out of range", column + 1).into(),
    )
}

pub(super) const fn from_micros(micros: u64) -> Nanos {
    Nanos::new(micros.saturating_mul(1000))
}

/// Rounded up; below 2^63 for every instant.
pub(super) const fn micros(instant: Nanos) -> u64 {
    instant.get().div_ceil(1000)
}

impl Address {
    pub(super) fn dialect(&self) -> &'static Dialect {
        match self {
            Address::Sqlite(_) => &SQLITE,
            Address::MySql(_) => &MYSQL,
            Address::Postgres(_) => &POSTGRES,
        }
    }

    /// The same, where SQLite waits for the disk. Items lie in the order of hashes, so that a large import touches
    /// nearly every page of the file: more of them are held, and written together.
    pub(super) fn synchronous(&self) -> Self {
        match self.clone() {
            Address::Sqlite(options) => {
                let options = options.synchronous(SqliteSynchronous::Full);
                // KiB, if negative; pages.
                Address::Sqlite(options.pragma("cache_size", "-65536").pragma("wal_autocheckpoint", "16000"))
            }
            other => other,
        }
    }

    pub(super) async fn connect(&self) -> Result<Link, Failure> {
        Ok(match self {
            Address::Sqlite(options) => Link::Sqlite(options.connect().await?),
            Address::MySql(server) => Link::MySql(server.connect().await?),
            Address::Postgres(server) => Link::Postgres(server.connect().await?),
        })
    }
}

impl Link {
    /// Runs one or more statements and reads their rows. Only [`Dialect::fill`] makes texts.
    pub(super) async fn rows<T>(
        &mut self,
        text: String,
        read: fn(&dyn Columns) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, Failure> {
        let statements = sqlx::raw_sql(AssertSqlSafe(text));
        let rows: Result<Vec<T>, sqlx::Error> = match self {
            Link::Sqlite(link) => statements.fetch_all(link).await?.iter().map(|row| read(row)).collect(),
            Link::MySql(link) => statements.fetch_all(link).await?.iter().map(|row| read(row)).collect(),
            Link::Postgres(link) => statements.fetch_all(link).await?.iter().map(|row| read(row)).collect(),
        };
        Ok(rows?)
    }

    /// The one row that there must be.
    pub(super) async fn row<T>(
        &mut self,
        text: String,
        read: fn(&dyn Columns) -> Result<T, sqlx::Error>,
    ) -> Result<T, Failure> {
        let found = self.rows(text, read).await?.pop();
        found.ok_or_else(|| Failure::Refused("a row is missing that is always there".to_owned()))
    }

    /// Runs one or more statements, and says how many rows they changed.
    pub(super) async fn run(&mut self, text: String) -> Result<u64, Failure> {
        let statements = sqlx::raw_sql(AssertSqlSafe(text));
        Ok(match self {
            Link::Sqlite(link) => statements.execute(link).await?.rows_affected(),
            Link::MySql(link) => statements.execute(link).await?.rows_affected(),
            Link::Postgres(link) => statements.execute(link).await?.rows_affected(),
        })
    }
}

impl From<WorldError> for Failure {
    fn from(error: WorldError) -> Self {
        Failure::World(error)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(refusal) => {
                let message = refusal.message().to_owned();
                let number = refusal.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number);
                let code = refusal.code().unwrap_or_default();
                if is_too_late(&code, number) {
                    Failure::Late
                } else if is_about_a_value(&code, number) {
                    Failure::Value(message)
                } else {
                    Failure::Refused(message)
                }
            }
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => Failure::Refused(error.to_string()),
            other => Failure::Lost(other.to_string()),
        }
    }
}

/// Interrupted, or a lock that didn't come: MariaDB's and MySQL's numbers, PostgreSQL's states, SQLite's busy.
fn is_too_late(code: &str, number: Option<u16>) -> bool {
    match number {
        Some(number) => [1205, 1969, 3024].contains(&number),
        None if code.len() == 5 => ["57014", "55P03"].contains(&code),
        None => code.parse::<u32>().is_ok_and(|code| [5, 6].contains(&(code & 0xff))),
    }
}

/// Data exceptions and violated constraints, by SQLSTATE; those that MySQL and MariaDB file under other states;
/// and SQLite's own codes: constraint, too big, mismatch.
fn is_about_a_value(code: &str, number: Option<u16>) -> bool {
    match number {
        Some(number) => {
            let is_class = code.starts_with("22") || code.starts_with("23");
            is_class || [1265, 1366, 3819, 4025].contains(&number)
        }
        None if code.len() == 5 => code.starts_with("22") || code.starts_with("23"),
        None => code.parse::<u32>().is_ok_and(|code| [18, 19, 20].contains(&(code & 0xff))),
    }
}

impl From<Failure> for WorldError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Value(message) | Failure::Refused(message) => WorldError::Refused { message },
            Failure::Lost(cause) => WorldError::Unreachable { cause },
            Failure::Late => WorldError::Timeout { waited_ms: STATEMENT_WITHIN_MS },
            Failure::World(error) => error,
        }
    }
}
