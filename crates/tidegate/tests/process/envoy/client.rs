//! A small gRPC client on h2: one connection, calls one after the other, nothing hidden. Its connection is
//! served only while a call waits.

use crate::envoy::proto::{Ask, Response};
use crate::support::SOON;
use h2::client::{Builder, SendRequest};
use http::Request;
use std::io::Cursor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;

pub(crate) const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

pub(crate) struct Client {
    runtime: Runtime,
    sender: SendRequest<Cursor<Vec<u8>>>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) http: u16,
    /// gRPC's code, wherever it stood.
    pub(crate) code: Option<u32>,
    /// Of a failed call, or of a denial because the request can't be judged.
    pub(crate) message: String,
    pub(crate) trace_parent: Option<String>,
    /// The bytes of the body, with their prefixes.
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: &str) -> Self {
        Self::over(tokio::net::TcpStream::connect(address.to_owned()))
    }

    pub(crate) fn connect_unix(path: &std::path::Path) -> Self {
        Self::over(tokio::net::UnixStream::connect(path))
    }

    fn over<S>(connecting: impl Future<Output = std::io::Result<S>>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sender = runtime.block_on(async {
            let stream = connecting.await.unwrap();
            let (sender, connection) = Builder::new().handshake(stream).await.unwrap();
            tokio::spawn(connection);
            sender
        });
        Client { runtime, sender }
    }

    /// A call whose body is sent in these pieces.
    pub(crate) fn send(&self, path: &str, pieces: &[&[u8]]) -> Reply {
        let request = Request::post(format!("http://node{path}")).header("content-type", "application/grpc");
        self.exchange(request.body(()).unwrap(), pieces)
    }

    pub(crate) fn exchange(&self, request: Request<()>, pieces: &[&[u8]]) -> Reply {
        let exchange = async {
            let mut sender = self.sender.clone().ready().await.unwrap();
            let (response, mut stream) = sender.send_request(request, false).unwrap();
            for (index, piece) in pieces.iter().enumerate() {
                // A server that has answered already doesn't take the rest.
                let _ = stream.send_data(Cursor::new(piece.to_vec()), index + 1 == pieces.len());
                tokio::task::yield_now().await;
            }
            if pieces.is_empty() {
                stream.send_data(Cursor::new(Vec::new()), true).unwrap();
            }
            let response = response.await.unwrap();
            let (head, mut incoming) = response.into_parts();
            let mut body = Vec::new();
            while let Some(Ok(piece)) = incoming.data().await {
                incoming.flow_control().release_capacity(piece.len()).unwrap();
                body.extend_from_slice(&piece);
            }
            let trailers = incoming.trailers().await.ok().flatten().unwrap_or_default();
            let header = |name: &str| {
                let value = head.headers.get(name).or_else(|| trailers.get(name));
                value.map(|value| value.to_str().unwrap().to_owned())
            };
            let code = header("grpc-status").map(|code| code.parse().unwrap());
            Reply {
                http: head.status.as_u16(),
                code,
                message: header("grpc-message").or_else(|| header("tidegate-error")).unwrap_or_default(),
                trace_parent: header("traceparent"),
                body,
            }
        };
        self.runtime.block_on(async { tokio::time::timeout(SOON, exchange).await }).expect("an answer")
    }

    pub(crate) fn ask(&self, ask: &Ask<'_>) -> Response {
        let reply = self.send(SHOULD_RATE_LIMIT, &[&framed(&ask.encoded())]);
        assert_eq!((reply.http, reply.code), (200, Some(0)), "{reply:?}");
        Response::decoded(&reply.body[5..])
    }
}

pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], message].concat()
}
