//! Runs commands one after the other, says what it is doing, and how long each took.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// Runs a step and remembers how long it took.
    #[expect(clippy::disallowed_methods, reason = "tells people how long a step took")]
    pub(crate) fn step(
        &mut self,
        name: &str,
        run: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        println!("==> {name}");
        let start = Instant::now();
        run().map_err(|problem| format!("{name} failed\n{problem}"))?;
        let took = start.elapsed();
        println!("    {name}: ok, {:.1} s", took.as_secs_f64());
        self.done.push((name.to_owned(), took));
        Ok(())
    }

    /// Runs a command as a step.
    pub(crate) fn command(&mut self, name: &str, command: &str) -> Result<(), String> {
        self.step(name, || run(command))
    }

    pub(crate) fn summary(&self) {
        println!("\n{:>9}  step", "seconds");
        for (name, took) in &self.done {
            println!("{:>9.1}  {name}", took.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|(_, took)| *took).sum();
        println!("{:>9.1}  in all", total.as_secs_f64());
    }
}

/// Splits at spaces: no argument of ours has one in it.
fn command_of(command: &str) -> Command {
    let mut words = command.split_whitespace();
    let mut built = Command::new(words.next().unwrap_or_default());
    built.args(words).current_dir(crate::root()).stdin(Stdio::null());
    built
}

/// Runs a command with its output shown.
pub(crate) fn run(command: &str) -> Result<(), String> {
    run_with(command, &[])
}

/// The same, with some variables set.
pub(crate) fn run_with(command: &str, variables: &[(&str, &str)]) -> Result<(), String> {
    println!("    $ {command}");
    let status = command_of(command).envs(variables.iter().copied()).status();
    let status = status.map_err(|error| format!("can't run `{command}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{command}` ended with {status}")) }
}

/// Runs a command and returns what it printed, on both streams.
pub(crate) fn output(command: &str) -> Result<String, String> {
    printed(command_of(command), command, 0)
}

/// The same, with arguments that may have spaces in them, and a code of 1 taken for a result too.
pub(crate) fn output_of(program: &str, arguments: &[String]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(crate::root()).stdin(Stdio::null());
    printed(command, &format!("{program} {}", arguments.join(" ")), 1)
}

fn printed(mut built: Command, command: &str, code_max: i32) -> Result<String, String> {
    let output = built.output().map_err(|error| format!("can't run `{command}`: {error}"))?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.code().is_some_and(|code| code <= code_max) {
        Ok(text)
    } else {
        Err(format!("`{command}` ended with {}\n{text}", output.status))
    }
}
