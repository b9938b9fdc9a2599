//! Backups and restores: of a namespace that is served, for the edge; and of a data directory that is not, for the command
//! line. Both do the same to the store, and leave the same lines in the audit.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use rosterd_domain::id::{JobName, Namespace, Token};
use rosterd_domain::item::Outcome;
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Time;

use super::supervisor::Supervisor;
use super::transfer::{Opened, TransferError};
use super::{history, store};
use crate::config::Config;
use crate::transfer::backup::{self, Found};
pub use crate::transfer::backup::{MOST_LINE, Summary, check, each_job, job as read_job};
use crate::transfer::restore::{self, Options, RestoreError, Restored, Way};
use rosterd_api::backend::{Backend as _, BackendAnswer};
use rosterd_api::backup::{self as edge, Backups, Restoring};
pub use rosterd_api::backup::{Part, Restored as JobRestored, Way as JobWay};
use rosterd_coordinator::handle::{Action, ClusterEvent, Health};
use rosterd_history::{EventKind, Recorder};
use rosterd_registry::embedded::EmbeddedRegistry;
use rosterd_registry::{ReadError, Registry};
use rosterd_runtime::clock::{Clock as _, SharedClock, System};
use rosterd_runtime::version::version;
use rosterd_session::code::{Code, Refusal};

/// Most of what is sent at once, so that many small jobs do not go one by one.
const TOGETHER: usize = 64 << 10;

/// A backup of what a registry holds, part by part. `by`: who writes it, for people.
fn parts(
    registry: Arc<dyn Registry>,
    namespace: &Namespace,
    now: Time,
    by: &str,
) -> BoxStream<'static, Result<Part, ReadError>> {
    let mut writer = backup::Writer::default();
    let data = writer.begin(namespace, now, by).into_bytes();
    let reading = Reading { registry, writer, names: None, data };
    futures_util::stream::unfold(Some(reading), |reading| async move { Some(reading?.next().await) }).boxed()
}

/// A backup under way.
struct Reading {
    registry: Arc<dyn Registry>,
    writer: backup::Writer,
    /// The jobs that are left; none: they were not asked for yet.
    names: Option<std::vec::IntoIter<JobName>>,
    /// What is to be sent next.
    data: Vec<u8>,
}

impl Reading {
    /// The next part, and what follows it.
    async fn next(mut self) -> (Result<Part, ReadError>, Option<Self>) {
        let mut names = match self.names.take() {
            Some(names) => names,
            None => match self.registry.jobs().await {
                Ok(names) => names.into_iter().collect::<Vec<_>>().into_iter(),
                Err(error) => return (Err(error), None),
            },
        };
        while self.data.len() < TOGETHER {
            let Some(job) = names.next() else { return (self.end().await, None) };
            match backup::find(&*self.registry, &job).await {
                Ok(Found::Job(job)) => self.data.extend(self.writer.job(&job).into_bytes()),
                Ok(Found::Gone) => {}
                Ok(Found::Left { why, damaged }) => {
                    self.names = Some(names);
                    return (Ok(Part::Left { job, why, damaged }), Some(self));
                }
                Err(error) => return (Err(error), None),
            }
        }
        self.names = Some(names);
        let data = std::mem::take(&mut self.data);
        (Ok(Part::Data(data)), Some(self))
    }

    /// After the jobs: whatever token was given until then is in a record, or not above this.
    async fn end(mut self) -> Result<Part, ReadError> {
        let given = self.registry.numbering().await?.ceiling();
        self.data.extend(self.writer.end(given).into_bytes());
        Ok(Part::Data(self.data))
    }
}

/// Runs in words, for people.
fn words(job: &JobName, done: &Restored) -> Vec<String> {
    let fenced = done.fenced.iter();
    fenced.map(|(item, token, run)| format!("{job}/{item}, token {token} on {}", run.instance)).collect()
}

fn way(way: Way) -> edge::Way {
    match way {
        Way::Created => edge::Way::Created,
        Way::Overwritten => edge::Way::Overwritten,
        Way::Already => edge::Way::Already,
    }
}

