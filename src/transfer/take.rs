//! Jobs out of a store. It only reads; each job is of one revision, and so coordinators may go on meanwhile.

use std::sync::Arc;

use rosterd_domain::id::{JobName, Namespace, Token};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::{JobNodes, Whole};
use rosterd_domain::strategy::Assignment;
use rosterd_domain::time::Time;

use super::{Export, Job};
use rosterd_registry::{ReadError, Registry};

/// What was taken.
#[derive(Debug)]
pub struct Taken {
    /// The jobs.
    pub export: Export,
    /// Names without a job to take, and why.
    pub left: Vec<String>,
}

/// Why nothing was taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The store does not answer.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A job that is asked for does not exist.
    #[error("job {0} does not exist in namespace {1}: correct the name, or the namespace")]
    Unknown(JobName, Namespace),
    /// There is nothing.
    #[error("namespace {0} has no jobs in this store: correct the namespace, or the place")]
    Empty(Namespace),
    /// A job that no import could understand.
    #[error(
        "job {job} cannot be understood: {why}; repair or remove it, or name the jobs to export with --job"
    )]
    Damaged {
        /// Which.
        job: JobName,
        /// What of it.
        why: String,
    },
}

/// Takes all jobs of a namespace, or those that are `wanted`.
pub async fn take(
    registry: &dyn Registry,
    namespace: &Namespace,
    wanted: &[JobName],
    now: Time,
) -> Result<Taken, TakeError> {
    let known = registry.jobs().await?;
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(*name)) {
        return Err(TakeError::Unknown(unknown.clone(), namespace.clone()));
    }
    let (mut jobs, mut left) = (Vec::new(), Vec::new());
    for name in known.into_iter().filter(|name| wanted.is_empty() || wanted.contains(name)) {
        match registry.whole(&name).await? {
            Some(whole) if whole.snapshot.nodes.incarnation.is_some() => jobs.push(job(&name, whole)?),
            Some(whole) => left.push(format!("{name} is left out: {}", why_none(&whole.snapshot.nodes))),
            None => left.push(format!("{name} is left out: it was removed meanwhile")),
        }
    }
    if jobs.is_empty() {
        return Err(TakeError::Empty(namespace.clone()));
    }
    // After the jobs: a token of a coordinator that goes on is in a record or below this number.
    let given = registry.numbering().await?.ceiling();
    let records = jobs.iter().flat_map(|job| job.records.values());
    let tokens: Token = records.map(|record| record.token).fold(given, Token::max);
    let export = Export { namespace: namespace.clone(), exported_at: now, tokens, jobs };
    Ok(Taken { export, left })
}

/// Why a job without an incarnation does not count.
pub(super) fn why_none(nodes: &JobNodes) -> &'static str {
    match (&nodes.config, &nodes.policy) {
        (None, _) => "it is being removed",
        (Some(_), Some(_)) => "an import of it did not end",
        (Some(_), None) => {
            "it is a job of Elastic-Job's own (take it over with `rosterd import elastic-job`)"
        }
    }
}

pub(super) fn job(name: &JobName, whole: Whole) -> Result<Job, TakeError> {
    let damaged = |why: String| TakeError::Damaged { job: name.clone(), why };
    let nodes = whole.snapshot.nodes;
    let text = |what: &str, data: &[u8]| {
        let text = std::str::from_utf8(data).map(str::to_owned);
        text.map_err(|error| damaged(format!("{what} is not text: {error}")))
    };
    let config = nodes.config.as_ref().ok_or_else(|| damaged("it has no config".to_owned()))?;
    let rights = Sharding::decode(&nodes.assignment).map_err(|error| damaged(error.to_string()))?;
    let job = Job {
        name: name.clone(),
        handler: nodes.handler_type.to_string(),
        config: text("its config", &config.data)?,
        policy: nodes.policy.as_ref().map(|node| text("its policy", &node.data)).transpose()?,
        paused: nodes.paused,
        rights: rights.with_assignment(&Assignment::default(), 0),
        servers: nodes.servers,
        announced: nodes.announced,
        triggers: nodes.triggers,
        offsets: whole.offsets.into_iter().map(|(item, data)| (item, data.to_vec())).collect(),
        records: whole
            .snapshot
            .records
            .into_iter()
            .map(|(item, (_, record))| (item, Arc::unwrap_or_clone(record)))
            .collect(),
    };
    job.spec().map_err(|defects| damaged(defects.to_string()))?;
    Ok(job)
}
