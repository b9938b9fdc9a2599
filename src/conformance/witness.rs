//! How long this machine keeps a process waiting: what a rule about time forgives.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::event::now;

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Less is nothing to remember.
const NOTABLE: Duration = Duration::from_millis(15);
const REMEMBERED: usize = 10_000;

#[derive(Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<VecDeque<(Duration, Duration)>>>);

impl Witness {
    /// Looks on for ever.
    pub(crate) async fn watch(self) {
        loop {
            let before = now();
            tokio::time::sleep(LOOK_EVERY).await;
            let late = now().saturating_sub(before + LOOK_EVERY);
            if late >= NOTABLE {
                let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                seen.push_back((now(), late));
                if seen.len() > REMEMBERED {
                    seen.pop_front();
                }
            }
        }
    }

    /// The longest that anybody was kept waiting since then.
    pub(crate) fn worst(&self, since: Duration) -> Duration {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|(at, _)| *at >= since).map(|(_, late)| *late).max().unwrap_or_default()
    }
}
