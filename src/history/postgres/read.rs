//! Reads the history: implements the port for PostgreSQL. Questions use a few connections that stay open, each with a
//! timeout, after which the server stops working on it as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use tokio::sync::Semaphore;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::lately;
use super::link::{Address, Link, Trouble};
use super::rows::{Conditions, Page, QueryError, RUN, parsed, run, take};
use crate::numbers::unsigned;
use crate::port::{DAY, HOUR, Intervals, ItemHistory, Paged, ShelfAnswer, Shelves, Tally};
use crate::rows::{
    EventFilter, EventKind, EventRow, NotRunRow, OwnerFilter, OwnerRow, Pulse, Recent, RunFilter, RunRow,
    RunState, result_named,
};
use crate::{HistoryError, MAX_ANSWER, MAX_PAGE};

/// How many questions run at a time; others wait.
const READERS: usize = 4;
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// The history in the database, for readers.
#[derive(Debug, Clone)]
pub(crate) struct Library(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: Address,
    turns: Semaphore,
    free: Mutex<Vec<Link>>,
}

impl Library {
    pub(crate) fn new(address: Address) -> Self {
        Self(Arc::new(Inner { address, turns: Semaphore::new(READERS), free: Mutex::default() }))
    }

    /// Asks over an open connection, or over a new one if that has been closed meanwhile.
    async fn ask<T, F>(&self, question: impl Fn(Arc<Client>) -> F) -> Result<T, HistoryError>
    where
        F: Future<Output = Result<T, QueryError>>,
    {
        let failed = |trouble: Trouble| self.unavailable(&trouble);
        let inner = &self.0;
        let _turn = inner.turns.acquire().await.map_err(|e| HistoryError::Unavailable(e.to_string()))?;
        let kept = inner.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(mut link) = kept.filter(Link::is_good) {
            let answer = link.ask(ANSWER, deferred(question(link.client()))).await;
            match answer {
                Err(Trouble::Broken(_)) => {}
                answer => return self.give_back(link, answer),
            }
        }
        let mut link = Link::open(&inner.address, ANSWER).await.map_err(failed)?;
        let answer = link.ask(ANSWER, deferred(question(link.client()))).await;
        self.give_back(link, answer)
    }

    fn give_back<T>(
        &self,
        link: Link,
        answer: Result<Result<T, HistoryError>, Trouble>,
    ) -> Result<T, HistoryError> {
        // A connection whose transaction failed is not reused.
        if link.is_good() && answer.is_ok() {
            self.0.free.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        }
        answer.map_err(|trouble| self.unavailable(&trouble))?
    }

    fn unavailable(&self, trouble: &Trouble) -> HistoryError {
        let why = match trouble.is(&SqlState::UNDEFINED_TABLE) {
            true => "its tables are not there yet: a coordinator makes them once it reaches it".to_owned(),
            false => trouble.to_string(),
        };
        HistoryError::Unavailable(format!("{}: {why}", self.0.address.shown()))
    }
}

async fn deferred<T>(
    question: impl Future<Output = Result<T, QueryError>>,
) -> Result<Result<T, HistoryError>, Trouble> {
    match question.await {
        Ok(answer) => Ok(Ok(answer)),
        Err(QueryError::Answer(error)) => Ok(Err(error)),
        Err(QueryError::Trouble(trouble)) => Err(trouble),
    }
}

