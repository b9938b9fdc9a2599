//! Where user code runs: one task per attempt on the caller's runtime, and its end as an event.
//!
//! Decides nothing: the machine decides what to start, cancel and drop. Dropping this is a crash of the worker: every
//! handler is dropped with it and nothing is reported.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::error::Failure;
use crate::gate::Gate;
use crate::hooks::{Hooked, How, News, RunEnd};
use crate::job::{Fire, Job, Outcome};
use crate::machine::limits;
use crate::machine::types::{Ended, MachineEvent, RunId, Start, UserResult};
use crate::proto;
use crate::run::Run;
use crate::trace::Traced;

/// How many messages of user code may wait for the driver; more progress is dropped, the latest is sent again.
const CHATTER: usize = 1024;

pub(crate) struct UserCode {
    jobs: BTreeMap<String, Arc<Job>>,
    runtime: Handle,
    /// Ends of runs and callbacks: as many as there are slots and callbacks, so it needs no bound of its own.
    ends: mpsc::UnboundedSender<MachineEvent>,
    chatter: mpsc::Sender<MachineEvent>,
    live: BTreeMap<RunId, Live>,
    callbacks: BTreeMap<String, JoinHandle<()>>,
    gate: Gate,
    hooks: Hooked,
}

/// One attempt in user code.
struct Live {
    cancelled: CancellationToken,
    cooperative: bool,
    task: JoinHandle<()>,
}

/// A message from user code.
pub(crate) struct Says {
    pub(crate) ends: mpsc::UnboundedReceiver<MachineEvent>,
    pub(crate) chatter: mpsc::Receiver<MachineEvent>,
}

impl UserCode {
    pub(crate) fn new(
        jobs: Vec<Job>,
        runtime: Handle,
        now: Arc<dyn Fn() -> Duration + Send + Sync>,
    ) -> (Self, Says) {
        let (ends, ends_out) = mpsc::unbounded_channel();
        let (chatter, chatter_out) = mpsc::channel(CHATTER);
        let jobs = jobs.into_iter().map(|job| (job.spec.name.clone(), Arc::new(job))).collect();
        let (lease_end, lease_over) = (Arc::default(), Arc::default());
        let gate = Gate { now, lease_end, lease_over, leaving: Arc::default(), attached: Arc::default() };
        let (live, callbacks) = (BTreeMap::new(), BTreeMap::new());
        let code = Self { jobs, runtime, ends, chatter, live, callbacks, gate, hooks: Hooked::default() };
        (code, Says { ends: ends_out, chatter: chatter_out })
    }

    pub(crate) fn gate(&self) -> Gate {
        self.gate.clone()
    }

    pub(crate) fn hook(mut self, hooks: Hooked) -> Self {
        self.hooks = hooks;
        self
    }

    /// An event of the stream.
    pub(crate) fn news(&self, news: &News) {
        match news {
            News::Attached { .. } => self.gate.attached.store(true, Ordering::Release),
            News::Detached { .. } => self.gate.attached.store(false, Ordering::Release),
            News::Registered { .. } | News::Renewed(_) => {}
        }
        self.hooks.news(news);
    }

    /// Sets until when user code may start, and when it must have stopped; and whether the worker is leaving.
    pub(crate) fn lease(&self, end: Duration, over: Duration, leaving: bool) {
        self.gate.leaving.store(leaving, Ordering::Release);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.gate.lease_end.store(nanos(end), Ordering::Release);
        self.gate.lease_over.store(nanos(over), Ordering::Release);
    }

