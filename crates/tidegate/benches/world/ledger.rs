//! What is in the database, read by SQL of our own and not by the code that is measured.
//!
//! Straight from the server, past the proxies. Every row comes as one line of text, so that one reader does for
//! all databases. What a region has published is the larger of what the log and the table have of it.

use crate::packed;
use sqlx::{Connection, MySqlConnection, PgConnection};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A server that was killed is asked again by the next look.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A connection, made anew when it fails.
#[derive(Debug)]
pub(crate) struct Ledger {
    runtime: Runtime,
    url: String,
    connection: Option<Link>,
}

#[derive(Debug)]
enum Link {
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

/// A region, as the database knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) id: u32,
    pub(crate) region: String,
    /// It shares limits, and all its nodes divide them by the present membership.
    pub(crate) shares_all: bool,
    /// When it last said that all its nodes go by their slices, in the database's µs.
    pub(crate) confirmed: u64,
}

/// A region's count of a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Component {
    pub(crate) key: u128,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) owner: u32,
    pub(crate) count: u64,
}

/// A slice, what came before it, and the instant at which it was read, in the database's µs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) key: u128,
    pub(crate) owner: u32,
    pub(crate) generation: u64,
    pub(crate) acknowledged: u64,
    pub(crate) size: Size,
    pub(crate) expires: u64,
    pub(crate) before: Size,
    pub(crate) before_until: u64,
    pub(crate) now: u64,
}

/// A part of a limit: of a window's limit or GCRA's burst, and billionths of GCRA's rate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Size {
    pub(crate) amount: u64,
    pub(crate) rate_parts: u64,
}

impl Size {
    pub(crate) fn at_most(self, other: Size) -> Size {
        Size { amount: self.amount.min(other.amount), rate_parts: self.rate_parts.min(other.rate_parts) }
    }

    pub(crate) fn at_least(self, other: Size) -> Size {
        Size { amount: self.amount.max(other.amount), rate_parts: self.rate_parts.max(other.rate_parts) }
    }
}

impl Ledger {
    pub(crate) fn open(url: &str) -> Result<Self, String> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        Ok(Ledger { runtime, url: url.to_owned(), connection: None })
    }

    pub(crate) fn owners(&mut self) -> Option<Vec<Owner>> {
        let lines = self.lines(OWNERS, OWNERS)?;
        let read = |line: &String| {
            let mut words = line.splitn(4, ' ');
            let id = words.next()?.parse().ok()?;
            let shares_all = words.next()? == "1";
            let confirmed = words.next()?.parse().ok()?;
            Some(Owner { id, region: words.next()?.to_owned(), shares_all, confirmed })
        };
        lines.iter().map(read).collect()
    }

    pub(crate) fn components(&mut self) -> Option<Vec<Component>> {
        // The log first: what is merged into the table meanwhile is still found there.
        let mut logged = Vec::new();
        for line in self.lines(LOG_MYSQL, LOG_POSTGRES)? {
            logged.extend(packed::read(&line)?);
        }
        let lines = self.lines(COMPONENTS_MYSQL, COMPONENTS_POSTGRES)?;
        let read = |line: &String| {
            let (key, [epoch, sequence, owner, count]) = key_and_numbers(line)?;
            Some(Component { key, epoch, sequence, owner: u32::try_from(owner).ok()?, count })
        };
        let in_table: Option<Vec<Component>> = lines.iter().map(read).collect();
        let mut components = BTreeMap::new();
        for component in logged.into_iter().chain(in_table?) {
            let Component { key, epoch, sequence, owner, count } = component;
            let known = components.entry((key, epoch, sequence, owner)).or_insert(component);
            known.count = known.count.max(count);
        }
        Some(components.into_values().collect())
    }

    pub(crate) fn slices(&mut self) -> Option<Vec<Slice>> {
        let lines = self.lines(SLICES_MYSQL, SLICES_POSTGRES)?;
        let read = |line: &String| {
            let (key, numbers) = key_and_numbers::<10>(line)?;
            let [owner, generation, acknowledged, amount, rate_parts, expires, rest @ ..] = numbers;
            let [before_amount, before_rate_parts, before_until, now] = rest;
            Some(Slice {
                key,
                owner: u32::try_from(owner).ok()?,
                generation,
                acknowledged,
                size: Size { amount, rate_parts },
                expires,
                before: Size { amount: before_amount, rate_parts: before_rate_parts },
                before_until,
                now,
            })
        };
        lines.iter().map(read).collect()
    }

    /// The reconciler's term, and who holds it.
    pub(crate) fn term(&mut self) -> Option<(u64, String)> {
        let lines = self.lines(TERM, TERM)?;
        let (term, holder) = lines.first()?.split_once(' ')?;
        Some((term.parse().ok()?, holder.to_owned()))
    }

    /// Nothing when the database doesn't answer.
    fn lines(&mut self, mysql: &'static str, postgres: &'static str) -> Option<Vec<String>> {
        let Ledger { runtime, url, connection } = self;
        let asked = runtime.block_on(async {
            let work = async {
                let mut link = match connection.take() {
                    Some(link) => link,
                    None => Link::open(url).await?,
                };
                let lines = link.lines(mysql, postgres).await?;
                Ok::<_, sqlx::Error>((link, lines))
            };
            tokio::time::timeout(ANSWER_WITHIN, work).await
        });
        let (link, lines) = asked.ok()?.ok()?;
        *connection = Some(link);
        Some(lines)
    }
}

