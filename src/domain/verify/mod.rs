//! The one judge of what workers did: from lines about runs it says which runs there were, who had each item when, and
//! which promises were broken. It believes no coordinator and asks no store; tests, the simulation and
//! `rosterd verify` call it.
//!
//! A line is a JSON object ([`Line`]); mostly workers write them about their own runs. All writers share one clock that
//! goes on while a process stands still, such as `CLOCK_BOOTTIME` of one machine. What a coordinator's history holds is
//! told in the same lines by whoever reads it. The rules:
//!
//! | rule | what breaks it |
//! | --- | --- |
//! | `started_twice` | a token, or an attempt of it, enters user code again |
//! | `overlap` | two runs of an item are in user code at once; one that was told to stop, or that stands still, does not count, but must not end afterwards as if nothing had been |
//! | `tokens` | a run begins with a token that is not above that of the item's run before |
//! | `once_per_fire` | a scheduled time is run as such a second time, or taken over after its outcome was written down |
//! | `lease` | user code begins without a lease, or a run begins while the lease of the last one's worker is good, that run having neither ended nor stopped |
//! | `no_outcome` | a scheduled time has no result, or nobody knows how a run ended that is over |

mod fault;
pub mod given;
pub mod history;
mod judge;
mod line;
mod run;

pub use fault::{Fault, RunId};
pub use judge::judge;
pub use line::{Line, Unreadable, What, read, read_all};
pub use run::{Owner, Run, Verdict};

#[cfg(test)]
mod tests;
