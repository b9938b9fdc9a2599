//! Nodes read at one revision, as a tree that the answers to the port's reads are taken from.
//!
//! What is to be read depends on what is found: the records to read are the children of a folder. So everything
//! that is known to be wanted is asked for in one request, folders and data together; when the answer names
//! something that was not asked for, all of it is asked for again with that added. The answer that names nothing
//! new is the reading. The servers carry a request of several reads out between two transactions, so a reading is
//! of one revision without any comparing, and a job of some hundred items costs two requests.
//!
//! A reading that does not fit in one request (`parts`) is done in parts, all of them again and again until two in a row
//! are alike: what did not change between them stood so, all of it, in the moment between the two. What did change is
//! read in that moment, in one request: so a few nodes that never stand still keep nobody from reading a thousand others.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use rosterd_domain::id::{Revision, Version};
use zookeeper_client::{Client, Error, MultiReadResult, Stat as NodeStat};

use super::existence::Kind;
use super::parts::{Ask, Sizes};
use crate::paths::Path;
use crate::tree::{SessionId, Stat, Tree};

/// How often all is asked for until it is given up: folders are not nested deeper than this, and no reading is tried as
/// often.
const MAX_ROUNDS: usize = 60;
/// How often a reading in parts is tried until the last one is taken as it is: each finds one more of those that move.
const MAX_PASSES: usize = 20;
/// The same where so much moves that it cannot be read in one request.
const MAX_PASSES_OF_MANY: usize = 6;

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

    /// Each node that was found, with its data.
    pub(super) fn data(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.nodes.iter().map(|(path, (data, _))| (path, data.as_slice()))
    }

    /// Each folder that was asked for its children, with their names.
    pub(super) fn lists(&self) -> impl Iterator<Item = (&Path, &[String])> {
        self.children.iter().map(|(path, names)| (path, names.as_slice()))
    }

    /// What is not as it was. A folder that was asked for its children is not if any has come or gone meanwhile.
    fn changed_since(&self, last: &Self) -> Wants {
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

    /// What of all this is not there.
    fn lacks(&self, wants: &Wants) -> Wants {
        let lacks = |(path, want): (&Path, &Want)| {
            let data = want.data && !self.nodes.contains_key(path);
            let children = want.children && !self.children.contains_key(path);
            (data || children).then(|| (path.clone(), Want { data, children }))
        };
        wants.iter().filter_map(lacks).collect()
    }

    /// The same with these nodes as they were in another moment.
    fn with(mut self, wants: &Wants, moment: Self) -> Self {
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
pub(super) async fn fetch(
    client: &Client,
    sizes: &Mutex<Sizes>,
    plan: &(dyn Fn(&Found) -> Wants + Sync),
) -> Result<Found, Error> {
    let known = || sizes.lock().unwrap_or_else(PoisonError::into_inner);
    let mut wants = plan(&Found::default());
    let mut parted = Parted::default();
    for _ in 0..MAX_ROUNDS {
        let samples = known().samples(&wants);
        if !samples.is_empty() {
            let found = read(client, &Sizes::default().parts(&samples)).await?;
            known().learn_samples(&samples, &found);
        }
        if known().parts(&wants).len() > 1 {
            let folders = stamps(&wants);
            parted.grow(&mut wants, folders);
        }
        let loose = parted.loose(&wants);
        let (parts, at_once) = {
            let known = known();
            (known.parts(&wants), known.parts(&loose))
        };
        let (single, fits) = (parts.len() == 1, !loose.is_empty() && at_once.len() == 1);
        // All are sent before the first answer is waited for.
        let first = fits.then(|| send(client, &at_once)).transpose()?;
        let all = send(client, &parts)?;
        let moment = match first {
            Some(sent) => Some(receive(&at_once, sent).await?),
            None => None,
        };
        let found = receive(&parts, all).await?;
        known().learn(&found);
        if parted.grow(&mut wants, plan(&found)) {
            continue;
        }
        if single {
            return Ok(found);
        }
        if let Some(found) = parted.compare(loose, moment, found)
            && !parted.grow(&mut wants, plan(&found))
        {
            return Ok(found);
        }
    }
    Err(Error::Throttled)
}

/// A list of names does not tell whether somebody came and went again; its folder does.
fn stamps(wants: &Wants) -> Wants {
    let folders = wants.iter().filter(|(_, want)| want.children);
    folders.map(|(path, _)| (path.clone(), Want { data: true, children: true })).collect()
}

/// A reading in parts on its way.
#[derive(Debug, Default)]
struct Parted {
    last: Option<Found>,
    /// What was seen to change.
    moving: Wants,
    passes: usize,
}

impl Parted {
    /// Adds what is wanted as well; whether that is anything new.
    fn grow(&mut self, wants: &mut Wants, more: Wants) -> bool {
        let grown = !covers(wants, &more);
        if grown {
            merge(wants, more);
            self.last = None;
        }
        grown
    }

    /// What is to be read in one request between the last reading of all and the next: what was seen to change, and what
    /// was not there, which may come and go between the two.
    fn loose(&self, wants: &Wants) -> Wants {
        let Some(last) = &self.last else { return Wants::new() };
        let mut loose = last.lacks(wants);
        merge(&mut loose, self.moving.clone());
        loose
    }

    /// Compares all with the last reading of all; `moment` is what was read of `loose` in one request between the two.
    /// What comes back stood so at one moment, unless it never comes to that.
    fn compare(&mut self, loose: Wants, moment: Option<Found>, found: Found) -> Option<Found> {
        self.passes += 1;
        let mut most = MAX_PASSES;
        if let Some(last) = &self.last {
            let changed = found.changed_since(last);
            match moment {
                Some(moment) if covers(&loose, &changed) => return Some(found.with(&loose, moment)),
                None if changed.is_empty() => return Some(found),
                None if !loose.is_empty() => most = MAX_PASSES_OF_MANY,
                _ => {}
            }
            merge(&mut self.moving, changed);
        }
        if self.passes >= most {
            return Some(found);
        }
        self.last = Some(found);
        None
    }
}

fn covers(asked: &Wants, wants: &Wants) -> bool {
    let covers = |asked: &Want, want: &Want| (asked.data || !want.data) && (asked.children || !want.children);
    wants.iter().all(|(path, want)| asked.get(path).is_some_and(|asked| covers(asked, want)))
}

fn merge(wants: &mut Wants, more: Wants) {
    for (path, want) in more {
        let wanted = wants.entry(path).or_default();
        *wanted = Want { data: wanted.data || want.data, children: wanted.children || want.children };
    }
}

/// Sends the requests, now.
fn send<'c>(
    client: &'c Client,
    parts: &[Vec<Ask<'_>>],
) -> Result<Vec<impl Future<Output = Result<Vec<MultiReadResult>, Error>> + Send + use<'c>>, Error> {
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
    Ok(sent)
}

async fn receive(
    parts: &[Vec<Ask<'_>>],
    sent: Vec<impl Future<Output = Result<Vec<MultiReadResult>, Error>>>,
) -> Result<Found, Error> {
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

async fn read(client: &Client, parts: &[Vec<Ask<'_>>]) -> Result<Found, Error> {
    receive(parts, send(client, parts)?).await
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
