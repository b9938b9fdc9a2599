//! A job's scheduled times with the result of each, in pages: how many scheduled times of a span a page needs. The
//! latest scheduled time comes first, and the items of one in ascending order; a token names the last pair of the
//! previous page. Called by `grpc::admin` and `rest`.

use std::cmp::Reverse;
use std::ops::Range;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::time::Time;

use crate::backend::Backend;
use crate::history::History;
use rosterd_history::FireRow;
use rosterd_session::code::{Code, Refusal};
use rosterd_wire::status::Malformed;

/// The request.
pub(crate) struct Span {
    pub(crate) from: Time,
    pub(crate) to: Time,
    pub(crate) items: Range<u32>,
    pub(crate) size: usize,
    pub(crate) token: String,
}

/// What a page needs of the history.
struct Page {
    due: Vec<Time>,
    items: Vec<Item>,
    /// The last pair of the previous page.
    after: Option<(Time, u32)>,
    size: usize,
    /// Whether there are earlier scheduled times.
    more: bool,
    /// From (inclusive), to (exclusive).
    span: (Time, Time),
}

/// The rows of a page, and the token of the next one; empty: this is the last.
pub(crate) async fn of(
    span: Span,
    job: &JobName,
    backend: &dyn Backend,
    history: &dyn History,
) -> Result<(Vec<FireRow>, String), Refusal> {
    let mut page = page(span).map_err(|defect| defect.refusal)?;
    if let Some((after, until, most)) = page.asks() {
        page.take(backend.due(job, after, until, most).await?);
    }
    let fires = match page.due.is_empty() {
        true => Vec::new(),
        false => history.fires(job, page.items, page.due).await?,
    };
    Ok(cut(fires, page.after, page.size, page.more))
}

/// A page without its scheduled times, which the coordinator determines, by the schedules in force at the time.
fn page(span: Span) -> Result<Page, Malformed> {
    let after = token(&span.token)?;
    let items: Vec<Item> = span.items.map(Item).collect();
    let step = Duration::from_millis(1);
    let to = after.map_or(span.to, |(time, _)| time.plus(step).min(span.to));
    let span_left = (span.from, to);
    Ok(Page { due: Vec::new(), items, after, size: span.size, more: false, span: span_left })
}

impl Page {
    /// The scheduled times to ask for: the latest ones after the first time and not after the second, at most this
    /// many.
    fn asks(&self) -> Option<(Time, Time, usize)> {
        let step = Duration::from_millis(1);
        let wanted = !self.items.is_empty() && self.span.0 < self.span.1;
        wanted.then(|| (self.span.0.minus(step), self.span.1.minus(step), self.most() + 1))
    }

    /// Enough for a full page even if of the first scheduled time only the last item remains.
    fn most(&self) -> usize {
        self.size.div_ceil(self.items.len().max(1)) + 1
    }

    /// Sets the scheduled times, which come last one first.
    fn take(&mut self, mut due: Vec<Time>) {
        self.more = due.len() > self.most();
        due.truncate(self.most());
        due.reverse();
        self.due = due;
    }
}

/// The rows of a page, and the token of the next one; empty: this is the last.
fn cut(
    mut fires: Vec<FireRow>,
    after: Option<(Time, u32)>,
    size: usize,
    more: bool,
) -> (Vec<FireRow>, String) {
    fires.sort_by_key(|fire| (Reverse(fire.fire), fire.item));
    let is_next =
        |fire: &FireRow, (time, item): (Time, u32)| (Reverse(fire.fire), fire.item.0) > (Reverse(time), item);
    fires.retain(|fire| after.is_none_or(|after| is_next(fire, after)));
    let more = more || fires.len() > size;
    fires.truncate(size);
    let next = fires.last().filter(|_| more).map(|last| format!("{}.{}", last.fire.0, last.item));
    (fires, next.unwrap_or_default())
}

fn token(text: &str) -> Result<Option<(Time, u32)>, Malformed> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.split_once('.').and_then(|(time, item)| Some((time.parse().ok()?, item.parse().ok()?)));
    let (time, item) = parsed.ok_or_else(|| {
        let what = "it is not a page token of this API: use the next_page_token of the previous answer";
        Malformed::new(Code::RequestInvalid, "page_token", what)
    })?;
    Ok(Some((Time(time), item)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rosterd_domain::schedule::Schedule;
    use rosterd_history::Fate;

    #[test]
    fn pages_show_every_pair_once_and_in_order() {
        let (from, to) = (Time::from_seconds(600), Time::from_seconds(7200));
        let schedule = Schedule::parse("0 0/10 * * * ?", "UTC").unwrap();
        let mut seen = Vec::new();
        let mut token = String::new();
        loop {
            let mut page = page(Span { from, to, items: 0..3, size: 4, token }).unwrap();
            let (after, until, most) = page.asks().unwrap();
            let mut due: Vec<Time> = schedule.iter(after).take_while(|due| *due <= until).collect();
            due.reverse();
            due.truncate(most);
            page.take(due);
            let pairs = page.due.iter().flat_map(|due| page.items.iter().map(|item| (*due, *item)));
            let fires = pairs.map(|(fire, item)| FireRow {
                fire,
                item,
                fate: Fate::Pending,
                reason: None,
                run: None,
            });
            let (fires, next) = cut(fires.collect(), page.after, page.size, page.more);
            seen.extend(fires.iter().map(|fire| (fire.fire.0 / 600_000, fire.item.0)));
            token = next;
            if token.is_empty() {
                break;
            }
            assert_eq!(fires.len(), 4);
        }
        let all: Vec<_> = (1..12).rev().flat_map(|n| (0..3).map(move |item| (n, item))).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn a_token_of_another_kind_is_refused() {
        let span =
            |token: &str| Span { from: Time(0), to: Time(1), items: 0..1, size: 1, token: token.into() };
        for bad in ["x", "1.", ".1", "1.2.3"] {
            assert_eq!(page(span(bad)).err().unwrap().field, "page_token");
        }
    }
}
