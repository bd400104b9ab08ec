//! Demands and slices in SQL.

use super::Session;
use super::dialect::Dialect;
use super::link::{Columns, Failure, from_micros, micros, nonsense};
use crate::{
    AcknowledgedSlice, Acknowledgement, DEMAND_TTL, Demand, KeyName, Membership, OwnerId, RECONCILER,
    SliceGrants, SliceHolding, SliceRow, SliceSize, Slices, Survey, Term, WorldError,
};
use std::fmt::Display;
use tidegate_core::{Burst, KeyId, Limit, Nanos, Period, Rate, Spec};

/// More demands or slices than this, and a survey says so instead of taking them all in.
const SURVEY_ROWS_MAX: usize = 200_000;
/// `tidegate_demands.algorithm`
const SLIDING: u64 = 0;
const FIXED: u64 = 1;
const GCRA: u64 = 2;

/// How many characters the readable columns have room for: tenant, namespace, rule, identifier.
pub(super) const NAME_LENGTHS: [usize; 4] = [191, 255, 255, 512];

impl Session<'_> {
    pub(super) async fn report(self, owner: OwnerId, demands: &[Demand]) -> Result<(), Failure> {
        let mut sorted: Vec<&Demand> = demands.iter().collect();
        // Of a key that comes twice, the last counts.
        sorted.reverse();
        sorted.sort_by_key(|demand| demand.key);
        sorted.dedup_by_key(|demand| demand.key);
        for chunk in sorted.chunks(self.options.chunk_rows.max(1)) {
            let values: Vec<String> = chunk.iter().map(|demand| self.demand(owner, demand)).collect();
            let rows = values.join(",\n");
            self.link.run(self.dialect.fill(self.dialect.texts.report, &[("rows", &rows)])).await?;
        }
        Ok(())
    }

    fn demand(&self, owner: OwnerId, demand: &Demand) -> String {
        let (algorithm, amount, interval_ns, interval_of) = match demand.spec {
            Spec::Sliding { limit, period } => (SLIDING, limit.get(), period.get(), 1),
            Spec::Fixed { limit, period } => (FIXED, limit.get(), period.get(), 1),
            // Refused before anything is sent.
            Spec::Calendar { limit, .. } => (FIXED, limit.get(), 1, 1),
            Spec::Gcra { rate, burst } => {
                (GCRA, burst.get(), rate.interval_numerator_ns(), rate.interval_denominator())
            }
        };
        format!(
            "({},{},{algorithm},{amount},{interval_ns},{interval_of},{},{},{},{})",
            self.key(demand.key),
            owner.0,
            u8::from(demand.is_abuse),
            demand.milli_per_second,
            self.dialect.now(),
            name_values(self.dialect, demand.name.as_deref())
        )
    }

    pub(super) async fn slices(self, owner: OwnerId) -> Result<Slices, Failure> {
        let text = self.dialect.fill(include_str!("common/slices.sql"), &[("owner", &owner.0)]);
        let rows = self.link.rows(text, |row| {
            let expires = row.instant(0)?;
            let generation = row.number_if_any(2)?.unwrap_or(0);
            let number = row.number_if_any(3)?.unwrap_or(0);
            let Some(key) = row.key_if_any(1)? else { return Ok((expires, generation, number, None)) };
            Ok((expires, generation, number, Some((key, size(row, 3)?, row.number(5)?))))
        });
        let (mut now, mut confirmed, mut revision) = (Nanos::ZERO, Nanos::ZERO, 0);
        let mut slices = Vec::new();
        for (expires, generation, number, row) in rows.await? {
            match row {
                Some((key, size, whole)) => {
                    slices.push(SliceRow { key, owner, generation, size, whole, expires });
                }
                None => (now, confirmed, revision) = (expires, from_micros(generation), number),
            }
        }
        slices.sort_by_key(|row| row.key);
        Ok(Slices { slices, now, confirmed, revision })
    }

    pub(super) async fn acknowledge(self, owner: OwnerId, said: &Acknowledgement) -> Result<(), Failure> {
        let mut sorted: Vec<&AcknowledgedSlice> = said.slices.iter().collect();
        sorted.sort_by_key(|slice| (slice.key, slice.generation));
        for chunk in sorted.chunks(self.options.chunk_rows.max(1)) {
            let mut text = self.dialect.begin.to_owned();
            for AcknowledgedSlice { key, generation } in chunk {
                let values: [(&str, &(dyn Display + Sync)); 4] = [
                    ("key", &self.key(*key)),
                    ("owner", &owner.0),
                    ("generation", generation),
                    ("known_us", &micros(said.known)),
                ];
                text += &self.dialect.fill(include_str!("common/acknowledge.sql"), &values);
            }
            self.link.run(text + "COMMIT").await?;
        }
        let values: [(&str, &(dyn Display + Sync)); 3] =
            [("owner", &owner.0), ("read_us", &micros(said.read)), ("known_us", &micros(said.known))];
        self.link.run(self.dialect.fill(include_str!("common/confirm.sql"), &values)).await?;
        Ok(())
    }

    /// Three reads of one snapshot.
    pub(super) async fn survey(mut self) -> Result<Survey, Failure> {
        let fleet = self.read_fleet(self.dialect.texts.snapshot).await?;
        let rows_max = SURVEY_ROWS_MAX + 1;
        let values: [(&str, &(dyn Display + Sync)); 2] =
            [("since_us", &micros(DEMAND_TTL)), ("rows_max", &rows_max)];
        let text = self.dialect.fill(include_str!("common/survey_demands.sql"), &values);
        let demands = bounded(self.link.rows(text, read_demand).await?, "demands")?;
        let text = self.dialect.fill(include_str!("common/survey_slices.sql"), &values);
        let slices = bounded(self.link.rows(text, read_held).await?, "slices")?;
        self.link.run("COMMIT".to_owned()).await?;
        let (revision, membership, now) = (fleet.revision, fleet.membership(), fleet.now);
        Ok(Survey { revision, membership, demands, slices, now })
    }

    /// One transaction, which holds the lease from its first statement on: whoever takes over waits for it.
    pub(super) async fn grant(self, term: Term, granted: &SliceGrants) -> Result<(), Failure> {
        let lock = include_str!("common/lock_lease.sql");
        let lock = self.dialect.fill(lock, &[("job", &self.dialect.text(RECONCILER))]);
        let lock = format!("{}{lock}", self.dialect.begin);
        let read = |row: &dyn Columns| Ok((row.number(0)?, row.number(1)?, row.number(2)?));
        let (theirs, version, revision) = self.link.row(lock, read).await?;
        if theirs != term.0 {
            return Err(WorldError::Deposed { theirs }.into());
        }
        if revision != granted.revision {
            return Err(WorldError::Outdated { theirs: revision }.into());
        }
        let revision = revision + 1;
        let mut text = self.dialect.fill(include_str!("common/granted.sql"), &[("revision", &revision)]);
        if let Some(membership) = &granted.membership {
            if membership.version != version + 1 {
                return Err(WorldError::Outdated { theirs: version }.into());
            }
            text += &self.membership(membership);
        }
        let chunk_rows = self.options.chunk_rows.max(1);
        for keys in granted.dropped.chunks(chunk_rows) {
            let keys: Vec<String> = keys.iter().map(|key| self.key(*key)).collect();
            text += &self.dialect.fill(include_str!("common/drop_slices.sql"), &[("keys", &keys.join(","))]);
        }
        let mut sorted: Vec<&SliceHolding> = granted.slices.iter().collect();
        sorted.sort_by_key(|held| (held.row.key, held.row.owner));
        for chunk in sorted.chunks(chunk_rows) {
            let rows: Vec<String> = chunk.iter().map(|held| self.held(held)).collect();
            text += &self.dialect.fill(self.dialect.texts.grant, &[("rows", &rows.join(",\n"))]);
        }
        self.link.run(text + "COMMIT").await?;
        Ok(())
    }

    fn membership(&self, membership: &Membership) -> String {
        let ids = |is_active: bool| {
            let members = membership.members.iter().filter(|member| member.is_active == is_active);
            // No owner has the id 0; an empty list is no SQL.
            let ids = std::iter::once(0).chain(members.map(|member| member.owner.0));
            ids.map(|id| id.to_string()).collect::<Vec<_>>().join(",")
        };
        let values: [(&str, &(dyn Display + Sync)); 3] =
            [("active", &ids(true)), ("waiting", &ids(false)), ("version", &membership.version)];
        self.dialect.fill(include_str!("common/set_membership.sql"), &values)
    }

    fn held(&self, held: &SliceHolding) -> String {
        let SliceRow { key, owner, generation, size, whole, expires } = held.row;
        let before = match held.before {
            Some((before, until)) => format!("{},{},{}", before.amount, before.rate_parts, micros(until)),
            None => "NULL,NULL,NULL".to_owned(),
        };
        format!(
            "({},{},{generation},{},{},{whole},{},{},{before})",
            self.key(key),
            owner.0,
            size.amount,
            size.rate_parts,
            micros(expires),
            held.acknowledged
        )
    }

    fn key(&self, key: KeyId) -> String {
        self.dialect.bytes(&key.get().to_be_bytes())
    }
}

