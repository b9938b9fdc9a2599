//! The ledger of fires: every scheduled time that was to be expected, and the one thing that became of it.
//! A pure comparison of what the schedule says with what the history holds; the reader feeds it.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{InstanceId, Item, Token};
use rosterd_domain::item::{Missed, Source};
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;

use super::rows::{RunRow, RunState, UnrunRow};

/// What became of a scheduled time for one item.
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
    /// Nothing is known of it, nor of any later one: it is to come, or waits.
    Pending,
    /// Nothing is known of it although something is of a later one: the item was not there yet, the schedule
    /// was another, or the history lost it. The counters in the item's record are the truth.
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

    /// Of what two histories hold of one scheduled time, each of what its own coordinator did, this comes first: as within
    /// one, a run before what a gap says. That one knows of a later scheduled time and of nothing here is less than anything.
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

/// A scheduled time of one item, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FireRow {
    /// The scheduled time.
    pub fire: Time,
    /// The item.
    pub item: Item,
    /// What became of it.
    pub became: Fate,
    /// Why it was missed.
    pub reason: Option<Missed>,
    /// The run: its own, or the one that it was merged into, as far as that is known; the last of them if it
    /// crashed and was run again.
    pub run: Option<FireRun>,
}

impl FireRow {
    /// Why it was not run on its own, for people; none: it was run.
    pub fn why_not(&self) -> Option<String> {
        Some(match (self.became, &self.run) {
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
    /// Who ran it.
    pub instance: InstanceId,
    /// How many runs there were: more than one after failover.
    pub runs: u32,
}

/// One item's side of the ledger.
pub(super) struct Ledger {
    item: Item,
    /// Runs by scheduled time.
    fires: BTreeMap<Time, Fire>,
    misfired: Spans<()>,
    skipped: Spans<()>,
    missed: Spans<Missed>,
    /// The latest scheduled time that anything is known of.
    known: Option<Time>,
    /// Scheduled times whose merging into a later run was called off.
    dropped: BTreeSet<Time>,
}

/// Gaps by their first scheduled time: the last one, and why.
type Spans<T> = BTreeMap<Time, (Time, T)>;

struct Fire {
    run: FireRun,
    /// There was a run for the scheduled time itself, or one for scheduled times merged.
    own: bool,
    merged: bool,
}

impl Ledger {
    /// Of runs in the order of their tokens, the item's gaps, and the latest scheduled time that anything is known of.
    pub(super) fn new(item: Item, runs: Vec<RunRow>, gaps: Vec<UnrunRow>, known: Option<Time>) -> Self {
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
        for UnrunRow { first, latest, became, .. } in gaps {
            match became {
                FireResult::Misfired => drop(misfired.insert(first, (latest, ()))),
                FireResult::Skipped => drop(skipped.insert(first, (latest, ()))),
                FireResult::Missed(reason) => drop(missed.insert(first, (latest, reason))),
            }
        }
        let dropped = missed.keys().filter(|first| around(&misfired, **first).is_some()).copied().collect();
        Self { item, fires, misfired, skipped, missed, known, dropped }
    }

    /// What became of a scheduled time. Whatever the history holds, it is one thing: a run of its own comes before
    /// what a gap says, and that it was missed after all before that it was to be merged.
    pub(super) fn fate(&self, due: Time) -> FireRow {
        let fire = self.fires.get(&due);
        let run = fire.map(|fire| fire.run.clone());
        let row = |became, reason, run| FireRow { fire: due, item: self.item, became, reason, run };
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
            // The run that crashed is not in the history, the one that took it over is.
            Some(run) => row(Fate::Run, None, Some(run)),
            None if self.known.is_some_and(|known| due < known) => row(Fate::Unknown, None, None),
            None => row(Fate::Pending, None, None),
        }
    }

    /// The first misfire run from the scheduled time on, unless the merging was called off before it.
    fn merged_into(&self, due: Time) -> Option<FireRun> {
        let (fire, found) = self.fires.range(due..).find(|(_, fire)| fire.merged)?;
        let called_off = self.dropped.range(due..*fire).next().is_some();
        (!called_off).then(|| found.run.clone())
    }
}

/// Why the gap around a scheduled time is one, if there is one. Gaps of one kind overlap only where a last fire was set
/// back and scheduled times were accounted for again, so a few steps back are enough.
fn around<T: Copy>(spans: &Spans<T>, due: Time) -> Option<T> {
    spans.range(..=due).rev().take(8).find(|(_, (latest, _))| *latest >= due).map(|(_, (_, why))| *why)
}
