//! The writer: takes the rows that wait, writes them in batches, and deletes a few old rows in between. It owns the
//! file and has its own thread. No error stops it: rows that cannot be written are dropped and counted, a damaged file
//! is set aside, and it continues.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Source;
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;

use super::aside;
use super::owners::{self, RecordedAssignment};
use super::queue::{Of, Queue, Row, What};
use super::rows::{Detail, EventKind, NotRunRow};
use super::sql::{self, AGING, Batch, HistoryFile, OpenError};
use super::{Clock, Options};
use rosterd_runtime::aside::give_way;
use rosterd_runtime::lookup::Lookup;
use rosterd_runtime::mutants;
use rosterd_runtime::tasks::panic_text;

/// How long the writer sleeps if no rows arrive, and how often it looks for old rows.
const REST: Duration = Duration::from_secs(60);
/// Most rows deleted at a time.
const PRUNE: usize = 5_000;
/// How long to wait before trying again to open a file.
const REOPEN: Duration = Duration::from_secs(5);
/// Most files set aside by one process: if there are more, the disk is at fault.
const MOST_ASIDE: u32 = 3;

pub(super) struct Writer {
    path: PathBuf,
    options: Options,
    clock: Clock,
    queue: Arc<Queue>,
    /// Incremented when a new file is created at the path, so that readers open it again.
    file: Arc<AtomicU64>,
    pub(super) store: Option<HistoryFile>,
    gaps: Gaps,
    aside: u32,
    reopen_at: Time,
    /// Rows dropped since the last success; 0: no failure.
    failed: usize,
    prune_at: Time,
    pruned_day: Time,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}

impl Writer {
    pub(super) fn new(
        path: PathBuf,
        options: Options,
        clock: Clock,
        queue: Arc<Queue>,
        file: Arc<AtomicU64>,
    ) -> Self {
        let [reopen_at, prune_at, pruned_day] = [Time(i64::MIN); 3];
        let (store, gaps) = (None, Gaps::default());
        let mut writer = Self {
            path,
            options,
            clock,
            queue,
            file,
            store,
            gaps,
            aside: 0,
            reopen_at,
            failed: 0,
            prune_at,
            pruned_day,
        };
        writer.open();
        writer
    }

    /// Runs until the queue is closed.
    pub(super) fn run(mut self) {
        give_way();
        let mut idle = Duration::ZERO;
        while let Some(rows) = self.queue.take(self.options.batch.max(1), self.options.flush, idle) {
            idle = self.step(&rows);
        }
    }

    /// Writes the rows, and cleans up a little; returns how long it may sleep.
    pub(super) fn step(&mut self, rows: &[Row]) -> Duration {
        if !rows.is_empty() {
            self.unless_it_panics(rows.len(), |writer| writer.write(rows));
            self.queue.done(rows.len());
        }
        match self.unless_it_panics(0, Self::clean) {
            Some(Ok(true)) => self.options.flush,
            Some(Ok(false)) => REST,
            Some(Err(error)) => {
                tracing::warn!(path = %self.path.display(), %error, "old rows of the history cannot be deleted");
                self.prune_at = (self.clock)().plus(REST);
                REST
            }
            None => {
                self.prune_at = (self.clock)().plus(REST);
                REST
            }
        }
    }

    /// A panic ends neither the writer nor later batches: the rows in flight are lost and counted, and the file is
    /// opened again, since the state of the interrupted work is not known.
    fn unless_it_panics<T>(&mut self, rows: usize, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        if let Err(panic) = &done {
            tracing::error!(
                path = %self.path.display(), dropped = rows, why = panic_text(&**panic),
                "the history's writer panicked and begins again: this is a defect, report it"
            );
            self.store = None;
            self.gaps.clear();
            self.reopen_at = Time(i64::MIN);
            self.queue.lost(rows);
        }
        done.ok()
    }

    /// Opens the file; a file that is unusable is set aside first.
    fn open(&mut self) {
        let now = (self.clock)();
        // If the clock was set back, the file must not stay closed.
        if self.store.is_some() || (now < self.reopen_at && now.plus(REOPEN) >= self.reopen_at) {
            return;
        }
        self.reopen_at = now.plus(REOPEN);
        let mut opened = HistoryFile::open(&self.path);
        let aside = match &opened {
            Err(OpenError::Damaged(_)) => Some("damaged"),
            Err(OpenError::Newer(_)) => Some("newer"),
            _ => None,
        };
        if let (Err(error), Some(what)) = (&opened, aside) {
            if !self.set_aside(what, &error.to_string()) {
                return;
            }
            opened = HistoryFile::open(&self.path);
        }
        match opened {
            Ok(store) => self.store = Some(store),
            Err(error) if self.failed == 0 => tracing::error!(
                path = %self.path.display(), %error,
                "the history cannot be opened: what happens is not kept until it can; check the directory's \
                 owner, rights and free space"
            ),
            Err(_) => {}
        }
    }

