//! A session's state, and waiting for it to change. Waiters are woken in the order in which they began to wait, so that
//! the same seed gives the same history (a `watch` channel wakes its receivers in random order).

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::SessionState;

#[derive(Clone)]
pub(super) struct SharedSession(Arc<(Mutex<SessionState>, Notify)>);

impl SharedSession {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(SessionState::Connected), Notify::new())))
    }

    pub(super) fn get(&self) -> SessionState {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, state: SessionState) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.0.1.notify_waiters();
    }

    /// Waits while the session is suspended; whether it is connected then.
    pub(super) async fn is_connected(&self) -> bool {
        loop {
            let changed = self.0.1.notified();
            match self.get() {
                SessionState::Connected => return true,
                SessionState::Gone => return false,
                SessionState::Suspended => changed.await,
            }
        }
    }
}
