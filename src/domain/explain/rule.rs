//! The rule that assigns a job's items, in words: each strategy describes itself.

use crate::strategy::{Question, Strategy};

use super::words::count;

/// How the strategy assigns the question's items.
pub(super) fn rule(strategy: &dyn Strategy, question: &Question<'_>) -> String {
    let (items, n) = (question.items as usize, question.instances.len());
    let shares = match (items / n.max(1), items % n.max(1)) {
        (each, 0) => format!("{each} each"),
        (0, more) => format!("one each for {more} of them"),
        (each, more) => format!("{each} each, and one more for {more} of them"),
    };
    format!(
        "{}, which {}, shares {} out among {}: {shares}.",
        strategy.name(),
        strategy.rule(question),
        count(items, "item"),
        count(n, "enabled instance")
    )
}
