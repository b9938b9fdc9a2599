//! The ledger of fires: every expected scheduled time, with exactly one result. A pure comparison of what the schedule
//! says with what the history holds; the reader feeds it.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{InstanceId, Item, Token};
use rosterd_domain::item::{Missed, Source};
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;

use super::rows::{NotRunRow, RunRow, RunState};

/// The result of a scheduled time for one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It was run.
    Run,
    /// It was merged into a later run.
    Misfired,
    /// It was skipped by the job's policy.
    Skipped,
    /// It was missed.
    Missed,
    /// Nothing is known of it, nor of any later one: it lies ahead or is waiting.
    Pending,
    /// Nothing is known of it, but something is known of a later one: the item did not exist yet, the schedule was
    /// another, or the history lost it. The counters in the item's record are the truth.
    Unknown,
}

impl Fate {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Misfired => "misfired",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::Pending => "pending",
            Self::Unknown => "unknown",
        }
    }

    /// Whether this result wins over the other if two coordinators' histories, each of its own actions, disagree about
    /// one scheduled time. As within one history, a run wins over a gap, and whatever is known over
    /// `Unknown` and `Pending`.
    pub fn outweighs(self, other: Self) -> bool {
        let weight = |fate| match fate {
            Self::Run => 5,
            Self::Missed => 4,
            Self::Skipped => 3,
            Self::Misfired => 2,
            Self::Unknown => 1,
            Self::Pending => 0,
        };
        weight(self) > weight(other)
    }
}

/// A scheduled time of one item, and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FireRow {
    /// The scheduled time.
    pub fire: Time,
    /// The item.
    pub item: Item,
    /// Its result.
    pub fate: Fate,
    /// Why it was missed.
    pub reason: Option<Missed>,
    /// The run: its own, or the one that it was merged into if that is known; the last of them if it crashed and was
    /// run again.
    pub run: Option<FireRun>,
}

impl FireRow {
    /// Why it had no run of its own, for people; `None`: it had one.
    pub fn why_not(&self) -> Option<String> {
        Some(match (self.fate, &self.run) {
            (Fate::Run, _) => return None,
            (Fate::Misfired, Some(run)) => {
                format!("The run before it had not ended: it was merged into the run of token {}.", run.token.0)
            }
            (Fate::Misfired, None) => "The run before it had not ended: it is merged into a later run.".to_owned(),
            (Fate::Skipped, _) => "The run before it had not ended, and the job skips such times.".to_owned(),
            (Fate::Missed, _) => self.reason.map_or("It was missed.", Missed::sentence).to_owned(),
            (Fate::Pending, _) => "It has not begun, and nothing is recorded of it yet.".to_owned(),
            (Fate::Unknown, _) => {
                "Nothing is known of it here: another coordinator may have it in its history, or the schedule was another."
                    .to_owned()
            }
        })
    }
}

/// The run of a scheduled time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FireRun {
    /// Its token.
    pub token: Token,
    /// Why it existed.
    pub source: Source,
    /// Its state.
    pub state: RunState,
    /// The instance that ran it.
    pub instance: InstanceId,
    /// How many runs there were: more than one after failover.
    pub runs: u32,
}

/// The ledger of one item.
pub(super) struct Ledger {
    item: Item,
    /// Runs by scheduled time.
    fires: BTreeMap<Time, Fire>,
    misfired: Spans<()>,
    skipped: Spans<()>,
    missed: Spans<Missed>,
    /// The latest scheduled time that anything is known of.
    known: Option<Time>,
    /// Scheduled times that were merged into a later run which then was cancelled.
    dropped: BTreeSet<Time>,
}

/// Gaps by their first scheduled time: the last one, and why.
type Spans<T> = BTreeMap<Time, (Time, T)>;

struct Fire {
    run: FireRun,
    /// `own`: there was a run for the scheduled time itself; `merged`: one for scheduled times that were merged.
    own: bool,
    merged: bool,
}

impl Ledger {
    /// Built from the runs in the order of their tokens, the item's gaps, and the latest scheduled time that anything
    /// is known of.
    pub(super) fn new(item: Item, runs: Vec<RunRow>, gaps: Vec<NotRunRow>, known: Option<Time>) -> Self {
        let mut fires: BTreeMap<Time, Fire> = BTreeMap::new();
        for row in runs {
            let RunRow { fire, source, token, state, instance, .. } = row;
            let before = fires.remove(&fire);
            let own = source == Source::NormalTrigger || before.as_ref().is_some_and(|before| before.own);
            let merged = source == Source::Misfire || before.as_ref().is_some_and(|before| before.merged);
            let runs = before.map_or(0, |before| before.run.runs) + 1;
            fires.insert(fire, Fire { run: FireRun { token, source, state, instance, runs }, own, merged });
        }
        let (mut misfired, mut skipped, mut missed) = (Spans::new(), Spans::new(), Spans::new());
        for NotRunRow { first, latest, result, .. } in gaps {
            match result {
                FireResult::Misfired => drop(misfired.insert(first, (latest, ()))),
                FireResult::Skipped => drop(skipped.insert(first, (latest, ()))),
                FireResult::Missed(reason) => drop(missed.insert(first, (latest, reason))),
            }
        }
        let dropped = missed.keys().filter(|first| around(&misfired, **first).is_some()).copied().collect();
        Self { item, fires, misfired, skipped, missed, known, dropped }
    }

    /// The result of a scheduled time. Whatever the history holds, there is exactly one: a run of its own wins over a
    /// gap, and a later "missed" wins over the earlier "merged".
    pub(super) fn fate(&self, due: Time) -> FireRow {
        let fire = self.fires.get(&due);
        let run = fire.map(|fire| fire.run.clone());
        let row = |fate, reason, run| FireRow { fire: due, item: self.item, fate, reason, run };
        if fire.is_some_and(|fire| fire.own) {
            return row(Fate::Run, None, run);
        }
        if let Some(reason) = around(&self.missed, due) {
            return row(Fate::Missed, Some(reason), None);
        }
        if around(&self.skipped, due).is_some() {
            return row(Fate::Skipped, None, None);
        }
        if fire.is_some_and(|fire| fire.merged) || around(&self.misfired, due).is_some() {
            return row(Fate::Misfired, None, self.merged_into(due));
        }
        match run {
            // The history lacks the crashed run, but has the failover run.
            Some(run) => row(Fate::Run, None, Some(run)),
            None if self.known.is_some_and(|known| due < known) => row(Fate::Unknown, None, None),
            None => row(Fate::Pending, None, None),
        }
    }

    /// The first misfire run from the scheduled time on, unless the merge was cancelled before it.
    fn merged_into(&self, due: Time) -> Option<FireRun> {
        let (fire, found) = self.fires.range(due..).find(|(_, fire)| fire.merged)?;
        let called_off = self.dropped.range(due..*fire).next().is_some();
        (!called_off).then(|| found.run.clone())
    }
}

/// The reason of the gap around a scheduled time, if there is one. Gaps of one kind overlap only if a last fire was set
/// back and scheduled times were accounted for again, so a few steps back are enough.
fn around<T: Copy>(spans: &Spans<T>, due: Time) -> Option<T> {
    spans.range(..=due).rev().take(8).find(|(_, (latest, _))| *latest >= due).map(|(_, (_, why))| *why)
}
