//! What the scripted coordinator tells a worker.

use std::time::Duration;

use rosterd_coordinator::handle::{Outbox, OutboxSender, Sent, outbox};
use rosterd_session::frame::ToWorker;

/// How many frames for a worker may wait: more than the edge lets wait for any time.
pub(crate) const OUTBOX: usize = 80;

/// The frames for a worker as the scripted coordinator sends them.
pub(crate) struct ToldWorker(OutboxSender);

impl ToldWorker {
    /// Both ends.
    pub(crate) fn pair() -> (Self, Outbox) {
        let (sender, outbox) = outbox(OUTBOX);
        (Self(sender), outbox)
    }

    /// Waits until there is room for the frame; `Err`: nobody takes it.
    pub(crate) async fn send(&self, frame: ToWorker) -> Result<(), ()> {
        let mut frame = Some(frame);
        loop {
            match self.0.send(frame.take().unwrap()) {
                Sent::Queued => return Ok(()),
                Sent::Gone => return Err(()),
                Sent::Full(again) => frame = Some(again),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
