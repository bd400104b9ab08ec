//! Who takes part, in SQL: saying that a region is here, and who leads.

use super::Session;
use super::link::{Columns, Failure, from_micros, micros, nonsense};
use crate::{
    JoinReply, JoinRequest, Member, Membership, NAMESAKE_TTL, OwnerId, PublishPolicy, PublishThreshold, Term,
    WorldError,
};
use std::fmt::Display;
use tidegate_core::Nanos;

const MILLION: f64 = 1e6;
const HEADROOM: &str = "headroom";
const FLOOR: &str = "floor";
/// `tidegate_owners.standing`
const GONE: u64 = 0;
const WAITING: u64 = 1;
const ACTIVE: u64 = 2;

/// What the fleet's tables say, as one query reads them.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) now: Nanos,
    fingerprint: u64,
    policy: PublishPolicy,
    version: u64,
    pub(super) revision: u64,
    owners: Vec<Owner>,
}

#[derive(Clone, Debug)]
struct Owner {
    id: OwnerId,
    region: String,
    origin: u64,
    state: u64,
    applied: u64,
    seen: Nanos,
    confirmed: Nanos,
}

impl Session<'_> {
    /// One round trip for a member that stays one. Everything else is a transaction, which holds the fleet's row.
    pub(super) async fn join(mut self, joining: &JoinRequest) -> Result<JoinReply, Failure> {
        let beat = self.fill(include_str!("common/beat.sql"), joining, &[]);
        let mine = self.fill("owners.origin = {origin}", joining, &[]);
        let known = self.fleet(beat, &mine).await?;
        if let Some(fleet) = known {
            fleet.check(joining)?;
            let known = fleet.owner_of(joining).filter(|owner| owner.region == joining.region);
            let is_member = known.is_some_and(|owner| owner.state != GONE);
            if is_member != joining.leaves
                && joining.known <= fleet.version
                && let Some(me) = known.map(|owner| owner.id)
            {
                return Ok(fleet.joined(me, joining));
            }
        }
        self.change(joining).await
    }

    async fn change(&mut self, joining: &JoinRequest) -> Result<JoinReply, Failure> {
        let lock = self.fill(include_str!("common/lock_fleet.sql"), joining, &[]);
        let lock = format!("{}{lock}", self.dialect.begin);
        // With all that ever joined: their ids are taken.
        let Some(fleet) = self.fleet(lock, "1 = 1").await? else {
            return Err(Failure::Refused("the row of tidegate_fleet is missing".to_owned()));
        };
        fleet.check(joining)?;
        let mut text = String::new();
        let known = fleet.owner_of(joining);
        let is_taken = |id| fleet.owners.iter().any(|owner| owner.id == id);
        let me = known.map_or_else(|| OwnerId::of_origin(joining.origin, is_taken), |owner| owner.id);
        let id = me.0;
        match known {
            None => text += &self.fill(include_str!("common/add_owner.sql"), joining, &[("id", &id)]),
            Some(owner) if owner.region != joining.region => {
                text += &self.fill(include_str!("common/rename_owner.sql"), joining, &[("id", &id)]);
            }
            Some(_) => {}
        }
        let mut others = fleet.owners.iter().filter(|owner| owner.id != me).map(|owner| owner.state);
        let is_alone = others.clone().all(|standing| standing == GONE);
        let nobody_holds_anything = others.all(|standing| standing != ACTIVE);
        let before = known.map_or(GONE, |owner| owner.state);
        let standing = match before {
            _ if joining.leaves && is_alone => GONE,
            GONE if joining.leaves => GONE,
            // The others divide by one less when the reconciler has seen that it fits.
            _ if joining.leaves => WAITING,
            GONE if nobody_holds_anything => ACTIVE,
            GONE => WAITING,
            same => same,
        };
        let went_back = joining.known > fleet.version;
        let version = if went_back { joining.known + 1 } else { fleet.version };
        let version = version + u64::from(standing != before);
        let values: [(&str, &(dyn Display + Sync)); 3] =
            [("id", &id), ("standing", &standing), ("version", &version)];
        text += &self.fill(include_str!("common/set_standing.sql"), joining, &values);
        if joining.leaves && before != GONE {
            text += &self.fill(include_str!("common/forget_owner.sql"), joining, &[("id", &id)]);
            text += &self.fill(include_str!("common/unsee_owner.sql"), joining, &[("id", &id)]);
        }
        let changed = self.fleet(text, "1 = 0").await?;
        self.link.run("COMMIT".to_owned()).await?;
        let changed =
            changed.ok_or_else(|| Failure::Refused("the row of tidegate_fleet is missing".to_owned()))?;
        Ok(changed.joined(me, joining))
    }

    /// Runs statements, and then reads the fleet: its members, and the owners that meet a condition. `None` when
    /// nobody ever came.
    async fn fleet(&mut self, before: String, also: &str) -> Result<Option<Fleet>, Failure> {
        let text = before + &self.dialect.fill(include_str!("common/fleet.sql"), &[("mine", &also)]);
        Ok(Fleet::of(self.link.rows(text, read).await?))
    }

    /// Reads the fleet without changing it.
    pub(super) async fn read_fleet(&mut self, before: &str) -> Result<Fleet, Failure> {
        let text = self.dialect.fill(before, &[])
            + &self.dialect.fill(include_str!("common/fleet.sql"), &[("mine", &"1 = 0")]);
        let fleet = Fleet::of(self.link.rows(text, read).await?);
        fleet.ok_or_else(|| Failure::Refused("no region has joined yet".to_owned()))
    }

    fn fill(&self, text: &str, joining: &JoinRequest, values: &[(&str, &(dyn Display + Sync))]) -> String {
        let (policy, floor_millionths) = match joining.policy.publish {
            PublishThreshold::Headroom => (HEADROOM, 0),
            PublishThreshold::Floor(floor) => (FLOOR, millionths(floor)),
        };
        let own: [(&str, &(dyn Display + Sync)); 7] = [
            ("region", &self.dialect.text(&joining.region)),
            ("origin", &joining.origin.cast_signed()),
            ("fingerprint", &joining.fingerprint.cast_signed()),
            ("applied", &joining.applied.cast_signed()),
            ("policy", &self.dialect.text(policy)),
            ("floor_millionths", &floor_millionths),
            ("interval_us", &micros(joining.policy.interval)),
        ];
        let all: Vec<(&str, &(dyn Display + Sync))> = values.iter().chain(&own).copied().collect();
        self.dialect.fill(text, &all)
    }

    pub(super) async fn lead(self, job: &str, holder: u64, lease: Nanos) -> Result<Option<Term>, Failure> {
        let values: [(&str, &(dyn Display + Sync)); 3] = [
            ("job", &self.dialect.text(job)),
            ("holder", &holder.cast_signed()),
            ("lease_us", &(lease.get() / 1000)),
        ];
        let text = self.dialect.fill(include_str!("common/lead.sql"), &values);
        let terms = self.link.rows(text, |row| row.number(0)).await?;
        Ok(terms.first().copied().map(Term))
    }
}

