//! The one judge of what workers did: from lines about runs it determines which runs there were, which instance had
//! each item when, and which promises were broken. It trusts no coordinator and asks no store; tests, the simulation
//! and `rosterd verify` call it.
//!
//! A line is a JSON object ([`Line`]); mostly workers write them about their own runs. All writers share one clock that
//! continues while a process is frozen, such as `CLOCK_BOOTTIME` of one machine. A coordinator's history is translated
//! into the same lines by its reader. The rules:
//!
//! | rule | what breaks it |
//! | --- | --- |
//! | `started_twice` | a token, or an attempt of it, enters user code again |
//! | `overlap` | two runs of an item are in user code at once; one that was told to stop, or that is frozen, does not count, but must not end afterwards as if nothing had happened |
//! | `tokens` | a run starts with a token that is not above that of the item's previous run |
//! | `once_per_fire` | a scheduled time is run as such a second time, or taken over after its outcome was recorded |
//! | `lease` | user code starts without a lease, or a run starts while the lease of the last one's worker is valid and that run has neither ended nor stopped |
//! | `no_outcome` | a scheduled time has no result, or a run is over and it is not known how it ended |

mod fault;
pub mod given;
pub mod history;
mod judge;
mod line;
mod owner;
mod run;

pub use fault::{Fault, RunId};
pub use judge::judge;
pub use line::{Line, Unreadable, What, read, read_all};
pub use owner::Owner;
pub use run::{AuditedRun, Verdict};

#[cfg(test)]
mod tests;
