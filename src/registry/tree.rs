//! The tree of nodes in one process, shared by the in-memory and the embedded store.
//!
//! It behaves as ZooKeeper does wherever that is visible: a node's version starts at 0 when it is created and grows by
//! one with every set; deleting and creating it again starts at 0 again; each node knows the transactions that created
//! it and that changed it last; ephemeral nodes belong to a session and have no children. It knows nothing of jobs, and
//! never decides whether a session is alive: its callers, the two stores, do.
//!
//! A transaction is applied as a whole or not at all. It returns the list of its changes, from which it can be undone:
//! the embedded store does so if the disk refuses what the tree had accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{Revision, Version};
use rosterd_runtime::lookup::Lookup;

use super::paths::Path;

/// A session of one store, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) u64);

/// A node without its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The transaction that changed it last.
    pub(crate) modified: Revision,
    /// How often it was set since it was created.
    pub(crate) version: Version,
    /// The transaction that created it.
    pub(crate) created: Revision,
    /// The session that an ephemeral node ends with.
    pub(crate) owner: Option<SessionId>,
    /// Compared last: where it differs, a number does too.
    pub(crate) data: Arc<[u8]>,
}

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// The node exists, at this version.
    Check { path: Path, version: Version },
    /// The node exists, whatever its version.
    CheckExists { path: Path },
    /// There is no such node.
    CheckAbsent { path: Path },
    /// Creates a node that must not exist yet.
    Create { path: Path, data: Arc<[u8]>, ephemeral: bool },
    /// Replaces a node's data; with `expect`, only at this version.
    Set { path: Path, data: Arc<[u8]>, expect: Option<Version> },
    /// Deletes a node that must exist; with `expect`, only at this version.
    Delete { path: Path, expect: Option<Version> },
    /// Creates or overwrites a node; if it is ephemeral and should not be, or the reverse, it is deleted and created
    /// again.
    Put { path: Path, data: Arc<[u8]>, ephemeral: bool },
    /// The same for a mirror: skipped if its parent does not exist.
    Mirror { path: Path, data: Arc<[u8]>, ephemeral: bool },
    /// Deletes a node if it exists.
    Remove { path: Path },
    /// Creates a persistent node with all its parents if it does not exist; an existing one keeps its data.
    Ensure { path: Path, data: Arc<[u8]> },
    /// Deletes up to `limit` of the nodes from `root` down, children first; nothing while one of `unless` exists.
    Sweep { root: Path, unless: [Path; 2], limit: usize },
}

/// Why a step was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The node exists already.
    Exists,
    /// The node does not exist.
    Absent,
    /// Its parent does not exist, or is ephemeral.
    NoParent,
    /// The node is at another version.
    Version { expected: Version, found: Version },
    /// The node is at another version, which the store does not reveal.
    OtherVersion { expected: Version },
    /// The node has children.
    NotEmpty,
}

/// The step that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) index: usize,
    pub(crate) reason: Reason,
}

/// One node that a transaction touched. A node touched twice is listed twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: Path,
    /// `None`: the node was created.
    pub(crate) before: Option<Stat>,
    /// `None`: the node was deleted.
    pub(crate) after: Option<Stat>,
}

/// An applied transaction.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) revision: Revision,
    /// In the order they were made.
    pub(crate) changes: Vec<Change>,
}

/// A node with its children.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) stat: Stat,
    pub(crate) children: Lookup<Box<str>, Node>,
}

impl Node {
    /// The node at this relative path.
    pub(crate) fn below(&self, relative: &str) -> Option<&Self> {
        names(relative).try_fold(self, |node, name| node.children.get(name))
    }

    /// The children, in order, of the node at this relative path; empty if it does not exist.
    pub(crate) fn children_of(&self, relative: &str) -> impl Iterator<Item = (&str, &Self)> {
        let node = self.below(relative).into_iter();
        node.flat_map(|node| node.children.iter().map(|(name, node)| (&**name, node)))
    }
}

/// All nodes.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: Node,
    revision: Revision,
    ephemerals: BTreeMap<SessionId, Lookup<Path, ()>>,
}

