//! Reads. The caller decides how many rows are enough.

use std::path::Path;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use super::schema::STEPS;
use crate::HistoryError;
use crate::numbers::{signed, unsigned};
use crate::port::{HOUR, Intervals, Tally};
use crate::rows::{
    EventFilter, EventKind, EventRow, MissedRow, NotRunRow, OwnerFilter, OwnerRow, Pulse, Recent, RunFilter,
    RunRow, RunState, missed_named, result_named, source_named,
};

const RUN: &str = "job, item, token, fire, source, instance, worker, trigger_id, state, requeued, since, started, \
                   ended, error, output, processed, failed, attempt";

/// Runs that did not start within a minute from their scheduled time: the condition of the index `runs_late`.
const LATE: &str = "since - fire NOT BETWEEN 0 AND 60000";

/// The history, for a reader.
#[derive(Debug)]
pub(crate) struct Shelf {
    db: Connection,
}

impl Shelf {
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        let db = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        db.busy_timeout(Duration::from_secs(5))?;
        // A container may lack a folder for temporary files.
        db.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(Self { db })
    }

    /// A file that no coordinator of this version has opened yet may have other indices.
    pub(crate) fn of_this_version(self, path: &Path) -> Result<Self, HistoryError> {
        let version: i64 = self.db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let known = signed(STEPS.len() as u64);
        if version == known {
            return Ok(self);
        }
        let remedy = match version < known {
            true => {
                "start a coordinator of this version with it once, or read it with the version that wrote it"
            }
            false => "read it with the version that wrote it",
        };
        Err(HistoryError::Unavailable(format!(
            "{} has schema {version}, and this program reads schema {known}: {remedy}",
            path.display()
        )))
    }

    /// All reads within `reads` see the same moment.
    pub(crate) fn at_once<T, E: From<rusqlite::Error>>(
        &self,
        reads: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let _ended_on_drop = self.db.unchecked_transaction()?;
        reads(self)
    }

    /// At most `most` runs, the newest first, after `after` (since and number); `take` returns false when it has
    /// enough.
    pub(crate) fn runs(
        &self,
        filter: &RunFilter,
        after: Option<(i64, i64)>,
        most: usize,
        mut take: impl FnMut((i64, i64), RunRow) -> bool,
    ) -> rusqlite::Result<()> {
        let (sql, values) = runs_sql(filter, after, most);
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let run = run(row)?;
            if !take((run.since.0, row.get(18)?), run) {
                break;
            }
        }
        Ok(())
    }

    /// The fire that a run belongs to. An item's tokens only increase, so the search from the newest run down ends soon
    /// after passing it.
    pub(crate) fn fire_of(&self, job: &JobName, item: Item, token: Token) -> rusqlite::Result<Option<Time>> {
        let mut statement = self.db.prepare_cached(
            "SELECT token, fire FROM runs INDEXED BY runs_job WHERE job = ? AND item = ? ORDER BY since DESC",
        )?;
        let mut rows = statement.query(params![job.as_str(), item.0])?;
        let mut lower = 0;
        while let Some(row) = rows.next()? {
            let found = unsigned(row.get(0)?);
            if found == token.0 {
                return Ok(Some(Time(row.get(1)?)));
            }
            // Some are out of order if the clock was set back.
            lower += usize::from(found < token.0);
            if lower > 1_000 {
                break;
            }
        }
        Ok(None)
    }

    /// An item's runs of one fire, in the order of their tokens.
    pub(crate) fn runs_of_fire(
        &self,
        job: &JobName,
        item: Item,
        fire: Time,
        most: usize,
    ) -> rusqlite::Result<Vec<RunRow>> {
        let mut statement = self.db.prepare_cached(&runs_by_fire_sql(RUN, ""))?;
        let next = fire.0.saturating_add(1);
        let params = params![job.as_str(), item.0, fire.0, next, signed(most as u64)];
        statement.query_map(params, run)?.collect()
    }

    /// The activity since these times.
    pub(crate) fn pulse(&self, runs: Time, missed: Time) -> rusqlite::Result<Pulse> {
        let count = "SELECT count(*) FROM runs INDEXED BY runs_since WHERE since >= ?";
        let count: i64 = self.db.prepare_cached(count)?.query_row([runs.0], |row| row.get(0))?;
        let mut lags = self.db.prepare_cached(
            "SELECT max(started - fire, 0) FROM (SELECT started, fire, source FROM runs INDEXED BY runs_since \
             WHERE since >= ? ORDER BY since DESC LIMIT 5000) WHERE source = 'NORMAL_TRIGGER' AND started IS NOT NULL \
             ORDER BY 1",
        )?;
        let lags = lags.query_map([runs.0], |row| Ok(unsigned(row.get(0)?)))?;
        let mut rows = self.db.prepare_cached(
            "SELECT job, reason, sum(count), max(latest) FROM not_run INDEXED BY not_run_recorded \
             WHERE recorded >= ? AND result = 'missed' GROUP BY job, reason ORDER BY max(latest) DESC LIMIT 1000",
        )?;
        let missed = rows.query_map([missed.0], |row| {
            Ok(MissedRow {
                job: named(row, 0, |job| job.parse().ok())?,
                reason: named(row, 1, missed_named)?,
                count: unsigned(row.get(2)?),
                latest: Time(row.get(3)?),
            })
        })?;
        Ok(Pulse {
            runs: unsigned(count),
            lags: lags.collect::<Result<_, _>>()?,
            missed: missed.collect::<Result<_, _>>()?,
        })
    }

    /// A job's runs since a time, counted by their state.
    pub(crate) fn recent(&self, job: &JobName, from: Time) -> rusqlite::Result<Vec<Recent>> {
        let mut statement = self.db.prepare_cached(
            "SELECT state, count(*), cast(min(total(processed), 9e18) AS INTEGER), \
             cast(min(total(failed), 9e18) AS INTEGER) FROM runs INDEXED BY runs_job \
             WHERE job = ? AND since >= ? GROUP BY state ORDER BY state",
        )?;
        let rows = statement.query_map(params![job.as_str(), from.0], |row| {
            let state: String = row.get(0)?;
            Ok(Recent {
                state: parsed(0, RunState::named(&state))?,
                runs: unsigned(row.get(1)?),
                processed: unsigned(row.get(2)?),
                failed: unsigned(row.get(3)?),
            })
        })?;
        rows.collect()
    }

    /// Events, likewise, from both of their tables. The position of the next page is a number over both: twice the
    /// row's number, plus one in the audit.
    pub(crate) fn events(
        &self,
        filter: &EventFilter,
        after: Option<(i64, i64)>,
        mut take: impl FnMut((i64, i64), EventRow) -> bool,
    ) -> rusqlite::Result<()> {
        let wanted = |audit: bool| filter.kind.is_none_or(|kind| kind.is_audit() == audit);
        let mut statements = Vec::new();
        for table in EventTable::ALL.into_iter().filter(|table| wanted(*table == EventTable::Audit)) {
            let (sql, values) = events_sql(table, filter, after);
            statements.push((table, self.db.prepare_cached(&sql)?, values));
        }
        let mut tables = Vec::new();
        for (table, statement, values) in &mut statements {
            let mut rows = statement.query(rusqlite::params_from_iter(&*values))?;
            let next = event(rows.next()?, *table)?;
            tables.push((*table, rows, next));
        }
        loop {
            let newest = tables.iter_mut().filter(|(.., next)| next.is_some());
            let Some((table, rows, next)) = newest.max_by_key(|(.., next)| next.as_ref().map(|(at, _)| *at))
            else {
                return Ok(());
            };
            let Some((at, row)) = next.take() else { return Ok(()) };
            if !take(at, row) {
                return Ok(());
            }
            *next = event(rows.next()?, *table)?;
        }
    }

    /// Who owned a job's items, the latest first, after `after` (since and number); `take` returns false when it has
    /// enough.
    pub(crate) fn owners(
        &self,
        filter: &OwnerFilter,
        after: Option<(i64, i64)>,
        mut take: impl FnMut((i64, i64), OwnerRow) -> bool,
    ) -> rusqlite::Result<()> {
        let index = if filter.item.is_some() { "assignments_item" } else { "assignments_job" };
        let mut wanted = Conditions::default();
        wanted.is("job = ?", Some(filter.job.as_str().to_owned()));
        wanted.is("item = ?", filter.item.map(|item| i64::from(item.0)));
        wanted.is("coalesce(ended, 9223372036854775807) > ?", filter.from.map(|t| t.0));
        let span = Span { from: None, to: filter.to, after };
        wanted.span(["since >= ?", "since < ?", "(since, id) < (?, ?)"], span);
        let sql = format!(
            "SELECT item, instance, generation, since, ended, reason, end_reason, id FROM assignments \
             INDEXED BY {index}{} ORDER BY since DESC, id DESC",
            wanted.clause()
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(wanted.values))?;
        while let Some(row) = rows.next()? {
            let owner = OwnerRow {
                item: Item(row.get(0)?),
                instance: named(row, 1, |id| id.parse().ok())?,
                generation: unsigned(row.get(2)?),
                from: Time(row.get(3)?),
                to: row.get::<_, Option<i64>>(4)?.map(Time),
                reason: row.get(5)?,
                end_reason: row.get(6)?,
            };
            if !take((owner.from.0, row.get(7)?), owner) {
                break;
            }
        }
        Ok(())
    }

    /// Gaps that reach into `[from, to)`, of all items or of one, the oldest first.
    pub(crate) fn not_run(
        &self,
        job: &JobName,
        from: Time,
        to: Time,
        most: usize,
    ) -> rusqlite::Result<Vec<NotRunRow>> {
        let mut statement = self.db.prepare_cached(
            "SELECT item, first, latest, count, result, reason, recorded FROM not_run \
             WHERE job = ? AND latest >= ? AND first < ? ORDER BY first, item, id LIMIT ?",
        )?;
        let rows = statement.query_map(params![job.as_str(), from.0, to.0, signed(most as u64)], |row| {
            let (result, reason): (String, String) = (row.get(4)?, row.get(5)?);
            Ok(NotRunRow {
                job: job.clone(),
                item: Item(row.get(0)?),
                first: Time(row.get(1)?),
                latest: Time(row.get(2)?),
                count: unsigned(row.get(3)?),
                result: parsed(4, result_named(&result, &reason))?,
                recorded: Time(row.get(6)?),
            })
        })?;
        rows.collect()
    }

    /// An item's runs of scheduled times in `[from, to)`, and of the first scheduled time from `to` on that was run as
    /// a misfire; runs of one scheduled time are in the order of their tokens. Without the texts.
    pub(crate) fn runs_of_fires(
        &self,
        job: &JobName,
        item: Item,
        from: Time,
        to: Time,
        most: usize,
    ) -> rusqlite::Result<Vec<RunRow>> {
        let columns = RUN.replace("error, output", "'', ''");
        let mut between = self.db.prepare_cached(&runs_by_fire_sql(&columns, "AND source <> 'MANUAL'"))?;
        let mut rows: Vec<RunRow> = between
            .query_map(params![job.as_str(), item.0, from.0, to.0, signed(most as u64)], run)?
            .collect::<rusqlite::Result<_>>()?;
        let later: Option<i64> = self
            .db
            .prepare_cached(
                "SELECT fire FROM runs INDEXED BY runs_misfire WHERE job = ? AND item = ? AND fire >= ? \
                 AND source = 'MISFIRE' ORDER BY fire LIMIT 1",
            )?
            .query_row(params![job.as_str(), item.0, to.0], |row| row.get(0))
            .optional()?;
        if let Some(fire) = later {
            let params = params![job.as_str(), item.0, fire, fire.saturating_add(1), signed(most as u64)];
            for row in between.query_map(params, run)? {
                rows.push(row?);
            }
        }
        Ok(rows)
    }

    /// The latest scheduled time of the item that anything is known of.
    pub(crate) fn latest_known(&self, job: &JobName, item: Item) -> rusqlite::Result<Option<Time>> {
        // Of the runs that started in time, the one with the latest scheduled time is among those of the last minute.
        let in_time = format!("job = ?1 AND item = ?2 AND source = 'NORMAL_TRIGGER' AND NOT ({LATE})");
        // None before the latest of the late ones is looked for.
        let mut statement = self.db.prepare_cached(&format!(
            "WITH late AS (SELECT coalesce((SELECT fire FROM runs INDEXED BY runs_late WHERE job = ?1 AND item = ?2 \
             AND source = 'NORMAL_TRIGGER' AND {LATE} ORDER BY fire DESC LIMIT 1), -1) AS fire) \
             SELECT max((SELECT fire FROM late), \
             coalesce((SELECT max(fire) FROM runs INDEXED BY runs_job WHERE {in_time} AND since >= \
             (SELECT since FROM runs INDEXED BY runs_job WHERE {in_time} AND since > (SELECT fire FROM late) \
             ORDER BY since DESC LIMIT 1) - 60000), -1), \
             coalesce((SELECT max(latest) FROM not_run WHERE job = ?1 AND item = ?2), -1))"
        ))?;
        let latest: i64 = statement.query_row(params![job.as_str(), item.0], |row| row.get(0))?;
        Ok((latest >= 0).then_some(Time(latest)))
    }

    /// Counts by job and interval: those of hours are stored, those of shorter intervals are computed from the rows.
    pub(crate) fn tallies(&self, asked: &Intervals) -> rusqlite::Result<Vec<Tally>> {
        let job = asked.job.as_ref().map(JobName::as_str);
        let sql = if asked.width < HOUR { COUNT_ROWS } else { COUNT_HOURS };
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map(params![job, asked.from, asked.to, asked.width], |row| {
            let job = named(row, 0, |job| job.parse().ok())?;
            Ok((job, Time(row.get(1)?), row.get(2)?, unsigned(row.get(3)?)))
        })?;
        rows.collect()
    }
}

