//! The course of a run: every request goes to the real engines, to a perfect limiter and to the scheme beside.
//!
//! Where the regions of a fleet may go ahead by themselves, they do so in threads, a stretch at a time, and the other
//! limiters see the stretch's requests meanwhile. What comes of it is the same.

use super::perfect::Perfect;
use super::run::{Progress, Scheme};
use super::tally::Tally;
use super::traffic::Traffic;
use crate::scenario::{Arrival, Template};
use crate::trace::AnswerPath;
use crate::{START, WorldSimulation};
use tidegate_core::Nanos;

/// The limiters that ours is compared with.
pub(crate) struct Others<'p> {
    pub(crate) templates: &'p [Template],
    pub(crate) perfect: Perfect<'p>,
    pub(crate) perfect_tally: Tally,
    pub(crate) beside: Box<dyn Scheme + 'p>,
    pub(crate) beside_tally: Tally,
    pub(crate) requests: u64,
    /// Second by second.
    pub(crate) offered: Vec<u64>,
}

impl Others<'_> {
    fn see(&mut self, region: usize, arrival: &Arrival) {
        let limits = &self.templates[arrival.template].limits;
        let admitted = self.perfect.admits(arrival);
        self.perfect_tally.record(arrival.at, limits, admitted, AnswerPath::Local);
        let (admitted, waited) = self.beside.admits(region, arrival);
        let path = if waited { AnswerPath::Asked } else { AnswerPath::Local };
        self.beside_tally.record(arrival.at, limits, admitted, path);
        self.requests += 1;
        let second = usize::try_from(second_of(arrival.at)).unwrap_or(0);
        crate::load::add(&mut self.offered, second, 1);
    }
}

/// Tells how far a run is, once in a simulated second.
pub(crate) struct Clock<'t> {
    pub(crate) told: &'t mut dyn FnMut(Progress),
    pub(crate) seconds: u64,
    pub(crate) second: u64,
}

impl Clock<'_> {
    fn shows(&mut self, now: Nanos, requests: u64) {
        let second = second_of(now).min(self.seconds);
        if second > self.second {
            self.second = second;
            (self.told)(Progress { second, seconds: self.seconds, requests });
        }
    }
}

pub(crate) struct Course<'c, 'p> {
    pub(crate) world: &'c mut WorldSimulation,
    pub(crate) ours: &'c mut Tally,
    pub(crate) others: &'c mut Others<'p>,
    pub(crate) clock: Clock<'c>,
    pub(crate) ends_at: Nanos,
}

impl Course<'_, '_> {
    pub(crate) fn run(mut self, traffic: Traffic) {
        match self.world.may_go_ahead() {
            Some(ahead) => self.by_stretches(traffic, ahead),
            None => self.step_by_step(traffic),
        }
        self.clock.shows(self.ends_at, self.others.requests);
    }

    fn step_by_step(&mut self, traffic: Traffic) {
        for (region, arrival) in traffic {
            self.world.arrive(region, arrival);
            self.take_answers(region);
            self.others.see(region, &arrival);
            self.clock.shows(arrival.at, self.others.requests);
        }
        self.world.run_until(self.ends_at);
        (0..self.world.region_count()).for_each(|region| self.take_answers(region));
    }

    fn by_stretches(&mut self, traffic: Traffic, ahead: Nanos) {
        let mut traffic = traffic.peekable();
        let mut until = self.world.begins_at();
        while until <= self.ends_at {
            until = until.plus(ahead).min(self.ends_at.plus(Nanos::new(1)));
            let coming = std::iter::from_fn(|| traffic.next_if(|(_, arrival)| arrival.at < until));
            let coming: Vec<(usize, Arrival)> = coming.collect();
            let mut arrivals = vec![Vec::new(); self.world.region_count()];
            coming.iter().for_each(|(region, arrival)| arrivals[*region].push(*arrival));
            let others = &mut *self.others;
            let beside = || coming.iter().for_each(|(region, arrival)| others.see(*region, arrival));
            self.world.go_ahead(&arrivals, until, beside);
            (0..arrivals.len()).for_each(|region| self.take_answers(region));
            self.clock.shows(until, self.others.requests);
        }
    }

    fn take_answers(&mut self, region: usize) {
        for answer in self.world.take_answers(region) {
            let limits = &self.others.templates[answer.template].limits;
            self.ours.record(answer.at, limits, answer.allowed, answer.path);
        }
    }
}

fn second_of(at: Nanos) -> u64 {
    at.minus(START).get() / Nanos::PER_SECOND
}