impl Tree {
    /// An empty tree that continues after `revision`.
    pub(crate) fn new(revision: Revision) -> Self {
        let stat = Stat {
            data: Arc::from([]),
            version: Version(0),
            created: revision,
            modified: revision,
            owner: None,
        };
        Self { root: Node { stat, children: Lookup::default() }, revision, ephemerals: BTreeMap::new() }
    }

    /// The last transaction.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// A node.
    pub(crate) fn get(&self, path: &Path) -> Option<&Node> {
        self.find(path.as_str())
    }

    /// A node's children in order; empty if it does not exist.
    pub(crate) fn children(&self, path: &Path) -> impl Iterator<Item = (&str, &Node)> {
        self.get(path).into_iter().flat_map(|node| node.children.iter().map(|(name, node)| (&**name, node)))
    }

    /// Loads a persisted node; its parent must be loaded first.
    pub(crate) fn load(&mut self, path: &Path, stat: Stat) -> Result<(), Reason> {
        if self.parent(path).is_none() {
            return Err(Reason::NoParent);
        }
        self.install(path, stat);
        Ok(())
    }

    /// Creates a folder that is never persisted, with all its parents.
    pub(crate) fn load_folder(&mut self, path: &Path) {
        let stat = self.root.stat.clone();
        for (end, _) in path.as_str().match_indices('/').skip(1).chain([(path.as_str().len(), "")]) {
            if let Some(above) = Path::stored(&path.as_str()[..end]) {
                self.install(&above, stat.clone());
            }
        }
    }

    /// Applies all steps as the next transaction of `session`, or none.
    pub(crate) fn apply(&mut self, ops: &[Op], session: SessionId) -> Result<Applied, Refusal> {
        let mut changes = Vec::with_capacity(ops.len());
        let revision = self.apply_after(&mut changes, ops, session)?;
        Ok(Applied { revision, changes })
    }

    /// The same; adds its changes to those of the transactions before it.
    pub(crate) fn apply_after(
        &mut self,
        changes: &mut Vec<Change>,
        ops: &[Op],
        session: SessionId,
    ) -> Result<Revision, Refusal> {
        let (revision, before) = (self.revision.next(), changes.len());
        let mut edit = Edit { revision, tree: self, session, changes };
        for (index, op) in ops.iter().enumerate() {
            if let Err(reason) = edit.step(op) {
                self.undo(changes.drain(before..));
                return Err(Refusal { index, reason });
            }
        }
        self.revision = revision;
        Ok(revision)
    }

    /// Ends a session: deletes its ephemeral nodes, in one transaction. `None`: it had none.
    pub(crate) fn end_session(&mut self, session: SessionId) -> Option<Applied> {
        let ops: Vec<Op> =
            self.ephemerals.get(&session)?.keys().map(|path| Op::Remove { path: path.clone() }).collect();
        // Deleting leaves cannot be refused.
        self.apply(&ops, session).ok()
    }

    /// The part of the tree that outlives all sessions.
    pub(crate) fn persistent(&self) -> Self {
        let mut tree = self.clone();
        for session in self.ephemerals.keys() {
            tree.end_session(*session);
        }
        tree
    }

    /// Reverts changes, the last first. The revision stays: it never decreases.
    pub(crate) fn undo(&mut self, changes: impl DoubleEndedIterator<Item = Change>) {
        for Change { path, before, .. } in changes.rev() {
            match before {
                Some(stat) => self.install(&path, stat),
                None => drop(self.uninstall(&path)),
            }
        }
    }

    fn find(&self, path: &str) -> Option<&Node> {
        path.strip_prefix('/').map_or(Some(&self.root), |relative| self.root.below(relative))
    }

    fn find_mut(&mut self, path: &str) -> Option<&mut Node> {
        let Some(relative) = path.strip_prefix('/') else { return Some(&mut self.root) };
        names(relative).try_fold(&mut self.root, |node, name| node.children.get_mut(name))
    }

    fn parent(&self, path: &Path) -> Option<&Node> {
        self.find(split(path).0)
    }

