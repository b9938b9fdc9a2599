//! What can go wrong: [`Error`] ends a worker, [`Failure`] ends a run.

use std::fmt;

use crate::link_error::LinkError;

/// The result of a worker.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a worker ended without a clean leave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The worker's configuration is invalid.
    #[error("{0}")]
    Options(String),
    /// No job is left. `code` is one of the table of error codes.
    #[error("job {job} was refused ({code}): {message}")]
    #[non_exhaustive]
    Refused {
        /// The first refused job.
        job: String,
        /// The code, for programs.
        code: String,
        /// What is wrong and what to do, for people.
        message: String,
    },
    /// Every coordinator rejects this worker: a wrong credential, or a namespace that no coordinator serves.
    #[error("the coordinator rejects this worker: {0}")]
    Rejected(#[source] LinkError),
    /// The worker left, and no coordinator acknowledged its goodbye in time. Its runs count as crashed.
    #[error("left without acknowledgement, {in_flight} runs in flight")]
    #[non_exhaustive]
    LeaveTimedOut {
        /// Runs still in user code, or whose outcome was not acknowledged.
        in_flight: usize,
    },
    /// The second signal: the worker exited immediately.
    #[error("second signal received: exiting immediately; runs in flight are recorded as crashed")]
    Killed,
    /// The worker's own thread could not start or ended unexpectedly.
    #[error("the worker's thread: {0}")]
    Thread(String),
}

/// Why a run failed. Made from any error by `?`, or from a text by [`Failure::new`].
pub struct Failure {
    kind: Cause,
    source: Box<dyn std::error::Error + Send + Sync>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Failed,
    Fatal,
    Cancelled,
}

impl Failure {
    /// The attempt failed; another follows if the job's policy allows one.
    pub fn new(message: impl Into<String>) -> Self {
        Self { kind: Cause::Failed, source: message.into().into() }
    }

    /// No further attempt would help.
    pub fn fatal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind: Cause::Fatal, source: error.into() }
    }

    /// The handler ended because it was cancelled.
    pub fn cancelled() -> Self {
        Self { kind: Cause::Cancelled, source: "cancelled".into() }
    }

    /// Whether this is [`Failure::cancelled`].
    pub fn is_cancelled(&self) -> bool {
        self.kind == Cause::Cancelled
    }

    pub(crate) fn may_retry(&self) -> bool {
        self.kind == Cause::Failed
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { kind: Cause::Failed, source: Box::new(error) }
    }
}

/// The error and its causes, on one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let mut cause = self.source.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}
