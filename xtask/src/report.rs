//! `docs/bars.md`: one section per group of bars, replaced when that group is measured again.

use crate::steps::output;

const REPORT: &str = "docs/bars.md";
const HEAD: &str = "\
# Bars: what was measured

Written by `cargo xtask bars [GROUP]`; each section says when and with what. Ratios within one table were
measured side by side in one run. The machine is a small, noisy virtual one: the spread says how noisy.
";

/// Puts a group's section into the report, in place of an older one.
pub(crate) fn write(group: &str, body: &str) -> Result<(), String> {
    let path = crate::root().join(REPORT);
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let title = format!("## {group}\n");
    let mut sections: Vec<String> =
        old.split("\n## ").skip(1).map(|section| format!("## {}\n", section.trim_end())).collect();
    sections.retain(|section| !section.starts_with(&title));
    sections.push(format!("{title}\n{}\n\n{}\n", stamp(group), body.trim_end()));
    sections.sort();
    let text = format!("{HEAD}\n{}", sections.join("\n"));
    std::fs::write(&path, text).map_err(|error| format!("can't write {REPORT}: {error}"))?;
    println!("    written to {REPORT}");
    Ok(())
}

/// When, where and how a group was measured.
fn stamp(group: &str) -> String {
    let line = |command: &str| output(command).map(|text| text.trim().to_owned()).unwrap_or_default();
    let date = line("date -u +%Y-%m-%d");
    let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu_info.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor");
    let cores = cpu_info.lines().filter(|line| line.starts_with("processor")).count();
    format!("`cargo xtask bars {group}`, {date}, {cores} × {model}, {}.", line("rustc --version"))
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median with the range around it.
pub(crate) fn with_spread(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    format!("{:.0} ({low:.0}–{high:.0})", median(values))
}

pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "**misses**" }
}
