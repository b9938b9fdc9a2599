//! Everything between the recorder and the database: the spool, which two threads share, and its status. The spooler,
//! in this file, turns rows into records and puts them into the spool; rows that do not fit are dropped and counted,
//! and a damaged file is set aside. The sender empties it. Neither waits for the other longer than one operation on the
//! file takes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rosterd_domain::time::Time;
use rosterd_runtime::aside::give_way;
use rosterd_runtime::mutants;
use rosterd_runtime::tasks::panic_text;
use tokio::sync::Notify;

use super::aside::set_aside;
use super::queue::Queue;
use super::record::Records;
use super::spool::{self, OpenError, Spool};
use super::{Clock, Options};

/// How long the spooler sleeps if no rows arrive.
const REST: Duration = Duration::from_secs(60);
/// How long to wait before trying again to open a file.
const REOPEN: Duration = Duration::from_secs(5);
/// Most files set aside by one process: if there are more, the disk is at fault.
const MOST_ASIDE: u32 = 3;

/// The spool, shared.
#[derive(Debug)]
pub(super) struct Outbox {
    path: PathBuf,
    most_bytes: u64,
    spool: Mutex<Option<Spool>>,
    /// Records were added, or the spool was closed.
    pub(super) changed: Notify,
    closed: AtomicBool,
    ended: Notify,
    /// A reader found the file damaged: it must be set aside.
    damaged: AtomicBool,
    pub(super) standing: Standing,
}

/// The status, for people.
#[derive(Debug, Default)]
pub(super) struct Standing {
    waiting: AtomicU64,
    bytes: AtomicU64,
    sent: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Outbox {
    pub(super) fn new(path: PathBuf, most_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            path,
            most_bytes,
            spool: Mutex::default(),
            changed: Notify::new(),
            closed: AtomicBool::new(false),
            ended: Notify::new(),
            damaged: AtomicBool::new(false),
            standing: Standing::default(),
        })
    }

    /// The spool, if it is open; hold the guard only briefly.
    pub(super) fn spool(&self) -> MutexGuard<'_, Option<Spool>> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no more records will be added.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns, once, when no more records will be added.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Closes a file that cannot be read, to be set aside.
    pub(super) fn give_up(&self) {
        *self.spool() = None;
        self.damaged.store(true, Ordering::Release);
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
        self.ended.notify_one();
    }

    /// Updates how much is waiting.
    pub(super) fn measure(&self, spool: &Spool) {
        self.standing.waiting.store(spool.rows(), Ordering::Relaxed);
        self.standing.bytes.store(spool.bytes().unwrap_or(0), Ordering::Relaxed);
    }
}

impl Standing {
    pub(super) fn waiting(&self) -> (u64, u64) {
        (self.waiting.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn count_sent(&self, rows: u64) {
        self.sent.fetch_add(rows, Ordering::Relaxed);
    }

    /// Why nothing is sent; `None`: sending works.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the previous value.
    pub(super) fn set_trouble(&self, trouble: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.trouble.lock().unwrap_or_else(PoisonError::into_inner), trouble)
    }
}

/// The status of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The database that coordinators share, without its user; `None`: a file of this coordinator's own.
    pub database: Option<String>,
    /// Rows that wait, in memory or on disk.
    pub waiting: u64,
    /// Bytes of those on the disk.
    pub waiting_bytes: u64,
    /// Rows that the database has accepted, since the start.
    pub sent: u64,
    /// Rows that were dropped, since the start.
    pub dropped: u64,
    /// Why nothing reaches the database; `None`: sending works.
    pub trouble: Option<String>,
}

/// An outbox, and the name of the database behind it.
pub(super) type Shared = (Arc<Outbox>, Arc<str>);

impl Status {
    pub(super) fn of(queue: &Queue, outbox: Option<&Shared>) -> Self {
        let (queued, dropped) = (queue.len() as u64, queue.dropped());
        let Some((outbox, database)) = outbox else {
            return Self { waiting: queued, dropped, ..Self::default() };
        };
        let (waiting, waiting_bytes) = outbox.standing.waiting();
        Self {
            database: Some(database.to_string()),
            waiting: waiting + queued,
            waiting_bytes,
            sent: outbox.standing.sent(),
            dropped,
            trouble: outbox.standing.trouble(),
        }
    }
}

/// Fills the spool, on a thread of its own.
pub(super) struct Spooler {
    outbox: Arc<Outbox>,
    options: Options,
    clock: Clock,
    queue: Arc<Queue>,
    records: Records,
    aside: u32,
    reopen_at: Time,
    /// Rows dropped since the last success; 0: no failure.
    failed: usize,
}

