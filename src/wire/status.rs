//! Refusals as gRPC statuses, and as HTTP statuses: the one table. Every status that a client of this edge
//! can be refused with carries `google.rpc.ErrorInfo` with the code as its reason.

use http::StatusCode;
use tonic::{Code as Grpc, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use rosterd_session::code::{Class, Code, Refusal};

/// The domain of the codes.
pub const DOMAIN: &str = "rosterd";

/// A request or frame that breaks the protocol's rules, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The field, as the proto names it, for example `run.job`.
    pub field: String,
    /// What the client is told.
    pub refusal: Refusal,
}

impl Malformed {
    /// `field` is wrong: what is, and what to do.
    pub fn new(code: Code, field: impl Into<String>, what: impl std::fmt::Display) -> Self {
        let field = field.into();
        Self { refusal: Refusal::new(code, format!("{field}: {what}")), field }
    }
}

/// The gRPC status of a kind of refusal.
pub fn grpc(class: Class) -> Grpc {
    match class {
        Class::Invalid => Grpc::InvalidArgument,
        Class::Unknown => Grpc::NotFound,
        Class::Exists => Grpc::AlreadyExists,
        Class::Precondition => Grpc::FailedPrecondition,
        Class::Superseded => Grpc::Aborted,
        Class::Exhausted => Grpc::ResourceExhausted,
        Class::Unavailable => Grpc::Unavailable,
        Class::Unauthenticated => Grpc::Unauthenticated,
        Class::Denied => Grpc::PermissionDenied,
        Class::Deadline => Grpc::DeadlineExceeded,
        Class::Defect => Grpc::Internal,
    }
}

/// The HTTP status of a kind of refusal.
pub fn http(class: Class) -> StatusCode {
    match class {
        Class::Invalid => StatusCode::BAD_REQUEST,
        Class::Unknown => StatusCode::NOT_FOUND,
        Class::Exists | Class::Superseded => StatusCode::CONFLICT,
        Class::Precondition => StatusCode::PRECONDITION_FAILED,
        Class::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        Class::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Class::Unauthenticated => StatusCode::UNAUTHORIZED,
        Class::Denied => StatusCode::FORBIDDEN,
        Class::Deadline => StatusCode::GATEWAY_TIMEOUT,
        Class::Defect => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A message that the stack below found to be longer than the limit; it says by how much.
pub fn too_large(said: &str) -> Refusal {
    let what = "at most max_receive_bytes are taken: send less at a time, or raise that on the coordinator";
    Refusal::new(Code::MessageTooLarge, format!("{said}; {what}"))
}

/// Longest message that goes into a header, in bytes.
const MAX_MESSAGE: usize = 3 * 1024;

/// A refusal as the client sees it.
pub fn status(refusal: &Refusal) -> Status {
    with(refusal, ErrorDetails::new())
}

/// A malformed request as the client sees it.
pub fn malformed(defect: &Malformed) -> Status {
    let mut details = ErrorDetails::new();
    details.add_bad_request_violation(&defect.field, cut(&defect.refusal.message, MAX_MESSAGE));
    with(&defect.refusal, details)
}

fn with(refusal: &Refusal, mut details: ErrorDetails) -> Status {
    details.set_error_info(refusal.code.as_str(), DOMAIN, std::collections::HashMap::new());
    let message = cut(&refusal.message, MAX_MESSAGE).to_owned();
    Status::with_error_details(grpc(refusal.code.class()), message, details)
}

/// The longest beginning of `text` that has at most `max` bytes and ends between two characters.
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_a_status_with_its_reason() {
        for &code in Code::ALL {
            let status = status(&Refusal::new(code, "because"));
            assert_eq!(status.code(), grpc(code.class()), "{code}");
            assert_ne!(status.code(), Grpc::Ok);
            assert!(http(code.class()).as_u16() >= 400);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (code.as_str(), DOMAIN));
        }
    }

    #[test]
    fn a_malformed_field_is_named() {
        let status = malformed(&Malformed::new(Code::NameInvalid, "run.job", "it is empty"));
        let details = status.get_error_details();
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "run.job");
        assert_eq!(status.message(), "run.job: it is empty");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        assert_eq!(cut("aü", 2), "a");
        assert!(status(&Refusal::new(Code::ConfigInvalid, "ü".repeat(9000))).message().len() <= MAX_MESSAGE);
    }
}
