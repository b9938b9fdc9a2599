//! `rosterd jobs`: everything about jobs as wholes.

mod apply;
mod change;
mod list;
mod stats;
mod trigger;

use clap::Subcommand;
use serde_json::json;

use super::failure::{Failure, Result};
use super::json;
use super::output::form::Form;
use rosterd_wire::proto::v1;

#[derive(Debug, Subcommand)]
pub(crate) enum Jobs {
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

impl Jobs {
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

/// Shows what a change did.
pub(crate) fn report(form: Form, changes: &[v1::JobChange]) -> Result {
    for change in changes {
        for warning in &change.warnings {
            eprintln!("rosterd: {}: warning: {warning}", change.job);
        }
    }
    form.show(|| json!({ "changes": json::changes(changes) }), || lines(changes))?;
    // Of several jobs some may have been changed all the same.
    let refused = |change: &&v1::JobChange| change.effect() == v1::JobEffect::Refused;
    match changes.iter().find(refused) {
        None => Ok(()),
        Some(first) => {
            let count = changes.iter().filter(refused).count();
            let what = format!("{count} of {} jobs refused and stay as they were", changes.len());
            Err(Failure::refused(first.code.as_str(), what))
        }
    }
}

fn lines(changes: &[v1::JobChange]) -> String {
    let of = |change: &v1::JobChange| -> String {
        let about = if change.job.is_empty() { String::new() } else { format!("{}: ", change.job) };
        let about = match change.effect() {
            v1::JobEffect::Refused => format!("{about}refused: {}: ", change.code),
            _ => about,
        };
        if change.fields.is_empty() {
            return change.lines.iter().map(|line| format!("{about}{line}\n")).collect();
        }
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".into());
        let field = |field: &v1::FieldChange| {
            let (old, new) = (value(&field.old_value), value(&field.new_value));
            format!("{about}{}: {old} -> {new}\n", field.field)
        };
        change.fields.iter().map(field).collect()
    };
    changes.iter().map(of).collect()
}
