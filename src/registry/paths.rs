//! How the domain's things are spelled as paths of nodes; no other file does so.
//!
//! Paths are built from checked names alone, so no text of a user can reach another node. The names below a job are
//! Elastic-Job's own, so that its tools can read them; nodes that Elastic-Job does not have are below `rosterd`. Called
//! by the lowering of transactions, by the reads and by the hints; it never reads a node.
//!
//! ```text
//! /{namespace}/{job}/…                        one job
//! /rosterd/{namespace}/coordinators/{id}      one coordinator, ephemeral
//! /rosterd/{namespace}/workers/{worker}       one worker's attachment
//! ```

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use rosterd_domain::id::{
    CommandName, CoordinatorId, InstanceId, Item, JobName, Namespace, ServerAddress, WorkerId,
};
use rosterd_domain::snapshot::Stage;

/// The root of everything that belongs to no single job.
const OURS: &str = "rosterd";

/// The path of a node: begins with `/`, does not end with it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Path(Arc<str>);

impl Path {
    /// A path that was written by this store and is read back.
    pub(crate) fn stored(text: &str) -> Option<Self> {
        let whole = text.strip_prefix('/')?;
        whole.split('/').all(|segment| !segment.is_empty()).then(|| Self(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of its parent; `None`: the parent is the root of the tree.
    pub(crate) fn parent(&self) -> Option<Self> {
        let (parent, _) = self.0.rsplit_once('/')?;
        (!parent.is_empty()).then(|| Self(parent.into()))
    }

    /// Whether it is the node of a coordinator, which only that coordinator's session writes.
    pub(crate) fn is_coordinators(&self) -> bool {
        let mut names = self.0.split('/');
        let folder = (names.nth(1), names.nth(1));
        folder == (Some(OURS), Some("coordinators")) && names.next().is_some() && names.next().is_none()
    }

    /// The path of a child.
    pub(crate) fn child(&self, name: &str) -> Self {
        Self(join(&self.0, name).into())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn join(parent: &str, name: &str) -> String {
    let mut path = String::with_capacity(parent.len() + 1 + name.len());
    path.push_str(parent);
    path.push('/');
    path.push_str(name);
    path
}

/// What kind of node it is, and for which job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeRole<'a> {
    /// A job's own node.
    Job,
    /// The input of decisions about this job.
    Decision(&'a str),
    /// What is held or has completed of an announced fire of this job.
    Guarantee(&'a str),
    /// The mark that an item of this job is disabled.
    Switch(&'a str),
    /// A coordinator's node.
    Coordinator,
    /// Run state, mirrors for tools, our own bookkeeping: no hints.
    Quiet,
}

/// Up to this number of items, each item's mark has a watch of its own.
const MOST_MARKS: u32 = 64;

/// The paths of one namespace.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    jobs: String,
    own: String,
    coordinators: String,
    workers: String,
}

/// Paths relative to a job's own node, for callers that already hold that node.
pub(crate) mod below_job {
    pub(crate) const CONFIG: &str = "config";
    pub(crate) const SERVERS: &str = "servers";
    pub(crate) const INSTANCES: &str = "instances";
    pub(crate) const FOREIGN_TRIGGERS: &str = "trigger";
    pub(crate) const SHARDING: &str = "sharding";
    /// Below an item of `sharding`.
    pub(crate) const DISABLED_BELOW_ITEM: &str = "disabled";
    pub(crate) const ELECTION: &str = "leader/election";
    pub(crate) const LEADER: &str = "leader/election/instance";
    pub(crate) const NECESSARY: &str = "leader/sharding/necessary";
    pub(crate) const FAILOVER_ITEMS: &str = "leader/failover/items";
    pub(crate) const INCARNATIONS: &str = "rosterd/incarnation";
    pub(crate) const POLICY: &str = "rosterd/policy";
    pub(crate) const PAUSED: &str = "rosterd/paused";
    pub(crate) const TRIGGERS: &str = "rosterd/triggers";
    pub(crate) const COMMANDS: &str = "rosterd/commands";
    pub(crate) const OFFSETS: &str = "offset";
    pub(crate) const STARTED: &str = "guarantee/started";
    pub(crate) const COMPLETED: &str = "guarantee/completed";
    pub(crate) const OWN_INSTANCES: &str = "rosterd/instances";
}

/// Folders that exist as long as the job does, parents first.
const FOLDERS: [&str; 15] = [
    "servers",
    "instances",
    "trigger",
    "leader",
    "leader/election",
    "leader/sharding",
    "leader/failover",
    "leader/failover/items",
    "guarantee",
    "guarantee/started",
    "guarantee/completed",
    "offset",
    "rosterd/instances",
    "rosterd/triggers",
    "rosterd/commands",
];

/// What is held and has completed of an announced fire: the nodes below these.
const GUARANTEE: [&str; 2] = ["guarantee/started", "guarantee/completed"];

/// The input of decisions, relative to the job: these nodes and all below them.
const DECISION: [&str; 11] = [
    "config",
    "servers",
    "instances",
    "trigger",
    "leader/election",
    "leader/sharding",
    "leader/failover/items",
    "rosterd/instances",
    "rosterd/triggers",
    "rosterd/commands",
    "rosterd/paused",
];

impl Paths {
    pub(crate) fn new(namespace: &Namespace) -> Self {
        Self {
            jobs: format!("/{namespace}"),
            own: format!("/rosterd/{namespace}"),
            coordinators: format!("/{OURS}/{namespace}/coordinators"),
            workers: format!("/{OURS}/{namespace}/workers"),
        }
    }

    /// What must exist before the first transaction, with all parents.
    pub(crate) fn roots(&self) -> [Path; 3] {
        [self.jobs(), self.coordinators(), self.workers()]
    }

    /// The folder of what is ours alone and belongs to no job.
    pub(crate) fn common(&self) -> Path {
        Path(self.own.as_str().into())
    }

    /// What is added to the numbers of transactions for tokens.
    pub(crate) fn numbering(&self) -> Path {
        Path(join(&self.own, "tokens").into())
    }

    pub(crate) fn jobs(&self) -> Path {
        Path(self.jobs.as_str().into())
    }

    pub(crate) fn coordinators(&self) -> Path {
        Path(self.coordinators.as_str().into())
    }

    pub(crate) fn workers(&self) -> Path {
        Path(self.workers.as_str().into())
    }

    pub(crate) fn coordinator(&self, id: &CoordinatorId) -> Path {
        Path(join(&self.coordinators, id.as_str()).into())
    }

    pub(crate) fn worker(&self, worker: &WorkerId) -> Path {
        Path(join(&self.workers, worker.as_str()).into())
    }

    fn below(&self, job: &JobName, folder: &str) -> Path {
        self.path(job, &[folder])
    }

    /// These parts behind each other, below the job. Each run needs a dozen paths, so no formatter is involved.
    fn path(&self, job: &JobName, parts: &[&str]) -> Path {
        let below = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut path = String::with_capacity(self.jobs.len() + job.as_str().len() + 2 + below);
        path.push_str(&self.jobs);
        path.push('/');
        path.push_str(job.as_str());
        path.push('/');
        parts.iter().for_each(|part| path.push_str(part));
        Path(path.into())
    }

    fn of_item(&self, job: &JobName, folder: &str, item: Item, below: &str) -> Path {
        self.path(job, &[folder, &item.0.to_string(), below])
    }

    pub(crate) fn job(&self, job: &JobName) -> Path {
        Path(join(&self.jobs, job.as_str()).into())
    }

    /// The folders that are created with a job and exist as long as it does, parents first.
    pub(crate) fn folders(&self, job: &JobName) -> impl Iterator<Item = Path> {
        FOLDERS.iter().map(|folder| self.below(job, folder))
    }

    pub(crate) fn config(&self, job: &JobName) -> Path {
        self.below(job, below_job::CONFIG)
    }

    pub(crate) fn servers(&self, job: &JobName) -> Path {
        self.below(job, below_job::SERVERS)
    }

    pub(crate) fn server(&self, job: &JobName, server: &ServerAddress) -> Path {
        self.path(job, &["servers/", server.as_str()])
    }

    pub(crate) fn instances(&self, job: &JobName) -> Path {
        self.below(job, below_job::INSTANCES)
    }

    pub(crate) fn instance(&self, job: &JobName, instance: &InstanceId) -> Path {
        self.path(job, &["instances/", instance.as_str()])
    }

    pub(crate) fn foreign_triggers(&self, job: &JobName) -> Path {
        self.below(job, below_job::FOREIGN_TRIGGERS)
    }

    pub(crate) fn foreign_trigger(&self, job: &JobName, instance: &InstanceId) -> Path {
        self.path(job, &["trigger/", instance.as_str()])
    }

    /// The assignment; its version is the generation.
    pub(crate) fn sharding(&self, job: &JobName) -> Path {
        self.below(job, below_job::SHARDING)
    }

    /// An item's record.
    pub(crate) fn record(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "sharding/", item, "")
    }

    pub(crate) fn item_instance(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "sharding/", item, "/instance")
    }

    pub(crate) fn running(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "sharding/", item, "/running")
    }

    pub(crate) fn failover(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "sharding/", item, "/failover")
    }

    pub(crate) fn misfire(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "sharding/", item, "/misfire")
    }

    pub(crate) fn item_disabled(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "sharding/", item, "/disabled")
    }

