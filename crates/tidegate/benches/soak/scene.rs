//! Everything that runs: three regions of two nodes, a Redis and a broker each, one database and one control plane, and
//! a proxy on every way between them.

use crate::ledger::Ledger;
use crate::load::secret;
use crate::running::{Running, free_address, push, version_of};
use crate::subject::{WINDOW_LIMITS, rules};
use crate::time::poll;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_testkit::{FaultProxy, MariaDb, Redis};
use tokio::runtime::{Builder, Runtime};

pub(crate) const REGIONS: usize = 3;
pub(crate) const NODES_PER_REGION: usize = 2;
pub(crate) const NODES: usize = REGIONS * NODES_PER_REGION;
const NAMES: [&str; REGIONS] = ["east", "north", "west"];
/// The counts' and the rules' own, as operators would have them.
const DATABASES: [&str; 2] = ["counts", "rules"];
/// What the world database has of counts: the table, and the log of publishes.
const BACKED_UP: [&str; 2] = ["tidegate_counts", "tidegate_publishes"];
/// Regions join one after the other, and each waits for the others to know.
const JOINED_WITHIN: Duration = Duration::from_secs(90);

pub(crate) fn region_of(node: usize) -> usize {
    node / NODES_PER_REGION
}

/// The other node of its region.
pub(crate) fn sibling(node: usize) -> usize {
    node ^ 1
}

#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) name: &'static str,
    // Nodes end before what they use.
    pub(crate) nodes: Vec<Mutex<Running>>,
    pub(crate) broker: Mutex<Running>,
    pub(crate) redis: Redis,
    /// A way for each node.
    pub(crate) to_redis: Vec<FaultProxy>,
    pub(crate) to_database: FaultProxy,
    pub(crate) to_broker: FaultProxy,
    pub(crate) to_control: FaultProxy,
    /// What a node that joins later is started with: straight to the stores, past the proxies.
    joining: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) regions: Vec<Region>,
    pub(crate) control: Mutex<Running>,
    pub(crate) control_to_database: FaultProxy,
    pub(crate) database: MariaDb,
    runtime: Runtime,
}

impl Scene {
    /// Everything runs, all regions share limits, and all nodes have the rules.
    pub(crate) fn start() -> Result<Self, String> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let database = runtime.block_on(MariaDb::start());
        DATABASES.iter().for_each(|name| database.create_database(name));
        let control_to_database = runtime.block_on(FaultProxy::start(database.address()));
        let store = url_through(&database, DATABASES[1], &control_to_database);
        let control = started(server(&["--store", &store]))?;
        push(&control, &rules(WINDOW_LIMITS[0]))?;
        let regions: Result<Vec<Region>, String> =
            NAMES.iter().map(|name| Region::start(&runtime, name, &database, control.address)).collect();
        let control = Mutex::new(control);
        let scene = Scene { regions: regions?, control, control_to_database, database, runtime };
        scene.wait_joined()?;
        Ok(scene)
    }

    fn wait_joined(&self) -> Result<(), String> {
        let mut ledger = self.ledger()?;
        poll("three regions that share limits", JOINED_WITHIN, || {
            let sharing = ledger.owners()?.iter().filter(|owner| owner.shares_all).count();
            (sharing == REGIONS).then_some(())
        })
        .map_err(|problem| format!("{problem}\n{}", self.logs()))?;
        poll("nodes that have the rules", JOINED_WITHIN, || {
            (0..NODES).all(|node| self.version(node).is_some_and(|version| version > 0)).then_some(())
        })
        .map_err(|problem| format!("{problem}\n{}", self.logs()))
    }

    pub(crate) fn ledger(&self) -> Result<Ledger, String> {
        Ledger::open(&self.database.url(DATABASES[0]))
    }

    pub(crate) fn node(&self, node: usize) -> MutexGuard<'_, Running> {
        locked(&self.regions[region_of(node)].nodes[node % NODES_PER_REGION])
    }

    /// Starts one more node in a region, which knows nothing yet.
    pub(crate) fn cold_node(&self, region: usize) -> Result<Running, String> {
        let flags: Vec<&str> = self.regions[region].joining.iter().map(String::as_str).collect();
        started(node(&flags))
    }

    /// Copies the counts of the world database, as a backup does.
    pub(crate) fn back_up_database(&self) {
        for table in BACKED_UP {
            let statements = format!(
                "DROP TABLE IF EXISTS backup_{table}; CREATE TABLE backup_{table} AS SELECT * FROM {table};"
            );
            self.database.query(DATABASES[0], &statements);
        }
    }

    /// Goes back to the backup.
    pub(crate) fn restore_database(&self) {
        for table in BACKED_UP {
            let statements =
                format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM backup_{table};");
            self.database.query(DATABASES[0], &statements);
        }
    }

    /// Where nodes are asked for decisions.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        (0..NODES).map(|node| self.node(node).http).collect()
    }

    /// The rules that a node goes by.
    pub(crate) fn version(&self, node: usize) -> Option<u64> {
        let mut client = self.node(node).client().ok()?;
        version_of(&mut client).ok()
    }

    /// The rules that the control plane has.
    pub(crate) fn head(&self) -> Option<u64> {
        locked(&self.control).client().ok()?.get("/v1/rules").ok()?["version"].as_u64()
    }

    /// Does what the test kit does, to its end. For the thread that makes trouble.
    pub(crate) fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The end of what every process said.
    pub(crate) fn logs(&self) -> String {
        let mut texts = vec![format!("control plane:\n{}", tail(&locked(&self.control).log()))];
        for (region, place) in self.regions.iter().zip(0..) {
            texts.push(format!("broker of {}:\n{}", region.name, tail(&locked(&region.broker).log())));
            for node in 0..NODES_PER_REGION {
                let log = tail(&self.node(NODES_PER_REGION * place + node).log());
                texts.push(format!("node {node} of {}:\n{log}", region.name));
            }
        }
        texts.join("\n")
    }
}

