//! What the edge asks of the history. The admin service alone calls it.

use rosterd_domain::id::{InstanceId, Item, JobName, Token};
use rosterd_domain::item::{Missed, Outcome, Source};
use rosterd_domain::time::Time;

use super::backend::Answer;

/// Which runs; what is `None` does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunQuery {
    /// Of this job.
    pub job: Option<JobName>,
    /// Of this item.
    pub item: Option<Item>,
    /// That ended so.
    pub outcome: Option<Outcome>,
    /// Started then or later.
    pub from: Option<Time>,
    /// Started before.
    pub to: Option<Time>,
    /// At most so many.
    pub size: usize,
    /// Where the last answer said that it goes on.
    pub token: Option<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RunView {
    pub job: JobName,
    pub item: Item,
    pub token: Token,
    pub fire: Time,
    pub source: Source,
    pub instance: InstanceId,
    /// `None`: no end of it is known.
    pub outcome: Option<Outcome>,
    pub started: Time,
    pub ended: Option<Time>,
    pub attempt: u32,
    pub error: String,
    pub output: String,
    /// Records processed and failed.
    pub counts: (u64, u64),
}

/// What became of a due time for one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing is known of it, nor of any later one.
    Pending,
    /// Nothing is known of it although something is of a later one.
    Unknown,
    /// Run, by the last of so many runs.
    Run,
    /// Merged into a later run.
    Misfired,
    /// Skipped by policy.
    Skipped,
    /// Missed.
    Missed(Missed),
}

/// A due time and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FireView {
    /// The due time.
    pub fire: Time,
    /// The item.
    pub item: Item,
    /// What became of it.
    pub fate: Fate,
    /// The last run, with what the history tells of it, and how many there were.
    pub run: Option<(RunView, u32)>,
}

/// Reads the history.
pub trait History: Send + Sync + 'static {
    /// Runs, latest first, and where the next page begins.
    fn runs(&self, query: RunQuery) -> Answer<'_, (Vec<RunView>, Option<String>)>;

    /// What became of each of the due times for each of the items, by due time, then item.
    fn fires<'a>(&'a self, job: &'a JobName, items: Vec<Item>, due: Vec<Time>) -> Answer<'a, Vec<FireView>>;
}
