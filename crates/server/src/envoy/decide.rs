//! From a rate limit request to what is said about it.

use crate::App;
use crate::access::Caller;
use crate::decide::ask_engine;
use crate::envoy::rate_limit_request::RateLimitRequest;
use crate::envoy::verdict::Verdict;
use crate::refusal::Refusal;
use tidegate_node::{Purpose, Request, Subject};

/// Decides, and hands the verdict to `tell`.
pub(crate) async fn decide<T>(
    app: &App,
    caller: &Caller,
    request: &RateLimitRequest<'_>,
    tell: impl FnOnce(&Verdict<'_>) -> T,
) -> Result<T, Refusal> {
    let descriptors = request.descriptors()?;
    let subject = Subject::Descriptors { namespace: request.domain, descriptors: &descriptors };
    let request = Request { tenant: caller.tenant(), purpose: Purpose::Check, subject };
    let rules = app.engine.rules();
    let answer = ask_engine(app, &rules, &request).await?;
    Ok(tell(&Verdict::new(&answer, &rules.set, &descriptors, app.clock.now().now)))
}