impl Region {
    fn start(
        runtime: &Runtime,
        name: &'static str,
        database: &MariaDb,
        control: SocketAddr,
    ) -> Result<Self, String> {
        let proxy = |upstream| runtime.block_on(FaultProxy::start(upstream));
        let redis = runtime.block_on(Redis::start());
        let to_redis: Vec<FaultProxy> = (0..NODES_PER_REGION).map(|_| proxy(redis.address())).collect();
        let (to_database, to_control) = (proxy(database.address()), proxy(control));
        let broker = started(server(&["--upstream", &format!("http://{}", to_control.address())]))?;
        let to_broker = proxy(broker.address);
        let world = url_through(database, DATABASES[0], &to_database);
        let rules = format!("http://{}", to_broker.address());
        let node = |way: &FaultProxy| {
            let origin = format!("redis://{}", way.address());
            let flags =
                ["--region", name, "--origin-url", &origin, "--world-url", &world, "--rules-control", &rules];
            started(node(&flags)).map(Mutex::new)
        };
        let nodes = to_redis.iter().map(node).collect::<Result<_, _>>()?;
        let joining =
            ["--region", name, "--origin-url", &redis.url(), "--world-url", &world, "--rules-control"];
        let joining = joining.into_iter().chain([&*rules]).map(str::to_owned).collect();
        let broker = Mutex::new(broker);
        Ok(Region { name, nodes, broker, redis, to_redis, to_database, to_broker, to_control, joining })
    }
}

fn node(flags: &[&str]) -> Running {
    let [http, admin] = [free_address(), free_address()];
    let (http_text, admin_text) = (http.to_string(), admin.to_string());
    let mut words = vec!["serve", "--listen-http", &http_text, "--listen-admin", &admin_text];
    words.extend(["--listen-grpc", "127.0.0.1:0", "--listen-resp", "127.0.0.1:0"]);
    words.extend(["--cluster-secret-file", secret::FILE]);
    words.extend(flags);
    Running::new(words.into_iter().map(str::to_owned).collect(), admin, http)
}

fn server(flags: &[&str]) -> Running {
    let address = free_address();
    let listen = address.to_string();
    let words = ["control", "--listen", &listen].iter().chain(flags).map(ToString::to_string).collect();
    Running::new(words, address, address)
}

/// The variables that set a process's wall clock off, by Debian's package faketime.
pub(crate) fn clock_off_by(offset_ms: i64) -> Result<Vec<(&'static str, String)>, String> {
    let libraries = std::fs::read_dir("/usr/lib").map_err(|error| error.to_string())?.flatten();
    let mut found = libraries.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let library = found.find(|path| path.exists()).ok_or("Debian's package faketime isn't installed")?;
    let sign = if offset_ms < 0 { '-' } else { '+' };
    let offset = Duration::from_millis(offset_ms.unsigned_abs()).as_secs_f64();
    Ok(vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", format!("{sign}{offset}")),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ])
}

fn started(mut process: Running) -> Result<Running, String> {
    process.start()?;
    Ok(process)
}

fn url_through(database: &MariaDb, name: &str, way: &FaultProxy) -> String {
    database.url(name).replace(&database.address().to_string(), &way.address().to_string())
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
