//! Events as they happen, as server-sent events. Events within a moment are sent together, and serialized once for all
//! watchers: a page costs only what it reads, and without watchers nothing is serialized at all. The last events are
//! kept with their numbers: a watcher that lost its connection names the last one that it saw (`Last-Event-ID`) and
//! continues after it, or learns that some were lost.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rosterd_coordinator::handle::ClusterEvent;
use rosterd_domain::id::JobName;
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;
use rosterd_runtime::clock::SharedClock;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::shape::time;

/// How many events are kept, plus those in the batch of the oldest one.
const KEPT: usize = 4096;

/// The output of a run is kept with its event up to this number of bytes.
const SHORT: usize = 1024;

/// Events within this time are sent together; the first after a pause is sent at once.
const TOGETHER: Duration = Duration::from_millis(100);

/// How often events are taken while more are awaited; their times may be later by this. To be woken for each would cost
/// the coordinator's thread as much as the event itself. Its backlog
/// ([`EVENT_BACKLOG`](rosterd_coordinator::driver::EVENT_BACKLOG)) must last for this time.
const TAKE_EVERY: Duration = Duration::from_millis(5);

/// The last events.
pub struct Recent {
    kept: Mutex<Kept>,
    /// The number of the newest.
    pub(super) newest: watch::Sender<u64>,
    /// Identifies this run of this coordinator: numbers restart with it.
    pub(super) epoch: String,
}

#[derive(Default)]
struct Kept {
    batches: VecDeque<Arc<Batch>>,
    events: usize,
    newest: u64,
}

/// Events that happened together; never empty.
pub(super) struct Batch {
    /// The number of its first event.
    first: u64,
    events: Vec<News>,
    /// The same as they are sent, serialized for the first reader: most batches have none.
    written: OnceLock<Written>,
}

/// Events as they are sent.
struct Written {
    each: Vec<String>,
    /// All of them.
    text: Bytes,
}

/// One event as it happened.
enum News {
    /// An event at this time.
    Happened(Time, Arc<ClusterEvent>),
    /// This many were lost.
    Lost(u64),
    /// An event with a long text that is not sent: kept without it.
    Long(Option<JobName>, &'static str, Value),
}

impl News {
    /// A run's output is kept only if it is short, since there are thousands of events.
    fn of(at: Time, event: Arc<ClusterEvent>) -> Self {
        match &*event {
            ClusterEvent::Ended { output, .. } if output.len() > SHORT => {
                let (kind, data) = payload(at, &event);
                Self::Long(event.job().cloned(), kind, data)
            }
            _ => Self::Happened(at, event),
        }
    }

    /// The job that it is about.
    fn job(&self) -> Option<&JobName> {
        match self {
            Self::Happened(_, event) => event.job(),
            Self::Lost(_) => None,
            Self::Long(job, ..) => job.as_ref(),
        }
    }

