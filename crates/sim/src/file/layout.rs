//! The text of a scenario file: a section for each part, a line for each value or member of a list, and nothing that
//! is as it is by default.

use super::{Kind, ScenarioFile, is_default};
use crate::scenario::Scenario;
use crate::streams::StreamScenario;
use crate::swarm::Episode;
use crate::world::scenario::WorldScenario;
use serde::Serialize;
use std::fmt::Write as _;
use toml::{Table, Value};

/// Members of long lists share lines of about this length.
const LINE_MAX: usize = 110;
/// Lists of more members are long.
const MEMBERS_MAX: usize = 40;

pub(super) fn text_of(file: &ScenarioFile) -> String {
    let kind = match &file.episode {
        Episode::Region(..) => Kind::Region,
        Episode::Counts(_) => Kind::Counts,
        Episode::Quotas(_) => Kind::Quotas,
    };
    let mut head = Table::new();
    head.insert("name".to_owned(), value_of(&file.name));
    head.insert("about".to_owned(), value_of(&file.about));
    head.insert("expect".to_owned(), value_of(&file.expect));
    head.insert("kind".to_owned(), value_of(&kind));
    let mut text = String::new();
    add_values(&mut text, &head);
    match &file.episode {
        Episode::Region(region, streams) => {
            add_section(&mut text, "[region]", &changed(region.as_ref(), &Scenario::default()));
            if let Some(streams) = streams {
                add_section(&mut text, "[streams]", &changed(streams.as_ref(), &StreamScenario::default()));
            }
        }
        Episode::Counts(world) | Episode::Quotas(world) => add_world(&mut text, world),
    }
    text
}

fn add_world(text: &mut String, world: &WorldScenario) {
    let mut table = changed(world, &WorldScenario::default());
    table.remove("regions");
    if world.networks.iter().all(is_default) {
        table.remove("networks");
    }
    add_section(text, "[world]", &table);
    let mut regions: Vec<Table> =
        world.regions.iter().map(|region| changed(region, &Scenario::default())).collect();
    let shared = take_shared(&mut regions);
    if !shared.is_empty() {
        add_section(text, "[every_region]", &shared);
    }
    for region in &regions {
        add_section(text, "[[regions]]", region);
    }
}

/// Removes what is the same in all tables from them, and returns it.
fn take_shared(tables: &mut [Table]) -> Table {
    let mut shared = tables.first().cloned().unwrap_or_default();
    shared.retain(|name, value| tables.iter().all(|table| table.get(name) == Some(value)));
    for table in tables {
        table.retain(|name, _| !shared.contains_key(name));
    }
    shared
}

/// The fields that aren't as they are by default.
fn changed<T: Serialize>(value: &T, default: &T) -> Table {
    let defaults = table_of(default);
    let mut table = table_of(value);
    table.retain(|name, value| defaults.get(name) != Some(value));
    table
}

fn table_of<T: Serialize>(value: &T) -> Table {
    Table::try_from(value).expect("a scenario is a table of values that TOML has")
}

fn value_of<T: Serialize>(value: &T) -> Value {
    Value::try_from(value).expect("a scenario is a table of values that TOML has")
}

fn add_section(text: &mut String, head: &str, table: &Table) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "\n{head}");
    add_values(text, table);
}

/// What fits a line comes first.
fn add_values(text: &mut String, table: &Table) {
    let (lists, values): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| is_list_of_lines(value));
    for (name, value) in values {
        let _ = writeln!(text, "{name} = {value}");
    }
    for (name, value) in lists {
        let members: Vec<String> = value.as_array().into_iter().flatten().map(Value::to_string).collect();
        let _ = writeln!(text, "{name} = [");
        add_members(text, &members);
        text.push_str("]\n");
    }
}

fn is_list_of_lines(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|members| members.iter().any(|member| member.is_array() || member.is_table()))
}

fn add_members(text: &mut String, members: &[String]) {
    let mut line = String::new();
    for member in members {
        let is_full = members.len() <= MEMBERS_MAX || line.len() + member.len() > LINE_MAX;
        if !line.is_empty() && is_full {
            let _ = writeln!(text, "  {}", line.trim_end());
            line.clear();
        }
        let _ = write!(line, "{member}, ");
    }
    if !line.is_empty() {
        let _ = writeln!(text, "  {}", line.trim_end());
    }
}
