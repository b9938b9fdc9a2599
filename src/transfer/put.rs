//! Jobs into a store: looked at whole before anything is written, then one after the other, each put together out of
//! sight and revealed last, in one transaction. A job whose import did not end does not count as a job; the next import takes what
//! is left of it away.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::{ItemEvent, Outcome, Record};
use rosterd_domain::snapshot::JobNodes;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Guard, Purpose, Txn, Write};

use super::take::why_none;
use super::{Export, Job};
use rosterd_registry::{ReadError, Registry};

/// Most writes of one transaction, and most bytes of offsets in it: far below what a packet of ZooKeeper may hold.
pub(super) const CHUNK: usize = 200;
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Nodes that one transaction sweeps.
pub(super) const SWEEP: usize = 200;
/// A job has fewer nodes than this times [`SWEEP`].
pub(super) const MOST_SWEEPS: usize = 10_000;

/// What becomes of a job that exists in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The import is refused.
    Refuse,
    /// It is removed, and the file's takes its place.
    Overwrite,
    /// It stays, and the file's is left out.
    Skip,
}

/// How an import goes.
pub struct Options {
    /// What becomes of jobs that exist.
    pub existing: Existing,
    /// Runs in flight are ended as crashed; otherwise they forbid the import.
    pub crash_running: bool,
    /// Everything is looked at and nothing is written.
    pub dry_run: bool,
    /// The time at which crashed runs are found so.
    pub now: Time,
    /// New random names.
    pub ids: Box<dyn FnMut() -> String + Send>,
}

/// What was done, or would be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Jobs that were made.
    pub made: Vec<JobName>,
    /// Those of them that took another's place.
    pub overwritten: Vec<JobName>,
    /// Jobs that exist and stayed as they are.
    pub skipped: Vec<JobName>,
    /// Runs in flight that were ended as crashed.
    pub crashed: Vec<String>,
}

/// Why an import was refused, or did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The store does not answer.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Somebody serves the jobs.
    #[error(
        "coordinators serve this namespace ({0}): stop them, import, and start them again. Nothing was written"
    )]
    Served(String),
    /// It must not be done; every reason, one a line.
    #[error("nothing was written:{}", .0.iter().map(|why| format!("\n  {why}")).collect::<String>())]
    Refused(Vec<String>),
    /// A transaction was not applied, or nobody knows.
    #[error(
        "job {job}: {why}; whole are: {}; run it again with --skip-existing, which goes on behind these",
        if done.is_empty() { "none".to_owned() } else { done.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") }
    )]
    Stopped {
        /// Which.
        job: JobName,
        /// What was said.
        why: String,
        /// The jobs that are whole.
        done: Vec<JobName>,
    },
    /// The numbering could not be raised.
    #[error("the numbering of the tokens cannot be raised: {0}. No job was written; run it again")]
    Numbering(String),
}

/// Puts jobs into a store that nobody serves.
pub async fn put(
    registry: &dyn Registry,
    export: Export,
    mut options: Options,
) -> Result<ImportReport, PutError> {
    let served = registry.coordinators().await?;
    if !served.is_empty() {
        let names: Vec<String> = served.keys().map(ToString::to_string).collect();
        return Err(PutError::Served(names.join(", ")));
    }
    let (plans, report) = plan(registry, export.jobs, &options).await?;
    if options.dry_run {
        return Ok(report);
    }
    // Also above those of jobs that are removed here, and of others that were before: this import may stop halfway, and
    // what is imported in their place must not go on below.
    let given = raise(registry, export.tokens).await?;
    let mut done = Vec::new();
    for mut plan in plans {
        for record in plan.job.records.values_mut() {
            record.token = record.token.max(given);
        }
        let job = plan.job.name.clone();
        if let Err(why) = one(registry, plan, &mut options.ids).await {
            return Err(PutError::Stopped { job, why, done });
        }
        done.push(job);
    }
    Ok(report)
}

/// One job as it will be, and what is in its place.
struct ImportPlan {
    job: Job,
    before: Before,
}

enum Before {
    Nothing,
    /// What a removal or an import left.
    Remains,
    /// A job, by its incarnation.
    Job(Arc<str>),
}

