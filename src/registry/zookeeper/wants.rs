//! What to read from the ensemble, and what was found.

use std::collections::BTreeMap;

use rosterd_domain::id::{Revision, Version};
use zookeeper_client::Stat as NodeStat;

use super::existence::NodeKind;
use crate::paths::Path;
use crate::tree::{SessionId, Stat, Tree};

/// What is wanted of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Want {
    pub(super) data: bool,
    pub(super) children: bool,
}

/// What is wanted.
pub(super) type Wants = BTreeMap<Path, Want>;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) nodes: BTreeMap<Path, (Vec<u8>, NodeStat)>,
    pub(super) children: BTreeMap<Path, Vec<String>>,
}

impl Found {
    /// The names of a node's children; empty if it does not exist.
    pub(super) fn children(&self, path: &Path) -> impl Iterator<Item = &str> {
        self.children.get(path).into_iter().flatten().map(String::as_str)
    }

    /// Each node that was found, with its kind.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&Path, NodeKind)> {
        self.nodes.iter().map(|(path, (_, stat))| (path, kind(stat)))
    }

    /// Each node that was found, with its data.
    pub(super) fn data(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.nodes.iter().map(|(path, (data, _))| (path, data.as_slice()))
    }

    /// Each folder that was asked for its children, with their names.
    pub(super) fn lists(&self) -> impl Iterator<Item = (&Path, &[String])> {
        self.children.iter().map(|(path, names)| (path, names.as_slice()))
    }

    /// What has changed. A folder whose children were requested has changed if any of them was created or removed
    /// meanwhile.
    pub(super) fn changed_since(&self, last: &Self) -> Wants {
        let is_folder = |path: &Path| self.children.contains_key(path) || last.children.contains_key(path);
        let stamp = |found: &Self, path: &Path| {
            let (_, stat) = found.nodes.get(path)?;
            Some((stat.czxid, stat.mzxid, is_folder(path).then_some(stat.pzxid)))
        };
        let mut changed = Wants::new();
        for path in self.nodes.keys().chain(last.nodes.keys()) {
            if stamp(self, path) != stamp(last, path) {
                changed.insert(path.clone(), Want { data: true, children: is_folder(path) });
            }
        }
        for path in self.children.keys().chain(last.children.keys()) {
            if self.children.get(path) != last.children.get(path) {
                changed.insert(path.clone(), Want { data: true, children: true });
            }
        }
        changed
    }

    /// Which of these do not exist.
    pub(super) fn lacks(&self, wants: &Wants) -> Wants {
        let lacks = |(path, want): (&Path, &Want)| {
            let data = want.data && !self.nodes.contains_key(path);
            let children = want.children && !self.children.contains_key(path);
            (data || children).then(|| (path.clone(), Want { data, children }))
        };
        wants.iter().filter_map(lacks).collect()
    }

    /// The same with these nodes as they were at another moment.
    pub(super) fn with(mut self, wants: &Wants, moment: Self) -> Self {
        for (path, want) in wants {
            if want.data {
                self.nodes.remove(path);
            }
            if want.children {
                self.children.remove(path);
            }
        }
        self.nodes.extend(moment.nodes);
        self.children.extend(moment.children);
        self
    }

    /// All of it as a tree, at no less than `revision`.
    pub(super) fn into_tree(self, revision: Revision) -> Tree {
        let newest = self.nodes.values().map(|(_, stat)| stat.czxid.max(stat.mzxid)).max().unwrap_or(0);
        let revision = revision.max(Revision(number(newest)));
        let mut tree = Tree::new(revision);
        let mut all: BTreeMap<Path, Option<(Vec<u8>, NodeStat)>> = BTreeMap::new();
        for (path, names) in &self.children {
            all.extend(names.iter().map(|name| (path.child(name), None)));
        }
        all.extend(self.nodes.into_iter().map(|(path, node)| (path, Some(node))));
        // A parent's path sorts before those of its children.
        for (path, node) in all {
            load(&mut tree, &path, stat(node));
        }
        tree
    }
}

/// Puts a node into the tree. Parents that were not requested exist, and do not matter.
fn load(tree: &mut Tree, path: &Path, found: Stat) {
    if tree.load(path, found.clone()).is_err()
        && let Some(parent) = path.parent()
    {
        load(tree, &parent, stat(None));
        let _ = tree.load(path, found);
    }
}

/// The kind of a node. Containers belong to no session, whatever their owner's number says.
pub(super) fn kind(stat: &NodeStat) -> NodeKind {
    if stat.ephemeral_owner == 0 || stat.ephemeral_owner == i64::MIN {
        NodeKind::Persistent
    } else {
        NodeKind::Ephemeral
    }
}

fn stat(node: Option<(Vec<u8>, NodeStat)>) -> Stat {
    let blank = (Version(0), Revision(0), Revision(0), None);
    let (version, created, modified, owner) = node.as_ref().map_or(blank, |(_, stat)| {
        let owner = (kind(stat) == NodeKind::Ephemeral).then(|| session(stat.ephemeral_owner));
        let version = Version(u64::try_from(stat.version).unwrap_or(0));
        (version, Revision(number(stat.czxid)), Revision(number(stat.mzxid)), owner)
    });
    Stat { data: node.map_or_else(Vec::new, |(data, _)| data).into(), version, created, modified, owner }
}

fn number(zxid: i64) -> u64 {
    u64::try_from(zxid).unwrap_or(0)
}

/// A session of the ensemble as the owner of a node.
pub(super) fn session(id: i64) -> SessionId {
    SessionId(id.cast_unsigned())
}
