//! One job of a backup into a store that may be served. A job that does not exist is put together out of sight. One that
//! does goes back in place: its records first, each guarded by its version, then all else together with a new incarnation,
//! so that every coordinator reads it again. It never disappears, and so its workers stay. Whatever is cut off leaves jobs
//! that are whole, and the same call completes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::{Record, Running};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::Snapshot;
use rosterd_domain::strategy::Assignment;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Guard, Purpose, Txn, Write};

use super::Job;
use super::put::{self, CHUNK, CHUNK_BYTES};
use super::take::why_none;
use rosterd_registry::{ReadError, Registry};

/// How often things may change under one job before it is given up.
const MOST_TRIES: usize = 200;

/// How a job is restored.
pub struct Options<'a> {
    /// Names the backup.
    pub mark: &'a str,
    /// No token up to this is given again.
    pub tokens: Token,
    /// A job that exists goes back to its state in the backup.
    pub overwrite: bool,
    /// Nothing is written.
    pub dry_run: bool,
    /// The time at which runs in flight are found crashed.
    pub now: Time,
    /// New random names.
    pub ids: &'a mut (dyn FnMut() -> String + Send),
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It did not exist.
    Created,
    /// It went back.
    Overwritten,
    /// It was restored from this backup before.
    Already,
}

/// What was done, or would be.
#[derive(Debug, Clone, PartialEq)]
pub struct Restored {
    /// How.
    pub way: Way,
    /// Runs that were in flight in the backup, and count as crashed.
    pub crashed: Vec<String>,
    /// Runs that were in flight in the store, and are fenced.
    pub fenced: Vec<(Item, Token, Running)>,
}

/// Why a job was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The store does not answer, or the job there is damaged.
    #[error("job {job}: {error}{}", remedy(error))]
    Read {
        /// Which.
        job: JobName,
        /// What was said.
        error: ReadError,
    },
    /// It exists, and that is not to be touched.
    #[error("job {0} exists: --overwrite puts it back to its state in the backup")]
    Exists(JobName),
    /// It is not ours.
    #[error("job {0} exists: {1}; restore into another namespace")]
    Foreign(JobName, &'static str),
    /// Others changed it again and again.
    #[error("job {0} changed again and again meanwhile ({1}): run the same command again")]
    Contended(JobName, String),
    /// The store took something not; the text says why.
    #[error("job {0}: {1}")]
    Refused(JobName, String),
    /// Nobody knows whether something was written.
    #[error(
        "job {0}: the store did not say whether it has written the last part: run the same command again"
    )]
    Unknown(JobName),
}

fn remedy(error: &ReadError) -> &'static str {
    match error {
        ReadError::Damaged { .. } => ": remove the job with --cancel, then restore it",
        _ => "",
    }
}

/// Why an attempt ended early.
enum Stop {
    /// Things changed; another one may do.
    Again(String),
    Over(RestoreError),
}

type Attempt<T> = Result<T, Stop>;

/// Restores one job.
pub async fn restore(
    registry: &dyn Registry,
    mut job: Job,
    mut options: Options<'_>,
) -> Result<Restored, RestoreError> {
    let crashed = put::crash(&mut job, options.now);
    let mut work = Work { registry, job, done: BTreeSet::new(), fenced: Vec::new(), given: None };
    let mut why = String::new();
    for _ in 0..MOST_TRIES {
        match work.attempt(&mut options).await {
            Ok(Way::Already) => {
                return Ok(Restored { way: Way::Already, crashed: Vec::new(), fenced: Vec::new() });
            }
            Ok(way) => return Ok(Restored { way, crashed, fenced: work.fenced }),
            Err(Stop::Again(again)) => why = again,
            Err(Stop::Over(error)) => return Err(error),
        }
    }
    Err(RestoreError::Contended(work.job.name, why))
}

