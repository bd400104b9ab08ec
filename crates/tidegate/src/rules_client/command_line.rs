//! What each command about a control plane's rules takes.

use crate::ask::Form;
use clap::{Arg, ArgAction, ArgMatches, Command as Clap, value_parser};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const PUSH_NOTE: &str = "Replaces the rules of the namespaces that the files name, and sets the overrides that they \
list. Other overrides stay. Shows what that means, and asks.\nFor example:\n  tidegate rules push rules.yaml --reason 'more for acme'";
const DIFF_NOTE: &str = "Exit code: 0 nothing would change, 1 something would, 2 error.";
const OVERRIDE_NOTE: &str = "For example:
  tidegate rules override set api per-user user=acme --limit 5000
  tidegate rules override set api per-user user=mallory --limit 0 --reason 'blocked'";

/// What to ask a control plane for, as it was typed.
#[derive(Debug)]
pub(crate) enum Action {
    Push { files: Files, terms: Terms },
    Diff { files: Files },
    Single { ask: Single, terms: Terms },
    Get(Get),
    History(History),
    Watch { form: Form },
    Export { path: Option<PathBuf> },
    Backup { path: Option<PathBuf> },
    Import { path: PathBuf, terms: Terms },
    Restore { path: PathBuf, terms: Terms },
    ShadowReport(ShadowReport),
}

#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) path: PathBuf,
    pub(crate) replaces_all: bool,
    pub(crate) prunes_overrides: bool,
}

/// Upon which version, why, and whether anybody is asked.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) if_version: Option<u64>,
    pub(crate) reason: Option<String>,
    pub(crate) is_confirmed: bool,
}

/// One change that isn't a file's.
#[derive(Debug)]
pub(crate) struct Single {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) body: Value,
    /// `name=value` each, of an override or a caller.
    pub(crate) attributes: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Get {
    pub(crate) namespace: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) with_overrides: bool,
    pub(crate) form: Form,
}

#[derive(Debug)]
pub(crate) struct History {
    pub(crate) version: Option<u64>,
    pub(crate) namespace: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) before: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) form: Form,
}

#[derive(Debug)]
pub(crate) struct ShadowReport {
    /// Of nodes' admin listeners.
    pub(crate) admin: Vec<String>,
    pub(crate) form: Form,
}

impl Action {
    /// `None` for a command that asks no control plane.
    pub(crate) fn read(name: &str, matches: &ArgMatches) -> Option<Self> {
        Some(match name {
            "push" => Action::Push { files: files(matches), terms: terms(matches) },
            "diff" => Action::Diff { files: files(matches) },
            "get" => Action::Get(Get {
                namespace: text(matches, "namespace"),
                tenant: text(matches, "tenant"),
                with_overrides: matches.get_flag("overrides"),
                form: form(matches),
            }),
            "history" => Action::History(History {
                version: number(matches, "version"),
                namespace: text(matches, "namespace"),
                tenant: text(matches, "tenant"),
                before: number(matches, "before"),
                limit: number(matches, "limit"),
                form: form(matches),
            }),
            "watch" => Action::Watch { form: form(matches) },
            "rollback" => {
                let body = json!({ "version": number(matches, "version") });
                single(matches, "POST", "/v1/rules/rollback", body)
            }
            "mode" => single(matches, "POST", "/v1/rules/mode", json!({ "mode": text(matches, "mode") })),
            "reset" => single(matches, "POST", "/v1/rules/reset", about_caller(matches)),
            "override" => match matches.subcommand()? {
                ("set", matches) => single(matches, "PUT", "/v1/overrides", set_override(matches)),
                (_, matches) => single(matches, "DELETE", "/v1/overrides", about_caller(matches)),
            },
            "export" => Action::Export { path: path(matches) },
            "backup" => Action::Backup { path: path(matches) },
            "import" => Action::Import { path: path(matches)?, terms: terms(matches) },
            "restore" => Action::Restore { path: path(matches)?, terms: terms(matches) },
            "shadow-report" => Action::ShadowReport(ShadowReport {
                admin: matches.get_many::<String>("admin").into_iter().flatten().cloned().collect(),
                form: form(matches),
            }),
            _ => return None,
        })
    }
}

