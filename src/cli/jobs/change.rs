//! Operations on one job.

use clap::Args;
use serde_json::json;

use super::{lines, report};
use crate::cli::failure::Result;
use crate::cli::json;
use crate::cli::server::Server;
use crate::cli::show::Form;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::set_enabled_request::Target as ProtoTarget;

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The job
    name: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct Trigger {
    #[command(flatten)]
    job: Named,
    /// Only these items
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    item: Vec<u32>,
    /// Where an item is running, run it once more after that
    #[arg(long)]
    after_current: bool,
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
    /// One instance
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Disable {
    #[command(flatten)]
    job: Named,
    #[command(flatten)]
    target: Target,
    /// Stop the runs in flight too
    #[arg(long)]
    cancel: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Enable {
    #[command(flatten)]
    job: Named,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    job: Named,
    /// The item
    #[arg(long, value_name = "N")]
    item: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    job: Named,
    /// Stop the runs in flight; else a job with runs in flight is not removed
    #[arg(long)]
    cancel: bool,
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
        let target = (target.item.map(ProtoTarget::Item))
            .or(target.machine.map(ProtoTarget::Machine))
            .or(target.instance.map(ProtoTarget::Instance));
        let question = v1::SetEnabledRequest { job: self.name, target, enabled, cancel };
        let answer = self.server.ask(question, |mut c, q| async move { c.set_enabled(q).await }).await?;
        report(self.form, &answer.changes)
    }
}

impl Trigger {
    pub(crate) async fn run(self) -> Result {
        let Named { name, form, server } = self.job;
        let question =
            v1::TriggerJobRequest { job: name, items: self.item, after_current: self.after_current };
        let answer = server.ask(question, |mut c, q| async move { c.trigger_job(q).await }).await?;
        let json = || json!({ "trigger_id": answer.trigger_id, "changes": json::changes(&answer.changes) });
        form.show(json, || format!("{}trigger {}", lines(&answer.changes), answer.trigger_id))
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
        let question = v1::RemoveJobRequest { job: self.job.name, cancel: self.cancel };
        let answer = self.job.server.ask(question, |mut c, q| async move { c.remove_job(q).await }).await?;
        report(self.job.form, &answer.changes)
    }
}