    /// Its version is the epoch.
    pub(crate) fn election(&self, job: &JobName) -> Path {
        self.below(job, below_job::ELECTION)
    }

    pub(crate) fn leader(&self, job: &JobName) -> Path {
        self.below(job, below_job::LEADER)
    }

    pub(crate) fn necessary(&self, job: &JobName) -> Path {
        self.below(job, below_job::NECESSARY)
    }

    pub(crate) fn failover_items(&self, job: &JobName) -> Path {
        self.below(job, below_job::FAILOVER_ITEMS)
    }

    pub(crate) fn failover_item(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "leader/failover/items/", item, "")
    }

    pub(crate) fn started(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "guarantee/started/", item, "")
    }

    pub(crate) fn completed(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "guarantee/completed/", item, "")
    }

    pub(crate) fn announced(&self, job: &JobName, stage: Stage) -> Path {
        match stage {
            Stage::Started => self.below(job, below_job::STARTED),
            Stage::Completed => self.below(job, below_job::COMPLETED),
        }
    }

    pub(crate) fn offset(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "offset/", item, "")
    }

    /// The folder of all nodes that are ours alone.
    pub(crate) fn own(&self, job: &JobName) -> Path {
        self.below(job, "rosterd")
    }

    /// The folder of the incarnation; exists exactly while the job has one.
    pub(crate) fn incarnations(&self, job: &JobName) -> Path {
        self.below(job, below_job::INCARNATIONS)
    }

    /// The incarnation's name is a part of its path, because a check can only ask whether a node exists and at which
    /// version, and both can be the same after the node was created again. `None`: the name is not valid.
    pub(crate) fn incarnation(&self, job: &JobName, name: &str) -> Option<Path> {
        // The rule for a worker's name is the rule for one path segment.
        WorkerId::check(name).ok()?;
        Some(self.path(job, &["rosterd/incarnation/", name]))
    }

    /// The folder of the name under which a job is prepared; exists until the job has an incarnation.
    pub(crate) fn preparing(&self, job: &JobName) -> Path {
        self.below(job, "rosterd/prepared")
    }

    /// The name is a part of the path for the same reason as an incarnation's. `None`: the name is not valid.
    pub(crate) fn prepared(&self, job: &JobName, name: &str) -> Option<Path> {
        WorkerId::check(name).ok()?;
        Some(self.path(job, &["rosterd/prepared/", name]))
    }

    /// The folder of all offsets.
    pub(crate) fn offsets(&self, job: &JobName) -> Path {
        self.below(job, below_job::OFFSETS)
    }

    pub(crate) fn policy(&self, job: &JobName) -> Path {
        self.below(job, below_job::POLICY)
    }

    pub(crate) fn paused(&self, job: &JobName) -> Path {
        self.below(job, below_job::PAUSED)
    }

    pub(crate) fn own_instance(&self, job: &JobName, instance: &InstanceId) -> Path {
        self.path(job, &["rosterd/instances/", instance.as_str()])
    }

    pub(crate) fn triggers(&self, job: &JobName) -> Path {
        self.below(job, below_job::TRIGGERS)
    }

    pub(crate) fn trigger(&self, job: &JobName, item: Item) -> Path {
        self.of_item(job, "rosterd/triggers/", item, "")
    }

    /// The nodes below which a change gives hints about a job, and whether their descendants count; never the job's own
    /// node.
    pub(crate) fn watched(&self, job: &JobName) -> [(Path, bool); 8] {
        [
            (self.config(job), false),
            (self.sharding(job), false),
            (self.servers(job), true),
            (self.instances(job), true),
            (self.foreign_triggers(job), true),
            (self.below(job, "leader"), true),
            (self.own(job), true),
            // Written only for jobs with guarantees.
            (self.below(job, "guarantee"), true),
        ]
    }

    /// The same for the disabled marks of this many items. For a few items, each mark has its own watch, so that runs
    /// cause no events; for more items that would be too many watches, so everything below the assignment is watched,
    /// and events of runs are dropped.
    pub(crate) fn watched_items(&self, job: &JobName, items: u32) -> Vec<(Path, bool)> {
        match items {
            0..=MOST_MARKS => (0..items).map(|item| (self.item_disabled(job, Item(item)), false)).collect(),
            _ => vec![(self.sharding(job), true)],
        }
    }

    pub(crate) fn commands(&self, job: &JobName) -> Path {
        self.below(job, below_job::COMMANDS)
    }

    pub(crate) fn command(&self, job: &JobName, name: &CommandName) -> Path {
        self.path(job, &["rosterd/commands/", name.as_str()])
    }

    /// What kind of node this is.
    pub(crate) fn place<'a>(&self, path: &'a Path) -> NodeRole<'a> {
        let path = path.as_str();
        if let Some(below) = below(path, &self.jobs) {
            let Some((job, below)) = below.split_once('/') else { return NodeRole::Job };
            // `sharding` itself is the assignment; everything below it is run state.
            let decision = below == "sharding" || DECISION.iter().any(|folder| within(below, folder));
            let guarantee = GUARANTEE.iter().any(|folder| self::below(below, folder).is_some());
            if is_switch(below) {
                return NodeRole::Switch(job);
            }
            return match (decision, guarantee) {
                (true, _) => NodeRole::Decision(job),
                (false, true) => NodeRole::Guarantee(job),
                (false, false) => NodeRole::Quiet,
            };
        }
        if below(path, &self.coordinators).is_some() { NodeRole::Coordinator } else { NodeRole::Quiet }
    }
}

fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    path.strip_prefix(folder)?.strip_prefix('/')
}

/// `sharding/{item}/disabled`.
fn is_switch(path: &str) -> bool {
    let item = below(path, "sharding").and_then(|path| path.strip_suffix("/disabled"));
    item.is_some_and(|item| !item.contains('/'))
}

fn within(path: &str, folder: &str) -> bool {
    path == folder || below(path, folder).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinators_own_node_is_known() {
        let paths = Paths::new(&Namespace::new("ns").unwrap());
        assert!(paths.coordinator(&CoordinatorId::new("a@-@1").unwrap()).is_coordinators());
        assert!(!paths.coordinators().is_coordinators());
        assert!(!paths.worker(&WorkerId::new("w").unwrap()).is_coordinators());
        assert!(!paths.config(&JobName::new("coordinators").unwrap()).is_coordinators());
    }

    #[test]
    fn what_decides_is_told_and_run_state_is_not() {
        let paths = Paths::new(&Namespace::new("ns").unwrap());
        let job = JobName::new("job").unwrap();
        let place = |below: &str| {
            let path = Path::stored(&format!("/ns/job/{below}")).unwrap();
            match paths.place(&path) {
                NodeRole::Decision(name) => {
                    assert_eq!(name, "job");
                    true
                }
                other => {
                    assert_eq!(other, NodeRole::Quiet);
                    false
                }
            }
        };
        for told in ["config", "servers/a", "instances/i", "trigger/i", "sharding", "leader/election"] {
            assert!(place(told), "{told}");
        }
        for told in ["leader/election/instance", "leader/sharding/necessary", "leader/failover/items/3"] {
            assert!(place(told), "{told}");
        }
        for told in ["rosterd/instances/i", "rosterd/triggers/0", "rosterd/paused"] {
            assert!(place(told), "{told}");
        }
        for quiet in ["sharding/0", "sharding/0/running", "offset/1", "guarantee/started", "leader/failover"]
        {
            assert!(!place(quiet), "{quiet}");
        }
        for quiet in ["rosterd/policy", "rosterd/incarnation/x", "configuration", "rosterd"] {
            assert!(!place(quiet), "{quiet}");
        }
        for held in [paths.started(&job, Item(0)), paths.completed(&job, Item(7))] {
            assert_eq!(paths.place(&held), NodeRole::Guarantee("job"));
        }
        assert_eq!(paths.place(&paths.item_disabled(&job, Item(3))), NodeRole::Switch("job"));
        assert_eq!(paths.place(&paths.job(&job)), NodeRole::Job);
        assert_eq!(paths.place(&paths.coordinator(&CoordinatorId::new("c").unwrap())), NodeRole::Coordinator);
        assert_eq!(paths.place(&paths.worker(&WorkerId::new("w").unwrap())), NodeRole::Quiet);
    }

    /// A store that watches single nodes watches every node that decisions are made from.
    #[test]
    fn what_is_watched_covers_what_decides() {
        let paths = Paths::new(&Namespace::new("ns").unwrap());
        let job = JobName::new("job").unwrap();
        let covers = |path: &Path| {
            let tells = |(folder, below): &(Path, bool)| {
                path == folder || *below && super::below(path.as_str(), folder.as_str()).is_some()
            };
            paths.watched(&job).iter().any(tells)
        };
        for folder in DECISION {
            assert!(covers(&paths.below(&job, folder)), "{folder}");
        }
        assert!(covers(&paths.started(&job, Item(0))) && covers(&paths.completed(&job, Item(0))));
        assert!(covers(&paths.sharding(&job)) && covers(&paths.trigger(&job, Item(0))));
        assert!(!covers(&paths.item_disabled(&job, Item(0))) && !covers(&paths.offset(&job, Item(0))));
        let marks = |items| paths.watched_items(&job, items);
        assert_eq!(marks(2), [0, 1].map(|item| (paths.item_disabled(&job, Item(item)), false)));
        assert_eq!((marks(0), marks(MOST_MARKS + 1)), (vec![], vec![(paths.sharding(&job), true)]));
    }

    #[test]
    fn an_incarnation_is_one_segment() {
        let paths = Paths::new(&Namespace::new("ns").unwrap());
        let job = JobName::new("job").unwrap();
        assert!(paths.incarnation(&job, "../config").is_none());
        assert_eq!(paths.incarnation(&job, "a1").unwrap().as_str(), "/ns/job/rosterd/incarnation/a1");
    }
}
