//! The trace of a fire, as W3C Trace Context names it.
//!
//! Its ids are digests of what every coordinator knows of the run. So hosts that start items of one fire name the same trace
//! without asking each other, a Trigger that is sent again names the same parent, and whoever looks at a run of the past knows
//! where to look for its trace.

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use sha2::{Digest, Sha256};

/// Names a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub [u8; 16]);

/// Names a span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub [u8; 8]);

/// A fire as the source of ids: those of its trace and of all spans in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FireTrace([u8; 32]);

impl FireTrace {
    /// Of the fire at `fire` of the job that has this incarnation.
    #[must_use]
    pub fn new(job: &JobName, incarnation: &str, fire: Time) -> Self {
        Self(digest(&[job.as_str().as_bytes(), incarnation.as_bytes(), &fire.0.to_be_bytes()]))
    }

    /// The trace of the fire.
    #[must_use]
    pub fn id(&self) -> TraceId {
        TraceId(first(&self.0))
    }

    /// The span of a run: the parent of what user code does.
    #[must_use]
    pub fn run(&self, item: Item, token: Token) -> SpanId {
        SpanId(first(&digest(&[&self.0, &item.0.to_be_bytes(), &token.0.to_be_bytes()])))
    }

    /// Another span of the coordinator: what it is, of which run, and its number among those.
    #[must_use]
    pub fn part(&self, what: &str, item: Item, token: Token, nth: u32) -> SpanId {
        let (item, token, nth) = (item.0.to_be_bytes(), token.0.to_be_bytes(), nth.to_be_bytes());
        SpanId(first(&digest(&[&self.0, &item, &token, what.as_bytes(), &nth])))
    }

    /// The header `traceparent` for the user code of a run.
    #[must_use]
    pub fn parent(&self, item: Item, token: Token, sampled: bool) -> String {
        let flags = if sampled { "01" } else { "00" };
        format!("00-{}-{}-{flags}", self.id(), self.run(item, token))
    }
}

impl std::fmt::Display for TraceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Display for SpanId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

fn first<const N: usize>(digest: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|n| digest[n])
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(incarnation: &str, fire: i64, item: u32, token: u64) -> Vec<String> {
        let trace = FireTrace::new(&JobName::new("report").unwrap(), incarnation, Time(fire));
        trace.parent(Item(item), Token(token), true).split('-').map(str::to_owned).collect()
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

    #[test]
    fn no_two_spans_of_a_trace_have_one_id() {
        let trace = FireTrace::new(&JobName::new("report").unwrap(), "a", Time(1_000));
        let (item, token) = (Item(0), Token(7));
        let spans = [
            trace.run(item, token),
            trace.part("fire", item, token, 0),
            trace.part("dispatch", item, token, 0),
            trace.part("dispatch", item, token, 1),
            trace.part("report", item, token, 0),
        ];
        let distinct: std::collections::BTreeSet<_> = spans.iter().collect();
        assert_eq!(distinct.len(), spans.len());
    }

    /// Clients and people may have kept ids: what a run's are does not change between versions.
    #[test]
    fn ids_stay_what_they_are() {
        let told = FireTrace::new(&JobName::new("report").unwrap(), "a", Time(1_000)).parent(
            Item(0),
            Token(7),
            false,
        );
        assert_eq!(told, "00-e8544d2d7e1a6d191e5f252fbaff3467-e5d2125ef55399d8-00");
    }
}
