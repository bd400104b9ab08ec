//! Nothing outlives a test: neither a server that is dropped, nor one whose test process is killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tidegate_testkit::{Process, Redis, guarded, until};

/// Set for the process that is about to be killed: where it tells of its server.
const TELL: &str = "TIDEGATE_TESTKIT_TELL";
const SOON: Duration = Duration::from_secs(10);

/// Whether it runs. One that has ended may stay listed until its parent asks: `process-id (name) Z …`.
fn is_there(process_id: u32) -> bool {
    let entry = std::fs::read_to_string(Path::new("/proc").join(process_id.to_string()).join("stat"));
    entry.is_ok_and(|entry| !entry.contains(") Z "))
}

#[tokio::test]
async fn a_dropped_server_is_gone_with_its_directory() {
    let redis = Redis::start().await;
    let (process_id, socket) = (redis.process_id(), redis.unix_path());
    assert!(is_there(process_id) && socket.exists());
    // The kernel doesn't deliver anything but SIGKILL to a stopped process.
    redis.stop();
    drop(redis);
    assert!(!is_there(process_id) && !socket.parent().unwrap().exists());
}

#[tokio::test]
async fn a_server_outlives_the_thread_that_started_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = std::thread::spawn(move || runtime().block_on(Redis::start())).join().unwrap();
    redis.demand(&["PING"]).await;
}

/// Not a test by itself: what `a_killed_test_process_leaves_nothing_behind` kills.
#[tokio::test]
async fn start_a_server_and_wait_to_be_killed() {
    let Some(tell) = std::env::var_os(TELL) else { return };
    let redis = Redis::start().await;
    std::fs::write(tell, redis.process_id().to_string()).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_test_process_leaves_nothing_behind() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tell = folder.join("process-id");
    let mut command: Command = guarded(std::env::current_exe().unwrap());
    command.args(["--exact", "start_a_server_and_wait_to_be_killed"]).stdout(Stdio::null());
    // Nobody drops the directory of what is killed: it goes with ours. In /tmp, for its short path.
    let temporary = std::env::temp_dir().join(format!("tidegate-killed-{}", std::process::id()));
    std::fs::create_dir_all(&temporary).unwrap();
    command.env(TELL, &tell).env("TMPDIR", &temporary);
    let tests = Process::spawn(command).unwrap();
    let server = until("a server of the other process", SOON, || async {
        std::fs::read_to_string(&tell).ok()?.parse::<u32>().ok()
    })
    .await;
    assert!(is_there(server));
    tests.kill();
    until("the server's end", SOON, || async { (!is_there(server)).then_some(()) }).await;
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_dir_all(temporary).unwrap();
}
