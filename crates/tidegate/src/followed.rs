//! A node that follows a control plane: its directory, its thread, and the bar that shows how the first load goes.

use crate::failure::Failure;
use crate::settings::Settings;
use crate::supervisor::Supervisor;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tidegate_control::stream::{
    Endpoints, FollowOptions, FollowView, FollowerRole, Identity, RuleStore, follow,
};
use tidegate_node::driver::Tenancy;
use tidegate_node::rules_driver::{RuleLoadOptions, RulesOnDisk, carry_out};
use tidegate_rules::RuleSet;
use tidegate_server::App;
use tokio::runtime::Builder;

/// How often the bar is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);
const BAR_CHARS: u64 = 30;

#[derive(Debug)]
pub(crate) struct Followed {
    on_disk: RulesOnDisk,
    options: FollowOptions,
    view: Arc<FollowView>,
}

/// Whom to follow, as whom.
pub(crate) fn options(settings: &Settings, servers: &Endpoints, role: FollowerRole) -> FollowOptions {
    let identity = Identity {
        node: settings.node.as_str().into(),
        region: settings.region.as_str().into(),
        software: env!("CARGO_PKG_VERSION").into(),
        role,
    };
    FollowOptions {
        identity,
        servers: servers.clone(),
        token: settings.token.clone(),
        seed: RandomState::new().hash_one("server"),
        feed: None,
        answering: None,
    }
}

/// Follows on a thread of its own, with a runtime of its own: a large snapshot takes seconds, and nobody else waits.
pub(crate) fn spawn(
    supervisor: &Supervisor,
    options: FollowOptions,
    mut rule_store: impl RuleStore + Send + 'static,
    view: Arc<FollowView>,
) {
    let watched = supervisor.watch("the rules follower");
    let follow = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(follow(options, &mut rule_store, &view)),
        Err(error) => tracing::error!(%error, "rules can't be followed: there is no runtime for it"),
    };
    let run = move || {
        let _watched = watched;
        follow();
    };
    if let Err(error) = thread::Builder::new().name("rules".to_owned()).spawn(run) {
        tracing::error!(%error, "rules can't be followed: there is no thread for it");
    }
}

impl Followed {
    /// And the rules that the directory has from before.
    pub(crate) fn begin(
        settings: &Settings,
        servers: &Endpoints,
        tenancy: Tenancy,
    ) -> Result<(Self, RuleSet), Failure> {
        let reading =
            RuleLoadOptions { secret: settings.fleet_secret(), windows: settings.envoy_windows, tenancy };
        let on_disk = RulesOnDisk::read(&settings.data_directory.join("rules"), reading)?;
        let set = on_disk.set.clone();
        if set.version() == 0 {
            tracing::warn!(
                "there are no rules yet: everything is allowed until a control plane has answered"
            );
        }
        let options = options(settings, servers, FollowerRole::Node);
        let view = FollowView::new(servers.clone(), set.version());
        Ok((Followed { on_disk, options, view }, set))
    }

    pub(crate) fn view(&self) -> Arc<FollowView> {
        self.view.clone()
    }

    /// Until the future is dropped; the thread lives for as long as the process.
    pub(crate) async fn run(self, app: Arc<App>, supervisor: Supervisor) {
        let Followed { on_disk, mut options, view } = self;
        options.answering = Some(tidegate_server::answers_questions(app.clone()));
        let (rule_store, ordered) = on_disk.rule_store(app.engine.clone());
        spawn(&supervisor, options, rule_store, view.clone());
        tokio::spawn(show_progress(view));
        carry_out(app.engine.clone(), app.clock.clone(), app.sharing.clone(), ordered).await;
    }
}

/// A bar on a terminal for as long as a snapshot is loaded.
pub(crate) async fn show_progress(view: Arc<FollowView>) {
    if !io::stderr().is_terminal() {
        return;
    }
    let mut tick = tokio::time::interval(DRAWN_EVERY);
    let mut is_drawn = false;
    loop {
        tick.tick().await;
        let loading = view.status().0.loading;
        let line = match loading {
            Some((have, total)) => bar(have, total),
            None if is_drawn => "\r\u{1b}[K".to_owned(),
            None => continue,
        };
        is_drawn = loading.is_some();
        // A terminal that is gone needs no bar.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

fn bar(have: u64, total: u64) -> String {
    let total = total.max(1);
    let filled = have.saturating_mul(BAR_CHARS) / total;
    let bar: String = (0..BAR_CHARS).map(|at| if at < filled { '█' } else { '░' }).collect();
    let (percent, megabytes, of) = (have.saturating_mul(100) / total, have >> 20, total >> 20);
    format!("\rloading rules {bar} {percent:>3} %, {megabytes} of {of} MiB\u{1b}[K")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up() {
        assert!(bar(0, 0).contains("  0 %"));
        assert!(bar(50 << 20, 100 << 20).contains("50 %, 50 of 100 MiB"));
        let full = bar(7, 7);
        assert!(full.contains("100 %") && !full.contains('░'), "{full}");
    }
}
