//! Gives free memory back to the system after a burst: glibc keeps what it once had, in the heaps of all threads that were busy.
//! Started by `app`. It holds the one `unsafe` call of the workspace, which has no effect on what is in use; with another C
//! library, and on other systems, it does nothing.

use std::time::Duration;

use crate::telemetry::resident_bytes;

/// How often it looks; twice as seldom each time that little came back, up to a minute.
const PERIOD: Duration = Duration::from_secs(15);
const MOST: Duration = Duration::from_secs(60);
/// So much more than it ever was at the least is worth the heaps' locks, which are held for some milliseconds.
const WORTH: i64 = 16 << 20;

/// Looks now and then, for ever.
pub async fn give_back_when_grown() {
    let Some(mut least) = resident_bytes() else { return std::future::pending().await };
    let mut period = PERIOD;
    loop {
        tokio::time::sleep(period).await;
        let now = resident_bytes().unwrap_or(least);
        least = least.min(now);
        if now - least < WORTH {
            period = PERIOD;
            continue;
        }
        // Apart: it may wait for the locks of heaps.
        if let Err(error) = tokio::task::spawn_blocking(give_back).await {
            tracing::warn!(%error, "free memory was not given back");
        }
        let after = resident_bytes().unwrap_or(now);
        period = if now - after < WORTH { MOST.min(period * 2) } else { PERIOD };
        tracing::debug!(before = now, after, "gave free memory back to the system");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no library that is kept offers this call")]
fn give_back() {
    // SAFETY: the function takes no pointer, may be called by any thread at any time, and leaves what is allocated alone.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn holes_between_what_lives_are_given_back() {
        let mut pieces: Vec<Vec<u8>> = (0..40_000).map(|n: u32| vec![n.to_le_bytes()[0]; 2_000]).collect();
        let mut at = 0;
        // Some remain, so that no heap is free to its end.
        pieces.retain(|_| {
            at += 1;
            at % 100 == 0
        });
        let full = resident_bytes().unwrap();
        give_back();
        let after = resident_bytes().unwrap();
        assert!(after < full - (32 << 20), "{after} of {full} bytes are left beside {} pieces", pieces.len());
    }
}
