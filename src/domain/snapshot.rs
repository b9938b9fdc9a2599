//! A job as the registry holds it at one revision: the input of every decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{
    CommandName, CoordinatorId, Epoch, Generation, InstanceId, Item, Revision, ServerAddress, StreamNumber,
    Token, TriggerId, Version,
};
use crate::item::Records;
use crate::time::Time;

/// A job's decision state, undecoded where a foreign tool may have written it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobNodes {
    /// The revision at which all of this was read.
    pub revision: Revision,
    /// The incarnation's name; a job without one is being removed, or was created by another tool.
    pub incarnation: Option<Arc<str>>,
    /// The number of the transaction that created the job.
    pub created: Revision,
    /// The token at which a new record starts: `created` plus the offset of [`Numbering`].
    pub base: Token,
    /// The data of the job's own node.
    pub handler_type: Arc<str>,
    /// `config` as found; goes with the incarnation.
    pub config: Option<Node>,
    /// `rosterd/policy` as found; absent if another tool created the job.
    pub policy: Option<Node>,
    /// Scheduled fires are held.
    pub paused: bool,
    /// `servers/{address}`: whether it is enabled (anything but DISABLED is).
    pub servers: BTreeMap<ServerAddress, bool>,
    /// `instances/{id}`.
    pub instances: BTreeMap<InstanceId, InstanceSeen>,
    /// `leader/election/instance`, and whether it belongs to this session.
    pub leader: Option<(CoordinatorId, bool)>,
    /// The version of `leader/election`.
    pub epoch: Epoch,
    /// The version of `sharding`.
    pub generation: Generation,
    /// The data of `sharding`.
    pub assignment: Arc<[u8]>,
    /// The version of `leader/sharding/necessary`.
    pub necessary: Option<Version>,
    /// Items below `leader/failover/items`.
    pub failover: BTreeSet<Item>,
    /// Manual triggers that wait, by item.
    pub triggers: BTreeMap<Item, TriggerNode>,
    /// The announcements of the latest fires.
    pub announced: BTreeMap<Stage, Announced>,
    /// Commands to hosts of workers, by name.
    pub commands: BTreeMap<CommandName, Command>,
    /// Commands of older tools to run an instance's items.
    pub foreign_triggers: BTreeMap<InstanceId, ForeignTrigger>,
}

/// The marks of disabled items, which other tools read and write, with the assignment at the same revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switches {
    /// The incarnation's name.
    pub incarnation: Option<Arc<str>>,
    /// The version of `sharding`.
    pub generation: Generation,
    /// For each item below `sharding`, whether `sharding/{item}/disabled` exists.
    pub disabled: BTreeMap<Item, bool>,
}

/// How an older tool requests that an instance runs its items: one way, the other, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForeignTrigger {
    /// By the node `trigger/{id}`.
    pub node: bool,
    /// By the data TRIGGER of `instances/{id}`, at this version of it.
    pub data: Option<Version>,
}

/// Which of a fire's two announcements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Before any item of it runs.
    Started,
    /// After the last one has completed.
    Completed,
}

/// The data of `guarantee/started` and `guarantee/completed`: the latest announced fire, and the instance that gets the
/// callback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Which fire.
    pub fire: Time,
    /// The name of the callback: an instance that is asked again repeats its answer.
    pub callback: String,
    /// The instance that is asked; `None`: none is.
    pub instance: Option<InstanceId>,
    /// It was answered, or timed out.
    pub answered: bool,
}

/// A node's data and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// As found; must be treated as hostile.
    pub data: Arc<[u8]>,
    /// How often it was set.
    pub version: Version,
}

/// `instances/{id}` as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSeen {
    /// Whether it is an ephemeral node of this session.
    pub mine: bool,
    /// `rosterd/instances/{id}`; absent for a foreign instance (a JVM of Elastic-Job).
    pub node: Option<InstanceNode>,
}

/// How the tokens of a namespace are numbered. A store counts its transactions, and tokens start at such a number; if
/// jobs were imported from another store, whose numbers were higher, an offset is added so that tokens continue to
/// increase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    /// The offset: what is added to the number of a transaction.
    pub offset: u64,
    /// The version of its node; `None`: there never was an offset.
    pub version: Option<Version>,
    /// The revision of the last transaction.
    pub revision: Revision,
}

impl Numbering {
    /// An upper bound of all tokens given so far.
    pub fn ceiling(&self) -> Token {
        Token(self.offset.saturating_add(self.revision.0))
    }

