//! Runs for tests of handlers: no coordinator, no network.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use rosterd_client::testing::TestRun;
//! use rosterd_client::{Job, Outcome, Run};
//!
//! let greet = Job::new("greet").handler(|run: Run| async move {
//!     run.count(1, 0);
//!     Ok(format!("hello {}", run.item_parameter()))
//! });
//! let end = TestRun::new().item(2).item_parameter("Beijing").call(&greet).await;
//! assert_eq!((end.outcome, end.output.as_str(), end.processed), (Outcome::Succeeded, "hello Beijing", 1));
//! # });
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;
use crate::job::{Job, Outcome};
use crate::machine::types::{MachineEvent, Props, RunId, Start, UserResult};
use crate::proto;
use crate::run::{Run, Source};
use crate::trace::Traced;
use crate::user::attempt_of;

/// Progress that is kept for [`Ended::progress`]; a handler that reports more loses the rest.
const PROGRESS: usize = 4096;

/// The input of a handler; the defaults are those of a manual run of item 0 of 1.
#[derive(Debug, Clone)]
pub struct TestRun {
    item: u32,
    token: u64,
    attempt: u32,
    trigger: proto::Trigger,
    props: Props,
    timeout: Option<Duration>,
    cancelled: CancellationToken,
    leaving: bool,
}

/// How a handler ended, and what it reported.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ended {
    /// How the attempt counts.
    pub outcome: Outcome,
    /// For a failed one: whether another attempt would follow, if the job has more.
    pub retried: bool,
    /// The recorded error.
    pub error: String,
    /// The recorded result.
    pub output: String,
    /// The records that it has counted.
    pub processed: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// The offset that it has set.
    pub offset: Option<Bytes>,
    /// The reported progress.
    pub progress: Vec<(u32, String)>,
}

impl Default for TestRun {
    fn default() -> Self {
        Self::new()
    }
}

impl TestRun {
    /// A manual run of item 0 of 1, token 1, first attempt.
    pub fn new() -> Self {
        let trigger = proto::Trigger {
            source: proto::RunSource::Manual.into(),
            sharding_total_count: 1,
            ..proto::Trigger::default()
        };
        Self {
            item: 0,
            token: 1,
            attempt: 1,
            trigger,
            props: Props::new(),
            timeout: None,
            cancelled: CancellationToken::new(),
            leaving: false,
        }
    }

    /// The item, of [`TestRun::total`].
    pub fn item(mut self, item: u32) -> Self {
        self.item = item;
        self.trigger.sharding_total_count = self.trigger.sharding_total_count.max(item + 1);
        self
    }

    /// How many items the job has.
    pub fn total(mut self, total: u32) -> Self {
        self.trigger.sharding_total_count = total;
        self
    }

    /// The fencing token.
    pub fn token(mut self, token: u64) -> Self {
        self.token = token;
        self
    }

    /// The item's parameter.
    pub fn item_parameter(mut self, parameter: impl Into<String>) -> Self {
        self.trigger.item_parameter = parameter.into();
        self
    }

    /// The job's parameter.
    pub fn job_parameter(mut self, parameter: impl Into<String>) -> Self {
        self.trigger.job_parameter = parameter.into();
        self
    }

    /// One of the fields of the trace that the run belongs to.
    pub fn trace_context(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.trigger.trace_context.insert(name.into(), value.into());
        self
    }

    /// One of the job's properties.
    pub fn prop(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.props.insert(name.into(), value.into());
        self
    }

    /// The scheduled time.
    pub fn fire_time(mut self, time: SystemTime) -> Self {
        self.trigger.fire_time = Some(time.into());
        self
    }

    /// Why the run exists.
    pub fn source(mut self, source: Source) -> Self {
        self.trigger.source = source.sent().into();
        self
    }

    /// Which attempt, from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The offset of the last run.
    pub fn offset(mut self, offset: impl Into<Bytes>) -> Self {
        self.trigger.offset = offset.into();
        self
    }

