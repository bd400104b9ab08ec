//! The search: breadth first, so that what it finds is as short as can be, and without a state twice.

use std::collections::HashSet;
use std::fmt::{self, Debug, Write as _};
use std::hash::{DefaultHasher, Hasher};

/// Beyond this a scope is too large for a test.
const STATES_MAX: usize = 500_000;

/// A protocol in one state. What it prints as must say everything that it is: two that print alike are one.
pub(crate) trait Protocol: Clone + Debug {
    type Step: Clone + Debug;

    /// All that can happen next.
    fn steps(&self) -> Vec<Self::Step>;

    fn take(&mut self, step: &Self::Step);

    /// What is wrong here, if anything is.
    fn check(&self) -> Result<(), String>;
}

#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) depth: usize,
}

#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) why: String,
    pub(crate) way: Vec<String>,
}

/// Which state each was reached from, and by which step.
type Came<S> = Vec<(usize, Option<S>)>;

pub(crate) fn every_order<P: Protocol>(start: P) -> Result<Explored, Broken> {
    let mut seen = HashSet::from([fingerprint(&start)]);
    let mut came: Came<P::Step> = vec![(0, None)];
    let mut explored = Explored { states: 1, steps: 0, depth: 0 };
    let mut level = vec![(start, 0)];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (state, place) in level {
            for step in state.steps() {
                let mut after = state.clone();
                after.take(&step);
                explored.steps += 1;
                if !seen.insert(fingerprint(&after)) {
                    continue;
                }
                came.push((place, Some(step)));
                if let Err(why) = after.check() {
                    return Err(Broken { why, way: way(&came) });
                }
                assert!(seen.len() < STATES_MAX, "the scope is too large: nothing is proved");
                next.push((after, came.len() - 1));
            }
        }
        explored.depth += usize::from(!next.is_empty());
        level = next;
    }
    explored.states = seen.len();
    Ok(explored)
}

/// The steps to the last state.
fn way<S: Debug>(came: &Came<S>) -> Vec<String> {
    let mut way = Vec::new();
    let mut place = came.len() - 1;
    while let (before, Some(step)) = &came[place] {
        way.push(format!("    {step:?}"));
        place = *before;
    }
    way.reverse();
    way
}

/// 128 bits of what a state prints as: among millions, two that differ share one with a probability of 10^-25.
fn fingerprint(state: &impl Debug) -> u128 {
    struct Hashed([DefaultHasher; 2]);
    impl fmt::Write for Hashed {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.iter_mut().for_each(|hasher| hasher.write(text.as_bytes()));
            Ok(())
        }
    }
    let mut hashed = Hashed([DefaultHasher::new(), DefaultHasher::new()]);
    hashed.0[1].write_u8(1);
    write!(hashed, "{state:?}").expect("a hash takes everything");
    hashed.0.iter().fold(0, |bits, hasher| bits << 64 | u128::from(hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up to three in ones and twos.
    #[derive(Clone, Debug)]
    struct Stairs(u32);

    impl Protocol for Stairs {
        type Step = u32;

        fn steps(&self) -> Vec<u32> {
            [1, 2].into_iter().filter(|step| self.0 + step <= 4).collect()
        }

        fn take(&mut self, step: &u32) {
            self.0 += step;
        }

        fn check(&self) -> Result<(), String> {
            if self.0 == 3 { Err("three".to_owned()) } else { Ok(()) }
        }
    }

    #[test]
    fn the_shortest_way_is_found() {
        let Err(Broken { why, way }) = every_order(Stairs(0)) else { panic!("three can be reached") };
        assert_eq!((why.as_str(), way.len()), ("three", 2));
    }

    #[test]
    fn every_state_is_seen_once() {
        let Ok(Explored { states, steps, depth }) = every_order(Stairs(4)) else { panic!("it ends") };
        assert_eq!((states, steps, depth), (1, 0, 0));
    }
}
