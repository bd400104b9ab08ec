//! `tidegate top`: the busiest and the most denied callers of running nodes, live.
//!
//! Nodes say who they are (`/v1/top`); here several nodes are added up, and drawn again each second. Keys: `q` ends,
//! `p` pauses, `s` sorts by the next rate, `/` filters.

mod callers;
mod screen;
mod terminal;

use crate::ask::{Form, NodeArguments};
use crate::output::{self, Colours};
use crate::rules_client::{Client, RulesError};
use crate::settings::Settings;
pub(crate) use callers::Sort;
use callers::{Callers, History};
use screen::{Screen, table};
use std::process::ExitCode;
use std::time::Duration;
use terminal::{Key, Terminal, Typed};

/// How often nodes are asked.
const EVERY: Duration = Duration::from_secs(1);
/// Rows where nobody says how many fit.
const ROWS: usize = 30;

#[derive(Debug)]
pub(crate) struct Options {
    /// Of nodes' admin listeners; none: of the node that is started by the settings.
    pub(crate) admin: Vec<String>,
    pub(crate) is_once: bool,
    pub(crate) form: Form,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
}

/// What is shown, by what was asked and typed.
pub(crate) struct View {
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    pub(crate) is_paused: bool,
    /// The filter is being typed.
    pub(crate) is_typing: bool,
}

pub(crate) fn run(whom: &NodeArguments, options: Options) -> Result<ExitCode, RulesError> {
    let nodes = clients(whom, &options.admin)?;
    if options.form == Form::Json {
        let answers = ask(&nodes)?;
        let callers = answers.chosen(options.sort, &options.filter);
        output::print(&format!("{}\n", callers::as_json(&callers)));
        return Ok(ExitCode::SUCCESS);
    }
    if options.is_once || !terminal::can_be_used() {
        // Without a history there is nothing to draw of it.
        let answers = ask(&nodes)?;
        let callers = answers.chosen(options.sort, &options.filter);
        output::print(&table(&callers, &History::default(), &Screen::of_file(ROWS), Colours::of_stdout()));
        return Ok(ExitCode::SUCCESS);
    }
    let view = View { sort: options.sort, filter: options.filter, is_paused: false, is_typing: false };
    live(&nodes, view)
}

fn clients(whom: &NodeArguments, admin: &[String]) -> Result<Vec<Client>, RulesError> {
    let admin = match admin {
        [] => vec![format!("http://{}", Settings::listen_admin(whom.settings.clone())?)],
        given => given.to_vec(),
    };
    let client = |url: String| {
        let settings = whom.settings.clone();
        let (token, authorities) = (whom.token.clone(), whom.authorities.clone());
        Client::at(url, NodeArguments { url: None, token, authorities, settings })
    };
    admin.into_iter().map(client).collect()
}

fn ask(nodes: &[Client]) -> Result<Callers, RulesError> {
    let mut callers = Callers::default();
    for node in nodes {
        callers.add(&node.get("/v1/top")?);
    }
    Ok(callers)
}

/// Until somebody has seen enough. A node that doesn't answer any more is told of, and asked again.
fn live(nodes: &[Client], mut view: View) -> Result<ExitCode, RulesError> {
    let mut callers = ask(nodes)?;
    let mut history = History::default();
    history.add(&callers);
    let mut problem = None;
    let mut terminal = Terminal::take().map_err(RulesError::Start)?;
    loop {
        let screen = Screen::of_terminal(&terminal, &view, problem.as_deref());
        let shown = callers.chosen(view.sort, &view.filter);
        terminal.draw(&table(&shown, &history, &screen, Colours::of_stdout()));
        match terminal.keys(EVERY) {
            Typed::Keys(keys) => {
                for key in keys {
                    if view.press(key) == Pressed::Ends {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
            }
            Typed::Resized => {}
            Typed::Nothing if view.is_paused => {}
            Typed::Nothing => match ask(nodes) {
                Ok(heard) => {
                    (callers, problem) = (heard, None);
                    history.add(&callers);
                }
                Err(error) => problem = Some(error.to_string()),
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pressed {
    GoesOn,
    Ends,
}

impl View {
    fn press(&mut self, key: Key) -> Pressed {
        match key {
            key if self.is_typing => self.type_key(key),
            Key::Character('q') | Key::Interrupt => return Pressed::Ends,
            Key::Character('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Character('s') => self.sort = self.sort.next(),
            Key::Character('/') => self.is_typing = true,
            Key::Escape => self.filter.clear(),
            _ => {}
        }
        Pressed::GoesOn
    }

    fn type_key(&mut self, key: Key) {
        const FILTER_CHARS_MAX: usize = 128;
        match key {
            Key::Character(character) if self.filter.chars().count() < FILTER_CHARS_MAX => {
                self.filter.push(character);
            }
            Key::Character(_) => {}
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.is_typing = false,
            Key::Escape | Key::Interrupt => {
                self.filter.clear();
                self.is_typing = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_is_pasted_with_its_slash_and_line_end_is_taken_whole() {
        let mut view =
            View { sort: Sort::Busiest, filter: String::new(), is_paused: false, is_typing: false };
        for key in terminal::keys_of(&mut b"/acme-42\r".to_vec()) {
            assert_eq!(view.press(key), Pressed::GoesOn);
        }
        assert_eq!((&*view.filter, view.is_typing), ("acme-42", false));
        for key in terminal::keys_of(&mut b"ss".to_vec()) {
            assert_eq!(view.press(key), Pressed::GoesOn);
        }
        assert_eq!(view.sort, Sort::WouldDeny);
        assert_eq!(view.press(Key::Character('q')), Pressed::Ends);
    }
}
