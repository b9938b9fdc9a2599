//! A caller that asks for hints and then reads must not miss what happens in between: a read waits until all watches
//! that were requested before it are set.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct WatchBarrier {
    state: Mutex<BarrierState>,
    moved: Notify,
}

#[derive(Debug, Default)]
struct BarrierState {
    asked: u64,
    /// Requested, but not set yet.
    open: BTreeSet<u64>,
}

impl WatchBarrier {
    /// Registers the request of a watch; returns its number.
    pub(super) fn ask(&self) -> u64 {
        let mut state = self.lock();
        state.asked += 1;
        let number = state.asked;
        state.open.insert(number);
        number
    }

    /// The watch is set, or no longer wanted.
    pub(super) fn done(&self, number: u64) {
        self.lock().open.remove(&number);
        self.moved.notify_waiters();
    }

    /// Waits for all watches that were requested before the call.
    pub(super) async fn pass(&self) {
        let upto = self.lock().asked;
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Registered before the check, so that no change is missed.
            moved.as_mut().enable();
            if self.lock().open.first().is_none_or(|first| *first > upto) {
                return;
            }
            moved.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_read_waits_for_the_watches_before_it_and_no_others() {
        let gate = WatchBarrier::default();
        gate.pass().await;
        let (first, second) = (gate.ask(), gate.ask());
        let mut before = Box::pin(gate.pass());
        assert!((&mut before).now_or_never().is_none());
        let third = gate.ask();
        gate.done(second);
        assert!((&mut before).now_or_never().is_none());
        gate.done(first);
        before.await;
        assert!(gate.pass().now_or_never().is_none());
        gate.done(third);
        gate.pass().await;
    }
}
