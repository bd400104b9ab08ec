//! A map by hash that is cheap to copy and to change: copies share all but what was changed since.
//!
//! Two levels of 64 branches, then sorted leaves. A change copies the two nodes above its leaf, and the leaf. Readers
//! hold a copy of their own and take no lock. Several entries may have one key, in the order in which they came. Most
//! keys that are asked for aren't there: a few bits beside each leaf tell, without a look into it.

use std::sync::Arc;

const BRANCHES: usize = 64;
const BRANCH_BITS: u32 = 6;

#[derive(Clone, Debug)]
struct Leaf<V> {
    /// A bit for each key, by its low bits.
    bits: u128,
    entries: Arc<[(u128, V)]>,
}

impl<V> Leaf<V> {
    fn new(entries: Arc<[(u128, V)]>) -> Self {
        Leaf { bits: entries.iter().fold(0, |bits, (key, _)| bits | bit(*key)), entries }
    }
}

#[inline]
fn bit(key: u128) -> u128 {
    1 << (key & 127)
}

#[derive(Clone, Debug)]
struct Node<C>([Option<C>; BRANCHES]);

impl<C> Node<C> {
    fn empty() -> Self {
        Node(std::array::from_fn(|_| None))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct CowMap<V> {
    root: Arc<Node<Arc<Node<Leaf<V>>>>>,
    length: usize,
}

impl<V: Clone> Default for CowMap<V> {
    fn default() -> Self {
        CowMap { root: Arc::new(Node::empty()), length: 0 }
    }
}

/// Which branch of the first and of the second level. Keys are hashes: any bits will do.
#[inline]
fn branches(key: u128) -> (usize, usize) {
    let branch = |level: u32| usize::try_from(key >> (128 - BRANCH_BITS * level) & 63).unwrap_or(0);
    (branch(1), branch(2))
}

impl<V: Clone> CowMap<V> {
    /// Entries of one key stay in their order.
    pub(crate) fn from_entries(mut entries: Vec<(u128, V)>) -> Self {
        entries.sort_by_key(|(key, _)| *key);
        let length = entries.len();
        let mut root = Node::empty();
        for leaf in entries.chunk_by(|(a, _), (b, _)| branches(*a) == branches(*b)) {
            let Some((key, _)) = leaf.first() else { continue };
            let (first, second) = branches(*key);
            let node: &mut Arc<Node<Leaf<V>>> = root.0[first].get_or_insert_with(|| Arc::new(Node::empty()));
            Arc::make_mut(node).0[second] = Some(Leaf::new(leaf.into()));
        }
        CowMap { root: Arc::new(root), length }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All entries with this key.
    #[inline]
    pub(crate) fn get_all(&self, key: u128) -> &[(u128, V)] {
        let (first, second) = branches(key);
        let Some(leaf) = self.root.0[first].as_ref().and_then(|node| node.0[second].as_ref()) else {
            return &[];
        };
        if leaf.bits & bit(key) == 0 {
            return &[];
        }
        let leaf = &leaf.entries;
        // Leaves of one are most of those by rule.
        let begin = if leaf.len() == 1 { 0 } else { leaf.partition_point(|(other, _)| *other < key) };
        let rest = leaf.get(begin..).unwrap_or(&[]);
        let count = rest.iter().take_while(|(other, _)| *other == key).count();
        &rest[..count]
    }

    #[inline]
    pub(crate) fn get(&self, key: u128) -> Option<&V> {
        self.get_all(key).first().map(|(_, value)| value)
    }

    /// Puts an entry in the place of those with its key.
    pub(crate) fn insert(&mut self, key: u128, value: V) {
        self.replace(key, Some(value));
    }

    pub(crate) fn remove(&mut self, key: u128) {
        if !self.get_all(key).is_empty() {
            self.replace(key, None);
        }
    }

    fn replace(&mut self, key: u128, value: Option<V>) {
        let (first, second) = branches(key);
        let node = Arc::make_mut(&mut self.root).0[first].get_or_insert_with(|| Arc::new(Node::empty()));
        let place = &mut Arc::make_mut(node).0[second];
        let old: &[(u128, V)] = place.as_ref().map_or(&[], |leaf| &leaf.entries);
        let begin = old.partition_point(|(other, _)| *other < key);
        let end = old.partition_point(|(other, _)| *other <= key);
        let mut new = Vec::with_capacity(old.len() + 1);
        new.extend_from_slice(&old[..begin]);
        new.extend(value.map(|value| (key, value)));
        new.extend_from_slice(&old[end..]);
        self.length = self.length + new.len() - old.len();
        *place = (!new.is_empty()).then(|| Leaf::new(new.into()));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(u128, V)> {
        let nodes = self.root.0.iter().flatten();
        nodes.flat_map(|node| node.0.iter().flatten()).flat_map(|leaf| leaf.entries.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn says_what_a_map_says_and_copies_stay_as_they_were(
            changes in prop::collection::vec((0..40_u128, any::<bool>(), any::<u8>()), 0..200)
        ) {
            let spread = |key: u128| key.wrapping_mul(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128);
            let (mut map, mut oracle) = (CowMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (key, is_kept, value) in changes {
                if is_kept {
                    map.insert(spread(key), value);
                    oracle.insert(spread(key), value);
                } else {
                    map.remove(spread(key));
                    oracle.remove(&spread(key));
                }
                copies.push((map.clone(), oracle.clone()));
            }
            for (map, oracle) in copies {
                prop_assert_eq!(map.len(), oracle.len());
                prop_assert!(map.iter().map(|(key, value)| (key, value)).eq(oracle.iter()));
                for key in 0..40 {
                    prop_assert_eq!(map.get(spread(key)), oracle.get(&spread(key)));
                }
            }
        }
    }

    #[test]
    fn entries_of_one_key_stay_in_their_order() {
        let map = CowMap::from_entries(vec![(7, 'b'), (1 << 127, 'x'), (7, 'a'), (8, 'c')]);
        assert_eq!(map.get_all(7), [(7, 'b'), (7, 'a')]);
        assert_eq!((map.get(1 << 127), map.get(9), map.len()), (Some(&'x'), None, 4));
    }
}
