//! Nodes read at one revision, as a tree that the answers to the port's reads are taken from.
//!
//! What is to be read depends on what is found: the records to read are the children of a folder. So everything
//! that is known to be wanted is asked for in one request, folders and data together; when the answer names
//! something that was not asked for, all of it is asked for again with that added. The answer that names nothing
//! new is the reading. The servers carry a request of several reads out between two transactions, so a reading is
//! of one revision without any comparing, and a job of a thousand items costs two requests.
//!
//! A reading that does not fit in one request is done in parts, until two in a row are alike: what did not change
//! between them stood so, all of it, in the moment between the two.

use std::collections::{BTreeMap, HashMap};

use rosterd_domain::id::{Revision, Version};
use zookeeper_client::{Client, Error, MultiReadResult, Stat as NodeStat};

use super::belief::Kind;
use crate::registry::paths::Path;
use crate::registry::tree::{SessionId, Stat, Tree};

/// Bytes of one request at most; the servers take 1 MiB, and names grow by the chroot.
const MAX_REQUEST: usize = 512 << 10;
/// How often more is asked for until it is given up: folders are not nested deeper than this.
const MAX_ROUNDS: usize = 40;
/// How often a reading in parts is tried until the last one is taken as it is.
const MAX_PASSES: usize = 6;

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
    nodes: BTreeMap<Path, (Vec<u8>, NodeStat)>,
    children: BTreeMap<Path, Vec<String>>,
}

impl Found {
    /// The names of a node's children; none where it is not there.
    pub(super) fn children(&self, path: &Path) -> impl Iterator<Item = &str> {
        self.children.get(path).into_iter().flatten().map(String::as_str)
    }

    /// Each node that was found, and whose it is.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&Path, Kind)> {
        self.nodes.iter().map(|(path, (_, stat))| (path, kind(stat)))
    }

    fn is_like(&self, other: &Self) -> bool {
        let stands = |found: &Self| -> Vec<(Path, i64, i64)> {
            found.nodes.iter().map(|(path, (_, stat))| (path.clone(), stat.czxid, stat.mzxid)).collect()
        };
        self.children == other.children && stands(self) == stands(other)
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
        // A parent's path is before its children's.
        for (path, node) in all {
            load(&mut tree, &path, stat(node));
        }
        tree
    }
}

/// Puts a node into the tree; what it hangs from and was not asked for is there, and of no interest.
fn load(tree: &mut Tree, path: &Path, found: Stat) {
    if tree.load(path, found.clone()).is_err()
        && let Some(parent) = path.parent()
    {
        load(tree, &parent, stat(None));
        let _ = tree.load(path, found);
    }
}

/// Whose a node is. Containers are of no session, whatever number stands for that.
pub(super) fn kind(stat: &NodeStat) -> Kind {
    if stat.ephemeral_owner == 0 || stat.ephemeral_owner == i64::MIN {
        Kind::Persistent
    } else {
        Kind::Ephemeral
    }
}

fn stat(node: Option<(Vec<u8>, NodeStat)>) -> Stat {
    let blank = (Version(0), Revision(0), Revision(0), None);
    let (version, created, modified, owner) = node.as_ref().map_or(blank, |(_, stat)| {
        let owner = (kind(stat) == Kind::Ephemeral).then(|| session(stat.ephemeral_owner));
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

/// Reads all that `plan` wants, given what was found.
pub(super) async fn fetch(client: &Client, plan: &(dyn Fn(&Found) -> Wants + Sync)) -> Result<Found, Error> {
    let mut wants = plan(&Found::default());
    for _ in 0..MAX_ROUNDS {
        let found = read(client, &wants).await?;
        let more = plan(&found);
        if more.iter().all(|(path, want)| wants.get(path).is_some_and(|asked| covers(*asked, *want))) {
            return Ok(found);
        }
        wants = more;
    }
    Err(Error::Throttled)
}

fn covers(asked: Want, want: Want) -> bool {
    (asked.data || !want.data) && (asked.children || !want.children)
}

async fn read(client: &Client, wants: &Wants) -> Result<Found, Error> {
    let parts = parts(wants);
    let mut last = read_parts(client, &parts).await?;
    if parts.len() == 1 {
        return Ok(last);
    }
    for _ in 1..MAX_PASSES {
        let next = read_parts(client, &parts).await?;
        if next.is_like(&last) {
            return Ok(next);
        }
        last = next;
    }
    Ok(last)
}

/// One question.
#[derive(Debug, Clone, Copy)]
enum Ask<'a> {
    Data(&'a Path),
    Children(&'a Path),
}

fn parts(wants: &Wants) -> Vec<Vec<Ask<'_>>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = 0;
    for (path, want) in wants {
        let asks = [want.data.then_some(Ask::Data(path)), want.children.then_some(Ask::Children(path))];
        for ask in asks.into_iter().flatten() {
            bytes += path.as_str().len() + 16;
            if bytes > MAX_REQUEST {
                parts.push(Vec::new());
                bytes = 0;
            }
            if let Some(part) = parts.last_mut() {
                part.push(ask);
            }
        }
    }
    parts
}

async fn read_parts(client: &Client, parts: &[Vec<Ask<'_>>]) -> Result<Found, Error> {
    // All are sent before the first answer is waited for.
    let mut sent = Vec::new();
    for part in parts {
        let mut reader = client.new_multi_reader();
        for ask in part {
            match ask {
                Ask::Data(path) => reader.add_get_data(path.as_str())?,
                Ask::Children(path) => reader.add_get_children(path.as_str())?,
            }
        }
        sent.push(reader.commit());
    }
    let mut found = Found::default();
    for (part, answer) in parts.iter().zip(sent) {
        let answer = answer.await?;
        for (ask, result) in part.iter().zip(answer) {
            match (ask, result) {
                (Ask::Data(path), MultiReadResult::Data { data, stat }) => {
                    found.nodes.insert((*path).clone(), (data, stat));
                }
                (Ask::Children(path), MultiReadResult::Children { mut children }) => {
                    children.sort_unstable();
                    found.children.insert((*path).clone(), children);
                }
                (_, MultiReadResult::Error { err: Error::NoNode }) => {}
                (_, MultiReadResult::Error { err }) => return Err(err),
                (_, other) => return Err(Error::UnexpectedError(format!("{other:?} was not asked for"))),
            }
        }
    }
    Ok(found)
}

/// Looks at single nodes, all at once; none of one revision.
pub(super) async fn look(client: &Client, paths: &[Path]) -> Result<HashMap<Path, Option<Kind>>, Error> {
    let sent: Vec<_> = paths.iter().map(|path| (path, client.check_stat(path.as_str()))).collect();
    let mut found = HashMap::new();
    for (path, answer) in sent {
        found.insert(path.clone(), answer.await?.map(|stat| kind(&stat)));
    }
    Ok(found)
}
