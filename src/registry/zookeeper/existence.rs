//! A cache of the nodes that this session believes to exist: kept from its own writes and reads, never trusted.
//!
//! ZooKeeper has no "create or overwrite" and no "delete if it exists": each has to be encoded as the operation that
//! fits the node as it is. An entry only chooses the encoding; if it is wrong the servers refuse the step, and the
//! transaction is encoded again from a fresh read. That a node is absent is never cached for long.

use std::collections::HashMap;

use crate::paths::Path;

/// How many nodes are remembered; then the cache starts empty again.
const CAPACITY: usize = 200_000;

/// Whose a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// It outlives sessions.
    Persistent,
    /// It ends with some session: ours, or one that has taken it over since.
    Ephemeral,
    /// It ends with our session, and no other ever writes it.
    Own,
}

/// The nodes that are believed to exist.
#[derive(Debug, Default)]
pub(super) struct ExistenceCache {
    nodes: HashMap<Path, NodeKind>,
}

impl ExistenceCache {
    pub(super) fn get(&self, path: &Path) -> Option<NodeKind> {
        self.nodes.get(path).copied()
    }

    /// `None`: it does not exist, or that is not known.
    pub(super) fn set(&mut self, path: &Path, kind: Option<NodeKind>) {
        match kind {
            Some(kind) => {
                if self.nodes.len() >= CAPACITY {
                    self.nodes.clear();
                }
                self.nodes.insert(path.clone(), kind);
            }
            None => {
                self.nodes.remove(path);
            }
        }
    }
}

/// What was read about the nodes of one transaction, right before it is encoded again.
pub(super) type Fresh = HashMap<Path, Option<NodeKind>>;