async fn plan(
    registry: &dyn Registry,
    jobs: Vec<Job>,
    options: &Options,
) -> Result<(Vec<ImportPlan>, ImportReport), PutError> {
    let (mut plans, mut report, mut refused) = (Vec::new(), ImportReport::default(), Vec::new());
    for mut job in jobs {
        let name = job.name.clone();
        let before = match registry.job(&name).await? {
            None => Before::Nothing,
            Some(nodes) => match nodes.incarnation.clone() {
                None if is_foreign(&nodes) => {
                    refused.push(format!("{name} exists: {}; choose another namespace", why_none(&nodes)));
                    continue;
                }
                None => Before::Remains,
                Some(incarnation) => match options.existing {
                    Existing::Refuse => {
                        refused.push(format!("{name} exists: give --overwrite or --skip-existing"));
                        continue;
                    }
                    Existing::Skip => {
                        report.skipped.push(name);
                        continue;
                    }
                    Existing::Overwrite => {
                        refused.extend(take_tokens(registry, &mut job, options).await?);
                        report.overwritten.push(name.clone());
                        Before::Job(incarnation)
                    }
                },
            },
        };
        for line in crash(&mut job, options.now) {
            if options.crash_running {
                report.crashed.push(line);
            } else {
                let remedy = "let it end before the export, or give --crash-running";
                refused.push(format!("{line} was in flight: {remedy}"));
            }
        }
        report.made.push(name);
        plans.push(ImportPlan { job, before });
    }
    if refused.is_empty() { Ok((plans, report)) } else { Err(PutError::Refused(refused)) }
}

/// Elastic-Job's own trees have nothing of ours.
pub(super) fn is_foreign(nodes: &JobNodes) -> bool {
    nodes.config.is_some() && nodes.policy.is_none()
}

/// A job that takes another's place goes on above the tokens of both; what runs there must have ended.
async fn take_tokens(
    registry: &dyn Registry,
    job: &mut Job,
    options: &Options,
) -> Result<Vec<String>, PutError> {
    let Some(there) = registry.snapshot(&job.name).await? else { return Ok(Vec::new()) };
    let mut running = Vec::new();
    for (item, (_, record)) in there.records {
        if let Some(run) = record.running().filter(|_| !options.crash_running) {
            let remedy = "let it end first, or give --crash-running";
            running
                .push(format!("{}/{item} is in flight in this store ({}): {remedy}", job.name, run.instance));
        }
        if let Some(ours) = job.records.get_mut(&item) {
            ours.token = ours.token.max(record.token);
        }
    }
    Ok(running)
}

/// Ends the runs in flight as crashed, to be run again where the job's failover applies; a line for each.
pub(super) fn crash(job: &mut Job, now: Time) -> Vec<String> {
    // The file was read whole: its jobs are understood.
    let Ok(spec) = job.spec() else { return Vec::new() };
    let mut lines = Vec::new();
    let mut ended: BTreeMap<Item, Record> = BTreeMap::new();
    for (item, record) in &job.records {
        let Some(run) = record.running() else { continue };
        let requeue = job.requeues(&spec, *item) && !run.cancelled;
        lines.push(format!("{}/{item}, the run of {} by {}", job.name, run.fire, run.instance));
        let end = ItemEvent::End { outcome: Outcome::Crashed, at: now, reported: false, requeue };
        if let Ok(record) = record.apply(&end) {
            ended.insert(*item, record);
        }
    }
    job.records.extend(ended);
    lines
}

/// Tokens of this store are from now on above all that were given in the other. The answer: up to which it has given its own.
async fn raise(registry: &dyn Registry, tokens: Token) -> Result<Token, PutError> {
    let now = registry.numbering().await?;
    let (given, Some(offset)) = (now.ceiling(), now.raised_above(tokens)) else { return Ok(now.ceiling()) };
    let mut txn = Txn::new(Purpose::Number);
    txn.write(Write::Numbering { offset, expect: now.version });
    match registry.commit(txn).await {
        Commit::Committed(_) => Ok(given),
        // What is read then is what holds.
        Commit::Unknown if registry.numbering().await?.raised_above(tokens).is_none() => Ok(given),
        other => Err(PutError::Numbering(words(other))),
    }
}

async fn one(
    registry: &dyn Registry,
    plan: ImportPlan,
    ids: &mut (dyn FnMut() -> String + Send),
) -> Result<(), String> {
    let ImportPlan { job, before } = plan;
    remove(registry, &job.name, before).await?;
    let (name, incarnation): (Arc<str>, Arc<str>) = (ids().into(), ids().into());
    commit(registry, prepare_txn(&job, &name)?).await?;
    for writes in chunks(writes(&job)) {
        let mut txn = prepared(Purpose::Import, &job.name, &name);
        txn.writes = writes;
        commit(registry, txn).await?;
    }
    let mut txn = prepared(Purpose::Reveal, &job.name, &name);
    txn.write(Write::RevealJob { job: job.name.clone(), name, incarnation: incarnation.clone() });
    txn.write(Write::RaiseNecessary(job.name.clone()));
    match registry.commit(txn).await {
        Commit::Committed(_) => Ok(()),
        Commit::Unknown => {
            let seen = registry.job(&job.name).await.map_err(|error| error.to_string())?;
            let named = seen.and_then(|nodes| nodes.incarnation);
            if named == Some(incarnation) { Ok(()) } else { Err(words(Commit::Unknown)) }
        }
        other => Err(words(other)),
    }
}

