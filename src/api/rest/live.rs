//! What happens, as it happens, as server-sent events. What happens within a moment goes out together, written once for all who
//! watch: a page costs what it reads, however much happens. The last events are kept with their numbers: a watcher that lost its
//! connection names the last one that it saw (`Last-Event-ID`) and goes on behind it, or hears that some were lost.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use rosterd_coordinator::handle::Happening;
use rosterd_domain::id::JobName;
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;
use rosterd_runtime::clock::SharedClock;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use super::problem::Problem;
use super::shape::time;
use super::{Query, Shared, job};

/// So many events are kept, and those that came with the oldest of them.
const KEPT: usize = 4096;

/// What happens within this goes out together; the first after a pause goes at once.
const TOGETHER: Duration = Duration::from_millis(100);

/// After so long without an event a comment follows, so that nothing on the way takes the connection for dead.
const QUIET: Duration = Duration::from_secs(15);

/// The last events.
pub struct Recent {
    kept: Mutex<Kept>,
    /// The number of the newest.
    newest: watch::Sender<u64>,
    /// Tells this run of this coordinator from others: numbers begin anew with it.
    epoch: String,
}

#[derive(Default)]
struct Kept {
    batches: VecDeque<Arc<Batch>>,
    events: usize,
    newest: u64,
}

/// Events that happened together, never none.
struct Batch {
    /// The number of its first event.
    first: u64,
    events: Vec<Told>,
    /// All of them as they are sent.
    text: Bytes,
}

/// One event as it is sent.
struct Told {
    job: Option<JobName>,
    text: String,
}

/// One event as it happened: of which job, what kind, and its data.
type News = (Option<JobName>, &'static str, Value);

impl Batch {
    fn last(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    /// What of it lies behind an event, of a job and of none, or all.
    fn after(&self, number: u64, of: Option<&JobName>) -> Bytes {
        if self.first > number && of.is_none() {
            return self.text.clone();
        }
        let new = (self.first..).zip(&self.events).filter(|(at, _)| *at > number);
        let wanted = new.filter(|(_, told)| of.is_none() || told.job.is_none() || told.job.as_ref() == of);
        wanted.map(|(_, told)| told.text.as_str()).collect::<String>().into()
    }
}

impl Recent {
    /// None yet. `epoch` is of this run of this coordinator alone.
    pub fn new(epoch: String) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), newest: watch::Sender::new(0), epoch })
    }

    fn add(&self, news: Vec<News>) {
        if news.is_empty() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.newest + 1;
        let event = |(number, (job, kind, data)): (u64, News)| Told {
            job,
            text: self.event(kind, number, &data.to_string()),
        };
        let events: Vec<Told> = (first..).zip(news).map(event).collect();
        let text = events.iter().map(|told| told.text.as_str()).collect::<String>().into();
        kept.newest += events.len() as u64;
        kept.events += events.len();
        kept.batches.push_back(Arc::new(Batch { first, events, text }));
        while kept.batches.len() > 1
            && let Some(oldest) = kept.batches.front()
            && kept.events - oldest.events.len() >= KEPT
        {
            kept.events -= oldest.events.len();
            kept.batches.pop_front();
        }
        self.newest.send_replace(kept.newest);
    }

    /// What follows an event, the oldest first, and whether some of it is lost.
    fn after(&self, number: u64) -> (Vec<Arc<Batch>>, bool) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = kept.batches.front().map_or(kept.newest + 1, |batch| batch.first);
        let known = kept.batches.partition_point(|batch| batch.last() <= number);
        (kept.batches.range(known..).cloned().collect(), number + 1 < oldest)
    }

    /// An event as it is sent. Its data is of one line, as JSON is.
    fn event(&self, kind: &str, number: u64, data: &str) -> String {
        format!("event: {kind}\nid: {}.{number}\ndata: {data}\n\n", self.epoch)
    }

    /// The number that an id of this epoch stands for.
    fn number(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.rsplit_once('.')?;
        (epoch == self.epoch).then(|| number.parse().ok()).flatten()
    }
}

