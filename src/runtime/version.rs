//! Which version this build says it is.

use super::mutants;

/// The version; with the feature `mutants` the one that the fault `version` names, so that a coordinator can be tried
/// beside one of another version.
pub fn version() -> String {
    mutants::text("version").unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned())
}
