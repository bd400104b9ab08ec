//! The keys of a domain's limits, for the one thing that rules can't say: that a descriptor ends.
//!
//! A rule applies to every request that has its attributes. So one whose keys are among those of another limit
//! also counts what there meets only the other.

use crate::envoy::descriptor::Level;
use std::collections::{HashMap, HashSet};

/// More different lists of keys than this aren't compared with each other: all are said to differ.
const COMPARED_MAX: usize = 1000;

#[derive(Default)]
pub(crate) struct Shapes<'d> {
    lists: HashSet<Vec<&'d str>>,
    known: HashMap<Vec<&'d str>, Option<String>>,
}

impl<'d> Shapes<'d> {
    pub(crate) fn of(top: &'d Level) -> Self {
        let mut shapes = Shapes::default();
        shapes.gather(top, &mut Vec::new());
        shapes
    }

    fn gather(&mut self, level: &'d Level, keys: &mut Vec<&'d str>) {
        for descriptor in level.in_file_order() {
            keys.push(&descriptor.key);
            if !self.lists.contains(keys) {
                self.lists.insert(keys.clone());
            }
            self.gather(&descriptor.below, keys);
            keys.pop();
        }
    }

    /// The first other list of keys that has all of these, as text.
    pub(crate) fn wider_than(&mut self, keys: &[&'d str]) -> Option<String> {
        if self.lists.len() > COMPARED_MAX {
            return Some("others".to_owned());
        }
        if let Some(known) = self.known.get(keys) {
            return known.clone();
        }
        let own: HashSet<&str> = keys.iter().copied().collect();
        let wider = |list: &&Vec<&str>| list.as_slice() != keys && own.iter().all(|key| list.contains(key));
        let found = self.lists.iter().filter(wider).min().map(|list| list.join("/"));
        self.known.insert(keys.to_vec(), found.clone());
        found
    }
}
