//! From steps on a tree to operations that ZooKeeper knows: create, set, delete and check.
//!
//! | step | encoded as |
//! | --- | --- |
//! | check exists | check of any version |
//! | check absent | create and delete; nothing if the same transaction creates the node anyway |
//! | put, mirror, persistent | set if it is believed to exist, else create |
//! | put of a coordinator's own node | set if this session created it, so that a proof causes no hints, else create |
//! | put, mirror, ephemeral | delete and create if it is believed to exist, else create: a set would leave it to the session that owns it |
//! | ensure | check if it is believed to exist, else create |
//! | remove | delete, unless a read right before, or this transaction, says that it is gone |
//! | sweep | `config` absent; deletes of what a read right before found |
//!
//! A pure function of a transaction and of the cache of existing nodes. It reads nothing and sends nothing.

use std::collections::HashMap;
use std::sync::Arc;

use super::existence::{ExistenceCache, Fresh, NodeKind};
use crate::paths::Path;
use crate::tree::Op;

/// An operation of a `multi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MultiOp {
    Check { path: Path, version: i32 },
    Create { path: Path, data: Arc<[u8]>, ephemeral: bool },
    Set { path: Path, data: Arc<[u8]>, version: Option<i32> },
    Delete { path: Path, version: Option<i32> },
}

impl MultiOp {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Check { path, .. }
            | Self::Create { path, .. }
            | Self::Set { path, .. }
            | Self::Delete { path, .. } => path,
        }
    }

    /// Its maximum size in a packet: names, numbers and the access list of the node.
    pub(super) fn size(&self) -> usize {
        let data = match self {
            Self::Create { data, .. } => data.len() + 56,
            Self::Set { data, .. } => data.len() + 8,
            Self::Check { .. } | Self::Delete { .. } => 4,
        };
        self.path().as_str().len() + 16 + data
    }
}

/// A transaction as operations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) steps: Vec<MultiOp>,
    /// For each operation, which step of the transaction it comes from.
    pub(super) origins: Vec<usize>,
    /// Which of the nodes that it touches exist afterwards.
    pub(super) after: HashMap<Path, Option<NodeKind>>,
}

impl Encoded {
    pub(super) fn size(&self) -> usize {
        self.steps.iter().map(MultiOp::size).sum()
    }
}

/// What a sweep has to delete, children first; `Err`: one of the nodes that forbid it exists.
pub(super) type Sweeping = HashMap<usize, Result<Vec<Path>, Path>>;

/// Encodes a transaction according to the cache.
pub(super) fn encode(
    ops: &[Op],
    existence: &ExistenceCache,
    fresh: Option<&Fresh>,
    sweeping: &Sweeping,
) -> Encoded {
    let mut encoder = Encoder { ops, existence, fresh, sweeping, encoded: Encoded::default(), origin: 0 };
    for (origin, op) in ops.iter().enumerate() {
        encoder.origin = origin;
        encoder.op(op);
    }
    encoder.encoded
}

/// Whether a refusal of the step may only mean that an entry of the cache was wrong.
pub(super) fn rests_on_cache(op: &Op) -> bool {
    matches!(
        op,
        Op::Put { .. } | Op::Mirror { .. } | Op::Ensure { .. } | Op::Remove { .. } | Op::Sweep { .. }
    )
}

/// The node that a step is about; for a sweep, the topmost one.
pub(super) fn subject(op: &Op) -> &Path {
    match op {
        Op::Check { path, .. }
        | Op::CheckExists { path }
        | Op::CheckAbsent { path }
        | Op::Create { path, .. }
        | Op::Set { path, .. }
        | Op::Delete { path, .. }
        | Op::Put { path, .. }
        | Op::Mirror { path, .. }
        | Op::Remove { path }
        | Op::Ensure { path, .. } => path,
        Op::Sweep { root, .. } => root,
    }
}

/// What is known of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownNode {
    There(NodeKind),
    /// According to this transaction, or to a read right before it.
    Absent,
    Nothing,
}

struct Encoder<'a> {
    ops: &'a [Op],
    existence: &'a ExistenceCache,
    fresh: Option<&'a Fresh>,
    sweeping: &'a Sweeping,
    encoded: Encoded,
    origin: usize,
}

