//! Reads the tree in domain words: the answers to the port's reads.
//!
//! A [`View`] is the tree at one revision, as one session sees it. It changes nothing. Records are returned undecoded
//! ([`RawSnapshot`]), so that a store's one thread need not decode a hundred thousand of them. Data of our own that
//! cannot be read is damage and is reported; names that none of our tools writes are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rosterd_domain::id::{
    CoordinatorId, Epoch, Generation, InstanceId, Item, JobName, Revision, Token, Version, WorkerId,
};
use rosterd_domain::item::Record;
use rosterd_domain::snapshot::{
    Announced, Attachment, ForeignTrigger, InstanceSeen, JobNodes, Numbering, Snapshot, Stage, Switches,
    TriggerNode, Whole,
};
use serde::de::DeserializeOwned;

use super::paths::{Path, Paths, below_job};
use super::tree::{Node, SessionId, Tree};
use super::{DumpNode, ReadError, forms};

/// The tree at one revision, as a session sees it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    tree: &'a Tree,
    paths: &'a Paths,
    session: Option<SessionId>,
}

/// A job's nodes, its records not yet decoded.
pub(crate) struct RawSnapshot {
    nodes: JobNodes,
    /// The folder of the records.
    folder: Path,
    records: Vec<(Item, Version, Arc<[u8]>)>,
}

/// A job's nodes and offsets, its records not yet decoded.
pub(crate) struct RawWhole {
    snapshot: RawSnapshot,
    offsets: BTreeMap<Item, Arc<[u8]>>,
}

impl RawWhole {
    pub(crate) fn decode(self) -> Result<Whole, ReadError> {
        Ok(Whole { snapshot: self.snapshot.decode()?, offsets: self.offsets })
    }
}

impl RawSnapshot {
    pub(crate) fn decode(self) -> Result<Snapshot, ReadError> {
        let records = self.records.into_iter().map(|(item, version, data)| {
            let record: Record = decode(|| self.folder.child(&item.to_string()), &data)?;
            Ok((item, (version, Arc::new(record))))
        });
        Ok(Snapshot { nodes: self.nodes, records: records.collect::<Result<_, ReadError>>()? })
    }
}

impl<'a> View<'a> {
    pub(crate) fn new(tree: &'a Tree, paths: &'a Paths, session: Option<SessionId>) -> Self {
        Self { tree, paths, session }
    }

    /// The revision of the last transaction.
    pub fn revision(&self) -> Revision {
        self.tree.revision()
    }

    /// The names of all jobs, also of those being removed.
    pub fn jobs(&self) -> BTreeSet<JobName> {
        self.tree.children(&self.paths.jobs()).filter_map(|(name, _)| JobName::new(name).ok()).collect()
    }

    /// A job's decision state.
    pub fn job(&self, job: &JobName) -> Result<Option<JobNodes>, ReadError> {
        let tree = self.tree;
        let Some(root) = tree.get(&self.paths.job(job)) else { return Ok(None) };
        let sharding = root.below(below_job::SHARDING);
        let (instances, foreign_triggers) = self.instances(job, root)?;
        let numbering = self.numbering()?;
        Ok(Some(JobNodes {
            revision: tree.revision(),
            incarnation: root.children_of(below_job::INCARNATIONS).next().map(|(name, _)| name.into()),
            created: root.stat.created,
            base: Token(numbering.offset.saturating_add(root.stat.created.0)),
            handler_type: String::from_utf8_lossy(&root.stat.data).into(),
            config: node(root, below_job::CONFIG),
            policy: node(root, below_job::POLICY),
            paused: root.below(below_job::PAUSED).is_some(),
            servers: named(root.children_of(below_job::SERVERS))
                .map(|(address, node)| (address, forms::is_enabled(&node.stat.data)))
                .collect(),
            instances,
            leader: self.leader(job, root)?,
            epoch: Epoch(root.below(below_job::ELECTION).map_or(0, |node| node.stat.version.0)),
            generation: Generation(sharding.map_or(0, |node| node.stat.version.0)),
            assignment: sharding.map_or_else(forms::empty, |node| node.stat.data.clone()),
            necessary: root.below(below_job::NECESSARY).map(|node| node.stat.version),
            failover: items(root.children_of(below_job::FAILOVER_ITEMS)).map(|(item, _)| item).collect(),
            triggers: self.triggers(job, root)?,
            announced: announced(root),
            commands: named(root.children_of(below_job::COMMANDS))
                .map(|(name, node)| Ok((name, decode(|| self.paths.commands(job), &node.stat.data)?)))
                .collect::<Result<_, ReadError>>()?,
            foreign_triggers,
        }))
    }

