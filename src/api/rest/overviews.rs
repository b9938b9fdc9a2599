//! The last overview, shared by requests that arrive at nearly the same time.

use rosterd_domain::time::Mono;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

/// The last overview.
#[derive(Default)]
pub struct Kept(pub(super) Mutex<Option<Made>>);

pub(super) struct Made {
    pub(super) overview: Box<RawValue>,
    /// When it expires.
    pub(super) until: Mono,
}
