//! Writes a batch of records in one transaction. All of it may come again, from this coordinator (whose rows are
//! numbered; the transaction stores the last number) or from another that saw the same, and in either order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tokio_postgres::{Client, types::ToSql};

use super::link::Trouble;
use super::owners;
use super::schema::lock;
use crate::numbers::signed;
use crate::port::HOUR;
use crate::record::{EventRecord, GapRecord, Record, RunKey, RunRecord};
use crate::spool::Numbered;

/// Counters: job, hour, counter name.
type Tallies = BTreeMap<(String, i64, String), i64>;

/// Writes the records that were not written before. No transaction is open afterwards, even after an error.
pub(super) async fn write(
    client: &Client,
    schema: &str,
    sender: &str,
    rows: &[Numbered],
    now: i64,
) -> Result<(), Trouble> {
    let written = transaction(client, schema, sender, rows, now).await;
    if let Err(Trouble::Refused { .. }) = &written {
        client.batch_execute("ROLLBACK").await?;
    }
    written
}

async fn transaction(
    client: &Client,
    schema: &str,
    sender: &str,
    rows: &[Numbered],
    now: i64,
) -> Result<(), Trouble> {
    client.batch_execute("BEGIN").await?;
    let sent = sent(client, sender, now).await?;
    let new = || rows.iter().filter(|(number, _)| *number > sent);
    let Some((last, _)) = rows.last().filter(|(number, _)| *number > sent) else {
        client.batch_execute("COMMIT").await?;
        return Ok(());
    };
    let (mut runs, mut gaps) = (BTreeMap::new(), BTreeMap::new());
    let (mut events, mut audit, mut owned) = (Vec::new(), Vec::new(), Vec::new());
    for (number, record) in new() {
        match record {
            Record::Run(run) => join(&mut runs, run),
            Record::Gap(gap) => widen(&mut gaps, gap),
            Record::Owned(at, assignment) => owned.push((*at, assignment.as_ref())),
            Record::Event(event) if record.is_audit() => audit.push((*number, event)),
            Record::Event(event) => events.push((*number, event)),
        }
    }
    // First, so that a transaction which waits for its turn holds no lock that another waits for.
    owners::put(client, lock(schema) ^ 2, &owned).await?;
    let mut tallies = Tallies::new();
    put_runs(client, &runs, &mut tallies).await?;
    put_gaps(client, &gaps, &mut tallies).await?;
    put_events(client, EVENTS, sender, &events).await?;
    put_events(client, AUDIT, sender, &audit).await?;
    put_tallies(client, &tallies).await?;
    client
        .execute("UPDATE senders SET sent = $2, seen = $3 WHERE sender = $1", &[&sender, last, &now])
        .await?;
    client.batch_execute("COMMIT").await?;
    Ok(())
}

/// The number up to which the sender's rows are here; any other sender of that name waits until this transaction ends.
async fn sent(client: &Client, sender: &str, now: i64) -> Result<i64, Trouble> {
    let insert = "INSERT INTO senders VALUES ($1, 0, $2) ON CONFLICT DO NOTHING";
    client.execute(insert, &[&sender, &now]).await?;
    let found = client.query_one("SELECT sent FROM senders WHERE sender = $1 FOR UPDATE", &[&sender]).await?;
    Ok(found.try_get(0)?)
}

fn join(runs: &mut BTreeMap<RunKey, RunRecord>, run: &RunRecord) {
    match runs.entry(run.key()) {
        Entry::Vacant(entry) => drop(entry.insert(run.clone())),
        Entry::Occupied(mut entry) => entry.get_mut().join(run.clone()),
    }
}

/// Which gap: job, item, result, reason and its first scheduled time.
type GapKey = (String, u32, String, String, i64);

