//! Attachments that are not this coordinator's.

use std::collections::BTreeSet;

use rosterd_domain::id::{CoordinatorId, Version, WorkerId};
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::time::Mono;

use crate::io::event::ReadId;
use crate::io::settings::Settings;

/// An attachment that is not this coordinator's.
#[derive(Debug)]
pub(crate) struct RemoteAttachment {
    version: Version,
    attachment: Attachment,
    /// The last id used before this was known: reads that were requested since have a higher one.
    seen: ReadId,
    /// Since when this coordinator knows that its host is gone, and the version is unchanged; `None`: the host is
    /// alive.
    gone_since: Option<Mono>,
    /// It is being deleted.
    expiring: bool,
}

impl RemoteAttachment {
    /// `seen`: the last number that was given away before it was read.
    pub(crate) fn new(version: Version, attachment: Attachment, seen: ReadId) -> Self {
        Self { version, attachment, seen, gone_since: None, expiring: false }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn host(&self) -> &CoordinatorId {
        &self.attachment.host
    }

    /// Whether it says that its worker drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.attachment.draining
    }

    /// Whether it was known before something was asked for.
    pub(crate) fn was_seen_before(&self, asked: ReadId) -> bool {
        self.seen < asked
    }

    /// Since when its host is known to have gone; none: the host lives.
    pub(crate) fn gone_since(&self) -> Option<Mono> {
        self.gone_since
    }

    pub(crate) fn host_lives(&mut self) {
        self.gone_since = None;
    }

    pub(crate) fn host_has_gone(&mut self, now: Mono) {
        self.gone_since = Some(now);
    }

    /// Its worker was alive then.
    pub(crate) fn hear(&mut self, at: Mono) {
        self.gone_since = self.gone_since.map(|since| since.max(at));
    }

    /// Whether it is being deleted.
    pub(crate) fn is_expiring(&self) -> bool {
        self.expiring
    }

    /// It is deleted at the version that is known.
    pub(crate) fn expire(&mut self) -> Version {
        self.expiring = true;
        self.version
    }

    /// When its host has been gone for a lease; `None`: it is not known to be gone.
    pub(crate) fn orphaned_at(&self, settings: &Settings) -> Option<Mono> {
        let lease = self.attachment.lease().max(settings.lease);
        self.gone_since.map(|since| since.plus(settings.verdict_after(lease)))
    }
}

/// Workers of hosts that are gone, to be marked dead. All workers of one host are due together, and one read of the
/// live coordinators is enough for them.
#[derive(Debug, Default)]
pub(crate) struct PendingExpiry {
    /// Their turn comes when the read in flight has ended.
    waiting: BTreeSet<WorkerId>,
    under_way: bool,
    /// Workers elsewhere whose attachments are read after a delay.
    lookups: BTreeSet<WorkerId>,
}

impl PendingExpiry {
    /// A worker has come due.
    pub(crate) fn add(&mut self, worker: WorkerId) {
        self.waiting.insert(worker);
    }

    /// Those for whom the coordinators are read now: none while they are.
    pub(crate) fn begin(&mut self) -> Option<BTreeSet<WorkerId>> {
        if self.waiting.is_empty() || std::mem::replace(&mut self.under_way, true) {
            return None;
        }
        Some(std::mem::take(&mut self.waiting))
    }

    /// The coordinators were read, or could not be.
    pub(crate) fn end(&mut self) {
        self.under_way = false;
    }

    /// A worker's attachment is looked at in a moment; false: it is already.
    pub(crate) fn look_later(&mut self, worker: &WorkerId) -> bool {
        self.lookups.insert(worker.clone())
    }

    /// The delay is over.
    pub(crate) fn look_now(&mut self, worker: &WorkerId) {
        self.lookups.remove(worker);
    }

    #[cfg(test)]
    pub(crate) fn looks_at_nobody(&self) -> bool {
        self.lookups.is_empty()
    }
}
