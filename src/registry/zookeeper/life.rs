//! The lifetime of one session, measured by our own clock.
//!
//! A write that the ensemble answered proves that the session was alive when it was sent; answers to reads and pings
//! prove nothing, since a server that is cut off from the others continues to answer them. When the session timeout has
//! passed since the last proof the session is over for us, whatever the client library still hopes for: it reports that
//! itself only up to 1.7 timeouts later. Shared by the writer, the reads and the watches.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rosterd_domain::time::Mono;
use tokio::sync::watch;

use crate::hints::HintQueue;
use crate::{Hint, SessionState};
use rosterd_runtime::clock::SharedClock;

/// A session's state and its proofs.
pub(super) struct Life {
    pub(super) clock: SharedClock,
    pub(super) hints: HintQueue,
    /// The timeout that the servers agreed to.
    pub(super) timeout: Duration,
    state: watch::Sender<SessionState>,
    proof: Mutex<Mono>,
}

impl Life {
    /// A session that was proved by a write sent at `proof`.
    pub(super) fn new(clock: SharedClock, timeout: Duration, proof: Mono) -> Self {
        Self {
            clock,
            hints: HintQueue::default(),
            timeout,
            state: watch::Sender::new(SessionState::Connected),
            proof: Mutex::new(proof),
        }
    }

    pub(super) fn state(&self) -> SessionState {
        *self.state.borrow()
    }

    pub(super) fn follow(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// Changes the state; nothing follows Gone. The hint comes after those that were given before.
    pub(super) fn enter(&self, next: SessionState) {
        let moved = self.state.send_if_modified(|state| {
            let moves = *state != SessionState::Gone && *state != next;
            if moves {
                *state = next;
            }
            moves
        });
        if moved {
            self.hints.push(Hint::Session(next));
            if next == SessionState::Gone {
                self.hints.close();
            }
        }
    }

    /// A write that was sent at `sent` was answered.
    pub(super) fn proven(&self, sent: Mono) {
        let mut proof = self.proof();
        *proof = (*proof).max(sent);
    }

    /// How long ago the last proof was sent.
    pub(super) fn unproven(&self) -> Duration {
        let proof = *self.proof();
        self.clock.mono().since(proof)
    }

    fn proof(&self) -> MutexGuard<'_, Mono> {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rosterd_runtime::clock::System;

    #[test]
    fn nothing_follows_the_end_and_old_proofs_count_for_nothing() {
        let clock = System::shared();
        let life = Life::new(clock.clone(), Duration::from_secs(1), clock.mono());
        let mut hints = life.hints.take();
        use SessionState::{Connected, Gone, Suspended};
        for state in [Suspended, Suspended, Connected, Gone, Connected] {
            life.enter(state);
        }
        assert_eq!(life.state(), Gone);
        let told: Vec<Hint> = std::iter::from_fn(|| hints.try_recv()).collect();
        assert_eq!(told, [Suspended, Connected, Gone].map(Hint::Session));
        let late = clock.mono().plus(Duration::from_secs(60));
        life.proven(late);
        life.proven(Mono(Duration::ZERO));
        assert_eq!(*life.proof(), late);
    }
}