const COUNT_HOURS: &str = "
    SELECT job, hour * 3600000 / ?4 * ?4 AS at, what, cast(min(total(n), 9e18) AS INTEGER) FROM hourly
    WHERE (?1 IS NULL OR job = ?1) AND hour >= ?2 / 3600000 AND hour * 3600000 < ?3 GROUP BY 1, 2, 3 ORDER BY 2, 1";

/// A run that ended in the interval started at most a day before.
const COUNT_ROWS: &str = "
    SELECT job, since / ?4 * ?4 AS at, 'fired', count(*) FROM runs
    WHERE (?1 IS NULL OR job = ?1) AND since >= ?2 AND since < ?3 GROUP BY 1, 2
    UNION ALL SELECT job, ended / ?4 * ?4, outcome, count(*) FROM runs
    WHERE (?1 IS NULL OR job = ?1) AND since >= ?2 - 86400000 AND since < ?3 AND ended >= ?2 AND ended < ?3
        AND outcome IS NOT NULL GROUP BY 1, 2, 3
    UNION ALL SELECT job, ended / ?4 * ?4, 'processed', cast(min(total(processed), 9e18) AS INTEGER) FROM runs
    WHERE (?1 IS NULL OR job = ?1) AND since >= ?2 - 86400000 AND since < ?3 AND ended >= ?2 AND ended < ?3
        AND outcome IS NOT NULL AND processed > 0 GROUP BY 1, 2
    UNION ALL SELECT job, ended / ?4 * ?4, 'failed_records', cast(min(total(failed), 9e18) AS INTEGER) FROM runs
    WHERE (?1 IS NULL OR job = ?1) AND since >= ?2 - 86400000 AND since < ?3 AND ended >= ?2 AND ended < ?3
        AND outcome IS NOT NULL AND failed > 0 GROUP BY 1, 2
    UNION ALL SELECT job, latest / ?4 * ?4, iif(reason = '', result, reason), sum(count) FROM not_run
    WHERE (?1 IS NULL OR job = ?1) AND latest >= ?2 AND latest < ?3 GROUP BY 1, 2, 3";

