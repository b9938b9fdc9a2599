//! What happens, as it happens, as server-sent events. The last ones are kept with their numbers: a watcher that lost its
//! connection names the last one that it saw (`Last-Event-ID`) and goes on behind it, or hears that some were lost.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use futures_util::{Stream, StreamExt as _};
use http::HeaderMap;
use rosterd_coordinator::handle::Happening;
use rosterd_domain::id::JobName;
use rosterd_domain::plan::Became;
use rosterd_domain::time::Time;
use rosterd_runtime::clock::SharedClock;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use super::problem::Problem;
use super::shape::time;
use super::{Query, Shared, job};

/// So many events are kept: half a minute of a busy coordinator.
const KEPT: usize = 4096;

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
    events: VecDeque<Arc<Told>>,
    newest: u64,
}

/// One event.
struct Told {
    number: u64,
    job: Option<JobName>,
    kind: &'static str,
    data: String,
}

impl Recent {
    /// None yet. `epoch` is of this run of this coordinator alone.
    pub fn new(epoch: String) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), newest: watch::Sender::new(0), epoch })
    }

    fn add(&self, job: Option<JobName>, kind: &'static str, data: &Value) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.newest += 1;
        let told = Told { number: kept.newest, job, kind, data: data.to_string() };
        kept.events.push_back(Arc::new(told));
        if kept.events.len() > KEPT {
            kept.events.pop_front();
        }
        self.newest.send_replace(kept.newest);
    }

    /// What follows an event, the oldest first, and whether some of it is lost.
    fn after(&self, number: u64) -> (Vec<Arc<Told>>, bool) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = kept.events.front().map_or(kept.newest + 1, |told| told.number);
        let events = kept.events.iter().filter(|told| told.number > number).cloned().collect();
        (events, number + 1 < oldest)
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
    loop {
        match happenings.recv().await {
            Ok(happening) => {
                let (job, kind, data) = told(clock.wall(), &happening);
                recent.add(job, kind, &data);
            }
            Err(RecvError::Lagged(count)) => recent.add(None, "lost", &json!({ "count": count })),
            Err(RecvError::Closed) => return std::future::pending().await,
        }
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
                Became::Misfired => ("misfired", None),
                Became::Skipped => ("skipped", None),
                Became::Missed(reason) => ("missed", Some(reason.as_str())),
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
/// Tells what happens from now on, each after its commit.
pub(super) async fn live(
    State(rest): Shared,
    headers: HeaderMap,
    Query(of): Query<Of>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
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
    let hello = futures_util::stream::once(async { Ok(Event::default().comment("")) });
    Ok(Sse::new(hello.chain(futures_util::stream::unfold(state, Watching::next))))
}

/// One watcher.
struct Watching {
    recent: Arc<Recent>,
    news: watch::Receiver<u64>,
    /// The last event that was taken.
    from: u64,
    /// Some before it were lost.
    lost: bool,
    ready: VecDeque<Arc<Told>>,
    of: Option<JobName>,
    stop: CancellationToken,
}

impl Watching {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if std::mem::take(&mut self.lost) {
                let event = Event::default().event("lost").id(self.id(self.from)).data("{}");
                return Some((Ok(event), self));
            }
            if let Some(told) = self.ready.pop_front() {
                if self.of.as_ref().zip(told.job.as_ref()).is_some_and(|(of, job)| of != job) {
                    continue;
                }
                let event = Event::default().event(told.kind).id(self.id(told.number)).data(&told.data);
                return Some((Ok(event), self));
            }
            let (events, lost) = self.recent.after(self.from);
            if let Some(last) = events.last() {
                self.from = last.number;
                (self.ready, self.lost) = (events.into(), lost);
                continue;
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                changed = self.news.changed() => if changed.is_err() { return None },
                () = tokio::time::sleep(QUIET) => return Some((Ok(Event::default().comment("")), self)),
            }
        }
    }

    fn id(&self, number: u64) -> String {
        format!("{}.{number}", self.recent.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(recent: &Recent, from: u64) -> (Vec<u64>, bool) {
        let (events, lost) = recent.after(from);
        (events.iter().map(|told| told.number).collect(), lost)
    }

    #[test]
    fn a_watcher_that_comes_back_goes_on_behind_what_it_saw() {
        let recent = Recent::new("c-1".into());
        assert_eq!(numbers(&recent, 0), (vec![], false));
        for _ in 0..3 {
            recent.add(None, "worker", &json!({}));
        }
        assert_eq!(recent.number("c-1.1"), Some(1));
        assert_eq!(numbers(&recent, 1), (vec![2, 3], false));
        assert_eq!((recent.number("c-2.1"), recent.number("1")), (None, None), "of another run");
    }

    #[test]
    fn what_is_no_longer_kept_is_told_to_be_lost() {
        let recent = Recent::new("c".into());
        for _ in 0..KEPT + 10 {
            recent.add(None, "worker", &json!({}));
        }
        let (events, lost) = numbers(&recent, 5);
        assert_eq!((events.len(), events[0], lost), (KEPT, 11, true));
        assert!(!numbers(&recent, 10).1);
    }
}