/// Keeps what happens, as long as there is a coordinator.
pub(crate) async fn follow(
    recent: Arc<Recent>,
    mut happenings: broadcast::Receiver<Arc<Happening>>,
    clock: SharedClock,
) {
    // After a pause it is ready at once, and again that long after.
    let mut due = interval(TOGETHER);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let Some(first) = news(happenings.recv().await, &clock) else { return std::future::pending().await };
        let mut together = vec![first];
        loop {
            let received = tokio::select! {
                biased;
                _ = due.tick() => break,
                received = happenings.recv() => received,
            };
            // Those before the end are still told.
            let Some(news) = news(received, &clock) else { break };
            together.push(news);
        }
        recent.add(together);
    }
}

/// `None`: there is no coordinator any more.
fn news(received: Result<Arc<Happening>, RecvError>, clock: &SharedClock) -> Option<News> {
    match received {
        Ok(happening) => Some(told(clock.wall(), &happening)),
        Err(RecvError::Lagged(count)) => Some((None, "lost", json!({ "count": count }))),
        Err(RecvError::Closed) => None,
    }
}

fn told(at: Time, happening: &Happening) -> (Option<JobName>, &'static str, Value) {
    let at = time(at);
    match happening {
        Happening::Started { job, item, token, run } => {
            let data = json!({
                "at": at, "jobName": job.as_str(), "item": item.0, "token": token.0, "fireTime": time(run.fire),
                "source": run.source.as_str(), "instanceId": run.instance.to_string(),
            });
            (Some(job.clone()), "run_started", data)
        }
        Happening::Ended { job, item, token, run, outcome, error, .. } => {
            let data = json!({
                "at": at, "jobName": job.as_str(), "item": item.0, "token": token.0, "fireTime": time(run.fire),
                "source": run.source.as_str(), "instanceId": run.instance.to_string(), "outcome": outcome.as_str(), "error": error,
            });
            (Some(job.clone()), "run_ended", data)
        }
        Happening::Progress { job, item, token, percent, message } => {
            let data = json!({
                "at": at, "jobName": job.as_str(), "item": item.0, "token": token.0, "percent": percent,
                "message": message,
            });
            (Some(job.clone()), "run_progress", data)
        }
        Happening::Unrun { job, item, first, latest, count, became } => {
            let (result, reason) = match became {
                FireResult::Misfired => ("misfired", None),
                FireResult::Skipped => ("skipped", None),
                FireResult::Missed(reason) => ("missed", Some(reason.as_str())),
            };
            let data = json!({
                "at": at, "jobName": job.as_str(), "item": item.0, "first": time(*first), "latest": time(*latest),
                "count": count, "result": result, "reason": reason,
            });
            (Some(job.clone()), "fires_not_run", data)
        }
        Happening::Assigned { job, generation, owners, why } => {
            let owners: serde_json::Map<String, Value> = owners
                .iter()
                .map(|(instance, items)| {
                    (instance.to_string(), json!(items.iter().map(|item| item.0).collect::<Vec<_>>()))
                })
                .collect();
            let data = json!({ "at": at, "jobName": job.as_str(), "generation": generation, "owners": owners, "why": why.as_ref().map(ToString::to_string) });
            (Some(job.clone()), "assigned", data)
        }
        Happening::Worker { instance, change } => (
            None,
            "worker",
            json!({ "at": at, "instanceId": instance.to_string(), "change": change.as_str(), "what": change.as_str() }),
        ),
        Happening::Job { job, action, what, by } => {
            let data = json!({
                "at": at, "jobName": job.as_str(), "action": action.as_str(), "what": what, "principal": by.as_deref(),
            });
            (Some(job.clone()), "job", data)
        }
        Happening::Asked { job, action, what, by } => {
            let name = job.as_ref().map(|job| job.as_str().to_owned());
            let data = json!({
                "at": at, "jobName": name, "action": action.as_str(), "what": what, "principal": by.as_deref(),
            });
            (job.clone(), "job", data)
        }
    }
}

/// Of what.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Of {
    /// Only what happens to this job, and what belongs to none.
    job: Option<String>,
}

