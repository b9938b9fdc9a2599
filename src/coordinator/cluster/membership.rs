//! Writes this coordinator's own node, and reads those of the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::CoordinatorId;
use rosterd_domain::time::Time;
use rosterd_runtime::version::version;

use crate::cluster::Cluster;
use crate::cluster::members::Member;
use crate::io::Io;
use crate::io::event::ReadId;

impl Cluster {
    /// Returns the data of this coordinator's own node.
    pub(crate) fn myself(&mut self, io: &Io) -> Arc<str> {
        let lag = std::mem::take(&mut self.longest_lag);
        let good = self.calendar_is_good(io.settings.max_clock_difference);
        let member = Member {
            url: io.settings.advertise.clone(),
            draining: self.is_stopping(),
            version: version(),
            started: self.clock.up_since,
            told: Some(io.now.wall),
            leads: self.counts.leads,
            workers: self.counts.workers,
            lag_ms: u64::try_from(lag.as_millis()).unwrap_or(u64::MAX),
            clock_ahead_ms: if good { 0 } else { self.clock_ahead() },
        };
        serde_json::to_string(&member).unwrap_or_default().into()
    }

    /// A run is sent: notes how late it is.
    pub(crate) fn note_lag(&mut self, io: &Io, due: Time) {
        let lag: Duration = io.now.wall.since(due);
        self.longest_lag = self.longest_lag.max(lag);
    }

    /// The coordinators were read. True: the set of possible leaders has changed.
    pub(crate) fn members_read(
        &mut self,
        io: &mut Io,
        asked: ReadId,
        read: BTreeMap<CoordinatorId, Arc<str>>,
    ) -> bool {
        let changed = self.members.take(asked, read, io.now.mono);
        // An earlier session of this coordinator may have taken the node with it when it ended.
        if self.life.registered && !self.is_stopping() && !self.members.contains(&io.settings.id) {
            self.prove(io);
        }
        changed
    }
}
