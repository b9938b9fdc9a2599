//! The one task that writes: it puts waiting transactions into as few `multi` as possible, and answers each of them.
//!
//! Several are in flight at once. A refused one names its first operation that did not hold: that transaction is
//! answered, or encoded again if only the cache was wrong, and all others are sent again without it. A `multi` whose
//! outcome is unknown is never repeated. Fed by `ZooKeeperRegistry`; ends when that was dropped and the queue is empty,
//! or with the session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rosterd_domain::time::Mono;
use rosterd_domain::txn::Commit;
use tokio::sync::mpsc;
use zookeeper_client::{Client, Error, SessionState as ClientState};

use super::classify::{RetryClass, judge};
use super::core::Core;
use super::encode::{Encoded, MultiOp, Sweeping, encode};
use super::existence::Fresh;
use super::group::{InUse, Together};
use super::multi::{self, MAX_PACKET, OpResult};
use super::pending::{Group, Pending};
use super::{classify, root_paths};
use crate::{SessionState, conflict};
use rosterd_runtime::mutants;

/// How many `multi` are in flight at once.
const FLIGHTS: usize = 4;
/// Operations in a `multi` that several transactions share.
const MAX_STEPS: usize = 500;
/// Bytes of a `multi` that several transactions share.
const MAX_SHARED: usize = 256 << 10;
/// How far down the queue to look for transactions that may overtake.
const SCAN: usize = 2_000;
/// How often a transaction is encoded again because what it was encoded from had changed.
const MAX_SPELLINGS: u32 = 8;

/// A finished request.
enum Landed {
    Multi { group: Group, encoded: Vec<Encoded>, sent: Mono, answer: OpResult },
    Looked { pending: Box<Pending>, found: Result<(Fresh, Sweeping), Error> },
    Grounded(Result<(), String>),
}

pub(super) struct Writer {
    core: Arc<Core>,
    inbox: mpsc::UnboundedReceiver<Group>,
    queue: VecDeque<Box<Pending>>,
    in_use: InUse,
    together: Together,
    /// The folders below which all nodes are must be created again.
    groundless: bool,
}

type Flights<'c> = FuturesUnordered<BoxFuture<'c, Landed>>;

impl Writer {
    pub(super) fn new(core: Arc<Core>, inbox: mpsc::UnboundedReceiver<Group>) -> Self {
        let (queue, in_use) = (VecDeque::new(), InUse::default());
        Self { core, inbox, queue, in_use, together: Together::new(SCAN), groundless: false }
    }

    pub(super) async fn run(mut self, client: Client) {
        let mut flights = Flights::new();
        let mut states = self.core.life.follow();
        let mut tick = tokio::time::interval(self.core.tick());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut open = true;
        while open || !self.queue.is_empty() || !flights.is_empty() {
            self.launch(&client, &mut flights);
            tokio::select! {
                Some(landed) = flights.next(), if !flights.is_empty() => self.land(landed, &client, &mut flights),
                group = self.inbox.recv(), if open => match group {
                    Some(group) => self.take(group),
                    None => open = false,
                },
                _ = states.changed() => {}
                _ = tick.tick() => self.look_at_the_clock(&client, &mut flights),
            }
            if self.core.life.state() == SessionState::Gone {
                break;
            }
        }
        self.end(&mut flights);
    }

    fn take(&mut self, group: Group) {
        self.queue.extend(group);
        // Transactions that were handed over meanwhile may share a packet with it.
        while let Ok(group) = self.inbox.try_recv() {
            self.queue.extend(group);
        }
    }

