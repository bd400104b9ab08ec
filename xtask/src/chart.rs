//! A picture of measured figures: a bar for each, the spread of its rounds as a line.

use std::fmt::Write as _;

pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) values: Vec<f64>,
    /// Drawn in our colour.
    pub(crate) is_ours: bool,
}

/// Bars that are compared with each other.
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) const WIDTH: f64 = 880.0;
const LABELS: f64 = 250.0;
const NUMBERS: f64 = 110.0;
const ROW: f64 = 26.0;
const HEAD: f64 = 74.0;

/// A file's text. Each group has a scale of its own.
pub(crate) fn svg(title: &str, subtitle: &str, groups: &[Group], number: impl Fn(f64) -> String) -> String {
    let rows = groups.iter().map(|group| 1.6 + group.bars.len() as f64).sum::<f64>();
    let height = HEAD + rows * ROW + 14.0;
    let mut text = head(title, subtitle, height);
    let mut y = HEAD;
    for group in groups {
        y += ROW;
        let _ = writeln!(
            text,
            "<text x=\"24\" y=\"{:.0}\" font-weight=\"600\" fill=\"#334155\">{}</text>",
            y - 4.0,
            group.title
        );
        let longest = group.bars.iter().flat_map(|bar| bar.values.iter().copied()).fold(0.0, f64::max);
        for bar in &group.bars {
            draw(&mut text, bar, y, longest, &number);
            y += ROW;
        }
        y += 0.6 * ROW;
    }
    text.push_str("</svg>\n");
    text
}

/// What every picture begins with.
pub(crate) fn head(title: &str, subtitle: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"10\" fill=\"#ffffff\"/>\n\
         <text x=\"24\" y=\"36\" font-size=\"18\" font-weight=\"600\" fill=\"#0f172a\">{title}</text>\n\
         <text x=\"24\" y=\"58\" fill=\"#64748b\">{subtitle}</text>\n"
    )
}

fn draw(text: &mut String, bar: &Bar, y: f64, longest: f64, number: &impl Fn(f64) -> String) {
    let length = |value: f64| (WIDTH - LABELS - NUMBERS) * (value / longest.max(f64::MIN_POSITIVE));
    let middle = crate::report::median(&bar.values);
    let low = bar.values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = bar.values.iter().copied().fold(0.0, f64::max);
    let (colour, line) = if bar.is_ours { ("#0e7490", "#083344") } else { ("#94a3b8", "#334155") };
    let _ = writeln!(
        text,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\" fill=\"#0f172a\">{}</text>\
         <rect x=\"{LABELS}\" y=\"{:.0}\" width=\"{:.1}\" height=\"18\" rx=\"3\" fill=\"{colour}\"/>\
         <line x1=\"{:.1}\" y1=\"{:.0}\" x2=\"{:.1}\" y2=\"{:.0}\" stroke=\"{line}\" stroke-width=\"2\"/>\
         <text x=\"{:.1}\" y=\"{:.0}\" fill=\"#0f172a\">{}</text>",
        LABELS - 12.0,
        y + 14.0,
        bar.label,
        y,
        length(middle),
        LABELS + length(low),
        y + 9.0,
        LABELS + length(high),
        y + 9.0,
        LABELS + length(high) + 8.0,
        y + 14.0,
        number(middle)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_full_and_the_others_are_in_proportion() {
        let bar = |label: &str, value, is_ours| Bar { label: label.into(), values: vec![value], is_ours };
        let groups = [Group { title: "g".into(), bars: vec![bar("a", 100.0, true), bar("b", 50.0, false)] }];
        let text = svg("t", "s", &groups, |value| format!("{value:.0}"));
        assert!(text.contains("width=\"520.0\"") && text.contains("width=\"260.0\""), "{text}");
        assert!(!text.contains("NaN"));
    }
}
