//! One kept connection that speaks JSON over HTTP.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(ANSWER_WITHIN)).map_err(|error| error.to_string())?;
        Ok(Client(BufReader::new(stream)))
    }

    /// The status and the body.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Value), String> {
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
        self.0.get_mut().write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        self.read().map_err(|error| format!("no answer to {method} {path}: {error}"))
    }

    fn read(&mut self) -> std::io::Result<(u16, Value)> {
        let (mut line, mut status, mut length) = (String::new(), 0, 0);
        while line != "\r\n" {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let lower = line.to_ascii_lowercase();
            if let Some(rest) = lower.strip_prefix("http/1.1 ") {
                status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
            }
            if let Some(rest) = lower.strip_prefix("content-length:") {
                length = rest.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<Value, String> {
        self.ask("GET", path, "").map(|(_, body)| body)
    }

    /// The version that a change made.
    pub(crate) fn change(&mut self, method: &str, path: &str, body: &Value) -> Result<u64, String> {
        let (status, answer) = self.ask(method, path, &body.to_string())?;
        match answer["version"].as_u64() {
            Some(version) if status == 200 => Ok(version),
            _ => Err(format!("{method} {path}: {status} {answer}")),
        }
    }
}
