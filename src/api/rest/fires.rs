//! Expected and actual: the scheduled times of all jobs within a span, and the result of each.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use rosterd_coordinator::handle::JobRow;
use rosterd_domain::id::{Item, JobName};
use rosterd_domain::time::Time;
use rosterd_session::code::Code;
use serde::Deserialize;
use utoipa::IntoParams;

use super::explained::{self, FireOfJob};
use super::paging::Paged;
use super::problem::Problem;
use super::shape::moment;
use super::{Page, Query, Rest, Shared, job};

/// The default number of rows of a page, and the maximum.
const USUAL: usize = 200;
const MOST: usize = 1000;
/// The default span.
const SPAN: Duration = Duration::from_secs(300);

/// Which scheduled times.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FiresQuery {
    /// Only fires of this job.
    job: Option<String>,
    /// Not before this (RFC 3339); default: five minutes before `to`.
    from: Option<String>,
    /// Before this (RFC 3339); default: now.
    to: Option<String>,
    /// Rows of a page: 1 to 1000; default: 200.
    limit: Option<usize>,
    /// From the `Link` header of the previous answer (`rel="next"`).
    cursor: Option<String>,
}

/// A scheduled time of an item: the latest first, then by job and item.
type FirePosition = (Reverse<Time>, JobName, Item);

#[utoipa::path(get, path = "/api/fires", tag = "history", params(FiresQuery), responses((status = 200, body = Vec<FireOfJob>), (status = 404, body = Problem)))]
/// Lists the scheduled times of all jobs with the result of each, the latest first.
pub(super) async fn fires(
    State(rest): Shared,
    uri: Uri,
    Query(query): Query<FiresQuery>,
) -> Result<Page<FireOfJob>, Problem> {
    let limit = match query.limit.unwrap_or(USUAL) {
        limit @ 1..=MOST => limit,
        limit => return Err(Problem::invalid("limit", format!("{limit} is not from 1 to {MOST}"))),
    };
    let to = moment("to", query.to.as_deref())?.unwrap_or_else(|| rest.clock.wall());
    let from = moment("from", query.from.as_deref())?.unwrap_or_else(|| to.minus(SPAN));
    let after = query.cursor.as_deref().map(read).transpose()?;
    let to = after.as_ref().map_or(to, |(Reverse(time), ..)| to.min(Time(time.0.saturating_add(1))));
    let jobs = match query.job {
        Some(name) => Arc::new(vec![rest.backend.job(&job(name)?, 0).await?.row]),
        None => rest.backend.jobs().await?,
    };
    let mut places = expected(&rest, &jobs, (from, to), after.as_ref(), limit + 1).await?;
    let more = places.len() > limit;
    places.truncate(limit);
    let next = places.last().filter(|_| more).map(cursor);
    Ok(Page::of(Paged { rows: results(&rest, places).await?, next }, &uri))
}

/// The first `most` scheduled times of all items, in order.
async fn expected(
    rest: &Rest,
    jobs: &[JobRow],
    (from, to): (Time, Time),
    after: Option<&FirePosition>,
    most: usize,
) -> Result<Vec<FirePosition>, Problem> {
    let mut places: Vec<FirePosition> = Vec::new();
    for row in jobs.iter().filter(|row| row.items > 0 && row.cron.is_some()) {
        let since = from.max(row.made.unwrap_or(from));
        let before = |time: Time| Time(time.0.saturating_sub(1));
        let wanted = most.div_ceil(row.items as usize) + 1;
        let due = match rest.backend.due(&row.name, before(since), before(to), wanted).await {
            Ok(due) => due,
            // It was removed meanwhile, or cannot be read.
            Err(refusal)
                if matches!(refusal.code, Code::JobUnknown | Code::JobRemoving | Code::ConfigDamaged) =>
            {
                continue;
            }
            Err(refusal) => return Err(refusal.into()),
        };
        for time in due {
            let of_item = |item| (Reverse(time), row.name.clone(), Item(item));
            places
                .extend((0..row.items).map(of_item).filter(|place| after.is_none_or(|after| place > after)));
        }
        // Those after the first `most` belong to a later page.
        if places.len() > 4 * most {
            places.sort();
            places.truncate(most);
        }
    }
    places.sort();
    places.truncate(most);
    Ok(places)
}

/// Their results, in the same order.
async fn results(rest: &Rest, places: Vec<FirePosition>) -> Result<Vec<FireOfJob>, Problem> {
    let mut by_job: BTreeMap<&JobName, (Vec<Item>, Vec<Time>)> = BTreeMap::new();
    for (Reverse(time), name, item) in &places {
        let (items, times) = by_job.entry(name).or_default();
        items.push(*item);
        times.push(*time);
    }
    let mut found = BTreeMap::new();
    for (name, (mut items, mut times)) in by_job {
        times.sort();
        times.dedup();
        items.sort();
        items.dedup();
        for row in rest.history.fires(name, items, times).await? {
            found.insert((Reverse(row.fire), name.clone(), row.item), row);
        }
    }
    let row = |place: &FirePosition| Some(explained::fire_of_job(&place.1, found.remove(place)?));
    Ok(places.iter().filter_map(row).collect())
}

fn cursor((Reverse(time), name, item): &FirePosition) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}.{item}.{name}", time.0))
}

fn read(cursor: &str) -> Result<FirePosition, Problem> {
    let place = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let mut parts = text.splitn(3, '.');
        let (time, item, name) = (parts.next()?, parts.next()?, parts.next()?);
        Some((Reverse(Time(time.parse().ok()?)), JobName::new(name).ok()?, Item(item.parse().ok()?)))
    };
    place().ok_or_else(|| {
        Problem::invalid("cursor", "it is not a cursor of this API: use the one of the Link header")
    })
}
