//! The thread that owns the tree and the database.
//!
//! It takes what waits in the queue, applies it to the tree, writes the changes in one SQLite transaction, and only
//! once that is synced it answers, sends hints and serves reads. If the disk refuses, the tree is rolled back and every
//! caller of the batch gets the error. After a failure that leaves the state of the disk unknown it fences itself: from
//! then on it answers only with the reason. Fed by `EmbeddedRegistry`.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use rosterd_domain::id::JobName;
use rosterd_domain::txn::{Commit, Txn};
use tokio::sync::oneshot;

use super::disk::{Disk, WriteError};
use super::ledger::Row;
use crate::hints::{HintQueue, told};
use crate::lower::Lowered;
use crate::paths::{Path, Paths};
use crate::tree::{Change, SessionId, Stat, Tree};

/// The jobs that the session watches.
pub(super) type Watched = Arc<Mutex<BTreeSet<JobName>>>;
use crate::{Hint, ReadError, SessionState, View, conflict};
use rosterd_runtime::lookup::Lookup;
use rosterd_runtime::mutants;

/// For how many changes room is kept between batches, about a megabyte: memory that is given back and taken again at once
/// costs more than what is done in it.
const KEPT: usize = 8192;

/// There is one session: the process.
const SESSION: SessionId = SessionId(1);

/// A request to the thread.
pub(super) enum StoreRequest {
    /// Apply these, in this order.
    Commit(Vec<Pending>),
    Read(Look),
}

impl StoreRequest {
    /// How many requests it counts for.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Commit(group) => group.len(),
            Self::Read(_) => 1,
        }
    }
}

/// A read. It runs on the thread, so it only copies what it needs.
pub(super) type Look = Box<dyn FnOnce(Result<View<'_>, ReadError>) + Send>;

/// A transaction that waits for its answer.
pub(super) struct Pending {
    pub(super) txn: Txn,
    pub(super) lowered: Lowered,
    pub(super) reply: oneshot::Sender<Commit>,
}

/// The limits of what shares one sync.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) transactions: usize,
    pub(super) bytes: usize,
}

pub(super) struct Store {
    tree: Tree,
    disk: Disk,
    paths: Arc<Paths>,
    limits: Limits,
    watched: Watched,
    hints: HintQueue,
    /// Why the store no longer serves anything.
    fenced: Option<String>,
    /// The last write found no space.
    full: bool,
    /// Room for the changes of a batch.
    changes: Vec<Change>,
}

/// What was taken from the queue at once.
#[derive(Default)]
struct Batch {
    commits: Vec<Pending>,
    reads: Vec<Look>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, command: StoreRequest) {
        match command {
            StoreRequest::Commit(group) => {
                self.bytes += group.iter().map(|pending| pending.lowered.weight()).sum::<usize>();
                self.commits.extend(group);
            }
            StoreRequest::Read(look) => self.reads.push(look),
        }
    }

    fn has_room(&self, limits: Limits) -> bool {
        self.commits.len() < limits.transactions
            && self.reads.len() < limits.transactions
            && self.bytes < limits.bytes
    }
}

/// However the thread ends, the receiver of hints learns that the session is over.
struct Goodbye(HintQueue);

impl Drop for Goodbye {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the store's thread has broken down: restart the coordinator");
        }
        self.0.push(Hint::Session(SessionState::Gone));
        self.0.close();
    }
}

impl Store {
    pub(super) fn new(
        tree: Tree,
        disk: Disk,
        paths: Arc<Paths>,
        limits: Limits,
        watched: Watched,
        hints: HintQueue,
    ) -> Self {
        Self { tree, disk, paths, limits, watched, hints, fenced: None, full: false, changes: Vec::new() }
    }

    /// Serves until every sender is dropped, then closes the database. `waiting` counts what is in the queue.
    pub(super) fn run(mut self, inbox: &Receiver<StoreRequest>, waiting: &AtomicUsize) {
        let _goodbye = Goodbye(self.hints.clone());
        while let Ok(command) = inbox.recv() {
            let mut batch = Batch::default();
            let mut take = |command: StoreRequest| {
                waiting.fetch_sub(command.size(), Ordering::Relaxed);
                batch.add(command);
                batch.has_room(self.limits)
            };
            let mut room = take(command);
            while room {
                match inbox.try_recv() {
                    Ok(command) => room = take(command),
                    Err(_) => break,
                }
            }
            self.serve(batch);
        }
        if self.fenced.is_none()
            && let Err(text) = self.disk.close(|path| persistent(&self.tree, path))
        {
            tracing::error!("{text}");
        }
    }