impl Link {
    async fn open(url: &str) -> Result<Self, sqlx::Error> {
        if url.starts_with("postgres") {
            PgConnection::connect(url).await.map(Link::Postgres)
        } else {
            MySqlConnection::connect(url).await.map(Link::MySql)
        }
    }

    async fn lines(
        &mut self,
        mysql: &'static str,
        postgres: &'static str,
    ) -> Result<Vec<String>, sqlx::Error> {
        match self {
            Link::MySql(connection) => sqlx::query_scalar(mysql).fetch_all(connection).await,
            Link::Postgres(connection) => sqlx::query_scalar(postgres).fetch_all(connection).await,
        }
    }
}

/// 32 hexadecimal digits, and so many numbers.
fn key_and_numbers<const COUNT: usize>(line: &str) -> Option<(u128, [u64; COUNT])> {
    let (key, numbers) = line.split_once(' ')?;
    let numbers: Option<Vec<u64>> = numbers.split(' ').map(|word| word.parse().ok()).collect();
    Some((u128::from_str_radix(key, 16).ok()?, numbers?.try_into().ok()?))
}

const OWNERS: &str = "\
SELECT CONCAT_WS(' ', id, CASE WHEN standing = 2 AND applied_version = (SELECT membership_version FROM \
tidegate_fleet) THEN '1' ELSE '0' END, confirmed_at, region) FROM tidegate_owners ORDER BY id";
const COMPONENTS_MYSQL: &str = "\
SELECT CONCAT_WS(' ', HEX(key_id), epoch, sequence, owner, count) FROM tidegate_counts";
const COMPONENTS_POSTGRES: &str = "\
SELECT CONCAT_WS(' ', ENCODE(key_id, 'hex'), epoch, sequence, owner, count) FROM tidegate_counts";
const LOG_MYSQL: &str = "SELECT CONCAT_WS(' ', owner, HEX(payload)) FROM tidegate_publishes";
const LOG_POSTGRES: &str = "SELECT CONCAT_WS(' ', owner, ENCODE(payload, 'hex')) FROM tidegate_publishes";
const SLICES_MYSQL: &str = "\
SELECT CONCAT_WS(' ', HEX(key_id), owner, generation, acknowledged, amount, rate_parts, expires_at, \
COALESCE(before_amount, 0), COALESCE(before_rate_parts, 0), COALESCE(before_until, 0), \
CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)) FROM tidegate_slices";
const SLICES_POSTGRES: &str = "\
SELECT CONCAT_WS(' ', ENCODE(key_id, 'hex'), owner, generation, acknowledged, amount, rate_parts, expires_at, \
COALESCE(before_amount, 0), COALESCE(before_rate_parts, 0), COALESCE(before_until, 0), \
CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) * 1000000 AS BIGINT)) FROM tidegate_slices";
const TERM: &str = "SELECT CONCAT_WS(' ', term, holder) FROM tidegate_leases WHERE job = 'reconciler'";
