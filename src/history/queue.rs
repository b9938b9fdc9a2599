//! The rows that wait to be written: a queue bounded in rows and bytes. Adding a row never blocks; if the queue is full
//! the row is dropped and counted. Filled by the recorder, emptied by the writer's thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, Token};
use rosterd_domain::item::{Outcome, Running};
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;

use super::rows::{Detail, EventKind};

/// A row in the queue.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// When it was recorded.
    pub(super) at: Time,
    /// How many rows had been dropped before it: if this number has grown, something is missing before the row.
    pub(super) losses: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Started { of: Of, run: Running, detail: Option<Box<Detail>> },
    Begun { of: Of, run: Running, at: Option<Time> },
    Ended { of: Of, run: Running, outcome: Outcome, at: Time, requeued: bool, detail: Option<Box<Detail>> },
    NotRun { job: JobName, item: Item, first: Time, latest: Time, count: u64, result: FireResult },
    Event { job: Option<JobName>, kind: EventKind, text: String, principal: Option<String> },
    Owned(Box<Owned>),
}

/// Identifies a run.
#[derive(Debug, Clone)]
pub(super) struct Of {
    pub(super) job: JobName,
    pub(super) item: Item,
    pub(super) token: Token,
}

/// How many rows of the audit may wait beyond `Options::queue`.
const AUDIT: usize = 4_096;

impl Row {
    /// Whether it is a row of the audit: it is not dropped in favor of runs, and is written without waiting for more
    /// rows.
    pub(super) fn is_audit(&self) -> bool {
        matches!(&self.what, What::Event { kind, .. } if kind.is_audit())
    }

    fn bytes(&self) -> usize {
        match &self.what {
            What::Started { detail, .. } | What::Ended { detail, .. } => {
                detail.as_ref().map_or(0, |detail| detail.error.len() + detail.output.len())
            }
            What::Begun { .. } | What::NotRun { .. } => 0,
            What::Event { text, .. } => text.len(),
            What::Owned(owned) => {
                let owners = owned.owners.iter();
                let named = |owner: &InstanceId| owner.as_str().len();
                owners.map(|(owner, items)| named(owner) + 4 * items.len()).sum::<usize>()
                    + 64 * owned.causes.len()
            }
        }
    }

