//! The stored state of a job as far as it is known, and which parts may be outdated.

use std::sync::Arc;

use rosterd_domain::id::{Generation, Item, Version};
use rosterd_domain::item::{Record, Records};
use rosterd_domain::snapshot::Switches;
use rosterd_domain::view::Job;

/// Why a job cannot be decoded.
#[derive(Debug, Clone)]
pub(crate) struct Damaged {
    pub(crate) why: String,
    /// The guards for repairing or removing it; `None` if not even that could be read.
    pub(crate) torn: Option<Torn>,
    /// It was being removed before one of its nodes could not be read, and still is.
    pub(crate) ending: bool,
}

/// The nodes of a job whose configuration, policy or assignment cannot be decoded.
#[derive(Debug, Clone)]
pub(crate) struct Torn {
    pub(crate) incarnation: Arc<str>,
    pub(crate) config_version: Version,
    pub(crate) generation: Generation,
    pub(crate) assignment: Arc<[u8]>,
}

/// The result of the last read of a job. It is kept while the job is read again.
#[derive(Debug, Default)]
pub(crate) enum KnownJob {
    /// It was never read.
    #[default]
    Unread,
    /// It does not exist.
    Absent,
    /// It exists without an incarnation: it is being removed.
    Ending,
    /// It exists, but cannot be decoded.
    Damaged(Damaged),
    /// Its decision state, decoded.
    Present(Arc<Job>),
}

impl KnownJob {
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self, Self::Unread)
    }

    /// Whether it is being removed.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self, Self::Ending | Self::Damaged(Damaged { ending: true, .. }))
    }

    /// Returns its decision state.
    pub(crate) fn view(&self) -> Option<&Arc<Job>> {
        match self {
            Self::Present(view) => Some(view),
            _ => None,
        }
    }
}

/// Which parts of a job have to be read again. A later variant includes the earlier ones: records are read together
/// with the decision state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Freshness {
    #[default]
    Current,
    /// The decision state may be outdated.
    DecisionBehind,
    /// The records may be outdated.
    RecordsBehind,
}

/// The stored state of a job as far as it is known, and which parts may be outdated.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    known: KnownJob,
    /// Whether the decision state or the records may be outdated.
    freshness: Freshness,
    /// The job existed at some time.
    existed: bool,
    /// The records of all its items; own writes keep those of hosted items up to date.
    records: Records,
    /// The marks of disabled items may have changed.
    switches_stale: bool,
    /// The marks as read, to be handled.
    switches: Option<Switches>,
}

impl Cache {
    /// A job that was read and exists.
    #[cfg(test)]
    pub(crate) fn of(view: Arc<Job>) -> Self {
        Self { known: KnownJob::Present(view), existed: true, ..Self::default() }
    }

    /// A job that was read and does not exist.
    #[cfg(test)]
    pub(crate) fn absent() -> Self {
        Self { known: KnownJob::Absent, ..Self::default() }
    }

    pub(crate) fn known(&self) -> &KnownJob {
        &self.known
    }

    /// Returns the decision state; `None` unless the job was read, exists and could be decoded.
    pub(crate) fn view(&self) -> Option<&Arc<Job>> {
        self.known.view()
    }

    /// Returns why the job cannot be decoded; `None` if that is not known to be so.
    pub(crate) fn damaged(&self) -> Option<&Damaged> {
        match &self.known {
            KnownJob::Damaged(damaged) => Some(damaged),
            _ => None,
        }
    }

    /// Whether the job is known to exist.
    pub(crate) fn is_there(&self) -> bool {
        !matches!(self.known, KnownJob::Unread | KnownJob::Absent)
    }

    /// Whether the job existed at some time.
    pub(crate) fn existed(&self) -> bool {
        self.existed
    }

    // ---- what a read found

    /// The job was read, and counts as absent unless `found` is called next. Returns the previous state.
    pub(crate) fn read_again(&mut self) -> KnownJob {
        std::mem::replace(&mut self.known, KnownJob::Absent)
    }