impl Shelves for Library {
    fn runs(&self, filter: RunFilter, page: Paged<RunRow>) -> ShelfAnswer<'_, Paged<RunRow>> {
        Box::pin(async move {
            let (filter, page) = (Arc::new(filter), Arc::new(Mutex::new(Some(page))));
            self.ask(|client| runs(client, filter.clone(), page.clone())).await
        })
    }

    fn events(&self, filter: EventFilter, page: Paged<EventRow>) -> ShelfAnswer<'_, Paged<EventRow>> {
        Box::pin(async move {
            let (filter, page) = (Arc::new(filter), Arc::new(Mutex::new(Some(page))));
            self.ask(|client| events(client, filter.clone(), page.clone())).await
        })
    }

    fn owners(&self, filter: OwnerFilter, page: Paged<OwnerRow>) -> ShelfAnswer<'_, Paged<OwnerRow>> {
        Box::pin(async move {
            let (filter, page) = (Arc::new(filter), Arc::new(Mutex::new(Some(page))));
            self.ask(|client| lately::owners(client, filter.clone(), page.clone())).await
        })
    }

    fn attempts(&self, job: JobName, item: Item, token: Token) -> ShelfAnswer<'_, Vec<RunRow>> {
        Box::pin(async move { self.ask(|client| lately::attempts(client, job.clone(), item, token)).await })
    }

    fn pulse(&self, runs: Time, missed: Time) -> ShelfAnswer<'_, Pulse> {
        Box::pin(async move { self.ask(|client| lately::pulse(client, runs, missed)).await })
    }

    fn recent(&self, job: JobName, from: Time) -> ShelfAnswer<'_, Vec<Recent>> {
        Box::pin(async move { self.ask(|client| recent(client, job.clone(), from)).await })
    }

    fn not_run(&self, job: JobName, from: Time, to: Time) -> ShelfAnswer<'_, Vec<NotRunRow>> {
        Box::pin(async move {
            self.ask(|client| {
                let job = job.clone();
                async move { gaps(&client, &job, None, from, to).await }
            })
            .await
        })
    }

    fn known(
        &self,
        job: JobName,
        items: Vec<Item>,
        from: Time,
        to: Time,
    ) -> ShelfAnswer<'_, Vec<ItemHistory>> {
        Box::pin(async move { self.ask(|client| known(client, job.clone(), items.clone(), from, to)).await })
    }

    fn tallies(&self, asked: Intervals) -> ShelfAnswer<'_, Vec<Tally>> {
        Box::pin(async move { self.ask(|client| tallies(client, asked.clone())).await })
    }
}

async fn runs(
    client: Arc<Client>,
    filter: Arc<RunFilter>,
    page: Page<RunRow>,
) -> Result<Paged<RunRow>, QueryError> {
    let mut wanted = Conditions::default();
    wanted.is("job = ?", filter.job.as_ref().map(|job| job.as_str().to_owned()));
    wanted.is("item = ?", filter.item.map(|item| item.0.cast_signed()));
    wanted.is("state = ?", filter.state.map(RunState::as_str));
    // The partial index covers only these states, which the planner cannot see from a parameter.
    if filter.state.is_some_and(|state| state != RunState::Finished) {
        wanted.conditions.push("state <> 'TASK_FINISHED'".to_owned());
    }
    wanted.is("instance = ?", filter.instance.as_ref().map(|id| id.as_str().to_owned()));
    wanted.is("since >= ?", filter.from.map(|t| t.0));
    wanted.is("since < ?", filter.to.map(|t| t.0));
    let after = page.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|page| page.after);
    wanted.after("since", after);
    let sql = format!(
        "SELECT {RUN} FROM runs{} ORDER BY since DESC, id DESC LIMIT {}",
        wanted.clause(),
        MAX_PAGE + 1
    );
    let rows = client.query_raw(&sql, wanted.values).await?;
    let mut rows = std::pin::pin!(rows);
    let mut page = take(&page)?;
    while let Some(row) = rows.try_next().await? {
        let run = run(&row)?;
        let bytes = run.error.len() + run.output.len();
        if !page.take((run.since.0, row.try_get(18)?), run, bytes) {
            break;
        }
    }
    Ok(page)
}

async fn events(
    client: Arc<Client>,
    filter: Arc<EventFilter>,
    page: Page<EventRow>,
) -> Result<Paged<EventRow>, QueryError> {
    let after = page.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|page| page.after);
    let mut found: Vec<((i64, i64), EventRow)> = Vec::new();
    for (table, audit) in [("events", false), ("audit", true)] {
        if filter.kind.is_some_and(|kind| kind.is_audit() != audit) {
            continue;
        }
        // The first row number of the table that is not before `after`: positions are twice the row number, plus one in
        // the audit.
        let after = after.map(|(at, number)| (at, if audit { number / 2 } else { number / 2 + number % 2 }));
        let mut wanted = Conditions::default();
        wanted.is("job = ?", filter.job.as_ref().map(|job| job.as_str().to_owned()));
        wanted.is("kind = ?", filter.kind.map(EventKind::as_str));
        wanted.is("principal = ?", filter.principal.clone());
        wanted.is("at >= ?", filter.from.map(|t| t.0));
        wanted.is("at < ?", filter.to.map(|t| t.0));
        wanted.after("at", after);
        let clause = wanted.clause();
        let sql = format!(
            "SELECT at, job, kind, text, principal, id FROM {table}{clause} ORDER BY at DESC, id DESC LIMIT {}",
            MAX_PAGE + 1
        );
        for row in client.query(&sql, &wanted.values()).await? {
            let event = EventRow {
                at: Time(row.try_get(0)?),
                job: row.try_get::<_, Option<String>>(1)?.map(|job| parsed(job.parse().ok())).transpose()?,
                kind: parsed(EventKind::named(row.try_get(2)?))?,
                text: row.try_get(3)?,
                principal: row.try_get(4)?,
            };
            found.push(((event.at.0, 2 * row.try_get::<_, i64>(5)? + i64::from(audit)), event));
        }
    }
    found.sort_by_key(|(mark, _)| std::cmp::Reverse(*mark));
    let mut page = take(&page)?;
    for (mark, event) in found {
        let bytes = event.text.len();
        if !page.take(mark, event, bytes) {
            break;
        }
    }
    Ok(page)
}

