//! The journal: what each batch changed, appended to a table of its own, and merged into the nodes' rows later.
//!
//! A batch changes a few nodes here and there, each with its row on another page of the database; all of these would be
//! written for every batch. So a batch appends one entry, which shares its pages with those before it. After as many
//! bytes as the limit, the nodes changed until then are merged: their rows get the state of that moment, a few of them
//! with each batch, in the order of their paths, so that a page is written for many. When all are merged, the entries
//! up to then are deleted. Whoever opens the database reads the rows, and over them the journal. Called by `disk` and
//! `open`; it never decides when something is written.

use std::collections::BTreeMap;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use rosterd_domain::id::{Revision, Version};
use rosterd_runtime::lookup::Lookup;
use rusqlite::{Connection, params};

use super::ledger::{Ledger, Row, signed};
use crate::forms;
use crate::paths::Path;
use crate::tree::Stat;

/// One row per batch; beside the changes what the ledger says after it.
pub(super) const SCHEMA: &str = "
    CREATE TABLE journal (
        batch INTEGER PRIMARY KEY, rows INTEGER NOT NULL, sum INTEGER NOT NULL, ceiling INTEGER NOT NULL,
        changes BLOB NOT NULL
    ) STRICT;";

/// What a batch changed, as it is stored: a protobuf message.
#[derive(PartialEq, Message)]
struct Changes {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Changed>,
}

#[derive(PartialEq, Message)]
struct Changed {
    #[prost(string, tag = "1")]
    path: String,
    /// `None`: it was deleted.
    #[prost(message, optional, tag = "2")]
    state: Option<State>,
}

#[derive(PartialEq, Message)]
struct State {
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
    #[prost(uint64, tag = "2")]
    version: u64,
    #[prost(uint64, tag = "3")]
    created: u64,
    #[prost(uint64, tag = "4")]
    modified: u64,
}

/// Writes a batch's changes as an entry: the bytes of [`Changes`], which would need a copy of every state.
pub(super) fn encode(rows: &[Row<'_>], entry: &mut Vec<u8>) {
    let (mut node, mut state) = (Vec::new(), Vec::new());
    entry.clear();
    for row in rows {
        node.clear();
        put(1, row.path.as_str().as_bytes(), &mut node);
        if let Some(stat) = row.after {
            state.clear();
            if !stat.data.is_empty() {
                put(1, &stat.data, &mut state);
            }
            for (tag, number) in [(2, stat.version.0), (3, stat.created.0), (4, stat.modified.0)] {
                if number > 0 {
                    encode_key(tag, WireType::Varint, &mut state);
                    encode_varint(number, &mut state);
                }
            }
            put(2, &state, &mut node);
        }
        put(1, &node, entry);
    }
}

/// A field of bytes, text or a message.
fn put(tag: u32, field: &[u8], message: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, message);
    encode_varint(field.len() as u64, message);
    message.extend_from_slice(field);
}

/// The states that the journal leaves; `None`: the node was deleted.
pub(super) type Left = BTreeMap<Path, Option<Stat>>;

/// Reads an entry over those before it. `Err`: what is wrong with it.
pub(super) fn decode(entry: &[u8], left: &mut Left) -> Result<(), String> {
    for Changed { path, state } in Changes::decode(entry).map_err(|error| error.to_string())?.nodes {
        let stored = Path::stored(&path).ok_or_else(|| format!("{path:?} is not a path"))?;
        let stat = state.map(|state| Stat {
            data: if state.data.is_empty() { forms::empty() } else { state.data.into() },
            version: Version(state.version),
            created: Revision(state.created),
            modified: Revision(state.modified),
            owner: None,
        });
        left.insert(stored, stat);
    }
    Ok(())
}

/// How many bytes an entry takes, with its four numbers.
pub(super) fn size(entry: &[u8]) -> usize {
    4 * size_of::<i64>() + entry.len()
}

/// What the merging does along with a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// So many of the waiting nodes are merged.
    pub(super) merge: usize,
    /// Then the entries up to this batch are deleted.
    forget: Option<u64>,
}

/// The journal of a database that is opened.
#[derive(Default)]
pub(super) struct Found {
    pub(super) bytes: usize,
    /// The nodes that it changed.
    pub(super) changed: Lookup<Path, ()>,
}