    /// Creates a node, or replaces its data and numbers but not its children. The parent exists.
    fn install(&mut self, path: &Path, stat: Stat) {
        let owner = stat.owner;
        let (parent, name) = split(path);
        let Some(parent) = self.find_mut(parent) else { return };
        let before = match parent.children.get_mut(name) {
            Some(node) => Some(std::mem::replace(&mut node.stat, stat)),
            None => {
                parent.children.insert(name.into(), Node { stat, children: Lookup::default() });
                None
            }
        };
        let before = before.and_then(|stat| stat.owner);
        if before != owner {
            self.disown(before, path);
            if let Some(owner) = owner {
                self.ephemerals.entry(owner).or_default().insert(path.clone(), ());
            }
        }
    }

    fn uninstall(&mut self, path: &Path) -> Option<Stat> {
        let (parent, name) = split(path);
        let node = self.find_mut(parent)?.children.remove(name)?;
        self.disown(node.stat.owner, path);
        Some(node.stat)
    }

    fn disown(&mut self, owner: Option<SessionId>, path: &Path) {
        let Some(owner) = owner else { return };
        if let Some(paths) = self.ephemerals.get_mut(&owner) {
            paths.remove(path);
            if paths.is_empty() {
                self.ephemerals.remove(&owner);
            }
        }
    }
}

/// The names of a relative path. They are few and short, so that a plain loop is quicker than a string searcher.
fn names(relative: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(relative);
    std::iter::from_fn(move || {
        let path = rest?;
        let end = path.bytes().position(|byte| byte == b'/');
        rest = end.map(|end| &path[end + 1..]);
        Some(&path[..end.unwrap_or(path.len())])
    })
}

fn split(path: &Path) -> (&str, &str) {
    path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()))
}

/// A transaction in progress.
struct Edit<'a> {
    tree: &'a mut Tree,
    revision: Revision,
    session: SessionId,
    changes: &'a mut Vec<Change>,
}

