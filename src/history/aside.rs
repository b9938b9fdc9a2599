//! Sets a file aside under another name, with what belongs to it, so that a new one can be begun. Called by those who own one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rosterd_domain::time::Time;

/// Renames a file that is `what` (damaged, newer), the `n`th of this process; whether it could be.
pub(super) fn set_aside(path: &Path, what: &str, why: &str, now: Time, n: u32) -> bool {
    let named = |suffix: &str, of: &str| {
        let mut name = OsString::from(path);
        name.push(suffix);
        name.push(of);
        PathBuf::from(name)
    };
    // Digits and letters only: the name must be good on every file system.
    let stamp: String = now.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    let suffix = format!(".{what}-{stamp}-{n}");
    for of in ["", "-wal", "-shm"] {
        match std::fs::rename(named("", of), named(&suffix, of)) {
            Err(error) if of.is_empty() => {
                tracing::error!(
                    path = %path.display(), why, %error,
                    "the history is {what} and cannot be renamed: what happens is not kept; move the file away"
                );
                return false;
            }
            // The other two need not be there.
            _ => {}
        }
    }
    tracing::error!(
        path = %path.display(), aside = %named(&suffix, "").display(), why,
        "the history is {what}: it was renamed and a new one begun; jobs are not affected"
    );
    true
}