impl Fleet {
    fn of(rows: Vec<(Fleet, Option<Owner>)>) -> Option<Fleet> {
        let mut rows = rows.into_iter();
        let (mut fleet, first) = rows.next()?;
        fleet.owners.extend(first.into_iter().chain(rows.filter_map(|(_, owner)| owner)));
        Some(fleet)
    }

    fn check(&self, joining: &JoinRequest) -> Result<(), WorldError> {
        let (theirs, ours) = (self.fingerprint, joining.fingerprint);
        if theirs == ours { Ok(()) } else { Err(WorldError::OtherSecret { theirs, ours }) }
    }

    /// The owner of an origin. Earlier releases made another one whenever its region was renamed: then it is the one
    /// with this name, or else the one that was heard of last.
    fn owner_of(&self, joining: &JoinRequest) -> Option<&Owner> {
        let of_origin = self.owners.iter().filter(|owner| owner.origin == joining.origin);
        of_origin.max_by_key(|owner| (owner.region == joining.region, owner.state != GONE, owner.seen))
    }

    pub(super) fn membership(&self) -> Membership {
        let members = self.owners.iter().filter(|owner| owner.state != GONE).map(|owner| Member {
            owner: owner.id,
            region: owner.region.clone(),
            is_active: owner.state == ACTIVE,
            applied: owner.applied,
            seen: owner.seen,
            confirmed: owner.confirmed,
        });
        Membership { version: self.version, members: members.collect() }
    }

    fn joined(&self, me: OwnerId, joining: &JoinRequest) -> JoinReply {
        let is_namesake = |owner: &&Owner| {
            owner.region == joining.region
                && owner.origin != joining.origin
                && owner.state != GONE
                && owner.seen.plus(NAMESAKE_TTL) > self.now
        };
        let namesakes = self.owners.iter().filter(is_namesake).count();
        JoinReply {
            me,
            policy: self.policy,
            membership: self.membership(),
            namesakes: u32::try_from(namesakes).unwrap_or(u32::MAX),
            now: self.now,
        }
    }
}

/// The fleet's columns, the same in every row, and an owner's.
fn read(row: &dyn Columns) -> Result<(Fleet, Option<Owner>), sqlx::Error> {
    let publish = match row.text(2)?.as_deref() {
        Some(HEADROOM) => PublishThreshold::Headroom,
        Some(FLOOR) => PublishThreshold::Floor(from_millionths(row.number(3)?)),
        _ => return Err(nonsense(2)),
    };
    let fleet = Fleet {
        now: row.instant(0)?,
        fingerprint: row.pattern(1)?,
        policy: PublishPolicy { publish, interval: from_micros(row.number(4)?) },
        version: row.number(5)?,
        revision: row.number(6)?,
        owners: Vec::new(),
    };
    let Some(id) = row.number_if_any(8)? else { return Ok((fleet, None)) };
    let owner = Owner {
        id: OwnerId(u32::try_from(id).map_err(|_| nonsense(8))?),
        region: row.text(9)?.ok_or_else(|| nonsense(9))?,
        origin: row.pattern(10)?,
        state: row.number(11)?,
        applied: row.pattern(12)?,
        seen: row.instant(13)?,
        confirmed: row.instant(14)?,
    };
    Ok((fleet, Some(owner)))
}

/// A part of a limit is from 0 to 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0 to a million")]
fn millionths(part: f64) -> u64 {
    (part.clamp(0.0, 1.0) * MILLION).round() as u64
}

#[expect(clippy::cast_precision_loss, reason = "a million at most in what we write")]
fn from_millionths(number: u64) -> f64 {
    number as f64 / MILLION
}
