//! What a coordinator writes of itself into its own node, for the others and for people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{CoordinatorId, JobName};
use rosterd_domain::rank::rank;
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::event::ReadId;
use super::node::Node;
use rosterd_runtime::version::version;

/// A coordinator as its own node tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Where workers reach it; empty: nowhere.
    pub url: String,
    /// It is leaving: it should lead nothing, and no worker should come to it.
    pub draining: bool,
    /// Its version.
    pub version: String,
    /// When it started.
    pub started: Time,
    /// When it wrote this, by its own calendar; none: a version that did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Time>,
    /// How many jobs it leads, workers it hosts, and the longest time from a scheduled time to its Trigger since it wrote
    /// last; as of its last write.
    pub leads: u64,
    pub workers: u64,
    pub lag_ms: u64,
    /// By how much its clock was ahead of the store's when it wrote before, or behind, if that was too much to fire.
    #[serde(skip_serializing_if = "is_zero")]
    pub clock_ahead_ms: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Member {
    /// What stands in a node.
    pub fn parse(data: &str) -> Self {
        // One that says nothing that can be read is still there.
        serde_json::from_str(data).unwrap_or_default()
    }
}

/// The coordinators that live, and since when they are these.
#[derive(Debug, Default)]
pub(crate) struct Members {
    all: BTreeMap<CoordinatorId, Member>,
    /// Grows whenever who may lead has changed.
    pub(crate) changes: u64,
    /// The reading that this is from; zero: none was answered yet.
    pub(crate) asked: ReadId,
}

impl Members {
    /// Takes what was read.
    pub(crate) fn take(&mut self, asked: ReadId, read: BTreeMap<CoordinatorId, Arc<str>>) {
        self.asked = asked;
        let read: BTreeMap<_, _> = read.into_iter().map(|(id, data)| (id, Member::parse(&data))).collect();
        if !self.candidates().eq(read.iter().filter(|(_, member)| !member.draining).map(|(id, _)| id)) {
            self.changes += 1;
        }
        self.all = read;
    }

    pub(crate) fn contains(&self, id: &CoordinatorId) -> bool {
        self.all.contains_key(id)
    }

    /// Who may lead.
    fn candidates(&self) -> impl Iterator<Item = &CoordinatorId> {
        self.all.iter().filter(|(_, member)| !member.draining).map(|(id, _)| id)
    }

    /// Whether it is there, and is not about to leave.
    pub(crate) fn is_candidate(&self, id: &CoordinatorId) -> bool {
        self.all.get(id).is_some_and(|member| !member.draining)
    }

    /// Where else a worker may go.
    pub(crate) fn others(&self, me: &CoordinatorId) -> Vec<String> {
        let others = self.all.iter().filter(|(id, member)| *id != me && !member.draining);
        others.map(|(_, member)| member.url.clone()).filter(|url| !url.is_empty()).collect()
    }

    /// Whether anybody else is there.
    pub(crate) fn has_others(&self, me: &CoordinatorId) -> bool {
        self.all.keys().any(|id| id != me)
    }

    /// How many others should rather lead a job.
    pub(crate) fn rank(&self, job: &JobName, me: &CoordinatorId) -> usize {
        rank(job, me, self.candidates())
    }
}

impl Node {
    /// What this coordinator says of itself.
    pub(super) fn myself(&mut self) -> Arc<str> {
        let lag = std::mem::take(&mut self.longest_lag);
        let good = self.calendar_is_good(self.settings.max_clock_difference);
        let member = Member {
            url: self.settings.advertise.clone(),
            draining: self.stopping,
            version: version(),
            started: self.up_since,
            told: Some(self.now.wall),
            leads: self.count_jobs().1 as u64,
            workers: self.workers.len() as u64,
            lag_ms: u64::try_from(lag.as_millis()).unwrap_or(u64::MAX),
            clock_ahead_ms: if good { 0 } else { self.clock_ahead() },
        };
        serde_json::to_string(&member).unwrap_or_default().into()
    }

    /// A run is sent: how late is it?
    pub(super) fn note_lag(&mut self, due: Time) {
        let lag: Duration = self.now.wall.since(due);
        self.longest_lag = self.longest_lag.max(lag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let member = Member {
            url: "http://a".into(),
            draining: true,
            leads: 3,
            told: Some(Time::from_seconds(7)),
            ..Member::default()
        };
        assert_eq!(Member::parse(&serde_json::to_string(&member).unwrap()), member);
        assert_eq!(Member::parse(r#"{"url":"http://an.older.one"}"#).told, None);
        assert_eq!(Member::parse("http://an.older.one"), Member::default());
        let newer = r#"{"url":"http://a","draining":true,"leads":3,"zone":{"of":"a later version"}}"#;
        assert_eq!(Member::parse(newer), Member { told: None, ..member });
    }

    #[test]
    fn who_drains_is_no_candidate_and_changes_the_membership() {
        let id = |name| CoordinatorId::new(name).unwrap();
        let data = |draining| {
            let member = Member { url: "http://a".into(), draining, ..Member::default() };
            Arc::<str>::from(serde_json::to_string(&member).unwrap())
        };
        let (a, b, job) = (id("a"), id("b"), JobName::new("j").unwrap());
        let mut members = Members::default();
        members.take(1, [(a.clone(), data(false)), (b.clone(), data(false))].into());
        let first = if members.rank(&job, &a) == 0 { (&a, &b) } else { (&b, &a) };
        assert_eq!((members.changes, members.rank(&job, first.1)), (1, 1));
        members.take(2, [(a.clone(), data(false)), (b.clone(), data(false))].into());
        assert_eq!(members.changes, 1);
        members.take(3, [(first.0.clone(), data(true)), (first.1.clone(), data(false))].into());
        assert_eq!((members.changes, members.rank(&job, first.1)), (2, 0));
        assert!(members.contains(first.0) && members.others(first.1).is_empty());
    }
}
