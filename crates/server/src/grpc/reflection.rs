//! Server reflection, v1 and v1alpha, which differ in nothing but their name: what grpcurl and its kind ask
//! for the definitions of the services here.
//!
//! Answers are taken from a set of file descriptors that was made once (see `crates/server/proto`). A client
//! that doesn't take its answers gets no further ones.

use crate::envoy::protobuf::{ProtobufError, Reader, Value, put_bytes, put_message, put_number};
use crate::grpc::call::Context;
use crate::grpc::message::{IncomingBody, MESSAGE_MAX, framed};
use crate::grpc::status::{self, Failure, GrpcCode};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use hyper::body::Bytes;
use std::future::poll_fn;

/// Of a request: the name of a file or a symbol.
const REQUEST_BYTES_MAX: usize = 16 << 10;

static DESCRIPTORS: &[u8] = include_bytes!("../../proto/descriptors.bin");

/// Numbers of fields of the request.
const FILE_BY_NAME: u64 = 3;
const FILE_OF_SYMBOL: u64 = 4;
const FILE_OF_EXTENSION: u64 = 5;
const EXTENSIONS_OF: u64 = 6;
const LIST_SERVICES: u64 = 7;

pub(super) async fn answer(context: Context, body: RecvStream, mut respond: SendResponse<Bytes>) {
    let Some(mut stream) = status::begin(&mut respond) else { return };
    let mut incoming = IncomingBody::new(body, context.held_of_anybody(), REQUEST_BYTES_MAX);
    match converse(&mut incoming, &mut stream).await {
        Ok(()) => status::end(&mut stream),
        Err(failure) => status::end_with(&mut stream, &failure),
    }
}

/// Answers each message as it comes, until there are no more.
async fn converse(incoming: &mut IncomingBody<'_>, stream: &mut SendStream<Bytes>) -> Result<(), Failure> {
    let slow = |_| Failure::new(GrpcCode::DeadlineExceeded, "no message came, or none was taken, for 10 s");
    loop {
        while let Some(message) = incoming.take()? {
            let reply = reply(&message).map_err(|ProtobufError(problem)| {
                Failure::new(GrpcCode::InvalidArgument, format!("not a ServerReflectionRequest: {problem}"))
            })?;
            let sent = tokio::time::timeout(MESSAGE_MAX, send(stream, reply.into())).await.map_err(slow)?;
            if sent.is_none() {
                return Ok(());
            }
        }
        if !tokio::time::timeout(MESSAGE_MAX, incoming.more()).await.map_err(slow)?? {
            return Ok(());
        }
    }
}

/// Sends as fast as the client takes it; `None` when it has gone.
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> Option<()> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = poll_fn(|cx| stream.poll_capacity(cx)).await?.ok()?;
        stream.send_data(bytes.split_to(room.min(bytes.len())), false).ok()?;
    }
    Some(())
}

pub(super) fn reply(request: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let mut reader = Reader::new(request);
    let (mut host, mut wanted) = ("", None);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => host = value.text()?.unwrap_or(""),
            FILE_OF_EXTENSION => wanted = Some((number, "")),
            FILE_BY_NAME | FILE_OF_SYMBOL | EXTENSIONS_OF | LIST_SERVICES => {
                wanted = Some((number, value.text()?.unwrap_or("")));
            }
            _ => {}
        }
    }
    Ok(framed(|out| {
        put_bytes(out, 1, host.as_bytes());
        put_bytes(out, 2, request);
        match wanted {
            Some((LIST_SERVICES, _)) => put_message(out, 6, put_services),
            Some((FILE_BY_NAME, name)) => put_file(out, |file| file.name == name),
            Some((FILE_OF_SYMBOL, symbol)) => put_file(out, |file| file.has(symbol)),
            Some((EXTENSIONS_OF, name)) if files().any(|file| file.has(name)) => {
                put_message(out, 5, |out| put_bytes(out, 1, name.as_bytes()));
            }
            Some((FILE_OF_EXTENSION | EXTENSIONS_OF, _)) => {
                put_error(out, GrpcCode::NotFound, "no such type");
            }
            _ => put_error(out, GrpcCode::InvalidArgument, "the request asks for nothing that is known"),
        }
    }))
}