struct Work<'a> {
    registry: &'a dyn Registry,
    job: Job,
    /// Items that are back.
    done: BTreeSet<Item>,
    fenced: Vec<(Item, Token, Running)>,
    /// Up to which tokens may have been given before this began.
    given: Option<Token>,
}

impl Work<'_> {
    async fn attempt(&mut self, options: &mut Options<'_>) -> Attempt<Way> {
        let name = self.job.name.clone();
        let there = self.registry.snapshot(&name).await.map_err(|error| self.unread(error))?;
        let incarnation = match &there {
            None => None,
            Some(there) => match there.nodes.incarnation.clone() {
                None if put::is_foreign(&there.nodes) => {
                    return Err(Stop::Over(RestoreError::Foreign(name, why_none(&there.nodes))));
                }
                incarnation => incarnation,
            },
        };
        let stands = incarnation.is_some();
        if let Some(incarnation) = incarnation.filter(|_| !options.overwrite) {
            return match incarnation.strip_prefix(options.mark) {
                Some(_) => Ok(Way::Already),
                None => Err(Stop::Over(RestoreError::Exists(name))),
            };
        }
        let way = if stands { Way::Overwritten } else { Way::Created };
        if options.dry_run {
            if let Some(there) = there.filter(|_| stands) {
                self.fenced = running(&there, &self.job);
            }
            return Ok(way);
        }
        self.raise(options.tokens).await?;
        let renewed: Arc<str> = format!("{}-{}", options.mark, (options.ids)()).into();
        match there {
            Some(there) if stands => self.put_back(there, renewed).await?,
            there => self.make(there.is_some(), (options.ids)().into(), renewed).await?,
        }
        Ok(way)
    }

    fn unread(&self, error: ReadError) -> Stop {
        Stop::Over(RestoreError::Read { job: self.job.name.clone(), error })
    }

    /// Commits; one of which nobody knows is looked at again, which every transaction here bears.
    async fn commit(&self, txn: Txn) -> Attempt<()> {
        match self.registry.commit(txn).await {
            Commit::Committed(_) => Ok(()),
            Commit::Conflict(why) => Err(Stop::Again(why.to_string())),
            Commit::Unknown => Err(Stop::Over(RestoreError::Unknown(self.job.name.clone()))),
            Commit::Fenced => {
                let why = "the store session is over: run the same command again".to_owned();
                Err(Stop::Over(RestoreError::Refused(self.job.name.clone(), why)))
            }
            Commit::Unavailable(why) | Commit::TooLarge(why) => {
                Err(Stop::Over(RestoreError::Refused(self.job.name.clone(), why)))
            }
        }
    }

    /// The tokens of this store are from now on above all that the backup knows of.
    async fn raise(&mut self, tokens: Token) -> Attempt<()> {
        let now = self.registry.numbering().await.map_err(|error| self.unread(error))?;
        if let Some(offset) = now.raised_above(tokens) {
            let mut txn = Txn::new(Purpose::Number);
            txn.write(Write::Numbering { offset, expect: now.version });
            self.commit(txn).await?;
        }
        Ok(())
    }

    /// Up to which tokens the store may have given its own by now.
    async fn ceiling(&self) -> Attempt<Token> {
        Ok(self.registry.numbering().await.map_err(|error| self.unread(error))?.ceiling())
    }

    /// The job as it was, in the place of the one that stands.
    async fn put_back(&mut self, there: Snapshot, renewed: Arc<str>) -> Attempt<()> {
        let name = self.job.name.clone();
        let Some(incarnation) = there.nodes.incarnation.clone() else { return Ok(()) };
        let given = match self.given {
            Some(given) => given,
            None => *self.given.insert(self.ceiling().await?),
        };
        let guarded = || {
            let mut txn = Txn::new(Purpose::Restore);
            txn.guard(Guard::Incarnation(name.clone(), incarnation.clone()));
            txn
        };
        let (mut txn, mut bytes, mut items) = (guarded(), 0, BTreeSet::new());
        for unit in self.units(&there, given) {
            let weight: usize = unit.iter().map(weight).sum();
            if !txn.writes.is_empty()
                && (txn.writes.len() + unit.len() > CHUNK || bytes + weight > CHUNK_BYTES)
            {
                self.commit(std::mem::replace(&mut txn, guarded())).await?;
                self.seen(&there, std::mem::take(&mut items));
                bytes = 0;
            }
            bytes += weight;
            items.extend(unit.iter().filter_map(|write| match write {
                Write::Record { item, .. } => Some(*item),
                _ => None,
            }));
            txn.writes.extend(unit);
        }
        self.finish(&mut txn, &there, renewed)?;
        self.commit(txn).await?;
        self.seen(&there, items);
        Ok(())
    }

    /// These items are back; what they ran is fenced.
    fn seen(&mut self, there: &Snapshot, items: BTreeSet<Item>) {
        self.fenced.extend(running(there, &self.job).into_iter().filter(|(item, ..)| items.contains(item)));
        self.done.extend(items);
    }

    /// What is to be written of each item, and of each server; what must stay together is one.
    fn units(&self, there: &Snapshot, given: Token) -> Vec<Vec<Write>> {
        let job = &self.job;
        let mut units: Vec<Vec<Write>> = Vec::new();
        for (item, record) in job.records.iter().filter(|(item, _)| !self.done.contains(item)) {
            let now = there.records.get(item);
            let token = now.map_or(given, |(_, now)| now.token.max(given)).max(record.token);
            let record = Record { token, ..record.clone() };
            let mut unit = put_back_item(job, *item, now.map(|(version, _)| *version), record);
            unit.extend(job.offsets.get(item).map(|data| offset(&job.name, *item, data)));
            units.push(unit);
        }
        let apart = job.offsets.iter().filter(|(item, _)| !job.records.contains_key(item));
        units.extend(apart.map(|(item, data)| vec![offset(&job.name, *item, data)]));
        // What the backup knows nothing of stays, but for its rights.
        let others = there.records.keys().filter(|item| !job.records.contains_key(item));
        units.extend(others.map(|item| {
            let disabled = job.rights.disabled_items.contains(item);
            vec![Write::ItemDisabled { job: job.name.clone(), item: *item, disabled }]
        }));
        let triggers = job.triggers.iter().filter(|(item, _)| !there.nodes.triggers.contains_key(item));
        units.extend(triggers.map(|(item, node)| {
            vec![Write::Trigger { job: job.name.clone(), item: *item, node: node.clone() }]
        }));
        units.extend(job.servers.iter().map(|(server, enabled)| {
            vec![Write::Server { job: job.name.clone(), server: server.clone(), enabled: Some(*enabled) }]
        }));
        units
    }

    /// What makes it the job of the backup: nobody owns anything in it, and the leader assigns its items again.
    fn finish(&self, txn: &mut Txn, there: &Snapshot, renewed: Arc<str>) -> Attempt<()> {
        let (job, name) = (&self.job, || self.job.name.clone());
        let known = Sharding::decode(&there.nodes.assignment).unwrap_or_default();
        let withdrawals = known.withdrawals.max(job.rights.withdrawals) + 1;
        let mut rights = job.rights.with_assignment(&Assignment::default(), 0).numbered_by(known.numbered);
        rights.withdrawals = withdrawals;
        let expect = there.nodes.generation;
        txn.guard(Guard::Generation(name(), expect));
        txn.write(Write::RenewJob { job: name(), incarnation: renewed });
        txn.write(Write::HandlerType(name(), job.handler.as_str().into()));
        txn.write(Write::Config(name(), job.config.as_str().into()));
        txn.write(Write::Policy(name(), self.policy()?));
        txn.write(Write::Paused(name(), job.paused));
        txn.write(Write::Assignment { job: name(), expect, data: rights.encode().into() });
        for (stage, announced) in &job.announced {
            txn.write(Write::Announced {
                job: name(),
                stage: *stage,
                announced: Box::new(announced.clone()),
            });
        }
        txn.write(Write::RaiseNecessary(name()));
        Ok(())
    }

    fn policy(&self) -> Attempt<Arc<str>> {
        put::policy(&self.job)
            .map(Into::into)
            .map_err(|why| Stop::Over(RestoreError::Refused(self.job.name.clone(), why)))
    }

    /// Creates the job if it is missing, or if an import or a restore of it did not end.
    async fn make(&mut self, remains: bool, name: Arc<str>, incarnation: Arc<str>) -> Attempt<()> {
        let job = self.job.name.clone();
        if remains {
            self.sweep().await?;
        }
        // Runs of an earlier job of this name, which workers may still have in flight, are told from its own by this.
        let offset = self.registry.numbering().await.map_err(|error| self.unread(error))?.offset;
        self.job.rights = self.job.rights.clone().numbered_by(offset);
        let prepare = put::prepare_txn(&self.job, &name)
            .map_err(|why| Stop::Over(RestoreError::Refused(job.clone(), why)))?;
        self.commit(prepare).await?;
        // From here on nobody else gives tokens of this job.
        let given = self.ceiling().await?;
        for record in self.job.records.values_mut() {
            record.token = record.token.max(given);
        }
        for writes in put::chunks(put::writes(&self.job)) {
            let mut txn = put::prepared(Purpose::Restore, &job, &name);
            txn.writes = writes;
            self.commit(txn).await?;
        }
        let mut txn = put::prepared(Purpose::Reveal, &job, &name);
        txn.write(Write::RevealJob { job: job.clone(), name, incarnation });
        txn.write(Write::RaiseNecessary(job));
        self.commit(txn).await
    }

    async fn sweep(&self) -> Attempt<()> {
        let name = &self.job.name;
        let mut txn = Txn::new(Purpose::Remove);
        txn.write(Write::EndJob(name.clone()));
        self.commit(txn).await?;
        for _ in 0..put::MOST_SWEEPS {
            match self.registry.job(name).await.map_err(|error| self.unread(error))? {
                None => return Ok(()),
                Some(nodes) if nodes.config.is_some() => break,
                Some(_) => {
                    let mut txn = Txn::new(Purpose::Sweep);
                    txn.write(Write::SweepJob { job: name.clone(), limit: put::SWEEP });
                    self.commit(txn).await?;
                }
            }
        }
        Err(Stop::Again("it was made again meanwhile".to_owned()))
    }
}