fn single(matches: &ArgMatches, method: &'static str, path: &'static str, body: Value) -> Action {
    let attributes = matches.try_get_many::<String>("attributes").ok().flatten().into_iter().flatten();
    let ask = Single { method, path, body, attributes: attributes.cloned().collect() };
    Action::Single { ask, terms: terms(matches) }
}

/// The attributes are added when they are read.
fn about_caller(matches: &ArgMatches) -> Value {
    let mut body = json!({
        "namespace": text(matches, "namespace"),
        "override": { "rule": text(matches, "rule") },
    });
    if let Some(tenant) = text(matches, "tenant") {
        body["tenant"] = tenant.into();
    }
    body
}

fn set_override(matches: &ArgMatches) -> Value {
    let mut body = about_caller(matches);
    let mut entry = Map::new();
    for name in ["limit", "rate", "burst", "until"] {
        if let Some(value) = text(matches, name) {
            entry.insert(name.to_owned(), value.into());
        }
    }
    for name in ["unlimited", "hot"] {
        if matches.get_flag(name) {
            entry.insert(name.to_owned(), true.into());
        }
    }
    if let Value::Object(fields) = &mut body["override"] {
        fields.extend(entry);
    }
    body
}

fn files(matches: &ArgMatches) -> Files {
    Files {
        path: path(matches).unwrap_or_default(),
        replaces_all: matches.get_flag("all"),
        prunes_overrides: matches.get_flag("prune-overrides"),
    }
}

fn terms(matches: &ArgMatches) -> Terms {
    Terms {
        if_version: number(matches, "if-version"),
        reason: text(matches, "reason"),
        is_confirmed: matches.get_flag("yes"),
    }
}

fn text(matches: &ArgMatches, id: &str) -> Option<String> {
    matches.try_get_one::<String>(id).ok().flatten().cloned()
}

fn number(matches: &ArgMatches, id: &str) -> Option<u64> {
    matches.try_get_one::<u64>(id).ok().flatten().copied()
}

fn path(matches: &ArgMatches) -> Option<PathBuf> {
    matches.try_get_one::<PathBuf>("path").ok().flatten().cloned()
}

fn form(matches: &ArgMatches) -> Form {
    if matches.get_flag("json") { Form::Json } else { Form::Text }
}

pub(crate) fn commands() -> Vec<Clap> {
    let command = |name: &'static str, about: &'static str| Clap::new(name).about(about).args(whom_args());
    let changing = |name: &'static str, about: &'static str| command(name, about).args(terms_args());
    let version = number_arg("version", "VERSION", "as `tidegate rules history` shows it");
    vec![
        changing("push", "Put rules files in force").after_help(PUSH_NOTE).args(files_args()),
        command("diff", "Say what pushing rules files would change").after_help(DIFF_NOTE).args(files_args()),
        command("get", "Print the rules in force, overrides included, as a file that `push` takes")
            .arg(Arg::new("namespace").value_name("NAMESPACE").help("only these [all]"))
            .args([
                tenant_arg(),
                flag("overrides", "print only a namespace's overrides, as JSON lines"),
                json_arg(),
            ]),
        command("history", "List who changed the rules, when and why; or what one version changed")
            .arg(version.clone())
            .arg(value("namespace", "NAME", "only of this namespace"))
            .args([tenant_arg(), json_arg()])
            .arg(number_arg("before", "VERSION", "only older ones").long("before"))
            .arg(number_arg("limit", "N", "so many [50]").long("limit")),
        changing("rollback", "Go back to the rules of a version, as a new version")
            .arg(version.required(true)),
        command("watch", "Print changes as they come").arg(json_arg()),
        command("export", "Print the rules in force, overrides included, as JSON lines")
            .arg(path_arg("to a file [stdout]")),
        changing("import", "Take over lines of an export").arg(path_arg("the file").required(true)),
        command("backup", "Print every version as JSON lines").arg(path_arg("to a file [stdout]")),
        changing("restore", "Take over a backup, into an empty store")
            .arg(path_arg("the file").required(true)),
        overrides(&changing),
        changing("mode", "Set the fleet's mode: what all rules do")
            .arg(Arg::new("mode").value_name("MODE").required(true).help("enforce, shadow or off")),
        changing("reset", "Start a caller afresh on every node").args(caller_args()),
        Clap::new("shadow-report")
            .about("Say which callers rules with `shadow: true` would have denied")
            .args(whom_args().into_iter().filter(|arg| arg.get_id() != "url"))
            .arg(
                value(
                    "admin",
                    "URL",
                    "a node's admin listener; once for each node [the setting listen.admin]",
                )
                .action(ArgAction::Append),
            )
            .arg(json_arg()),
    ]
}

