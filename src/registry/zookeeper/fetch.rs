//! Reads nodes at one revision, as a tree from which the port's reads are answered.
//!
//! What to read depends on what is found: the records to read are the children of a folder. So everything known to be
//! wanted is requested at once, folders and data together; if the answer names nodes that were not requested,
//! everything is requested again with those added. The answer that names nothing new is the result. The servers execute
//! a request of several reads between two transactions, so the result is of one revision without any comparison, and a
//! job with some hundred items costs two requests.
//!
//! A reading that does not fit in one request (`parts`) is done in parts, and repeated until two in a row are equal:
//! what did not change between them was all in that state at the moment between the two. What did change is read at
//! that moment, in one request, so a few nodes that change all the time do not prevent reading a thousand others.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use zookeeper_client::{Client, Error, MultiReadResult};

use super::existence::NodeKind;
use super::parts::{Ask, Sizes};
use super::wants::{Found, Want, Wants, kind};
use crate::paths::Path;

/// How many rounds are tried before giving up: more than folders are nested deep, and more than any reading is
/// repeated.
const MAX_ROUNDS: usize = 60;
/// How often a reading in parts is tried before the last one is taken as it is: each try finds one more node that
/// changes.
const MAX_PASSES: usize = 20;
/// The same if so many nodes change that they do not fit in one request.
const MAX_PASSES_OF_MANY: usize = 6;

/// Reads everything that `plan` wants, given what was found so far.
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
        // All requests are sent before the first answer is awaited.
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

/// A list of names does not show that a child was removed and created again; the stat of its folder does.
fn stamps(wants: &Wants) -> Wants {
    let folders = wants.iter().filter(|(_, want)| want.children);
    folders.map(|(path, _)| (path.clone(), Want { data: true, children: true })).collect()
}

/// The state of a reading in parts.
#[derive(Debug, Default)]
struct Parted {
    last: Option<Found>,
    /// The nodes that were seen to change.
    moving: Wants,
    passes: usize,
}

impl Parted {
    /// Adds further nodes; returns whether any of them is new.
    fn grow(&mut self, wants: &mut Wants, more: Wants) -> bool {
        let grown = !covers(wants, &more);
        if grown {
            merge(wants, more);
            self.last = None;
        }
        grown
    }

    /// The nodes to read in one request between two readings of everything: those that were seen to change, and those
    /// that did not exist, which may be created and removed between the two.
    fn loose(&self, wants: &Wants) -> Wants {
        let Some(last) = &self.last else { return Wants::new() };
        let mut loose = last.lacks(wants);
        merge(&mut loose, self.moving.clone());
        loose
    }

    /// Compares this reading of everything with the last one; `moment` is what one request read of `loose` between the
    /// two. The result was the state at one moment, unless the passes run out.
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

/// Sends the requests at once.
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

/// Reads single nodes, in parallel; not at one revision.
pub(super) async fn look(client: &Client, paths: &[Path]) -> Result<HashMap<Path, Option<NodeKind>>, Error> {
    let sent: Vec<_> = paths.iter().map(|path| (path, client.check_stat(path.as_str()))).collect();
    let mut found = HashMap::new();
    for (path, answer) in sent {
        found.insert(path.clone(), answer.await?.map(|stat| kind(&stat)));
    }
    Ok(found)
}
