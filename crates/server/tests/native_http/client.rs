//! A small HTTP/1.1 client that can also send what isn't HTTP.

use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Client {
    stream: TcpStream,
    /// Read, but not yet part of a reply.
    pending: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, pending: Vec::new() }
    }

    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Reply {
        self.send(&post_bytes(path, body)).await;
        self.reply().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await;
        self.reply().await
    }

    /// A server may have answered and closed before it took everything: that is no failure.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    pub(crate) async fn close_write(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        let mut reply = self.head().await.expect("the server closed the connection without an answer");
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.pending.len() < length {
            assert!(self.read_more().await, "the server closed the connection within an answer");
        }
        reply.body = self.pending.drain(..length).collect();
        reply
    }

    /// A reply's head; `None` when the server closed the connection.
    pub(crate) async fn head(&mut self) -> Option<Reply> {
        let end = loop {
            if let Some(end) = self.pending.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if !self.read_more().await {
                return None;
            }
        };
        let head = String::from_utf8(self.pending.drain(..end).collect()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        };
        Some(Reply { status, headers: lines.filter_map(header).collect(), body: Vec::new() })
    }

    pub(crate) async fn is_closed(&mut self) -> bool {
        self.pending.is_empty() && !self.read_more().await
    }

    async fn read_more(&mut self) -> bool {
        self.stream.read_buf(&mut self.pending).await.is_ok_and(|count| count > 0)
    }
}

pub(crate) fn post_bytes(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}
