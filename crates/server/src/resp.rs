//! The Redis protocol.

use crate::App;
use crate::socket::Socket;
use std::sync::Arc;
use tokio::sync::watch;

/// Serves a connection until its client closes it, is too slow, or `shutdown` becomes true.
#[expect(clippy::unused_async, reason = "to be written")]
pub(crate) async fn serve(_socket: Socket, _app: Arc<App>, _shutdown: watch::Receiver<bool>) {}
