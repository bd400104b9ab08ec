//! Envoy's rate limit service over gRPC.

use crate::App;
use crate::socket::Socket;
use hyper_util::server::graceful::Watcher;
use std::sync::Arc;

/// Serves a connection until its client closes it, is too slow, or the listener shuts down.
#[expect(clippy::unused_async, reason = "to be written")]
pub(crate) async fn serve(_socket: Socket, _app: Arc<App>, _watcher: Watcher) {}