    /// The job exists, in this state.
    pub(crate) fn found(&mut self, known: KnownJob) {
        self.existed = true;
        self.known = known;
    }

    /// A node of the job is damaged: no part of the job has to be read again until it changes.
    pub(crate) fn cannot_be_read(&mut self, why: String) {
        let ending = self.known.is_ending();
        self.found(KnownJob::Damaged(Damaged { why, torn: None, ending }));
        self.freshness = Freshness::Current;
    }

    // ---- how far it may be behind

    /// The decision state may have changed.
    pub(crate) fn went_stale(&mut self) {
        self.freshness = self.freshness.max(Freshness::DecisionBehind);
    }

    /// Records may have changed.
    pub(crate) fn records_went_stale(&mut self) {
        self.freshness = Freshness::RecordsBehind;
    }

    /// Whether the job has to be read before the next decision.
    pub(crate) fn is_behind(&self) -> bool {
        self.known.is_unread() || self.freshness > Freshness::Current
    }

    /// Whether records may have changed since they were requested.
    pub(crate) fn records_are_stale(&self) -> bool {
        self.freshness == Freshness::RecordsBehind
    }

    /// Whether the records were read, and have not changed since as far as is known.
    pub(crate) fn records_are_current(&self) -> bool {
        !self.known.is_unread() && !self.records_are_stale()
    }

    /// A read starts: changes from now on require another one. Returns whether the records are read as well.
    pub(crate) fn begin_reading(&mut self) -> bool {
        let whole = !self.records_are_current();
        self.freshness = Freshness::Current;
        whole
    }

    /// The records were read. Returns whether they may have changed since they were requested, and clears that mark.
    pub(crate) fn take_records_stale(&mut self) -> bool {
        let came_meanwhile = self.records_are_stale();
        if came_meanwhile {
            self.freshness = Freshness::Current;
        }
        came_meanwhile
    }

    // ---- its records

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn record(&self, item: Item) -> Option<&(Version, Arc<Record>)> {
        self.records.get(&item)
    }

    pub(crate) fn put_record(&mut self, item: Item, version: Version, record: Arc<Record>) {
        self.records.insert(item, (version, record));
    }

    pub(crate) fn drop_record(&mut self, item: Item) -> Option<(Version, Arc<Record>)> {
        self.records.remove(&item)
    }

    // ---- the marks of disabled items

    /// The marks may have changed.
    pub(crate) fn switches_went_stale(&mut self) {
        self.switches_stale = true;
    }

    /// Returns whether the marks have to be read. The caller starts that read now.
    pub(crate) fn begin_reading_switches(&mut self) -> bool {
        std::mem::take(&mut self.switches_stale)
    }

    /// The marks were read.
    pub(crate) fn switches_read(&mut self, switches: Option<Switches>) {
        self.switches = switches;
    }

    /// Takes the marks that were read, to be handled once.
    pub(crate) fn take_switches(&mut self) -> Option<Switches> {
        self.switches.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_stale_while_it_is_read_is_read_again() {
        let mut cache = Cache::default();
        assert!(cache.is_behind() && cache.begin_reading(), "all of it is read first");
        cache.found(KnownJob::Ending);
        assert!(!cache.is_behind() && cache.records_are_current());
        cache.went_stale();
        assert!(cache.is_behind() && cache.records_are_current());
        cache.records_went_stale();
        cache.went_stale();
        assert!(cache.records_are_stale(), "a full read includes the records");
        assert!(cache.begin_reading() && !cache.is_behind());
        cache.records_went_stale();
        assert!(cache.take_records_stale() && !cache.take_records_stale());
    }

    #[test]
    fn a_job_that_is_being_removed_still_is_when_a_node_of_it_is_damaged() {
        let mut cache = Cache::default();
        cache.found(KnownJob::Ending);
        cache.records_went_stale();
        cache.cannot_be_read("why".into());
        assert!(cache.known().is_ending() && cache.damaged().is_some() && !cache.is_behind());
        let before = cache.read_again();
        assert!(before.is_ending() && !cache.is_there() && cache.existed());
    }
}
