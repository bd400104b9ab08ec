//! The table as text: as many rows and columns as fit, and a small picture of each caller's last seconds.

use super::View;
use super::callers::{HISTORY, History, Name, Rates};
use super::terminal::Terminal;
use crate::output::{Colour, Colours, grouped, plain};
use std::fmt::Write as _;

/// Lines that aren't callers.
const OTHER_LINES: usize = 4;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) struct Screen {
    rows: usize,
    columns: usize,
    /// Of a live view: what stands above the table.
    heading: Option<String>,
}

impl Screen {
    /// For who reads it later: lines as long as they are.
    pub(super) fn of_file(rows: usize) -> Self {
        Screen { rows, columns: usize::MAX, heading: None }
    }

    pub(super) fn of_terminal(terminal: &Terminal, view: &View, problem: Option<&str>) -> Self {
        let (rows, columns) = terminal.size();
        let mut heading = format!("tidegate top: {}", view.sort.name());
        if view.is_typing || !view.filter.is_empty() {
            let _ =
                write!(heading, ", with /{}{}", plain(&view.filter), if view.is_typing { "▏" } else { "" });
        }
        if view.is_paused {
            heading.push_str(", paused");
        }
        match problem {
            Some(problem) => heading.push_str(&format!("  {}", plain(problem))),
            None => heading.push_str("  (q ends, p pauses, s sorts, / filters)"),
        }
        Screen { rows: rows.saturating_sub(OTHER_LINES).max(1), columns, heading: Some(heading) }
    }
}

pub(super) fn table(
    callers: &[(&Name, Rates)],
    history: &History,
    screen: &Screen,
    colours: Colours,
) -> String {
    let mut text = String::new();
    if let Some(heading) = &screen.heading {
        let _ = writeln!(text, "{}\n", cut(heading, screen.columns));
    }
    if callers.is_empty() {
        text.push_str("nobody came in the last seconds\n");
        return text;
    }
    let is_live = screen.heading.is_some();
    let picture_heading = if is_live { format!("  {:<HISTORY$}", "last seconds") } else { String::new() };
    let heading = format!("{:>12} {:>12} {:<6}{picture_heading}  {}", "requests/s", "denied/s", "", "caller");
    let _ = writeln!(text, "{}", colours.paint(Colour::Bold, &cut(&heading, screen.columns)));
    for (name, rates) in callers.iter().take(screen.rows) {
        let denied = format!("{:>12}", rate(rates.denied_per_second));
        let picture =
            if is_live { format!("  {:<HISTORY$}", picture(history.of(name))) } else { String::new() };
        let whose = [&name.tenant, &name.namespace, &name.rule].map(|part| plain(part)).join("/");
        let start = format!("{:>12} ", rate(rates.per_second));
        let end = format!(
            " {:<6}{picture}  {} {}",
            mark(rates),
            whose.trim_end_matches('/'),
            plain(&name.identifier)
        );
        let end = cut(&end, screen.columns.saturating_sub(start.len() + denied.len()));
        let denied = if rates.denied_per_second > 0.0 { colours.paint(Colour::Red, &denied) } else { denied };
        let _ = writeln!(text, "{start}{denied}{end}");
    }
    if callers.len() > screen.rows {
        let _ = writeln!(text, "and {} more", callers.len() - screen.rows);
    }
    text
}

/// What is leased is hot.
fn mark(rates: &Rates) -> &'static str {
    match rates {
        Rates { is_leased: true, .. } => "leased",
        Rates { is_hot: true, .. } => "hot",
        _ => "",
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of requests")]
fn rate(per_second: f64) -> String {
    match per_second {
        none if none < 0.05 => "–".to_owned(),
        low if low < 10.0 => format!("{low:.1}"),
        high => grouped(high.round() as usize),
    }
}

/// Higher bars for higher rates, the highest as high as there is room.
fn picture(rates: impl Iterator<Item = f64>) -> String {
    let rates: Vec<f64> = rates.collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let bar = |rate: &f64| {
        let steps = BARS.len() - 1;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
        let height = if most > 0.0 { (rate / most * 7.0).round() as usize } else { 0 };
        if *rate > 0.0 { BARS[height.min(steps)] } else { ' ' }
    };
    rates.iter().map(bar).collect()
}

fn cut(text: &str, columns: usize) -> String {
    text.chars().take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(identifier: &str) -> Name {
        let [tenant, namespace, rule] = ["default", "api", "per-user"].map(str::to_owned);
        Name { tenant, namespace, rule, identifier: identifier.to_owned() }
    }

    #[test]
    fn the_table_has_a_line_for_each_caller_and_says_how_many_are_left_out() {
        let names = [name("ann"), name("bob\u{1b}[2J"), name("carl")];
        let rates = Rates { per_second: 1234.4, denied_per_second: 0.25, ..Rates::default() };
        let mut callers: Vec<_> = names.iter().map(|name| (name, rates)).collect();
        callers[0].1.is_hot = true;
        (callers[1].1.is_hot, callers[1].1.is_leased) = (true, true);
        let text = table(&callers, &History::default(), &Screen::of_file(2), Colours::Off);
        assert_eq!(
            text,
            "  requests/s     denied/s         caller\n\
             \x20      1,234          0.2 hot     default/api/per-user ann\n\
             \x20      1,234          0.2 leased  default/api/per-user bob\\u{1b}[2J\n\
             and 1 more\n"
        );
        let narrow = Screen { rows: 5, columns: 40, heading: Some("heading".to_owned()) };
        let text = table(&callers, &History::default(), &narrow, Colours::Off);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(table(&[], &History::default(), &Screen::of_file(2), Colours::Off).contains("nobody came"));
    }

    #[test]
    fn pictures_are_relative_to_the_highest() {
        assert_eq!(picture([0.0, 1.0, 50.0, 100.0].into_iter()), " ▁▅█");
        assert_eq!(picture(std::iter::empty()), "");
    }
}
