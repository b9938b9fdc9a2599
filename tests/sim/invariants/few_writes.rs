//! A fire costs so many writes and no more: no record is written as it was, and of an item's fire a start and an end are
//! written, and both again for each time that its run crashed. Where nothing happens nothing is read.
//!
//! Source: Elastic-Job #2395, forty reads a second by each who waited; XXL-JOB #1693, a store that could not keep up with what
//! was written; PowerJob #761, rows by the million for what nobody could run.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::item::{Outcome, Source};
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;

use super::Invariant;
use crate::watch::{Change, Step};

/// A run's start, and its end.
const MOST: u32 = 2;
/// A run that crashed is taken over, and ends again.
const FOR_A_CRASH: u32 = 2;

/// Kept of each item.
#[derive(Default)]
pub struct FewWrites {
    fires: BTreeMap<(JobName, Item), Fire>,
}

/// The fire of an item's last run: when, whether an operator asked for it, how often the run began or ended, and how often it
/// crashed or was handed back.
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

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
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
            // An operator may ask in the second of a fire that the calendar has, before that or after it.
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

/// The fire whose run a change is about, if it is about one.
fn fire_of(change: &Change) -> Option<Time> {
    let started = change.started.as_ref().map(|(run, _)| run.fire);
    started.or(change.ended.as_ref().map(|(run, _)| run.fire))
}

/// What was read while nothing happened.
pub fn while_idle(reads: u64) -> Result<(), String> {
    if reads == 0 { Ok(()) } else { Err(format!("{reads} reads while nothing happened")) }
}
