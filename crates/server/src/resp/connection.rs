//! A connection that speaks the Redis protocol.

use super::login::Login;
use super::reply;
use super::session::{Session, ThrottleRequest};
use super::throttle::{self, LastLimit, Throttle};
use crate::App;
use crate::budget::Registration;
use crate::decide;
use crate::pipeline::{self, Finishing, PassResult};
use crate::progress::Patience;
use std::sync::Arc;
use std::time::Duration;
use tidegate_node::{LimitOutcome, Purpose, Request, Subject, VersionedRules};
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

    /// What was read, from the command on that has to ask.
    type Pending<'a> = &'a [u8];

    fn answer<'a>(
        &mut self,
        app: &App,
        _: &'a VersionedRules,
        input: &'a [u8],
        output: &mut Vec<u8>,
    ) -> PassResult<&'a [u8]> {
        Session::answer(self, app, input, output)
    }

    fn finish<'a>(&'a mut self, app: &'a App, pending: &'a [u8], output: &'a mut Vec<u8>) -> Finishing<'a> {
        Box::pin(finish(app, &self.login, pending, output))
    }

    /// Clients of Redis know no farewell.
    fn stop(&mut self) {}
}

async fn finish(app: &App, login: &Login, pending: &[u8], output: &mut Vec<u8>) -> usize {
    let asked =
        ThrottleRequest::read(pending).unwrap_or_else(|| unreachable!("the pass that asks has read it"));
    let words = asked.words();
    match Throttle::read(&words, &mut LastLimit::default()) {
        Ok(throttle) => decide_slowly(app, login, &throttle, output).await,
        Err(wrong) => reply::error(output, format!("ERR {wrong}").as_bytes()),
    }
    asked.length
}

async fn decide_slowly(app: &App, login: &Login, throttle: &Throttle<'_>, output: &mut Vec<u8>) {
    let limits = [throttle.given()];
    let subject = Subject::Limits(&limits);
    let request = Request { tenant: login.tenant(), purpose: Purpose::Check, subject };
    let rules = app.engine.rules();
    let answer = decide::ask_engine(app, &rules, &request).await;
    let said = answer.map(|answer| answer.limits.first().map(|limit| limit.outcome));
    match said {
        Ok(Some(LimitOutcome::Decided(decision))) => throttle::answer(output, &decision, app.clock.now().now),
        // A limit that a request gives is decided, whatever else there is to say about it.
        Ok(_) => reply::error(output, b"ERR the limit wasn't decided; try again"),
        Err(error) => reply::error(output, format!("ERR {error}").as_bytes()),
    }
}

#[cfg(test)]
mod tests;
