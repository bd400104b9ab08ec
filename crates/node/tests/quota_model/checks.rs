//! What must hold at every step, and at the end.

use crate::network::SECOND;
use crate::world::{KEY_COUNT, Model, key};
use tidegate_core::slice::{PARTS, fill, floor_parts};
use tidegate_core::{Class, Rate, SliceSize, Spec};
use tidegate_world::SLICE_LEASE;

impl Model {
    /// The most that a region's nodes let through of a key: the largest part that any of them goes by. A node that
    /// knows nothing yet isn't asked anything, and one that its origin hasn't heard of for a lease is given up by
    /// its region: until it hears something again it decides unverified, by its class.
    fn in_force(&self, region: usize, index: usize) -> SliceSize {
        let now = self.agenda.now;
        let counts = |reported_at: u64| now - reported_at < SLICE_LEASE.get();
        let nodes = self.regions[region].nodes.iter();
        let nodes =
            nodes.filter(|node| node.quotas.version() > 0 && counts(node.reported_at) && !node.was_given_up);
        let sizes = nodes.map(|node| {
            let whole = self.specs[index];
            match node.quotas.apply_slice(key(index), &whole, Class::Paid, node.clock.at(now)) {
                // Nothing passes, at any rate.
                Spec::Gcra { burst, .. } if burst.get() == 0 => SliceSize::NOTHING,
                Spec::Gcra { burst, rate } => {
                    SliceSize { amount: burst.get(), rate_parts: parts(rate, &whole) }
                }
                _ => SliceSize::NOTHING,
            }
        });
        sizes.fold(SliceSize::NOTHING, SliceSize::at_least)
    }

    pub(crate) fn check_sum(&mut self) {
        for index in 0..KEY_COUNT {
            let there = (0..self.regions.len()).filter(|region| self.is_there(*region));
            let parts: Vec<SliceSize> = there.map(|region| self.in_force(region, index)).collect();
            let sum = parts.iter().fold(SliceSize::NOTHING, |sum, part| sum.plus(*part));
            let whole = self.specs[index].shown_limit();
            // A rate is rounded when it is cut: billionths.
            if sum.amount > whole || sum.rate_parts > PARTS + 10 {
                self.problem = Some(format!("INV-6: key {index}: {parts:?} sum to {sum:?} of {whole}"));
            }
        }
    }

    /// Long after the last fault: everybody takes part, and holds what is fair.
    pub(crate) fn check_converged(&mut self) -> Result<(), String> {
        let there: Vec<usize> = (0..self.regions.len()).filter(|region| self.is_there(*region)).collect();
        let membership = self.world.membership();
        if membership.members.len() != there.len()
            || membership.members.iter().any(|member| !member.is_active)
        {
            return Err(format!(
                "not everybody takes part, or too many: {membership:?}, there are {there:?}"
            ));
        }
        let rate = 100;
        let floor = u64::from(floor_parts(there.len()));
        let demands = there.iter().map(|region| self.regions[*region].demand[0] / 5 * 5);
        let parts: Vec<u64> = demands.map(|demand| demand * u64::from(PARTS) / rate).collect();
        let is_wanted = parts.iter().any(|part| *part * 2 > u64::from(PARTS) / there.len() as u64);
        if !is_wanted {
            return Ok(());
        }
        let wants: Vec<u64> = parts.iter().map(|part| (*part).clamp(floor, u64::from(PARTS))).collect();
        let fair = fill(u64::from(PARTS), &wants);
        for (position, region) in there.iter().enumerate() {
            let has = u64::from(self.in_force(*region, 0).rate_parts);
            let enough = fair[position].min(wants[position]);
            if has + u64::from(PARTS) / 12 < enough {
                let seconds = self.agenda.now / SECOND;
                return Err(format!(
                    "after {seconds} s region {region} holds {has} billionths and should {enough}; all: {fair:?}, wants {wants:?}{}",
                    self.explain()
                ));
            }
        }
        Ok(())
    }
}

/// Which part of the whole rate this is, in billionths.
fn parts(rate: Rate, whole: &Spec) -> u32 {
    let Spec::Gcra { rate: whole, .. } = whole else { return 0 };
    let wide = |number: u64| u128::from(number);
    let part = wide(rate.interval_denominator()) * wide(whole.interval_numerator_ns());
    let unit = wide(rate.interval_numerator_ns()) * wide(whole.interval_denominator());
    // The model's rates have intervals below 2^30 ns: nothing overflows.
    u32::try_from(part * u128::from(PARTS) / unit).unwrap_or(u32::MAX)
}

impl Model {
    /// Everything that may explain a failure.
    pub(crate) fn explain(&self) -> String {
        let now = self.agenda.now;
        let mut text = String::new();
        let survey = self.world.survey(self.world_now());
        for member in &survey.membership.members {
            let ago = |instant: tidegate_core::Nanos| survey.now.minus(instant).get() / 1_000_000;
            text += &format!(
                "\n{:?} {} active {} applied {} of {} seen {} ms, confirmed {} ms ago",
                member.owner,
                member.region,
                member.is_active,
                member.applied,
                survey.membership.version,
                ago(member.seen),
                ago(member.confirmed)
            );
        }
        for held in &survey.slices {
            let left = held.row.expires.get().cast_signed() - survey.now.get().cast_signed();
            text += &format!("\n{held:?} expires in {} ms", left / 1_000_000);
        }
        for (index, region) in self.regions.iter().enumerate() {
            for node in &region.nodes {
                let (share, slices) = node.quotas.shown(9, node.clock.at(now));
                let ago = (now - node.reported_at) / 1_000_000;
                text += &format!(
                    "\nregion {index}: reported {ago} ms ago, paused {}, {share:?} {slices:?}",
                    node.is_paused
                );
            }
        }
        text
    }
}
