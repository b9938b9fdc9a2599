//! The content of a coordinator's own node, which the other coordinators and people read, and the set of live
//! coordinators.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{CoordinatorId, JobName};
use rosterd_domain::rank::rank;
use rosterd_domain::time::{Mono, Time};
use serde::{Deserialize, Serialize};

use crate::io::event::ReadId;

/// A coordinator, as described by its own node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Where workers reach it; empty: they cannot.
    pub url: String,
    /// It is draining: it should lead nothing, and no worker should attach to it.
    pub draining: bool,
    /// Its version.
    pub version: String,
    /// When it started.
    pub started: Time,
    /// When it wrote this, by its own wall clock; `None`: its version does not write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Time>,
    /// How many jobs it leads, workers it hosts, and the longest delay from a scheduled time to its Trigger since the
    /// previous write; as of its last write.
    pub leads: u64,
    pub workers: u64,
    pub lag_ms: u64,
    /// How far its clock was ahead of the store's, or behind, at the previous write, if that was too much to fire.
    #[serde(skip_serializing_if = "is_zero")]
    pub clock_ahead_ms: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Member {
    /// Parses the data of a node.
    pub fn parse(data: &str) -> Self {
        // A member whose data cannot be read still exists.
        serde_json::from_str(data).unwrap_or_default()
    }
}

/// The live coordinators, and since when the set is unchanged.
#[derive(Debug, Default)]
pub(crate) struct Members {
    all: BTreeMap<CoordinatorId, Member>,
    /// Incremented whenever the set of possible leaders changes.
    changes: u64,
    /// Since when the set is unchanged.
    since: Mono,
    /// The read that this set is from; zero: none was answered yet.
    asked: ReadId,
}

impl Members {
    /// Stores the coordinators that were read. True: the set of possible leaders has changed.
    pub(crate) fn take(&mut self, asked: ReadId, read: BTreeMap<CoordinatorId, Arc<str>>, now: Mono) -> bool {
        self.asked = asked;
        let read: BTreeMap<_, _> = read.into_iter().map(|(id, data)| (id, Member::parse(&data))).collect();
        let changed =
            !self.candidates().eq(read.iter().filter(|(_, member)| !member.draining).map(|(id, _)| id));
        if changed {
            self.changes += 1;
            self.since = now;
        }
        self.all = read;
        changed
    }

    /// Incremented whenever the set of possible leaders changes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Since when the set is unchanged.
    pub(crate) fn since(&self) -> Mono {
        self.since
    }

    /// Returns the read that this set is from; zero: none was answered yet.
    pub(crate) fn asked(&self) -> ReadId {
        self.asked
    }

    pub(crate) fn contains(&self, id: &CoordinatorId) -> bool {
        self.all.contains_key(id)
    }

    /// The coordinators that may lead.
    fn candidates(&self) -> impl Iterator<Item = &CoordinatorId> {
        self.all.iter().filter(|(_, member)| !member.draining).map(|(id, _)| id)
    }

    /// Whether the coordinator is alive and not draining.
    pub(crate) fn is_candidate(&self, id: &CoordinatorId) -> bool {
        self.all.get(id).is_some_and(|member| !member.draining)
    }

    /// Returns the URLs of the other coordinators that workers can attach to.
    pub(crate) fn others(&self, me: &CoordinatorId) -> Vec<String> {
        let others = self.all.iter().filter(|(id, member)| *id != me && !member.draining);
        others.map(|(_, member)| member.url.clone()).filter(|url| !url.is_empty()).collect()
    }

    /// Whether there is another coordinator.
    pub(crate) fn has_others(&self, me: &CoordinatorId) -> bool {
        self.all.keys().any(|id| id != me)
    }

    /// Returns how many others rank before this one for a job.
    pub(crate) fn rank(&self, job: &JobName, me: &CoordinatorId) -> usize {
        rank(job, me, self.candidates())
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
    fn a_draining_coordinator_is_not_a_candidate_and_changes_the_membership() {
        let id = |name| CoordinatorId::new(name).unwrap();
        let data = |draining| {
            let member = Member { url: "http://a".into(), draining, ..Member::default() };
            Arc::<str>::from(serde_json::to_string(&member).unwrap())
        };
        let (a, b, job) = (id("a"), id("b"), JobName::new("j").unwrap());
        let (mut members, now) = (Members::default(), Mono::default());
        members.take(1, [(a.clone(), data(false)), (b.clone(), data(false))].into(), now);
        let first = if members.rank(&job, &a) == 0 { (&a, &b) } else { (&b, &a) };
        assert_eq!((members.changes, members.rank(&job, first.1)), (1, 1));
        members.take(2, [(a.clone(), data(false)), (b.clone(), data(false))].into(), now);
        assert_eq!(members.changes, 1);
        members.take(3, [(first.0.clone(), data(true)), (first.1.clone(), data(false))].into(), now);
        assert_eq!((members.changes, members.rank(&job, first.1)), (2, 0));
        assert!(members.contains(first.0) && members.others(first.1).is_empty());
    }
}