impl Edit<'_> {
    fn step(&mut self, op: &Op) -> Result<(), Reason> {
        match op {
            Op::Check { path, version } => self.check(path, Some(*version)),
            Op::CheckExists { path } => self.check(path, None),
            Op::CheckAbsent { path } => match self.tree.get(path) {
                Some(_) => Err(Reason::Exists),
                None => Ok(()),
            },
            Op::Create { path, data, ephemeral } => match self.tree.get(path) {
                Some(_) => Err(Reason::Exists),
                None => self.create(path, data, *ephemeral),
            },
            Op::Set { path, data, expect } => self.set(path, data, *expect),
            Op::Delete { path, expect } => {
                self.check(path, *expect)?;
                self.delete(path)
            }
            Op::Put { path, data, ephemeral } => self.put(path, data, *ephemeral),
            Op::Mirror { path, data, ephemeral } => match self.put(path, data, *ephemeral) {
                Err(Reason::NoParent) => Ok(()),
                other => other,
            },
            Op::Remove { path } => match self.delete(path) {
                Err(Reason::Absent) => Ok(()),
                done => done,
            },
            Op::Ensure { path, data } => self.ensure(path, data),
            Op::Sweep { root, unless, limit } => self.sweep(root, unless, *limit),
        }
    }

    fn check(&self, path: &Path, expect: Option<Version>) -> Result<(), Reason> {
        at(&self.tree.get(path).ok_or(Reason::Absent)?.stat, expect)
    }

    fn create(&mut self, path: &Path, data: &Arc<[u8]>, ephemeral: bool) -> Result<(), Reason> {
        let stat = self.fresh(data, ephemeral);
        let (parent, name) = split(path);
        let parent = self.tree.find_mut(parent).ok_or(Reason::NoParent)?;
        make(parent, name, stat.clone())?;
        self.made(path, stat);
        Ok(())
    }

    fn fresh(&self, data: &Arc<[u8]>, ephemeral: bool) -> Stat {
        Stat {
            data: data.clone(),
            version: Version(0),
            created: self.revision,
            modified: self.revision,
            owner: ephemeral.then_some(self.session),
        }
    }

    fn made(&mut self, path: &Path, stat: Stat) {
        if let Some(owner) = stat.owner {
            self.tree.ephemerals.entry(owner).or_default().insert(path.clone(), ());
        }
        self.changes.push(Change { path: path.clone(), before: None, after: Some(stat) });
    }

    fn was_set(&mut self, path: &Path, before: Stat, after: Stat) {
        self.changes.push(Change { path: path.clone(), before: Some(before), after: Some(after) });
    }

    fn set(&mut self, path: &Path, data: &Arc<[u8]>, expect: Option<Version>) -> Result<(), Reason> {
        let stat = &mut self.tree.find_mut(path.as_str()).ok_or(Reason::Absent)?.stat;
        at(stat, expect)?;
        let (before, after) = change(stat, data, self.revision);
        self.was_set(path, before, after);
        Ok(())
    }

    fn delete(&mut self, path: &Path) -> Result<(), Reason> {
        let (parent, name) = split(path);
        let parent = self.tree.find_mut(parent).ok_or(Reason::Absent)?;
        let node = parent.children.get(name).ok_or(Reason::Absent)?;
        if !node.children.is_empty() {
            return Err(Reason::NotEmpty);
        }
        let before = parent.children.remove(name).map(|node| node.stat);
        self.tree.disown(before.as_ref().and_then(|stat| stat.owner), path);
        self.changes.push(Change { path: path.clone(), before, after: None });
        Ok(())
    }

    /// A single search in the common case: nearly all writes of a run are puts.
    fn put(&mut self, path: &Path, data: &Arc<[u8]>, ephemeral: bool) -> Result<(), Reason> {
        let stat = self.fresh(data, ephemeral);
        let (parent, name) = split(path);
        let parent = self.tree.find_mut(parent).ok_or(Reason::NoParent)?;
        match parent.children.get_mut(name) {
            Some(node) if node.stat.owner == stat.owner => {
                let (before, after) = change(&mut node.stat, data, self.revision);
                self.was_set(path, before, after);
            }
            Some(_) => {
                self.delete(path)?;
                self.create(path, data, ephemeral)?;
            }
            None => {
                make(parent, name, stat.clone())?;
                self.made(path, stat);
            }
        }
        Ok(())
    }

    fn ensure(&mut self, path: &Path, data: &Arc<[u8]>) -> Result<(), Reason> {
        if self.tree.get(path).is_some() {
            return Ok(());
        }
        let above = split(path).0;
        if let Some(parent) = Path::stored(above) {
            self.ensure(&parent, &Arc::from([]))?;
        }
        self.create(path, data, false)
    }

    fn sweep(&mut self, root: &Path, unless: &[Path], limit: usize) -> Result<(), Reason> {
        if unless.iter().any(|path| self.tree.get(path).is_some()) {
            return Ok(());
        }
        let mut found = Vec::new();
        if let Some(node) = self.tree.get(root) {
            children_first(root, node, limit, &mut found);
        }
        found.iter().try_for_each(|path| self.delete(path))
    }
}

/// Whether a node is at the expected version, if one is given.
fn at(stat: &Stat, expect: Option<Version>) -> Result<(), Reason> {
    match expect {
        Some(expected) if expected != stat.version => Err(Reason::Version { expected, found: stat.version }),
        _ => Ok(()),
    }
}

/// Creates a child that does not exist yet.
fn make(parent: &mut Node, name: &str, stat: Stat) -> Result<(), Reason> {
    if parent.stat.owner.is_some() {
        return Err(Reason::NoParent);
    }
    parent.children.insert(name.into(), Node { stat, children: Lookup::default() });
    Ok(())
}

/// Replaces a node's data; returns its state before and after.
fn change(stat: &mut Stat, data: &Arc<[u8]>, revision: Revision) -> (Stat, Stat) {
    let version = stat.version.next();
    let changed =
        Stat { data: data.clone(), version, created: stat.created, modified: revision, owner: stat.owner };
    (std::mem::replace(stat, changed.clone()), changed)
}

fn children_first(path: &Path, node: &Node, limit: usize, found: &mut Vec<Path>) {
    for (name, child) in node.children.iter() {
        if found.len() >= limit {
            return;
        }
        children_first(&path.child(name), child, limit, found);
    }
    if found.len() < limit {
        found.push(path.clone());
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