/// The runs of an item whose scheduled time is in a span, by scheduled time and token. Those that started in time are
/// found by their start, the others by their own index.
fn runs_by_fire_sql(columns: &str, and: &str) -> String {
    format!(
        "SELECT {columns} FROM runs INDEXED BY runs_job WHERE job = ?1 AND since >= ?3 AND since < ?4 + 60000 \
         AND item = ?2 AND fire >= ?3 AND fire < ?4 AND NOT ({LATE}) {and} \
         UNION ALL SELECT {columns} FROM runs INDEXED BY runs_late \
         WHERE job = ?1 AND item = ?2 AND fire >= ?3 AND fire < ?4 AND {LATE} {and} \
         ORDER BY fire, token LIMIT ?5"
    )
}

/// Conditions, with their parameters.
#[derive(Default)]
struct Conditions {
    conditions: Vec<&'static str>,
    values: Vec<Value>,
}

impl Conditions {
    fn is(&mut self, condition: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.conditions.push(condition);
            self.values.push(value.into());
        }
    }

    fn clause(&self) -> String {
        if self.conditions.is_empty() {
            return String::new();
        }
        format!(" WHERE {}", self.conditions.join(" AND "))
    }

    fn span(&mut self, [at_least, below, older]: [&'static str; 3], span: Span) {
        self.is(at_least, span.from.map(|t| t.0));
        self.is(below, span.to.map(|t| t.0));
        if let Some((at, id)) = span.after {
            self.is(older, Some(at));
            self.values.push(id.into());
        }
    }
}

