//! One key: what its regions ask for, what each of them should hold, and the next step from here to there.
//!
//! Lowered first, raised into what is free then: a step never takes for gone what may still be in force.

use super::Figures;
use super::holding::{Holding, peak};
use super::membership::{Room, is_gone};
use tidegate_core::slice::{PARTS, apportion, fill, floor_parts};
use tidegate_core::{KeyId, Nanos, SliceSize};
use tidegate_world::{Demand, OwnerId, SLICE_LEASE, SliceGrants, SliceHolding, SliceRow, Survey};

/// A slice is made when a region's demand passes this part of its even part, and given up below the other: one
/// whose demand is at the border isn't made and given up all the time.
const MADE_ABOVE: u64 = 2;
const GIVEN_UP_BELOW: u64 = 4;
/// A slice is lowered when it is so much of the limit above what it should be, and raised by so much at least:
/// averages tremble. Where another region lacks something, less is worth taking.
const LOWERED_BY: u32 = PARTS / 32;
const LOWERED_IN_NEED_BY: u32 = PARTS / 256;
const RAISED_BY: u32 = PARTS / 64;

/// What a survey has of one key.
#[derive(Debug, Default)]
pub(super) struct Key<'s> {
    pub(super) demands: Vec<(OwnerId, &'s Demand)>,
    pub(super) slices: Vec<&'s SliceHolding>,
}

/// One region's part of a limit, in one step of the reconciler.
#[derive(Clone, Copy, Debug)]
struct RegionPart {
    owner: OwnerId,
    holding: Holding,
    /// Its even part of the membership as it is.
    even: SliceSize,
    /// Its slice as it was written, of a limit with another number: what its nodes make of it for this one.
    scaled: Option<SliceSize>,
    /// What it asks for, in billionths of the limit.
    demand: u64,
    target: SliceSize,
    /// The most that its even part may be when those that are gone are no members any more.
    larger: SliceSize,
    is_gone: bool,
    /// Whether its slice can be changed: it takes part and says so.
    moves: bool,
    is_changed: bool,
}

impl RegionPart {
    /// What was written last, or stands without. Of a slice of another whole, the least that it may be: to write more
    /// would be to raise it, and that has to wait until the others are lowered.
    fn written(&self) -> SliceSize {
        self.scaled.unwrap_or_else(|| self.holding.held.map_or(self.even, |held| held.row.size))
    }
}

impl Key<'_> {
    /// The most that any region asks for, in billionths of the limit: more than all of it is no more.
    pub(super) fn appetite(&self) -> u64 {
        let most = self.demands.iter().map(|(_, demand)| parts_of(demand)).max();
        most.unwrap_or(0).min(u64::from(PARTS))
    }

    pub(super) fn is_sliced(&self) -> bool {
        !self.slices.is_empty()
    }

    /// Says what there is room for beside the slices. One that is turned away goes by the even split, whatever is
    /// asked for.
    pub(super) fn reconcile(
        &self,
        id: KeyId,
        survey: &Survey,
        is_turned_away: bool,
        granted: &mut SliceGrants,
        figures: &mut Figures,
    ) -> Room {
        let whole = self.whole();
        let mut places = self.places(whole, survey);
        let is_sliced = self.is_sliced();
        let wanted = is_wanted(&places, if is_sliced { GIVEN_UP_BELOW } else { MADE_ABOVE });
        figures.rejected += u64::from(wanted && is_turned_away);
        let wanted = wanted && !is_turned_away;
        let room_for_all = Room { for_waiting: true, for_larger_parts: true };
        if !is_sliced && !wanted {
            return room_for_all;
        }
        if !wanted && places.iter().all(|place| place.holding.at(survey.now).fits(place.even)) {
            granted.dropped.push(id);
            figures.dropped += 1;
            return room_for_all;
        }
        set_targets(&mut places, whole, wanted);
        let mut step = Step { id, whole, places, now: survey.now, generation: survey.revision + 1 };
        step.lower(wanted, figures);
        let room = step.renew(figures);
        step.raise(room, figures);
        let written = step.places.iter().filter(|place| place.is_changed);
        granted.slices.extend(written.filter_map(|place| place.holding.held));
        figures.slices += step.places.iter().filter(|place| place.holding.held.is_some()).count() as u64;
        let unacknowledged = step.places.iter().filter(|place| !place.holding.is_acknowledged());
        figures.unacknowledged += unacknowledged.count() as u64;
        step.room()
    }

    /// The number of the limit: the smallest that any region has, while they get to know another one.
    fn whole(&self) -> u64 {
        let demanded = self.demands.iter().map(|(_, demand)| demand.spec.shown_limit()).min();
        demanded.unwrap_or_else(|| self.slices.iter().map(|held| held.row.whole).max().unwrap_or(0))
    }

    fn places(&self, whole: u64, survey: &Survey) -> Vec<RegionPart> {
        let members = &survey.membership.members;
        let active = members.iter().filter(|member| member.is_active).count().max(1);
        let staying = members.iter().filter(|member| !is_gone(member, members, survey.now)).count().max(1);
        let place = |(index, member): (usize, &tidegate_world::Member)| {
            let even = SliceSize::whole(whole).even(index, members.len());
            // All that take part were known to all before they did: nobody divides by fewer.
            let divides_by_less = member.applied < survey.membership.version;
            let even_at_most =
                if divides_by_less { SliceSize::whole(whole).even_at_most(active) } else { even };
            let held = self.slices.iter().find(|held| held.row.owner == member.owner);
            let other = held.filter(|held| held.row.whole != whole);
            let scaled = other.map(|held| held.row.size.scaled_down(held.row.whole, whole));
            let held = held.map(|held| of_whole(held, whole));
            let holding = Holding::new(member, even_at_most.at_least(even), held);
            let demand = self.demands.iter().find(|(owner, _)| *owner == member.owner);
            RegionPart {
                owner: member.owner,
                holding,
                even,
                scaled,
                demand: demand.map_or(0, |(_, demand)| parts_of(demand)),
                target: even,
                larger: SliceSize::whole(whole).even_at_most(staying).at_least(holding.even),
                is_gone: is_gone(member, members, survey.now),
                moves: member.is_active && !holding.is_silent(survey.now),
                is_changed: false,
            }
        };
        members.iter().enumerate().map(place).collect()
    }
}

