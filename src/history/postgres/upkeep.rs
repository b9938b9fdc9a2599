//! Partitions and retention: runs and events are partitioned by day, and a day that is too old is dropped as a whole;
//! in the other tables, old rows are deleted in portions. One coordinator at a time does this, under a lock that no
//! other waits for.

use std::collections::BTreeSet;

use rosterd_domain::time::Time;
use tokio_postgres::Client;

use super::link::Trouble;
use super::schema::lock;
use crate::Options;
use crate::port::DAY;
use crate::record::Record;
use crate::spool::Numbered;

/// How far in the future a row may be: beyond that its clock is wrong, and would create partitions without end.
const AHEAD: i64 = 2 * DAY;
/// Most rows deleted at a time.
const PRUNE: i64 = 5_000;
/// The partitioned tables.
const PARTITIONED: [&str; 2] = ["runs", "events"];

/// The days whose partitions are known to exist, with their tables.
#[derive(Debug, Default)]
pub(super) struct Days(BTreeSet<(usize, i64)>);

impl Days {
    /// Whether a record's day can have a partition: it is not older than the retention, and its clock is not wrong.
    pub(super) fn has_place(record: &Record, now: Time, options: &Options) -> bool {
        let oldest = now.minus(options.retention).0.div_euclid(DAY);
        let latest = now.0.saturating_add(AHEAD).div_euclid(DAY);
        wanted(record).is_none_or(|(_, day)| (oldest..=latest).contains(&day))
    }

    /// Creates the missing partitions for these records.
    pub(super) async fn make(
        &mut self,
        client: &Client,
        schema: &str,
        rows: &[Numbered],
    ) -> Result<(), Trouble> {
        let wanted: BTreeSet<_> = rows.iter().filter_map(|(_, record)| wanted(record)).collect();
        let missing: Vec<_> = wanted.difference(&self.0).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let made = make(client, schema, &missing).await;
        if let Err(Trouble::Refused { .. }) = &made {
            client.batch_execute("ROLLBACK").await?;
        }
        made?;
        self.0.extend(missing);
        Ok(())
    }

