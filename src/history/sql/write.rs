//! Writes, one transaction at a time. All of it may come again, and in either order.

use std::collections::{BTreeMap, HashSet};

use rosterd_domain::id::{Generation, Item, JobName};
use rosterd_domain::item::{Outcome, Running};
use rosterd_domain::time::Time;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Transaction, params};

use super::read::named;
use crate::numbers::{signed, unsigned};
use crate::owners::{AssignmentStep, KnownAssignment, OpenAssignment, RecordedAssignment};
use crate::port::HOUR;
use crate::queue::Of;
use crate::rows::{Detail, EventKind, NotRunRow, RunState, result_names};

/// The items that may have a run without an end, as of the last commit. Most runs are written with their end, so that
/// few items are here, and nothing has to be looked for.
#[derive(Debug, Default)]
pub(super) struct OpenItems(HashSet<(JobName, Item)>);

impl OpenItems {
    /// Reads them.
    pub(super) fn read(db: &Connection) -> rusqlite::Result<Self> {
        let mut statement = db.prepare(
            "SELECT job, item FROM runs INDEXED BY runs_open WHERE outcome IS NULL AND state <> 'TASK_UNKNOWN'",
        )?;
        // No run comes of what is not the name of a job.
        let rows = statement.query_map([], |row| {
            let job: String = row.get(0)?;
            Ok(JobName::new(&job).ok().zip(Some(Item(row.get(1)?))))
        })?;
        rows.filter_map(Result::transpose).collect::<rusqlite::Result<_>>().map(Self)
    }
}

const INSERT_RUN: &str = "INSERT INTO runs (job, item, token, fire, source, instance, worker, trigger_id, state, outcome, requeued, since, \
     started, ended, error, output, processed, failed, attempt) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

/// One transaction of the writer.
pub(crate) struct Batch<'a> {
    tx: Transaction<'a>,
    /// [`INSERT_RUN`], looked up once: nearly all rows are runs.
    insert_run: CachedStatement<'a>,
    open_items: &'a mut OpenItems,
    /// The items of which this transaction wrote whether they may have such a run.
    opened: BTreeMap<(JobName, Item), bool>,
    /// Counters by job, hour and name.
    tallies: BTreeMap<(JobName, i64, &'static str), u64>,
}

impl<'a> Batch<'a> {
    /// Begins the transaction. The connection has no other.
    pub(super) fn new(db: &'a Connection, open_items: &'a mut OpenItems) -> rusqlite::Result<Self> {
        let (tx, insert_run) = (db.unchecked_transaction()?, db.prepare_cached(INSERT_RUN)?);
        Ok(Self { tx, insert_run, open_items, opened: BTreeMap::new(), tallies: BTreeMap::new() })
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.tx.prepare_cached(sql)?.execute(params)
    }

    fn tally(&mut self, job: &JobName, at: Time, what: &'static str, n: u64) {
        let counted = self.tallies.entry((job.clone(), at.0.div_euclid(HOUR), what)).or_default();
        *counted = counted.saturating_add(n);
    }

    /// Adds an unknown run; earlier runs of the item are over, even if their end was not seen.
    fn insert_run(
        &mut self,
        of: &Of,
        run: &Running,
        begun: bool,
        end: Option<(Outcome, Time, bool)>,
        detail: &Detail,
    ) -> rusqlite::Result<bool> {
        let known = if begun { RunState::Running } else { RunState::Staging };
        let state = end.map_or(known, |(outcome, ..)| outcome.into());
        let inserted = self.insert_run.execute(params![
            of.job.as_str(),
            of.item.0,
            signed(of.token.0),
            run.fire.0,
            run.source.as_str(),
            run.instance.as_str(),
            run.worker.as_str(),
            run.trigger.as_ref().map(|id| id.as_str()),
            state.as_str(),
            end.map(|(outcome, ..)| outcome.as_str()),
            end.is_some_and(|(_, _, requeued)| requeued),
            run.since.0,
            detail.started_at.map(|t| t.0),
            end.map(|(_, at, _)| detail.ended_at.unwrap_or(at).0),
            detail.error,
            detail.output,
            signed(detail.processed),
            signed(detail.failed),
            detail.attempt,
        ])?;
        if inserted > 0 {
            self.tally(&of.job, run.since, "fired", 1);
            self.end_earlier(of, end.is_none())?;
        }
        Ok(inserted > 0)
    }