    /// Renames the file, with those that belong to it, so that a new one can be created.
    fn set_aside(&mut self, what: &str, why: &str) -> bool {
        self.store = None;
        if self.aside >= MOST_ASIDE {
            return false;
        }
        self.aside += 1;
        let done = aside::set_aside(&self.path, what, why, (self.clock)(), self.aside);
        if done {
            self.file.fetch_add(1, Ordering::Release);
        }
        done
    }

    fn write(&mut self, rows: &[Row]) {
        mutants::panic_if_injected("panic-history");
        self.open();
        let Some(store) = &mut self.store else {
            return self.fail(rows.len(), None);
        };
        let written = put(store, &mut self.gaps, rows);
        match written {
            Ok(refused) => {
                if refused > 0 {
                    self.queue.lost(refused);
                }
                if self.failed > 0 {
                    tracing::info!(
                        dropped = self.failed,
                        "the history is written again; these rows are lost"
                    );
                    self.failed = 0;
                }
            }
            Err(error) => {
                self.fail(rows.len(), Some(&error));
                if sql::is_damage(&error) && self.set_aside("damaged", &error.to_string()) {
                    self.reopen_at = Time(i64::MIN);
                    self.open();
                }
            }
        }
    }

    fn fail(&mut self, rows: usize, error: Option<&rusqlite::Error>) {
        self.gaps.clear();
        self.queue.lost(rows);
        if let (0, Some(error)) = (self.failed, error) {
            tracing::error!(
                path = %self.path.display(), %error,
                "the history cannot be written: rows are dropped and counted until it can; check the free space"
            );
        }
        self.failed += rows;
    }

    /// Deletes at most one portion of what is too old or too much; returns whether there may be more.
    fn clean(&mut self) -> rusqlite::Result<bool> {
        let Some(store) = &self.store else { return Ok(false) };
        let rows = store.rows()?;
        let too_many = rows.iter().sum::<u64>() > self.options.max_rows;
        if too_many || store.bytes()? > self.options.max_bytes {
            let mut tables: Vec<usize> = (0..AGING.len()).collect();
            tables.sort_by_key(|table| std::cmp::Reverse(rows[*table]));
            // Rows in force are kept, so the largest table may have nothing to delete.
            for table in tables {
                // At most a tenth, so that a low limit does not empty the table.
                let portion = PRUNE.min(usize::try_from(rows[table] / 10).unwrap_or(PRUNE)).max(1);
                if store.prune_first(table, portion)? > 0 {
                    return Ok(true);
                }
            }
        }
        let now = (self.clock)();
        // If the clock was set back, pruning must not stop.
        if now < self.prune_at && now.plus(REST) >= self.prune_at {
            return Ok(false);
        }
        let cutoff = now.minus(self.options.retention);
        for table in 0..AGING.len() {
            if store.prune_older(table, cutoff, PRUNE)? == PRUNE {
                return Ok(true);
            }
        }
        if store.prune_audit(self.options.max_audit, PRUNE)? > 0 {
            return Ok(true);
        }
        if cutoff.since(self.pruned_day) >= Duration::from_secs(86_400) {
            store.prune_counts(cutoff)?;
            self.pruned_day = cutoff;
        }
        self.prune_at = now.plus(REST);
        Ok(false)
    }
}

/// Writes the rows in one transaction; returns how many were refused for their own sake.
fn put(store: &mut HistoryFile, gaps: &mut Gaps, rows: &[Row]) -> rusqlite::Result<usize> {
    let mut batch = store.begin(rows.iter().any(Row::is_audit))?;
    let mut refused = 0;
    let mut ends = Ends::default();
    for end in rows.iter().filter_map(ended) {
        ends.insert(end, ());
    }
    for row in rows {
        match put_row(&mut batch, gaps, row, &ends) {
            Ok(()) => {}
            Err(error) if sql::is_the_rows_fault(&error) => {
                tracing::error!(?row, %error, "the history refuses a row");
                refused += 1;
            }
            Err(error) => return Err(error),
        }
    }
    batch.commit()?;
    Ok(refused)
}