/// What the audit says of a job that was restored; nothing of one that stays.
fn audit(done: &Restored, mark: &str) -> Option<String> {
    match done.way {
        Way::Created => Some(format!("restored from the backup {mark}")),
        Way::Overwritten => Some(format!("restored from the backup {mark} over what was there")),
        Way::Already => None,
    }
}

/// Runs that a restore fenced have ended, as those of a job that is removed.
fn end_fenced(recorder: &Recorder, job: &JobName, at: Time, done: &Restored) {
    for (item, token, run) in done.fenced.iter().cloned() {
        let entry = Entry::Ended { item, token, run, outcome: Outcome::Cancelled, at, requeued: false };
        recorder.record(job, at, &entry, None);
    }
}

/// Saves and restores what a coordinator serves.
pub struct Served {
    supervisor: Arc<Supervisor>,
    /// None: nobody keeps an audit.
    recorder: Option<Recorder>,
    clock: SharedClock,
}

impl Served {
    /// Of the coordinator of the moment.
    pub fn new(supervisor: Arc<Supervisor>, recorder: Option<Recorder>, clock: SharedClock) -> Self {
        Self { supervisor, recorder, clock }
    }

    fn parse(&self, restoring: &Restoring) -> Result<crate::transfer::Job, Refusal> {
        let invalid = |what: String| Refusal::new(Code::RequestInvalid, what);
        let served = self.supervisor.namespace();
        if restoring.namespace != served.as_str() {
            let what = format!(
                "the backup is of namespace {:?}, this coordinator serves {served}: restore it where its namespace is served",
                restoring.namespace
            );
            return Err(Refusal::new(Code::NamespaceMismatch, what));
        }
        if !backup::is_mark(&restoring.backup) {
            let what = format!("backup: {:?} must be the first 16 digits of the checksum", restoring.backup);
            return Err(invalid(what));
        }
        if restoring.tokens > Token::MOST.0 {
            return Err(invalid(format!("tokens: {} is above {}", restoring.tokens, Token::MOST)));
        }
        backup::job(&restoring.data).map_err(|defects| invalid(format!("data: {}", defects.join("\n  "))))
    }

    async fn put_back(&self, restoring: Restoring, by: Option<Arc<str>>) -> Result<edge::Restored, Refusal> {
        let job = self.parse(&restoring)?;
        let health = *self.supervisor.health().borrow();
        if health != Health::Serving {
            let what =
                format!("this coordinator is {}: try again when it serves, or ask another", health.as_str());
            return Err(Refusal::new(Code::StoreUnavailable, what));
        }
        let (name, now) = (job.name.clone(), self.clock.wall());
        let registry = self.supervisor.handle().registry();
        let mut ids = || uuid::Uuid::new_v4().simple().to_string();
        let options = Options {
            mark: &restoring.backup,
            tokens: Token(restoring.tokens),
            overwrite: restoring.overwrite,
            dry_run: restoring.dry_run,
            now,
            ids: &mut ids,
        };
        let done = restore::restore(&*registry, job, options).await.map_err(refusal)?;
        if let Some(what) = audit(&done, &restoring.backup).filter(|_| !restoring.dry_run) {
            if let Some(recorder) = &self.recorder {
                recorder.event(now, Some(&name), EventKind::Job, what.clone(), by.as_deref());
                end_fenced(recorder, &name, now, &done);
            }
            self.supervisor.publish(ClusterEvent::Job {
                job: name.clone(),
                action: Action::Restore,
                what,
                by,
            });
        }
        let fenced = words(&name, &done);
        Ok(edge::Restored { job: name, way: way(done.way), crashed: done.crashed, fenced })
    }
}

fn refusal(error: RestoreError) -> Refusal {
    let code = match &error {
        RestoreError::Read { error: ReadError::Damaged { .. }, .. } => Code::ConfigDamaged,
        RestoreError::Read { .. } | RestoreError::Refused(..) => Code::StoreUnavailable,
        RestoreError::Exists(_) | RestoreError::Foreign(..) => Code::JobExists,
        RestoreError::Contended(..) => Code::Contended,
        RestoreError::Unknown(_) => Code::OutcomeUnknown,
    };
    Refusal::new(code, error.to_string())
}