/// The same slice of a limit whose number is another by now.
fn of_whole(held: &SliceHolding, whole: u64) -> SliceHolding {
    let size = |size: SliceSize| size.of_other_whole(held.row.whole, whole);
    SliceHolding {
        row: SliceRow { size: size(held.row.size), ..held.row },
        before: held.before.map(|(before, until)| (size(before), until)),
        acknowledged: held.acknowledged,
    }
}

/// What a region asks for, in billionths of what its limit admits.
fn parts_of(demand: &Demand) -> u64 {
    let admits = u128::from(demand.spec.milli_per_second());
    let parts = u128::from(demand.milli_per_second) * u128::from(PARTS) / admits;
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// Whether some region asks for so much that the even split may not do.
fn is_wanted(places: &[RegionPart], divisor: u64) -> bool {
    places.iter().filter(|place| place.moves).any(|place| {
        place.demand > 0 && place.demand.saturating_mul(divisor) > u64::from(place.even.rate_parts)
    })
}

/// Max-min fair among those that can be moved; of the others, each keeps its even part.
fn set_targets(places: &mut [RegionPart], whole: u64, wanted: bool) {
    if !wanted {
        return;
    }
    let kept = |place: &RegionPart| match place {
        RegionPart { moves: true, .. } => SliceSize::NOTHING,
        RegionPart { is_gone: true, holding: Holding { is_active: false, .. }, .. } => SliceSize::NOTHING,
        _ => place.larger,
    };
    let kept = places.iter().map(kept).fold(SliceSize::NOTHING, SliceSize::plus);
    let free = SliceSize::whole(whole).minus(kept);
    let floor = u64::from(floor_parts(places.len()));
    let moving = || places.iter().filter(|place| place.moves);
    let wants: Vec<u64> = moving().map(|place| place.demand.clamp(floor, u64::from(PARTS))).collect();
    let parts = fill(u64::from(free.rate_parts), &wants);
    let amounts = apportion(free.amount, &parts);
    let sizes = parts.iter().zip(amounts);
    let sizes =
        sizes.map(|(parts, amount)| SliceSize { amount, rate_parts: u32::try_from(*parts).unwrap_or(PARTS) });
    let moving = places.iter_mut().filter(|place| place.moves);
    moving.zip(sizes).for_each(|(place, size)| place.target = size);
}

/// A step of one key.
struct Step {
    id: KeyId,
    whole: u64,
    places: Vec<RegionPart>,
    now: Nanos,
    generation: u64,
}

impl Step {
    fn row(&self, place: &RegionPart, size: SliceSize) -> SliceRow {
        let expires = self.now.plus(SLICE_LEASE);
        SliceRow {
            key: self.id,
            owner: place.owner,
            generation: self.generation,
            size,
            whole: self.whole,
            expires,
        }
    }

    /// Lowers what is above its target. A trembling is let be, unless what there is exceeds the limit.
    fn lower(&mut self, wanted: bool, figures: &mut Figures) {
        let in_use = |place: &RegionPart| if place.moves { place.written() } else { place.even };
        let sum = self.places.iter().map(in_use).fold(SliceSize::NOTHING, SliceSize::plus);
        let exact = !wanted || !sum.fits(SliceSize::whole(self.whole));
        let lacks = |place: &RegionPart| place.target.minus(place.written()).rate_parts >= RAISED_BY;
        let is_need = self.places.iter().any(|place| place.moves && lacks(place));
        let lowered_by = if is_need { LOWERED_IN_NEED_BY } else { LOWERED_BY };
        for index in 0..self.places.len() {
            let place = self.places[index];
            if !place.moves || !place.holding.is_acknowledged() {
                continue;
            }
            let written = place.written();
            let above = written.minus(place.target);
            let is_new = place.holding.held.is_none_or(|held| held.row.whole != self.whole);
            let is_above = if exact { above != SliceSize::NOTHING } else { above.rate_parts > lowered_by };
            if is_new || is_above {
                let mut row =
                    self.row(&place, written.at_most(place.target).at_most(SliceSize::whole(self.whole)));
                // A longer lease is for `renew` to give: of one that ran out, the even part is in force.
                row.expires = place.holding.held.map_or(row.expires, |held| held.row.expires);
                let place = &mut self.places[index];
                place.holding = place.holding.rewritten(row);
                (place.is_changed, place.scaled) = (true, None);
                figures.lowered += u64::from(is_above);
            }
        }
    }

    /// Renews what ends soon, as far as it fits beside everything that may be in force. Says what is free.
    fn renew(&mut self, figures: &mut Figures) -> SliceSize {
        let before = self.places.clone();
        self.renew_where(|_| true);
        let mut peak = self.peak();
        if !peak.fits(SliceSize::whole(self.whole)) {
            self.places = before;
            // What is below the even part is in force whether renewed or not.
            self.renew_where(|place| place.written().fits(place.even));
            peak = SliceSize::whole(self.whole);
        }
        figures.renewed += self.places.iter().filter(|place| place.is_changed).count() as u64;
        SliceSize::whole(self.whole).minus(peak)
    }

    fn renew_where(&mut self, may: impl Fn(&RegionPart) -> bool) {
        let soon = self.now.plus(Nanos::new(SLICE_LEASE.get() / 2));
        for place in self.places.iter_mut().filter(|place| place.moves && may(place)) {
            let Some(held) = &mut place.holding.held else { continue };
            if held.row.expires >= soon || held.row.whole != self.whole {
                continue;
            }
            held.row.expires = self.now.plus(SLICE_LEASE);
            place.is_changed = true;
        }
    }

    /// Raises what is below its target, into what is free.
    fn raise(&mut self, mut room: SliceSize, figures: &mut Figures) {
        for index in 0..self.places.len() {
            let place = self.places[index];
            let more = place.target.minus(place.written()).at_most(room);
            if !place.moves || !place.holding.is_acknowledged() || more.rate_parts < RAISED_BY {
                continue;
            }
            let row = self.row(&place, place.written().plus(more));
            let place = &mut self.places[index];
            place.holding = place.holding.rewritten(row);
            place.is_changed = true;
            room = room.minus(more);
            figures.raised += 1;
        }
    }

    fn peak(&self) -> SliceSize {
        let holdings: Vec<Holding> = self.places.iter().map(|place| place.holding).collect();
        peak(&holdings, self.now)
    }

    fn room(&self) -> Room {
        let fits = |holdings: Vec<Holding>| peak(&holdings, self.now).fits(SliceSize::whole(self.whole));
        let with_waiting = self.places.iter().map(|place| Holding { is_active: true, ..place.holding });
        let staying = self.places.iter().filter(|place| !place.is_gone);
        let with_larger = staying.map(|place| Holding { even: place.larger, ..place.holding });
        Room { for_waiting: fits(with_waiting.collect()), for_larger_parts: fits(with_larger.collect()) }
    }
}
