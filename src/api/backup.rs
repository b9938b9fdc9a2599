//! What the edge needs to save and restore the namespace, so that it can be served by the composition root, which alone
//! implements it, or by a script in tests. Called by `api::grpc::backup` only.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use rosterd_domain::id::JobName;
use rosterd_session::code::Refusal;

use super::backend::BackendAnswer;

/// A part of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// What follows in the file: whole lines.
    Data(Vec<u8>),
    /// A job that was left out, and why; `damaged`: it should have been included.
    Left {
        #[allow(missing_docs)]
        job: JobName,
        #[allow(missing_docs)]
        why: String,
        #[allow(missing_docs)]
        damaged: bool,
    },
}

/// A job to be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoring {
    /// The namespace that the backup is of.
    pub namespace: String,
    /// The highest token in the backup.
    pub tokens: u64,
    /// Identifies the backup.
    pub backup: String,
    /// Whether an existing job is reverted.
    pub overwrite: bool,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// The job's line.
    pub data: Vec<u8>,
}

/// How a job was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It did not exist.
    Created,
    /// It was reverted to its state in the backup.
    Overwritten,
    /// It had been restored before.
    Already,
}

/// The outcome for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    #[allow(missing_docs)]
    pub job: JobName,
    /// How.
    pub way: Way,
    /// Runs of the backup that count as crashed.
    pub crashed: Vec<String>,
    /// Runs of the store that are fenced.
    pub fenced: Vec<String>,
}

/// Saves and restores.
pub trait Backups: Send + Sync + 'static {
    /// Reads all jobs, one after the other, each at one revision. `by`: the caller.
    fn backup(&self, by: Option<Arc<str>>) -> BoxStream<'static, Result<Part, Refusal>>;
    /// The job of a line of a backup; reads nothing but the line.
    fn job_of(&self, restoring: &Restoring) -> Result<JobName, Refusal>;
    /// Restores it; answered once that is durable.
    fn restore(&self, restoring: Restoring, by: Option<Arc<str>>) -> BackendAnswer<'_, Restored>;
}
