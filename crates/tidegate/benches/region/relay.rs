//! The floor of a check that asks Redis, on this machine: a thread that takes a request, has Redis keep one key,
//! and answers a constant. It decides nothing, and where requests wait it sends them together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

const KEPT: &[u8] = b"+OK\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n\
    {\"allowed\":true,\"path\":\"x\"}";
const WAITING_MAX: usize = 1024;

pub(crate) struct Relay {
    pub(crate) socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Relay {
    pub(crate) fn start(redis: SocketAddr) -> Result<Self, String> {
        let socket = std::env::temp_dir().join(format!("tidegate-relay-{}", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let listener = std::os::unix::net::UnixListener::bind(&socket).map_err(|error| error.to_string())?;
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = relay(listener, redis) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Relay { socket, stop: Some(stop), thread: Some(thread) })
    }
}

async fn relay(listener: std::os::unix::net::UnixListener, redis: SocketAddr) {
    let listener = UnixListener::from_std(listener).expect("a listener");
    let redis = TcpStream::connect(redis).await.expect("redis listens");
    redis.set_nodelay(true).expect("an option");
    let (ask, asked) = mpsc::channel(WAITING_MAX);
    tokio::spawn(keep(redis, asked));
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(answer(stream, ask.clone()));
    }
}

/// Has a key kept for each that asks, all that wait in one write.
async fn keep(mut redis: TcpStream, mut asked: mpsc::Receiver<oneshot::Sender<()>>) {
    let (mut waiting, mut number) = (Vec::new(), 0_u64);
    while asked.recv_many(&mut waiting, WAITING_MAX).await > 0 {
        let mut commands = String::new();
        for _ in &waiting {
            number += 1;
            let key = format!("relay-{number:020}");
            commands +=
                &format!("*5\r\n$3\r\nSET\r\n$26\r\n{key}\r\n$1\r\n1\r\n$2\r\nPX\r\n$6\r\n120000\r\n");
        }
        let mut replies = vec![0; KEPT.len() * waiting.len()];
        let exchanged = async {
            redis.write_all(commands.as_bytes()).await?;
            redis.read_exact(&mut replies).await
        };
        exchanged.await.expect("redis answers");
        assert!(replies.chunks(KEPT.len()).all(|reply| reply == KEPT), "redis keeps every key");
        for asker in waiting.drain(..) {
            let _ = asker.send(());
        }
    }
}

/// One request after the other.
async fn answer(mut stream: UnixStream, ask: mpsc::Sender<oneshot::Sender<()>>) {
    let mut room = [0; 4096];
    while let Ok(1..) = stream.read(&mut room).await {
        let (kept, is_kept) = oneshot::channel();
        if ask.send(kept).await.is_err() || is_kept.await.is_err() || stream.write_all(ANSWER).await.is_err()
        {
            return;
        }
    }
}
