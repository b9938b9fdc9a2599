//! The trace of a fire, as W3C Trace Context names it. Called by `convert` alone.
//!
//! Its ids are digests of what every coordinator knows of the run. So hosts that start items of one fire name the same trace
//! without asking each other, and a Trigger that is sent again names the same parent.

use rosterd_domain::time::Time;
use rosterd_session::frame::RunRef;
use sha2::{Digest, Sha256};

/// Version 00, sampled: whether a trace is kept is decided where it is recorded.
const SAMPLED: &str = "01";

/// The header `traceparent` for the user code of a run: 16 bytes name the fire's trace, 8 the run in it.
pub(crate) fn traceparent(incarnation: &str, fire: Time, run: &RunRef) -> String {
    let fired = digest(&[run.job.as_str().as_bytes(), incarnation.as_bytes(), &fire.0.to_be_bytes()]);
    let ran = digest(&[&fired, &run.item.0.to_be_bytes(), &run.token.0.to_be_bytes()]);
    format!("00-{}-{}-{SAMPLED}", hex(&fired[..16]), hex(&ran[..8]))
}

/// Each part behind its length, so that no two lists of parts are the same text.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{Item, JobName, Token};

    use super::*;

    fn parent(incarnation: &str, fire: i64, item: u32, token: u64) -> Vec<String> {
        let run = RunRef { job: JobName::new("report").unwrap(), item: Item(item), token: Token(token) };
        traceparent(incarnation, Time(fire), &run).split('-').map(str::to_owned).collect()
    }

    #[test]
    fn runs_of_a_fire_share_its_trace_and_have_parents_of_their_own() {
        let (one, other) = (parent("a", 1_000, 0, 7), parent("a", 1_000, 1, 9));
        assert_eq!((one[1].len(), one[2].len()), (32, 16));
        assert_eq!((&*one[0], &*one[3]), ("00", "01"));
        assert_eq!(one[1], other[1]);
        assert_ne!(one[2], other[2]);
        assert_eq!(one, parent("a", 1_000, 0, 7), "a Trigger that is sent again");
    }

    #[test]
    fn fires_and_jobs_of_one_name_have_traces_of_their_own() {
        let one = parent("a", 1_000, 0, 7);
        for other in [parent("a", 2_000, 0, 7), parent("b", 1_000, 0, 7)] {
            assert_ne!(one[1], other[1]);
        }
    }
}
