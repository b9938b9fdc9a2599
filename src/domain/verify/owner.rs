//! Which instance had an item for a while: by its runs, or by an assignment.

/// An instance that had an item for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The job.
    pub job: String,
    /// The item.
    pub item: u32,
    /// The process.
    pub worker: String,
    /// The instance.
    pub instance: String,
    /// When its first run started; if it ran nothing, when it was assigned the item.
    pub from: u64,
    /// When its last run stopped, or the item was assigned to another; `None`: neither happened.
    pub until: Option<u64>,
    /// Its first run's token; 0: it ran nothing.
    pub first: u64,
    /// Its last run's token.
    pub last: u64,
    /// How many runs.
    pub runs: usize,
}
