//! A fire costs a bounded number of writes: no record is written unchanged, and an item's fire costs a start and an
//! end, and both again for each crash of its run. An idle system reads nothing.
//!
//! Source: Elastic-Job #2395, forty reads a second by each waiting process; XXL-JOB #1693, a store that could not keep
//! up with the writes; PowerJob #761, millions of rows for runs that no worker could run.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::item::{Outcome, Source};
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;

use super::Invariant;
use crate::oracle::observer::{AppliedStep, RecordChange};

/// A run's start, and its end.
const MOST: u32 = 2;
/// A run that crashed is taken over, and ends again.
const FOR_A_CRASH: u32 = 2;

/// State for each item.
#[derive(Default)]
pub struct FewWrites {
    fires: BTreeMap<(JobName, Item), Fire>,
}

/// The fire of an item's last run: when, whether an operator triggered it, how often the run started or ended, and how
/// often it crashed or was handed back.
#[derive(Default)]
struct Fire {
    at: Time,
    by_hand: bool,
    writes: u32,
    crashes: u32,
}

impl Invariant for FewWrites {
    fn name(&self) -> &'static str {
        "few_writes"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            // It may fire in the same second.
            if let Write::CreateJob { job, .. } = write {
                self.fires.retain(|(of, _), _| of != job);
            }
        }
        for change in step.changes {
            let of = format!("item {} of {}", change.item, change.job);
            if change.before.as_ref() == Some(&change.after) {
                return Err(format!("{of}: its record is written as it was"));
            }
            let Some(fire) = fire_of(change) else { continue };
            let known = self.fires.entry((change.job.clone(), change.item)).or_default();
            let source = change.started.as_ref().map(|(run, _)| run.source);
            let by_hand = source == Some(Source::Manual);
            // An operator may trigger it in the second of a scheduled fire, before it or after it.
            let by_calendar = matches!(source, Some(Source::NormalTrigger | Source::Misfire));
            if known.at != fire || by_hand || (known.by_hand && by_calendar) {
                *known = Fire { at: fire, by_hand, ..Fire::default() };
            }
            known.writes += 1;
            let crashed = |outcome| matches!(outcome, Outcome::Crashed | Outcome::Cancelled);
            known.crashes +=
                u32::from(change.ended.as_ref().is_some_and(|(_, ended)| crashed(ended.outcome)));
            let Fire { writes, crashes, .. } = *known;
            if writes > MOST + FOR_A_CRASH * crashes {
                return Err(format!(
                    "{of}: {writes} writes for the fire of {fire}, which crashed {crashes} times"
                ));
            }
        }
        Ok(())
    }
}

/// The fire whose run a change concerns, if any.
fn fire_of(change: &RecordChange) -> Option<Time> {
    let started = change.started.as_ref().map(|(run, _)| run.fire);
    started.or(change.ended.as_ref().map(|(run, _)| run.fire))
}

/// Checks the number of reads while nothing happened.
pub fn while_idle(reads: u64) -> Result<(), String> {
    if reads == 0 { Ok(()) } else { Err(format!("{reads} reads while nothing happened")) }
}