#[utoipa::path(get, path = "/api/live", tag = "history", params(Of, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen: those behind it follow.")), responses((status = 200, content_type = "text/event-stream", body = String, description = "Events run_started, run_ended, run_progress, fires_not_run, assigned, worker (change: attached, draining, left or dead), job (action: create, pause and so on), and lost where some were.")))]
/// Tells what happens from now on, each after its commit, within a tenth of a second.
pub(super) async fn live(
    State(rest): Shared,
    headers: HeaderMap,
    Query(of): Query<Of>,
) -> Result<Response, Problem> {
    let of = of.job.map(job).transpose()?;
    let recent = rest.recent.clone();
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let newest = *recent.newest.borrow();
    // An id of another run says nothing of what was missed.
    let (from, unknown) = match seen.map(|id| recent.number(id)) {
        None => (newest, false),
        Some(Some(number)) => (number, false),
        Some(None) => (newest, true),
    };
    let news = recent.newest.subscribe();
    let state =
        Watching { recent, news, from, lost: unknown, ready: VecDeque::new(), of, stop: rest.stop.clone() };
    // Whoever is between holds the head of an answer back until something follows it.
    let hello = futures_util::stream::once(async { Ok(COMMENT) });
    let body = Body::from_stream(hello.chain(futures_util::stream::unfold(state, Watching::next)));
    Ok(([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response())
}

/// Says nothing, to show that the stream is there.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// One watcher.
struct Watching {
    recent: Arc<Recent>,
    news: watch::Receiver<u64>,
    /// The last event that was taken.
    from: u64,
    /// Some before it were lost.
    lost: bool,
    ready: VecDeque<Bytes>,
    of: Option<JobName>,
    stop: CancellationToken,
}

impl Watching {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            if std::mem::take(&mut self.lost) {
                let lost = self.recent.event("lost", self.from, "{}");
                return Some((Ok(lost.into()), self));
            }
            if let Some(text) = self.ready.pop_front() {
                return Some((Ok(text), self));
            }
            let (batches, lost) = self.recent.after(self.from);
            if let Some(last) = batches.last() {
                let texts = batches.iter().map(|batch| batch.after(self.from, self.of.as_ref()));
                self.ready.extend(texts.filter(|text| !text.is_empty()));
                (self.from, self.lost) = (last.last(), lost);
                continue;
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                changed = self.news.changed() => if changed.is_err() { return None },
                () = tokio::time::sleep(QUIET) => return Some((Ok(COMMENT), self)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(recent: &Recent, from: u64) -> (Vec<u64>, bool) {
        let (batches, lost) = recent.after(from);
        let of = |batch: &Arc<Batch>| (batch.first.max(from + 1)..=batch.last()).collect::<Vec<_>>();
        (batches.iter().flat_map(of).collect(), lost)
    }

    fn happened(recent: &Recent, jobs: &[Option<&str>]) {
        let news =
            jobs.iter().map(|name| (name.map(|name| JobName::new(name).unwrap()), "worker", json!({})));
        recent.add(news.collect());
    }

    #[test]
    fn a_watcher_that_comes_back_goes_on_behind_what_it_saw() {
        let recent = Recent::new("c-1".into());
        assert_eq!(numbers(&recent, 0), (vec![], false));
        happened(&recent, &[None]);
        happened(&recent, &[None, None]);
        assert_eq!(recent.number("c-1.1"), Some(1));
        assert_eq!(numbers(&recent, 0), (vec![1, 2, 3], false));
        assert_eq!(numbers(&recent, 2), (vec![3], false), "in the middle of what happened together");
        assert_eq!(numbers(&recent, 3), (vec![], false));
        assert_eq!((recent.number("c-2.1"), recent.number("1")), (None, None), "of another run");
    }

    #[test]
    fn what_is_no_longer_kept_is_told_to_be_lost() {
        let recent = Recent::new("c".into());
        for _ in 0..KEPT / 2 + 5 {
            happened(&recent, &[None, None]);
        }
        let (events, lost) = numbers(&recent, 5);
        assert_eq!((events.len(), events[0], lost), (KEPT, 11, true));
        assert!(!numbers(&recent, 10).1);
    }

    #[test]
    fn who_watches_a_job_is_told_of_it_and_of_what_belongs_to_none() {
        let recent = Recent::new("c".into());
        happened(&recent, &[Some("a"), Some("b"), None]);
        let (batches, _) = recent.after(0);
        let ids = |number, of: Option<&str>| {
            let of = of.map(|name| JobName::new(name).unwrap());
            let text = batches[0].after(number, of.as_ref());
            let lines =
                std::str::from_utf8(&text).unwrap().lines().filter_map(|line| line.strip_prefix("id: "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(ids(0, None), ["c.1", "c.2", "c.3"]);
        assert_eq!(ids(0, Some("a")), ["c.1", "c.3"]);
        assert_eq!(ids(1, Some("a")), ["c.3"]);
        assert_eq!(ids(2, Some("b")), ["c.3"]);
    }
}