    pub(crate) fn start(&mut self, start: Start, wall: SystemTime) {
        let Some(job) = self.jobs.get(&start.id.job).cloned() else { return };
        let (id, attempt) = (start.id.clone(), start.attempt);
        let cancelled = CancellationToken::new();
        let run = Run::new(start, wall, cancelled.clone(), self.chatter.clone(), self.gate.clone());
        let cooperative = job.cooperative;
        let (ends, hooks) = (self.ends.clone(), self.hooks.clone());
        let traced = Traced::begin(&run);
        let mut end = End {
            id: id.clone(),
            attempt,
            run: run.clone(),
            traced: traced.clone(),
            ends: Some(ends),
            hooks,
            began: None,
        };
        let (stop, gate) = (cancelled.clone(), self.gate.clone());
        // Every line that user code writes has the run's ids.
        let RunId { job: name, item, token } = &id;
        let (trace_id, span_id) = traced.ids().unzip();
        // Within the trace, so that a layer of `tracing-opentelemetry` makes it a part of it.
        let span = traced.enter(|| {
            tracing::info_span!(
                "run",
                job = name,
                item,
                token,
                attempt,
                instance = run.instance_id(),
                trace_id,
                span_id
            )
        });
        let task = async move {
            if stop.is_cancelled() || !gate.open() {
                return end.not_begun();
            }
            end.begin(&gate);
            let result = traced.around(attempt_of(job, run)).await;
            end.say(result);
        };
        let task = self.runtime.spawn(task.instrument(span));
        self.live.insert(id, Live { cancelled, cooperative, task });
    }

    pub(crate) fn cancel(&self, id: &RunId) {
        if let Some(live) = self.live.get(id) {
            live.cancelled.cancel();
        }
    }

    /// Drops the handler's future; its end reports that it was dropped.
    pub(crate) fn abort(&self, id: &RunId) {
        if let Some(live) = self.live.get(id).filter(|live| !live.cooperative) {
            live.task.abort();
        }
    }

    pub(crate) fn start_callback(&mut self, callback: &proto::Callback) {
        let job = self.jobs.get(&callback.job);
        let hook = job.and_then(|job| match callback.kind() {
            proto::CallbackKind::AllStarted => job.all_started.clone(),
            proto::CallbackKind::AllCompleted => job.all_completed.clone(),
            proto::CallbackKind::Unspecified => None,
        });
        let time = callback.fire_time.and_then(|time| time.try_into().ok());
        let fire = Fire { job: callback.job.clone(), fire_time: time.unwrap_or(SystemTime::UNIX_EPOCH) };
        let (callback_id, ends) = (callback.callback_id.clone(), self.ends.clone());
        let id = callback_id.clone();
        let task = self.runtime.spawn(async move {
            let result = match hook {
                Some(hook) => caught(async move { hook(fire).await }).await,
                None => Ok(()),
            };
            let error = result.err().map(|error| error.to_string()).unwrap_or_default();
            let _ = ends.send(MachineEvent::CallbackEnded { callback_id, error });
        });
        self.callbacks.insert(id, task);
    }

    pub(crate) fn stop_callback(&mut self, callback_id: &str) {
        if let Some(task) = self.callbacks.remove(callback_id) {
            task.abort();
        }
    }

    /// The event came from user code, which has ended.
    pub(crate) fn over(&mut self, event: &MachineEvent) {
        match event {
            MachineEvent::Ended(ended) => drop(self.live.remove(&ended.id)),
            MachineEvent::CallbackEnded { callback_id, .. } => drop(self.callbacks.remove(callback_id)),
            _ => {}
        }
    }
}

impl Drop for UserCode {
    fn drop(&mut self) {
        for live in self.live.values() {
            live.cancelled.cancel();
            live.task.abort();
        }
        self.callbacks.values().for_each(JoinHandle::abort);
    }
}

/// Reports how an attempt ended, also when its task is dropped.
struct End {
    id: RunId,
    attempt: u32,
    run: Run,
    traced: Traced,
    /// Dropped once the end is reported.
    ends: Option<mpsc::UnboundedSender<MachineEvent>>,
    hooks: Hooked,
    /// When user code was called, if hooks want to know.
    began: Option<Duration>,
}

impl End {
    fn begin(&mut self, gate: &Gate) {
        if self.hooks.listen() {
            self.began = Some(gate.now());
            self.hooks.call(|hooks| hooks.run_started(&self.run));
        }
    }

    fn not_begun(&mut self) {
        self.hooks.call(|hooks| hooks.run_not_started(&self.run, "it must stop, or its lease has ended"));
        self.say(UserResult::NotBegun);
    }