    /// A job's decision state and all its records.
    pub fn snapshot(&self, job: &JobName) -> Result<Option<Snapshot>, ReadError> {
        self.raw_snapshot(job)?.map(RawSnapshot::decode).transpose()
    }

    pub(crate) fn raw_snapshot(&self, job: &JobName) -> Result<Option<RawSnapshot>, ReadError> {
        let Some(nodes) = self.job(job)? else { return Ok(None) };
        // Elastic-Job's own item nodes are empty: such an item has no record yet.
        let folder = self.paths.sharding(job);
        let records = items(self.tree.children(&folder))
            .filter(|(_, node)| !node.stat.data.is_empty())
            .map(|(item, node)| (item, node.stat.version, node.stat.data.clone()))
            .collect();
        Ok(Some(RawSnapshot { nodes, folder, records }))
    }

    /// Which items are marked as disabled.
    pub fn switches(&self, job: &JobName) -> Option<Switches> {
        let root = self.tree.get(&self.paths.job(job))?;
        let sharding = root.below(below_job::SHARDING);
        let marked =
            |(item, node): (Item, &Node)| (item, node.below(below_job::DISABLED_BELOW_ITEM).is_some());
        Some(Switches {
            incarnation: root.children_of(below_job::INCARNATIONS).next().map(|(name, _)| name.into()),
            generation: Generation(sharding.map_or(0, |node| node.stat.version.0)),
            disabled: items(root.children_of(below_job::SHARDING)).map(marked).collect(),
        })
    }

    /// All that is kept of a job.
    pub(crate) fn raw_whole(&self, job: &JobName) -> Result<Option<RawWhole>, ReadError> {
        let Some(snapshot) = self.raw_snapshot(job)? else { return Ok(None) };
        let folder = self.paths.offsets(job);
        let offsets = items(self.tree.children(&folder));
        let offsets = offsets.map(|(item, node)| (item, node.stat.data.clone())).collect();
        Ok(Some(RawWhole { snapshot, offsets }))
    }

    /// The same, decoded.
    pub fn whole(&self, job: &JobName) -> Result<Option<Whole>, ReadError> {
        self.raw_whole(job)?.map(RawWhole::decode).transpose()
    }

    /// How tokens are numbered.
    pub fn numbering(&self) -> Result<Numbering, ReadError> {
        let (path, revision) = (self.paths.numbering(), self.tree.revision());
        let Some(node) = self.tree.get(&path) else {
            return Ok(Numbering { offset: 0, version: None, revision });
        };
        let text = String::from_utf8_lossy(&node.stat.data);
        let offset = text.parse().map_err(|_| ReadError::Damaged {
            path: path.to_string(),
            reason: format!("{text:?} is not a number"),
        })?;
        Ok(Numbering { offset, version: Some(node.stat.version), revision })
    }

    /// An item's offset.
    pub fn offset(&self, job: &JobName, item: Item) -> Option<Arc<[u8]>> {
        self.tree.get(&self.paths.offset(job, item)).map(|node| node.stat.data.clone())
    }

    /// A worker's attachment.
    pub fn attachment(&self, worker: &WorkerId) -> Result<Option<(Version, Attachment)>, ReadError> {
        let path = self.paths.worker(worker);
        let Some(node) = self.tree.get(&path) else { return Ok(None) };
        Ok(Some((node.stat.version, decode(|| path, &node.stat.data)?)))
    }

    /// All attachments.
    pub fn attachments(&self) -> Result<BTreeMap<WorkerId, (Version, Attachment)>, ReadError> {
        named(self.tree.children(&self.paths.workers()))
            .map(|(worker, node): (WorkerId, &Node)| {
                let attachment = decode(|| self.paths.worker(&worker), &node.stat.data)?;
                Ok((worker, (node.stat.version, attachment)))
            })
            .collect()
    }

    /// The coordinators whose session is alive.
    pub fn coordinators(&self) -> BTreeMap<CoordinatorId, Arc<str>> {
        named(self.tree.children(&self.paths.coordinators()))
            .map(|(id, node)| (id, String::from_utf8_lossy(&node.stat.data).into()))
            .collect()
    }

