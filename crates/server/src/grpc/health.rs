//! gRPC's health checks: a node is healthy from when it is ready (see `/readyz`) until it shuts down.

use crate::envoy::protobuf::{Reader, put_number};
use crate::grpc::call::{Context, fail};
use crate::grpc::message::{self, framed};
use crate::grpc::status::{self, Failure, GrpcCode};
use crate::listener::stopped;
use crate::refusal::excerpt;
use h2::RecvStream;
use h2::server::SendResponse;
use hyper::body::Bytes;
use std::future::poll_fn;
use std::time::Duration;

/// Of a request: the name of a service, and what later versions of the protocol may add.
const REQUEST_BYTES_MAX: usize = 4 << 10;
const SERVICES: [&str; 2] = ["", "envoy.service.ratelimit.v3.RateLimitService"];

/// How often a watch of a node that isn't ready looks again.
const RECHECK_EVERY: Duration = Duration::from_millis(500);

/// The protocol's numbers.
const SERVING: u64 = 1;
const NOT_SERVING: u64 = 2;
const SERVICE_UNKNOWN: u64 = 3;

fn status_of(context: &Context) -> u64 {
    if context.app.is_ready() && !*context.shutdown.borrow() { SERVING } else { NOT_SERVING }
}

/// How the service is that a request names; its name where there is none such.
async fn asked(context: &Context, body: RecvStream) -> Result<Result<u64, String>, Failure> {
    let bytes = message::whole(body, &[], context.held_of_anybody(), REQUEST_BYTES_MAX).await?;
    let mut reader = Reader::new(message::only(&bytes)?);
    let mut service = "";
    let malformed = |_| Failure::new(GrpcCode::InvalidArgument, "the message is not a HealthCheckRequest");
    while let Some((number, value)) = reader.field().map_err(malformed)? {
        if number == 1 {
            service = value.text().map_err(malformed)?.unwrap_or("");
        }
    }
    Ok(match SERVICES.contains(&service) {
        true => Ok(status_of(context)),
        false => Err(excerpt(service)),
    })
}

fn encoded(status: u64) -> Vec<u8> {
    framed(|out| put_number(out, 1, status))
}

pub(super) async fn check(context: Context, body: RecvStream, mut respond: SendResponse<Bytes>) {
    match asked(&context, body).await {
        Ok(Ok(status)) => status::send_message(&mut respond, encoded(status)),
        Ok(Err(service)) => {
            let message = format!("there is no service `{service}` here");
            fail(&mut respond, &Failure::new(GrpcCode::NotFound, message));
        }
        Err(failure) => fail(&mut respond, &failure),
    }
}

/// Tells how it is, and again whenever that changes; ends when the client does, or the node shuts down.
pub(super) async fn watch(mut context: Context, body: RecvStream, mut respond: SendResponse<Bytes>) {
    let mut status = match asked(&context, body).await {
        Ok(status) => status.unwrap_or(SERVICE_UNKNOWN),
        Err(failure) => return fail(&mut respond, &failure),
    };
    let Some(mut stream) = status::begin(&mut respond) else { return };
    if stream.send_data(encoded(status).into(), false).is_err() {
        return;
    }
    loop {
        // Only rules that have yet to come make a node ready; then it stays so.
        let is_unready = status == NOT_SERVING;
        tokio::select! {
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return,
            () = stopped(&mut context.shutdown) => break,
            () = tokio::time::sleep(RECHECK_EVERY), if is_unready => {}
        }
        if is_unready && status_of(&context) == SERVING {
            status = SERVING;
            if stream.send_data(encoded(status).into(), false).is_err() {
                return;
            }
        }
    }
    if status == SERVING && stream.send_data(encoded(NOT_SERVING).into(), false).is_err() {
        return;
    }
    status::end_with(&mut stream, &Failure::new(GrpcCode::Unavailable, "the node shuts down"));
}
