//! The attachment of a worker, and its stream.

use std::collections::BTreeSet;

use rosterd_domain::id::{JobName, StreamNumber, Version};
use rosterd_domain::snapshot::Attachment;

use crate::io::event::StreamId;

/// The phase of a worker's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachmentPhase {
    /// The attachment is written; its jobs are being moved; not welcomed yet.
    Attaching,
    /// Welcomed.
    Attached,
    /// The attachment says that it drains; Draining is sent once no Trigger is in flight to it.
    Draining { confirmed: bool },
    /// It said Goodbye; the attachment is deleted once no record names it.
    Leaving,
    /// Its lease has expired: the attachment is being deleted. None of its frames is acknowledged.
    Expiring,
}

/// A step that may change the phase of an attachment.
#[derive(Debug, Clone, Copy)]
enum AttachmentStep {
    Welcome,
    /// The worker requests to drain, for the first time or again.
    Drain,
    /// Draining is sent.
    ConfirmDraining,
    /// The attachment was not written as draining.
    StayAttached,
    Goodbye,
    Expire,
}

impl AttachmentPhase {
    /// Returns the phase that follows; `None`: the step has no effect.
    fn after(self, step: AttachmentStep) -> Option<Self> {
        match (self, step) {
            (Self::Attaching, AttachmentStep::Welcome)
            | (Self::Draining { .. }, AttachmentStep::StayAttached) => Some(Self::Attached),
            (Self::Attached | Self::Draining { .. }, AttachmentStep::Drain) => {
                Some(Self::Draining { confirmed: false })
            }
            (Self::Draining { confirmed: false }, AttachmentStep::ConfirmDraining) => {
                Some(Self::Draining { confirmed: true })
            }
            (Self::Attaching | Self::Attached | Self::Draining { .. }, AttachmentStep::Goodbye) => {
                Some(Self::Leaving)
            }
            (_, AttachmentStep::Expire) => Some(Self::Expiring),
            (
                Self::Attaching | Self::Attached | Self::Draining { .. } | Self::Leaving | Self::Expiring,
                AttachmentStep::Welcome
                | AttachmentStep::Drain
                | AttachmentStep::ConfirmDraining
                | AttachmentStep::StayAttached
                | AttachmentStep::Goodbye,
            ) => None,
        }
    }
}

/// The attachment of a worker, and its stream.
#[derive(Debug)]
pub(crate) struct Link {
    phase: AttachmentPhase,
    /// Its current stream; `None` while it is disconnected.
    stream: Option<StreamId>,
    stream_number: StreamNumber,
    /// The attachment as this host last wrote it.
    attachment: Attachment,
    version: Version,
    /// Its name is new and was assigned here: only what this host wrote can name it.
    fresh: bool,
    /// A write of the attachment is in flight.
    writing: bool,
    /// It requested to drain during that write.
    drain_wanted: bool,
    /// Jobs of its Hello that are not moved yet; Welcome waits for them.
    moving: BTreeSet<JobName>,
    /// Another host had it before, or this one in another session.
    taken_over: bool,
}

impl Link {
    /// A worker whose attachment is being written in place of the version `before`, if there is one.
    pub(crate) fn new(
        stream: StreamId,
        attachment: Attachment,
        before: Option<Version>,
        version: Version,
    ) -> Self {
        Self {
            phase: AttachmentPhase::Attaching,
            stream: Some(stream),
            stream_number: attachment.stream,
            attachment,
            version,
            fresh: before.is_none(),
            writing: false,
            drain_wanted: false,
            moving: BTreeSet::new(),
            taken_over: false,
        }
    }

    /// Whether its name is new and was assigned here: only what this host wrote can name it.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    // ---- the stream

    /// Returns its current stream; `None` while it is disconnected.
    pub(crate) fn stream(&self) -> Option<StreamId> {
        self.stream
    }

    pub(crate) fn stream_number(&self) -> StreamNumber {
        self.stream_number
    }

    /// A stream ended; false: it is not the worker's current one.
    pub(crate) fn stream_ended(&mut self, stream: StreamId) -> bool {
        self.stream.take_if(|current| *current == stream).is_some()
    }

    /// Whether no worker has this identity, or ever will: it is new, and its stream ended before its Welcome.
    pub(crate) fn is_nobodys(&self) -> bool {
        self.fresh && self.phase == AttachmentPhase::Attaching && self.stream.is_none()
    }

    // ---- the attachment

