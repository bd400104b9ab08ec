//! What the store holds, read past the nodes: the truth that they are compared with.

use crate::fleet::{Limit, wait_for};
use std::collections::BTreeMap;
use tidegate_testkit::{Redis, RespValue};

/// One cell of a window, or the state of a GCRA: its name and its fields.
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, String>,
}

impl Cell {
    fn number(&self, field: &str) -> u64 {
        self.fields.get(field).map_or(0, |text| text.parse().expect("a count"))
    }

    /// What all nodes together have spent, as the store adds it up.
    pub(crate) fn total(&self) -> u64 {
        self.components().values().sum::<u64>().max(self.number("s")).max(self.number("f"))
    }

    /// Of each node, by the field that it has.
    pub(crate) fn components(&self) -> BTreeMap<&str, u64> {
        let owned = self.fields.keys().filter(|field| field.starts_with("c:"));
        owned.map(|field| (field.as_str(), self.number(field))).collect()
    }

    pub(crate) fn has_reservations(&self) -> bool {
        self.fields.contains_key("r")
    }
}

fn texts(reply: &RespValue) -> Vec<String> {
    reply.items().iter().filter_map(RespValue::text).collect()
}

/// The tag that chooses the slot of everything that belongs to a limit.
pub(crate) fn tag(limit: &Limit) -> String {
    format!("{{{:08x}}}", limit.key().place())
}

/// Everything that this server holds of a limit.
pub(crate) fn names_of(redis: &Redis, limit: &Limit) -> Vec<String> {
    let pattern = format!("tidegate:{}:{:032x}:*", tag(limit), limit.key().get());
    texts(&wait_for(redis.demand(&["KEYS", &pattern])))
}

/// The only cell of a limit, if this server has it.
pub(crate) fn cell_of(redis: &Redis, limit: &Limit) -> Option<Cell> {
    // A window's previous cell is named too, and stays empty: of a year, there is one.
    let mut cells: Vec<Cell> = names_of(redis, limit).into_iter().map(|name| read(redis, name)).collect();
    cells.retain(|cell| !cell.components().values().all(|component| *component == 0) || cell.total() > 0);
    assert!(cells.len() <= 1, "several cells of {}", limit.identifier);
    cells.pop()
}

fn read(redis: &Redis, name: String) -> Cell {
    let fields = texts(&wait_for(redis.demand(&["HGETALL", &name])));
    let (pairs, _) = fields.as_chunks();
    let fields = pairs.iter().map(|[field, value]| (field.clone(), value.clone())).collect();
    Cell { name, fields }
}

/// What all nodes together have spent of a limit, by the word of its store.
pub(crate) fn total_of(redis: &Redis, limit: &Limit) -> u64 {
    cell_of(redis, limit).map_or(0, |cell| cell.total())
}

pub(crate) fn command(redis: &Redis, words: &[&str]) -> RespValue {
    wait_for(redis.demand(words))
}