/// The runs in flight of the items that go back.
fn running(there: &Snapshot, job: &Job) -> Vec<(Item, Token, Running)> {
    let goes = there.records.iter().filter(|(item, _)| job.records.contains_key(item));
    goes.filter_map(|(item, (_, record))| Some((*item, record.token, record.running()?.clone()))).collect()
}

fn offset(job: &JobName, item: Item, data: &[u8]) -> Write {
    Write::Offset { job: job.clone(), item, data: data.into() }
}

fn weight(write: &Write) -> usize {
    if let Write::Offset { data, .. } = write { data.len() } else { 0 }
}

/// The record, and all that hangs from it as it then must be.
fn put_back_item(
    job: &Job,
    item: Item,
    expect: Option<rosterd_domain::id::Version>,
    record: Record,
) -> Vec<Write> {
    let name = || job.name.clone();
    let disabled = job.rights.disabled_items.contains(&item);
    let crashed = record.crashed().map(|crashed| (crashed.fire, record.token));
    let marked = record.misfire.is_some();
    vec![
        Write::Record { job: name(), item, expect, record: Arc::new(record) },
        Write::Misfire { job: name(), item, marked },
        Write::Running { job: name(), item, instance: None },
        Write::Failover { job: name(), item, instance: None },
        Write::ItemDisabled { job: name(), item, disabled },
        Write::FailoverItem { job: name(), item, crashed },
        Write::Started { job: name(), item, present: false },
        Write::Completed { job: name(), item, present: false },
    ]
}