    /// Sends as much as allowed.
    fn launch<'c>(&mut self, client: &'c Client, flights: &mut Flights<'c>) {
        let connected =
            self.core.life.state() == SessionState::Connected && client.state() == ClientState::SyncConnected;
        while connected && !self.groundless && flights.len() < FLIGHTS {
            if !self.launch_one(client, flights) {
                break;
            }
        }
    }

    fn launch_one<'c>(&mut self, client: &'c Client, flights: &mut Flights<'c>) -> bool {
        let (mut group, mut encoded) = (Group::new(), Vec::<Encoded>::new());
        let (mut steps, mut bytes, mut at) = (0, 0, 0);
        let mut passed = InUse::default();
        while at < self.queue.len().min(SCAN) && steps < MAX_STEPS && group.len() < self.together.most() {
            let pending = &self.queue[at];
            if !self.in_use.admits(&pending.touched) || !passed.admits(&pending.touched) {
                passed.take(&pending.touched);
                at += 1;
                continue;
            }
            if pending.touched.alone && pending.sweeping.is_none() {
                if !group.is_empty() {
                    break;
                }
                return self.look_again_at(at, client, flights);
            }
            let next = self.encode(pending);
            let (more_steps, more_bytes) = (next.steps.len(), next.size());
            let full = steps + more_steps > MAX_STEPS || bytes + more_bytes > MAX_SHARED;
            if full && !group.is_empty() {
                break;
            }
            let Some(pending) = self.queue.remove(at) else { break };
            if more_bytes > MAX_PACKET {
                self.answer(*pending, Commit::TooLarge(too_large(more_bytes)));
                continue;
            }
            self.in_use.take(&pending.touched);
            (steps, bytes) = (steps + more_steps, bytes + more_bytes);
            group.push(pending);
            encoded.push(next);
        }
        if group.is_empty() {
            return false;
        }
        self.send(group, encoded, client, flights);
        true
    }

    fn encode(&self, pending: &Pending) -> Encoded {
        let none = Sweeping::new();
        let sweeping = pending.sweeping.as_ref().unwrap_or(&none);
        encode(&pending.lowered.ops, &self.core.existence(), pending.fresh.as_ref(), sweeping)
    }

    fn send<'c>(
        &self,
        group: Group,
        mut encoded: Vec<Encoded>,
        client: &'c Client,
        flights: &mut Flights<'c>,
    ) {
        let steps: Vec<MultiOp> = encoded.iter().flat_map(|encoded| encoded.steps.iter().cloned()).collect();
        for encoded in &mut encoded {
            // From here on only the origins of the operations are needed.
            encoded.steps = Vec::new();
        }
        let sent = self.core.life.clock.mono();
        let numbering = self.core.paths.common();
        let answer = multi::send(client, &steps, &numbering, self.core.terms.acls, self.core.terms.limit);
        flights.push(Box::pin(async move {
            let answer = answer.await;
            Landed::Multi { group, encoded, sent, answer }
        }));
    }

    /// Reads what the transaction must be encoded from. Its nodes remain in use meanwhile.
    fn look_again_at<'c>(&mut self, at: usize, client: &'c Client, flights: &mut Flights<'c>) -> bool {
        let Some(pending) = self.queue.remove(at) else { return false };
        self.in_use.take(&pending.touched);
        self.look(pending, client, flights);
        true
    }

    fn look<'c>(&self, mut pending: Box<Pending>, client: &'c Client, flights: &mut Flights<'c>) {
        pending.looks += 1;
        let limit = self.core.terms.limit;
        flights.push(Box::pin(async move {
            let found = tokio::time::timeout(limit, classify::look_at(client, &pending.lowered.ops)).await;
            Landed::Looked { pending, found: found.unwrap_or(Err(Error::Timeout)) }
        }));
    }

    fn land<'c>(&mut self, landed: Landed, client: &'c Client, flights: &mut Flights<'c>) {
        match landed {
            Landed::Multi { group, encoded, sent, answer } => {
                if matches!(answer, OpResult::Applied(_) | OpResult::Refused(..)) {
                    self.core.life.proven(sent);
                }
                self.land_multi(group, &encoded, answer, client, flights);
            }
            Landed::Looked { mut pending, found } => {
                self.in_use.release(&pending.touched);
                match found {
                    Ok((fresh, sweeping)) => {
                        (pending.fresh, pending.sweeping) = (Some(fresh), Some(sweeping));
                        self.queue.push_front(pending);
                    }
                    Err(Error::NoAuth) => self.answer(*pending, Commit::Unavailable(not_allowed())),
                    // Nothing was sent that could have changed the store.
                    Err(why) if pending.looks < MAX_SPELLINGS => {
                        tracing::debug!("a look before a write failed, once more: {why}");
                        self.queue.push_front(pending);
                    }
                    Err(why) => self.answer(*pending, Commit::Unavailable(no_answer(&why.to_string()))),
                }
            }
            Landed::Grounded(done) => {
                self.groundless = false;
                if let Err(why) = done {
                    tracing::warn!("the folders of the namespace cannot be made again: {why}");
                }
            }
        }
    }

    fn land_multi<'c>(
        &mut self,
        group: Group,
        encoded: &[Encoded],
        answer: OpResult,
        client: &'c Client,
        flights: &mut Flights<'c>,
    ) {
        match answer {
            OpResult::Refused(..) => self.together.refused(group.len()),
            _ => self.together.landed(),
        }
        if let OpResult::Refused(index, error) = answer {
            return self.land_refused(group, encoded, (index, error), client, flights);
        }
        for (pending, encoded) in group.into_iter().zip(encoded) {
            self.in_use.release(&pending.touched);
            let applied = matches!(answer, OpResult::Applied(_));
            let mut existence = self.core.existence();
            for (path, kind) in &encoded.after {
                existence.set(path, kind.filter(|_| applied));
            }
            drop(existence);
            let commit = match &answer {
                OpResult::Applied(revision) => {
                    self.core.known.seen.fetch_max(revision.0, Ordering::Relaxed);
                    Commit::Committed(*revision)
                }
                OpResult::Unavailable(why) => Commit::Unavailable(why.clone()),
                OpResult::Unknown(_) | OpResult::Refused(..) => Commit::Unknown,
            };
            self.answer(*pending, commit);
        }
        if let OpResult::Unknown(why) = answer {
            tracing::info!("the outcome of a write is unknown: {why}");
        }
    }

    fn land_refused<'c>(
        &mut self,
        group: Group,
        encoded: &[Encoded],
        (index, error): (usize, Error),
        client: &'c Client,
        flights: &mut Flights<'c>,
    ) {
        let mut first = 0;
        let mut again = Vec::new();
        let mut blamed = false;
        for (pending, encoded) in group.into_iter().zip(encoded) {
            let last = first + encoded.origins.len();
            if (first..last).contains(&index) {
                blamed = true;
                self.refuse(pending, encoded.origins[index - first], &error, client, flights);
            } else {
                self.in_use.release(&pending.touched);
                again.push(pending);
            }
            first = last;
        }
        // The node that is set only for a transaction's number was removed, or belongs to another user.
        if !blamed && error == Error::NoNode {
            self.ground_again(client, flights);
        } else if !blamed {
            let why = format!("ZooKeeper cannot write {}: {error}", self.core.paths.common());
            let refuse = |pending: Box<Pending>| self.answer(*pending, Commit::Unavailable(why.clone()));
            return again.into_iter().for_each(refuse);
        }
        again.into_iter().rev().for_each(|pending| self.queue.push_front(pending));
    }

    fn refuse<'c>(
        &mut self,
        pending: Box<Pending>,
        origin: usize,
        error: &Error,
        client: &'c Client,
        flights: &mut Flights<'c>,
    ) {
        match judge(&self.core.paths, &pending, origin, error) {
            RetryClass::Conflict(refusal) => {
                self.in_use.release(&pending.touched);
                let text = conflict::explain(&pending.txn, &pending.lowered, refusal);
                self.answer(*pending, Commit::Conflict(text));
            }
            RetryClass::Reread if pending.looks < MAX_SPELLINGS => self.look(pending, client, flights),
            RetryClass::RecreateRoots if pending.looks < MAX_SPELLINGS => {
                self.in_use.release(&pending.touched);
                let mut pending = pending;
                pending.looks += 1;
                self.queue.push_front(pending);
                self.ground_again(client, flights);
            }
            RetryClass::Reread | RetryClass::RecreateRoots => {
                self.in_use.release(&pending.touched);
                self.answer(*pending, Commit::Unavailable(restless()));
            }
            RetryClass::Unavailable(why) => {
                self.in_use.release(&pending.touched);
                self.answer(*pending, Commit::Unavailable(why));
            }
        }
    }

    fn ground_again<'c>(&mut self, client: &'c Client, flights: &mut Flights<'c>) {
        if std::mem::replace(&mut self.groundless, true) {
            return;
        }
        let (core, limit) = (self.core.clone(), self.core.terms.limit);
        flights.push(Box::pin(async move {
            let made = tokio::time::timeout(
                limit,
                root_paths::ensure_root_paths(client, &core.paths, core.terms.acls),
            )
            .await;
            Landed::Grounded(match made {
                Ok(made) => made.map_err(|(path, error)| format!("{path}: {error}")),
                Err(_) => Err(format!("no answer within {} ms", limit.as_millis())),
            })
        }));
    }

    /// Answers transactions that waited too long, and proves a session that no write proves.
    fn look_at_the_clock<'c>(&mut self, client: &'c Client, flights: &mut Flights<'c>) {
        mutants::panic_if_injected("panic-zookeeper-writer");
        let (now, limit, silent) =
            (self.core.life.clock.mono(), self.core.terms.limit, self.core.life.unproven());
        while self.queue.front().is_some_and(|pending| is_in_vain(now.since(pending.asked), silent, limit)) {
            let Some(pending) = self.queue.pop_front() else { break };
            let why = format!("nothing could be sent for {} ms", limit.as_millis());
            self.answer(*pending, Commit::Unavailable(no_answer(&why)));
        }
        let idle = self.core.life.unproven() > self.core.life.timeout / 3;
        if idle && flights.is_empty() && client.state() == ClientState::SyncConnected {
            self.send(Vec::new(), Vec::new(), client, flights);
        }
    }

    fn answer(&self, pending: Pending, commit: Commit) {
        self.core.waiting.fetch_sub(1, Ordering::Relaxed);
        // The caller may have dropped its future.
        let _ = pending.reply.send(commit);
    }

    /// The session is over: transactions in flight may have been applied, those that wait never will be.
    fn end(&mut self, flights: &mut Flights<'_>) {
        // A dropped reply is an unknown outcome to its caller.
        flights.clear();
        while let Some(pending) = self.queue.pop_front() {
            self.answer(*pending, Commit::Fenced);
        }
        self.inbox.close();
        while let Ok(group) = self.inbox.try_recv() {
            group.into_iter().for_each(|pending| self.answer(*pending, Commit::Fenced));
        }
    }
}

/// Whether to give up on a transaction that has waited this long. While the servers answer others it will have its
/// turn: when thousands of workers connect at once many transactions wait, and nothing is wrong.
fn is_in_vain(waited: Duration, silent: Duration, limit: Duration) -> bool {
    waited > limit && silent > limit
}

fn too_large(bytes: usize) -> String {
    format!(
        "the transaction has {bytes} bytes, a packet for ZooKeeper may have {MAX_PACKET}: make it smaller (fewer \
         items at a time, shorter parameters)"
    )
}

fn no_answer(why: &str) -> String {
    format!("ZooKeeper does not answer: {why}; see that a majority of its servers runs and can be reached")
}

fn not_allowed() -> String {
    "ZooKeeper does not allow a node that is to be written even to be looked at with these credentials; check \
     them, and who may use the nodes"
        .to_owned()
}

fn restless() -> String {
    "the nodes change faster than they can be written; see what else writes below the namespace".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_moves_is_waited_for() {
        let s = Duration::from_secs;
        assert!(!is_in_vain(s(60), s(1), s(5)), "the servers answer");
        assert!(!is_in_vain(s(1), s(60), s(5)), "it has only just been queued");
        assert!(is_in_vain(s(6), s(6), s(5)));
    }
}
