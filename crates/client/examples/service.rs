//! A service that asks the node beside it before it answers: `docs/rust.md` shows and runs it.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use std::time::Duration;
use tidegate_client::{CheckRequest, Client, LimitLayer, OnFailure};

/// The limit that a request is charged to. With `None`, a request passes without being checked.
fn limit_of(request: &Request<Body>) -> Option<CheckRequest> {
    // For a demonstration only: any caller can send this header. Use a name that you have authenticated.
    let user = request.headers().get("x-user").map_or(&b"anonymous"[..], |user| user.as_bytes());
    Some(CheckRequest::new("api").attribute("user", String::from_utf8_lossy(user)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:3000".to_owned());
    // A request waits for the node for 500 ms at most. If the node hasn't answered by then, the request passes.
    let limiter =
        Client::unix("tidegate.sock").deadline(Duration::from_millis(500)).on_failure(OnFailure::Allow);
    let app = Router::new().route("/", get(async || "hello\n")).layer(LimitLayer::new(limiter, limit_of));
    axum::serve(tokio::net::TcpListener::bind(address).await?, app).await
}
