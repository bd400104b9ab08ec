//! The command line: what each command takes, and its help, which fits a screen.
//!
//! The flags of a node follow the table of settings; none is listed here.

mod expected;

use crate::ask::{Form, NodeArguments, Question};
use crate::bench;
use crate::capacity;
use crate::origin_init;
use crate::rules_client::{self, Action};
use crate::settings::{Setting, Sources, TABLE, long_flag};
use crate::simulate;
use crate::tokens::TokenCommand;
use crate::top;
use crate::why;
use clap::{Arg, ArgAction, ArgMatches, Command as Clap, value_parser};
use std::ffi::OsString;
use std::path::PathBuf;
use tidegate_rules::envoy::Windows;

const ABOUT: &str = "A rate limiter. Without a command: the same as `tidegate serve`.";
const ROOT_NOTE: &str = "\
`tidegate serve --help` lists the settings. Each of its flags works without the word `serve` too.";
/// Settings that few ever set: they aren't listed in the help, which fits a screen.
const SELDOM_SET: [&str; 11] = [
    "listen.unix_mode",
    "listen.max_connections",
    "world.floor",
    "world.interval_ms",
    "data.save_every_ms",
    "rules.require",
    "rules.envoy_windows",
    "log.identifiers",
    "log.decisions_json",
    "otlp.endpoint",
    "otlp.interval_ms",
];
const SETTINGS_NOTE: &str = "\
--print-config shows all settings, also those that are seldom set.
A flag wins over TIDEGATE_LISTEN_HTTP=… (…_HTTP_FILE=PATH), that over [listen] http in the file.";
const CHECK_NOTE: &str = "Exit code: 0 allowed, 1 denied, 2 error. For example:
  tidegate check api user=42 endpoint=/search";
const HEALTH_NOTE: &str = "\
For health checks of containers, where there is no shell and no curl. Needs no token.
Exit code: 0 ready, 1 not ready (it is stopping, or a control plane is without its store), 2 error.
  tidegate health                                 the node that is started by the settings
  tidegate health --url http://127.0.0.1:7070     a control plane or a broker";
const CONTROL_NOTE: &str = "\
One process is enough; several over one database are equal. For example:
  tidegate control --store postgres://tidegate:PASSWORD@db/tidegate
  tidegate rules push rules.yaml --control http://127.0.0.1:7070";
const RULES_CHECK_NOTE: &str = "Exit code: 0 valid, 1 invalid, 2 nothing to check.";
const RULES_IMPORT_NOTE: &str =
    "Exit code: 0 printed, 1 wrong files or limits that rules can't say, 2 nothing to read. For example:
  tidegate rules import-envoy config.yaml > rules.yaml";

const TOKEN_NOTE: &str = "Nodes that watch the file follow within a second. For example:
  tidegate token new --tenant acme --permissions check,read --auth-tokens tokens.toml";

pub(crate) enum Command {
    Serve(Sources),
    PrintConfig(Sources),
    Check {
        node: NodeArguments,
        question: Question,
        form: Form,
    },
    Reset {
        whom: NodeArguments,
        question: Question,
    },
    Health(NodeArguments),
    OriginInit {
        url: String,
    },
    RulesCheck {
        path: Option<PathBuf>,
        sources: Sources,
    },
    RulesImport {
        paths: Vec<PathBuf>,
        windows: Windows,
    },
    Token {
        command: TokenCommand,
        sources: Sources,
    },
    /// `tidegate control`.
    Control(Sources),
    /// What a control plane is asked.
    Rules {
        whom: NodeArguments,
        action: Action,
    },
    Top {
        whom: NodeArguments,
        options: top::Options,
    },
    Why {
        whom: NodeArguments,
        options: Box<why::Options>,
    },
    Bench(Result<Box<bench::Plan>, bench::PlanError>),
    /// `tidegate plan`.
    Capacity(Result<Box<capacity::Inputs>, capacity::InputsError>),
    /// `tidegate sim`.
    Simulate(Result<simulate::Inputs, simulate::InputsError>),
}

/// What this process was asked. Ends it for `--help`, and for a command line that makes no sense.
pub(crate) fn read() -> Command {
    parse(std::env::args_os().skip(1).collect()).unwrap_or_else(|error| error.exit())
}