    fn say(&mut self, result: UserResult) {
        let Some(ends) = self.ends.take() else { return };
        self.traced.end(&result);
        if let Some(began) = self.began {
            let end = run_end(&result, self.run.ran_since(began));
            self.hooks.call(|hooks| hooks.run_ended(&self.run, &end));
        }
        // It may have stopped for that before it was done, even if an acknowledgement has arrived since.
        let result = if self.run.was_overdue() { UserResult::Overdue } else { result };
        let said = self.run.said().clone();
        let ended = Ended {
            id: self.id.clone(),
            attempt: self.attempt,
            result,
            processed: said.processed,
            failed: said.failed,
            offset: said.offset,
            output: said.output,
        };
        let _ = ends.send(MachineEvent::Ended(ended));
    }
}

fn run_end(result: &UserResult, duration: Duration) -> RunEnd {
    let (how, error) = match result {
        UserResult::Done => (How::Returned, ""),
        UserResult::Failed { error, .. } => (How::Failed, error.as_str()),
        UserResult::Cancelled | UserResult::Overdue => (How::Cancelled, ""),
        UserResult::Dropped | UserResult::NotBegun => (How::Dropped, ""),
    };
    RunEnd { how, duration, error: error.to_owned() }
}

impl Drop for End {
    fn drop(&mut self) {
        self.say(UserResult::Dropped);
    }
}

/// Hooks and handler of one attempt.
pub(crate) async fn attempt_of(job: Arc<Job>, run: Run) -> UserResult {
    let result = caught(async {
        if let Some(before) = &job.before {
            before(run.clone(), ()).await?;
        }
        match &job.handler {
            Some(handler) => handler(run.clone()).await,
            None => Err(Failure::fatal("the job has no handler")),
        }
    })
    .await;
    let (outcome, result) = match result {
        Ok(text) => {
            if let Some(text) = text {
                run.set_output(text);
            }
            (Outcome::Succeeded, UserResult::Done)
        }
        Err(error) if error.is_cancelled() => (Outcome::Cancelled, UserResult::Cancelled),
        Err(error) => {
            let text = limits::cut(error.to_string(), limits::ERROR_BYTES);
            (Outcome::Failed, UserResult::Failed { error: text, retry: error.may_retry() })
        }
    };
    let hooks = caught(async {
        if let (Some(on_error), UserResult::Failed { error, .. }) = (&job.on_error, &result) {
            on_error(run.clone(), error.clone()).await;
        }
        if let Some(after) = &job.after {
            after(run.clone(), outcome).await;
        }
        Ok(())
    });
    match hooks.await {
        Ok(()) => result,
        Err(error) => UserResult::Failed { error: error.to_string(), retry: error.may_retry() },
    }
}