/// Which nodes have rows that are older than the journal.
#[derive(Debug)]
pub(super) struct Merging {
    /// After how many bytes of entries merging begins; see [`size`].
    limit: usize,
    /// The bytes of the entries after the mark.
    bytes: usize,
    /// The nodes that these changed.
    changed: Lookup<Path, ()>,
    /// The last batch whose nodes are being merged.
    mark: Option<u64>,
    /// How many they were.
    marked: usize,
    /// Those that are still to be merged, the next one last.
    waiting: Vec<Path>,
}

impl Merging {
    /// Continues with a journal that was read.
    pub(super) fn new(limit: usize, found: Found) -> Self {
        let Found { bytes, changed } = found;
        Self { limit: limit.max(1), bytes, changed, mark: None, marked: 0, waiting: Vec::new() }
    }

    /// What goes along with an entry of so many bytes: as much that all is merged by half of the limit.
    pub(super) fn step(&self, bytes: usize) -> Step {
        let left = self.limit.saturating_sub(2 * (self.bytes + bytes));
        let left = self.marked.saturating_mul(left) / self.limit;
        let merge = self.waiting.len().saturating_sub(left);
        Step { merge, forget: self.mark.filter(|_| merge == self.waiting.len()) }
    }

    /// What merges everything up to `batch`, after which no entry follows; `None`: the journal is empty.
    pub(super) fn last_step(&mut self, batch: u64) -> Option<Step> {
        let empty = self.mark.is_none() && self.bytes == 0;
        self.waiting.extend(self.changed.keys().cloned());
        (!empty).then_some(Step { merge: self.waiting.len(), forget: Some(batch) })
    }

    /// Merges what the step says, in the transaction that is open. `current` gives the state of a node after it.
    pub(super) fn write<'a>(
        &self,
        connection: &Connection,
        step: Step,
        current: impl Fn(&Path) -> Option<&'a Stat>,
    ) -> rusqlite::Result<()> {
        let mut put = connection.prepare_cached(
            "INSERT INTO node (path, data, version, created, modified) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (path) DO UPDATE SET
                data = excluded.data, version = excluded.version,
                created = excluded.created, modified = excluded.modified",
        )?;
        let mut delete = connection.prepare_cached("DELETE FROM node WHERE path = ?1")?;
        for path in self.waiting.iter().rev().take(step.merge) {
            match current(path) {
                Some(stat) => put.execute(params![
                    path.as_str(),
                    &*stat.data,
                    signed(stat.version.0),
                    signed(stat.created.0),
                    signed(stat.modified.0)
                ])?,
                None => delete.execute([path.as_str()])?,
            };
        }
        if let Some(batch) = step.forget {
            let mut delete = connection.prepare_cached("DELETE FROM journal WHERE batch <= ?1")?;
            delete.execute([signed(batch)])?;
        }
        Ok(())
    }

    /// The step was committed together with an entry: that of `batch`, of so many bytes, with changes of these nodes.
    pub(super) fn committed(&mut self, step: Step, batch: u64, bytes: usize, rows: &[Row<'_>]) {
        self.waiting.truncate(self.waiting.len() - step.merge);
        if step.forget.is_some() {
            self.mark = None;
        }
        self.bytes += bytes;
        for row in rows {
            if !self.changed.contains_key(row.path) {
                self.changed.insert(row.path.clone(), ());
            }
        }
        if self.mark.is_none() && self.bytes >= self.limit {
            let changed = std::mem::take(&mut self.changed);
            self.waiting = changed.keys().cloned().collect();
            self.waiting.reverse();
            self.marked = self.waiting.len();
            self.mark = Some(batch);
            self.bytes = 0;
        }
    }
}

/// Appends the entry of a batch, in the transaction that is open.
pub(super) fn append(connection: &Connection, ledger: Ledger, entry: &[u8]) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO journal (batch, rows, sum, ceiling, changes) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    insert.execute(params![
        signed(ledger.batch),
        signed(ledger.digest.rows),
        signed(ledger.digest.sum),
        signed(ledger.ceiling.0),
        entry
    ])?;
    Ok(())
}

