//! Deadlines by the monotonic clock.

use rosterd_domain::id::{JobName, WorkerId};

/// Deadlines by the monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A worker's lease may have expired.
    Lease(WorkerId),
    /// A worker that another coordinator hosts may be orphaned.
    RemoteLease(WorkerId),
    /// A job can be retried.
    Job(JobName),
    /// A callback has timed out.
    Callback(JobName),
    /// Attachments, jobs and coordinators are read again.
    Sweep,
    /// A worker that is attached elsewhere may be gone for good.
    Absent(WorkerId),
    /// This coordinator's session has to be proved by a write.
    Proof,
    /// The leader reconciles a job.
    Reconcile(JobName),
    /// A run of an item of ours that is hosted elsewhere may have ended.
    LookAgain(JobName),
    /// Crashes that were only counted are reported.
    Notes,
}