    fn write(&self, number: u64, epoch: &str) -> String {
        match self {
            Self::Happened(at, of) => {
                let (kind, data) = payload(*at, of);
                event(epoch, kind, number, &data.to_string())
            }
            Self::Lost(count) => event(epoch, "lost", number, &json!({ "count": count }).to_string()),
            Self::Long(_, kind, data) => event(epoch, kind, number, &data.to_string()),
        }
    }
}

impl Batch {
    pub(super) fn last(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    fn written(&self, epoch: &str) -> &Written {
        self.written.get_or_init(|| {
            let numbered = (self.first..).zip(&self.events);
            let each: Vec<String> = numbered.map(|(number, news)| news.write(number, epoch)).collect();
            let text = each.concat().into();
            Written { each, text }
        })
    }

    /// The events after a number, of one job and of none, or all.
    pub(super) fn after(&self, epoch: &str, number: u64, of: Option<&JobName>) -> Bytes {
        let written = self.written(epoch);
        if self.first > number && of.is_none() {
            return written.text.clone();
        }
        let new = (self.first..).zip(self.events.iter().zip(&written.each)).filter(|(at, _)| *at > number);
        let wanted = new.filter(|(_, (news, _))| of.is_none() || news.job().is_none() || news.job() == of);
        wanted.map(|(_, (_, text))| text.as_str()).collect::<String>().into()
    }
}

/// An event as it is sent. Its data is one line, as JSON is.
pub(super) fn event(epoch: &str, kind: &str, number: u64, data: &str) -> String {
    format!("event: {kind}\nid: {epoch}.{number}\ndata: {data}\n\n")
}

impl Recent {
    /// Empty. `epoch` is unique to this run of this coordinator.
    pub fn new(epoch: String) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), newest: watch::Sender::new(0), epoch })
    }

    fn add(&self, news: Vec<News>) {
        if news.is_empty() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.newest + 1;
        kept.newest += news.len() as u64;
        kept.events += news.len();
        kept.batches.push_back(Arc::new(Batch { first, events: news, written: OnceLock::new() }));
        while kept.batches.len() > 1
            && let Some(oldest) = kept.batches.front()
            && kept.events - oldest.events.len() >= KEPT
        {
            kept.events -= oldest.events.len();
            kept.batches.pop_front();
        }
        self.newest.send_replace(kept.newest);
    }

    /// The events after a number, the oldest first, and whether some of them are lost.
    pub(super) fn after(&self, number: u64) -> (Vec<Arc<Batch>>, bool) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = kept.batches.front().map_or(kept.newest + 1, |batch| batch.first);
        let known = kept.batches.partition_point(|batch| batch.last() <= number);
        (kept.batches.range(known..).cloned().collect(), number + 1 < oldest)
    }

    /// The number in an id of this epoch.
    pub(super) fn number(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.rsplit_once('.')?;
        (epoch == self.epoch).then(|| number.parse().ok()).flatten()
    }
}

/// Keeps events, as long as the coordinator exists.
pub(crate) async fn follow(
    recent: Arc<Recent>,
    mut events: broadcast::Receiver<Arc<ClusterEvent>>,
    clock: SharedClock,
) {
    // Ready at once after a pause, and again after that time.
    let mut due = interval(TOGETHER);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut together = match events.recv().await {
            Ok(event) => vec![News::of(clock.wall(), event)],
            Err(RecvError::Lagged(count)) => vec![News::Lost(count)],
            // The coordinator no longer exists.
            Err(RecvError::Closed) => return std::future::pending().await,
        };
        loop {
            let is_due = tokio::select! {
                biased;
                _ = due.tick() => true,
                () = sleep(TAKE_EVERY) => false,
            };
            take(&mut events, &mut together, &clock);
            if is_due {
                break;
            }
        }
        recent.add(together);
    }
}

/// Takes what is there.
fn take(events: &mut broadcast::Receiver<Arc<ClusterEvent>>, together: &mut Vec<News>, clock: &SharedClock) {
    loop {
        together.push(match events.try_recv() {
            Ok(event) => News::of(clock.wall(), event),
            Err(TryRecvError::Lagged(count)) => News::Lost(count),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        });
    }
}

/// Its kind and its data, as they are sent.
fn payload(at: Time, event: &ClusterEvent) -> (&'static str, Value) {
    let at = time(at);
    match event {
        ClusterEvent::Started { job, item, token, run } => {
            let data = json!({
                "at": at, "jobName": job.as_str(), "item": item.0, "token": token.0, "fireTime": time(run.fire),
                "source": run.source.as_str(), "instanceId": run.instance.to_string(),
            });
            ("run_started", data)
        }
        ClusterEvent::Ended { job, item, token, run, outcome, error, .. } => {
            let data = json!({
                "at": at, "jobName": job.as_str(), "item": item.0, "token": token.0, "fireTime": time(run.fire),
                "source": run.source.as_str(), "instanceId": run.instance.to_string(), "outcome": outcome.as_str(), "error": error,
            });
            ("run_ended", data)
        }
        ClusterEvent::Progress { job, item, token, percent, message } => {
            let data = json!({
                "at": at, "jobName": job.as_str(), "item": item.0, "token": token.0, "percent": percent,
                "message": message,
            });
            ("run_progress", data)
        }
        ClusterEvent::NotRun { job, item, first, latest, count, result } => {
            let (result, reason) = match result {
                FireResult::Misfired => ("misfired", None),
                FireResult::Skipped => ("skipped", None),
                FireResult::Missed(reason) => ("missed", Some(reason.as_str())),
            };
            let data = json!({
                "at": at, "jobName": job.as_str(), "item": item.0, "first": time(*first), "latest": time(*latest),
                "count": count, "result": result, "reason": reason,
            });
            ("fires_not_run", data)
        }
        ClusterEvent::Assigned { job, generation, owners, why } => {
            let owners: serde_json::Map<String, Value> = owners
                .iter()
                .map(|(instance, items)| {
                    (instance.to_string(), json!(items.iter().map(|item| item.0).collect::<Vec<_>>()))
                })
                .collect();
            let data = json!({ "at": at, "jobName": job.as_str(), "generation": generation, "owners": owners, "why": why.as_ref().map(ToString::to_string) });
            ("assigned", data)
        }
        ClusterEvent::Worker { instance, change } => (
            "worker",
            json!({ "at": at, "instanceId": instance.to_string(), "change": change.as_str(), "what": change.as_str() }),
        ),
        ClusterEvent::Job { job, action, what, by } => {
            let data = json!({
                "at": at, "jobName": job.as_str(), "action": action.as_str(), "what": what, "principal": by.as_deref(),
            });
            ("job", data)
        }
        ClusterEvent::Asked { job, action, what, by } => {
            let name = job.as_ref().map(|job| job.as_str().to_owned());
            let data = json!({
                "at": at, "jobName": name, "action": action.as_str(), "what": what, "principal": by.as_deref(),
            });
            ("job", data)
        }
    }
}