/// The words behind the program's name.
fn parse(words: Vec<OsString>) -> Result<Command, clap::Error> {
    let first = words.first().and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    match clap().try_get_matches_from(std::iter::once("tidegate".into()).chain(words)) {
        Ok(matches) => Ok(command_of(&matches)),
        Err(error) => Err(expected::with_suggestion(error, &clap(), &first)),
    }
}

fn command_of(matches: &ArgMatches) -> Command {
    match matches.subcommand() {
        Some(("check", matches)) => {
            let form = if matches.get_flag("json") { Form::Json } else { Form::Text };
            Command::Check { node: node_arguments(matches), question: question(matches), form }
        }
        Some(("reset", matches)) => {
            Command::Reset { whom: node_arguments(matches), question: question(matches) }
        }
        Some(("health", matches)) => Command::Health(node_arguments(matches)),
        Some(("rules", matches)) => {
            if let Some(matches) = matches.subcommand_matches("import-envoy") {
                return import(matches);
            }
            if let Some((name, matches)) = matches.subcommand()
                && let Some(action) = Action::read(name, matches)
            {
                return Command::Rules { whom: node_arguments(action_matches(matches)), action };
            }
            // `rules` can't be had without a command below it, and `check` is the only other one.
            let matches = matches.subcommand_matches("check").unwrap_or(matches);
            let sources = Sources { file: path(matches, "config"), ..with_environment() };
            Command::RulesCheck { path: path(matches, "path"), sources }
        }
        Some(("origin", matches)) => Command::OriginInit { url: origin_init::url(matches) },
        Some(("token", matches)) => token(matches),
        Some(("control", matches)) => control(matches),
        Some(("top", matches)) => {
            Command::Top { whom: node_arguments(matches), options: top_options(matches) }
        }
        Some(("why", matches)) => {
            Command::Why { whom: node_arguments(matches), options: Box::new(why::options(matches)) }
        }
        Some(("bench", matches)) => Command::Bench(bench::Plan::read(matches).map(Box::new)),
        Some(("plan", matches)) => Command::Capacity(capacity::Inputs::read(matches).map(Box::new)),
        Some(("sim", matches)) => Command::Simulate(simulate::Inputs::read(matches)),
        Some((_, matches)) => serve(matches),
        None => serve(matches),
    }
}

/// Of the command that has the flags: `rules override set` is one level further down.
fn action_matches(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, matches)| matches)
}

fn control(matches: &ArgMatches) -> Command {
    Command::Control(settings(matches))
}

/// What a command with settings among its flags was given.
fn settings(matches: &ArgMatches) -> Sources {
    let flag = |index: usize| matches.try_get_one::<String>(TABLE[index].key).ok().flatten().cloned();
    Sources { file: path(matches, "config"), flags: std::array::from_fn(flag), ..with_environment() }
}

fn serve(matches: &ArgMatches) -> Command {
    let sources = settings(matches);
    if matches.get_flag("print-config") { Command::PrintConfig(sources) } else { Command::Serve(sources) }
}

fn import(matches: &ArgMatches) -> Command {
    let paths = matches.get_many::<PathBuf>("paths").into_iter().flatten().cloned().collect();
    let windows = if matches.get_flag("sliding") { Windows::Sliding } else { Windows::Fixed };
    Command::RulesImport { paths, windows }
}

fn token(matches: &ArgMatches) -> Command {
    // `token` can't be had without a command below it.
    let (name, matches) = matches.subcommand().unwrap_or(("list", matches));
    let text = |id: &str| matches.try_get_one::<String>(id).ok().flatten().cloned();
    let given = |id: &str| text(id).unwrap_or_default();
    let command = match name {
        "new" => TokenCommand::New {
            tenant: given("tenant"),
            permissions: given("permissions"),
            name: given("name"),
        },
        "revoke" => TokenCommand::Revoke { id: given("id") },
        _ => TokenCommand::List,
    };
    let flags = std::array::from_fn(|index| text(TABLE[index].key));
    Command::Token {
        command,
        sources: Sources { file: path(matches, "config"), flags, ..with_environment() },
    }
}

fn with_environment() -> Sources {
    Sources { environment: std::env::vars_os().collect(), ..Sources::default() }
}

fn path(matches: &ArgMatches, id: &str) -> Option<PathBuf> {
    matches.get_one::<PathBuf>(id).cloned()
}

