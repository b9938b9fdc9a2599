//! Sets a damaged or foreign file aside under another name, with the files that belong to it, so that a new one can be
//! created. Called by the owners of such files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rosterd_domain::time::Time;

/// Renames a file that is `what` (damaged, newer), as the `n`th one of this process; returns whether that succeeded.
pub(super) fn set_aside(path: &Path, what: &str, why: &str, now: Time, n: u32) -> bool {
    let named = |suffix: &str, of: &str| {
        let mut name = OsString::from(path);
        name.push(suffix);
        name.push(of);
        PathBuf::from(name)
    };
    // Digits and letters only: the name must be valid on every file system.
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
            // The other two files may be missing.
            _ => {}
        }
    }
    tracing::error!(
        path = %path.display(), aside = %named(&suffix, "").display(), why,
        "the history is {what}: it was renamed and a new one begun; jobs are not affected"
    );
    true
}
