//! The command line, read as a user would write it.

use super::*;

fn read(words: &[&str]) -> Result<Command, clap::Error> {
    let words = std::iter::once(&"tidegate").chain(words);
    clap().try_get_matches_from(words).map(|matches| command_of(&matches))
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
