//! What a batch brings to the database, and what the database says about itself: the words that its writers and its
//! reader share.

use rosterd_domain::id::Revision;

use super::digest::Digest;
use crate::paths::Path;
use crate::tree::Stat;

/// What a batch did to one persistent node.
pub(super) struct Row<'a> {
    pub(super) path: &'a Path,
    pub(super) before: Option<&'a Stat>,
    pub(super) after: Option<&'a Stat>,
}

/// What the database says about itself, as of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ledger {
    pub(super) batch: u64,
    pub(super) digest: Digest,
    /// No revision above it was ever given out.
    pub(super) ceiling: Revision,
}

/// SQLite's integers are signed; this keeps the 64 bits as they are.
pub(super) fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

/// The same, back.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::from_ne_bytes(number.to_ne_bytes())
}
