//! Placeholder while the crate is being written.
use crate::{App, Surface};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub async fn serve(
    _listener: TcpListener,
    _surface: Surface,
    _app: Arc<App>,
    mut shutdown: watch::Receiver<bool>,
    _drain: Duration,
) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}
