//! The rules that a node starts with, and the watch that keeps them up to date.
//!
//! At the start bad rules are an error: later ones are refused by the watch, and the old ones stay.

use crate::failure::Failure;
use crate::followed::Followed;
use crate::output::counted;
use crate::settings::{RULES_FILE, Settings};
use crate::supervisor::Supervisor;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_control::stream::FollowView;
use tidegate_node::driver::{RulesWatch, Tenancy, log_warnings, watch_rules};
use tidegate_rules::envoy::Windows;
use tidegate_rules::{RuleSet, read_sources};
use tidegate_server::App;

/// How often the default rules file is looked for where there is none.
const POLL_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct RulesAtStart {
    pub(crate) set: RuleSet,
    pub(crate) watch: Watch,
    shown_path: Option<String>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per process")]
pub(crate) enum Watch {
    Changes(RulesWatch, Tenancy),
    /// Nothing was set and nothing was there: whoever follows the banner creates it while the node runs.
    Creation(Windows, Tenancy),
    /// Rules come from a control plane.
    Control(Followed),
}

impl RulesAtStart {
    pub(crate) fn read(settings: &Settings, tenancy: Tenancy) -> Result<Self, Failure> {
        let (windows, secret) = (settings.envoy_windows, &settings.fleet_secret());
        if let Some(servers) = &settings.rules_control {
            let (followed, set) = Followed::begin(settings, servers, tenancy)?;
            let shown_path = Some(format!("{servers}, version {}", set.version()));
            return Ok(RulesAtStart { set, watch: Watch::Control(followed), shown_path });
        }
        let Some(path) = settings.rules_file.as_deref() else {
            let watch = Watch::Creation(windows, tenancy);
            return Ok(RulesAtStart { set: RuleSet::empty(), watch, shown_path: None });
        };
        let sources = read_sources(path)?;
        let set = RuleSet::parse_as(&sources, secret, windows)?;
        log_warnings(&set, tenancy);
        let watch = RulesWatch::new(path.to_owned(), &sources).with_windows(windows);
        let watch = Watch::Changes(watch, tenancy);
        Ok(RulesAtStart { set, watch, shown_path: Some(path.display().to_string()) })
    }
}

/// For the banner.
impl fmt::Display for RulesAtStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(path) = &self.shown_path else {
            return write!(f, "none (create {RULES_FILE}, or send limits with each request)");
        };
        let counts = self.set.counts();
        let rules = counted(counts.rules, "rule");
        write!(f, "{path}: {rules} in {}", counted(counts.namespaces, "namespace"))?;
        if counts.overrides > 0 {
            write!(f, ", {}", counted(counts.overrides, "override"))?;
        }
        Ok(())
    }
}

impl Watch {
    /// The file or directory that the rules come from, or would; `None` where a control plane has them.
    pub(crate) fn path(&self) -> Option<String> {
        let path = match self {
            Watch::Control(_) => return None,
            Watch::Changes(watch, _) => watch.path(),
            Watch::Creation(..) => Path::new(RULES_FILE),
        };
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Some(whole.display().to_string())
    }

    /// How a control plane is followed, if one is.
    pub(crate) fn view(&self) -> Option<Arc<FollowView>> {
        match self {
            Watch::Control(followed) => Some(followed.view()),
            Watch::Changes(..) | Watch::Creation(..) => None,
        }
    }

    /// Until the future is dropped.
    pub(crate) async fn run(self, app: Arc<App>, supervisor: Supervisor) {
        let engine = app.engine.clone();
        let (watch, tenancy) = match self {
            Watch::Control(followed) => return followed.run(app, supervisor).await,
            Watch::Changes(watch, tenancy) => (watch, tenancy),
            Watch::Creation(windows, tenancy) => {
                let mut tick = tokio::time::interval(POLL_EVERY);
                while !Path::new(RULES_FILE).exists() {
                    tick.tick().await;
                }
                (RulesWatch::new(RULES_FILE.into(), &[]).with_windows(windows), tenancy)
            }
        };
        watch_rules(engine, watch, tenancy).await;
    }
}