    /// Forgets which partitions exist: another coordinator may have dropped some.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// The table and the day of the record's partition.
fn wanted(record: &Record) -> Option<(usize, i64)> {
    match record {
        Record::Run(run) => Some((0, run.since.div_euclid(DAY))),
        Record::Event(event) if !record.is_audit() => Some((1, event.at.div_euclid(DAY))),
        Record::Event(_) | Record::Gap(_) | Record::Owned(..) => None,
    }
}

async fn make(client: &Client, schema: &str, missing: &[(usize, i64)]) -> Result<(), Trouble> {
    client.batch_execute("BEGIN").await?;
    client.execute("SELECT pg_advisory_xact_lock($1)", &[&lock(schema)]).await?;
    for (table, day) in missing {
        let (table, from) = (PARTITIONED[*table], day * DAY);
        let name = named(table, *day);
        let there = "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                     WHERE n.nspname = $1 AND c.relname = $2";
        if client.query_opt(there, &[&schema, &name]).await?.is_some() {
            continue;
        }
        // Attached afterwards, so that readers and writers of other days do not wait.
        let sql = format!(
            "CREATE TABLE {name} (LIKE {table} INCLUDING ALL); \
             ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({})",
            from + DAY
        );
        client.batch_execute(&sql).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}

/// `runs_2026_11_25`.
fn named(table: &str, day: i64) -> String {
    let date: String = Time(day.saturating_mul(DAY)).to_string().chars().take(10).collect();
    format!("{table}_{}", date.replace('-', "_"))
}

/// Deletes at most one portion of what is too old or too much; returns whether there may be more.
pub(super) async fn clean(
    client: &Client,
    schema: &str,
    now: Time,
    options: &Options,
) -> Result<bool, Trouble> {
    let locked = client.query_one("SELECT pg_try_advisory_lock($1)", &[&(lock(schema) ^ 1)]).await?;
    if !locked.try_get::<_, bool>(0)? {
        return Ok(false);
    }
    let cleaned = portion(client, schema, now, options).await;
    // An error of the connection ends the session, and its locks with it.
    if matches!(&cleaned, Ok(_) | Err(Trouble::Refused { .. })) {
        client.execute("SELECT pg_advisory_unlock($1)", &[&(lock(schema) ^ 1)]).await?;
    }
    cleaned
}

async fn portion(client: &Client, schema: &str, now: Time, options: &Options) -> Result<bool, Trouble> {
    let cutoff = now.minus(options.retention).0;
    let mut parts = partitions(client, schema).await?;
    let (old, young): (Vec<_>, Vec<_>) = parts.drain(..).partition(|part| part.until <= cutoff);
    for part in &old {
        part.drop(client).await?;
    }
    let mut more = false;
    for sql in [
        "DELETE FROM not_run WHERE ctid IN (SELECT ctid FROM not_run WHERE recorded < $1 ORDER BY recorded LIMIT $2)",
        "DELETE FROM assignments WHERE ctid IN (SELECT ctid FROM assignments WHERE ended < $1 LIMIT $2)",
        "DELETE FROM hourly WHERE ctid IN (SELECT ctid FROM hourly WHERE (hour + 1) * 3600000 <= $1 LIMIT $2)",
        "DELETE FROM senders WHERE ctid IN (SELECT ctid FROM senders WHERE seen < $1 LIMIT $2)",
    ] {
        more |= client.execute(sql, &[&cutoff, &PRUNE]).await? == PRUNE.cast_unsigned();
    }
    more |= audit(client, options.max_audit).await? > 0;
    let rows: u64 = young.iter().map(|part| part.rows).sum();
    if rows > options.max_rows {
        more |= fewest(client, &young).await?;
    }
    Ok(more)
}

/// One day of a table.
#[derive(Debug)]
struct Part {
    name: String,
    /// Its end.
    until: i64,
    /// How many rows it has, by the server's statistics.
    rows: u64,
}

impl Part {
    async fn drop(&self, client: &Client) -> Result<(), Trouble> {
        tracing::info!(partition = %self.name, "a day of the history is too old, and goes");
        client.batch_execute(&format!("DROP TABLE IF EXISTS {}", super::link::quoted(&self.name))).await?;
        Ok(())
    }
}

async fn partitions(client: &Client, schema: &str) -> Result<Vec<Part>, Trouble> {
    let sql = "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), coalesce(s.n_live_tup, 0) \
               FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid \
               JOIN pg_catalog.pg_class p ON p.oid = i.inhparent \
               JOIN pg_catalog.pg_namespace n ON n.oid = p.relnamespace \
               LEFT JOIN pg_catalog.pg_stat_user_tables s ON s.relid = c.oid \
               WHERE n.nspname = $1 AND p.relname = ANY($2) AND c.relispartition AND p.relkind = 'p'";
    let mut parts = Vec::new();
    for row in client.query(sql, &[&schema, &PARTITIONED.as_slice()]).await? {
        let bound: String = row.try_get(1)?;
        // FOR VALUES FROM ('1764028800000') TO ('1764115200000')
        let Some(until) = bound.split('\'').nth(3).and_then(|until| until.parse().ok()) else { continue };
        let rows = row.try_get::<_, i64>(2)?;
        parts.push(Part { name: row.try_get(0)?, until, rows: rows.max(0).cast_unsigned() });
    }
    parts.sort_by_key(|part| part.until);
    Ok(parts)
}

/// There are too many rows: drops the oldest day, or deletes a portion of it if there is no other.
async fn fewest(client: &Client, parts: &[Part]) -> Result<bool, Trouble> {
    let Some(oldest) = parts.iter().find(|part| part.rows > 0) else { return Ok(false) };
    if parts.iter().any(|part| part.until > oldest.until && part.rows > 0) {
        oldest.drop(client).await?;
        return Ok(true);
    }
    let sql = format!(
        "DELETE FROM {0} WHERE ctid IN (SELECT ctid FROM {0} ORDER BY {1}, id LIMIT $1)",
        super::link::quoted(&oldest.name),
        if oldest.name.starts_with("runs") { "since" } else { "at" },
    );
    // The server's statistics lag behind, so the next pass sees whether there are still too many.
    client.execute(&sql, &[&PRUNE.min(oldest.rows.cast_signed() / 10).max(1)]).await?;
    Ok(false)
}

/// Deletes a portion of the audit beyond `most` rows: the oldest rows of the principal with the most.
async fn audit(client: &Client, most: u64) -> Result<u64, Trouble> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let count: i64 = client.query_one("SELECT count(*) FROM audit", &[]).await?.try_get(0)?;
    if count <= most {
        return Ok(0);
    }
    let sql = "SELECT principal, count(*) FROM audit GROUP BY principal ORDER BY count(*) DESC LIMIT 1";
    let Some(row) = client.query_opt(sql, &[]).await? else { return Ok(0) };
    let (who, rows): (Option<String>, i64) = (row.try_get(0)?, row.try_get(1)?);
    // At most a tenth, since another principal may have the most after that.
    let portion = (count - most).min(PRUNE).min(rows / 10).max(1);
    let sql = "DELETE FROM audit WHERE ctid IN (SELECT ctid FROM audit WHERE principal IS NOT DISTINCT FROM $1 \
               ORDER BY id LIMIT $2)";
    Ok(client.execute(sql, &[&who, &portion]).await?)
}
