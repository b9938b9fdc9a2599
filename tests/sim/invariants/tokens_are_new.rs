//! A run starts under a token above all tokens that runs of its item ever had, including those of an earlier job of
//! that name, and even if the store was restored from a copy or lost.
//!
//! Source: a fenced resource that has seen a higher token refuses all writes with a lower one, for good; etcd's
//! `--bump-revision`, for the same reason, after a restore.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName, Token};

use super::Invariant;
use crate::oracle::observer::AppliedStep;

/// State: the latest token of each item under which a run started.
#[derive(Default)]
pub struct TokensAreNew {
    latest: BTreeMap<(JobName, Item), Token>,
}

impl Invariant for TokensAreNew {
    fn name(&self) -> &'static str {
        "tokens_are_new"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let Some((run, token)) = &change.started else { continue };
            let before = self.latest.insert((change.job.clone(), change.item), *token);
            if let Some(before) = before.filter(|before| before >= token) {
                let (item, job, instance) = (change.item, &change.job, &run.instance);
                return Err(format!("item {item} of {job}: {instance} begins under {token} after {before}"));
            }
        }
        Ok(())
    }
}
