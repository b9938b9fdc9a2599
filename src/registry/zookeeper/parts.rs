//! Splits questions into requests, so that neither a request nor its answer becomes large.
//!
//! The servers close a connection that requests more than 1 MiB at once. They do not bound an answer, but one is
//! written as a whole, and other answers and the session's own proofs wait behind it. The size of an answer is not
//! known beforehand. The nodes of a folder are alike, so the estimate is the largest one seen there; if nothing is
//! known of a folder, a few of its nodes are read first. Bookkeeping: it sends nothing.

use std::collections::HashMap;

use super::wants::{Found, Want, Wants};
use crate::paths::Path;

/// Bytes of a request, and of an answer as far as it can be estimated.
const MAX_BYTES: usize = 240 << 10;
/// Overhead of a question beside the path.
const AROUND_PATH: usize = 14;
/// Overhead of an answer beside the data or the names.
const AROUND_DATA: usize = 81;
/// Overhead of a name.
const AROUND_NAME: usize = 4;
/// Assumed size of a node's data if nothing is known.
const UNKNOWN: usize = 512;
/// With this number of nodes of a folder, or fewer, their expected size does not matter.
const FEW: usize = 16;
/// How many nodes of a folder are sampled if nothing is known of it. They are taken from all over it, since nodes that
/// were never touched are smaller than the others.
const SAMPLES: usize = 16;
/// How many folders are remembered; then the memory starts empty again.
const CAPACITY: usize = 50_000;

/// One question.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'a> {
    Data(&'a Path),
    Children(&'a Path),
}

/// The sizes of what was read.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// The largest data of a node, by folder.
    data: HashMap<Path, usize>,
    /// The total length of the names in a folder.
    names: HashMap<Path, usize>,
}

impl Sizes {
    /// Remembers sizes of folders with many nodes.
    pub(super) fn learn(&mut self, found: &Found) {
        if self.data.len() + self.names.len() >= CAPACITY {
            *self = Self::default();
        }
        let mut counts = HashMap::<&str, usize>::new();
        found.data().for_each(|(path, _)| *counts.entry(folder(path)).or_default() += 1);
        for (path, data) in found.data() {
            if counts.get(folder(path)).is_some_and(|count| *count > FEW) {
                self.note(path, data.len());
            }
        }
        for (path, names) in found.lists().filter(|(_, names)| names.len() > FEW) {
            let bytes = names.iter().map(|name| name.len() + AROUND_NAME).sum();
            self.names.insert(path.clone(), bytes);
        }
    }

    /// Remembers the sizes of these samples.
    pub(super) fn learn_samples(&mut self, samples: &Wants, found: &Found) {
        let sizes: HashMap<&Path, usize> = found.data().map(|(path, data)| (path, data.len())).collect();
        for path in samples.keys() {
            self.note(path, sizes.get(path).copied().unwrap_or(UNKNOWN));
        }
    }

    fn note(&mut self, path: &Path, bytes: usize) {
        if let Some(largest) = self.data.get_mut(folder(path)) {
            *largest = bytes.max(*largest);
        } else if let Some(folder) = path.parent() {
            self.data.insert(folder, bytes);
        }
    }

    /// The few nodes to read before all of these are requested; usually empty.
    pub(super) fn samples(&self, wants: &Wants) -> Wants {
        let mut folders = HashMap::<&str, Vec<&Path>>::new();
        for (path, _) in wants.iter().filter(|(_, want)| want.data) {
            folders.entry(folder(path)).or_default().push(path);
        }
        let unknown = folders.iter().filter(|(name, all)| all.len() > FEW && !self.data.contains_key(**name));
        let some = unknown.flat_map(|(_, all)| all.iter().step_by(all.len().div_ceil(SAMPLES)));
        some.map(|path| ((*path).clone(), Want { data: true, children: false })).collect()
    }

    /// The questions in as few requests as possible; at least one request.
    pub(super) fn parts<'w>(&self, wants: &'w Wants) -> Vec<Vec<Ask<'w>>> {
        let mut parts = vec![Vec::new()];
        let (mut asked, mut answered) = (0, 0);
        for (path, want) in wants {
            let asks = [want.data.then_some(Ask::Data(path)), want.children.then_some(Ask::Children(path))];
            for ask in asks.into_iter().flatten() {
                let (question, answer) = (path.as_str().len() + AROUND_PATH, self.expected(ask));
                let full = asked + question > MAX_BYTES || answered + answer > MAX_BYTES;
                if full && asked > 0 {
                    parts.push(Vec::new());
                    (asked, answered) = (0, 0);
                }
                (asked, answered) = (asked + question, answered + answer);
                if let Some(part) = parts.last_mut() {
                    part.push(ask);
                }
            }
        }
        parts
    }

    fn expected(&self, ask: Ask<'_>) -> usize {
        let bytes = match ask {
            // A quarter more: a record grows during its run.
            Ask::Data(path) => self.data.get(folder(path)).map(|largest| largest + largest / 4),
            Ask::Children(path) => self.names.get(path).copied(),
        };
        bytes.unwrap_or(UNKNOWN) + AROUND_DATA
    }
}

/// The folder of a node.
fn folder(path: &Path) -> &str {
    path.as_str().rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Want = Want { data: true, children: false };

    fn path(text: &str) -> Path {
        Path::stored(text).unwrap()
    }

    fn records(count: usize) -> Wants {
        (0..count).map(|item| (path(&format!("/ns/job/many/{item}")), DATA)).collect()
    }

    #[test]
    fn what_nothing_is_known_of_is_sampled_once() {
        let mut sizes = Sizes::default();
        let mut wants = records(1_000);
        wants.insert(path("/ns/job/config"), DATA);
        let samples = sizes.samples(&wants);
        assert_eq!(samples.len(), SAMPLES, "of the records, and not of the folder with one node");
        assert!(samples.contains_key(&path("/ns/job/many/0")), "{samples:?}");
        samples.keys().for_each(|path| sizes.note(path, 300));
        assert_eq!(sizes.samples(&wants), Wants::new());
        assert_eq!(sizes.expected(Ask::Data(&path("/ns/job/many/999"))), 375 + AROUND_DATA);
    }

    /// Whatever the sizes: each question is asked once, and no part exceeds the limit if its nodes are as large as
    /// expected.
    #[test]
    fn parts_are_as_large_as_they_may_be() {
        let wants = records(10_000);
        for (bytes, expect) in [(140, 11), (600, 34), (60_000, 3_334)] {
            let mut sizes = Sizes::default();
            sizes.note(&path("/ns/job/many/7"), bytes);
            let parts = sizes.parts(&wants);
            assert_eq!(parts.concat().len(), 10_000);
            assert_eq!(parts.len(), expect, "{bytes} bytes each");
            let largest = parts.iter().map(Vec::len).max().unwrap_or(0) * (bytes + AROUND_DATA);
            assert!(largest <= MAX_BYTES, "{largest}");
        }
    }

    /// A question that is larger than the limit for one request goes alone.
    #[test]
    fn one_that_is_too_large_goes_alone() {
        let (wants, mut sizes) = (records(20), Sizes::default());
        sizes.note(&path("/ns/job/many/7"), 500 << 10);
        assert!(sizes.parts(&wants).iter().all(|part| part.len() == 1));
        assert_eq!(sizes.parts(&Wants::new()).len(), 1);
    }
}
