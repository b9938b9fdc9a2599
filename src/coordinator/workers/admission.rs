//! Admits workers, thousands of them at once after another coordinator has died. The work for a worker is useful only
//! while its client waits: so only a limited number of Hellos are processed at a time, in the order of arrival; one
//! whose stream has ended meanwhile costs nothing more; and the coordinator tells a client that would wait in vain to
//! reconnect.
//!
//! Credentials take turns, and the number of names that are looked up at a time for one of them, because they are not
//! known here, is limited: a credential that sends thousands, on thousands of streams, delays only itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::time::Mono;
use rosterd_session::frame::Hello;

use crate::io::event::StreamId;
use crate::workers::worker::Worker;

/// How many Hellos are processed at a time, up to their Welcome. Many, since those of one job share the read of its
/// records, and transactions share packets; few enough to finish before their clients give up.
pub(crate) const AT_A_TIME: usize = 2000;

/// How long a Hello waits for its turn. Clients wait [`WELCOME_TIMEOUT`](super::parts::lease::WELCOME_TIMEOUT) for their
/// Welcome, and the work takes some of that.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

/// How many names that are not known here are looked up at a time for one credential's Hellos: as many as one Hello may
/// contain, or those of a fleet of workers whose coordinator has died. A Hello with more has its turn when its
/// credential has no other.
pub(crate) const NAMES_AT_A_TIME: usize = 3000;

/// Whether a job of this name is known here.
pub(crate) type Knows<'a> = &'a dyn Fn(&JobName) -> bool;

/// The credential of a stream; `None` if authentication is off.
pub(crate) type Credential = Option<String>;

/// A Hello that was read, and when.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stream: StreamId,
    pub(crate) hello: Box<Hello>,
    pub(crate) heard: Mono,
}

/// Workers that are being admitted.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Hellos that wait for their turn, by credential, including those of streams that have ended. No queue is empty.
    waiting: BTreeMap<Credential, VecDeque<Arrival>>,
    /// The credential that had the last turn.
    last: Credential,
    /// Streams whose Hello is being processed, with their credential and the number of names that are looked up.
    under_way: BTreeMap<StreamId, (Credential, usize)>,
    /// How many names are being looked up for each credential.
    looked_up: BTreeMap<Credential, usize>,
    /// Streams of both kinds whose Hello has an identity, with the worker; and the reverse.
    coming: BTreeMap<StreamId, WorkerId>,
    pending_by_worker: BTreeSet<(WorkerId, StreamId)>,
    /// Workers whose attachment was written, and whether known records may contain runs of theirs that are not
    /// accounted for yet: processed together.
    attached: BTreeMap<WorkerId, bool>,
    /// Hellos whose attachment is being written; and their workers, some of which have just got their name.
    attaching: BTreeMap<StreamId, Attaching>,
    attaching_workers: BTreeSet<(WorkerId, StreamId)>,
    /// Workers that arrived before this coordinator may attach any.
    early: Vec<(StreamId, Box<Hello>)>,
}

/// A Hello whose attachment is being written: the new worker, and the key that it must present to come back.
#[derive(Debug)]
pub(crate) struct Attaching {
    pub(crate) hello: Box<Hello>,
    pub(crate) worker: Worker,
    pub(crate) key: String,
}

impl Admission {
    /// Whether no Hello can be processed now.
    pub(crate) fn is_settled(&self) -> bool {
        self.attached.is_empty() && self.next().is_none()
    }

    /// How many Hellos are being processed.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// The Hello of a stream names this worker.
    pub(crate) fn comes(&mut self, stream: StreamId, worker: &WorkerId) {
        self.coming.insert(stream, worker.clone());
        self.pending_by_worker.insert((worker.clone(), stream));
    }

    /// A Hello waits for its turn.
    pub(crate) fn wait(&mut self, of: Credential, arrival: Arrival) {
        self.waiting.entry(of).or_default().push_back(arrival);
    }

    /// Since when a credential's first Hello waits. Removes those at the head that no longer wait.
    pub(crate) fn first_of(&mut self, of: &Credential, waits: impl Fn(StreamId) -> bool) -> Option<Mono> {
        let queue = self.waiting.get_mut(of)?;
        while queue.front().is_some_and(|first| !waits(first.stream)) {
            queue.pop_front();
        }
        let first = queue.front().map(|first| first.heard);
        if first.is_none() {
            self.waiting.remove(of);
        }
        first
    }

    /// A worker arrived before this coordinator may attach any.
    pub(crate) fn comes_early(&mut self, stream: StreamId, hello: Box<Hello>) {
        self.early.push((stream, hello));
    }

    pub(crate) fn take_early(&mut self) -> Vec<(StreamId, Box<Hello>)> {
        std::mem::take(&mut self.early)
    }

    /// The attachment of a Hello is being written.
    pub(crate) fn attach(&mut self, stream: StreamId, attaching: Attaching) {
        self.attaching_workers.insert((attaching.worker.id.clone(), stream));
        self.attaching.insert(stream, attaching);
    }

    /// The write of the attachment has succeeded or failed.
    pub(crate) fn take_attaching(&mut self, stream: StreamId) -> Option<Attaching> {
        let attaching = self.attaching.remove(&stream)?;
        self.attaching_workers.remove(&(attaching.worker.id.clone(), stream));
        Some(attaching)
    }

    /// Takes the workers whose attachment was written, and whether known records may contain runs of theirs that are
    /// not accounted for yet.
    pub(crate) fn take_attached(&mut self) -> BTreeMap<WorkerId, bool> {
        std::mem::take(&mut self.attached)
    }

    /// The credential whose turn it is.
    fn next(&self) -> Option<&Credential> {
        let has_room =
            |of: &&Credential| self.looked_up.get(*of).is_none_or(|names| *names < NAMES_AT_A_TIME);
        let after = self.waiting.range::<Credential, _>((Bound::Excluded(&self.last), Bound::Unbounded));
        let before = self.waiting.range::<Credential, _>(..=&self.last);
        let mut turns = after.chain(before).map(|(of, _)| of);
        if self.under_way.len() < AT_A_TIME { turns.find(has_room) } else { None }
    }

    /// The Hello whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<Arrival> {
        let of = self.next()?.clone();
        let queue = self.waiting.get_mut(&of)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&of);
        }
        self.last = of;
        first
    }

    pub(crate) fn begin(&mut self, stream: StreamId, of: Credential, names: usize) {
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

    /// A stream has its Welcome, or has ended: another one can have its turn.
    pub(crate) fn arrived(&mut self, stream: StreamId) {
        self.end(stream);
        if let Some(worker) = self.coming.remove(&stream) {
            self.pending_by_worker.remove(&(worker, stream));
        }
    }

    /// Whether a Hello of a worker is pending: the worker is alive, and will send more. Its attachment may have been read
    /// already, although the answer to the write has not come.
    pub(crate) fn is_coming(&self, worker: &WorkerId) -> bool {
        let (first, last) = ((worker.clone(), StreamId::MIN), (worker.clone(), StreamId::MAX));
        let mut known = [&self.pending_by_worker, &self.attaching_workers].into_iter();
        known.any(|pending| pending.range(first.clone()..=last.clone()).next().is_some())
    }

    /// A worker's attachment was written.
    pub(crate) fn attached(&mut self, worker: WorkerId, has_runs: bool) {
        self.attached.insert(worker, has_runs);
    }
}