    /// The runs of the item before this one, which was just written, are over. `open`: this one has no end yet.
    fn end_earlier(&mut self, of: &Of, mut open: bool) -> rusqlite::Result<()> {
        let item = (of.job.clone(), of.item);
        if self.opened.get(&item).copied().unwrap_or_else(|| self.open_items.0.contains(&item)) {
            self.execute(
                "UPDATE runs INDEXED BY runs_open SET state = 'TASK_UNKNOWN' \
                 WHERE job = ? AND item = ? AND token < ? AND outcome IS NULL AND state <> 'TASK_UNKNOWN'",
                params![of.job.as_str(), of.item.0, signed(of.token.0)],
            )?;
            // This one may have come after a later one.
            open = open || self.has_open_run(of)?;
        } else if !open {
            return Ok(());
        }
        self.opened.insert(item, open);
        Ok(())
    }

    fn has_open_run(&self, of: &Of) -> rusqlite::Result<bool> {
        self.tx
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM runs INDEXED BY runs_open \
                 WHERE job = ? AND item = ? AND outcome IS NULL AND state <> 'TASK_UNKNOWN')",
            )?
            .query_row(params![of.job.as_str(), of.item.0], |row| row.get(0))
    }

    /// A run was started. Changes nothing if the run is known.
    pub(crate) fn start(&mut self, of: &Of, run: &Running, detail: &Detail) -> rusqlite::Result<bool> {
        self.insert_run(of, run, false, None, detail)
    }

    /// User code of a run has started. Changes nothing if that, or more, is known.
    pub(crate) fn begun(&mut self, of: &Of, run: &Running, at: Option<Time>) -> rusqlite::Result<()> {
        let detail = Detail { started_at: at, ..Detail::default() };
        if !self.insert_run(of, run, true, None, &detail)? {
            self.execute(
                "UPDATE runs INDEXED BY runs_job SET state = 'TASK_RUNNING', started = coalesce(started, ?) \
                 WHERE job = ? AND since = ? AND item = ? AND token = ? AND state = 'TASK_STAGING'",
                params![at.map(|t| t.0), of.job.as_str(), run.since.0, of.item.0, signed(of.token.0)],
            )?;
        }
        Ok(())
    }

    /// A run ended, whether or not its start was seen. The first end stands; a repeated one fills in missing details.
    pub(crate) fn end(
        &mut self,
        of: &Of,
        run: &Running,
        (outcome, at, requeued): (Outcome, Time, bool),
        detail: &Detail,
    ) -> rusqlite::Result<()> {
        // Most ends come together with their start, as one row.
        if self.insert_run(of, run, true, Some((outcome, at, requeued)), detail)? {
            self.tally_end(of, outcome, at, detail);
            return Ok(());
        }
        let ended = self.execute(
            "UPDATE runs INDEXED BY runs_job SET state = ?4, outcome = ?5, requeued = ?6, ended = ?7, \
             started = coalesce(?8, started), error = ?9, output = ?10, processed = ?11, failed = ?12, \
             attempt = max(?13, attempt) \
             WHERE job = ?1 AND since = ?14 AND item = ?2 AND token = ?3 AND outcome IS NULL",
            params![
                of.job.as_str(),
                of.item.0,
                signed(of.token.0),
                RunState::from(outcome).as_str(),
                outcome.as_str(),
                requeued,
                detail.ended_at.unwrap_or(at).0,
                detail.started_at.map(|t| t.0),
                detail.error,
                detail.output,
                signed(detail.processed),
                signed(detail.failed),
                detail.attempt,
                run.since.0,
            ],
        )?;
        if ended > 0 {
            self.tally_end(of, outcome, at, detail);
            let open = self.has_open_run(of)?;
            self.opened.insert((of.job.clone(), of.item), open);
        } else if *detail != Detail::default() {
            self.fill_in(of, run, outcome, detail)?;
        }
        Ok(())
    }

    /// Counted at the end, with the values of the row.
    fn tally_end(&mut self, of: &Of, outcome: Outcome, at: Time, detail: &Detail) {
        let at = detail.ended_at.unwrap_or(at);
        self.tally(&of.job, at, outcome.as_str(), 1);
        for (what, n) in [("processed", detail.processed), ("failed_records", detail.failed)] {
            if n > 0 {
                self.tally(&of.job, at, what, n);
            }
        }
    }

    fn fill_in(&self, of: &Of, run: &Running, outcome: Outcome, detail: &Detail) -> rusqlite::Result<usize> {
        self.execute(
            "UPDATE runs INDEXED BY runs_job SET started = coalesce(started, ?5), error = iif(error = '', ?6, error), \
             output = iif(output = '', ?7, output), processed = max(processed, ?8), failed = max(failed, ?9), \
             attempt = max(attempt, ?10) WHERE job = ?1 AND since = ?11 AND item = ?2 AND token = ?3 AND outcome = ?4",
            params![
                of.job.as_str(),
                of.item.0,
                signed(of.token.0),
                outcome.as_str(),
                detail.started_at.map(|t| t.0),
                detail.error,
                detail.output,
                signed(detail.processed),
                signed(detail.failed),
                detail.attempt,
                run.since.0,
            ],
        )
    }

    /// Whether a row already covers all scheduled times of `gap`, with the same result.
    pub(crate) fn covers(&self, gap: &NotRunRow) -> rusqlite::Result<bool> {
        let (result, reason) = result_names(gap.result);
        let latest: Option<i64> = self
            .tx
            .prepare_cached(
                "SELECT latest FROM not_run WHERE job = ? AND item = ? AND result = ? AND reason = ? AND first <= ? \
                 ORDER BY first DESC LIMIT 1",
            )?
            .query_row(params![gap.job.as_str(), gap.item.0, result, reason, gap.first.0], |row| row.get(0))
            .optional()?;
        Ok(latest.is_some_and(|latest| latest >= gap.latest.0))
    }

    /// Adds a gap; returns the number of its row.
    pub(crate) fn insert_gap(&mut self, gap: &NotRunRow) -> rusqlite::Result<i64> {
        let (result, reason) = result_names(gap.result);
        let id = self
            .tx
            .prepare_cached(
                "INSERT INTO not_run (job, item, first, latest, count, result, reason, recorded) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET latest = max(latest, excluded.latest), \
                 count = max(count, excluded.count), recorded = excluded.recorded RETURNING id",
            )?
            .query_row(
                params![
                    gap.job.as_str(),
                    gap.item.0,
                    gap.first.0,
                    gap.latest.0,
                    signed(gap.count),
                    result,
                    reason,
                    gap.recorded.0
                ],
                |row| row.get(0),
            )?;
        self.tally_gap(gap);
        Ok(id)
    }

    /// Extends the gap with this number; false if it has been pruned.
    pub(crate) fn extend_gap(&mut self, id: i64, by: &NotRunRow) -> rusqlite::Result<bool> {
        let extended = self.execute(
            "UPDATE not_run SET latest = ?, count = count + ?, recorded = ? WHERE id = ?",
            params![by.latest.0, signed(by.count), by.recorded.0, id],
        )?;
        if extended > 0 {
            self.tally_gap(by);
        }
        Ok(extended > 0)
    }

    fn tally_gap(&mut self, gap: &NotRunRow) {
        let what = match result_names(gap.result) {
            (result, "") => result,
            (_, reason) => reason,
        };
        self.tally(&gap.job, gap.latest, what, gap.count);
    }

    pub(crate) fn event(
        &self,
        at: Time,
        job: Option<&JobName>,
        kind: EventKind,
        text: &str,
        principal: Option<&str>,
    ) -> rusqlite::Result<()> {
        self.execute(
            match kind.is_audit() {
                true => "INSERT INTO audit (at, job, kind, text, principal) VALUES (?, ?, ?, ?, ?)",
                false => "INSERT INTO events (at, job, kind, text, principal) VALUES (?, ?, ?, ?, ?)",
            },
            params![at.0, job.map(JobName::as_str), kind.as_str(), text, principal],
        )?;
        Ok(())
    }

    /// The assignment of the job that was last written.
    pub(crate) fn known_assignment(&self, job: &JobName) -> rusqlite::Result<Option<KnownAssignment>> {
        self.tx
            .prepare_cached("SELECT incarnation, generation, at FROM assigned WHERE job = ?")?
            .query_row([job.as_str()], |row| {
                Ok(KnownAssignment {
                    incarnation: row.get::<_, String>(0)?.into(),
                    generation: Generation(unsigned(row.get(1)?)),
                    at: Time(row.get(2)?),
                })
            })
            .optional()
    }

    /// The rows of the job that have no end.
    pub(crate) fn open_assignments(&self, job: &JobName) -> rusqlite::Result<Vec<OpenAssignment>> {
        let mut statement = self.tx.prepare_cached(
            "SELECT id, item, instance, incarnation, generation FROM assignments INDEXED BY assignments_open \
             WHERE job = ? AND ended IS NULL ORDER BY item, id",
        )?;
        let rows = statement.query_map([job.as_str()], |row| {
            Ok(OpenAssignment {
                id: row.get(0)?,
                item: Item(row.get(1)?),
                instance: named(row, 2, |id| id.parse().ok())?,
                incarnation: row.get::<_, String>(3)?.into(),
                generation: Generation(unsigned(row.get(4)?)),
            })
        })?;
        rows.collect()
    }

    /// Executes one step of an assignment.
    pub(crate) fn take_step(
        &self,
        owned: &RecordedAssignment,
        at: Time,
        step: &AssignmentStep<'_>,
    ) -> rusqlite::Result<()> {
        let job = owned.job.as_str();
        match step {
            AssignmentStep::End { id, why } => self.execute(
                "UPDATE assignments SET ended = max(since, ?), end_reason = ? WHERE id = ?",
                params![at.0, why, id],
            ),
            AssignmentStep::Begin { item, instance, why } => self.execute(
                "INSERT INTO assignments (job, incarnation, item, generation, instance, since, reason, end_reason) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, '') ON CONFLICT DO NOTHING",
                params![
                    job,
                    &*owned.incarnation,
                    item.0,
                    signed(owned.generation),
                    instance,
                    at.0,
                    why
                ],
            ),
            AssignmentStep::Explain { id, why } => self
                .execute("UPDATE assignments SET reason = ? WHERE id = ?", params![why, id]),
            AssignmentStep::Know => self.execute(
                "INSERT INTO assigned (job, incarnation, generation, at) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET \
                 incarnation = excluded.incarnation, generation = excluded.generation, at = excluded.at",
                params![job, &*owned.incarnation, signed(owned.generation), at.0],
            ),
            AssignmentStep::Forget => self.execute("DELETE FROM assigned WHERE job = ?", [job]),
        }?;
        Ok(())
    }

    pub(crate) fn commit(mut self) -> rusqlite::Result<()> {
        for ((job, hour, what), n) in std::mem::take(&mut self.tallies) {
            self.execute(
                // Saturates: a worker may report any number of processed records.
                "INSERT INTO hourly (job, hour, what, n) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET \
                 n = n + min(excluded.n, 9223372036854775807 - n)",
                params![job.as_str(), hour, what, signed(n)],
            )?;
        }
        self.tx.commit()?;
        for (item, open) in self.opened {
            if open {
                self.open_items.0.insert(item)
            } else {
                self.open_items.0.remove(&item)
            };
        }
        Ok(())
    }
}
