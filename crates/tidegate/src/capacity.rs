//! `tidegate plan`: what a fleet needs, as arithmetic that can be followed: every figure with its formula.
//!
//! What isn't given follows from what is: a small fleet gets a small answer.

mod inputs;
mod needs;
mod picture;
mod show;

pub(crate) use inputs::{Inputs, InputsError, command};

use crate::ask::Form;
use crate::output;
use needs::Needs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, thiserror::Error)]
#[error("can't write {}: {source}; choose another file for --svg", .path.display())]
pub(crate) struct PictureError {
    path: PathBuf,
    source: io::Error,
}

pub(crate) fn run(inputs: &Inputs) -> Result<ExitCode, PictureError> {
    let needs = Needs::of(inputs);
    if let Some(path) = &inputs.picture {
        let written = std::fs::write(path, picture::svg(inputs, &needs));
        written.map_err(|source| PictureError { path: path.clone(), source })?;
    }
    output::print(&match inputs.form {
        Form::Json => format!("{}\n", show::json(inputs, &needs)),
        Form::Text => show::text(inputs, &needs),
    });
    Ok(ExitCode::SUCCESS)
}
