//! A run begins under a token above all that runs of its item ever had, also of a job of that name before, and also where the
//! store was put back from a copy or lost: what was given stays given, whatever remembers it.
//!
//! Source: a fenced resource that has seen a higher token refuses the writes of whoever comes with a lower one, for good; etcd's
//! `--bump-revision`, for the same reason, after a restore.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName, Token};

use super::Invariant;
use crate::watch::Step;

/// Kept: the latest token of each item under which something began.
#[derive(Default)]
pub struct TokensAreNew {
    latest: BTreeMap<(JobName, Item), Token>,
}

impl Invariant for TokensAreNew {
    fn name(&self) -> &'static str {
        "tokens_are_new"
    }

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
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
