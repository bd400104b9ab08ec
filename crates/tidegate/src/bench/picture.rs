//! The distribution of latencies as a picture: each further nine of the percentile as wide as the one before,
//! so that the tail, which matters, isn't a line at the edge.

use super::histogram::Histogram;
use super::report::in_words;
use std::fmt::Write as _;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 32.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 64.0;
const NINES: [&str; 8] = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"];
/// What is pointed at, with its percentile's place.
const MARKS: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Where values are drawn.
struct Scale {
    /// Nines of the percentile, at the right end.
    nines: f64,
    /// Decimal logarithms of nanoseconds, at both ends.
    low: f64,
    high: f64,
}

impl Scale {
    fn new(points: &[(f64, f64)]) -> Self {
        let nines = points.last().map_or(1.0, |(nines, _)| nines.ceil().clamp(1.0, 7.0));
        let lowest = points.first().map_or(1e3, |(_, nanos)| nanos.max(1.0)).log10();
        let highest = points.last().map_or(1e6, |(_, nanos)| nanos.max(1.0)).log10();
        let low = (lowest * 3.0 - 0.3).floor() / 3.0;
        Scale { nines, low, high: ((highest * 3.0 + 0.3).ceil() / 3.0).max(low + 1.0) }
    }

    fn x(&self, nines: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (nines.min(self.nines) / self.nines)
    }

    fn y(&self, nanos: f64) -> f64 {
        let part = (nanos.max(1.0).log10() - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part.clamp(0.0, 1.0)
    }
}

/// How many nines a share has: 1 for 90 %, 2 for 99 %.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// A file's text.
pub(crate) fn svg(title: &str, subtitle: &str, latencies: &Histogram) -> String {
    let points = points(latencies);
    let scale = Scale::new(&points);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\" font-size=\"13\">\n\
         <defs><linearGradient id=\"fill\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"1\">\
         <stop offset=\"0\" stop-color=\"#0e7490\" stop-opacity=\"0.28\"/>\
         <stop offset=\"1\" stop-color=\"#0e7490\" stop-opacity=\"0.03\"/></linearGradient></defs>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"10\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"36\" font-size=\"18\" font-weight=\"600\" fill=\"#0f172a\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"58\" fill=\"#64748b\">{}</text>\n",
        escaped(title),
        escaped(subtitle)
    );
    draw_grid(&mut text, &scale);
    draw_line(&mut text, &scale, &points);
    draw_marks(&mut text, &scale, latencies);
    text.push_str("</svg>\n");
    text
}

/// Nines and nanoseconds, from the lowest on; the highest has as many nines as there are values for.
fn points(latencies: &Histogram) -> Vec<(f64, f64)> {
    let last = nines(1.0 - 0.5 / (latencies.count().max(1) as f64));
    let mut points = Vec::new();
    for (share, nanos) in latencies.shares() {
        let value = nanos as f64;
        if points.is_empty() {
            points.push((0.0, value));
        }
        points.push((nines(share).min(last), value));
    }
    points
}

fn draw_grid(text: &mut String, scale: &Scale) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for (index, label) in (0_u8..).zip(NINES).take_while(|(index, _)| f64::from(*index) <= scale.nines) {
        let x = scale.x(f64::from(index));
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#475569\">{label} %</text>",
            bottom + 22.0
        );
    }
    for (nanos, label) in ticks(scale) {
        let y = scale.y(nanos);
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#475569\">{label}</text>",
            LEFT - 10.0,
            y + 4.5
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#64748b\">percentile of requests that took no longer</text>",
        f64::midpoint(LEFT, right),
        HEIGHT - 18.0
    );
}

/// 1, 2 and 5 of each power of ten; only the first where that is too many.
fn ticks(scale: &Scale) -> Vec<(f64, String)> {
    let mut found = Vec::new();
    let mut power = 1_u64;
    for _ in 0..13 {
        let steps: &[u64] = if scale.high - scale.low > 3.5 { &[1] } else { &[1, 2, 5] };
        for nanos in steps.iter().map(|step| step * power) {
            let at = (nanos as f64).log10();
            if at >= scale.low - 0.001 && at <= scale.high + 0.001 {
                found.push((nanos as f64, in_words(nanos).replace(".00 ", " ").replace(".0 ", " ")));
            }
        }
        power *= 10;
    }
    found
}

fn draw_line(text: &mut String, scale: &Scale, points: &[(f64, f64)]) {
    let path: Vec<String> = points
        .iter()
        .map(|(nines, nanos)| format!("{:.1},{:.1}", scale.x(*nines), scale.y(*nanos)))
        .collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let bottom = HEIGHT - BOTTOM;
    let line = path.join(" ");
    let _ = writeln!(
        text,
        "<polygon points=\"{:.1},{bottom} {line} {:.1},{bottom}\" fill=\"url(#fill)\"/>\n\
         <polyline points=\"{line}\" fill=\"none\" stroke=\"#0e7490\" stroke-width=\"2.5\" stroke-linejoin=\"round\"/>",
        scale.x(first.0),
        scale.x(last.0)
    );
}

fn draw_marks(text: &mut String, scale: &Scale, latencies: &Histogram) {
    if latencies.count() == 0 {
        return;
    }
    let last = nines(1.0 - 0.5 / (latencies.count() as f64));
    let at = |share: f64| latencies.shares().find(|(seen, _)| *seen >= share).map_or(0, |(_, nanos)| nanos);
    let marks = MARKS.iter().map(|(name, share)| (*name, nines(*share), at(*share)));
    for (name, nines, nanos) in marks.chain([("max", last, latencies.max())]).filter(|mark| mark.1 <= last) {
        let (x, y) = (scale.x(nines), scale.y(nanos as f64));
        let (anchor, shift) = if x > WIDTH - 110.0 { ("end", -6.0) } else { ("middle", 0.0) };
        let (x_text, y_text, said) = (x + shift, y - 13.0, in_words(nanos));
        // The halo is a text of its own: not everybody paints a stroke before its filling.
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"#ffffff\" stroke=\"#0e7490\" stroke-width=\"2.5\"/>\
             <g font-weight=\"600\" text-anchor=\"{anchor}\">\
             <text x=\"{x_text:.1}\" y=\"{y_text:.1}\" stroke=\"#ffffff\" stroke-width=\"4\">{name} {said}</text>\
             <text x=\"{x_text:.1}\" y=\"{y_text:.1}\" fill=\"#0f172a\">{name} {said}</text></g>"
        );
    }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_names_its_percentiles_and_escapes_what_it_is_told() {
        let mut latencies = Histogram::default();
        (1..=100_000).for_each(|value| latencies.record(value * 10));
        let text = svg("a<b", "c & d", &latencies);
        assert!(text.contains("a&lt;b") && text.contains("c &amp; d"));
        for wanted in ["p50 ", "p99.9 ", "max 1.00 ms", "99.999 %"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn a_run_without_answers_has_a_picture_too() {
        let text = svg("nothing", "", &Histogram::default());
        assert!(text.ends_with("</svg>\n") && !text.contains("NaN") && !text.contains("inf"));
    }
}
