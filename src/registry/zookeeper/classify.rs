//! What the refusal of one operation means for its transaction.

use std::collections::HashSet;
use std::sync::Mutex;

use zookeeper_client::{Client, Error};

use super::encode::{Sweeping, rests_on_cache, subject};
use super::existence::Fresh;
use super::fetch;
use super::pending::Pending;
use super::read_set;
use crate::paths::{Path, Paths};
use crate::tree::{Op, Reason, Refusal, SessionId};
use rosterd_domain::id::Revision;

/// How to continue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RetryClass {
    /// The transaction does not hold: tell the caller.
    Conflict(Refusal),
    /// The cache that it was encoded from was wrong: read, and encode it again.
    Reread,
    /// A folder that must always exist has gone (ZooKeeper removes empty containers): create it, and send the
    /// transaction again.
    RecreateRoots,
    /// The store cannot do it.
    Unavailable(String),
}

/// Classifies the refusal of an operation that came from step `origin`.
pub(super) fn judge(paths: &Paths, pending: &Pending, origin: usize, error: &Error) -> RetryClass {
    let ops = &pending.lowered.ops;
    let Some(op) = ops.get(origin) else { return unavailable(error) };
    let refuse = |index: usize, reason| RetryClass::Conflict(Refusal { index, reason });
    let path = subject(op);
    let parentless = path
        .parent()
        .is_some_and(|parent| pending.fresh.as_ref().is_some_and(|fresh| fresh.get(&parent) == Some(&None)));
    match (error, op) {
        (Error::NoNode, Op::CheckAbsent { .. } | Op::Create { .. }) if is_grounded(paths, path) => {
            RetryClass::RecreateRoots
        }
        (Error::NoNode, Op::Put { .. }) if parentless && is_grounded(paths, path) => {
            RetryClass::RecreateRoots
        }
        // The parent is known to be absent, so the cache was not at fault.
        (Error::NoNode, Op::Put { .. } | Op::Ensure { .. }) if parentless => refuse(origin, Reason::NoParent),
        (Error::NoChildrenForEphemerals, _) => refuse(origin, Reason::NoParent),
        (Error::NotEmpty, Op::Sweep { .. }) => RetryClass::Reread,
        (Error::NotEmpty, _) => refuse(origin, Reason::NotEmpty),
        (Error::NoNode | Error::NodeExists, op) if rests_on_cache(op) => RetryClass::Reread,
        (Error::NodeExists, Op::CheckAbsent { .. }) => refuse(origin, Reason::Exists),
        (Error::NodeExists, _) => refuse(guard_of(ops, origin, path), Reason::Exists),
        (Error::NoNode, Op::Create { .. }) => refuse(origin, Reason::NoParent),
        (Error::NoNode, _) => refuse(origin, Reason::Absent),
        (Error::BadVersion, _) => match expected(op) {
            Some(expected) => refuse(origin, Reason::OtherVersion { expected }),
            None => unavailable(error),
        },
        (Error::NoAuth, _) => RetryClass::Unavailable(format!(
            "ZooKeeper does not allow {path} to be written with these credentials; check them, and who may use \
             the node"
        )),
        (error, _) => unavailable(error),
    }
}

fn unavailable(error: &Error) -> RetryClass {
    RetryClass::Unavailable(format!("ZooKeeper cannot write it: {error}; look at its servers' logs"))
}

/// Whether the node's parent is one of the folders that exist before the first transaction.
fn is_grounded(paths: &Paths, path: &Path) -> bool {
    path.parent().is_some_and(|parent| paths.roots().contains(&parent))
}

/// A guard of absence is not sent if the same transaction creates the node: then it is the guard that does not hold.
fn guard_of(ops: &[Op], origin: usize, path: &Path) -> usize {
    let guards = |op: &Op| matches!(op, Op::CheckAbsent { path: absent } if absent == path);
    ops[..origin].iter().position(guards).unwrap_or(origin)
}

fn expected(op: &Op) -> Option<rosterd_domain::id::Version> {
    match op {
        Op::Check { version, .. } => Some(*version),
        Op::Set { expect, .. } | Op::Delete { expect, .. } => *expect,
        _ => None,
    }
}

/// Reads what a transaction must be encoded from: the kinds of the nodes that it made assumptions about, and what its
/// sweeps will find.
pub(super) async fn look_at(client: &Client, ops: &[Op]) -> Result<(Fresh, Sweeping), Error> {
    let mut paths = HashSet::new();
    for op in ops.iter().filter(|op| rests_on_cache(op) && !matches!(op, Op::Sweep { .. })) {
        paths.insert(subject(op).clone());
        paths.extend(subject(op).parent());
    }
    let synced = client.sync("/");
    let paths: Vec<Path> = paths.into_iter().collect();
    let fresh = fetch::look(client, &paths);
    synced.await?;
    Ok((fresh.await?, sweep(client, ops).await?))
}

/// What each sweep will find after the steps before it.
async fn sweep(client: &Client, ops: &[Op]) -> Result<Sweeping, Error> {
    let (mut sweeping, sizes) = (Sweeping::new(), Mutex::default());
    let roots: HashSet<&Path> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Sweep { root, .. } => Some(root),
            _ => None,
        })
        .collect();
    for root in roots {
        let found = fetch::fetch(client, &sizes, &|found| read_set::everything(root, found)).await?;
        let mut tree = found.into_tree(Revision(0));
        for (index, op) in ops.iter().enumerate() {
            // A step that does not hold will be refused when it is sent.
            let applied = tree.apply(std::slice::from_ref(op), SessionId(0));
            let Op::Sweep { root: swept, unless, .. } = op else { continue };
            if swept == root {
                let there = unless.iter().find(|path| tree.get(path).is_some()).cloned();
                let changes = applied.map(|applied| applied.changes).unwrap_or_default();
                let nodes = changes.into_iter().map(|change| change.path).collect();
                sweeping.insert(index, there.map_or(Ok(nodes), Err));
            }
        }
    }
    Ok(sweeping)
}