    /// The run's timeout, which the handler sees: nothing enforces it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// dataflow: continue until fetch is empty.
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.trigger.streaming = streaming;
        self
    }

    /// The worker is leaving.
    pub fn leaving(mut self, leaving: bool) -> Self {
        self.leaving = leaving;
        self
    }

    /// Once this is cancelled the run must stop, as if an operator had cancelled it.
    pub fn cancelled_by(mut self, token: CancellationToken) -> Self {
        self.cancelled = token;
        self
    }

    /// Calls the job's handler once, with its hooks, as a worker would; on the calling task.
    pub async fn call(self, job: &Job) -> Ended {
        let Self { item, token, attempt, mut trigger, props, timeout, cancelled, leaving } = self;
        let id = RunId { job: job.spec.name.clone(), item, token };
        let instance_id = "localhost@-@test".to_owned();
        trigger.run = Some(id.to_proto());
        trigger.task_id = format!("{}@-@{item}@-@READY@-@{instance_id}", id.job);
        let offset = trigger.offset.clone();
        let (trigger, props) = (Arc::new(trigger), Arc::new(props));
        let start = Start { id, attempt, trigger, props, offset, instance_id, timeout };
        let (events, mut said) = mpsc::channel(PROGRESS);
        let gate = Gate::endless(Arc::new(AtomicBool::new(leaving)));
        let run = Run::new(start, SystemTime::UNIX_EPOCH, cancelled.clone(), events, gate);
        let traced = Traced::begin(&run);
        let result = traced.clone().around(attempt_of(Arc::new(job.clone()), run.clone())).await;
        traced.end(&result);
        let retried = matches!(result, UserResult::Failed { retry: true, .. }) && !cancelled.is_cancelled();
        let (outcome, error) = match result {
            _ if cancelled.is_cancelled() => (Outcome::Cancelled, "cancelled by an operator".to_owned()),
            UserResult::Done => (Outcome::Succeeded, String::new()),
            UserResult::Failed { error, .. } => (Outcome::Failed, error),
            _ => (Outcome::Cancelled, "cancelled by the handler".to_owned()),
        };
        let mut progress = Vec::new();
        while let Ok(event) = said.try_recv() {
            if let MachineEvent::Progress { percent, message, .. } = event {
                progress.push((percent, message));
            }
        }
        let said = run.said().clone();
        let (processed, failed, offset, output) = (said.processed, said.failed, said.offset, said.output);
        Ended { outcome, retried, error, output, processed, failed, offset, progress }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[tokio::test]
    async fn a_handler_sees_what_it_was_given_and_what_it_said_comes_out() {
        let job = Job::new("j").handler(|run: Run| async move {
            assert_eq!((run.job(), run.item(), run.total(), run.token(), run.attempt()), ("j", 2, 4, 7, 3));
            assert_eq!((run.prop("colour"), run.offset().as_ref()), (Some("red"), b"old".as_slice()));
            assert!(run.leaving() && !run.is_cancelled());
            assert_eq!(run.trace_context()["traceparent"], TRACE);
            run.progress(50, "half");
            run.set_offset("new")?;
            run.count(3, 1);
            Ok("done")
        });
        let run = TestRun::new().item(2).total(4).token(7).attempt(3).prop("colour", "red").offset("old");
        let end = run.leaving(true).trace_context("traceparent", TRACE).call(&job).await;
        assert_eq!((end.outcome, end.output.as_str(), end.error.as_str()), (Outcome::Succeeded, "done", ""));
        assert_eq!((end.processed, end.failed, end.offset.as_deref()), (3, 1, Some(b"new".as_slice())));
        assert_eq!(end.progress, [(50, "half".to_owned())]);
    }

    #[tokio::test]
    async fn failures_say_whether_they_are_retried() {
        for (fatal, retried) in [(false, true), (true, false)] {
            let job = Job::new("j").handler(move |_| async move {
                Err::<(), _>(if fatal {
                    Failure::fatal("no such table")
                } else {
                    Failure::new("no such table")
                })
            });
            let end = TestRun::new().call(&job).await;
            assert_eq!((end.outcome, end.retried), (Outcome::Failed, retried));
            assert_eq!(end.error, "no such table");
        }
        let panics = Job::new("j").handler(|run: Run| async move {
            assert_eq!(run.item(), 1);
            Ok(())
        });
        let end = TestRun::new().call(&panics).await;
        assert!(end.retried && end.error.starts_with("panicked: "), "{}", end.error);
    }

    #[tokio::test]
    async fn a_run_that_is_told_to_stop_is_cancelled_whatever_it_returns() {
        let job = Job::new("j").handler(|run: Run| async move {
            run.cancelled().await;
            Ok(())
        });
        let stop = CancellationToken::new();
        stop.cancel();
        let end = TestRun::new().cancelled_by(stop).call(&job).await;
        assert_eq!((end.outcome, end.retried), (Outcome::Cancelled, false));
    }
}