/// The run of a row.
type RunKey<'a> = (Token, Item, &'a JobName);

/// The runs whose end is in the same batch.
type Ends<'a> = Lookup<RunKey<'a>, ()>;

fn run_of(of: &Of) -> RunKey<'_> {
    (of.token, of.item, &of.job)
}

fn ended(row: &Row) -> Option<RunKey<'_>> {
    let What::Ended { of, .. } = &row.what else { return None };
    Some(run_of(of))
}

/// A run of `ends` is written once, with its end.
fn put_row(batch: &mut Batch<'_>, gaps: &mut Gaps, row: &Row, ends: &Ends<'_>) -> rusqlite::Result<()> {
    let nothing = Detail::default();
    gaps.note_losses(row.losses);
    match &row.what {
        What::Started { of, run, detail } => {
            if matches!(run.source, Source::NormalTrigger | Source::Misfire) {
                gaps.end(&of.job, of.item);
            }
            if detail.is_none() && ends.contains_key(&run_of(of)) {
                return Ok(());
            }
            batch.start(of, run, detail.as_deref().unwrap_or(&nothing))?;
            Ok(())
        }
        What::Begun { of, .. } if ends.contains_key(&run_of(of)) => Ok(()),
        What::Begun { of, run, at } => batch.begun(of, run, *at),
        What::Ended { of, run, outcome, at, requeued, detail } => {
            batch.end(of, run, (*outcome, *at, *requeued), detail.as_deref().unwrap_or(&nothing))
        }
        What::NotRun { job, item, first, latest, count, result } => {
            let (job, item, recorded) = (job.clone(), *item, row.at);
            let gap = NotRunRow {
                job,
                item,
                first: *first,
                latest: *latest,
                count: *count,
                result: *result,
                recorded,
            };
            gaps.put(batch, &gap)
        }
        What::Event { job, kind, text, principal } => {
            if let (Some(job), EventKind::Job) = (job, kind) {
                gaps.end_all(job);
            }
            batch.event(row.at, job.as_ref(), *kind, text, principal.as_deref())
        }
        What::Owned(owned) => put_owners(batch, row.at, owned),
    }
}

fn put_owners(batch: &mut Batch<'_>, at: Time, owned: &Owned) -> rusqlite::Result<()> {
    let (known, open) = (batch.known_assignment(&owned.job)?, batch.open_assignments(&owned.job)?);
    let assignment = RecordedAssignment::of(owned);
    for step in owners::steps(known.as_ref(), &open, at, &assignment) {
        batch.take_step(&assignment, at, &step)?;
    }
    Ok(())
}

/// The last gap of each item. Scheduled times are accounted for in order, so the next gap with the same reason is
/// adjacent to it, and is written as one with it.
#[derive(Default)]
struct Gaps {
    last: BTreeMap<(JobName, Item), LastGap>,
    losses: u64,
}

struct LastGap {
    row: i64,
    latest: Time,
    result: FireResult,
}

impl Gaps {
    /// Most items remembered; beyond that, gaps are not merged.
    const MOST: usize = 100_000;

    fn put(&mut self, batch: &mut Batch<'_>, gap: &NotRunRow) -> rusqlite::Result<()> {
        let key = (gap.job.clone(), gap.item);
        if let Some(last) = self.last.get_mut(&key)
            && last.result == gap.result
            && last.latest < gap.first
            && batch.extend_gap(last.row, gap)?
        {
            last.latest = gap.latest;
            return Ok(());
        }
        if batch.covers(gap)? {
            return Ok(());
        }
        let row = batch.insert_gap(gap)?;
        if self.last.len() >= Self::MOST {
            self.last.clear();
        }
        if self.last.get(&key).is_none_or(|last| last.latest < gap.latest) {
            self.last.insert(key, LastGap { row, latest: gap.latest, result: gap.result });
        }
        Ok(())
    }

    /// If rows were dropped, it is not known what lies between two gaps.
    fn note_losses(&mut self, losses: u64) {
        if self.losses != losses {
            self.losses = losses;
            self.last.clear();
        }
    }

    fn end(&mut self, job: &JobName, item: Item) {
        if !self.last.is_empty() {
            self.last.remove(&(job.clone(), item));
        }
    }

    fn end_all(&mut self, job: &JobName) {
        self.last.retain(|(of, _), _| of != job);
    }

    fn clear(&mut self) {
        self.last.clear();
    }
}
