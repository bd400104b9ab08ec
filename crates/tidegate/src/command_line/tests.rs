//! The command line, read as a user would write it.

use super::*;

fn read(words: &[&str]) -> Result<Command, clap::Error> {
    parse(words.iter().map(OsString::from).collect())
}

#[test]
fn the_command_line_is_sound() {
    clap().debug_assert();
}

#[test]
fn help_fits_a_screen() {
    let mut root = clap();
    root.build();
    let mut commands = vec![&mut root];
    while let Some(command) = commands.pop() {
        let lines = command.render_help().to_string().lines().count();
        assert!(lines <= 40, "{} has {lines} lines of help", command.get_name());
        // A line that was broken by hand, and is broken again, looks like a mistake.
        let note = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let is_whole = |line: &str| line.starts_with("  ") || line.ends_with(['.', ':']);
        let broken = note.lines().find(|line| !is_whole(line) && line.chars().count() > 100);
        assert_eq!(broken, None, "{}", command.get_name());
        commands.extend(command.get_subcommands_mut());
    }
}

#[test]
fn help_is_a_command_too_and_points_at_the_settings() {
    for words in [&["help"][..], &["--help"]] {
        let help = read(words).err().expect("help ends the program");
        assert_eq!(help.kind(), clap::error::ErrorKind::DisplayHelp, "{words:?}");
        assert!(help.to_string().contains("`tidegate serve --help` lists the settings"), "{help}");
    }
    let help = read(&["help", "serve"]).err().expect("help ends the program").to_string();
    assert!(help.contains("--listen-http"), "{help}");
}

#[test]
fn flags_work_with_and_without_the_word_serve() {
    for words in [&["serve", "--listen-http", "[::1]:1"][..], &["--listen-http=[::1]:1"]] {
        let Command::Serve(sources) = read(words).unwrap() else { panic!("{words:?} should serve") };
        assert_eq!(sources.flags[4].as_deref(), Some("[::1]:1"));
    }
    assert!(matches!(read(&[]).unwrap(), Command::Serve(_)));
    assert!(matches!(read(&["--print-config"]).unwrap(), Command::PrintConfig(_)));
}

#[test]
fn words_of_other_programs_are_answered_with_ours() {
    for (words, meant) in [
        (&["--redis", "redis://h"][..], "'--origin-url'"),
        (&["serve", "--redis-url=redis://h"], "'--origin-url'"),
        (&["-p", "9000"], "'--listen-http'"),
        (&["--port", "9000"], "'--listen-http'"),
        (&["serve", "--rules", "rules.yaml"], "'--rules-file'"),
        (&["-c", "tidegate.toml"], "'--config'"),
        (&["control", "-c", "tidegate.toml"], "'--config'"),
        (&["start"], "'serve'"),
        (&["validate", "rules.yaml"], "'rules check'"),
        (&["rules", "validate"], "'check'"),
    ] {
        let error = read(words).err().expect("none of them is known").to_string();
        assert!(error.contains(meant) && !error.contains("--region"), "{words:?}: {error}");
    }
    // Where a command has no such flag, none is suggested.
    let error = read(&["check", "api", "--redis", "redis://h"]).err().expect("unknown").to_string();
    assert!(!error.contains("--origin-url"), "{error}");
    let error = read(&["rules", "run"]).err().expect("unknown").to_string();
    assert!(!error.contains("serve"), "{error}");
}

#[test]
fn what_isnt_a_command_or_a_flag_is_refused() {
    for words in [
        &["sreve"][..],
        &["--lisen-http", "x"],
        &["check"],
        &["rules"],
        &["check", "a", "--cost", "-1"],
        &["rules", "import-envoy"],
    ] {
        assert!(read(words).is_err(), "{words:?}");
    }
}
