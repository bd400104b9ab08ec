//! A plan for people, with the formula beside each figure; and for programs.

use super::inputs::Inputs;
use super::needs::{
    BUSY, CELL_MICROS, DENIAL_BYTES, KindNeeds, NODE_BYTES, Needs, PUBLISHES_PER_SECOND, RULE_BYTES,
    RULE_FILE_BYTES, STORE_BYTES, SYNCS_PER_SECOND,
};
use crate::output::counted;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Figures with three digits: more would be a promise.
pub(super) fn short(number: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scale, unit) = UNITS.into_iter().find(|(scale, _)| number >= *scale).unwrap_or((1.0, ""));
    let scaled = number / scale;
    let is_whole = (scaled - scaled.round()).abs() < 0.005;
    let digits = match scaled {
        0.0 => 0,
        scaled if scaled >= 100.0 || (scaled >= 1.0 && is_whole) => 0,
        scaled if scaled >= 10.0 => 1,
        scaled if scaled >= 0.01 => 2,
        _ => 6,
    };
    format!("{scaled:.digits$}{unit}")
}

fn bytes(number: f64) -> String {
    let text = short(number);
    if text.contains(' ') { format!("{text}B") } else { format!("{text} B") }
}

/// Lines of `name  figure  formula`.
struct Lines(String);

impl Lines {
    fn heading(&mut self, text: &str) {
        let _ = writeln!(self.0, "\n{text}");
    }

    fn line(&mut self, name: &str, figure: &str, formula: &str) {
        let line = format!("  {name:<34} {figure:>10}  {formula}");
        let _ = writeln!(self.0, "{}", line.trim_end());
    }
}

pub(super) fn text(inputs: &Inputs, needs: &Needs) -> String {
    let mut lines = Lines(format!(
        "{} requests/s over {}, {} in each, each request checked against {}\n",
        short(inputs.requests),
        some(inputs.regions, "region"),
        some(inputs.nodes, "node"),
        counted(inputs.kinds.len(), "limit")
    ));
    lines.heading("Load of a region");
    lines.line("average", &per_second(needs.average), "requests ÷ regions");
    let formula = format!("average × {} (peak) × {} (headroom)", inputs.peak, inputs.headroom);
    lines.line("planned for", &per_second(needs.peak), &formula);
    store(&mut lines, inputs, needs);
    memory(&mut lines, inputs, needs);
    lines.heading("Between regions, and the log");
    let formula = match needs.sql_rows {
        0.0 => "none: one region needs no database".to_owned(),
        _ => format!("regions × {PUBLISHES_PER_SECOND} publishes a second, a row each, at most"),
    };
    lines.line("rows written in SQL", &per_second(needs.sql_rows), &formula);
    lines.line("denials logged, all nodes", &per_second(needs.denials), "requests × share denied");
    let log = format!("{}/s", bytes(needs.log_bytes));
    lines.line("their log", &log, &format!("× {DENIAL_BYTES} bytes"));
    lines.heading("Money");
    let formula = format!("shards × regions × ${} + ${}", inputs.shard_price, short(inputs.fixed_price));
    lines.line("a month", &format!("${}", short(needs.dollars)), &formula);
    let formula = "a month ÷ (requests × 2.63 million seconds a month)";
    lines.line("a million requests", &format!("${:.4}", needs.dollars_per_million), formula);
    lines.0 + &notes(needs)
}

/// `1 region`, `3 regions`.
fn some(number: f64, what: &str) -> String {
    format!("{} {what}{}", short(number), if number == 1.0 { "" } else { "s" })
}

fn per_second(number: f64) -> String {
    format!("{}/s", short(number))
}

fn store(lines: &mut Lines, inputs: &Inputs, needs: &Needs) {
    lines.heading("Operations on the counter store, in a region at that load");
    lines.line("one for each check", &per_second(needs.naive), "load × limits");
    let formula = format!("÷ {} plain operations a second of a shard", short(inputs.shard_operations));
    lines.line("  its shards", &short(needs.naive_shards), &formula);
    let formula =
        format!("by what an operation of ours costs, {CELL_MICROS} µs of a core, {}% busy", BUSY * 100.0);
    lines.line("  its shards, measured", &short(needs.naive_shards_measured), &formula);
    for kind in &needs.kinds {
        let name = format!("Tidegate: {} ({})", kind.name, short(kind.keys));
        lines.line(&name, &per_second(kind.operations), &because(kind, inputs));
    }
    lines.line("Tidegate: all", &per_second(needs.operations), "their sum");
    let formula = format!("at {CELL_MICROS} µs of a core, {}% busy", BUSY * 100.0);
    lines.line("  its shards", &short(needs.shards), &formula);
    let formula = format!(
        "{} hot keys × {} nodes × {SYNCS_PER_SECOND} leases a second, at most; small, and beside the operations",
        short(inputs.hot_keys),
        short(inputs.spread)
    );
    lines.line("leases of hot keys", &per_second(needs.leases), &formula);
}

