//! The standing of a job, for monitoring.

use rosterd_domain::time::Time;

use crate::io::operation::JobStatus;

/// The standing of a job, for monitoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its status.
    pub status: JobStatus,
    /// When a run of any item last succeeded; `None`: no record shows it, or no longer.
    pub last_success: Option<Time>,
}
