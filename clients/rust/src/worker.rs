//! The worker: its builder, and the two ways to run it.

use std::collections::BTreeSet;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::access::Learn;
use crate::clock::{BootClock, Clock};
use crate::connect::{Connector, TonicConnector};
use crate::error::{Error, Failure, Result};
use crate::hooks::{Hooked, Hooks};
use crate::job::{Boxed, Job, Output};
use crate::machine::Machine;
use crate::machine::types::{Exit, MachineEvent, Settings};
use crate::options::{OnRefused, Options};
use crate::run::Run;
use crate::user::UserCode;
use crate::{driver, health, signals};

/// A process that works for jobs: built, then run until it leaves.
pub struct Worker {
    options: Options,
    jobs: Vec<Job>,
    shutdown: Option<Boxed<()>>,
    hooks: Hooked,
    health: Option<TcpListener>,
}

impl Worker {
    /// A worker of the coordinator at `server`: `host:port` or a URL. Add others by [`Worker::server`]. The worker also
    /// uses those that the coordinator names; with a credential, or over TLS, only on the configured hosts, and, with
    /// authorities of your own ([`Worker::ca`]), those that these certify.
    pub fn connect(server: impl Into<String>) -> Self {
        Self::new(Options { servers: vec![server.into()], ..Options::default() })
    }

    /// A worker configured by the environment: `ROSTERD_SERVER`, `ROSTERD_CREDENTIAL`.
    pub fn from_env() -> Self {
        Self::new(Options::from_env())
    }

    /// A worker with these settings.
    pub fn new(options: Options) -> Self {
        Self { options, jobs: Vec::new(), shutdown: None, hooks: Hooked::default(), health: None }
    }

