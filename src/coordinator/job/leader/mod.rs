//! The work of a job's leader, and its election.

pub(crate) mod assignment;
pub(crate) mod background;
pub(crate) mod election;
pub(crate) mod fire_callbacks;
pub(crate) mod foreign;
pub(crate) mod reconcile;

use std::ops::{Deref, DerefMut};

use crate::job::JobTurn;
use crate::job::state::JobState;

/// A job's turn at its leader: it exists only there.
pub(crate) struct LeaderTurn<'t, 'a>(&'t mut JobTurn<'a>);

impl<'a> JobTurn<'a> {
    /// The turn of the job's leader, if this coordinator leads it.
    pub(crate) fn leader(&mut self, job: &JobState) -> Option<LeaderTurn<'_, 'a>> {
        if job.leads() { Some(LeaderTurn(self)) } else { None }
    }

    /// The same, if the leader may decide: its session is proved, and it is not draining.
    pub(crate) fn deciding_leader(&mut self, job: &JobState) -> Option<LeaderTurn<'_, 'a>> {
        let forbidden = self.cluster.no_starts(self.io);
        self.leader(job).filter(|_| !forbidden)
    }
}

impl<'a> Deref for LeaderTurn<'_, 'a> {
    type Target = JobTurn<'a>;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl DerefMut for LeaderTurn<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0
    }
}
