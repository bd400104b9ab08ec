//! `INFO`: which server this is and what it has counted, in Redis' form.

use super::REDIS_VERSION;
use crate::App;
use crate::counters::COUNTERS;
use crate::resp::login::Login;
use crate::resp::reply;
use std::fmt::Write;

pub(super) fn write(app: &App, login: &Login, out: &mut Vec<u8>) {
    reply::bulk(out, text(app, login).as_bytes());
}

fn text(app: &App, login: &Login) -> String {
    let mut text = format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\ntidegate_version:{}\r\nredis_mode:standalone\r\n\
         process_id:{}\r\ntidegate_node:{}\r\ntidegate_region:{}\r\n\r\n\
         # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        app.node,
        app.region,
    );
    if !login.is_operator() {
        return text;
    }
    text.push_str("# Stats\r\n");
    for (name, count) in app.engine.stats().counts_by_name().into_iter().chain(COUNTERS.counts_by_name()) {
        // Writing to a string can't fail.
        let _ = write!(text, "{name}:{count}\r\n");
    }
    let _ = write!(text, "rule_version:{}\r\n", app.engine.rules().version);
    text
}
