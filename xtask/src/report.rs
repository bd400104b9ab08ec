//! `docs/bars.md`: one section per group of bars, replaced when that group is measured again.

use crate::steps::output;

/// A report, which has a section for each group.
pub(crate) struct Document {
    pub(crate) path: &'static str,
    pub(crate) head: &'static str,
    /// What measures a group.
    pub(crate) command: &'static str,
}

const BARS: Document = Document { path: "docs/bars.md", head: HEAD, command: "cargo xtask bars" };
const HEAD: &str = "\
# Targets: what was measured

Written by `cargo xtask bars [GROUP]`; each section says when and with what. Ratios within one table were
measured side by side in one run. The machine is a small, noisy virtual one: the spread says how noisy.
";

/// Puts a group's section into the report of targets.
pub(crate) fn write(group: &str, body: &str) -> Result<(), String> {
    write_to(&BARS, group, body)
}

/// Puts a group's section into a report, in place of an older one.
pub(crate) fn write_to(document: &Document, group: &str, body: &str) -> Result<(), String> {
    let path = crate::root().join(document.path);
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let title = format!("## {group}\n");
    let mut sections: Vec<String> =
        old.split("\n## ").skip(1).map(|section| format!("## {}\n", section.trim_end())).collect();
    sections.retain(|section| !section.starts_with(&title));
    sections.push(format!("{title}\n{}\n\n{}\n", stamp(document.command, group), body.trim_end()));
    sections.sort();
    let text = format!("{}\n{}", document.head, sections.join("\n"));
    std::fs::write(&path, text).map_err(|error| format!("can't write {}: {error}", document.path))?;
    println!("    written to {}", document.path);
    Ok(())
}

/// When, where and how a group was measured.
pub(crate) fn stamp(measured_by: &str, group: &str) -> String {
    let line = |command: &str| output(command).map(|text| text.trim().to_owned()).unwrap_or_default();
    let date = line("date -u +%Y-%m-%d");
    let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu_info.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor");
    let cores = cpu_info.lines().filter(|line| line.starts_with("processor")).count();
    let busy = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let busy = busy.split(' ').next().unwrap_or_default().to_owned();
    let (kernel, rustc) = (line("uname -sr"), line("rustc --version"));
    format!("`{measured_by} {group}`, {date}, {cores} × {model}, {kernel}, load average {busy}, {rustc}.")
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