/// The values of the four readable columns. What is too long is cut, and no database keeps a NUL.
/// What a readable column keeps of a text: so many characters, and none that a database may refuse.
pub(super) fn stored_prefix(name: &str, length: usize) -> String {
    name.chars().filter(|character| *character != '\0').take(length).collect()
}

pub(super) fn name_values(dialect: &Dialect, name: Option<&KeyName>) -> String {
    let Some(KeyName { tenant, namespace, rule, identifier }) = name else {
        return "NULL,NULL,NULL,NULL".to_owned();
    };
    let names = [tenant, namespace, rule, identifier].into_iter().zip(NAME_LENGTHS);
    let values = names.map(|(name, length)| dialect.text(&stored_prefix(name, length)));
    values.collect::<Vec<_>>().join(",")
}

fn bounded<T>(rows: Vec<T>, what: &str) -> Result<Vec<T>, Failure> {
    if rows.len() <= SURVEY_ROWS_MAX {
        return Ok(rows);
    }
    Err(Failure::Refused(format!(
        "there are more than {SURVEY_ROWS_MAX} {what}, more than one reconciler handles"
    )))
}

pub(super) fn owner(row: &dyn Columns, column: usize) -> Result<OwnerId, sqlx::Error> {
    Ok(OwnerId(u32::try_from(row.number(column)?).map_err(|_| nonsense(column))?))
}

