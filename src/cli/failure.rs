//! How a command fails: one line on stderr, `rosterd: CODE: message`, and an exit code for programs.

use std::fmt;
use std::process::ExitCode;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Shown below `--help`.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  done
  1  refused or failed; stderr says `rosterd: CODE: message`
  2  wrong usage or configuration
  3  no coordinator answers, or not in time
  4  the credential is missing or does not allow it";

/// Why a command did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    code: String,
    message: String,
}

/// The exit codes; a failure has none that is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Refused or failed.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// No answer.
    Unavailable = 3,
    /// No right.
    Credential = 4,
}

pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { exit, code: code.into(), message: message.into() }
    }

    /// It was carried out and did not work.
    pub(crate) fn failed(code: impl Into<String>, message: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, code, message.to_string())
    }

    /// What was typed cannot work.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, "USAGE", message.to_string())
    }

    /// Nobody answers.
    pub(crate) fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(Exit::Unavailable, "UNAVAILABLE", message.to_string())
    }

    /// It was refused, or failed: neither wrong usage, nor without an answer or the right.
    pub(crate) fn is_refusal(&self) -> bool {
        self.exit == Exit::Failed
    }

    /// The same with another exit code than this one.
    pub(crate) fn or_instead(self, from: Exit, to: Exit) -> Self {
        let exit = if self.exit == from { to } else { self.exit };
        Self { exit, ..self }
    }

    /// Says it on stderr.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("rosterd: {self}");
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let exit = match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => Exit::Unavailable,
            Code::Unauthenticated | Code::PermissionDenied => Exit::Credential,
            _ => Exit::Failed,
        };
        let code = match status.get_details_error_info() {
            Some(info) if !info.reason.is_empty() => info.reason,
            _ => name(status.code()).to_owned(),
        };
        let message = match status.message() {
            "" => status.code().description(),
            message => message,
        };
        Self::new(exit, code, message)
    }
}

/// A status code's name, as in the gRPC documents.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
