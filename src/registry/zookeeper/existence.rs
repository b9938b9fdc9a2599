//! What this session believes to exist: kept from its own writes and reads, never trusted.
//!
//! ZooKeeper has no "make or overwrite" and no "delete if there": each has to be encoded as what fits the node
//! as it stands. An entry only chooses the encoding; where it is wrong the servers refuse the step, and the
//! transaction is encoded again from what is then read. That a node is absent is never believed for long.

use std::collections::HashMap;

use crate::paths::Path;

/// How many nodes are remembered; then it begins anew.
const CAPACITY: usize = 200_000;

/// Whose a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It stays.
    Persistent,
    /// It goes with some session: ours, or one it was taken over by since.
    Ephemeral,
    /// It goes with our session, and nobody else ever writes it.
    Own,
}

/// The nodes that are believed to exist.
#[derive(Debug, Default)]
pub(super) struct ExistenceCache {
    nodes: HashMap<Path, Kind>,
}

impl ExistenceCache {
    pub(super) fn get(&self, path: &Path) -> Option<Kind> {
        self.nodes.get(path).copied()
    }

    /// `None`: it is not there, or nobody knows.
    pub(super) fn set(&mut self, path: &Path, kind: Option<Kind>) {
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

/// What was read of the nodes of one transaction, right before it is encoded again.
pub(super) type Fresh = HashMap<Path, Option<Kind>>;
