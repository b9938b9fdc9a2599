//! A job of a worker: a name, a handler, and callbacks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use crate::config::JobFile;
use crate::error::Failure;
use crate::machine::types::JobSpec;
use crate::run::Run;
use crate::trace::Traced;

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Hook<A, T> = Arc<dyn Fn(Run, A) -> Boxed<T> + Send + Sync>;
pub(crate) type Handler = Arc<dyn Fn(Run) -> Boxed<Result<Option<String>, Failure>> + Send + Sync>;
pub(crate) type OnFire = Arc<dyn Fn(Fire) -> Boxed<Result<(), Failure>> + Send + Sync>;

/// What a handler may return as its result: nothing, or a text of at most 64 KiB that is kept with the outcome.
pub trait Output: Send + 'static {
    /// The text, if there is one.
    fn into_text(self) -> Option<String>;
}

impl Output for () {
    fn into_text(self) -> Option<String> {
        None
    }
}

impl Output for String {
    fn into_text(self) -> Option<String> {
        Some(self)
    }
}

impl Output for Option<String> {
    fn into_text(self) -> Option<String> {
        self
    }
}

impl Output for &'static str {
    fn into_text(self) -> Option<String> {
        Some(self.to_owned())
    }
}

/// How an attempt ended, for the hook after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The handler returned Ok.
    Succeeded,
    /// The handler returned an error or panicked.
    Failed,
    /// The handler noticed that the run was cancelled.
    Cancelled,
}

/// All items of one fire of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fire {
    /// The job's name.
    pub job: String,
    /// The scheduled time.
    pub fire_time: SystemTime,
}

impl Fire {
    /// A fire for calling a hook in tests.
    pub fn new(job: impl Into<String>, fire_time: SystemTime) -> Self {
        Self { job: job.into(), fire_time }
    }
}

/// A job that this worker registers.
#[derive(Clone)]
pub struct Job {
    pub(crate) spec: JobSpec,
    /// Errors of its configuration, reported when the worker starts.
    pub(crate) defect: Option<String>,
    pub(crate) handler: Option<Handler>,
    pub(crate) cooperative: bool,
    pub(crate) before: Option<Hook<(), Result<(), Failure>>>,
    pub(crate) after: Option<Hook<Outcome, ()>>,
    pub(crate) on_error: Option<Hook<String, ()>>,
    pub(crate) all_started: Option<OnFire>,
    pub(crate) all_completed: Option<OnFire>,
}

impl Job {
    /// A job by its name, with the name as its handler type, for a job that exists.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            spec: JobSpec { handler_type: name.clone(), name, ..JobSpec::default() },
            defect: None,
            handler: None,
            cooperative: false,
            before: None,
            after: None,
            on_error: None,
            all_started: None,
            all_completed: None,
        }
    }

    /// Names what runs the job, the same on all its workers. A worker with another one is refused.
    pub fn handler_type(mut self, handler_type: impl Into<String>) -> Self {
        self.spec.handler_type = handler_type.into();
        self
    }

    /// Creates the job if it is absent: a [`JobConfig`](crate::JobConfig), or a job file as text (YAML or JSON,
    /// Elastic-Job's field names).
    pub fn config(mut self, config: impl Into<JobFile>) -> Self {
        let text = match config.into() {
            JobFile::Text(text) => Ok(text),
            JobFile::Typed(config) => config.text(&self.spec.name),
        };
        match text {
            Ok(text) => (self.spec.config, self.defect) = (text, None),
            Err(defect) => self.defect = Some(defect),
        }
        self
    }

    /// The config replaces that of a job that exists.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.spec.overwrite = overwrite;
        self
    }

    /// What runs: an async function of a [`Run`]. A panic is a failure of the run, not of the worker.
    pub fn handler<F, Fut, T>(mut self, handler: F) -> Self
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
        T: Output,
    {
        self.handler = Some(Arc::new(move |run| {
            let running = handler(run);
            Box::pin(async move { running.await.map(Output::into_text) })
        }));
        self
    }

    /// A handler that blocks; it gets a thread of its own and must check [`Run::is_cancelled`], since a thread cannot
    /// be dropped: until it returns, its item takes no other run.
    pub fn blocking<F, T>(self, handler: F) -> Self
    where
        F: Fn(Run) -> Result<T, Failure> + Send + Sync + 'static,
        T: Output,
    {
        let handler = Arc::new(handler);
        let job = self.handler(move |run| {
            let handler = handler.clone();
            async move {
                let span = tracing::Span::current();
                // Both are the thread's own.
                let traced = Traced::current();
                let work = move || traced.enter(|| span.in_scope(|| handler(run).map(Output::into_text)));
                match tokio::task::spawn_blocking(work).await {
                    Ok(result) => result,
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(error) => Err(error.into()),
                    },
                }
            }
        });
        job.cooperative(true)
    }

    /// Fetch, process, and again until fetch is empty if the job streams. Between the rounds it checks for
    /// cancellation, and ends cleanly if the worker is leaving. The records of a round count as processed, unless
    /// `process` counts itself.
    pub fn dataflow<T, F, FFut, P, PFut>(self, fetch: F, process: P) -> Self
    where
        T: Send + 'static,
        F: Fn(Run) -> FFut + Send + Sync + 'static,
        FFut: Future<Output = Result<Vec<T>, Failure>> + Send + 'static,
        P: Fn(Run, Vec<T>) -> PFut + Send + Sync + 'static,
        PFut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let stages = Arc::new((fetch, process));
        self.handler(move |run| {
            let stages = stages.clone();
            async move {
                loop {
                    if run.is_cancelled() {
                        return Err(Failure::cancelled());
                    }
                    let records = (stages.0)(run.clone()).await?;
                    let count = records.len() as u64;
                    if records.is_empty() {
                        return Ok(());
                    }
                    let before = run.counts();
                    let processed = (stages.1)(run.clone(), records).await;
                    if run.counts() == before {
                        run.count(count, if processed.is_err() { count } else { 0 });
                    }
                    processed?;
                    if !run.streaming() || run.leaving() {
                        return Ok(());
                    }
                }
            }
        })
    }

    /// Cancellation only asks: the handler's future is never dropped, and until it ends its item takes no other
    /// run. For handlers that must clean up in their own time.
    pub fn cooperative(mut self, cooperative: bool) -> Self {
        self.cooperative = cooperative;
        self
    }

    /// Called before each attempt; an error fails it.
    pub fn before<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.before = Some(Arc::new(move |run, ()| Box::pin(hook(run))));
        self
    }

    /// Called after each attempt that was not dropped.
    pub fn after<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Run, Outcome) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.after = Some(Arc::new(move |run, outcome| Box::pin(hook(run, outcome))));
        self
    }

    /// Called with the error's text after each attempt that failed, before `after`.
    pub fn on_error<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Run, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_error = Some(Arc::new(move |run, error| Box::pin(hook(run, error))));
        self
    }

    /// Called once per fire, on one worker, before any item of it runs; the fire waits for the answer.
    pub fn on_all_started<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Fire) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.all_started = Some(Arc::new(move |fire| Box::pin(hook(fire))));
        self
    }

    /// Called once per fire, on one worker, after its last item has completed.
    pub fn on_all_completed<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Fire) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.all_completed = Some(Arc::new(move |fire| Box::pin(hook(fire))));
        self
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("spec", &self.spec).finish_non_exhaustive()
    }
}
