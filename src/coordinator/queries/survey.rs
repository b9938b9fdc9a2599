//! An overview of all jobs: the input of an operator's first page. One pass over the store. Nothing is decided here.

use std::collections::BTreeSet;

use rosterd_domain::id::{Item, JobName, WorkerId};
use rosterd_domain::item::{Outcome, State};
use rosterd_domain::snapshot::Snapshot;
use rosterd_domain::unattended::unattended;
use rosterd_domain::view::Job;
use rosterd_session::code::Refusal;

use crate::handle::{Handle, JobRow};
use crate::queries::looks::Decoded;
use crate::queries::rows::{Survey, Surveyed};

impl Handle {
    /// Surveys all jobs.
    pub async fn survey(&self) -> Result<Survey, Refusal> {
        let mut workers = BTreeSet::<WorkerId>::new();
        let names: Vec<JobName> = self.names().await?.into_iter().collect();
        let see = |name: &JobName, snapshot: &Snapshot, view: &Decoded| {
            workers.extend(snapshot.nodes.instances.keys().filter_map(|instance| instance.worker()));
            let row = self.row_of(name, snapshot, view);
            self.surveyed(row, view.as_ref().ok().and_then(Option::as_deref), snapshot)
        };
        let jobs = self.look(&names, see).await?;
        Ok(Survey { jobs, workers: workers.len() as u64 })
    }

    fn surveyed(&self, row: JobRow, view: Option<&Job>, snapshot: &Snapshot) -> Surveyed {
        let now = self.inner.clock.wall();
        // Everything counts here, whichever coordinator leads or hosts it.
        let found = view.map(|view| unattended(view, &snapshot.records, true, &|_| true)).unwrap_or_default();
        let items = view.map_or(0, |view| view.rules.items);
        let records = snapshot.records.range(..Item(items));
        let (mut crashed, mut unsuccessful) = (Vec::new(), Vec::new());
        for (item, (_, record)) in records {
            match (&record.state, &record.last) {
                (State::Crashed(run), _) => crashed.push((*item, run.since)),
                (State::Idle, Some(last))
                    if !matches!(last.outcome, Outcome::Succeeded | Outcome::Cancelled) =>
                {
                    unsuccessful.push((*item, last.clone()));
                }
                _ => {}
            }
        }
        let waits_since = found.waits_since.filter(|since| *since <= now);
        Surveyed { row, without_owner: found.items, waits_since, crashed, unsuccessful }
    }
}