struct Span {
    from: Option<Time>,
    to: Option<Time>,
    after: Option<(i64, i64)>,
}

/// The listing of runs. It names its index: a plan that sorts would read all rows for the first page. Only a job's runs
/// that started in the same millisecond are sorted, and the limit bounds what is kept of them.
pub(crate) fn runs_sql(filter: &RunFilter, after: Option<(i64, i64)>, most: usize) -> (String, Vec<Value>) {
    let odd = filter.state.filter(|state| *state != RunState::Finished);
    let index = match (&filter.job, &filter.instance, odd) {
        (Some(_), _, Some(_)) => "runs_job_odd",
        (Some(_), ..) => "runs_job",
        (None, Some(_), _) => "runs_instance",
        (None, None, Some(_)) => "runs_odd",
        (None, None, None) => "runs_since",
    };
    let mut wanted = Conditions::default();
    // The partial index covers only these states, which the planner cannot see from a parameter.
    wanted.conditions.extend(odd.map(|_| "state <> 'TASK_FINISHED'"));
    wanted.is("job = ?", filter.job.as_ref().map(|job| job.as_str().to_owned()));
    wanted.is("item = ?", filter.item.map(|item| i64::from(item.0)));
    wanted.is("state = ?", filter.state.map(|state| state.as_str().to_owned()));
    wanted.is("instance = ?", filter.instance.as_ref().map(|id| id.as_str().to_owned()));
    let span = Span { from: filter.from, to: filter.to, after };
    wanted.span(["since >= ?", "since < ?", "(since, id) < (?, ?)"], span);
    let clause = wanted.clause();
    wanted.values.push(signed(most as u64).into());
    let sql =
        format!("SELECT {RUN}, id FROM runs INDEXED BY {index}{clause} ORDER BY since DESC, id DESC LIMIT ?");
    (sql, wanted.values)
}