fn overrides(changing: &impl Fn(&'static str, &'static str) -> Clap) -> Clap {
    let set = changing("set", "Set one override").after_help(OVERRIDE_NOTE).args(caller_args()).args([
        value("limit", "N", "another limit; 0 blocks"),
        value("rate", "RATE", "another rate, such as 100/s"),
        value("burst", "N", "another burst"),
        value("until", "INSTANT", "ends by itself, such as 2026-12-01T00:00:00Z"),
        flag("unlimited", "no limit"),
        flag("hot", "a key with very many requests"),
    ]);
    Clap::new("override")
        .about("Set or remove one override")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(set)
        .subcommand(changing("remove", "Remove one override").args(caller_args()))
}

fn whom_args() -> Vec<Arg> {
    vec![
        Arg::new("url")
            .long("control")
            .value_name("URL")
            .help("the control plane's address [the setting control.listen]"),
        value("token", "TOKEN", "[TIDEGATE_TOKEN, or the file that TIDEGATE_TOKEN_FILE names]"),
        value("ca", "PATH", "for https: the authority that signed its certificate, PEM")
            .value_parser(value_parser!(PathBuf)),
    ]
}

fn terms_args() -> Vec<Arg> {
    vec![
        flag("yes", "don't ask before anything changes"),
        number_arg("if-version", "VERSION", "only if the rules are at this version").long("if-version"),
        value("reason", "TEXT", "why, for the history"),
    ]
}

fn files_args() -> Vec<Arg> {
    vec![
        path_arg("a rules file or a directory; `-`: from stdin").required(true),
        flag("all", "replace everything: namespaces that the files don't name go"),
        flag("prune-overrides", "remove the overrides that the files don't list"),
        // What earlier releases had to be told.
        flag("keep-overrides", "overrides that the files don't list stay")
            .hide(true)
            .conflicts_with("prune-overrides"),
    ]
}

fn caller_args() -> Vec<Arg> {
    vec![
        Arg::new("namespace").value_name("NAMESPACE").required(true).help("the rules' namespace"),
        Arg::new("rule").value_name("RULE").required(true).help("the rule's name"),
        Arg::new("attributes").value_name("k=v").num_args(0..).help("who, such as user=42 or user='acme-*'"),
        tenant_arg(),
    ]
}

fn tenant_arg() -> Arg {
    value("tenant", "NAME", "whose rules [the token's]")
}

fn json_arg() -> Arg {
    flag("json", "print JSON")
}

fn path_arg(help: &'static str) -> Arg {
    Arg::new("path").value_name("PATH").value_parser(value_parser!(PathBuf)).help(help)
}

fn value(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value_name).help(help)
}

fn number_arg(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value_name).value_parser(value_parser!(u64)).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}
