//! Operations on one job.

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::report;
use crate::cli::complete::job_names;
use crate::cli::failure::Result;
use crate::cli::instances::named;
use crate::cli::options::Consent;
use crate::cli::output::form::Form;
use crate::cli::output::text::count;
use crate::cli::server::Server;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::set_enabled_request::Target as ProtoTarget;

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The job
    #[arg(value_name = "JOB", add = ArgValueCandidates::new(job_names))]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) form: Form,
    #[command(flatten)]
    pub(super) server: Server,
}

/// What of the job; nothing: the job as a whole.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct Target {
    /// One item
    #[arg(long, value_name = "N")]
    item: Option<u32>,
    /// All instances on the machine with this address
    #[arg(long, value_name = "ADDRESS")]
    machine: Option<String>,
    /// One instance: its id, or a beginning of it that is its alone
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Disable {
    #[command(flatten)]
    target: Target,
    /// Stop the runs in flight too
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    job: Named,
}

#[derive(Debug, Args)]
pub(crate) struct Enable {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    job: Named,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The item
    #[arg(long, value_name = "N")]
    item: u32,
    #[command(flatten)]
    job: Named,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Stop the runs in flight; else a job with runs in flight is not removed
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    job: Named,
}

impl Named {
    pub(crate) async fn pause(self) -> Result {
        let question = v1::PauseJobRequest { job: self.name };
        let answer = self.server.ask(question, |mut c, q| async move { c.pause_job(q).await }).await?;
        report(self.form, &answer.changes)
    }

    pub(crate) async fn resume(self) -> Result {
        let question = v1::ResumeJobRequest { job: self.name };
        let answer = self.server.ask(question, |mut c, q| async move { c.resume_job(q).await }).await?;
        report(self.form, &answer.changes)
    }

    async fn set_enabled(self, target: Target, enabled: bool, cancel: bool) -> Result {
        let admin = self.server.admin().await?;
        let instance = match target.instance {
            Some(given) => Some(named(&admin, &self.name, &given).await?),
            None => None,
        };
        let target = (target.item.map(ProtoTarget::Item))
            .or(target.machine.map(ProtoTarget::Machine))
            .or(instance.map(ProtoTarget::Instance));
        let question = v1::SetEnabledRequest { job: self.name, target, enabled, cancel };
        let answer = admin.ask(question, |mut c, q| async move { c.set_enabled(q).await }).await?;
        report(self.form, &answer.changes)
    }
}

impl Disable {
    pub(crate) async fn run(self) -> Result {
        self.job.set_enabled(self.target, false, self.cancel).await
    }
}

impl Enable {
    pub(crate) async fn run(self) -> Result {
        self.job.set_enabled(self.target, true, false).await
    }
}

impl Cancel {
    pub(crate) async fn run(self) -> Result {
        let question = v1::CancelRunRequest { job: self.job.name, item: self.item };
        let answer = self.job.server.ask(question, |mut c, q| async move { c.cancel_run(q).await }).await?;
        report(self.job.form, &answer.changes)
    }
}

impl Remove {
    pub(crate) async fn run(self) -> Result {
        if self.consent.is_needed() {
            let name = &self.job.name;
            let question = v1::GetJobRequest { job: name.clone(), ..Default::default() };
            let there = self.job.server.ask(question, |mut c, q| async move { c.get_job(q).await }).await?;
            let summary = there.summary.unwrap_or_default();
            let items = count(summary.sharding_total_count as usize, "item");
            self.consent
                .ask(&format!("Remove the job {name} with {items} and all that is known of its runs?"))?;
        }
        let question = v1::RemoveJobRequest { job: self.job.name, cancel: self.cancel };
        let answer = self.job.server.ask(question, |mut c, q| async move { c.remove_job(q).await }).await?;
        report(self.job.form, &answer.changes)
    }
}
