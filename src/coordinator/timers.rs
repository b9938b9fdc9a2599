//! What the two clocks have brought due: deadlines by the monotonic one, and by the calendar the jobs that want to be
//! looked at. Called with every turn of [`Node`].

use rosterd_domain::id::{JobName, WorkerId};

use super::event::Query;
use super::node::{Node, ReadFor};

/// Deadlines by the monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A worker's lease may be over.
    Lease(WorkerId),
    /// An attachment elsewhere may be nobody's.
    RemoteLease(WorkerId),
    /// A job may be tried again.
    Job(JobName),
    /// The time of a callback is over.
    Callback(JobName),
    /// Attachments, jobs and coordinators are read again.
    Sweep,
    /// A worker elsewhere may have gone for good.
    Absent(WorkerId),
    /// This coordinator's session is to be proved by a write.
    Proof,
    /// The leader looks at everything of a job again.
    Reconcile(JobName),
    /// A run of an item of ours that is hosted elsewhere may have ended.
    LookAgain(JobName),
    /// Crashes that were counted are told of.
    Notes,
}

impl Node {
    pub(super) fn run_timers(&mut self) {
        while let Some((at, timer)) = self.timers.first().cloned() {
            if at > self.now.mono {
                break;
            }
            self.timers.pop_first();
            match timer {
                Timer::Lease(worker) => self.lease_timer(&worker),
                Timer::RemoteLease(worker) => self.remote_lease_timer(&worker),
                Timer::Job(job) => {
                    self.run_queue.insert(job);
                }
                Timer::Callback(job) => self.callback_timer(&job),
                Timer::Absent(worker) => {
                    self.lookups_pending.remove(&worker);
                    self.read(ReadFor::Suspect(worker.clone()), Query::Attachment(worker));
                }
                Timer::Proof => self.prove_if_idle(),
                Timer::Notes => self.tell_counted(),
                Timer::Reconcile(job) => self.reconcile_job(&job),
                Timer::LookAgain(job) => {
                    let now = self.now.mono;
                    // One that was set for later, or was overtaken, says nothing.
                    if let Some(state) = self.jobs.get_mut(&job)
                        && state.reread_at.take_if(|at| *at <= now).is_some()
                    {
                        state.stale_records = true;
                        self.run_queue.insert(job);
                    }
                }
                Timer::Sweep => {
                    self.read_members();
                    self.read_attachments();
                    self.read(ReadFor::Jobs, Query::Jobs);
                }
            }
        }
        while let Some((at, job)) = self.calendar.first().cloned() {
            if at > self.now.wall {
                break;
            }
            self.calendar.pop_first();
            if let Some(state) = self.jobs.get_mut(&job) {
                state.next = None;
                state.due = true;
            }
            // A fire goes before whatever else is worth a look.
            self.run_queue.insert_first(job);
        }
    }
}