/// Merges a gap into the map: one that is repeated, or lies within another, adds nothing.
fn widen(gaps: &mut BTreeMap<GapKey, GapRecord>, gap: &GapRecord) {
    let key = (gap.job.clone(), gap.item, gap.result.clone(), gap.reason.clone(), gap.first);
    let of = |gap: &GapRecord| (gap.job.clone(), gap.item, gap.result.clone(), gap.reason.clone());
    if let Some((_, before)) = gaps.range(..&key).next_back()
        && of(before) == of(gap)
        && before.latest >= gap.latest
    {
        return;
    }
    match gaps.entry(key) {
        Entry::Vacant(entry) => drop(entry.insert(gap.clone())),
        Entry::Occupied(mut entry) => {
            let known = entry.get_mut();
            if gap.latest > known.latest || gap.count > known.count {
                known.latest = known.latest.max(gap.latest);
                known.count = known.count.max(gap.count);
                known.recorded = gap.recorded;
                known.new = known.new.saturating_add(gap.new);
            }
        }
    }
}

/// Writes runs, as arrays of columns; existing rows are completed, and new ones counted. Sorting the rows keeps two
/// coordinators from deadlocking.
const RUNS: &str = "
WITH put AS (
    INSERT INTO runs AS r (job, fire, item, token, since, source, instance, worker, trigger_id, state, outcome, requeued,
        started, ended, error, output, processed, failed, attempt, begun_in, ended_in)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::text[], $11::text[], $12::bool[], $13::bigint[], $14::bigint[], $15::text[], $16::text[],
        $17::bigint[], $18::bigint[], $19::int[], $20::bigint[], $21::bigint[])
    ON CONFLICT (job, fire, item, token, since) DO UPDATE SET
        state = CASE WHEN r.outcome IS NULL THEN excluded.state ELSE r.state END,
        outcome = coalesce(r.outcome, excluded.outcome),
        requeued = CASE WHEN r.outcome IS NULL THEN excluded.requeued ELSE r.requeued END,
        started = CASE WHEN r.outcome IS NULL THEN coalesce(excluded.started, r.started)
            ELSE coalesce(r.started, excluded.started) END,
        ended = CASE WHEN r.outcome IS NULL THEN excluded.ended ELSE r.ended END,
        error = CASE WHEN r.outcome IS NULL OR r.error = '' THEN excluded.error ELSE r.error END,
        output = CASE WHEN r.outcome IS NULL OR r.output = '' THEN excluded.output ELSE r.output END,
        processed = CASE WHEN r.outcome IS NULL THEN excluded.processed ELSE greatest(r.processed, excluded.processed) END,
        failed = CASE WHEN r.outcome IS NULL THEN excluded.failed ELSE greatest(r.failed, excluded.failed) END,
        attempt = greatest(r.attempt, excluded.attempt),
        ended_in = CASE WHEN r.outcome IS NULL THEN excluded.ended_in ELSE r.ended_in END
    WHERE excluded.outcome IS NOT NULL AND (r.outcome IS NULL OR r.outcome = excluded.outcome)
        OR r.state = 'TASK_STAGING' AND excluded.state = 'TASK_RUNNING'
    RETURNING r.job, r.item, r.token, r.since, r.ended, r.outcome, r.processed, r.failed, r.begun_in = $22::bigint AS fresh,
        coalesce(r.ended_in = $22::bigint, false) AS ended_now)
SELECT job, since / 3600000, 'fired', count(*)::bigint FROM put WHERE fresh GROUP BY 1, 2
UNION ALL SELECT job, ended / 3600000, outcome, count(*)::bigint FROM put WHERE ended_now GROUP BY 1, 2, 3
UNION ALL SELECT job, ended / 3600000, 'processed', least(sum(processed), 9e18)::bigint FROM put
    WHERE ended_now AND processed > 0 GROUP BY 1, 2
UNION ALL SELECT job, ended / 3600000, 'failed_records', least(sum(failed), 9e18)::bigint FROM put
    WHERE ended_now AND failed > 0 GROUP BY 1, 2
";

/// Runs of the item before these are over, even if their end was not seen.
const OVER: &str = "
UPDATE runs SET state = 'TASK_UNKNOWN' FROM unnest($1::text[], $2::int[], $3::bigint[]) AS later (job, item, token)
WHERE runs.job = later.job AND runs.item = later.item AND runs.token < later.token AND runs.outcome IS NULL
    AND runs.state <> 'TASK_UNKNOWN'
";

