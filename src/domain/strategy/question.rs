//! The question that a strategy gets, and the strategy itself.

use std::fmt;

use super::assignment::Assignment;
use crate::id::{InstanceId, JobName};

/// The input of a strategy.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The job whose items are assigned.
    pub job: &'a JobName,
    /// The instances that may own items. The order matters to some strategies; Elastic-Job lists ids in descending
    /// order.
    pub instances: &'a [InstanceId],
    /// How many items the job has: `0 … items-1`.
    pub items: u32,
    /// The current assignment. It may name instances that are gone, and items that the job no longer has.
    pub current: &'a Assignment,
}

/// A way to distribute items over instances.
///
/// The answer lists every instance of the question, including those without items, and no other. If there is an
/// instance, every item has exactly one owner; if there is none, the answer is empty. The same question always gets the
/// same answer.
pub trait Strategy: fmt::Debug + Send + Sync {
    /// The name used in a job's configuration.
    fn name(&self) -> &'static str;

    /// How it distributes items, for people: the text after "which".
    fn rule(&self, question: &Question<'_>) -> String;

    /// Answers the question.
    fn assign(&self, question: &Question<'_>) -> Assignment;
}
