//! What becomes of fires and runs, for the history and for whoever watches.

use std::sync::Arc;

use rosterd_domain::id::JobName;
use rosterd_domain::item::Running;
use rosterd_domain::plan::{Entry, Reported};

use super::event::Effect;
use super::job::JobState;
use super::node::Node;
use super::notes::Notes;
use rosterd_session::frame::{Completed, RunRef};

/// What people and monitoring are yet to be told.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// Jobs of which nothing is left, for monitoring.
    pub(super) gone: Vec<JobName>,
    /// Runs that crashed, and those that take their place.
    pub(super) notes: Notes,
}

impl Node {
    /// An entry goes to the history and to who watches.
    pub(super) fn tell_entry(&mut self, name: &JobName, job: &JobState, entry: Entry) {
        let detail = match &entry {
            Entry::Ended { item, token, run, .. } => {
                let detail = job.details.get(item);
                let detail = detail.filter(|(of, detail)| *of == run.worker && detail.run.token == *token);
                detail.map(|(_, detail)| detail.clone())
            }
            Entry::Started { .. } | Entry::Unrun { .. } => None,
        };
        self.note_run(name, &entry);
        self.out.push(Effect::Record { job: name.clone(), at: self.now.wall, entry, detail });
    }

    /// The end of a run that no record held. Of one that was told by another host its start is all that is known.
    pub(super) fn record_unmonitored(
        &mut self,
        name: &JobName,
        run: &RunRef,
        told: Option<Running>,
        detail: Option<Arc<Completed>>,
    ) {
        let (item, token) = (run.item, run.token);
        let (Some(run), Some(detail)) = (told, detail) else { return };
        let Reported::Done(outcome) = detail.ended else { return };
        let at = self.now.wall;
        let entry = Entry::Ended { item, token, run, outcome, at, requeued: false };
        self.out.push(Effect::Record { job: name.clone(), at, entry, detail: Some(detail) });
    }
}