    /// Everything below a job, by path relative to it.
    pub fn dump(&self, job: &JobName) -> Option<BTreeMap<String, DumpNode>> {
        let mut found = BTreeMap::new();
        collect("", self.tree.get(&self.paths.job(job))?, &mut found);
        Some(found)
    }

    fn is_mine(&self, node: &Node) -> bool {
        node.stat.owner.is_some() && node.stat.owner == self.session
    }

    fn leader(&self, job: &JobName, root: &Node) -> Result<Option<(CoordinatorId, bool)>, ReadError> {
        let Some(node) = root.below(below_job::LEADER) else { return Ok(None) };
        let id = CoordinatorId::new(String::from_utf8_lossy(&node.stat.data).trim()).map_err(|e| {
            ReadError::Damaged { path: self.paths.leader(job).to_string(), reason: e.to_string() }
        })?;
        Ok(Some((id, self.is_mine(node))))
    }

    /// The instances, and those for which older tools have requested a run.
    #[allow(clippy::type_complexity)]
    fn instances(
        &self,
        job: &JobName,
        root: &Node,
    ) -> Result<(BTreeMap<InstanceId, InstanceSeen>, BTreeMap<InstanceId, ForeignTrigger>), ReadError> {
        let mut triggers: BTreeMap<InstanceId, ForeignTrigger> =
            named(root.children_of(below_job::FOREIGN_TRIGGERS))
                .map(|(id, _)| (id, ForeignTrigger { node: true, data: None }))
                .collect();
        let own = root.below(below_job::OWN_INSTANCES).map(|folder| &folder.children);
        let mut instances = BTreeMap::new();
        for (id, node) in named::<InstanceId>(root.children_of(below_job::INSTANCES)) {
            if forms::is_trigger(&node.stat.data) {
                triggers.entry(id.clone()).or_default().data = Some(node.stat.version);
            }
            let own = own.and_then(|own| own.get(id.as_str()));
            let own =
                own.map(|own| decode(|| self.paths.own_instance(job, &id), &own.stat.data)).transpose()?;
            instances.insert(id, InstanceSeen { mine: self.is_mine(node), node: own });
        }
        Ok((instances, triggers))
    }

    fn triggers(&self, job: &JobName, root: &Node) -> Result<BTreeMap<Item, TriggerNode>, ReadError> {
        items(root.children_of(below_job::TRIGGERS))
            .map(|(item, node)| Ok((item, decode(|| self.paths.trigger(job, item), &node.stat.data)?)))
            .collect()
    }
}

fn node(root: &Node, below: &str) -> Option<rosterd_domain::snapshot::Node> {
    let stat = &root.below(below)?.stat;
    Some(rosterd_domain::snapshot::Node { data: stat.data.clone(), version: stat.version })
}

/// Elastic-Job's own folders have no data.
fn announced(root: &Node) -> BTreeMap<Stage, Announced> {
    let stages = [(Stage::Started, below_job::STARTED), (Stage::Completed, below_job::COMPLETED)].into_iter();
    let read = |(stage, below): (Stage, &str)| {
        let node = root.below(below)?;
        Some((stage, forms::from_json(&node.stat.data).ok()?))
    };
    stages.filter_map(read).collect()
}

/// `path` is the node's path, for the error.
fn decode<T: DeserializeOwned>(path: impl FnOnce() -> Path, data: &[u8]) -> Result<T, ReadError> {
    forms::from_json(data).map_err(|reason| ReadError::Damaged { path: path().to_string(), reason })
}

fn named<'a, T: std::str::FromStr>(
    children: impl Iterator<Item = (&'a str, &'a Node)>,
) -> impl Iterator<Item = (T, &'a Node)> {
    children.filter_map(|(name, node)| Some((name.parse().ok()?, node)))
}

fn items<'a>(children: impl Iterator<Item = (&'a str, &'a Node)>) -> impl Iterator<Item = (Item, &'a Node)> {
    // Only the canonical spelling: neither `+1` nor `01` is an item.
    children.filter_map(|(name, node)| {
        let item: u32 = name.parse().ok()?;
        (item.to_string() == name).then_some((Item(item), node))
    })
}

fn collect(prefix: &str, node: &Node, found: &mut BTreeMap<String, DumpNode>) {
    for (name, child) in node.children.iter() {
        let path = format!("{prefix}/{name}");
        collect(&path, child, found);
        let dumped = DumpNode { data: child.stat.data.clone(), ephemeral: child.stat.owner.is_some() };
        found.insert(path, dumped);
    }
}
