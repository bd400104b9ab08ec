//! What each kind of limit costs the counter store, as a picture: without and with Tidegate.

use super::inputs::Inputs;
use super::needs::{CELL_MICROS, Needs};
use super::show::short;
use crate::bench::escaped;
use std::fmt::Write as _;

const WIDTH: f64 = 880.0;
const LEFT: f64 = 168.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 112.0;
const ROW: f64 = 58.0;
const BAR: f64 = 18.0;
const NAIVE: &str = "#94a3b8";
const OURS: &str = "#0e7490";

pub(super) fn svg(inputs: &Inputs, needs: &Needs) -> String {
    let mut rows: Vec<(&str, f64, f64)> =
        needs.kinds.iter().map(|kind| (kind.name.as_str(), kind.naive, kind.operations)).collect();
    rows.push(("all", needs.naive, needs.operations));
    let most = rows.iter().map(|(_, naive, _)| *naive).fold(1.0, f64::max);
    let mut body = String::new();
    let mut y = TOP;
    for (name, naive, ours) in &rows {
        let middle = y + BAR + 5.0;
        let name = escaped(name);
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\" fill=\"#0f172a\">{name}</text>",
            LEFT - 14.0
        );
        for (offset, value, colour) in [(0.0, *naive, NAIVE), (BAR + 2.0, *ours, OURS)] {
            let width = ((WIDTH - LEFT - RIGHT) * value / most).max(1.0);
            let _ = writeln!(
                body,
                "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"3\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#475569\">{}/s</text>",
                y + offset,
                LEFT + width + 8.0,
                y + offset + 13.5,
                short(value)
            );
        }
        y += ROW;
    }
    let title = format!("Counter store of a region at {} requests/s", short(needs.peak));
    let subtitle = format!(
        "{} nodes; {} shards, or {} with Tidegate, at {CELL_MICROS} µs of a core for an operation",
        short(inputs.nodes),
        short(needs.naive_shards_measured),
        short(needs.shards)
    );
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" height=\"{y}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{y}\" rx=\"10\" fill=\"#ffffff\"/>\n\
         <text x=\"32\" y=\"36\" font-size=\"18\" font-weight=\"600\" fill=\"#0f172a\">{title}</text>\n\
         <text x=\"32\" y=\"58\" fill=\"#64748b\">{subtitle}</text>\n\
         <rect x=\"32\" y=\"76\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{NAIVE}\"/>\
         <text x=\"50\" y=\"87\" fill=\"#475569\">an operation for each check</text>\
         <rect x=\"242\" y=\"76\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{OURS}\"/>\
         <text x=\"260\" y=\"87\" fill=\"#475569\">Tidegate</text>\n{body}</svg>\n"
    )
}