fn put_services(out: &mut Vec<u8>) {
    for file in files() {
        for service in names(file.bytes, SERVICE) {
            put_message(out, 1, |out| put_bytes(out, 1, format!("{}.{service}", file.package).as_bytes()));
        }
    }
}

fn put_file(out: &mut Vec<u8>, is_wanted: impl Fn(&File) -> bool) {
    match files().find(is_wanted) {
        Some(file) => put_message(out, 4, |out| put_bytes(out, 1, file.bytes)),
        None => put_error(out, GrpcCode::NotFound, "no such file or symbol"),
    }
}

fn put_error(out: &mut Vec<u8>, code: GrpcCode, message: &str) {
    put_message(out, 7, |out| {
        put_number(out, 1, code as u64);
        put_bytes(out, 2, message.as_bytes());
    });
}

/// A `FileDescriptorProto` of the set.
struct File {
    bytes: &'static [u8],
    name: &'static str,
    package: &'static str,
}

/// Numbers of fields of a file's descriptor.
const MESSAGE: u64 = 4;
const ENUM: u64 = 5;
const SERVICE: u64 = 6;
/// And of a message's and a service's.
const NESTED: u64 = 3;
const NESTED_ENUM: u64 = 4;
const METHOD: u64 = 2;

fn files() -> impl Iterator<Item = File> {
    parts(DESCRIPTORS, 1).map(|bytes| {
        let text = |number| parts(bytes, number).next().and_then(|name| std::str::from_utf8(name).ok());
        File { bytes, name: text(1).unwrap_or(""), package: text(2).unwrap_or("") }
    })
}

impl File {
    /// Whether a service, a method, a message or an enum of this full name is defined in it.
    fn has(&self, symbol: &str) -> bool {
        let Some(local) = symbol.strip_prefix(self.package).and_then(|rest| rest.strip_prefix('.')) else {
            return false;
        };
        let (first, rest) = local.split_once('.').unwrap_or((local, ""));
        let inside = |number, inner: [u64; 2]| {
            let mut found = parts(self.bytes, number).filter(|part| names_of(part) == Some(first));
            found.any(|part| rest.is_empty() || inner.iter().any(|inner| has_name(part, *inner, rest)))
        };
        inside(MESSAGE, [NESTED, NESTED_ENUM]) || inside(ENUM, [0, 0]) || inside(SERVICE, [METHOD, METHOD])
    }
}

fn has_name(bytes: &'static [u8], number: u64, name: &str) -> bool {
    names(bytes, number).any(|known| known == name)
}

fn names(bytes: &'static [u8], number: u64) -> impl Iterator<Item = &'static str> {
    parts(bytes, number).filter_map(names_of)
}

/// The name of a descriptor: its first field, whatever it describes.
fn names_of(bytes: &'static [u8]) -> Option<&'static str> {
    parts(bytes, 1).next().and_then(|name| std::str::from_utf8(name).ok())
}

/// The fields of one number, as bytes.
fn parts(bytes: &'static [u8], wanted: u64) -> impl Iterator<Item = &'static [u8]> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || {
        while let Ok(Some((number, value))) = reader.field() {
            if let Value::Bytes(bytes) = value
                && number == wanted
            {
                return Some(bytes);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_in_their_files() {
        let file = |symbol: &str| files().find(|file| file.has(symbol)).map(|file| file.name);
        let rls = Some("envoy/service/ratelimit/v3/rls.proto");
        assert_eq!(file("envoy.service.ratelimit.v3.RateLimitService"), rls);
        assert_eq!(file("envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit"), rls);
        assert_eq!(file("envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus"), rls);
        assert_eq!(file("google.protobuf.UInt64Value"), Some("google/protobuf/wrappers.proto"));
        assert_eq!(file("envoy.type.v3.RateLimitUnit"), Some("envoy/type/v3/ratelimit_unit.proto"));
        assert_eq!(file("envoy.service.ratelimit.v3.Nothing"), None);
        assert_eq!(file(""), None);
    }

    #[test]
    fn services_are_listed() {
        let mut out = Vec::new();
        put_services(&mut out);
        let text = String::from_utf8_lossy(&out);
        for service in ["RateLimitService", "grpc.health.v1.Health", "v1alpha.ServerReflection"] {
            assert!(text.contains(service), "{service}: {text}");
        }
    }
}
