//! The shell: looks at jobs, asks the book, sends, and keeps what became of it. A task looks; each configured receiver has one of
//! its own, so that one that hangs holds up nobody else; receivers that jobs name themselves share one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rosterd_domain::id::JobName;
use rosterd_domain::time::Time;
use rosterd_runtime::clock::SharedClock;
use tokio::sync::watch;

use super::agenda::Agenda;
use super::book::{Book, Due, Kept, Post};
use super::facts::{Coordinator, Job, LateStart};
use super::kind::{AlarmKind, Severity};
use super::letter::{Alarm, Letter};
use super::send::Sender;
use super::settings::{Form, Receiver, Settings};
use super::silence::Silence;
use super::state::{self, AlarmState};

/// Deliveries that are remembered, to be shown.
const REMEMBERED: usize = 200;
/// Hints that come within this are followed together.
const TOGETHER: Duration = Duration::from_millis(200);
/// A task that waits for a time looks again after this, since calendars jump.
const SLICE: Duration = Duration::from_secs(1);
/// How long a test may take.
const TEST: Duration = Duration::from_secs(20);

/// What is looked at: the coordinator, as `src/app` shows it.
pub trait Watched: Send + Sync + 'static {
    /// This coordinator.
    fn coordinator(&self) -> Coordinator;
    /// All jobs, each with whether this coordinator speaks for it; an error: the store cannot be read now.
    fn jobs(&self) -> BoxFuture<'_, Result<BTreeMap<JobName, bool>, String>>;
    /// A job as it is; `None`: it does not exist, or it is not ours.
    fn job<'a>(&'a self, job: &'a JobName, speaks: bool) -> BoxFuture<'a, Result<Option<Job>, String>>;
}

/// An attempt to tell somebody something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    #[allow(missing_docs)]
    pub at: Time,
    #[allow(missing_docs)]
    pub receiver: String,
    /// The name of its form.
    pub form: &'static str,
    /// Its title.
    pub title: String,
    /// The keys of its alarms.
    pub keys: Vec<String>,
    /// The jobs that it is about.
    pub jobs: Vec<JobName>,
    /// The which attempt it is since one succeeded.
    pub attempt: u32,
    /// Why it failed.
    pub error: Option<String>,
    /// Somebody's test.
    pub test: bool,
}

/// How it goes with a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiverView {
    #[allow(missing_docs)]
    pub name: String,
    #[allow(missing_docs)]
    pub form: &'static str,
    #[allow(missing_docs)]
    pub post: Post,
}

/// An alarm, and who knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmView {
    #[allow(missing_docs)]
    pub alarm: Alarm,
    /// Whether a silence covers it.
    pub silenced: bool,
    /// Receivers that were notified.
    pub notified: Vec<String>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    #[allow(missing_docs)]
    pub active: Vec<AlarmView>,
    /// The latest first.
    pub resolved: Vec<Alarm>,
    #[allow(missing_docs)]
    pub silences: Vec<Silence>,
    #[allow(missing_docs)]
    pub receivers: Vec<ReceiverView>,
    /// The latest first.
    pub deliveries: Vec<Delivery>,
    /// Jobs whose own receiver cannot be used, and why.
    pub refused: Vec<(JobName, String)>,
}

/// What belongs into the audit.
#[derive(Debug, Clone, Copy)]
pub enum DeliveryReport<'a> {
    /// A message was sent, or could not be.
    Delivery(&'a Delivery),
    /// A request: a silence, a test.
    Requested {
        /// The job that it is about, if it is about one.
        job: Option<&'a JobName>,
        /// For people.
        what: &'a str,
        /// Who.
        by: Option<&'a str>,
    },
}

