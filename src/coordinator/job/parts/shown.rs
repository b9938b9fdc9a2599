//! The state of a job that monitoring and people were last told.

use std::collections::BTreeMap;

use rosterd_domain::id::Item;
use rosterd_domain::time::Time;
use rosterd_domain::unattended::Unattended;

use crate::io::standing::Standing;

/// The state of a job that monitoring and people were last told.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// What is unattended, as computed since its last turn.
    unattended: Option<Unattended>,
    /// The job had a turn since monitoring was last told.
    turned: bool,
    /// The standing that monitoring was last told.
    standing: Option<Option<Standing>>,
    /// Items whose last fire lies in the future, for which an alarm was raised.
    silent_until: BTreeMap<Item, Time>,
}

impl Shown {
    /// The job had a turn: earlier results may be outdated.
    pub(crate) fn had_turn(&mut self) {
        self.unattended = None;
        self.turned = true;
    }

    /// Returns whether the job had a turn since the last call.
    pub(crate) fn take_turned(&mut self) -> bool {
        std::mem::take(&mut self.turned)
    }

    /// Records the standing that monitoring is told; false: it is unchanged.
    pub(crate) fn tells(&mut self, standing: Option<Standing>) -> bool {
        self.standing.replace(standing) != Some(standing)
    }

    /// Whether monitoring may know the job.
    pub(crate) fn may_be_known(&self) -> bool {
        self.standing != Some(None)
    }

    /// Returns what is unattended, if that was computed since the job's last turn.
    pub(crate) fn unattended(&self) -> Option<Unattended> {
        self.unattended
    }

    pub(crate) fn found_unattended(&mut self, found: Unattended) {
        self.unattended = Some(found);
    }

    /// Records that an alarm is raised for an item that is silent until `until`; false: it was raised before.
    pub(crate) fn alarms(&mut self, item: Item, until: Time) -> bool {
        self.silent_until.insert(item, until) != Some(until)
    }
}