async fn recent(client: Arc<Client>, job: JobName, from: Time) -> Result<Vec<Recent>, QueryError> {
    let sql = "SELECT state, count(*), least(sum(processed), 9e18)::bigint, least(sum(failed), 9e18)::bigint FROM runs \
               WHERE job = $1 AND since >= $2 GROUP BY state ORDER BY state";
    let mut counted = Vec::new();
    for row in client.query(sql, &[&job.as_str(), &from.0]).await? {
        counted.push(Recent {
            state: parsed(RunState::named(row.try_get(0)?))?,
            runs: unsigned(row.try_get(1)?),
            processed: unsigned(row.try_get(2)?),
            failed: unsigned(row.try_get(3)?),
        });
    }
    Ok(counted)
}

async fn gaps(
    client: &Client,
    job: &JobName,
    items: Option<&[i32]>,
    from: Time,
    to: Time,
) -> Result<Vec<NotRunRow>, QueryError> {
    let sql = "SELECT item, first, latest, count, result, reason, recorded FROM not_run WHERE job = $1 AND latest >= $2 \
               AND first < $3 AND ($4::int[] IS NULL OR item = ANY($4)) ORDER BY first, item, id LIMIT $5";
    let most = MAX_ANSWER as i64 + 1;
    let mut gaps = Vec::new();
    for row in client.query(sql, &[&job.as_str(), &from.0, &to.0, &items, &most]).await? {
        let result = result_named(row.try_get(4)?, row.try_get(5)?);
        gaps.push(NotRunRow {
            job: job.clone(),
            item: Item(row.try_get::<_, i32>(0)?.cast_unsigned()),
            first: Time(row.try_get(1)?),
            latest: Time(row.try_get(2)?),
            count: unsigned(row.try_get(3)?),
            result: parsed(result)?,
            recorded: Time(row.try_get(6)?),
        });
    }
    if gaps.len() > MAX_ANSWER { Err(HistoryError::TooMuch.into()) } else { Ok(gaps) }
}

/// All in one transaction, and so as of one moment.
async fn known(
    client: Arc<Client>,
    job: JobName,
    items: Vec<Item>,
    from: Time,
    to: Time,
) -> Result<Vec<ItemHistory>, QueryError> {
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let numbers: Vec<i32> = items.iter().map(|item| item.0.cast_signed()).collect();
    let found = known_at_once(&client, &job, &numbers, from, to).await;
    if !matches!(&found, Err(QueryError::Trouble(_))) {
        client.batch_execute("COMMIT").await?;
    }
    let (mut runs, mut by_item, latest) = found?;
    let known = items.into_iter().map(|item| ItemHistory {
        item,
        runs: runs.remove(&item).unwrap_or_default(),
        gaps: by_item.remove(&item).unwrap_or_default(),
        latest: latest.get(&item).copied(),
    });
    Ok(known.collect())
}

type AtOnce = (BTreeMap<Item, Vec<RunRow>>, BTreeMap<Item, Vec<NotRunRow>>, BTreeMap<Item, Time>);