fn node_arguments(matches: &ArgMatches) -> NodeArguments {
    NodeArguments {
        url: matches.try_get_one::<String>("url").ok().flatten().cloned(),
        token: matches.try_get_one::<String>("token").ok().flatten().cloned(),
        authorities: matches.try_get_one::<PathBuf>("ca").ok().flatten().cloned(),
        settings: with_environment(),
    }
}

fn question(matches: &ArgMatches) -> Question {
    Question {
        namespace: matches.get_one::<String>("namespace").cloned().unwrap_or_default(),
        attributes: matches.get_many::<String>("attributes").into_iter().flatten().cloned().collect(),
        cost: matches.try_get_one::<u64>("cost").ok().flatten().copied(),
    }
}

fn clap() -> Clap {
    let rules = Clap::new("rules")
        .about("Work with rules: files, and those of a control plane")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(rules_check())
        .subcommand(rules_import())
        .subcommands(rules_client::commands());
    let root = Clap::new("tidegate")
        .about(ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(ROOT_NOTE)
        .args_conflicts_with_subcommands(true)
        // Long ones belong to `serve`, where they are explained.
        .args(serve_args().into_iter().map(|arg| arg.hide(true)));
    root.subcommands([
        serve_command(),
        control_command(),
        check_command(),
        reset_command(),
        health_command(),
        token_command(),
        origin_init::command(),
        rules,
        top_command(),
        why::command(asker_args()),
        bench::command(),
        capacity::command(),
        simulate::command(),
    ])
}

fn serve_command() -> Clap {
    Clap::new("serve").about("Run a node").after_help(SETTINGS_NOTE).args(serve_args())
}

/// Whether a control plane goes by a setting.
fn is_for_control(setting: &Setting) -> bool {
    let sections = ["region", "node", "control.", "auth.", "tls.", "data.dir", "log.", "shutdown."];
    // It decides nothing.
    let is_decisions = setting.key.starts_with("log.decisions");
    !is_decisions && sections.iter().any(|section| setting.key.starts_with(section))
}

fn control_command() -> Clap {
    let args = TABLE.iter().filter(|setting| is_for_control(setting)).map(|setting| {
        let arg = setting_arg(setting);
        match setting.key.strip_prefix("control.") {
            Some(short) => arg.visible_alias(short.to_owned()),
            None => arg,
        }
    });
    Clap::new("control")
        .about("Run the control plane of the rules")
        .after_help(CONTROL_NOTE)
        .arg(config_arg())
        .args(args)
}

fn serve_args() -> Vec<Arg> {
    let print_config = Arg::new("print-config")
        .long("print-config")
        .action(ArgAction::SetTrue)
        .help("show every setting and where it comes from, and end");
    let mut args = vec![config_arg(), print_config];
    let is_for_nodes = |setting: &&Setting| !setting.key.starts_with("control.");
    args.extend(TABLE.iter().filter(is_for_nodes).map(setting_arg));
    args
}

fn config_arg() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("PATH")
        .value_parser(value_parser!(PathBuf))
        .help("settings file [tidegate.toml if it exists]")
}

fn setting_arg(setting: &'static Setting) -> Arg {
    Arg::new(setting.key)
        .long(long_flag(setting.key))
        .value_name(setting.value_name)
        // `--memory-max-keys -1` is a bad value, and is told so by the setting.
        .allow_hyphen_values(true)
        .hide(SELDOM_SET.contains(&setting.key))
        .help(format!("{} [{}]", setting.meaning, setting.default))
}

fn check_command() -> Clap {
    let cost = Arg::new("cost")
        .long("cost")
        .value_name("N")
        .value_parser(value_parser!(u64))
        .help("what the request costs; 0 only looks [1]");
    let json =
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("print the node's answer as it is");
    Clap::new("check")
        .about("Ask a running node once, by its rules")
        .after_help(CHECK_NOTE)
        .args(question_args())
        .args([cost, json])
}

fn reset_command() -> Clap {
    Clap::new("reset").about("Start the keys of a caller afresh on a running node").args(question_args())
}

fn health_command() -> Clap {
    let url = Arg::new("url").long("url").value_name("URL").help("its address [the setting listen.admin]");
    let [_, ca] = asker_args();
    Clap::new("health")
        .about("Ask a running process whether it is ready")
        .after_help(HEALTH_NOTE)
        .args([url, ca])
}