fn because(kind: &KindNeeds, inputs: &Inputs) -> String {
    let (seen, nodes) = (short(kind.seen), short(inputs.spread));
    if kind.is_bounded() {
        format!("a node sees a key {seen}/s: {SYNCS_PER_SECOND} syncs a second × keys × {nodes} nodes")
    } else {
        format!("a node sees a key {seen}/s: load, as every check asks the store")
    }
}

fn memory(lines: &mut Lines, inputs: &Inputs, needs: &Needs) {
    lines.heading("Memory");
    let formula = format!("{} counters × {STORE_BYTES} bytes", short(inputs.active_keys));
    lines.line("counter store, a region", &bytes(needs.store_bytes), &formula);
    let formula = format!("what a node sees within 10 s × {NODE_BYTES} bytes");
    lines.line("counters, a node", &bytes(needs.table_bytes), &formula);
    let formula = format!("{} rules × {RULE_BYTES} bytes", short(inputs.rules));
    lines.line("rules, a node", &bytes(needs.rules_bytes), &formula);
    let formula = format!("{} rules × {RULE_FILE_BYTES} bytes", short(inputs.rules));
    lines.line("rules file", &bytes(needs.rules_file_bytes), &formula);
}

fn notes(needs: &Needs) -> String {
    if needs.kinds.iter().all(KindNeeds::is_bounded) {
        return String::new();
    }
    "\nWhere every check asks the store, each node receives too few requests for a key to decide without asking. If such\n\
     keys are busy, use fewer and larger nodes, or a load balancer that sends each caller to few nodes (--spread).\n"
        .to_owned()
}

pub(super) fn json(inputs: &Inputs, needs: &Needs) -> Value {
    let kinds: Vec<Value> = needs
        .kinds
        .iter()
        .map(|kind| {
            json!({
                "name": kind.name,
                "keys": kind.keys,
                "seen_by_a_node_per_second": kind.seen,
                "naive_operations_per_second": kind.naive,
                "operations_per_second": kind.operations,
            })
        })
        .collect();
    json!({
        "inputs": {
            "requests_per_second": inputs.requests,
            "regions": inputs.regions,
            "peak": inputs.peak,
            "headroom": inputs.headroom,
            "nodes_per_region": inputs.nodes,
            "spread": inputs.spread,
            "hot_keys": inputs.hot_keys,
            "active_keys": inputs.active_keys,
            "rules": inputs.rules,
            "denied": inputs.denied,
            "shard_operations_per_second": inputs.shard_operations,
            "shard_dollars_per_month": inputs.shard_price,
            "fixed_dollars_per_month": inputs.fixed_price,
        },
        "measured": {
            "core_us_per_operation": CELL_MICROS,
            "core_busy": BUSY,
            "store_bytes_per_counter": STORE_BYTES,
            "node_bytes_per_counter": NODE_BYTES,
            "bytes_per_rule": RULE_BYTES,
        },
        "region": {
            "average_requests_per_second": needs.average,
            "planned_requests_per_second": needs.peak,
            "naive_operations_per_second": needs.naive,
            "naive_shards": needs.naive_shards,
            "naive_shards_measured": needs.naive_shards_measured,
            "operations_per_second": needs.operations,
            "shards": needs.shards,
            "leases_per_second": needs.leases,
            "store_bytes": needs.store_bytes,
            "limits": kinds,
        },
        "node": {
            "counter_bytes": needs.table_bytes,
            "rules_bytes": needs.rules_bytes,
            "rules_file_bytes": needs.rules_file_bytes,
        },
        "sql_rows_per_second": needs.sql_rows,
        "denials_per_second": needs.denials,
        "log_bytes_per_second": needs.log_bytes,
        "dollars_per_month": needs.dollars,
        "dollars_per_million_requests": needs.dollars_per_million,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (number, shown) in [
            (15e6, "15 M"),
            (1_666_667.0, "1.67 M"),
            (150.0, "150"),
            (0.0, "0"),
            (2.47e9, "2.47 G"),
            (12.0, "12"),
            (0.12, "0.12"),
            (0.00012, "0.000120"),
        ] {
            assert_eq!(short(number), shown);
        }
        assert_eq!((bytes(640.0), bytes(427e6)), ("640 B".to_owned(), "427 MB".to_owned()));
    }
}
