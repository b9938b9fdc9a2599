//! Questions other than rows and fires: ownership, the runs of one fire, recent activity.

use std::sync::{Arc, PoisonError};

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use tokio_postgres::Client;

use super::rows::{Conditions, Page, QueryError, RUN, parsed, run, take};
use crate::MAX_PAGE;
use crate::numbers::unsigned;
use crate::port::Paged;
use crate::rows::{MissedRow, OwnerFilter, OwnerRow, Pulse, RunRow, missed_named};

/// Who owned a job's items, the latest first.
pub(super) async fn owners(
    client: Arc<Client>,
    filter: Arc<OwnerFilter>,
    page: Page<OwnerRow>,
) -> Result<Paged<OwnerRow>, QueryError> {
    let after = page.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|page| page.after);
    let mut wanted = Conditions::default();
    wanted.is("job = ?", Some(filter.job.as_str().to_owned()));
    wanted.is("item = ?", filter.item.map(|item| item.0.cast_signed()));
    wanted.is("(ended IS NULL OR ended > ?)", filter.from.map(|t| t.0));
    wanted.is("since < ?", filter.to.map(|t| t.0));
    wanted.after("since", after);
    let sql = format!(
        "SELECT item, instance, generation, since, ended, reason, end_reason, id FROM assignments{} \
         ORDER BY since DESC, id DESC LIMIT {}",
        wanted.clause(),
        MAX_PAGE + 1
    );
    let rows = client.query(&sql, &wanted.values()).await?;
    let mut page = take(&page)?;
    for row in rows {
        let owner = OwnerRow {
            item: Item(row.try_get::<_, i32>(0)?.cast_unsigned()),
            instance: parsed(row.try_get::<_, &str>(1)?.parse().ok())?,
            generation: unsigned(row.try_get(2)?),
            from: Time(row.try_get(3)?),
            to: row.try_get::<_, Option<i64>>(4)?.map(Time),
            reason: row.try_get(5)?,
            end_reason: row.try_get(6)?,
        };
        let bytes = owner.reason.len() + owner.end_reason.len();
        if !page.take((owner.from.0, row.try_get(7)?), owner, bytes) {
            break;
        }
    }
    Ok(page)
}

/// All runs of the fire that this run belongs to, in the order of their tokens.
pub(super) async fn attempts(
    client: Arc<Client>,
    job: JobName,
    item: Item,
    token: Token,
) -> Result<Vec<RunRow>, QueryError> {
    let token = i64::try_from(token.0).unwrap_or(i64::MAX);
    let (job, item) = (job.as_str(), item.0.cast_signed());
    let sql = format!(
        "SELECT {RUN} FROM runs WHERE job = $1 AND item = $2 AND fire = (SELECT fire FROM runs WHERE job = $1 \
         AND item = $2 AND token = $3 ORDER BY since DESC LIMIT 1) ORDER BY token LIMIT {MAX_PAGE}"
    );
    let rows = client.query(&sql, &[&job, &item, &token]).await?;
    rows.iter().map(run).collect()
}

/// The activity since these times; the lags are of the latest runs.
pub(super) async fn pulse(client: Arc<Client>, runs: Time, missed: Time) -> Result<Pulse, QueryError> {
    let count = "SELECT count(*) FROM runs WHERE since >= $1";
    let count: i64 = client.query_one(count, &[&runs.0]).await?.try_get(0)?;
    let sql = "SELECT greatest(started - fire, 0) FROM (SELECT started, fire, source FROM runs WHERE since >= $1 \
               ORDER BY since DESC, id DESC LIMIT 5000) AS latest WHERE source = 'NORMAL_TRIGGER' \
               AND started IS NOT NULL ORDER BY 1";
    let mut pulse = Pulse { runs: unsigned(count), ..Pulse::default() };
    for row in client.query(sql, &[&runs.0]).await? {
        pulse.lags.push(unsigned(row.try_get(0)?));
    }
    let sql = "SELECT job, reason, least(sum(count), 9e18)::bigint, max(latest) FROM not_run WHERE recorded >= $1 \
               AND result = 'missed' GROUP BY job, reason ORDER BY max(latest) DESC LIMIT 1000";
    for row in client.query(sql, &[&missed.0]).await? {
        pulse.missed.push(MissedRow {
            job: parsed(row.try_get::<_, &str>(0)?.parse().ok())?,
            reason: parsed(missed_named(row.try_get(1)?))?,
            count: unsigned(row.try_get(2)?),
            latest: Time(row.try_get(3)?),
        });
    }
    Ok(pulse)
}
