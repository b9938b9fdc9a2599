//! Workers come, thousands of them at once when another coordinator has died. What is done for one is worth it only if
//! it is done while its client waits: so only some Hellos are worked on at a time, in the order in which they came; one
//! whose stream has ended meanwhile costs nothing more; and who would wait in vain is told to come again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use rosterd_domain::id::{InstanceId, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::time::Mono;

use super::event::StreamId;
use super::node::{Node, StreamPhase};
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::Hello;

/// Hellos that are worked on at a time, up to their Welcome. Many, since those of one job share the reading of its
/// records, and transactions share packets; few enough to be through with them before their clients give up.
pub(super) const AT_A_TIME: usize = 2000;
/// How long a Hello waits for its turn. Clients wait three seconds for their Welcome, and some of that is for the work.
const PATIENCE: Duration = Duration::from_secs(2);

/// A Hello that was read, and when.
#[derive(Debug)]
struct Arrival {
    stream: StreamId,
    hello: Box<Hello>,
    heard: Mono,
}

/// Who is on the way here.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Hellos that wait for their turn; those of streams that have ended among them.
    waiting: VecDeque<Arrival>,
    /// Streams whose Hello is worked on.
    under_way: BTreeSet<StreamId>,
    /// Streams of both kinds that say whose they are, and whose; and the other way round.
    coming: BTreeMap<StreamId, WorkerId>,
    comers: BTreeSet<(WorkerId, StreamId)>,
    /// Workers whose attachment was written, and whether the records known here may give runs to them of which nothing
    /// is known yet: looked at together.
    attached: BTreeMap<WorkerId, bool>,
}

impl Arrivals {
    /// Nobody has come who could be looked at now.
    pub(super) fn is_settled(&self) -> bool {
        self.attached.is_empty() && (self.waiting.is_empty() || self.under_way.len() >= AT_A_TIME)
    }

    pub(super) fn attached(&mut self, worker: WorkerId, has_runs: bool) {
        self.attached.insert(worker, has_runs);
    }
}

impl Node {
    /// A Hello came.
    pub(super) fn arrives(&mut self, stream: StreamId, hello: Box<Hello>) {
        if let Err(refusal) = self.check_hello(&hello) {
            return self.close(stream, Some(refusal));
        }
        let now = self.now.mono;
        self.forget_departed();
        if self.arrivals.waiting.front().is_some_and(|first| now.since(first.heard) >= PATIENCE) {
            return self.close(stream, Some(self.come_again()));
        }
        if let Some((worker, _)) = &hello.identity {
            self.arrivals.coming.insert(stream, worker.clone());
            self.arrivals.comers.insert((worker.clone(), stream));
        }
        self.arrivals.waiting.push_back(Arrival { stream, hello, heard: now });
        self.admit();
    }

    /// Those at the head of the queue that wait no more.
    fn forget_departed(&mut self) {
        while let Some(first) = self.arrivals.waiting.front()
            && !self.is_greeting(first.stream)
        {
            self.arrivals.waiting.pop_front();
        }
    }

    /// Lets those in whose turn it is.
    pub(super) fn admit(&mut self) {
        while self.arrivals.under_way.len() < AT_A_TIME {
            let Some(Arrival { stream, hello, heard }) = self.arrivals.waiting.pop_front() else { return };
            if !self.is_greeting(stream) {
                continue;
            }
            if self.now.mono.since(heard) >= PATIENCE {
                let refusal = self.come_again();
                self.close(stream, Some(refusal));
                continue;
            }
            self.arrivals.under_way.insert(stream);
            self.hello(stream, hello, heard);
        }
    }

    fn come_again(&self) -> Refusal {
        let message = format!(
            "{} workers are being attached, and others wait: come again in a second, or go to another coordinator",
            self.arrivals.under_way.len()
        );
        Refusal::new(Code::Overloaded, message)
    }

    /// Whether a stream waits for what becomes of its Hello.
    pub(super) fn is_greeting(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|stream| matches!(stream.phase, StreamPhase::Greeting))
    }

    /// A stream has its Welcome, or its end: another one may have its turn.
    pub(super) fn arrived(&mut self, stream: StreamId) {
        self.arrivals.under_way.remove(&stream);
        if let Some(worker) = self.arrivals.coming.remove(&stream) {
            self.arrivals.comers.remove(&(worker, stream));
        }
    }

    /// Whether a Hello of a worker is here and not decided: it lives, and is about to say more.
    pub(super) fn is_coming(&self, worker: &WorkerId) -> bool {
        let (first, last) = ((worker.clone(), StreamId::MIN), (worker.clone(), StreamId::MAX));
        self.arrivals.comers.range(first..=last).next().is_some()
    }

    /// A worker showed its key: it was alive when it said so, wherever it is attached so far.
    pub(super) fn lives(&mut self, worker: &WorkerId, heard: Mono) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.heard = known.heard.max(heard);
        }
        if let Some(found) = self.elsewhere.get_mut(worker) {
            found.gone_since = found.gone_since.map(|since| since.max(heard));
        }
    }

    /// Of those who were just attached: jobs that know of them though they do not name these, since their runs take slots
    /// as well; and the runs that they have by what is known here. Once for all who came together: a look at every job
    /// for each of thousands takes longer than they wait.
    pub(super) fn settle_attached(&mut self) {
        if self.arrivals.attached.is_empty() {
            return;
        }
        let attached = std::mem::take(&mut self.arrivals.attached);
        let known =
            attached.keys().filter_map(|id| Some((self.workers.get(id)?.instance.clone(), id.clone())));
        let instances: BTreeMap<InstanceId, WorkerId> = known.collect();
        let unread = mutants::is_on(mutants::RECORDS_READ_BEFORE_ATTACHMENT);
        let (mut moving, mut runs) = (Vec::new(), Vec::new());
        for (name, job) in &self.jobs {
            if let Some(view) = job.view.as_ref().filter(|_| !unread) {
                let named = view.instances.keys().chain(view.sharding.instances());
                let named: BTreeSet<&WorkerId> =
                    named.filter_map(|instance| instances.get(instance)).collect();
                moving.extend(named.into_iter().map(|id| (name.clone(), id.clone())));
            }
            for (item, (_, record)) in &job.records {
                let Some(run) = record.running() else { continue };
                if attached.get(&run.worker).is_some_and(|has_runs| *has_runs) {
                    runs.push((run.worker.clone(), (name.clone(), *item)));
                }
            }
        }
        for (name, id) in &moving {
            if self.workers.get(id).is_some_and(|worker| !worker.rights.have(name)) {
                self.loses(id, name);
            }
        }
        for (id, run) in runs {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.runs.insert(run);
            }
        }
        for (name, id) in moving {
            if self.workers.get(&id).is_some_and(|worker| !worker.fresh) {
                self.moves(name, id);
            }
        }
        for id in attached.into_keys() {
            self.welcome_if_moved(&id);
        }
    }
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
