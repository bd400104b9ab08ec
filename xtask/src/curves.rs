//! A picture of how one figure moves with another: curves in panels, each with axes of its own.

use std::fmt::Write as _;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten.
    Log,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) number: fn(f64) -> String,
}

#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// The first is drawn in our colour.
    pub(crate) curves: Vec<Curve>,
}

const LEFT: f64 = 90.0;
const RIGHT: f64 = 650.0;
const HEAD: f64 = 74.0;
const PANEL: f64 = 300.0;
const PLOT: f64 = 200.0;
const COLOURS: [&str; 5] = ["#0e7490", "#d97706", "#7c3aed", "#be123c", "#64748b"];

/// An axis with its ends.
struct Ruler {
    axis: Axis,
    low: f64,
    high: f64,
}

impl Ruler {
    fn new(axis: Axis, values: impl Iterator<Item = f64> + Clone) -> Self {
        let most = values.clone().fold(f64::MIN_POSITIVE, f64::max);
        let least = values.fold(most, f64::min);
        let (low, high) = match axis.scale {
            Scale::Linear => (0.0, most * 1.05),
            Scale::Log => (10_f64.powf(least.log10().floor()), 10_f64.powf(most.log10().ceil())),
        };
        // A single value still has a scale around it.
        Ruler { axis, low, high: if high > low { high } else { low * 10.0 } }
    }

    /// From 0 to 1.
    fn at(&self, value: f64) -> f64 {
        match self.axis.scale {
            Scale::Linear => value / self.high,
            Scale::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.axis.scale == Scale::Log {
            return std::iter::successors(Some(self.low), |tick| Some(tick * 10.0))
                .take_while(|tick| *tick <= self.high * 1.001)
                .collect();
        }
        let rough = self.high / 6.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        std::iter::successors(Some(0.0), |tick| Some(tick + step))
            .take_while(|tick| *tick <= self.high)
            .collect()
    }
}

/// A file's text.
pub(crate) fn svg(title: &str, subtitle: &str, panels: &[Panel]) -> String {
    let mut text = crate::chart::head(title, subtitle, HEAD + PANEL * panels.len() as f64);
    for (number, panel) in panels.iter().enumerate() {
        draw(&mut text, panel, HEAD + PANEL * number as f64);
    }
    text.push_str("</svg>\n");
    text
}

fn draw(text: &mut String, panel: &Panel, top: f64) {
    let points = panel.curves.iter().flat_map(|curve| curve.points.iter().copied());
    let x = Ruler::new(panel.x, points.clone().map(|(x, _)| x));
    let y = Ruler::new(panel.y, points.map(|(_, y)| y));
    let (plot_top, bottom) = (top + 38.0, top + 38.0 + PLOT);
    let across = |value: f64| LEFT + (RIGHT - LEFT) * x.at(value);
    let up = |value: f64| bottom - PLOT * y.at(value);
    let _ = writeln!(
        text,
        "<text x=\"24\" y=\"{:.0}\" font-weight=\"600\" fill=\"#334155\">{}</text>\
         <text x=\"{LEFT}\" y=\"{:.0}\" fill=\"#64748b\" font-size=\"12\">{}</text>\
         <text x=\"{RIGHT}\" y=\"{:.0}\" text-anchor=\"end\" fill=\"#64748b\" font-size=\"12\">{}</text>",
        top + 12.0,
        panel.title,
        top + 29.0,
        panel.y.name,
        bottom + 36.0,
        panel.x.name
    );
    for tick in y.ticks() {
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#64748b\" font-size=\"12\">{}</text>",
            LEFT - 8.0,
            up(tick) + 4.0,
            (y.axis.number)(tick),
            at = up(tick),
        );
    }
    for tick in x.ticks() {
        let _ = writeln!(
            text,
            "<line x1=\"{at:.1}\" y1=\"{plot_top:.1}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\" stroke=\"#f1f5f9\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#64748b\" font-size=\"12\">{}</text>",
            bottom + 18.0,
            (x.axis.number)(tick),
            at = across(tick),
        );
    }
    for (number, curve) in panel.curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let line: Vec<String> =
            curve.points.iter().map(|(x, y)| format!("{:.1},{:.1}", across(*x), up(*y))).collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>",
            line.join(" ")
        );
        for (x, y) in &curve.points {
            let _ = writeln!(
                text,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"/>",
                across(*x),
                up(*y)
            );
        }
        let row = plot_top + 14.0 + 22.0 * number as f64;
        let _ = writeln!(
            text,
            "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"{row:.0}\" fill=\"#0f172a\">{}</text>",
            RIGHT + 22.0,
            row - 7.0,
            RIGHT + 44.0,
            curve.label
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_a_curve_are_where_its_axes_say() {
        let number = |value: f64| format!("{value}");
        let axis = |scale| Axis { name: "n", scale, number };
        let curve = Curve { label: "a".into(), points: vec![(1.0, 10.0), (100.0, 1000.0)] };
        let panel =
            Panel { title: "p".into(), x: axis(Scale::Log), y: axis(Scale::Log), curves: vec![curve] };
        let text = svg("t", "s", &[panel]);
        // From the lower left corner to the upper right one.
        assert!(text.contains("points=\"90.0,312.0 650.0,112.0\""), "{text}");
        let linear = Ruler::new(axis(Scale::Linear), [97.0].into_iter());
        assert_eq!(linear.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    }
}
