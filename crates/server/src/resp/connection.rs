//! A connection that speaks the Redis protocol.

use super::login::Login;
use super::reply;
use super::session::{Asked, Session};
use super::throttle::{self, LastLimit, Throttle};
use crate::App;
use crate::budget::Registration;
use crate::decide;
use crate::pipeline::{self, Answered};
use crate::progress::Patience;
use std::sync::Arc;
use std::time::Duration;
use tidegate_node::{Purpose, Request, Said, Subject};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// Serves a connection until its client closes it, is too slow, or `shutdown` becomes true.
///
/// The session is made before the future, which would keep room for what it is made of, too.
pub(crate) fn serve<S>(
    mut stream: S,
    app: Arc<App>,
    shutdown: watch::Receiver<bool>,
    registration: Registration,
) -> impl Future<Output = ()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut session = Session::new(&app, registration);
    async move {
        pipeline::serve(&mut stream, &mut session, &app, shutdown).await;
    }
}

impl pipeline::Session for Session {
    /// Half a minute for a command that has begun and for replies to be taken. Redis clients keep idle
    /// connections in pools for long, so they get ten minutes.
    const PATIENCE: Patience =
        Patience { look_every: Duration::from_secs(10), looks_while_owing: 3, looks_while_idle: 60 };

    fn answer(&mut self, app: &App, input: &[u8], output: &mut Vec<u8>) -> Answered {
        Session::answer(self, app, input, output)
    }

    async fn ask(&mut self, app: &App, input: &[u8], output: &mut Vec<u8>) -> usize {
        let asked = Asked::read(input).unwrap_or_else(|| unreachable!("the pass that asks has read it"));
        let words = asked.words();
        match Throttle::read(&words, &mut LastLimit::default()) {
            Ok(throttle) => decide_slowly(app, &self.login, &throttle, output).await,
            Err(wrong) => reply::error(output, format!("ERR {wrong}").as_bytes()),
        }
        asked.length
    }

    /// Clients of Redis know no farewell.
    fn stop(&mut self) {}
}

async fn decide_slowly(app: &App, login: &Login, throttle: &Throttle<'_>, output: &mut Vec<u8>) {
    let limits = [throttle.given()];
    let subject = Subject::Limits(&limits);
    let request = Request { tenant: login.tenant(), purpose: Purpose::Check, subject };
    let rules = app.engine.rules();
    let answer = decide::ask_engine(app, &rules, &request).await;
    let said = answer.map(|answer| answer.limits.first().map(|limit| limit.said));
    match said {
        Ok(Some(Said::Decided(decision))) => throttle::answer(output, &decision, app.clock.now().now),
        // A limit that a request gives is decided, whatever else there is to say about it.
        Ok(_) => reply::error(output, b"ERR the limit wasn't decided; try again"),
        Err(error) => reply::error(output, format!("ERR {error}").as_bytes()),
    }
}

#[cfg(test)]
mod tests;
