//! How a command fails: one line on stderr, `rosterd: CODE: message`, and an exit code for programs.

use std::fmt;
use std::process::ExitCode;

use tonic::Status;
use tonic_types::StatusExt as _;

/// Shown below `--help`.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  done
  1  refused or failed; stderr says `rosterd: CODE: message`
  2  wrong usage or configuration
  3  no coordinator answers, or not in time
  4  the credential is missing or does not allow it";

/// Codes of the command line itself. All others are those of the coordinator that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Usage,
    ConfigInvalid,
    ScheduleInvalid,
    Unavailable,
    DeadlineExceeded,
    Unauthenticated,
    NotConfirmed,
    NotFound,
    RunFailed,
    NoReceiver,
    AlarmNotDelivered,
    Different,
    Violations,
    Nonconforming,
    Unhealthy,
    Conformance,
    Backup,
    BackupIncomplete,
    BackupInvalid,
    Restore,
    Export,
    ExportInvalid,
    Import,
    Credentials,
    Context,
    Serve,
    Worker,
    Rejected,
    Log,
    Runtime,
    Output,
    Empty,
}

impl Code {
    /// All, as the manual lists them: what each means, and what to do.
    pub(crate) const ALL: [(Self, &str); 32] = [
        (Self::Usage, "What was typed cannot work: the message names the flag, its value and what to write."),
        (
            Self::ConfigInvalid,
            "The configuration has defects: each is listed with its field, value and remedy.",
        ),
        (
            Self::ScheduleInvalid,
            "The expression or the time zone is invalid: the message says which part, and what to write.",
        ),
        (Self::Unavailable, "No coordinator answers, or it is stopping: name others with --server, or wait."),
        (Self::DeadlineExceeded, "No answer in time: --timeout waits longer."),
        (
            Self::Unauthenticated,
            "The credential or the certificate is not accepted: ROSTERD_CREDENTIAL, --cert and --key.",
        ),
        (Self::NotConfirmed, "The question was not answered with yes: nothing was changed. --yes asks none."),
        (Self::NotFound, "There is no such run, instance or output."),
        (
            Self::RunFailed,
            "A run that was waited for did not succeed: `rosterd runs show JOB/ITEM` says why.",
        ),
        (
            Self::NoReceiver,
            "There is nobody to send a test message to: add [[alarms.receivers]] to the configuration.",
        ),
        (Self::AlarmNotDelivered, "A receiver did not take the test message: the reason stands beside it."),
        (Self::Different, "`jobs diff --exit-code`: applying the file would change something."),
        (
            Self::Violations,
            "`verify`: a promise was broken; each violation is listed with the lines that prove it.",
        ),
        (Self::Nonconforming, "`conformance`: the worker breaks rules, which are listed."),
        (Self::Unhealthy, "`doctor` found a problem; each line names the remedy."),
        (Self::Conformance, "The conformance scripts could not be played: the message says why."),
        (Self::Backup, "The backup could not be taken: nothing was written."),
        (Self::BackupIncomplete, "The backup is whole but for the jobs that are named: mend or remove them."),
        (Self::BackupInvalid, "The file is not a backup, or not complete: nothing was changed."),
        (Self::Restore, "A job could not be restored: the message says which, and what was changed."),
        (Self::Export, "The jobs could not be read or the file not written."),
        (Self::ExportInvalid, "The file is not an export, or has defects: nothing was written."),
        (Self::Import, "The jobs could not be written: the message says which."),
        (Self::Credentials, "The credential file could not be read or changed."),
        (Self::Context, "The file of contexts could not be read or changed, or has no such context."),
        (Self::Serve, "The coordinator could not start or go on: the message says why."),
        (Self::Worker, "The worker could not start or go on: the message says why."),
        (Self::Rejected, "The coordinator rejects this worker for good, and gave no code of its own."),
        (Self::Log, "Logging could not be set up."),
        (Self::Runtime, "The operating system gave no threads to run on."),
        (Self::Output, "The result could not be written."),
        (Self::Empty, "The answer has nothing in it: the coordinator may be of another version."),
    ];

    /// As users see it: `NOT_CONFIRMED`.
    pub(crate) fn name(self) -> String {
        let mut name = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(c.to_ascii_uppercase());
        }
        name
    }
}

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
    pub(crate) fn new(exit: Exit, code: Code, message: impl Into<String>) -> Self {
        Self { exit, code: code.name(), message: message.into() }
    }

    /// It was carried out and did not work.
    pub(crate) fn failed(code: Code, message: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, code, message.to_string())
    }

    /// The coordinator refused it, under a code of its own.
    pub(crate) fn refused(code: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { exit: Exit::Failed, code: code.into(), message: message.to_string() }
    }

    /// What was typed cannot work.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, Code::Usage, message.to_string())
    }

    /// Nobody answers.
    pub(crate) fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(Exit::Unavailable, Code::Unavailable, message.to_string())
    }

    /// No answer in time.
    pub(crate) fn late(message: impl fmt::Display) -> Self {
        Self::new(Exit::Unavailable, Code::DeadlineExceeded, message.to_string())
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
            tonic::Code::Unavailable | tonic::Code::DeadlineExceeded => Exit::Unavailable,
            tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => Exit::Credential,
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
        Self { exit, code, message: message.to_owned() }
    }
}

/// A status code's name, as in the gRPC documents.
fn name(code: tonic::Code) -> &'static str {
    match code {
        tonic::Code::Ok => "OK",
        tonic::Code::Cancelled => "CANCELLED",
        tonic::Code::Unknown => "UNKNOWN",
        tonic::Code::InvalidArgument => "INVALID_ARGUMENT",
        tonic::Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        tonic::Code::NotFound => "NOT_FOUND",
        tonic::Code::AlreadyExists => "ALREADY_EXISTS",
        tonic::Code::PermissionDenied => "PERMISSION_DENIED",
        tonic::Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        tonic::Code::FailedPrecondition => "FAILED_PRECONDITION",
        tonic::Code::Aborted => "ABORTED",
        tonic::Code::OutOfRange => "OUT_OF_RANGE",
        tonic::Code::Unimplemented => "UNIMPLEMENTED",
        tonic::Code::Internal => "INTERNAL",
        tonic::Code::Unavailable => "UNAVAILABLE",
        tonic::Code::DataLoss => "DATA_LOSS",
        tonic::Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_name_and_is_listed_once() {
        assert_eq!(Code::AlarmNotDelivered.name(), "ALARM_NOT_DELIVERED");
        assert_eq!(Code::Usage.name(), "USAGE");
        let names: std::collections::BTreeSet<_> = Code::ALL.iter().map(|(code, _)| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