    /// The offset that ensures that no token up to `tokens` is given again; `None`: that is ensured already. A token
    /// never grows by more than one in a transaction, so tokens that are given later stay below those that start later.
    pub fn raised_above(&self, tokens: Token) -> Option<u64> {
        (self.ceiling() < tokens).then(|| tokens.0.saturating_sub(self.revision.0))
    }
}

/// Everything that is kept of a job, at one revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    /// The job and its records.
    pub snapshot: Snapshot,
    /// The offsets of the items.
    pub offsets: BTreeMap<Item, Arc<[u8]>>,
}

/// A job with the records of all its items.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The decision state.
    pub nodes: JobNodes,
    /// Every record that exists, including those of surplus items.
    pub records: Records,
}

/// `rosterd/instances/{id}`: what Elastic-Job's own node has no field for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceNode {
    /// The address that the worker stated.
    pub address: ServerAddress,
    /// How many runs the worker accepts at a time, over all its jobs.
    pub slots: u32,
    /// The client library.
    #[serde(default)]
    pub client: String,
    /// The worker's labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The coordinator at which its stream ends.
    pub host: CoordinatorId,
}

/// `rosterd/triggers/{item}`: a manual trigger that waits for its item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerNode {
    /// The same for all items of one trigger.
    pub id: TriggerId,
    /// When it was requested: the fire time of its runs.
    pub at: Time,
}

/// `rosterd/commands/{name}`: a request to the coordinator that hosts a worker, from another coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Stop a run.
    Cancel { item: Item, token: Token },
    /// Drain a worker, which has to stop its runs after this long.
    Drain { instance: InstanceId, grace_ms: u64 },
    /// Shut an instance down: its worker has to give the job up, and may not return to it until it has confirmed that.
    Shutdown { instance: InstanceId },
    /// Somebody waits until user code of a run has started, or the run is over.
    AwaitStart { item: Item, token: Token },
}

impl Command {
    /// Whether it shuts this instance down.
    pub fn shuts_down(&self, whom: &InstanceId) -> bool {
        matches!(self, Self::Shutdown { instance } if instance == whom)
    }

    /// The instance that is to drain, or to give the job up.
    pub fn instance(&self) -> Option<&InstanceId> {
        match self {
            Self::Drain { instance, .. } | Self::Shutdown { instance } => Some(instance),
            Self::Cancel { .. } | Self::AwaitStart { .. } => None,
        }
    }
}

/// A worker's attachment: the coordinator that acts for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The coordinator that hosts the worker.
    pub host: CoordinatorId,
    /// The host's registry session: a restarted coordinator has another one.
    pub session: String,
    /// The stream of the worker.
    pub stream: StreamNumber,
    /// It gets no new runs: it is draining.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// It was asked to drain, and to stop its runs after this long; its host tells it. Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave_grace_ms: Option<u64>,
    /// A digest of the key that the worker must present to come back.
    pub resume_key: String,
    /// The name of the credential that the worker used: it cannot come back with another. Absent if authentication was
    /// off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The address that the worker stated: together with its name, its instance id.
    pub address: ServerAddress,
    /// The worker's lease, shorter than the default if a job asks for that. Milliseconds.
    pub lease_ms: u64,
}

impl Attachment {
    /// The lease as a duration.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_about_one_instance_or_about_a_run() {
        let [one, other] = ["a@-@1", "a@-@2"].map(|id| InstanceId::new(id).unwrap());
        let shutdown = Command::Shutdown { instance: one.clone() };
        let drain = Command::Drain { instance: one.clone(), grace_ms: 5 };
        let cancel = Command::Cancel { item: Item(1), token: Token(7) };
        assert!(shutdown.shuts_down(&one) && !shutdown.shuts_down(&other) && !drain.shuts_down(&one));
        assert_eq!([&shutdown, &drain, &cancel].map(Command::instance), [Some(&one), Some(&one), None]);
    }

    #[test]
    fn what_was_added_to_the_last_transaction_is_the_highest_token() {
        let at = |offset| Numbering { offset, version: None, revision: Revision(7) }.ceiling();
        assert_eq!([at(0), at(3), at(u64::MAX)], [Token(7), Token(10), Token(u64::MAX)]);
    }

    #[test]
    fn a_lease_is_stated_in_milliseconds() {
        let attachment = Attachment {
            host: CoordinatorId::new("c").unwrap(),
            session: String::new(),
            stream: StreamNumber(1),
            draining: false,
            leave_grace_ms: None,
            resume_key: String::new(),
            principal: None,
            address: ServerAddress::new("a").unwrap(),
            lease_ms: 1500,
        };
        assert_eq!(attachment.lease(), Duration::from_millis(1500));
    }
}