fn size(row: &dyn Columns, column: usize) -> Result<SliceSize, sqlx::Error> {
    let rate_parts = u32::try_from(row.number(column + 1)?).map_err(|_| nonsense(column + 1))?;
    Ok(SliceSize { amount: row.number(column)?, rate_parts })
}

fn read_demand(row: &dyn Columns) -> Result<(OwnerId, Demand), sqlx::Error> {
    let (amount, interval_ns, interval_of) = (row.number(3)?, row.number(4)?, row.number(5)?);
    let limit = || Limit::new(amount).map_err(|_| nonsense(3));
    let period = || Period::new(Nanos::new(interval_ns)).map_err(|_| nonsense(4));
    let spec = match row.number(2)? {
        SLIDING => Spec::Sliding { limit: limit()?, period: period()? },
        FIXED => Spec::Fixed { limit: limit()?, period: period()? },
        GCRA => Spec::Gcra {
            rate: rate(interval_ns, interval_of).ok_or_else(|| nonsense(4))?,
            burst: Burst::new(amount).map_err(|_| nonsense(3))?,
        },
        _ => return Err(nonsense(2)),
    };
    let demand = Demand {
        key: row.key(1)?,
        spec,
        is_abuse: row.number(6)? != 0,
        milli_per_second: row.number(7)?,
        name: None,
    };
    Ok((owner(row, 0)?, demand))
}

/// `interval_of` per `interval_ns`, exactly: a rate's period has a least length, its lowest terms have none.
fn rate(interval_ns: u64, interval_of: u64) -> Option<Rate> {
    let times = Nanos::PER_MILLI.div_ceil(interval_ns.max(1));
    Rate::new(interval_of.checked_mul(times)?, Nanos::new(interval_ns.checked_mul(times)?)).ok()
}

fn read_held(row: &dyn Columns) -> Result<SliceHolding, sqlx::Error> {
    let before = match row.number_if_any(8)? {
        Some(_) => Some((size(row, 8)?, from_micros(row.number(10)?))),
        None => None,
    };
    let slice = SliceRow {
        key: row.key(1)?,
        owner: owner(row, 0)?,
        generation: row.number(2)?,
        size: size(row, 3)?,
        whole: row.number(5)?,
        expires: row.instant(6)?,
    };
    Ok(SliceHolding { row: slice, acknowledged: row.number(7)?, before })
}