/// Runs user code; a panic is a failure with the panic's message.
async fn caught<T>(code: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    AssertUnwindSafe(code)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(Failure::new(format!("panicked: {}", message(panic.as_ref())))))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;
    use std::sync::atomic::AtomicU64;

    fn start() -> Start {
        Start {
            id: RunId { job: "j".into(), item: 0, token: 1 },
            attempt: 1,
            trigger: Arc::default(),
            props: Arc::default(),
            offset: bytes::Bytes::new(),
            instance_id: String::new(),
            timeout: None,
        }
    }

    /// The process was frozen past its lease: a handler that resumes before the worker does detects it.
    #[tokio::test]
    async fn a_handler_that_wakes_after_its_lease_finds_that_it_is_cancelled() {
        let job = Job::new("j")
            .handler(|run: Run| async move { Ok(format!("{} {:?}", run.is_cancelled(), run.lease_left())) });
        for (end, said) in [(7, "false 4ms"), (5, "true 2ms")] {
            let lease = Arc::new(AtomicU64::new(0));
            let seen = lease.clone();
            // The first check, at the start, is before the lease's end.
            let now =
                Arc::new(move || Duration::from_millis(4 + seen.fetch_add(1, Ordering::Relaxed).min(1)));
            let (mut code, mut says) = UserCode::new(vec![job.clone()], Handle::current(), now);
            code.lease(Duration::from_millis(end), Duration::from_millis(end + 2), false);
            code.start(start(), SystemTime::UNIX_EPOCH);
            let Some(MachineEvent::Ended(ended)) = says.ends.recv().await else { panic!("no end") };
            assert_eq!(ended.output, said);
        }
    }

    /// It may have stopped for that, so its run has not succeeded, although the lease is valid again by the time it
    /// returns.
    #[tokio::test]
    async fn a_handler_that_found_its_lease_over_has_not_done_its_work_whatever_it_returns() {
        for (end, result) in [(7, UserResult::Done), (5, UserResult::Overdue)] {
            let renewed = Arc::new(Notify::new());
            let (looked, waits) = (Arc::new(Notify::new()), renewed.clone());
            let told = looked.clone();
            let job = Job::new("j").handler(move |run: Run| {
                let (told, waits) = (told.clone(), waits.clone());
                async move {
                    let cancelled = run.is_cancelled();
                    told.notify_one();
                    waits.notified().await;
                    assert_eq!(run.is_cancelled(), cancelled, "what was said is not taken back");
                    Ok(())
                }
            });
            let time = Arc::new(AtomicU64::new(0));
            let clock = time.clone();
            // The check at the start is before the lease's end.
            let now = Arc::new(move || Duration::from_millis(clock.fetch_add(6, Ordering::Relaxed)));
            let (mut code, mut says) = UserCode::new(vec![job], Handle::current(), now);
            code.lease(Duration::from_millis(end), Duration::from_millis(end), false);
            code.start(start(), SystemTime::UNIX_EPOCH);
            looked.notified().await;
            code.lease(Duration::from_secs(9), Duration::from_secs(9), false);
            renewed.notify_one();
            let Some(MachineEvent::Ended(ended)) = says.ends.recv().await else { panic!("no end") };
            assert_eq!(ended.result, result);
        }
    }

    /// So does one that awaits the cancellation, although its work is done and the worker has not cancelled it yet.
    #[tokio::test]
    async fn a_handler_that_waits_to_be_told_looks_at_its_lease_when_it_wakes() {
        for (end, said) in [(7, "done"), (5, "told")] {
            let (time, work, waits) =
                (Arc::new(AtomicU64::new(4)), Arc::new(Notify::new()), Arc::new(Notify::new()));
            let (over, begun) = (work.clone(), waits.clone());
            let job = Job::new("j").handler(move |run: Run| {
                let (over, begun) = (over.clone(), begun.clone());
                async move {
                    begun.notify_one();
                    let how = tokio::select! {
                        biased;
                        () = run.cancelled() => "told",
                        () = over.notified() => "done",
                    };
                    Ok(how.to_owned())
                }
            });
            let clock = time.clone();
            let now = Arc::new(move || Duration::from_millis(clock.load(Ordering::Relaxed)));
            let (mut code, mut says) = UserCode::new(vec![job], Handle::current(), now);
            code.lease(Duration::from_millis(end), Duration::from_millis(end), false);
            code.start(start(), SystemTime::UNIX_EPOCH);
            waits.notified().await;
            time.store(6, Ordering::Relaxed);
            work.notify_one();
            let Some(MachineEvent::Ended(ended)) = says.ends.recv().await else { panic!("no end") };
            assert_eq!(ended.output, said);
        }
    }

    /// The handlers' runtime was busy while the lease expired: runs that it finds when it wakes do not start.
    #[tokio::test]
    async fn user_code_does_not_start_after_the_lease_however_late_its_task_wakes() {
        for (lease, result) in [(10, UserResult::Done), (5, UserResult::NotBegun)] {
            let begun = Arc::new(AtomicU64::new(0));
            let seen = begun.clone();
            let job = Job::new("j").handler(move |_| {
                seen.fetch_add(1, Ordering::Relaxed);
                async { Ok(()) }
            });
            let now = Arc::new(|| Duration::from_millis(5));
            let (mut code, mut says) = UserCode::new(vec![job], Handle::current(), now);
            code.lease(Duration::from_secs(10), Duration::from_secs(10), false);
            code.start(start(), SystemTime::UNIX_EPOCH);
            // The task has not been polled yet.
            code.lease(Duration::from_millis(lease), Duration::from_millis(lease), false);
            let Some(MachineEvent::Ended(ended)) = says.ends.recv().await else { panic!("no end") };
            assert_eq!(ended.result, result);
            assert_eq!(begun.load(Ordering::Relaxed), u64::from(result == UserResult::Done));
        }
    }
}