    pub(crate) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Whether a write of the attachment is in flight.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing
    }

    /// A write of the attachment starts. Returns the version that it expects.
    pub(crate) fn begin_writing(&mut self) -> Version {
        self.writing = true;
        self.version
    }

    /// The write of the attachment has ended, with or without effect.
    pub(crate) fn write_ended(&mut self) {
        self.writing = false;
    }

    /// The attachment was written.
    pub(crate) fn was_written(&mut self) {
        self.version = self.version.next();
    }

    /// The attachment was read.
    pub(crate) fn was_read(&mut self, version: Version, attachment: Attachment) {
        (self.version, self.attachment) = (version, attachment);
    }

    /// A request that the worker leave was written to the attachment.
    pub(crate) fn was_asked_to_leave(&mut self, grace_ms: u64) {
        self.attachment.leave_grace_ms = Some(grace_ms);
    }

    /// The worker's own lease is about to be written to the attachment.
    pub(crate) fn put_lease(&mut self, lease_ms: u64) {
        self.attachment.lease_ms = lease_ms;
    }

    // ---- its life

    pub(crate) fn phase(&self) -> AttachmentPhase {
        self.phase
    }

    fn go(&mut self, step: AttachmentStep) -> bool {
        let next = self.phase.after(step);
        self.phase = next.unwrap_or(self.phase);
        next.is_some()
    }

    /// The attachment was written. `stream`: the worker's stream, if it is still open. `taken_over`: another host had
    /// the worker before, or this one in another session.
    pub(crate) fn attached(&mut self, stream: Option<StreamId>, taken_over: bool) {
        (self.stream, self.taken_over) = (stream, taken_over);
    }

    /// Whether the worker's runs may lack their marks: another host had it before, or this one in another session.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.taken_over
    }

    /// Welcome waits until the records of a job have been read.
    pub(crate) fn wait_for(&mut self, job: &JobName) {
        self.moving.insert(job.clone());
    }

    /// The records of a job were read, or the job is gone; false: Welcome did not wait for it.
    pub(crate) fn moved(&mut self, job: &JobName) -> bool {
        self.moving.remove(job)
    }

    pub(crate) fn waits_for(&self, job: &JobName) -> bool {
        self.moving.contains(job)
    }

    #[cfg(test)]
    pub(crate) fn wait_for_nothing(&mut self) {
        self.moving.clear();
    }

    /// Welcomes the worker if all its jobs are moved; false: not yet, or not in this phase.
    pub(crate) fn welcome(&mut self) -> bool {
        let is_welcome = self.moving.is_empty() && self.go(AttachmentStep::Welcome);
        if is_welcome {
            self.taken_over = false;
        }
        is_welcome
    }

    /// The worker requests to drain. Returns the attachment to write and the version that it replaces, if it can be
    /// written now.
    pub(crate) fn drain(&mut self) -> Option<(Version, Attachment)> {
        if self.phase != AttachmentPhase::Attached {
            return None;
        }
        self.drain_wanted = self.writing;
        if self.writing || !self.go(AttachmentStep::Drain) {
            return None;
        }
        self.attachment.draining = true;
        Some((self.begin_writing(), self.attachment.clone()))
    }

    /// The worker requests to drain again, for example on another stream: Draining is sent again. False: it is not
    /// draining.
    pub(crate) fn drain_again(&mut self) -> bool {
        matches!(self.phase, AttachmentPhase::Draining { .. }) && self.go(AttachmentStep::Drain)
    }

    /// Whether the worker requested to drain while its attachment was being written.
    pub(crate) fn wants_to_drain(&self) -> bool {
        self.drain_wanted
    }

    /// Whether Draining has to be sent once no Trigger can follow it.
    pub(crate) fn is_to_confirm(&self) -> bool {
        self.phase == (AttachmentPhase::Draining { confirmed: false }) && !self.writing
    }

    /// Draining is sent.
    pub(crate) fn confirm_draining(&mut self) {
        self.go(AttachmentStep::ConfirmDraining);
    }

    /// Moves a draining worker back to the attached phase if its attachment does not say that it drains; false: no
    /// change.
    pub(crate) fn undrain(&mut self) -> bool {
        !self.attachment.draining && self.go(AttachmentStep::StayAttached)
    }

    /// The worker says Goodbye; false: it did before, or its lease has expired.
    pub(crate) fn leave(&mut self) -> bool {
        self.go(AttachmentStep::Goodbye)
    }

    /// The worker's lease has expired: from now on none of its frames is acknowledged.
    pub(crate) fn expire(&mut self) {
        self.go(AttachmentStep::Expire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [AttachmentPhase; 6] = [
        AttachmentPhase::Attaching,
        AttachmentPhase::Attached,
        AttachmentPhase::Draining { confirmed: false },
        AttachmentPhase::Draining { confirmed: true },
        AttachmentPhase::Leaving,
        AttachmentPhase::Expiring,
    ];

    #[test]
    fn a_worker_that_is_on_its_way_out_does_not_come_back() {
        let steps = [
            AttachmentStep::Welcome,
            AttachmentStep::Drain,
            AttachmentStep::ConfirmDraining,
            AttachmentStep::StayAttached,
            AttachmentStep::Goodbye,
        ];
        for step in steps {
            assert_eq!(AttachmentPhase::Expiring.after(step), None, "{step:?}");
            assert_eq!(AttachmentPhase::Leaving.after(step), None, "{step:?}");
        }
        assert!(
            ALL.iter().all(|phase| phase.after(AttachmentStep::Expire) == Some(AttachmentPhase::Expiring))
        );
    }

    #[test]
    fn draining_is_confirmed_once_and_again_after_it_was_asked_for_again() {
        let before = |step: AttachmentStep| ALL.into_iter().filter(move |phase| phase.after(step).is_some());
        assert!(before(AttachmentStep::ConfirmDraining).eq([AttachmentPhase::Draining { confirmed: false }]));
        assert!(before(AttachmentStep::Welcome).eq([AttachmentPhase::Attaching]));
        for phase in before(AttachmentStep::Drain) {
            assert_eq!(
                phase.after(AttachmentStep::Drain),
                Some(AttachmentPhase::Draining { confirmed: false })
            );
        }
    }
}