/// Where reports go: the audit, the metrics.
pub type ReportSink = Box<dyn Fn(DeliveryReport<'_>) + Send + Sync>;

/// Where the numbers of active alarms go, by kind.
pub type Counted = Box<dyn Fn(AlarmKind, usize) + Send + Sync>;

/// The desk.
pub struct Desk {
    book: Mutex<Book>,
    deliveries: Mutex<VecDeque<Delivery>>,
    agenda: Agenda,
    /// Grows whenever a receiver may have to be notified.
    changed: watch::Sender<u64>,
    sender: Sender,
    clock: SharedClock,
    state: Option<Mutex<AlarmState>>,
    /// One writes the state at a time.
    writing: tokio::sync::Mutex<()>,
    letters: AtomicU64,
    reports: ReportSink,
    counted: Counted,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a desk is made of.
pub struct Parts {
    #[allow(missing_docs)]
    pub settings: Settings,
    #[allow(missing_docs)]
    pub namespace: String,
    /// The name of this coordinator to people.
    pub coordinator: String,
    #[allow(missing_docs)]
    pub sender: Sender,
    #[allow(missing_docs)]
    pub clock: SharedClock,
    #[allow(missing_docs)]
    pub reports: ReportSink,
    #[allow(missing_docs)]
    pub counted: Counted,
}

impl Desk {
    /// A desk that looks at nothing and tells nobody.
    pub fn idle(clock: SharedClock) -> Result<Arc<Self>, rosterd_outbound::TrustError> {
        let parts = Parts {
            settings: Settings { job_hosts: Vec::new(), ..Settings::default() },
            namespace: String::new(),
            coordinator: String::new(),
            sender: Sender::trusting_nobody()?,
            clock,
            reports: Box::new(|_| {}),
            counted: Box::new(|_, _| {}),
        };
        Ok(Self::open(parts, None))
    }

    /// A desk that goes on where the one before stopped that had the same data directory.
    pub fn open(parts: Parts, data_dir: Option<&Path>) -> Arc<Self> {
        let (state, kept) = match data_dir.map(AlarmState::open) {
            Some((state, kept)) => (Some(Mutex::new(state)), kept),
            None => (None, Kept::default()),
        };
        let Parts { settings, namespace, coordinator, sender, clock, reports, counted } = parts;
        Arc::new(Self {
            book: Mutex::new(Book::open(settings, namespace, coordinator, kept)),
            deliveries: Mutex::default(),
            agenda: Agenda::default(),
            changed: watch::Sender::new(0),
            sender,
            clock,
            state,
            writing: tokio::sync::Mutex::default(),
            letters: AtomicU64::new(0),
            reports,
            counted,
        })
    }

    /// Checks everything again and again. Never ends; may be dropped at any await, and started again.
    pub async fn look(self: Arc<Self>, watched: Arc<dyn Watched>) {
        let interval = held(&self.book).settings().interval;
        loop {
            self.look_at_all(&*watched).await;
            let turn = tokio::time::sleep(interval);
            tokio::pin!(turn);
            loop {
                tokio::select! {
                    biased;
                    () = &mut turn => break,
                    () = self.agenda.hinted() => {}
                }
                tokio::time::sleep(TOGETHER).await;
                let Some(hinted) = self.agenda.take_hinted() else { break };
                self.look_at_some(&*watched, hinted).await;
            }
        }
    }

    async fn look_at_all(&self, watched: &dyn Watched) {
        self.agenda.begin_round();
        let (coordinator, now) = (watched.coordinator(), self.clock.wall());
        let follows = {
            let mut book = held(&self.book);
            book.look_at_coordinator(&coordinator, now);
            book.looks_at_jobs()
        };
        if follows && !coordinator.store_lost {
            match watched.jobs().await {
                Ok(jobs) => {
                    held(&self.book).jobs(&jobs.keys().cloned().collect(), self.clock.wall());
                    self.look_at(watched, jobs).await;
                }
                Err(why) => tracing::debug!("alarms of jobs stay as they are: {why}"),
            }
        }
        self.looked().await;
    }

    async fn look_at_some(&self, watched: &dyn Watched, hinted: BTreeSet<JobName>) {
        match watched.jobs().await {
            Ok(jobs) => {
                let hinted = jobs.into_iter().filter(|(job, _)| hinted.contains(job)).collect();
                self.look_at(watched, hinted).await;
            }
            Err(why) => tracing::debug!("alarms of jobs stay as they are: {why}"),
        }
        self.looked().await;
    }

    /// One after the other, so that there is never more than one reading of ours among those of others.
    async fn look_at(&self, watched: &dyn Watched, jobs: BTreeMap<JobName, bool>) {
        let (followed, plain) = (held(&self.book).followed(), self.agenda.plain());
        for (name, speaks) in jobs {
            if (!speaks || plain.contains(&name)) && !followed.contains(&name) {
                continue;
            }
            match watched.job(&name, speaks).await {
                Ok(Some(job)) => {
                    let mut book = held(&self.book);
                    book.look_at(&job, self.clock.wall());
                    if !book.has_rules(&name) {
                        self.agenda.found_plain(name);
                    }
                }
                Ok(None) => {}
                Err(why) => return tracing::debug!("alarms of jobs stay as they are: {why}"),
            }
        }
    }

    async fn looked(&self) {
        let mut counts: BTreeMap<AlarmKind, usize> =
            AlarmKind::ALL.into_iter().map(|kind| (kind, 0)).collect();
        for alarm in held(&self.book).active() {
            *counts.entry(alarm.alarm.alarm).or_default() += 1;
        }
        counts.into_iter().for_each(|(kind, count)| (self.counted)(kind, count));
        self.save().await;
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    async fn save(&self) {
        let Some(state) = &self.state else { return };
        let _turn = self.writing.lock().await;
        let changed = held(state).changed(held(&self.book).kept());
        let Some((path, text)) = changed else { return };
        if let Err(error) = state::write(&path, &text).await {
            held(state).failed();
            tracing::warn!(
                "{} cannot be written, a restart would tell alarms again: {error}",
                path.display()
            );
        }
    }

    /// A job is another than before: it is looked at soon, whatever was known of it.
    pub fn changed(&self, job: &JobName) {
        self.agenda.changed(job);
    }

    /// Something happened to a job: it is looked at soon.
    pub fn hint(&self, job: &JobName) {
        self.agenda.hint(job);
    }

    /// Something happened that may concern any job.
    pub fn hint_all(&self) {
        self.agenda.hint_all();
    }

    /// Whether an alarm of a job holds, so that a run that goes well matters.
    pub fn follows(&self, job: &JobName) -> bool {
        held(&self.book).active().any(|alarm| alarm.alarm.job_name.as_ref() == Some(job))
    }

    /// A run began some time after its scheduled time.
    pub fn late(&self, start: &LateStart) {
        if held(&self.book).late(start) {
            self.hint(&start.job);
        }
    }

    /// The configured receivers: each has a task of its own that sends.
    pub fn receivers(&self) -> Vec<Receiver> {
        held(&self.book).settings().receivers.clone()
    }

    /// Tells a configured receiver what it is to know. Never ends.
    pub async fn deliver(self: Arc<Self>, receiver: Arc<Receiver>) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let wait = self.deliver_to(&receiver).await;
            tokio::select! {
                () = tokio::time::sleep(wait.unwrap_or(SLICE * 60)) => {}
                // The sender lives as long as this.
                _ = changed.changed(), if wait.is_none() => {}
            }
        }
    }

    /// The same for receivers that jobs name themselves, one after the other.
    pub async fn deliver_own(self: Arc<Self>) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let own = held(&self.book).own_receivers();
            let mut wait: Option<Duration> = None;
            for receiver in own {
                let next = self.deliver_to(&receiver).await;
                wait = [wait, next].into_iter().flatten().min();
            }
            tokio::select! {
                () = tokio::time::sleep(wait.unwrap_or(SLICE * 60)) => {}
                _ = changed.changed(), if wait.is_none() => {}
            }
        }
    }

    /// Sends until nothing is due, or something failed; how long to wait then, if for a time.
    async fn deliver_to(&self, receiver: &Receiver) -> Option<Duration> {
        loop {
            let now = self.clock.wall();
            let due = held(&self.book).due(receiver, now);
            let letter = match due {
                Due::Now(letter) => letter,
                Due::At(at) => return Some(at.since(now).clamp(Duration::from_millis(10), SLICE)),
                Due::Nothing => return None,
            };
            let attempt = held(&self.book).post(&receiver.name).failures.saturating_add(1);
            let sent = self.sender.send(receiver, &letter, &self.id(now), now).await;
            let now = self.clock.wall();
            match &sent {
                Ok(()) => held(&self.book).delivered(&receiver.name, &letter, now),
                Err(why) => held(&self.book).failed(&receiver.name, why, now),
            }
            self.note(delivery(receiver, &letter, attempt, sent.err(), now));
            self.save().await;
        }
    }

    fn id(&self, now: Time) -> String {
        format!("{}.{}", now.0, self.letters.fetch_add(1, Ordering::Relaxed))
    }

    fn note(&self, delivery: Delivery) {
        match &delivery.error {
            None => tracing::info!(receiver = delivery.receiver, "alarm sent: {}", delivery.title),
            Some(why) => {
                let (receiver, attempt) = (&delivery.receiver, delivery.attempt);
                tracing::warn!(receiver, attempt, "alarm not sent: {}: {why}", delivery.title);
            }
        }
        (self.reports)(DeliveryReport::Delivery(&delivery));
        let mut deliveries = held(&self.deliveries);
        deliveries.push_front(delivery);
        deliveries.truncate(REMEMBERED);
    }

    /// What there is.
    pub fn view(&self) -> View {
        let (book, now) = (held(&self.book), self.clock.wall());
        let active = book.active().map(|of| AlarmView {
            alarm: of.alarm.clone(),
            silenced: book.is_silenced(&of.alarm, now),
            notified: of.notified().map(str::to_owned).collect(),
        });
        let receivers = book.receivers().into_iter().map(|receiver| ReceiverView {
            post: book.post(&receiver.name),
            form: receiver.form.as_str(),
            name: receiver.name.clone(),
        });
        View {
            active: active.collect(),
            resolved: book.lately().cloned().collect(),
            silences: book.silences(now),
            receivers: receivers.collect(),
            deliveries: held(&self.deliveries).iter().cloned().collect(),
            refused: book.refused(),
        }
    }

    /// Makes a silence; false: there are too many. It holds once it is on the disk.
    pub async fn silence(&self, silence: Silence) -> bool {
        let made = held(&self.book).silence(silence, self.clock.wall());
        self.looked().await;
        made
    }

    /// The silence of this name.
    pub fn silence_named(&self, id: &str) -> Option<Silence> {
        held(&self.book).silences(self.clock.wall()).into_iter().find(|silence| silence.id == id)
    }

    /// Removes a silence; false: it does not exist.
    pub async fn unsilence(&self, id: &str) -> bool {
        let taken = held(&self.book).unsilence(id).is_some();
        self.looked().await;
        taken
    }

    /// Records a request in the audit: a silence, a test.
    pub fn record_request(&self, job: Option<&JobName>, what: &str, by: Option<&str>) {
        (self.reports)(DeliveryReport::Requested { job, what, by });
    }

    /// Sends a test to each configured receiver, or to one of all; what became of it. `None`: there is no such receiver.
    pub async fn test(&self, name: Option<&str>) -> Option<Vec<Delivery>> {
        let receivers: Vec<Arc<Receiver>> = {
            let book = held(&self.book);
            match name {
                None => book.settings().receivers.iter().cloned().map(Arc::new).collect(),
                Some(name) => book.receivers().into_iter().filter(|known| known.name == name).collect(),
            }
        };
        if receivers.is_empty() && name.is_some() {
            return None;
        }
        let tests = receivers.iter().map(|receiver| async move {
            let now = self.clock.wall();
            let (letter, after) = self.test_letters(receiver, now);
            let late = || Err(format!("it did not answer within {TEST:?}"));
            let send = async {
                self.sender.send(receiver, &letter, &self.id(now), now).await?;
                match &after {
                    Some(after) => self.sender.send(receiver, after, &self.id(now), now).await,
                    None => Ok(()),
                }
            };
            let sent = tokio::time::timeout(TEST, send).await.unwrap_or_else(|_| late());
            delivery(receiver, &letter, 1, sent.err(), self.clock.wall())
        });
        let done = futures_util::future::join_all(tests).await;
        done.iter().for_each(|delivery| self.note(delivery.clone()));
        Some(done)
    }

    /// What is sent to try a receiver, and where that opens an incident, what closes it again.
    fn test_letters(&self, receiver: &Receiver, now: Time) -> (Letter, Option<Letter>) {
        let alarm = Alarm {
            key: "test".to_owned(),
            alarm: AlarmKind::NoWorker,
            rule: "test".to_owned(),
            severity: Severity::Info,
            job_name: None,
            text: "a test, nothing is wrong".to_owned(),
            since: now,
            raised_at: now,
            resolved_at: None,
            receivers: Vec::new(),
        };
        let letter = Letter { test: true, ..held(&self.book).letter(now) };
        let over = Alarm { resolved_at: Some(now), ..alarm.clone() };
        let closes = matches!(receiver.form, Form::PagerDuty { .. });
        let after = closes.then(|| Letter { resolved: vec![over], ..letter.clone() });
        (Letter { raised: vec![alarm], ..letter }, after)
    }
}

fn delivery(receiver: &Receiver, letter: &Letter, attempt: u32, error: Option<String>, at: Time) -> Delivery {
    let jobs: BTreeSet<JobName> = letter.alarms().filter_map(|alarm| alarm.job_name.clone()).collect();
    Delivery {
        at,
        receiver: receiver.name.clone(),
        form: receiver.form.as_str(),
        title: letter.title(),
        keys: letter.alarms().map(|alarm| alarm.key.clone()).collect(),
        jobs: jobs.into_iter().collect(),
        attempt,
        error,
        test: letter.test,
    }
}
