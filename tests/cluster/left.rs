//! The contents of the tree at the end of a scenario: nothing may refer to anything dead, and nothing may wait without
//! a request. It is read from the servers directly, independently of the coordinators' view.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::Value;
use zookeeper_client::{Client, Error, Stat};

use crate::fleet::Fleet;
use crate::harness::*;

/// How many requests are in flight at a time.
const AT_ONCE: usize = 64;

/// A node that should not exist, and the transaction that wrote it: a run that starts during the check writes the same
/// node again, a leftover stays unchanged.
type Left = BTreeSet<(String, i64)>;

/// Nodes by path, each read at a different moment.
type Nodes = BTreeMap<String, Stat>;

impl Fleet {
    /// Waits until there are no leftovers of dead processes and ended runs: two consecutive checks have found nothing
    /// in common. Every live coordinator and worker process must be there, too.
    pub async fn nothing_left(&self) {
        let until = Instant::now() + PATIENCE;
        let mut before = self.left().await;
        loop {
            let now = self.left().await;
            let both: Vec<String> = match (&before, &now) {
                (Ok(before), Ok(now)) => before.intersection(now).map(|(what, _)| what.clone()).collect(),
                (_, Err(error)) | (Err(error), _) => vec![format!("the tree cannot be read: {error}")],
            };
            if both.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "left over in {}:\n  {}", self.namespace, both.join("\n  "));
            tokio::time::sleep(LOOK).await;
            before = now;
        }
    }

    /// The items of a job with a run in flight, by the servers: coordinators may be frozen meanwhile.
    pub async fn in_flight(&self, job: &str) -> BTreeSet<u32> {
        let folder = &format!("/{}/{job}/sharding", self.namespace);
        let look = || async move {
            let client = Client::connect(&self.seats[self.seats.len() - 1].zk).await?;
            // Requests from before a freeze are written before this is answered.
            client.sync(folder).await?;
            let mut found = BTreeSet::new();
            for item in client.list_children(folder).await? {
                if client.check_stat(&format!("{folder}/{item}/running")).await?.is_some() {
                    found.insert(item.parse().unwrap());
                }
            }
            Ok::<_, Error>(found)
        };
        wait(format!("what is in flight of {job}"), || async { look().await.ok() }).await
    }

    async fn left(&self) -> Result<Left, Error> {
        let client = &Client::connect(&self.seats[self.seats.len() - 1].zk).await?;
        let ours = format!("/rosterd/{}", self.namespace);
        let coordinators = self.coordinators_left(client, &format!("{ours}/coordinators")).await?;
        let workers = self.attachments_left(client, &format!("{ours}/workers"), &coordinators.living).await?;
        let jobs = format!("/{}", self.namespace);
        let nodes = below(client, &jobs).await?;
        let mut left: Left = [coordinators.left, workers.left].concat().into_iter().collect();
        for (path, stat) in &nodes {
            let owner = stat.ephemeral_owner;
            if owner != 0 && !coordinators.sessions.contains(&owner) {
                left.insert((format!("{path} belongs to a session that is no coordinator's"), stat.czxid));
            }
            let path = path.strip_prefix(&jobs).unwrap_or_default();
            let Some((job, below)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
                continue;
            };
            if let Some(why) = wrong(&nodes, &format!("{jobs}/{job}"), below, &workers.living) {
                left.insert((format!("{job}/{below} {why}"), stat.czxid));
            }
        }
        left.extend(owners_left(client, &nodes, &workers.living).await?);
        Ok(left)
    }

    /// Each live coordinator has one node, and there are no others.
    async fn coordinators_left(&self, client: &Client, folder: &str) -> Result<Found, Error> {
        let seats = (0..self.seats.len()).filter(|seat| self.seats[*seat].proc.is_some());
        let mut wanted: BTreeSet<String> = seats.map(|seat| self.url_of(seat)).collect();
        let mut found = Found::default();
        for (id, node, stat) in children(client, folder).await? {
            let url = node["url"].as_str().unwrap_or_default();
            if !wanted.remove(url) {
                found.left.push((format!("{folder}/{id} of {url:?} is of nobody who lives"), stat.czxid));
            }
            found.sessions.insert(stat.ephemeral_owner);
            found.living.insert(id);
        }
        found.left.extend(wanted.into_iter().map(|url| (format!("{url} has no node in {folder}"), 0)));
        Ok(found)
    }

    /// Each live worker has one attachment, at an existing coordinator, and there are no others.
    async fn attachments_left(
        &self,
        client: &Client,
        folder: &str,
        hosts: &BTreeSet<String>,
    ) -> Result<Found, Error> {
        let living = self.workers.iter().filter(|worker| lives(worker.proc.id()));
        let mut wanted: Vec<String> = living.map(|worker| self.address_of(&worker.name)).collect();
        let mut found = Found::default();
        for (id, node, stat) in children(client, folder).await? {
            let address = node["address"].as_str().unwrap_or_default();
            let host = node["host"].as_str().unwrap_or_default();
            if !hosts.contains(host) {
                found.left.push((format!("{folder}/{id} is hosted by {host:?}, which is gone"), stat.czxid));
            }
            match wanted.iter().position(|wanted| *wanted == address) {
                Some(at) => drop(wanted.remove(at)),
                None => found
                    .left
                    .push((format!("{folder}/{id} of {address:?} is of nobody who lives"), stat.czxid)),
            }
            found.living.insert(id);
        }
        found.left.extend(wanted.into_iter().map(|address| (format!("{address} is not in {folder}"), 0)));
        Ok(found)
    }
}

