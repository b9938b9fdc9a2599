//! Elastic-Job's own job trees, as they are in an ensemble: to be migrated, see `transfer`.
//!
//! It opens a session, reads, and writes nothing, not even a root. The domain interprets the nodes. Only the layout
//! shows which version wrote a tree: 1.x has a node per field below `config` and marks a server by nodes below it, 2.x
//! and 3.x have data in `config`, in the servers and below `instances`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rosterd_domain::id::{Item, JobName, Revision, ServerAddress};
use zookeeper_client::{Client, Error};

use super::connect::{self, Opener};
use super::error::ConnectError;
use super::options::ZooKeeperOptions;
use super::parts::Sizes;
use super::wants::{Found, Wants};
use super::{fetch, read_set};
use crate::forms;
use crate::paths::{Path, Paths};
use crate::tree::{Node, Tree};

/// 1.x: a node below a server that exists while the server's process lives.
const STATUS: &str = "status";
/// 1.x: a node below a server that exists while it is disabled; in later versions, below an item.
const DISABLED: &str = "disabled";

/// One job as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignJob {
    /// Its name.
    pub name: JobName,
    /// The data of its own node.
    pub root: Vec<u8>,
    /// The data of `config`.
    pub config: Vec<u8>,
    /// 1.x: the nodes below `config`.
    pub fields: BTreeMap<String, Vec<u8>>,
    /// Whether each server is enabled.
    pub servers: BTreeMap<ServerAddress, bool>,
    /// The instances that are alive.
    pub live: Vec<String>,
    /// The disabled items.
    pub disabled_items: BTreeSet<Item>,
    /// Items with a pending misfire.
    pub misfires: BTreeSet<Item>,
    /// Crashed items that wait for failover.
    pub failover: BTreeSet<Item>,
    /// The offsets of the items.
    pub offsets: BTreeMap<Item, Arc<[u8]>>,
    /// Servers whose name is not valid here.
    pub strange_servers: Vec<String>,
}

/// What a namespace holds.
#[derive(Debug, Default)]
pub struct ForeignJobs {
    /// The jobs, by name.
    pub jobs: Vec<ForeignJob>,
    /// Other nodes, and why each is not a job.
    pub others: Vec<(String, &'static str)>,
}

/// Why a namespace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// No session could be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The servers did not answer, or refused.
    #[error(
        "{path} cannot be read: {problem}; see that a majority of the servers runs, and that these credentials may \
         read it"
    )]
    Read {
        /// Which node.
        path: String,
        /// What was said.
        problem: String,
    },
}

/// Reads all jobs of the options' namespace, or those that are `wanted`.
pub async fn jobs(options: &ZooKeeperOptions, wanted: &[JobName]) -> Result<ForeignJobs, ForeignError> {
    let paths = Paths::new(&options.namespace);
    let opener = Opener::new(options)?;
    let client = opener.below_root(connect::first(&opener, options).await?);
    let reader = ForeignReader { client, options, sizes: Mutex::default() };
    let listed = reader.read(&paths.jobs(), |_| read_set::jobs(&paths)).await?;
    let names: Vec<String> = listed.children(&paths.jobs()).map(|(name, _)| name.to_owned()).collect();
    let mut found = ForeignJobs::default();
    for text in names {
        let name = match JobName::new(&text) {
            Ok(name) => name,
            Err(error) => {
                // As the error shows it: the name could be an attack on the terminal.
                found.others.push((error.shown(), error.reason));
                continue;
            }
        };
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        let root = paths.job(&name);
        let tree = reader.read(&root, |found| read_set::everything(&root, found)).await?;
        match job(&tree, &paths, name) {
            Some(job) => found.jobs.push(job),
            None => found.others.push((text, "it has no config: it is not a job, or was removed")),
        }
    }
    Ok(found)
}

struct ForeignReader<'a> {
    client: Client,
    options: &'a ZooKeeperOptions,
    sizes: Mutex<Sizes>,
}

impl ForeignReader<'_> {
    async fn read(&self, path: &Path, wants: impl Fn(&Found) -> Wants + Sync) -> Result<Tree, ForeignError> {
        let limit = self.options.request_timeout.unwrap_or(self.options.session_timeout);
        let problem = match tokio::time::timeout(limit, self.after_sync(&wants)).await {
            Ok(Ok(found)) => return Ok(found.into_tree(Revision(0))),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} ms", limit.as_millis()),
        };
        Err(ForeignError::Read { path: path.to_string(), problem })
    }

    async fn after_sync(&self, wants: &(dyn Fn(&Found) -> Wants + Sync)) -> Result<Found, Error> {
        let synced = self.client.sync("/");
        let found = fetch::fetch(&self.client, &self.sizes, wants).await?;
        synced.await?;
        Ok(found)
    }
}

fn job(tree: &Tree, paths: &Paths, name: JobName) -> Option<ForeignJob> {
    let root = tree.get(&paths.job(&name))?.stat.data.to_vec();
    let config = tree.get(&paths.config(&name))?;
    let fields = config.children.iter().map(|(field, node)| (field.to_string(), node.stat.data.to_vec()));
    let (servers, strange_servers) = servers(tree, paths, &name);
    let marked = |below: fn(&Paths, &JobName, Item) -> Path| -> BTreeSet<Item> {
        let folder = paths.sharding(&name);
        let items = numbered(tree, &folder);
        items
            .filter(|(item, _)| tree.get(&below(paths, &name, *item)).is_some())
            .map(|(item, _)| item)
            .collect()
    };
    Some(ForeignJob {
        root,
        config: config.stat.data.to_vec(),
        fields: fields.collect(),
        servers,
        strange_servers,
        live: live(tree, paths, &name),
        disabled_items: marked(Paths::item_disabled),
        misfires: marked(Paths::misfire),
        failover: numbered(tree, &paths.failover_items(&name)).map(|(item, _)| item).collect(),
        offsets: numbered(tree, &paths.offsets(&name))
            .map(|(item, node)| (item, node.stat.data.clone()))
            .collect(),
        name,
    })
}

fn servers(tree: &Tree, paths: &Paths, name: &JobName) -> (BTreeMap<ServerAddress, bool>, Vec<String>) {
    let (mut servers, mut strange) = (BTreeMap::new(), Vec::new());
    for (address, node) in tree.children(&paths.servers(name)) {
        let enabled = forms::is_enabled(&node.stat.data) && !node.children.contains_key(DISABLED);
        match ServerAddress::new(address) {
            Ok(address) => drop(servers.insert(address, enabled)),
            Err(_) => strange.push(address.to_owned()),
        }
    }
    (servers, strange)
}

/// The instances, and for 1.x the servers, that are marked as alive.
fn live(tree: &Tree, paths: &Paths, name: &JobName) -> Vec<String> {
    let (instances, servers) = (paths.instances(name), paths.servers(name));
    let instances = tree.children(&instances).map(|(id, _)| id.to_owned());
    let servers = tree.children(&servers).filter(|(_, node)| node.children.contains_key(STATUS));
    instances.chain(servers.map(|(address, _)| address.to_owned())).collect()
}

fn numbered<'a>(tree: &'a Tree, folder: &Path) -> impl Iterator<Item = (Item, &'a Node)> + use<'a> {
    let children = tree.get(folder).into_iter().flat_map(|node| node.children.iter());
    children.filter_map(|(name, node)| Some((Item(name.parse().ok()?), node)))
}
