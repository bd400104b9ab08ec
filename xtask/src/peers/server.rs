//! A server that is measured: started on a free port of loopback, ended with its handle; its processor time and
//! memory as the kernel counts them.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Of `/proc/PID/stat`, on every Linux that there is.
const TICKS_PER_SECOND: f64 = 100.0;
const START_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// What it keeps, removed in the end.
    directory: PathBuf,
}

/// A directory of the system's for temporary files, for one server.
pub(super) fn directory(name: &str) -> Result<PathBuf, String> {
    let path = std::env::temp_dir().join(format!("tidegate-bench-{}-{name}", std::process::id()));
    fs::create_dir_all(&path).map_err(|error| format!("can't make {}: {error}", path.display()))?;
    Ok(path)
}

/// A port that nobody has at the moment.
pub(super) fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

impl Server {
    /// Starts a program in `directory`, and waits until it listens on all `ports`.
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        directory: PathBuf,
        ports: &[u16],
    ) -> Result<Self, String> {
        let shown = program.display();
        let log =
            fs::File::create(directory.join("log")).map_err(|error| format!("{shown}: no log: {error}"))?;
        let errors = log.try_clone().map_err(|error| format!("{shown}: no log: {error}"))?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("can't start {shown}: {error}"))?;
        let mut server = Server { child, directory };
        for port in ports {
            server.wait_for(*port).map_err(|problem| format!("{shown}: {problem}"))?;
        }
        Ok(server)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "another process can't be given a clock: polled, with a deadline"
    )]
    fn wait_for(&mut self, port: u16) -> Result<(), String> {
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) || Instant::now() > deadline {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                return Err(format!("doesn't listen on port {port}\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Seconds of processor time so far, of it and of its children (nginx has workers).
    pub(super) fn processor_seconds(&self) -> f64 {
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|id| id.parse().ok());
        std::iter::once(own).chain(children).map(ticks).sum::<f64>() / TICKS_PER_SECOND
    }

    /// Resident bytes.
    pub(super) fn resident_bytes(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kibibytes.unwrap_or(f64::NAN) * 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // By a signal that it can handle: nginx ends its workers.
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Seconds of processor time of our own children that have ended: generators.
pub(super) fn children_seconds() -> f64 {
    times("self", 13) / TICKS_PER_SECOND
}

/// User and system time of a process.
fn ticks(id: u32) -> f64 {
    times(&id.to_string(), 11)
}

/// Two fields of a process, in ticks.
fn times(id: &str, from: usize) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name before may have spaces in it.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').skip(from).take(2).filter_map(|field| field.parse::<f64>().ok()).sum()
}
