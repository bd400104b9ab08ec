//! What `tidegate why` takes.

use super::{Options, Typed};
use crate::ask::Form;
use clap::{Arg, ArgAction, ArgMatches, Command as Clap, value_parser};
use std::path::PathBuf;
use tidegate_decisions::RECORDS_MAX;
use tidegate_node::journal::log_query::LogQuery;

const NOTE: &str =
    "WHO is a caller as any output shows it ('alice,/search'), one value of it (alice, user=alice), the
hash that `why` prints, or the name of a rule.
Exit code: 0 found, 1 nothing found, 2 error. Times are UTC. For example:
  tidegate why alice --at 03:47
  tidegate why user=alice endpoint=/search
  tidegate why --rule per-user --since 10m --log data/decisions";

/// Decisions that are put together for people, unless they say how many.
const GROUPED_MAX: usize = 200;

pub(crate) fn command(asker: [Arg; 2]) -> Clap {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let limit = Arg::new("limit").long("limit").value_name("N").value_parser(value_parser!(u64));
    let log = Arg::new("log").long("log").value_name("DIR").value_parser(value_parser!(PathBuf));
    Clap::new("why")
        .about("Say why callers were denied")
        .after_help(NOTE)
        .args([
            Arg::new("who").value_name("WHO").num_args(0..).help("the caller").conflicts_with("identifier"),
            text("identifier", "WHO", "the same"),
            text("rule", "NAME", "only this rule"),
            text("namespace", "NAME", "only this namespace"),
            text("tenant", "NAME", "only this tenant"),
            text("request-id", "ID", "the request, by its X-Request-Id"),
            text("at", "TIME", "around this time: 03:47, 2026-11-16T03:47:00Z, or 10m ago"),
            text("since", "TIME", "not before"),
            text("until", "TIME", "not after"),
            flag("admissions", "also the sample of requests that passed"),
            limit.help("at most so many decisions [200, with --json 20]"),
            text(
                "admin",
                "URL",
                "a node's admin listener; several are put together [the setting listen.admin]",
            )
            .action(ArgAction::Append),
            text("control", "URL", "a broker or control plane: all nodes that follow it")
                .conflicts_with("admin"),
            log.help("read the log's files instead of asking a node")
                .conflicts_with_all(["admin", "control"]),
            flag("json", "print it as JSON"),
        ])
        .args(asker)
}

pub(crate) fn options(matches: &ArgMatches) -> Options {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let limit = matches.get_one::<u64>("limit").and_then(|limit| usize::try_from(*limit).ok());
    let who: Vec<&str> =
        matches.get_many::<String>("who").into_iter().flatten().map(String::as_str).collect();
    let is_json = matches.get_flag("json");
    let records_max = if is_json { LogQuery::default().records_max } else { GROUPED_MAX };
    let query = LogQuery {
        tenant: text("tenant"),
        namespace: text("namespace"),
        rule: text("rule"),
        identifier: text("identifier").or_else(|| (!who.is_empty()).then(|| who.join(" "))),
        request_id: text("request-id"),
        admissions: matches.get_flag("admissions"),
        records_max: limit.map_or(records_max, |limit| limit.clamp(1, RECORDS_MAX)),
        ..LogQuery::default()
    };
    Options {
        query,
        typed: Typed { at: text("at"), since: text("since"), until: text("until") },
        admin: matches.get_many::<String>("admin").into_iter().flatten().cloned().collect(),
        control: text("control"),
        log: matches.get_one::<PathBuf>("log").cloned(),
        form: if is_json { Form::Json } else { Form::Text },
    }
}
