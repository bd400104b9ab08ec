//! Known keys are decided over the Redis protocol without allocating, from the read to the write.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::clock::Clock;
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::RuleSet;
use tidegate_server::{App, Surface, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;

struct Counting;

/// Of the thread that answers.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

#[allow(unsafe_code)]
// SAFETY: hands everything to the system's allocator; the flag is a thread-local cell without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_COUNTED.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn app() -> Arc<App> {
    let secret = FleetSecret::BUILT_IN;
    let rules = RuleSet::parse(&[], &secret).expect("no rules are valid");
    let (clock, _) = Clock::manual(Nanos::from_secs(1_800_000_000));
    let engine = Engine::new(EngineOptions { secret, keys_max: 100_000 }, rules);
    Arc::new(App::new(Arc::new(engine), Arc::new(clock)))
}

/// Sends the same pipeline again and again, each time it was answered; says what the server allocated for all
/// but the first ones.
fn drive(address: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let command = |key: u32| {
        let words = ["CL.THROTTLE", &format!("key-{key:0100}"), "999999", "1", "60"].map(word);
        format!("*5\r\n{}", words.concat())
    };
    let pipeline: String = (0..50).map(command).collect();
    let mut round = || {
        stream.write_all(pipeline.as_bytes()).unwrap();
        let (mut lines, mut buffer) = (0, [0; 16 << 10]);
        while lines < 50 * 6 {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the server hung up");
            lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
        }
    };
    // Until the sample of who comes often has met those that it meets.
    (0..200).for_each(|_| round());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(before > 0, "nothing is counted");
    (0..500).for_each(|_| round());
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn a_pipeline_of_known_keys_allocates_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (stop, stopped) = watch::channel(false);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let driver = std::thread::spawn(move || {
        let allocations = drive(address);
        stop.send_replace(true);
        allocations
    });
    IS_COUNTED.set(true);
    runtime.block_on(serve(listener.into(), Surface::Resp, app(), stopped, Duration::from_secs(5)));
    IS_COUNTED.set(false);
    assert_eq!(driver.join().unwrap(), 0);
}