async fn put_runs(
    client: &Client,
    runs: &BTreeMap<RunKey, RunRecord>,
    tallies: &mut Tallies,
) -> Result<(), Trouble> {
    if runs.is_empty() {
        return Ok(());
    }
    let batch: i64 = client.query_one("SELECT nextval('batch_numbers')", &[]).await?.try_get(0)?;
    let all = || runs.values();
    let end = |run: &RunRecord| run.end.clone();
    let columns: [&(dyn ToSql + Sync); 22] = [
        &all().map(|run| run.job.as_str()).collect::<Vec<_>>(),
        &all().map(|run| run.fire).collect::<Vec<_>>(),
        &all().map(|run| run.item.cast_signed()).collect::<Vec<_>>(),
        &all().map(|run| signed(run.token)).collect::<Vec<_>>(),
        &all().map(|run| run.since).collect::<Vec<_>>(),
        &all().map(|run| run.source.as_str()).collect::<Vec<_>>(),
        &all().map(|run| run.instance.as_str()).collect::<Vec<_>>(),
        &all().map(|run| run.worker.as_str()).collect::<Vec<_>>(),
        &all().map(|run| run.trigger.as_deref()).collect::<Vec<_>>(),
        &all().map(RunRecord::state).collect::<Vec<_>>(),
        &all().map(|run| run.end.as_ref().map(|end| end.outcome.as_str())).collect::<Vec<_>>(),
        &all().map(|run| end(run).is_some_and(|end| end.requeued)).collect::<Vec<_>>(),
        &all().map(|run| run.started).collect::<Vec<_>>(),
        &all().map(|run| end(run).map(|end| end.at)).collect::<Vec<_>>(),
        &all().map(|run| stored(&run.error)).collect::<Vec<_>>(),
        &all().map(|run| stored(&run.output)).collect::<Vec<_>>(),
        &all().map(|run| signed(run.processed)).collect::<Vec<_>>(),
        &all().map(|run| signed(run.failed)).collect::<Vec<_>>(),
        &all().map(|run| i32::try_from(run.attempt).unwrap_or(i32::MAX)).collect::<Vec<_>>(),
        &vec![batch; runs.len()],
        &all().map(|run| run.end.as_ref().map(|_| batch)).collect::<Vec<_>>(),
        &batch,
    ];
    for row in client.query(RUNS, &columns).await? {
        let key = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        count(tallies, key, row.try_get(3)?);
    }
    let mut latest: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for run in all() {
        let token = latest.entry((run.job.as_str(), run.item)).or_default();
        *token = run.token.max(*token);
    }
    let later: [&(dyn ToSql + Sync); 3] = [
        &latest.keys().map(|(job, _)| *job).collect::<Vec<_>>(),
        &latest.keys().map(|(_, item)| item.cast_signed()).collect::<Vec<_>>(),
        &latest.values().map(|token| signed(*token)).collect::<Vec<_>>(),
    ];
    client.execute(OVER, &later).await?;
    Ok(())
}

/// Gaps; returns those that are new or larger, and how many scheduled times they had before.
const GAPS: &str = "
WITH new AS (
    SELECT * FROM unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
        AS new (job, item, result, reason, first, latest, count, recorded)),
old AS (SELECT job, item, result, reason, first, not_run.count FROM new JOIN not_run USING (job, item, result, reason, first)),
put AS (
    INSERT INTO not_run AS g (job, item, result, reason, first, latest, count, recorded)
    SELECT * FROM new
    WHERE NOT EXISTS (SELECT FROM not_run AS wider WHERE wider.job = new.job AND wider.item = new.item
        AND wider.result = new.result AND wider.reason = new.reason AND wider.first < new.first AND wider.latest >= new.latest)
    ON CONFLICT (job, item, result, reason, first) DO UPDATE SET latest = greatest(g.latest, excluded.latest),
        count = greatest(g.count, excluded.count), recorded = greatest(g.recorded, excluded.recorded)
        WHERE excluded.latest > g.latest OR excluded.count > g.count
    RETURNING job, item, result, reason, first)
SELECT job, item, result, reason, first, coalesce(old.count, 0)
FROM put LEFT JOIN old USING (job, item, result, reason, first)
";