impl Drop for Spooler {
    fn drop(&mut self) {
        self.queue.abandon();
        self.outbox.close();
    }
}

impl Spooler {
    pub(super) fn new(outbox: Arc<Outbox>, options: Options, clock: Clock, queue: Arc<Queue>) -> Self {
        let (records, reopen_at) = (Records::default(), Time(i64::MIN));
        let mut spooler = Self { outbox, options, clock, queue, records, aside: 0, reopen_at, failed: 0 };
        spooler.open();
        spooler
    }

    /// Runs until the queue is closed and the sender has ended.
    pub(super) fn run(mut self, sender: JoinHandle<()>) {
        give_way();
        while let Some(rows) = self.queue.take(self.options.batch.max(1), self.options.flush, REST) {
            if !rows.is_empty() {
                self.step(rows);
            }
        }
        drop(self);
        // A panic of the thread was logged when it happened.
        let _ = sender.join();
    }

    fn step(&mut self, rows: Vec<super::queue::Row>) {
        let count = rows.len();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.put(rows))) {
            tracing::error!(
                path = %self.outbox.path.display(), dropped = count, why = panic_text(&*panic),
                "the history's spooler panicked and begins again: this is a defect, report it"
            );
            *self.outbox.spool() = None;
            self.records = Records::default();
            self.reopen_at = Time(i64::MIN);
            self.queue.lost(count);
        }
        self.queue.done(count);
    }

    fn put(&mut self, rows: Vec<super::queue::Row>) {
        mutants::panic_if_injected("panic-history");
        self.open();
        let count = rows.len();
        let records: Vec<_> = rows.into_iter().map(|row| self.records.of(row)).collect();
        let appended = self.outbox.spool().as_mut().map(|spool| {
            let appended = spool.append(&records);
            self.outbox.measure(spool);
            appended
        });
        match appended {
            Some(Ok(0)) => self.recovered(),
            Some(Ok(refused)) => self.fail(refused, "it is full: the database is away for too long"),
            Some(Err(error)) => {
                self.fail(count, &error.to_string());
                if spool::is_damage(&error) {
                    self.outbox.give_up();
                    self.reopen_at = Time(i64::MIN);
                }
            }
            None => self.fail(count, "it cannot be opened"),
        }
        self.outbox.changed.notify_one();
    }

    fn fail(&mut self, rows: usize, why: &str) {
        self.records = Records::default();
        self.queue.lost(rows);
        if self.failed == 0 {
            tracing::error!(
                path = %self.outbox.path.display(), why,
                "rows of the history cannot wait on the disk: they are dropped and counted until they can; check the \
                 database, and the free space"
            );
        }
        self.failed += rows;
    }

    fn recovered(&mut self) {
        if self.failed > 0 {
            tracing::info!(dropped = self.failed, "rows of the history are kept again; these are lost");
            self.failed = 0;
        }
    }

    /// Opens the file; a file that is unusable is set aside first.
    fn open(&mut self) {
        let now = (self.clock)();
        // If the clock was set back, the file must not stay closed.
        let waits = now < self.reopen_at && now.plus(REOPEN) >= self.reopen_at;
        if self.outbox.spool().is_some() || waits {
            return;
        }
        self.reopen_at = now.plus(REOPEN);
        let name = || uuid::Uuid::new_v4().to_string();
        let open = |path: &Path| Spool::open(path, self.outbox.most_bytes, name);
        let found = self.outbox.damaged.swap(false, Ordering::AcqRel);
        let mut opened = match found {
            true => Err(OpenError::Useless("what waits in it could not be read".to_owned())),
            false => open(&self.outbox.path),
        };
        if let Err(OpenError::Useless(why)) = &opened
            && self.aside < MOST_ASIDE
        {
            // The records that waited in it will not be sent.
            self.queue.lost(usize::try_from(self.outbox.standing.waiting().0).unwrap_or(usize::MAX));
            self.aside += 1;
            if set_aside(&self.outbox.path, "damaged", why, now, self.aside) {
                opened = open(&self.outbox.path);
            }
        }
        match opened {
            Ok(spool) => {
                self.outbox.measure(&spool);
                *self.outbox.spool() = Some(spool);
            }
            Err(error) if self.failed == 0 => {
                tracing::error!(path = %self.outbox.path.display(), %error, "what waits for the database cannot be opened");
            }
            Err(_) => {}
        }
    }
}