/// What the database says about itself without a journal.
pub(super) fn write_ledger(connection: &Connection, ledger: Ledger) -> rusqlite::Result<()> {
    let mut update = connection
        .prepare_cached("UPDATE ledger SET batch = ?1, rows = ?2, sum = ?3, ceiling = ?4 WHERE id = 1")?;
    update.execute(params![
        signed(ledger.batch),
        signed(ledger.digest.rows),
        signed(ledger.digest.sum),
        signed(ledger.ceiling.0)
    ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of many sizes, of nodes that change often and of some that change once.
    #[test]
    fn an_entry_goes_once_its_nodes_are_merged_and_the_journal_stays_small() {
        const LIMIT: usize = 10_000;
        let mut merging = Merging::new(LIMIT, Found::default());
        let mut journal: BTreeMap<u64, (usize, Vec<Path>)> = BTreeMap::new();
        let mut merged: BTreeMap<Path, u64> = BTreeMap::new();
        let (mut cycles, mut merges, mut most) = (0, 0, 0);
        for batch in 1..20_000_u64 {
            let random = |of: u64| {
                usize::try_from(batch.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33 & 0xffff).unwrap()
                    % of as usize
            };
            let bytes = [40, 300, 900, 2_500][random(4)];
            let names = (0..1 + random(5)).map(|n| match n {
                0 => format!("/once/{batch}"),
                n => format!("/often/{}", (random(97) + n) % 8),
            });
            let paths: Vec<Path> = names.map(|name| Path::stored(&name).unwrap()).collect();
            let rows: Vec<Row<'_>> =
                paths.iter().map(|path| Row { path, before: None, after: None }).collect();
            let step = merging.step(bytes);
            for path in merging.waiting.iter().rev().take(step.merge) {
                merged.insert(path.clone(), batch);
                merges += 1;
            }
            if let Some(last) = step.forget {
                let kept = journal.split_off(&(last + 1));
                for (entry, (_, paths)) in std::mem::replace(&mut journal, kept) {
                    assert!(
                        paths.iter().all(|path| merged.get(path).is_some_and(|at| *at >= entry)),
                        "entry {entry}"
                    );
                }
                cycles += 1;
            }
            merging.committed(step, batch, bytes, &rows);
            journal.insert(batch, (bytes, paths));
            most = most.max(journal.values().map(|(bytes, _)| bytes).sum());
        }
        assert!(cycles > 500 && most <= LIMIT * 3 / 2 + 2 * 2_500, "{cycles} cycles, {most} bytes");
        let changes: usize = 20_000 * 3;
        assert!(merges < changes * 3 / 4, "{merges} merges of {changes} changes");
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let stat = |data: &[u8]| Stat {
            data: data.into(),
            version: Version(3),
            created: Revision(u64::MAX),
            modified: Revision(7),
            owner: None,
        };
        let (full, empty) = (stat(&[0, 255]), stat(&[]));
        let paths = ["/a", "/b", "/c"].map(|path| Path::stored(path).unwrap());
        let after = [Some(&full), Some(&empty), None];
        let rows: Vec<Row<'_>> =
            paths.iter().zip(after).map(|(path, after)| Row { path, before: None, after }).collect();
        let mut left = Left::from([(paths[0].clone(), None), (paths[2].clone(), Some(full.clone()))]);
        let mut entry = b"of the batch before".to_vec();
        encode(&rows, &mut entry);
        decode(&entry, &mut left).unwrap();
        let expected = paths.iter().zip(after).map(|(path, after)| (path.clone(), after.cloned()));
        assert_eq!(left, expected.collect());
        for length in [0, 1, 126, 127, 128, 200, 20_000] {
            let long = Stat { version: Version(length as u64 / 2), ..stat(&vec![7; length]) };
            let rows =
                [None, Some(&long), Some(&full)].map(|after| Row { path: &paths[0], before: None, after });
            encode(&rows, &mut entry);
            assert_eq!(Changes::decode(&*entry).unwrap().encode_to_vec(), entry, "{length} bytes");
        }
        assert!(decode(&[0xff; 9], &mut left).is_err());
        let nowhere = Changes { nodes: vec![Changed { path: "a//b".into(), state: None }] };
        assert_eq!(decode(&nowhere.encode_to_vec(), &mut left), Err(r#""a//b" is not a path"#.into()));
    }
}