#[cfg(test)]
mod tests {
    use rosterd_coordinator::handle::Action;

    use super::*;

    fn numbers(recent: &Recent, from: u64) -> (Vec<u64>, bool) {
        let (batches, lost) = recent.after(from);
        let of = |batch: &Arc<Batch>| (batch.first.max(from + 1)..=batch.last()).collect::<Vec<_>>();
        (batches.iter().flat_map(of).collect(), lost)
    }

    fn happened(recent: &Recent, jobs: &[Option<&str>]) {
        let asked = |name: &Option<&str>| ClusterEvent::Asked {
            job: name.map(|name| JobName::new(name).unwrap()),
            action: Action::Drain,
            what: String::new(),
            by: None,
        };
        recent.add(jobs.iter().map(|name| News::of(Time(0), Arc::new(asked(name)))).collect());
    }

    #[test]
    fn a_watcher_that_comes_back_goes_on_behind_what_it_saw() {
        let recent = Recent::new("c-1".into());
        assert_eq!(numbers(&recent, 0), (vec![], false));
        happened(&recent, &[None]);
        happened(&recent, &[None, None]);
        assert_eq!(recent.number("c-1.1"), Some(1));
        assert_eq!(numbers(&recent, 0), (vec![1, 2, 3], false));
        assert_eq!(numbers(&recent, 2), (vec![3], false), "within a batch");
        assert_eq!(numbers(&recent, 3), (vec![], false));
        assert_eq!(
            (recent.number("c-2.1"), recent.number("1")),
            (None, None),
            "an id of another run of the coordinator"
        );
    }

    #[test]
    fn events_that_are_no_longer_kept_are_reported_as_lost() {
        let recent = Recent::new("c".into());
        for _ in 0..KEPT / 2 + 5 {
            happened(&recent, &[None, None]);
        }
        let (events, lost) = numbers(&recent, 5);
        assert_eq!((events.len(), events[0], lost), (KEPT, 11, true));
        assert!(!numbers(&recent, 10).1);
    }

    #[test]
    fn a_watcher_of_a_job_gets_its_events_and_those_of_no_job() {
        let recent = Recent::new("c".into());
        happened(&recent, &[Some("a"), Some("b"), None]);
        let (batches, _) = recent.after(0);
        let ids = |number, of: Option<&str>| {
            let of = of.map(|name| JobName::new(name).unwrap());
            let text = batches[0].after("c", number, of.as_ref());
            let lines =
                std::str::from_utf8(&text).unwrap().lines().filter_map(|line| line.strip_prefix("id: "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(batches[0].written.get().is_none(), "without a reader nothing is serialized");
        assert_eq!(ids(0, None), ["c.1", "c.2", "c.3"]);
        assert_eq!(ids(0, Some("a")), ["c.1", "c.3"]);
        assert_eq!(ids(1, Some("a")), ["c.3"]);
        assert_eq!(ids(2, Some("b")), ["c.3"]);
    }
}
