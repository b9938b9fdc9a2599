//! Whether a change stays within the jobs that a credential is for. Reading is not restricted by job. Called by
//! `operator` before the coordinator is asked; knows nothing of roles, which the path has decided.

use rosterd_domain::id::{InstanceId, JobName};

use crate::access::Principal;
use crate::backend::Backend;
use rosterd_coordinator::handle::Operation;
use rosterd_session::code::{Code, Refusal};

/// Refuses a change of a job that the caller's credential is not for.
pub(crate) async fn check(
    who: Option<&Principal>,
    operation: &Operation,
    backend: &dyn Backend,
) -> Result<(), Refusal> {
    let Some(who) = who.filter(|who| !who.jobs.are_all()) else { return Ok(()) };
    let jobs = match operation {
        Operation::Apply { specs, .. } => specs.iter().map(|spec| spec.config().job_name.clone()).collect(),
        Operation::Drain { instance, .. } => worked_for(instance, backend).await?,
        Operation::Machine { jobs, .. } => jobs.clone(),
        Operation::Trigger { job, .. }
        | Operation::Pause { job, .. }
        | Operation::Enable { job, .. }
        | Operation::Remove { job, .. }
        | Operation::Cancel { job, .. }
        | Operation::Shutdown { job, .. } => vec![job.clone()],
    };
    match jobs.iter().find(|job| !who.jobs.have(job)) {
        None => Ok(()),
        Some(job) => {
            let what = format!(
                "the credential {:?} is not for job {job}, only for {}: use another, or have its jobs widened",
                who.name, who.jobs
            );
            Err(Refusal::new(Code::PermissionDenied, what))
        }
    }
}

/// A worker that drains leaves all its jobs.
async fn worked_for(instance: &InstanceId, backend: &dyn Backend) -> Result<Vec<JobName>, Refusal> {
    let rows = backend.instances(None).await?;
    Ok(rows.into_iter().filter(|row| row.instance == *instance).map(|row| row.job).collect())
}