fn top_command() -> Clap {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let admin = Arg::new("admin")
        .long("admin")
        .value_name("URL")
        .action(ArgAction::Append)
        .help("a node's admin listener; several are added up [the node that is started by the settings]");
    let filter =
        Arg::new("filter").long("filter").value_name("TEXT").help("only callers with this in their names");
    Clap::new("top")
        .about("Watch the busiest and the most denied callers of running nodes")
        .after_help("While it runs: q ends, p pauses, s sorts by the other rate, / filters (Enter, or Escape for none).")
        .arg(admin)
        .arg(filter)
        .arg(flag("denied").help("sort by denials"))
        .arg(flag("once").help("print the table once, and end"))
        .arg(flag("json").help("print it once as JSON"))
        .args(asker_args())
}

fn top_options(matches: &ArgMatches) -> top::Options {
    top::Options {
        admin: matches.get_many::<String>("admin").into_iter().flatten().cloned().collect(),
        is_once: matches.get_flag("once"),
        form: if matches.get_flag("json") { Form::Json } else { Form::Text },
        sort: if matches.get_flag("denied") { top::Sort::Denied } else { top::Sort::Busiest },
        filter: matches.get_one::<String>("filter").cloned().unwrap_or_default(),
    }
}

fn token_command() -> Clap {
    // A setting of the node, and the file that this works on.
    let file = || {
        let setting = TABLE.iter().filter(|setting| setting.key == "auth.tokens");
        setting
            .map(|setting| setting_arg(setting).help("the token file [the setting auth.tokens]"))
            .chain([config_arg()])
    };
    let tenant = Arg::new("tenant").long("tenant").value_name("NAME").required(true).help("whose it is");
    let permissions = Arg::new("permissions")
        .long("permissions")
        .value_name("LIST")
        .default_value("check")
        .help("of check, read and admin, separated by commas");
    let name = Arg::new("name").long("name").value_name("TEXT").help("for people, such as who uses it");
    let id = Arg::new("id").value_name("ID").required(true).help("as `tidegate token list` shows it");
    Clap::new("token")
        .about("Make, list and revoke tokens")
        .after_help(TOKEN_NOTE)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Clap::new("new")
                .about("Make a token and print it, once")
                .args([tenant, permissions, name])
                .args(file()),
        )
        .subcommand(Clap::new("list").about("List tokens, without their secrets").args(file()))
        .subcommand(Clap::new("revoke").about("Revoke a token").arg(id).args(file()))
}

fn question_args() -> Vec<Arg> {
    let question = [
        Arg::new("namespace").value_name("NAMESPACE").required(true).help("the rules' namespace"),
        Arg::new("attributes").value_name("k=v").num_args(0..).help("attributes, such as user=42"),
        Arg::new("url").long("url").value_name("URL").help("the node's address [the setting listen.http]"),
    ];
    question.into_iter().chain(asker_args()).collect()
}

/// Who asks a node, and how it is known.
fn asker_args() -> [Arg; 2] {
    [
        Arg::new("token")
            .long("token")
            .value_name("TOKEN")
            .help("the caller's token [TIDEGATE_TOKEN, or the file that TIDEGATE_TOKEN_FILE names]"),
        Arg::new("ca")
            .long("ca")
            .value_name("PATH")
            .value_parser(value_parser!(PathBuf))
            .help("for https: the authority that signed the node's certificate, PEM"),
    ]
}

fn rules_check() -> Clap {
    let path = Arg::new("path")
        .value_name("PATH")
        .value_parser(value_parser!(PathBuf))
        .help("a file or a directory [the setting rules.file]");
    Clap::new("check")
        .about("Say what rules mean, or everything that is wrong with them")
        .after_help(RULES_CHECK_NOTE)
        .args([path, config_arg()])
}

fn rules_import() -> Clap {
    let paths = Arg::new("paths")
        .value_name("FILE")
        .num_args(1..)
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("files or directories of envoyproxy/ratelimit");
    let sliding = Arg::new("sliding")
        .long("sliding")
        .action(ArgAction::SetTrue)
        .help("sliding windows instead of fixed ones");
    Clap::new("import-envoy")
        .about("Print files of envoyproxy/ratelimit as a rules file")
        .after_help(RULES_IMPORT_NOTE)
        .args([paths, sliding])
}

#[cfg(test)]
mod tests;
