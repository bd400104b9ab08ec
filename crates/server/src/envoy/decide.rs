//! From a rate limit request to what is said about it.

use crate::App;
use crate::access::Caller;
use crate::decide::ask_engine;
use crate::envoy::asked::Asked;
use crate::envoy::verdict::Verdict;
use crate::latency::time;
use crate::refusal::Refusal;
use tidegate_node::{Decided, Descriptor, Purpose, Request, Subject};

/// Decides, and hands the verdict to `tell`.
pub(crate) async fn decide<T>(
    app: &App,
    caller: &Caller,
    asked: &Asked<'_>,
    tell: impl FnOnce(&Verdict<'_>) -> T,
) -> Result<T, Refusal> {
    let descriptors = asked.descriptors()?;
    let request = request(caller, asked.domain, &descriptors);
    let rules = app.engine.rules();
    let answer = ask_engine(app, &rules, &request).await?;
    Ok(tell(&Verdict::new(&answer, &rules.set, &descriptors, app.clock.now().now)))
}

/// The same without waiting; `None` when the region has to be asked first: nothing was changed then.
pub(crate) fn try_decide<T>(
    app: &App,
    caller: &Caller,
    asked: &Asked<'_>,
    tell: impl FnOnce(&Verdict<'_>) -> T,
) -> Option<Result<T, Refusal>> {
    let descriptors = match asked.descriptors() {
        Ok(descriptors) => descriptors,
        Err(refusal) => return Some(Err(refusal)),
    };
    let request = request(caller, asked.domain, &descriptors);
    let rules = app.engine.rules();
    let moment = app.clock.now();
    match app.engine.decide(&rules, &request, moment) {
        Ok(Decided::Answer(answer)) => {
            time(app, moment);
            if let Some(region) = &app.sharing {
                region.publish_urgent();
            }
            Some(Ok(tell(&Verdict::new(&answer, &rules.set, &descriptors, moment.now))))
        }
        Ok(Decided::Ask(_)) => None,
        Err(error) => Some(Err(error.into())),
    }
}

fn request<'a>(caller: &'a Caller, domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> Request<'a> {
    let subject = Subject::Descriptors { namespace: domain, descriptors };
    Request { tenant: caller.tenant(), purpose: Purpose::Check, subject }
}
