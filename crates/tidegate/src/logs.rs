//! Logs: to stderr, as text or as one JSON object a line.
//!
//! Never to stdout, which is for what was asked; never a secret.

use crate::output::Colours;
use crate::settings::LogFormat;
use std::io;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) fn start(format: LogFormat, level: Targets) {
    // A log that can't be written must not bring the node down, nor be complained of where it can't be read.
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(Colours::of_stderr() == Colours::On)
        .log_internal_errors(false);
    let layer = match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(level)).init();
}
