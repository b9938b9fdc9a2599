//! The load of each credential's jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::time::Mono;
use rosterd_session::limits::Load;

/// The load of each credential's jobs, and when it was counted.
pub(crate) type Counted = BTreeMap<Arc<str>, (Mono, Load)>;
