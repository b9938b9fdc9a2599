//! Parts of a job's state. None of them knows the job.

pub(crate) mod barrier;
pub(crate) mod cache;
pub(crate) mod callbacks;
pub(crate) mod dispatch;
pub(crate) mod duties;
pub(crate) mod notes;
pub(crate) mod operations;
pub(crate) mod progress;
pub(crate) mod quota;
pub(crate) mod reports;
pub(crate) mod requests;
pub(crate) mod roster;
pub(crate) mod shown;
pub(crate) mod wakeups;
pub(crate) mod worker_index;
pub(crate) mod writer;