/// The tables of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventTable {
    /// What happened.
    Events,
    /// Actions of principals.
    Audit,
}

impl EventTable {
    pub(crate) const ALL: [Self; 2] = [Self::Events, Self::Audit];
}

/// An event and its position in the listing.
type Listed = ((i64, i64), EventRow);

fn event(row: Option<&Row<'_>>, table: EventTable) -> rusqlite::Result<Option<Listed>> {
    let Some(row) = row else { return Ok(None) };
    let event = EventRow {
        at: Time(row.get(0)?),
        job: row.get::<_, Option<String>>(1)?.map(|job| parsed(1, job.parse().ok())).transpose()?,
        kind: named(row, 2, EventKind::named)?,
        text: row.get(3)?,
        principal: row.get(4)?,
    };
    let number = 2 * row.get::<_, i64>(5)? + i64::from(table == EventTable::Audit);
    Ok(Some(((event.at.0, number), event)))
}

/// The listing of one table of events, likewise.
pub(crate) fn events_sql(
    table: EventTable,
    filter: &EventFilter,
    after: Option<(i64, i64)>,
) -> (String, Vec<Value>) {
    // The first row number of the table that is not before `after`.
    let (table, after) = match table {
        EventTable::Events => ("events", after.map(|(at, number)| (at, number / 2 + number % 2))),
        EventTable::Audit => ("audit", after.map(|(at, number)| (at, number / 2))),
    };
    let index = if filter.job.is_some() { "job" } else { "at" };
    let mut wanted = Conditions::default();
    wanted.is("job = ?", filter.job.as_ref().map(|job| job.as_str().to_owned()));
    wanted.is("kind = ?", filter.kind.map(|kind| kind.as_str().to_owned()));
    wanted.is("principal = ?", filter.principal.clone());
    let span = Span { from: filter.from, to: filter.to, after };
    wanted.span(["at >= ?", "at < ?", "(at, id) < (?, ?)"], span);
    let clause = wanted.clause();
    let sql = format!(
        "SELECT at, job, kind, text, principal, id FROM {table} INDEXED BY {table}_{index}{clause} \
         ORDER BY at DESC, id DESC"
    );
    (sql, wanted.values)
}

fn run(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        job: named(row, 0, |job| job.parse().ok())?,
        item: Item(row.get(1)?),
        token: Token(unsigned(row.get(2)?)),
        fire: Time(row.get(3)?),
        source: named(row, 4, source_named)?,
        instance: named(row, 5, |id| id.parse().ok())?,
        worker: named(row, 6, |id| id.parse().ok())?,
        trigger: row.get::<_, Option<String>>(7)?.map(|id| parsed(7, id.parse().ok())).transpose()?,
        state: named(row, 8, RunState::named)?,
        requeued: row.get(9)?,
        since: Time(row.get(10)?),
        started: row.get::<_, Option<i64>>(11)?.map(Time),
        ended: row.get::<_, Option<i64>>(12)?.map(Time),
        error: row.get(13)?,
        output: row.get(14)?,
        processed: unsigned(row.get(15)?),
        failed: unsigned(row.get(16)?),
        attempt: row.get(17)?,
    })
}

pub(super) fn named<T>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parsed(column, parse(&text))
}

fn parsed<T>(column: usize, value: Option<T>) -> rusqlite::Result<T> {
    value.ok_or_else(|| rusqlite::Error::InvalidColumnType(column, "a name".into(), Type::Text))
}
