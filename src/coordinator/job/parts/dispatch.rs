//! What workers here were sent about a job, and what has to be read before.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, Token};
use rosterd_domain::item::Running;
use rosterd_session::frame::Props;

use crate::io::event::StreamId;

/// A run without a record.
pub(crate) type Unmonitored = (Item, Token, Running);

/// What workers here were sent about a job, and what has to be read before.
#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    /// Offsets as far as they are known.
    offsets: BTreeMap<Item, Option<Arc<[u8]>>>,
    /// Offsets being read, with the item's last ended run at the time of the request.
    reading_offsets: BTreeMap<Item, Option<Token>>,
    /// Runs without a record that wait for their offset to be read.
    unmonitored: Vec<Unmonitored>,
    /// Runs whose workers were told to stop them, by token and on which stream.
    told_to_stop: BTreeMap<Item, (Token, StreamId)>,
    /// Runs that have timed out, and the stream on which their workers were told.
    told_of_timeout: BTreeMap<Item, (Token, StreamId)>,
    /// The last Assignment that each hosted instance was sent.
    last_assignment_sent: BTreeMap<InstanceId, Told>,
    /// The job's properties; a changed value is another pointer.
    props: Props,
}

impl Dispatch {
    // ---- offsets

    /// Returns an item's offset, if it is known.
    pub(crate) fn offset(&self, item: Item) -> Option<&Option<Arc<[u8]>>> {
        self.offsets.get(&item)
    }

    pub(crate) fn knows_offset(&self, item: Item) -> bool {
        self.offsets.contains_key(&item)
    }

    pub(crate) fn put_offset(&mut self, item: Item, offset: Option<Arc<[u8]>>) {
        self.offsets.insert(item, offset);
    }

    /// The offset may have changed: it is read again when it is needed.
    pub(crate) fn forget_offset(&mut self, item: Item) {
        self.offsets.remove(&item);
    }

    pub(crate) fn forget_offsets(&mut self) {
        self.offsets.clear();
    }

    /// Returns whether an item's offset has to be requested, which is the case unless it is being read. `last`: the
    /// item's last ended run.
    pub(crate) fn asks_for_offset(&mut self, item: Item, last: Option<Token>) -> bool {
        let asks = !self.reading_offsets.contains_key(&item);
        if asks {
            self.reading_offsets.insert(item, last);
        }
        asks
    }

    /// The read of an offset has ended, successfully or not. Returns the item's last ended run at the time of the
    /// request.
    pub(crate) fn offset_read(&mut self, item: Item) -> Option<Token> {
        self.reading_offsets.remove(&item).flatten()
    }

    // ---- runs without a record that wait for their offset to be read

    pub(crate) fn unmonitored(&self) -> &[Unmonitored] {
        &self.unmonitored
    }

    pub(crate) fn wait_for_offset(&mut self, run: Unmonitored) {
        self.unmonitored.push(run);
    }

    pub(crate) fn take_unmonitored(&mut self) -> Vec<Unmonitored> {
        std::mem::take(&mut self.unmonitored)
    }

    // ---- what was told

    /// Records that the worker is told on this stream to stop a run; false: it was told before, on the same stream.
    pub(crate) fn tells_to_stop(&mut self, item: Item, token: Token, stream: StreamId) -> bool {
        self.told_to_stop.insert(item, (token, stream)) != Some((token, stream))
    }

    /// Forgets the runs that no longer have to stop.
    pub(crate) fn retain_stops(&mut self, stops: impl Fn(Item, Token) -> bool) {
        self.told_to_stop.retain(|item, (token, _)| stops(*item, *token));
    }

    /// Records that the worker is told on this stream that a run has timed out; false: it was told before, on the same
    /// stream.
    pub(crate) fn tells_of_timeout(&mut self, item: Item, token: Token, stream: StreamId) -> bool {
        self.told_of_timeout.insert(item, (token, stream)) != Some((token, stream))
    }

    /// Forgets the timed-out runs that are no longer in flight.
    pub(crate) fn retain_timeouts(&mut self, runs: impl Fn(Item, Token) -> bool) {
        self.told_of_timeout.retain(|item, (token, _)| runs(*item, *token));
    }

    /// Records the Assignment that an instance is sent; false: the last one was the same.
    pub(crate) fn tells_assignment(&mut self, instance: &InstanceId, told: &Told) -> bool {
        if self.last_assignment_sent.get(instance).is_some_and(|before| before.is(told)) {
            return false;
        }
        self.last_assignment_sent.insert(instance.clone(), told.clone());
        true
    }

    /// Forgets the last Assignment of an instance, so that it is sent again.
    pub(crate) fn forget_assignment(&mut self, instance: &InstanceId) {
        self.last_assignment_sent.remove(instance);
    }

    /// The job was removed: forgets its offsets and Assignments.
    pub(crate) fn forget_job(&mut self) {
        self.offsets.clear();
        self.last_assignment_sent.clear();
    }

    /// Returns the job's properties; a changed value is another pointer.
    pub(crate) fn props(&mut self, now: &BTreeMap<String, String>) -> Props {
        if *self.props != *now {
            self.props = Arc::new(now.clone());
        }
        self.props.clone()
    }
}

/// What an instance was sent: on which stream, which items it owns, and the properties of its runs.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) stream: StreamId,
    pub(crate) items: Vec<Item>,
    pub(crate) props: Props,
}

impl Told {
    fn is(&self, other: &Self) -> bool {
        self.stream == other.stream && self.items == other.items && Arc::ptr_eq(&self.props, &other.props)
    }
}