impl Encoder<'_> {
    fn op(&mut self, op: &Op) {
        match op {
            Op::Check { path, version } => self.check(path, number(version.0)),
            Op::CheckExists { path } => self.check(path, ANY),
            Op::CheckAbsent { path } => self.check_absent(path),
            Op::Create { path, data, ephemeral } => self.create(path, data, *ephemeral),
            Op::Set { path, data, expect } => {
                let version = expect.map(|version| number(version.0));
                self.push(MultiOp::Set { path: path.clone(), data: data.clone(), version });
            }
            Op::Delete { path, expect } => self.delete(path, expect.map(|version| number(version.0))),
            Op::Put { path, data, ephemeral } => self.put(path, data, *ephemeral),
            Op::Mirror { path, data, ephemeral } => {
                // Skipped if the parent does not exist.
                if path.parent().is_none_or(|parent| self.known(&parent) != KnownNode::Absent) {
                    self.put(path, data, *ephemeral);
                }
            }
            Op::Remove { path } => {
                if self.known(path) != KnownNode::Absent {
                    self.delete(path, None);
                }
            }
            Op::Ensure { path, data } => match self.known(path) {
                KnownNode::There(_) => self.check(path, ANY),
                KnownNode::Absent | KnownNode::Nothing => self.create(path, data, false),
            },
            Op::Sweep { unless, .. } => self.sweep(&unless[1]),
        }
    }

    fn known(&self, path: &Path) -> KnownNode {
        let told = |found: &Option<NodeKind>| found.map_or(KnownNode::Absent, KnownNode::There);
        if let Some(found) = self.encoded.after.get(path) {
            return told(found);
        }
        if let Some(found) = self.fresh.and_then(|fresh| fresh.get(path)) {
            return told(found);
        }
        self.existence.get(path).map_or(KnownNode::Nothing, KnownNode::There)
    }

    fn push(&mut self, step: MultiOp) {
        self.encoded.steps.push(step);
        self.encoded.origins.push(self.origin);
    }

    fn check(&mut self, path: &Path, version: i32) {
        self.push(MultiOp::Check { path: path.clone(), version });
    }

    fn check_absent(&mut self, path: &Path) {
        let makes = |op: &Op| matches!(op, Op::Create { path: made, .. } if made == path);
        if self.ops[self.origin..].iter().any(makes) {
            return;
        }
        self.create(path, &Arc::from([]), false);
        self.delete(path, None);
    }

    fn create(&mut self, path: &Path, data: &Arc<[u8]>, ephemeral: bool) {
        let kind = match ephemeral {
            true if path.is_coordinators() => NodeKind::Own,
            true => NodeKind::Ephemeral,
            false => NodeKind::Persistent,
        };
        self.encoded.after.insert(path.clone(), Some(kind));
        self.push(MultiOp::Create { path: path.clone(), data: data.clone(), ephemeral });
    }

    fn delete(&mut self, path: &Path, version: Option<i32>) {
        self.encoded.after.insert(path.clone(), None);
        self.push(MultiOp::Delete { path: path.clone(), version });
    }

    fn put(&mut self, path: &Path, data: &Arc<[u8]>, ephemeral: bool) {
        match (self.known(path), ephemeral) {
            (KnownNode::There(NodeKind::Persistent), false) | (KnownNode::There(NodeKind::Own), true) => {
                self.push(MultiOp::Set { path: path.clone(), data: data.clone(), version: None });
            }
            (KnownNode::There(_), _) => {
                self.delete(path, None);
                self.create(path, data, ephemeral);
            }
            (KnownNode::Absent | KnownNode::Nothing, _) => self.create(path, data, ephemeral),
        }
    }

    /// A new job of that name would have a `config`; there cannot be one while a node of the old job is left.
    fn sweep(&mut self, config: &Path) {
        match self.sweeping.get(&self.origin) {
            Some(Ok(nodes)) if !nodes.is_empty() => {
                self.check_absent(config);
                for path in nodes {
                    self.delete(path, None);
                }
            }
            Some(Err(there)) => self.check(there, ANY),
            Some(Ok(_)) | None => {}
        }
    }
}

/// A check of this version holds whenever the node exists.
const ANY: i32 = -1;

/// ZooKeeper's versions have 32 bits; a larger one can never be found.
fn number(version: u64) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