impl Backups for Served {
    fn backup(&self, by: Option<Arc<str>>) -> BoxStream<'static, Result<Part, Refusal>> {
        let (handle, now) = (self.supervisor.handle(), self.clock.wall());
        // Before the first byte leaves: who stops reading halfway has read that much.
        if let Some(recorder) = &self.recorder {
            recorder.event(now, None, EventKind::Operation, "a backup of all jobs was read", by.as_deref());
        }
        let what = "a backup of all jobs is read".to_owned();
        self.supervisor.publish(ClusterEvent::Asked { job: None, action: Action::Backup, what, by });
        let writer = format!("rosterd {} {}", version(), handle.id());
        let unread = |error: ReadError| Refusal::new(Code::StoreUnavailable, format!("{error}: try again"));
        let parts = parts(handle.registry(), handle.namespace(), now, &writer);
        parts.map(move |part| part.map_err(unread)).boxed()
    }

    fn job_of(&self, restoring: &Restoring) -> Result<JobName, Refusal> {
        Ok(self.parse(restoring)?.name)
    }

    fn restore(&self, restoring: Restoring, by: Option<Arc<str>>) -> BackendAnswer<'_, edge::Restored> {
        self.put_back(restoring, by).boxed()
    }
}

/// What a directory is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// To read what there is.
    Read,
    /// To say what would be written; nothing is made.
    Look,
    /// To write; it is created if it is missing.
    Write,
}

/// A data directory that nobody serves, open for one command.
pub struct Directory {
    opened: Opened,
    namespace: Namespace,
    recorder: Option<Recorder>,
}

impl Directory {
    /// Opens it.
    pub async fn open(config: &Config, how: Use) -> Result<Self, TransferError> {
        let data_dir = store::data_dir(&config.registry);
        let opened = match how {
            Use::Read | Use::Look if EmbeddedRegistry::is_in(data_dir) => Opened::open(config).await?,
            Use::Read => return Err(TransferError::Nothing(data_dir.display().to_string())),
            Use::Look => Opened::nothing(config),
            Use::Write => {
                super::make_private_dir(data_dir)?;
                Opened::open(config).await?
            }
        };
        let writes = how == Use::Write;
        let recorder = writes.then(|| history::open(config, data_dir)).and_then(|opened| {
            opened.inspect_err(|error| tracing::warn!("the history has no line of it: {error}")).ok()
        });
        let recorder = recorder.map(|(recorder, _)| recorder);
        Ok(Self { opened, namespace: config.namespace.clone(), recorder })
    }

    /// Its backup.
    pub fn backup(&self) -> BoxStream<'static, Result<Part, ReadError>> {
        let by = format!("rosterd {}", version());
        parts(self.opened.shared(), &self.namespace, System.wall(), &by)
    }

    /// Restores one job of a backup that was checked.
    pub async fn restore(
        &self,
        line: &[u8],
        summary: &Summary,
        overwrite: bool,
        dry_run: bool,
    ) -> Result<edge::Restored, String> {
        let job = backup::job(line).map_err(|defects| defects.join("\n  "))?;
        let (name, now) = (job.name.clone(), System.wall());
        let mut ids = || uuid::Uuid::new_v4().simple().to_string();
        let (mark, tokens) = (summary.mark.as_str(), summary.tokens);
        let options = Options { mark, tokens, overwrite, dry_run, now, ids: &mut ids };
        let registry = self.opened.shared();
        let done = restore::restore(&*registry, job, options).await.map_err(|error| error.to_string())?;
        if let Some((recorder, what)) = self.recorder.as_ref().zip(audit(&done, mark)).filter(|_| !dry_run) {
            // No credential is asked for: whoever may write the store may do this.
            let who = format!("uid {}", rustix::process::getuid().as_raw());
            recorder.event(now, Some(&name), EventKind::Job, what, Some(&who));
            end_fenced(recorder, &name, now, &done);
        }
        let fenced = words(&name, &done);
        Ok(edge::Restored { job: name, way: way(done.way), crashed: done.crashed, fenced })
    }

    /// Its session ends before the process does.
    pub async fn close(self) {
        self.opened.close().await;
        if let Some(recorder) = self.recorder {
            recorder.stop().await;
        }
    }
}
