//! Words that newcomers bring from other programs, and what they are called here.
//!
//! The parser suggests what is spelt alike: for `--redis` that would be `--region`.

use clap::error::{ContextKind, ContextValue};

const FLAGS: [(&[&str], &str); 6] = [
    (&["--redis", "--redis-url", "--redis-uri", "--store", "--storage", "--backend"], "--origin-url"),
    (&["-p", "--port", "--http-port", "--bind", "--listen", "--addr", "--address"], "--listen-http"),
    (&["--rules", "--rules-path", "--rule-file", "--limits", "-f"], "--rules-file"),
    (&["-c", "--conf", "--config-file", "--settings"], "--config"),
    (&["--db", "--database", "--database-url", "--sql"], "--world-url"),
    (&["--tokens", "--token-file", "--tokens-file"], "--auth-tokens"),
];

const COMMANDS: [(&[&str], &str); 6] = [
    (&["start", "run", "server", "node", "up"], "serve"),
    (&["control-plane", "controller", "broker"], "control"),
    (&["status", "ready", "ping"], "health"),
    (&["validate", "lint"], "rules check"),
    (&["limit", "ask"], "check"),
    (&["explain"], "why"),
];

/// The same error, with the suggestion that helps. `first` is the first word of the command line.
pub(super) fn with_suggestion(mut error: clap::Error, root: &clap::Command, first: &str) -> clap::Error {
    let typed = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let meant = |table: &[(&[&str], &'static str)], word: &str| {
        table.iter().find(|(words, _)| words.contains(&word)).map(|(_, meant)| *meant)
    };
    let flag = typed(ContextKind::InvalidArg);
    // `--redis`, also where it came as `--redis=URL`.
    let flag = flag.as_deref().and_then(|flag| flag.split(['=', ' ']).next());
    let command = root.find_subcommand(first).unwrap_or(root);
    let has = |flag: &&str| command.get_arguments().any(|arg| arg.get_long() == flag.strip_prefix("--"));
    if let Some(flag) = flag.and_then(|flag| meant(&FLAGS, flag)).filter(has) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(flag.to_owned()));
        return error;
    }
    // Of the words below another command, only those of `rules` are known.
    let word = typed(ContextKind::InvalidSubcommand);
    let command = word.and_then(|word| {
        let meant = meant(&COMMANDS, &word)?;
        if word == first { Some(meant) } else { meant.strip_prefix(first).map(str::trim_start) }
    });
    if let Some(command) = command {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![command.to_owned()]));
    }
    error
}
