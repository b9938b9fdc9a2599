//! `rosterd jobs`: everything about jobs as wholes.

mod apply;
mod change;
mod list;
mod report;
mod stats;
mod trigger;

use clap::Subcommand;

pub(crate) use self::report::report;
use super::failure::Result;

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs
    #[command(alias = "ls")]
    List(list::List),
    /// Show a job with its file
    #[command(alias = "get", alias = "describe", alias = "status")]
    Show(list::Show),
    /// List a job's next scheduled times
    Next(list::Next),
    /// Count a job's latest runs and the records that they processed
    Stats(stats::Stats),
    /// Make or change jobs from a job file
    Apply(apply::Apply),
    /// Say what applying a job file would change
    Diff(apply::Diff),
    /// Fire a job now
    Trigger(trigger::Trigger),
    /// Hold a job's scheduled fires; they count as missed
    Pause(change::Named),
    /// Let a job's scheduled fires go on
    Resume(change::Named),
    /// Take a job, or a part of it, out of service
    Disable(change::Disable),
    /// Take a job, or a part of it, back into service
    Enable(change::Enable),
    /// Stop the run of an item
    Cancel(change::Cancel),
    /// Remove a job and all that is known of it
    #[command(alias = "delete", alias = "rm")]
    Remove(change::Remove),
}

impl JobsCommand {
    pub(crate) async fn run(self) -> Result {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(show) => show.run().await,
            Self::Next(next) => next.run().await,
            Self::Stats(stats) => stats.run().await,
            Self::Apply(apply) => apply.run().await,
            Self::Diff(diff) => diff.run().await,
            Self::Trigger(trigger) => trigger.run().await,
            Self::Pause(job) => job.pause().await,
            Self::Resume(job) => job.resume().await,
            Self::Disable(disable) => disable.run().await,
            Self::Enable(enable) => enable.run().await,
            Self::Cancel(cancel) => cancel.run().await,
            Self::Remove(remove) => remove.run().await,
        }
    }
}
