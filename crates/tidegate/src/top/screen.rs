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
        let _ = writeln!(text, "{}", cut("nobody came in the last seconds", screen.columns));
        return text;
    }
    let shown = &callers[..callers.len().min(screen.rows)];
    let layout = Layout::of(shown, screen);
    let mut heading = format!("{:<width$}", cut("caller", layout.caller), width = layout.caller);
    for (_, name, width) in layout.columns() {
        let _ = write!(heading, "  {name:>width$}");
    }
    let _ = writeln!(text, "{}", colours.paint(Colour::Bold, heading.trim_end()));
    for (name, rates) in shown {
        let mut line = format!("{:<width$}", fitted(name, layout.caller), width = layout.caller);
        for (column, _, width) in layout.columns() {
            let cell = match column {
                Column::Requests => rate(rates.per_second),
                Column::Denied => rate(rates.denied_per_second),
                Column::WouldDeny => rate(rates.would_deny_per_second),
                Column::Mark => mark(rates).to_owned(),
                Column::Picture => format!("{:<HISTORY$}", picture(history.of(name))),
            };
            let cell = format!("{cell:>width$}");
            let is_denied = column == Column::Denied && rates.denied_per_second > 0.0;
            let cell = if is_denied { colours.paint(Colour::Red, &cell) } else { cell };
            let _ = write!(line, "  {cell}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if callers.len() > screen.rows {
        let _ = writeln!(text, "and {} more", callers.len() - screen.rows);
    }
    text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Requests,
    Denied,
    WouldDeny,
    Mark,
    Picture,
}

/// How wide callers are shown, and what beside them.
struct Layout {
    caller: usize,
    columns: Vec<Column>,
}

impl Layout {
    /// Callers come first. What has no room beside them is left out: the picture first, then the mark, and so on.
    fn of(callers: &[(&Name, Rates)], screen: &Screen) -> Self {
        const CALLER_MIN: usize = 20;
        let longest = callers.iter().map(|(name, _)| whole(name).chars().count()).max().unwrap_or(0);
        let mut columns = vec![Column::Requests, Column::Denied];
        if callers.iter().any(|(_, rates)| rates.would_deny_per_second > 0.0) {
            columns.push(Column::WouldDeny);
        }
        columns.push(Column::Mark);
        if screen.heading.is_some() {
            columns.push(Column::Picture);
        }
        let wanted = longest.clamp("caller".len(), 48).max(CALLER_MIN);
        let room = |columns: &[Column]| {
            let taken: usize = columns.iter().map(|column| column.width() + 2).sum();
            screen.columns.saturating_sub(taken)
        };
        while columns.len() > 1 && room(&columns) < wanted {
            columns.pop();
        }
        Layout { caller: longest.max("caller".len()).min(room(&columns)).max(1), columns }
    }

    fn columns(&self) -> impl Iterator<Item = (Column, &'static str, usize)> {
        self.columns.iter().map(|column| (*column, column.name(), column.width()))
    }
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Requests => "requests/s",
            Column::Denied => "denied/s",
            Column::WouldDeny => "would deny/s",
            Column::Mark => "",
            Column::Picture => "last seconds",
        }
    }

    fn width(self) -> usize {
        match self {
            Column::Requests | Column::Denied => 10,
            Column::WouldDeny => 12,
            Column::Mark => 6,
            Column::Picture => HISTORY,
        }
    }
}

/// `default/api/per-user ann`.
fn whole(name: &Name) -> String {
    named(&[&name.tenant, &name.namespace, &name.rule], name)
}

fn named(whose: &[&String], name: &Name) -> String {
    let whose: Vec<String> = whose.iter().map(|part| plain(part)).collect();
    let whose = whose.join("/");
    format!("{} {}", whose.trim_end_matches('/'), plain(&name.identifier)).trim_start().to_owned()
}

/// A caller in so many columns: without its tenant, without its namespace, and without its rule, whichever fits first.
fn fitted(name: &Name, columns: usize) -> String {
    let Name { tenant, namespace, rule, .. } = name;
    let shorter = [vec![tenant, namespace, rule], vec![namespace, rule], vec![rule], vec![]];
    let fits = |whose: &Vec<&String>| Some(named(whose, name)).filter(|text| text.chars().count() <= columns);
    shorter.iter().find_map(fits).unwrap_or_else(|| {
        let identifier = named(&[], name);
        format!("{}…", cut(&identifier, columns.saturating_sub(1)))
    })
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
            "caller                             requests/s    denied/s\n\
             default/api/per-user ann                1,234         0.2     hot\n\
             default/api/per-user bob\\u{1b}[2J       1,234         0.2  leased\n\
             and 1 more\n"
        );
        let narrow = Screen { rows: 5, columns: 40, heading: Some("heading".to_owned()) };
        let text = table(&callers, &History::default(), &narrow, Colours::Off);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(table(&[], &History::default(), &Screen::of_file(2), Colours::Off).contains("nobody came"));
    }

    #[test]
    fn a_caller_is_shown_whole_before_anything_else_is() {
        let name = |rule: &str, identifier: &str| Name { rule: rule.to_owned(), ..name(identifier) };
        let names = [name("monthly-per-organisation", "acme-corporation"), name("search", "alice, /search")];
        let rates = Rates { per_second: 12.0, denied_per_second: 3.0, ..Rates::default() };
        let callers: Vec<_> = names.iter().map(|name| (name, rates)).collect();
        let shown = |columns: usize| {
            let screen = Screen { rows: 20, columns, heading: Some("tidegate top".to_owned()) };
            table(&callers, &History::default(), &screen, Colours::Off)
        };
        for columns in [40, 60, 80, 120, 200] {
            let text = shown(columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
            assert!(
                text.contains("acme-corporation") && text.contains("alice, /search"),
                "{columns}: {text}"
            );
            assert!(text.contains("requests/s"), "{columns}: {text}");
        }
        assert!(!shown(80).contains("last seconds") && shown(200).contains("last seconds"));
        assert!(shown(80).contains("api/monthly-per-organisation acme-corporation"), "{}", shown(80));
    }

    #[test]
    fn pictures_are_relative_to_the_highest() {
        assert_eq!(picture([0.0, 1.0, 50.0, 100.0].into_iter()), " ▁▅█");
        assert_eq!(picture(std::iter::empty()), "");
    }
}