async fn known_at_once(
    client: &Client,
    job: &JobName,
    items: &[i32],
    from: Time,
    to: Time,
) -> Result<AtOnce, QueryError> {
    let mut by_item: BTreeMap<Item, Vec<NotRunRow>> = BTreeMap::new();
    for gap in gaps(client, job, Some(items), from, to).await? {
        by_item.entry(gap.item).or_default().push(gap);
    }
    let mut runs: BTreeMap<Item, Vec<RunRow>> = BTreeMap::new();
    let most = MAX_ANSWER as i64 + 1;
    let columns = RUN.replace("error, output", "'', ''");
    // A run starts at its scheduled time or later: earlier days are skipped, with an allowance for clocks that differ.
    let between = format!(
        "SELECT {columns} FROM runs WHERE job = $1 AND item = ANY($2) AND fire >= $3 AND fire < $4 AND since >= $5 \
         AND source <> 'MANUAL' ORDER BY fire, token LIMIT $6"
    );
    let earliest = from.0.saturating_sub(DAY);
    let values: [&(dyn ToSql + Sync); 6] = [&job.as_str(), &items, &from.0, &to.0, &earliest, &most];
    let found = client.query(&between, &values).await?;
    if found.len() > MAX_ANSWER {
        return Err(HistoryError::TooMuch.into());
    }
    let columns =
        columns.split(", ").map(|name| if name == "''" { "''".to_owned() } else { format!("r.{name}") });
    let later = format!(
        "SELECT {} FROM unnest($2::int[]) AS i (item) CROSS JOIN LATERAL (SELECT fire FROM runs WHERE job = $1 \
         AND item = i.item AND fire >= $3 AND source = 'MISFIRE' ORDER BY fire LIMIT 1) AS f \
         JOIN runs AS r ON r.job = $1 AND r.item = i.item AND r.fire = f.fire AND r.source <> 'MANUAL' \
         ORDER BY r.fire, r.token",
        columns.collect::<Vec<_>>().join(", ")
    );
    let later = client.query(&later, &[&job.as_str(), &items, &to.0]).await?;
    for row in found.iter().chain(&later) {
        let run = run(row)?;
        runs.entry(run.item).or_default().push(run);
    }
    let sql = "SELECT i.item, greatest((SELECT fire FROM runs WHERE job = $1 AND item = i.item \
               AND source = 'NORMAL_TRIGGER' ORDER BY fire DESC LIMIT 1), \
               (SELECT max(latest) FROM not_run WHERE job = $1 AND item = i.item)) FROM unnest($2::int[]) AS i (item)";
    let mut latest = BTreeMap::new();
    for row in client.query(sql, &[&job.as_str(), &items]).await? {
        if let Some(time) = row.try_get::<_, Option<i64>>(1)? {
            latest.insert(Item(row.try_get::<_, i32>(0)?.cast_unsigned()), Time(time));
        }
    }
    Ok((runs, by_item, latest))
}

const COUNT_HOURS: &str = "
    SELECT job, hour * 3600000 / $4::bigint * $4::bigint, what, least(sum(n), 9e18)::bigint FROM hourly
    WHERE ($1::text IS NULL OR job = $1) AND hour >= $2::bigint / 3600000 AND hour * 3600000 < $3::bigint GROUP BY 1, 2, 3 ORDER BY 2, 1";

/// A run that ended in the interval started at most a day before.
const COUNT_ROWS: &str = "
    WITH began AS (SELECT job, since, ended, outcome, processed, failed FROM runs
        WHERE ($1::text IS NULL OR job = $1) AND since >= $2::bigint - 86400000 AND since < $3::bigint),
    over AS (SELECT * FROM began WHERE ended >= $2::bigint AND ended < $3::bigint AND outcome IS NOT NULL)
    SELECT job, since / $4::bigint * $4::bigint, 'fired', count(*) FROM began WHERE since >= $2::bigint GROUP BY 1, 2
    UNION ALL SELECT job, ended / $4::bigint * $4::bigint, outcome, count(*) FROM over GROUP BY 1, 2, 3
    UNION ALL SELECT job, ended / $4::bigint * $4::bigint, 'processed', least(sum(processed), 9e18)::bigint FROM over
        WHERE processed > 0 GROUP BY 1, 2
    UNION ALL SELECT job, ended / $4::bigint * $4::bigint, 'failed_records', least(sum(failed), 9e18)::bigint FROM over
        WHERE failed > 0 GROUP BY 1, 2
    UNION ALL SELECT job, latest / $4::bigint * $4::bigint, CASE WHEN reason = '' THEN result ELSE reason END,
        least(sum(count), 9e18)::bigint FROM not_run
    WHERE ($1::text IS NULL OR job = $1) AND latest >= $2::bigint AND latest < $3::bigint GROUP BY 1, 2, 3";

async fn tallies(client: Arc<Client>, asked: Intervals) -> Result<Vec<Tally>, QueryError> {
    let job = asked.job.as_ref().map(JobName::as_str);
    let sql = if asked.width < HOUR { COUNT_ROWS } else { COUNT_HOURS };
    let mut tallies = Vec::new();
    for row in client.query(sql, &[&job, &asked.from, &asked.to, &asked.width]).await? {
        let job = parsed(row.try_get::<_, &str>(0)?.parse().ok())?;
        tallies.push((job, Time(row.try_get(1)?), row.try_get(2)?, unsigned(row.try_get(3)?)));
    }
    Ok(tallies)
}