    /// Another coordinator to try.
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.options.servers.push(server.into());
        self
    }

    /// The secret that authenticates this worker; default: `ROSTERD_CREDENTIAL`.
    pub fn credential(mut self, credential: impl Into<String>) -> Self {
        self.options.credential = Some(credential.into());
        self
    }

    /// PEM file with the authorities for coordinators at `https://` addresses; else `ROSTERD_CA`, else the system's.
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.ca = Some(path.into());
        self
    }

    /// PEM files with this worker's own certificate and its key; else `ROSTERD_CERT` and `ROSTERD_KEY`.
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        (self.options.certificate, self.options.key) = (Some(certificate.into()), Some(key.into()));
        self
    }

    /// The expected namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options.namespace = namespace.into();
        self
    }

    /// How operators know this machine.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.options.address = address.into();
        self
    }

    /// A free label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.labels.insert(key.into(), value.into());
        self
    }

    /// How many runs at a time, over all jobs.
    pub fn slots(mut self, slots: u32) -> Self {
        self.options.slots = slots;
        self
    }

    /// How long a leaving worker lets its runs go on.
    pub fn drain_timeout(mut self, deadline: Duration) -> Self {
        self.options.drain_timeout = deadline;
        self
    }

    /// How long the goodbye may take once nothing is in flight.
    pub fn leave_timeout(mut self, timeout: Duration) -> Self {
        self.options.leave_timeout = timeout;
        self
    }

    /// How long a cancelled handler may take before its future is dropped.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.options.stop_grace = grace;
        self
    }

    /// What to do when every job is refused.
    pub fn on_refused(mut self, what: OnRefused) -> Self {
        self.options.on_refused = what;
        self
    }

    /// The seed of everything random, which is only the jitter of reconnects.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = Some(seed);
        self
    }

    /// Hooks, for metrics.
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.hooks = Hooked::new(hooks);
        self
    }

    /// Serves `/healthz` (it has not ended) and `/readyz` (it is attached, its lease is valid, and it is not leaving)
    /// over HTTP, for Kubernetes; on the thread of the conversation, so only [`Worker::run`] does.
    pub fn health(mut self, listener: TcpListener) -> Self {
        self.health = Some(listener);
        self
    }

    /// Leave when this ends, instead of at SIGTERM or SIGINT.
    pub fn shutdown(mut self, when: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Some(Box::pin(when));
        self
    }

    /// Work for a job that exists. [`Worker::add`] takes a [`Job`] with more options.
    pub fn job<F, Fut, T>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
        T: Output,
    {
        self.add(Job::new(name).handler(handler))
    }

    /// Work for a job.
    #[expect(clippy::should_implement_trait, reason = "it adds a job, not a number")]
    pub fn add(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Runs until SIGTERM or SIGINT (or [`Worker::shutdown`]), then drains and leaves. A second signal exits
    /// immediately; one within a second of the first counts as the first. Handlers run on the calling runtime, the
    /// conversation on a thread of its own: handlers that block their runtime do not endanger the lease. Dropping the
    /// future is a crash.
    pub async fn run(self) -> Result<()> {
        self.check()?;
        let access = self.options.access();
        access.check(&self.options.servers)?;
        let learn = access.learns(&self.options.servers);
        let connector = TonicConnector::new(access)?;
        let handlers = Handle::current();
        let killed = CancellationToken::new();
        let _kill_on_drop = killed.clone().drop_guard();
        let (done, result) = oneshot::channel();
        let thread = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(done.send(Err(Error::Thread(error.to_string())))),
            };
            let exit = runtime.block_on(async move {
                let mut this = self;
                let orders = match this.shutdown.take() {
                    Some(shutdown) => once_then_never(shutdown, || MachineEvent::Leave),
                    None => signals::orders(Arc::new(BootClock)),
                };
                let kill = once_then_never(killed.cancelled_owned().boxed(), || MachineEvent::Kill);
                this.go(connector, learn, BootClock, handlers, stream::select(kill, orders).boxed()).await
            });
            drop(done.send(exit));
        };
        let started = std::thread::Builder::new().name("rosterd-client".into()).spawn(thread);
        started.map_err(|error| Error::Thread(error.to_string()))?;
        result.await.unwrap_or_else(|_| Err(Error::Thread("it ended unexpectedly".into())))
    }

    /// Runs in place, on the calling runtime, over any network and any clock, without threads or signals. Ends when
    /// [`Worker::shutdown`] does and the leave is complete. Dropping the future is a crash: handlers are dropped
    /// without notice to the coordinator. Under a paused clock and with a seed it is deterministic, as long as its
    /// handlers are. The connector decides to which addresses that coordinators name it connects.
    ///
    /// Like all of [`embedding`](crate::embedding) it is not covered by semantic versioning.
    #[cfg(feature = "embedding")]
    pub async fn drive<C: Connector, K: Clock>(mut self, connector: C, clock: K) -> Result<()> {
        self.check()?;
        self.health = None;
        let shutdown = self.shutdown.take().unwrap_or_else(|| Box::pin(std::future::pending()));
        let orders = once_then_never(shutdown, || MachineEvent::Leave);
        self.go(connector, Learn::All, clock, Handle::current(), orders).await
    }

    async fn go<C: Connector, K: Clock>(
        self,
        connector: C,
        learn: Learn,
        clock: K,
        handlers: Handle,
        orders: BoxStream<'static, MachineEvent>,
    ) -> Result<()> {
        let Options {
            servers,
            namespace,
            address,
            labels,
            slots,
            drain_timeout,
            leave_timeout,
            stop_grace,
            ..
        } = self.options;
        let machine = Machine::new(Settings {
            servers,
            learn,
            namespace,
            address,
            labels,
            slots,
            jobs: self.jobs.iter().map(|job| job.spec.clone()).collect(),
            drain_timeout,
            leave_timeout,
            stop_grace,
            on_refused: self.options.on_refused,
            seed: self.options.seed.unwrap_or_else(any_seed),
        });
        let clock = Arc::new(clock);
        let gate = clock.clone();
        let (user, says) = UserCode::new(self.jobs, handlers, Arc::new(move || gate.now()));
        let user = user.hook(self.hooks);
        let _health = self.health.map(|listener| OnDrop(tokio::spawn(health::serve(listener, user.gate()))));
        match driver::drive(machine, connector, clock, user, says, orders).await {
            Exit::Left => Ok(()),
            Exit::LeaveTimedOut { in_flight } => Err(Error::LeaveTimedOut { in_flight }),
            Exit::Refused { job, code, message } => Err(Error::Refused { job, code, message }),
            Exit::Rejected(error) => Err(Error::Rejected(error)),
            Exit::Killed => Err(Error::Killed),
        }
    }

    fn check(&self) -> Result<()> {
        self.options.check()?;
        let say = |what: String| Err(Error::Options(what));
        if self.jobs.is_empty() {
            return say("no job: call Worker::job(name, handler)".into());
        }
        let mut names = BTreeSet::new();
        for job in &self.jobs {
            if job.handler.is_none() {
                return say(format!("job {} has no handler", job.spec.name));
            }
            if let Some(defect) = &job.defect {
                return say(defect.clone());
            }
            if !names.insert(&job.spec.name) {
                return say(format!("job {} is there twice", job.spec.name));
            }
        }
        Ok(())
    }
}

/// A task that ends with its owner.
struct OnDrop(JoinHandle<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn once_then_never(when: Boxed<()>, event: fn() -> MachineEvent) -> BoxStream<'static, MachineEvent> {
    stream::once(when).map(move |()| event()).chain(stream::pending()).boxed()
}

/// A different number in every process.
fn any_seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
