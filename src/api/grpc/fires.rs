//! Pages of `ListFires`: which due times the schedule has in a span, as many as a page needs. A page is cut by
//! (due time, item); its token names the last pair of the page before. Pure; called by `admin`.

use std::ops::Range;

use rosterd_domain::id::Item;
use rosterd_domain::schedule::Schedule;
use rosterd_domain::time::Time;

use super::status::Malformed;
use crate::code::Code;
use crate::coordinator::handle::JobRow;
use crate::history::FireRow;

/// What is asked for.
pub(super) struct Span {
    pub(super) from: Time,
    pub(super) to: Time,
    pub(super) items: Range<u32>,
    pub(super) size: usize,
    pub(super) token: String,
}

/// What a page needs of the history.
pub(super) struct Page {
    pub(super) due: Vec<Time>,
    pub(super) items: Vec<Item>,
    /// The last pair of the page before.
    pub(super) after: Option<(Time, u32)>,
    pub(super) size: usize,
    /// There are due times behind these.
    pub(super) more: bool,
}

/// The due times of a page. A job without a schedule has none.
pub(super) fn page(row: &JobRow, span: Span) -> Result<Page, Malformed> {
    let after = token(&span.token)?;
    let items: Vec<Item> = span.items.map(Item).collect();
    let mut page = Page { due: Vec::new(), items, after, size: span.size, more: false };
    let Some(cron) = row.cron.as_deref().filter(|_| !page.items.is_empty()) else { return Ok(page) };
    let schedule = Schedule::parse(cron, &row.time_zone)
        .map_err(|error| Malformed::new(Code::ConfigDamaged, "job", error))?;
    // Enough for a full page even where the first due time was shown but for its last item.
    let most = span.size.div_ceil(page.items.len()) + 1;
    let from = after.map_or(span.from, |(time, _)| time.max(span.from));
    for due in schedule.iter(Time(from.0.saturating_sub(1))) {
        if due >= span.to {
            break;
        }
        if page.due.len() == most {
            page.more = true;
            break;
        }
        page.due.push(due);
    }
    Ok(page)
}

/// The rows of a page, and the token of the next one; empty: there is none.
pub(super) fn cut(
    mut fires: Vec<FireRow>,
    after: Option<(Time, u32)>,
    size: usize,
    more: bool,
) -> (Vec<FireRow>, String) {
    fires.sort_by_key(|fire| (fire.fire, fire.item));
    fires.retain(|fire| after.is_none_or(|after| (fire.fire, fire.item.0) > after));
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
        let what = "it is not from an answer of ours: give the next_page_token of the last one";
        Malformed::new(Code::RequestInvalid, "page_token", what)
    })?;
    Ok(Some((Time(time), item)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Fate;
    use rosterd_domain::id::JobName;

    fn row() -> JobRow {
        JobRow {
            name: JobName::new("j").unwrap(),
            handler_type: String::new(),
            cron: Some("0 0/10 * * * ?".into()),
            time_zone: "UTC".into(),
            items: 3,
            description: String::new(),
            status: "enabled",
            instances: 0,
            running: 0,
            leader: None,
            made: None,
            next_fire: None,
            counters: rosterd_domain::item::Counters::default(),
        }
    }

    #[test]
    fn pages_show_every_pair_once_and_in_order() {
        let (from, to) = (Time::from_seconds(600), Time::from_seconds(7200));
        let mut seen = Vec::new();
        let mut token = String::new();
        loop {
            let page = page(&row(), Span { from, to, items: 0..3, size: 4, token }).unwrap();
            let pairs = page.due.iter().flat_map(|due| page.items.iter().map(|item| (*due, *item)));
            let fires = pairs.map(|(fire, item)| FireRow {
                fire,
                item,
                became: Fate::Pending,
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
        let all: Vec<_> = (1..12).flat_map(|n| (0..3).map(move |item| (n, item))).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn a_token_of_another_kind_is_refused() {
        let span =
            |token: &str| Span { from: Time(0), to: Time(1), items: 0..1, size: 1, token: token.into() };
        for bad in ["x", "1.", ".1", "1.2.3"] {
            assert_eq!(page(&row(), span(bad)).err().unwrap().field, "page_token");
        }
    }
}
