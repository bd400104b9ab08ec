//! A run's seconds as pictures: what was admitted, what was admitted too much, and what the stores had to do.

use super::show::subtitle;
use crate::bench::escaped;
use std::fmt::Write as _;
use tidegate_sim::fleet::{FleetReport, Plan};

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 32.0;
const TOP: f64 = 104.0;
const BOTTOM: f64 = 56.0;
const OURS: &str = "#0e7490";
const THEIRS: &str = "#d97706";
const PERFECT: &str = "#64748b";
const OFFERED: &str = "#cbd5e1";

type Line = (&'static str, &'static str, Vec<f64>);

/// Each with its name.
pub(crate) fn all(name: &str, plan: &Plan, outcome: &FleetReport) -> Vec<(&'static str, String)> {
    let series = &outcome.series;
    let seconds = usize::try_from(plan.seconds).unwrap_or(0);
    let whole = |numbers: &[u64]| -> Vec<f64> {
        (0..seconds).map(|second| numbers.get(second).copied().unwrap_or(0) as f64).collect()
    };
    let compared = plan.beside.name();
    let (perfect, ours, theirs) = (whole(&series.perfect), whole(&series.ours), whole(&series.beside));
    let overshoot = |admitted: &[f64]| -> Vec<f64> {
        let sums = |numbers: &[f64]| -> Vec<f64> {
            numbers
                .iter()
                .scan(0.0, |sum, number| {
                    *sum += number;
                    Some(*sum)
                })
                .collect()
        };
        let pairs = sums(admitted).into_iter().zip(sums(&perfect));
        pairs
            .map(|(admitted, perfect)| if perfect > 0.0 { 100.0 * (admitted / perfect - 1.0) } else { 0.0 })
            .collect()
    };
    let pictures: [(&'static str, &str, Vec<Line>); 4] = [
        (
            "admitted",
            "requests a second",
            vec![
                ("offered", OFFERED, whole(&series.offered)),
                (compared, THEIRS, theirs.clone()),
                ("perfect", PERFECT, perfect.clone()),
                ("tidegate", OURS, ours.clone()),
            ],
        ),
        (
            "overshoot",
            "admitted beyond a perfect limiter so far, %",
            vec![(compared, THEIRS, overshoot(&theirs)), ("tidegate", OURS, overshoot(&ours))],
        ),
        (
            "origin",
            "operations a second at the regions' stores",
            vec![
                (compared, THEIRS, whole(&series.operations_beside)),
                ("tidegate", OURS, whole(&series.operations)),
            ],
        ),
        (
            "sql",
            "rows a second read and written at the world store",
            vec![
                (
                    compared,
                    THEIRS,
                    sum(&whole(&series.rows_read_beside), &whole(&series.rows_written_beside)),
                ),
                ("tidegate", OURS, sum(&whole(&series.rows_read), &whole(&series.rows_written))),
            ],
        ),
    ];
    let below = subtitle(plan, plan.seed, outcome);
    let below = below.rsplit_once(", seed").map_or(below.as_str(), |(rest, _)| rest).to_owned();
    pictures
        .into_iter()
        .map(|(kind, unit, lines)| (kind, svg(&format!("{name}: {unit}"), &below, &lines)))
        .collect()
}

fn sum(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one + other).collect()
}

struct Scale {
    seconds: f64,
    low: f64,
    high: f64,
}

impl Scale {
    fn of(lines: &[Line]) -> Self {
        let values = || lines.iter().flat_map(|line| line.2.iter().copied());
        let seconds = lines.iter().map(|line| line.2.len()).max().unwrap_or(1).max(2) as f64;
        let low = values().fold(0.0, f64::min);
        let high = values().fold(0.0, f64::max).max(low + 1.0) * 1.05;
        Scale { seconds, low, high }
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * second / (self.seconds - 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.low) / (self.high - self.low)
    }
}

fn svg(title: &str, below: &str, lines: &[Line]) -> String {
    let scale = Scale::of(lines);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"10\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"34\" font-size=\"18\" font-weight=\"600\" fill=\"#0f172a\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"56\" font-size=\"12\" fill=\"#64748b\">{}</text>\n",
        escaped(title),
        escaped(below)
    );
    draw_grid(&mut text, &scale);
    let mut x = LEFT;
    for (name, colour, values) in lines {
        let points: Vec<String> = (0_u32..)
            .zip(values)
            .map(|(second, value)| format!("{:.1},{:.1}", scale.x(f64::from(second)), scale.y(*value)))
            .collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.2\" stroke-linejoin=\"round\"/>\
             <rect x=\"{x:.0}\" y=\"76\" width=\"18\" height=\"4\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"83\" fill=\"#334155\">{name}</text>",
            points.join(" "),
            x + 24.0
        );
        x += 50.0 + 7.0 * f64::from(u32::try_from(name.len()).unwrap_or(0));
    }
    text.push_str("</svg>\n");
    text
}

fn draw_grid(text: &mut String, scale: &Scale) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let step = round_step((scale.high - scale.low) / 5.0);
    let mut value = (scale.low / step).ceil() * step;
    while value <= scale.high {
        let y = scale.y(value);
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#475569\">{}</text>",
            LEFT - 10.0,
            y + 4.5,
            label(value)
        );
        value += step;
    }
    let step = round_step(scale.seconds / 8.0).max(1.0);
    let mut second = 0.0;
    while second < scale.seconds {
        let x = scale.x(second);
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#475569\">{second} s</text>",
            bottom + 24.0
        );
        second += step;
    }
}

/// 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors.into_iter().map(|factor| factor * power).find(|step| *step >= least).unwrap_or(power * 10.0)
}

fn label(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.1} M", value / 1e6),
        size if size >= 1e4 => format!("{:.0} k", value / 1e3),
        size if size > 0.0 && size < 1.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_lines_and_no_nonsense() {
        let lines: Vec<Line> = vec![("a", OURS, vec![0.0, 5.0, 2.5]), ("b", THEIRS, vec![0.0; 3])];
        let text = svg("x<y", "z & w", &lines);
        assert!(
            text.contains("x&lt;y") && text.contains("z &amp; w") && text.matches("<polyline").count() == 2
        );
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(svg("nothing", "", &[]).ends_with("</svg>\n"));
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([0.7, 3.0, 12.0, 50.0].map(round_step), [1.0, 5.0, 20.0, 50.0]);
    }
}