    fn serve(&mut self, batch: Batch) {
        mutants::panic_if_injected("panic-registry");
        let Batch { commits, reads, .. } = batch;
        if !commits.is_empty() {
            self.commit(commits);
        }
        for look in reads {
            look(match &self.fenced {
                Some(text) => Err(ReadError::Unavailable(text.clone())),
                None => Ok(View::new(&self.tree, &self.paths, Some(SESSION))),
            });
        }
        if self.fenced.is_none()
            && let Err(text) = self.disk.checkpoint()
        {
            self.fence(text);
        }
    }

    fn commit(&mut self, commits: Vec<Pending>) {
        if let Some(text) = &self.fenced {
            return answer_all(commits, &Commit::Unavailable(text.clone()));
        }
        // Grown step by step, it would be copied again and again: a batch of large fires has thousands.
        let steps = commits.iter().map(|pending| pending.lowered.ops.len()).sum();
        let mut changes = std::mem::take(&mut self.changes);
        changes.reserve(steps);
        let mut answers = Vec::with_capacity(commits.len());
        for pending in &commits {
            answers.push(match self.tree.apply_after(&mut changes, &pending.lowered.ops, SESSION) {
                Ok(revision) => Commit::Committed(revision),
                Err(refusal) => Commit::Conflict(conflict::explain(&pending.txn, &pending.lowered, refusal)),
            });
        }
        match self.persist(&changes) {
            Ok(()) => {
                self.full = false;
                // Hints first: a caller that has its answer finds the hints that precede it.
                self.tell(&changes);
                for (pending, answer) in commits.into_iter().zip(answers) {
                    // The caller may have dropped its future; the transaction stands.
                    let _ = pending.reply.send(answer);
                }
            }
            Err(error) => {
                self.tree.undo(changes.drain(..));
                self.refuse(commits, &answers, error);
            }
        }
        changes.clear();
        changes.shrink_to(KEPT);
        self.changes = changes;
    }

    /// Writes the nodes that a batch changed to the disk: each node once, in its current state.
    fn persist(&mut self, changes: &[Change]) -> Result<(), WriteError> {
        let mut places: Lookup<&Path, usize> = Lookup::with_capacity(changes.len());
        let mut rows: Vec<Row<'_>> = Vec::with_capacity(changes.len());
        for Change { path, before, after } in changes {
            let [before, after] =
                [before, after].map(|stat| stat.as_ref().filter(|stat| stat.owner.is_none()));
            match places.entry(path) {
                Entry::Occupied(place) => rows[*place.get()].after = after,
                Entry::Vacant(place) => {
                    place.insert(rows.len());
                    rows.push(Row { path, before, after });
                }
            }
        }
        rows.retain(|row| row.before != row.after);
        let revision = self.tree.revision();
        if rows.is_empty() && self.disk.covers(revision) {
            return Ok(());
        }
        self.disk.write(&rows, revision, |path| persistent(&self.tree, path))
    }

    /// Nothing of the batch stands. A conflict in it may have been with a write that never took effect.
    fn refuse(&mut self, commits: Vec<Pending>, answers: &[Commit], error: WriteError) {
        match error {
            WriteError::Full(text) => {
                if !std::mem::replace(&mut self.full, true) {
                    tracing::error!("{text}");
                }
                answer_all(commits, &Commit::Unavailable(text));
            }
            WriteError::Failed(text) => {
                answer_all(commits, &Commit::Unavailable(text.clone()));
                self.fence(text);
            }
            WriteError::Unknown(text) => {
                for (pending, answer) in commits.into_iter().zip(answers) {
                    let _ = pending.reply.send(match answer {
                        Commit::Committed(_) => Commit::Unknown,
                        _ => Commit::Unavailable(text.clone()),
                    });
                }
                self.fence(text);
            }
        }
    }

    fn fence(&mut self, text: String) {
        tracing::error!("{text}");
        self.fenced = Some(text);
        self.hints.push(Hint::Session(SessionState::Suspended));
    }

    fn tell(&self, changes: &[Change]) {
        let hints = told(&self.paths, changes);
        if hints.is_empty() {
            return;
        }
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for hint in hints {
            if hint.job().is_none_or(|job| watched.contains(job)) {
                self.hints.push(hint);
            }
        }
    }
}

/// A node that belongs on the disk.
fn persistent<'a>(tree: &'a Tree, path: &Path) -> Option<&'a Stat> {
    tree.get(path).map(|node| &node.stat).filter(|stat| stat.owner.is_none())
}

fn answer_all(commits: Vec<Pending>, answer: &Commit) {
    for pending in commits {
        let _ = pending.reply.send(answer.clone());
    }
}
