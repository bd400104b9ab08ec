//! Why a request was not answered as asked: a stable code, what happened, where, and what to do about it.
//!
//! Always 4xx: a refusal is about what the caller sent, but for a reset while the region's store is away, and an
//! override while the disk hangs. Codes are part of the interface and never change.

use crate::json::write;
use hyper::StatusCode;
use tidegate_node::RequestError;
use tidegate_node::region_driver::OriginError;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    EmptyBody,
    InvalidUtf8,
    InvalidJson,
    InvalidProtobuf,
    BodyIncomplete,
    BodyTooLarge,
    UnknownField,
    DuplicateField,
    MissingField,
    ConflictingFields,
    WrongType,
    NotAnInteger,
    NotExact,
    OutOfRange,
    UnknownValue,
    Unsupported,
    InvalidText,
    TooMany,
    TooManyRules,
    UnknownPath,
    WrongMethod,
    MalformedHttp,
    HeaderTooLarge,
    UriTooLong,
    CrossSite,
    Unauthorized,
    Forbidden,
    IdempotencyKeyReused,
    OriginUnavailable,
    UnknownOverride,
    OverridesBusy,
    LogUnavailable,
    NoControlPlane,
    ControlUnavailable,
}

impl Code {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Code::EmptyBody => "empty_body",
            Code::InvalidUtf8 => "invalid_utf8",
            Code::InvalidJson => "invalid_json",
            Code::InvalidProtobuf => "invalid_protobuf",
            Code::BodyIncomplete => "body_incomplete",
            Code::BodyTooLarge => "body_too_large",
            Code::UnknownField => "unknown_field",
            Code::DuplicateField => "duplicate_field",
            Code::MissingField => "missing_field",
            Code::ConflictingFields => "conflicting_fields",
            Code::WrongType => "wrong_type",
            Code::NotAnInteger => "not_an_integer",
            Code::NotExact => "not_exact",
            Code::OutOfRange => "out_of_range",
            Code::UnknownValue => "unknown_value",
            Code::Unsupported => "unsupported",
            Code::InvalidText => "invalid_text",
            Code::TooMany => "too_many",
            Code::TooManyRules => "too_many_rules",
            Code::UnknownPath => "unknown_path",
            Code::WrongMethod => "wrong_method",
            Code::MalformedHttp => "malformed_http",
            Code::HeaderTooLarge => "header_too_large",
            Code::UriTooLong => "uri_too_long",
            Code::CrossSite => "cross_site",
            Code::Unauthorized => "unauthorized",
            Code::Forbidden => "forbidden",
            Code::IdempotencyKeyReused => "idempotency_key_reused",
            Code::OriginUnavailable => "origin_unavailable",
            Code::UnknownOverride => "unknown_override",
            Code::OverridesBusy => "overrides_busy",
            Code::LogUnavailable => "log_unavailable",
            Code::NoControlPlane => "no_control_plane",
            Code::ControlUnavailable => "control_unavailable",
        }
    }

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::UnknownPath | Code::UnknownOverride | Code::NoControlPlane => StatusCode::NOT_FOUND,
            Code::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Code::HeaderTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Code::UriTooLong => StatusCode::URI_TOO_LONG,
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::CrossSite | Code::Forbidden => StatusCode::FORBIDDEN,
            Code::OriginUnavailable
            | Code::OverridesBusy
            | Code::LogUnavailable
            | Code::ControlUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub code: Code,
    pub message: String,
    /// Such as `limits[2].cost`.
    pub field: Option<String>,
    pub fix: String,
}

impl Refusal {
    /// The one thing that a node can't do by itself: start a key afresh for everybody.
    pub(crate) fn origin(error: &OriginError) -> Self {
        let message = format!("the reset can't be sent to the region's store: {error}");
        let fix = "try again once the store answers; `/v1/state` shows whether it does";
        Self::new(Code::OriginUnavailable, message, fix)
    }

    pub(crate) fn new(code: Code, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), field: None, fix: fix.into() }
    }

    pub(crate) fn of_field(
        code: Code,
        field: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Refusal { field: Some(field.into()), ..Refusal::new(code, message, fix) }
    }

    /// The same, of a field within the `index`-th limit.
    #[must_use]
    pub(crate) fn within_limit(self, index: usize) -> Self {
        self.within("limits", index)
    }

    /// The same, of a field within the `index`-th element of a list.
    #[must_use]
    pub(crate) fn within(mut self, list: &str, index: usize) -> Self {
        self.field = match self.field {
            Some(field) => Some(format!("{list}[{index}].{field}")),
            None if self.code == Code::InvalidJson => None,
            None => Some(format!("{list}[{index}]")),
        };
        self
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96 + self.message.len() + self.fix.len());
        out.extend_from_slice(b"{\"error\":{\"code\":");
        write::string(&mut out, self.code.word());
        out.extend_from_slice(b",\"message\":");
        write::string(&mut out, &self.message);
        out.extend_from_slice(b",\"field\":");
        write::optional_string(&mut out, self.field.as_deref());
        out.extend_from_slice(b",\"fix\":");
        write::string(&mut out, &self.fix);
        out.extend_from_slice(b"}}\n");
        out
    }
}

/// The edge has checked lengths and counts already, and named their fields; this stays for what only the
/// engine knows, and for bounds that it may add.
impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        let (code, field, fix) = match error {
            RequestError::Namespace { .. } => {
                (Code::InvalidText, "namespace", "give a shorter, non-empty namespace")
            }
            RequestError::Identifier { .. } => {
                (Code::InvalidText, "identifier", "give a shorter, non-empty identifier, such as a hash")
            }
            RequestError::TooManyAttributes => (Code::TooMany, "attributes", "send only what rules use"),
            RequestError::AttributeName { .. }
            | RequestError::AttributeValue { .. }
            | RequestError::AttributesTooLong => (Code::InvalidText, "attributes", "shorten the attribute"),
            RequestError::DescriptorCount => {
                (Code::TooMany, "descriptors", "send 1 to 100 descriptors; split more over requests")
            }
            RequestError::LimitCount => (Code::TooMany, "limits", "send 1 to 100 limits"),
            RequestError::TooManyRules => {
                (Code::TooManyRules, "namespace", "narrow the rules' `when`, or split the namespace")
            }
        };
        Refusal::of_field(code, field, message, fix)
    }
}

/// A text from the caller, short enough to be told back.
pub(crate) fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    match text.char_indices().nth(CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
