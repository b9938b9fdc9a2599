//! Progress that workers here have reported for the runs of one job, and that is not written yet.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, Token};
use rosterd_domain::plan::Progressed;
use rosterd_domain::time::Mono;

/// How many bytes may wait for one job; progress beyond that is dropped, and the next report makes up for it.
const MOST_BYTES: usize = 1 << 20;

/// Progress that workers here have reported for the runs of one job, and that is not written yet.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    said: BTreeMap<Item, Progressed>,
    bytes: usize,
    /// When it is written at the latest.
    due: Option<Mono>,
}

impl Progress {
    pub(crate) fn said(&self) -> &BTreeMap<Item, Progressed> {
        &self.said
    }

    pub(crate) fn is_due(&self, now: Mono) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Stores the progress of a run, if there is room for it. True: nothing else waits, and it has to be written by
    /// `due`.
    pub(crate) fn put(&mut self, item: Item, said: Progressed, due: Mono) -> bool {
        let before = self.said.get(&item).map_or(0, |before| before.offset.len());
        let bytes = self.bytes - before + said.offset.len();
        if bytes > MOST_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.said.insert(item, said);
        let first = self.due.is_none();
        self.due.get_or_insert(due);
        first
    }

    /// Forgets the progress of an item if the predicate matches it.
    pub(crate) fn take(&mut self, item: Item, is: impl Fn(&Progressed) -> bool) {
        if self.said.get(&item).is_some_and(is)
            && let Some(gone) = self.said.remove(&item)
        {
            self.bytes -= gone.offset.len();
        }
    }

    /// Progress was written. True: more of it waits, and has to be written by `due`.
    pub(crate) fn written(&mut self, due: Mono) -> bool {
        self.due = (!self.said.is_empty()).then_some(due);
        self.due.is_some()
    }

    /// Drops progress of any run of the item but the one that is in flight.
    pub(crate) fn is_of(&mut self, item: Item, token: Option<Token>) {
        self.take(item, |said| Some(said.token) != token);
    }
}
