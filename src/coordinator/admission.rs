//! Workers come, thousands of them at once when another coordinator has died. What is done for one is worth it only if
//! it is done while its client waits: so only some Hellos are worked on at a time, in the order in which they came; one
//! whose stream has ended meanwhile costs nothing more; and who would wait in vain is told to come again.
//!
//! Credentials have turns, and of one only so many names are looked up at a time that nobody here knows: whoever says
//! thousands, on thousands of streams, waits for itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, JobName, WorkerId};
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
/// Names of one credential's Hellos that nobody here knows and that are looked up at a time: as many as one may say, or a
/// fleet of workers whose coordinator has died. A Hello with more has its turn when no other of its credential has.
const NAMES_AT_A_TIME: usize = 3000;

/// Under which credential a stream came; none where nobody is asked.
type Credential = Option<String>;

/// A Hello that was read, and when.
#[derive(Debug)]
struct Arrival {
    stream: StreamId,
    hello: Box<Hello>,
    heard: Mono,
}

/// Who is on the way here.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// Hellos that wait for their turn, by credential; those of streams that have ended among them. None is empty.
    waiting: BTreeMap<Credential, VecDeque<Arrival>>,
    /// Who had the last turn.
    last: Credential,
    /// Streams whose Hello is worked on, under which credential, and how many names are looked up for it.
    under_way: BTreeMap<StreamId, (Credential, usize)>,
    /// How many names are looked up for each credential.
    looked_up: BTreeMap<Credential, usize>,
    /// Streams of both kinds that say whose they are, and whose; and the other way round.
    coming: BTreeMap<StreamId, WorkerId>,
    pending_by_worker: BTreeSet<(WorkerId, StreamId)>,
    /// Workers whose attachment was written, and whether the records known here may give runs to them of which nothing
    /// is known yet: looked at together.
    attached: BTreeMap<WorkerId, bool>,
}

impl Admission {
    /// Nobody has come who could be looked at now.
    pub(super) fn is_settled(&self) -> bool {
        self.attached.is_empty() && self.next().is_none()
    }

    /// Whose turn it is.
    fn next(&self) -> Option<&Credential> {
        let has_room =
            |of: &&Credential| self.looked_up.get(*of).is_none_or(|names| *names < NAMES_AT_A_TIME);
        let after = self.waiting.range::<Credential, _>((Bound::Excluded(&self.last), Bound::Unbounded));
        let before = self.waiting.range::<Credential, _>(..=&self.last);
        let mut turns = after.chain(before).map(|(of, _)| of);
        if self.under_way.len() < AT_A_TIME { turns.find(has_room) } else { None }
    }

    /// The Hello whose turn it is.
    fn pop(&mut self) -> Option<Arrival> {
        let of = self.next()?.clone();
        let queue = self.waiting.get_mut(&of)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&of);
        }
        self.last = of;
        first
    }

    fn begin(&mut self, stream: StreamId, of: Credential, names: usize) {
        *self.looked_up.entry(of.clone()).or_default() += names;
        self.under_way.insert(stream, (of, names));
    }

    fn end(&mut self, stream: StreamId) {
        let Some((of, names)) = self.under_way.remove(&stream) else { return };
        if let Some(all) = self.looked_up.get_mut(&of) {
            *all -= names;
            if *all == 0 {
                self.looked_up.remove(&of);
            }
        }
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
        let of = self.credential_of(stream);
        self.forget_departed(&of);
        let first = self.admission.waiting.get(&of).and_then(VecDeque::front);
        if first.is_some_and(|first| now.since(first.heard) >= PATIENCE) {
            return self.close(stream, Some(self.overloaded()));
        }
        if let Some((worker, _)) = &hello.identity {
            self.admission.coming.insert(stream, worker.clone());
            self.admission.pending_by_worker.insert((worker.clone(), stream));
        }
        self.admission.waiting.entry(of).or_default().push_back(Arrival { stream, hello, heard: now });
        self.admit();
    }

    fn credential_of(&self, stream: StreamId) -> Credential {
        self.streams.get(&stream).and_then(|stream| stream.peer.principal.clone())
    }

    /// Those at the head of a queue that wait no more.
    fn forget_departed(&mut self, of: &Credential) {
        let Some(mut queue) = self.admission.waiting.remove(of) else { return };
        while queue.front().is_some_and(|first| !self.is_greeting(first.stream)) {
            queue.pop_front();
        }
        if !queue.is_empty() {
            self.admission.waiting.insert(of.clone(), queue);
        }
    }

    /// How many names a Hello says that nobody here knows.
    fn unknown_names(&self, hello: &Hello) -> usize {
        let runs: BTreeSet<&JobName> = hello.in_flight.iter().map(|run| &run.job).collect();
        let names = hello.jobs.iter().chain(&hello.asked).chain(runs);
        names.filter(|name| !self.jobs.contains_key(*name)).count()
    }

    /// Lets those in whose turn it is.
    pub(super) fn admit(&mut self) {
        while let Some(Arrival { stream, hello, heard }) = self.admission.pop() {
            if !self.is_greeting(stream) {
                continue;
            }
            if self.now.mono.since(heard) >= PATIENCE {
                let refusal = self.overloaded();
                self.close(stream, Some(refusal));
                continue;
            }
            let names = self.unknown_names(&hello);
            self.admission.begin(stream, self.credential_of(stream), names);
            self.hello(stream, hello, heard);
        }
    }

    fn overloaded(&self) -> Refusal {
        let message = format!(
            "{} workers are being attached, and others wait: come again in a second, or go to another coordinator",
            self.admission.under_way.len()
        );
        Refusal::new(Code::Overloaded, message)
    }

    /// Whether a stream waits for what becomes of its Hello.
    pub(super) fn is_greeting(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|stream| matches!(stream.phase, StreamPhase::Greeting))
    }

    /// A stream has its Welcome, or its end: another one may have its turn.
    pub(super) fn arrived(&mut self, stream: StreamId) {
        self.admission.end(stream);
        if let Some(worker) = self.admission.coming.remove(&stream) {
            self.admission.pending_by_worker.remove(&(worker, stream));
        }
    }

    /// Whether a Hello of a worker is here and not decided: it lives, and is about to say more.
    pub(super) fn is_coming(&self, worker: &WorkerId) -> bool {
        let (first, last) = ((worker.clone(), StreamId::MIN), (worker.clone(), StreamId::MAX));
        self.admission.pending_by_worker.range(first..=last).next().is_some()
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
        if self.admission.attached.is_empty() {
            return;
        }
        let attached = std::mem::take(&mut self.admission.attached);
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
#[path = "admission_tests.rs"]
mod tests;