    /// Removes the texts; false if that is not possible: half of an assignment would be a wrong one.
    fn shorten(&mut self) -> bool {
        match &mut self.what {
            What::Owned(_) => return false,
            What::Started { detail: Some(detail), .. } | What::Ended { detail: Some(detail), .. } => {
                (detail.error, detail.output) = Default::default();
            }
            What::Event { text, .. } => super::rows::cut(text, 256),
            _ => {}
        }
        true
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    most_rows: usize,
    most_bytes: usize,
    waiting: Mutex<QueuedRows>,
    filled: Condvar,
    settled: Condvar,
    dropped: AtomicU64,
    shortened: AtomicU64,
}

#[derive(Debug, Default)]
struct QueuedRows {
    rows: VecDeque<Row>,
    bytes: usize,
    /// The consumer waits until there are this many rows: for fewer it is not woken.
    wanted: usize,
    /// Rows ever added, and ever written or dropped.
    put: u64,
    done: u64,
    /// A caller waits for the rows up to this one: until they are done, batches do not wait for more rows.
    hurry: u64,
    closed: bool,
}

impl Queue {
    pub(super) fn new(most_rows: usize, most_bytes: usize) -> Self {
        Self {
            most_rows,
            most_bytes,
            waiting: Mutex::default(),
            filled: Condvar::new(),
            settled: Condvar::new(),
            dropped: AtomicU64::new(0),
            shortened: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedRows> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a row, or drops it. The lock is never held longer than it takes to move rows.
    pub(super) fn put(&self, at: Time, what: What) {
        let mut row = Row { at, losses: 0, what };
        let audit = row.is_audit();
        let most_rows = if audit { self.most_rows + AUDIT } else { self.most_rows };
        let mut waiting = self.lock();
        if waiting.closed || waiting.rows.len() >= most_rows {
            drop(waiting);
            self.lost(1);
            return;
        }
        if !audit && waiting.bytes + row.bytes() > self.most_bytes {
            if !row.shorten() {
                drop(waiting);
                self.lost(1);
                return;
            }
            self.shortened.fetch_add(1, Ordering::Relaxed);
        }
        row.losses = self.dropped();
        waiting.bytes += row.bytes();
        waiting.put += 1;
        if audit {
            waiting.hurry = waiting.put;
        }
        waiting.rows.push_back(row);
        let enough = audit || waiting.rows.len() >= waiting.wanted;
        drop(waiting);
        if enough {
            self.filled.notify_one();
        }
    }

    /// Waits for rows: at most `idle` for the first, at most `flush` for a full batch. Empty: no row arrived. `None`:
    /// the queue is closed and empty.
    pub(super) fn take(&self, batch: usize, flush: Duration, idle: Duration) -> Option<Vec<Row>> {
        let mut waiting = self.wait(self.lock(), idle, 1);
        if !waiting.rows.is_empty() {
            waiting = self.wait(waiting, flush, batch);
        }
        if waiting.closed && waiting.rows.is_empty() {
            return None;
        }
        let n = batch.min(waiting.rows.len());
        let rows: Vec<Row> = waiting.rows.drain(..n).collect();
        waiting.bytes -= rows.iter().map(Row::bytes).sum::<usize>();
        Some(rows)
    }

    /// Waits until there are as many rows as `wanted`, or there is a reason not to wait for more; at most `limit`.
    fn wait<'a>(
        &self,
        mut waiting: MutexGuard<'a, QueuedRows>,
        limit: Duration,
        wanted: usize,
    ) -> MutexGuard<'a, QueuedRows> {
        waiting.wanted = wanted;
        let waits = |w: &mut QueuedRows| w.rows.len() < wanted && w.done >= w.hurry && !w.closed;
        let woken = self.filled.wait_timeout_while(waiting, limit, waits);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Marks this number of taken rows as done: written or dropped.
    pub(super) fn done(&self, n: usize) {
        let mut waiting = self.lock();
        waiting.done += n as u64;
        self.settled.notify_all();
    }

    /// Waits until all rows added before are done, at most this long; returns whether they are.
    pub(super) fn settle(&self, most: Duration) -> bool {
        let mut waiting = self.lock();
        let until = waiting.put;
        waiting.hurry = until;
        self.filled.notify_one();
        let settled = self.settled.wait_timeout_while(waiting, most, |w| w.done < until);
        !settled.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Accepts no more rows; those that wait are still written.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// The consumer is gone: drops the rows that wait.
    pub(super) fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        self.lost(waiting.rows.len());
        waiting.rows.clear();
        waiting.bytes = 0;
        waiting.done = waiting.put;
        self.settled.notify_all();
    }

    pub(super) fn lost(&self, n: usize) {
        self.dropped.fetch_add(n as u64, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn shortened(&self) -> u64 {
        self.shortened.load(Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().rows.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);
    const LONG: Duration = Duration::from_secs(3600);

    fn put(queue: &Queue) {
        let (job, principal) = (None, None);
        queue.put(Time(0), What::Event { job, kind: EventKind::Worker, text: String::new(), principal });
    }

    /// Returns once the consumer waits for this many rows: it says so under the lock that it gives up when it sleeps.
    fn wait_until_it_wants(queue: &Queue, rows: usize) {
        let step = Duration::from_millis(1);
        let wants = (0..DEADLINE.as_millis()).any(|_| {
            std::thread::park_timeout(step);
            queue.lock().wanted == rows
        });
        assert!(wants, "it does not wait for {rows} rows");
    }

    #[test]
    fn the_consumer_is_woken_by_the_first_row_and_by_a_full_batch() {
        let queue = Arc::new(Queue::new(10, 1000));
        let (taken, result) = channel();
        let consumer = queue.clone();
        std::thread::spawn(move || taken.send(consumer.take(3, LONG, LONG).map(|rows| rows.len())));
        wait_until_it_wants(&queue, 1);
        put(&queue);
        wait_until_it_wants(&queue, 3);
        put(&queue);
        put(&queue);
        assert_eq!(result.recv_timeout(DEADLINE), Ok(Some(3)));
    }
}