/// The contents of a folder of coordinators or workers.
#[derive(Default)]
struct Found {
    left: Vec<(String, i64)>,
    living: BTreeSet<String>,
    sessions: BTreeSet<i64>,
}

/// What is wrong with a node of a job, judged by its path.
fn wrong(nodes: &Nodes, job: &str, below: &str, workers: &BTreeSet<String>) -> Option<&'static str> {
    let words: Vec<&str> = below.split('/').collect();
    match words[..] {
        ["leader", "failover", "items", _] => Some("waits for a taker"),
        ["sharding", _, "running" | "failover" | "misfire"] => Some("stands although no run is in flight"),
        ["rosterd", "triggers" | "commands", _] | ["trigger", _] => Some("was asked for and not done"),
        // Without an instance that can own items, the flag stays.
        ["leader", "sharding", _] => {
            let instances = nodes.get(&format!("{job}/instances")).map_or(0, |stat| stat.num_children);
            (instances > 0).then_some("says that a plan is under way")
        }
        ["instances", id] | ["rosterd", "instances", id] if !is_of(id, workers) => Some("has no attachment"),
        _ => None,
    }
}

/// The instance is one of a worker that is attached.
fn is_of(instance: &str, workers: &BTreeSet<String>) -> bool {
    instance.split_once("@-@").is_some_and(|(_, worker)| workers.contains(worker))
}

/// Items that belong to an instance without an attachment.
async fn owners_left(client: &Client, nodes: &Nodes, workers: &BTreeSet<String>) -> Result<Left, Error> {
    // Without an instance that can own items, they keep their owners.
    let told = |path: &&String| {
        let job = path.strip_suffix("/instance").and_then(|path| path.split_once("/sharding/"));
        job.is_some_and(|(job, _)| {
            nodes.get(&format!("{job}/instances")).is_some_and(|stat| stat.num_children > 0)
        })
    };
    let paths = nodes.keys().filter(told);
    let asked =
        paths.map(|path| async move { client.get_data(path).await.map(|(data, stat)| (path, data, stat)) });
    let mut asked = stream::iter(asked).buffer_unordered(AT_ONCE);
    let mut left = Left::new();
    while let Some(answer) = asked.next().await {
        let Some((path, data, stat)) = still_there(answer)? else { continue };
        let owner = String::from_utf8_lossy(&data);
        if !is_of(&owner, workers) {
            left.insert((format!("{path} is {owner}, which is gone"), stat.mzxid));
        }
    }
    Ok(left)
}

/// The nodes of a folder with what they say.
async fn children(client: &Client, folder: &str) -> Result<Vec<(String, Value, Stat)>, Error> {
    let mut found = Vec::new();
    for name in client.list_children(folder).await? {
        if let Some((data, stat)) = still_there(client.get_data(&format!("{folder}/{name}")).await)? {
            found.push((name, serde_json::from_slice(&data).unwrap(), stat));
        }
    }
    Ok(found)
}

/// Every node below a path.
async fn below(client: &Client, root: &str) -> Result<Nodes, Error> {
    let (mut found, mut level) = (Nodes::new(), vec![root.to_owned()]);
    while !level.is_empty() {
        let asked = std::mem::take(&mut level).into_iter();
        let asked = asked.map(|path| async move {
            let answer = client.get_children(&path).await;
            (path, answer)
        });
        let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some((path, answer)) = answers.next().await {
            let Some((names, stat)) = still_there(answer)? else { continue };
            level.extend(names.iter().map(|name| format!("{path}/{name}")));
            found.insert(path, stat);
        }
    }
    Ok(found)
}

/// A node that disappears during the check does not exist.
fn still_there<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process has not ended; a frozen one is alive.
fn lives(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}