async fn put_gaps(
    client: &Client,
    gaps: &BTreeMap<GapKey, GapRecord>,
    tallies: &mut Tallies,
) -> Result<(), Trouble> {
    if gaps.is_empty() {
        return Ok(());
    }
    let all = || gaps.values();
    let columns: [&(dyn ToSql + Sync); 8] = [
        &all().map(|gap| gap.job.as_str()).collect::<Vec<_>>(),
        &all().map(|gap| gap.item.cast_signed()).collect::<Vec<_>>(),
        &all().map(|gap| gap.result.as_str()).collect::<Vec<_>>(),
        &all().map(|gap| gap.reason.as_str()).collect::<Vec<_>>(),
        &all().map(|gap| gap.first).collect::<Vec<_>>(),
        &all().map(|gap| gap.latest).collect::<Vec<_>>(),
        &all().map(|gap| signed(gap.count)).collect::<Vec<_>>(),
        &all().map(|gap| gap.recorded).collect::<Vec<_>>(),
    ];
    for row in client.query(GAPS, &columns).await? {
        let item: i32 = row.try_get(1)?;
        let key = (row.try_get(0)?, item.cast_unsigned(), row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        let Some(gap) = gaps.get(&key) else { continue };
        let what = if gap.reason.is_empty() { &gap.result } else { &gap.reason };
        let counted = (gap.job.clone(), gap.latest.div_euclid(HOUR), what.clone());
        // Another coordinator may have recorded and counted the first of them.
        let new = signed(gap.new).min(signed(gap.count).saturating_sub(row.try_get(5)?));
        count(tallies, counted, new);
    }
    Ok(())
}

const EVENTS: &str = "
INSERT INTO events (sender, number, at, job, kind, text, principal)
SELECT $1::text, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[]) ON CONFLICT DO NOTHING
";

const AUDIT: &str = "
INSERT INTO audit (sender, number, at, job, kind, text, principal)
SELECT $1::text, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[]) ON CONFLICT DO NOTHING
";

async fn put_events(
    client: &Client,
    sql: &str,
    sender: &str,
    events: &[(i64, &EventRecord)],
) -> Result<(), Trouble> {
    if events.is_empty() {
        return Ok(());
    }
    let all = || events.iter().map(|(_, event)| event);
    let columns: [&(dyn ToSql + Sync); 7] = [
        &sender,
        &events.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
        &all().map(|event| event.at).collect::<Vec<_>>(),
        &all().map(|event| event.job.as_deref()).collect::<Vec<_>>(),
        &all().map(|event| event.kind.as_str()).collect::<Vec<_>>(),
        &all().map(|event| stored(&event.text)).collect::<Vec<_>>(),
        &all().map(|event| event.principal.as_deref().map(stored)).collect::<Vec<_>>(),
    ];
    client.execute(sql, &columns).await?;
    Ok(())
}

/// Saturates: a worker may report any number of processed records.
fn count(tallies: &mut Tallies, what: (String, i64, String), n: i64) {
    let counted = tallies.entry(what).or_default();
    *counted = counted.saturating_add(n);
}

async fn put_tallies(client: &Client, tallies: &Tallies) -> Result<(), Trouble> {
    if tallies.is_empty() {
        return Ok(());
    }
    let columns: [&(dyn ToSql + Sync); 4] = [
        &tallies.keys().map(|(job, ..)| job.as_str()).collect::<Vec<_>>(),
        &tallies.keys().map(|(_, hour, _)| *hour).collect::<Vec<_>>(),
        &tallies.keys().map(|(.., what)| what.as_str()).collect::<Vec<_>>(),
        &tallies.values().copied().collect::<Vec<_>>(),
    ];
    let sql = "INSERT INTO hourly AS h (job, hour, what, n) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], \
               $4::bigint[]) ON CONFLICT (job, hour, what) DO UPDATE SET n = least(h.n::numeric + excluded.n, 9e18)::bigint";
    client.execute(sql, &columns).await?;
    Ok(())
}

/// A text as PostgreSQL can store it: NUL is not allowed, and is replaced by its symbol.
fn stored(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "␀").into() } else { text.into() }
}
