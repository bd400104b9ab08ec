//! A service that asks the node beside it before it answers: `docs/rust.md` shows and runs it.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use std::time::Duration;
use tidegate_client::{CheckRequest, Client, LimitLayer, OnFailure};

/// Whom a request is charged to; `None` would let it pass without a question.
fn limit_of(request: &Request<Body>) -> Option<CheckRequest> {
    // Take it from what you have authenticated. A header that anybody may send is for trying it out.
    let user = request.headers().get("x-user").map_or(&b"anonymous"[..], |user| user.as_bytes());
    Some(CheckRequest::new("api").attribute("user", String::from_utf8_lossy(user)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:3000".to_owned());
    // The longest that a request waits, usually for nothing; when the node can't be asked within it, requests pass.
    let limiter =
        Client::unix("tidegate.sock").deadline(Duration::from_millis(500)).on_failure(OnFailure::Allow);
    let app = Router::new().route("/", get(async || "hello\n")).layer(LimitLayer::new(limiter, limit_of));
    axum::serve(tokio::net::TcpListener::bind(address).await?, app).await
}