async fn remove(registry: &dyn Registry, job: &JobName, before: Before) -> Result<(), String> {
    let mut txn = Txn::new(Purpose::Remove);
    match before {
        Before::Nothing => return Ok(()),
        Before::Remains => {}
        Before::Job(incarnation) => txn.guard(Guard::Incarnation(job.clone(), incarnation)),
    }
    txn.write(Write::EndJob(job.clone()));
    commit(registry, txn).await?;
    for _ in 0..MOST_SWEEPS {
        if registry.job(job).await.map_err(|error| error.to_string())?.is_none() {
            return Ok(());
        }
        let mut txn = Txn::new(Purpose::Sweep);
        txn.write(Write::SweepJob { job: job.clone(), limit: SWEEP });
        commit(registry, txn).await?;
    }
    Err("what was there before cannot be swept: somebody makes it again".to_owned())
}

pub(super) fn prepared(purpose: Purpose, job: &JobName, name: &Arc<str>) -> Txn {
    let mut txn = Txn::new(purpose);
    txn.guard(Guard::Prepared(job.clone(), name.clone()));
    txn
}

pub(super) fn prepare_txn(job: &Job, name: &Arc<str>) -> Result<Txn, String> {
    let policy = policy(job)?;
    let mut txn = Txn::new(Purpose::Prepare);
    txn.guard(Guard::NoJob(job.name.clone()));
    txn.write(Write::PrepareJob {
        job: job.name.clone(),
        name: name.clone(),
        handler_type: job.handler.as_str().into(),
        config: job.config.as_str().into(),
        policy: policy.into(),
        assignment: job.rights.encode().into(),
    });
    Ok(txn)
}

/// What the job says of it, or what it is without saying so.
pub(super) fn policy(job: &Job) -> Result<String, String> {
    match &job.policy {
        Some(policy) => Ok(policy.clone()),
        None => Ok(job.spec().map_err(|defects| defects.to_string())?.policy().to_json()),
    }
}

/// All that follows, what hangs from a record right behind it.
pub(super) fn writes(job: &Job) -> impl Iterator<Item = Write> {
    let name = &job.name;
    let paused = job.paused.then(|| Write::Paused(name.clone(), true));
    let servers = job.servers.iter().map(|(server, enabled)| Write::Server {
        job: name.clone(),
        server: server.clone(),
        enabled: Some(*enabled),
    });
    let announced = job.announced.iter().map(|(stage, announced)| Write::Announced {
        job: name.clone(),
        stage: *stage,
        announced: Box::new(announced.clone()),
    });
    let triggers = job.triggers.iter().map(|(item, node)| Write::Trigger {
        job: name.clone(),
        item: *item,
        node: node.clone(),
    });
    let offsets = job.offsets.iter().map(|(item, data)| Write::Offset {
        job: name.clone(),
        item: *item,
        data: data.as_slice().into(),
    });
    let records = job.records.iter().flat_map(|(item, record)| record_writes(job, *item, record));
    paused.into_iter().chain(servers).chain(announced).chain(triggers).chain(offsets).chain(records)
}

fn record_writes(job: &Job, item: Item, record: &Record) -> Vec<Write> {
    let name = || job.name.clone();
    let mut writes =
        vec![Write::Record { job: name(), item, expect: None, record: Arc::new(record.clone()) }];
    if record.misfire.is_some() {
        writes.push(Write::Misfire { job: name(), item, marked: true });
    }
    if job.rights.disabled_items.contains(&item) {
        writes.push(Write::ItemDisabled { job: name(), item, disabled: true });
    }
    if let Some(crashed) = record.crashed() {
        let crashed = Some((crashed.fire, record.token));
        writes.push(Write::FailoverItem { job: name(), item, crashed });
    }
    writes
}

pub(super) fn chunks(writes: impl Iterator<Item = Write>) -> Vec<Vec<Write>> {
    let (mut chunks, mut bytes) = (vec![Vec::new()], 0);
    for write in writes {
        let weight = if let Write::Offset { data, .. } = &write { data.len() } else { 0 };
        bytes += weight;
        if chunks
            .last()
            .is_some_and(|chunk| chunk.len() >= CHUNK || (bytes > CHUNK_BYTES && !chunk.is_empty()))
        {
            chunks.push(Vec::new());
            bytes = weight;
        }
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(write);
        }
    }
    chunks.retain(|chunk| !chunk.is_empty());
    chunks
}

async fn commit(registry: &dyn Registry, txn: Txn) -> Result<(), String> {
    match registry.commit(txn).await {
        Commit::Committed(_) => Ok(()),
        other => Err(words(other)),
    }
}

fn words(commit: Commit) -> String {
    match commit {
        Commit::Committed(_) => "it was written".to_owned(),
        Commit::Conflict(why) => format!("{why}: somebody else changes it"),
        Commit::Fenced => "the store session is over".to_owned(),
        Commit::Unavailable(why) | Commit::TooLarge(why) => why,
        Commit::Unknown => "nobody knows whether the last transaction was applied".to_owned(),
    }
}
