//! Which coordinator should lead a job: rendezvous hashing. Every coordinator ranks all of them by a hash of the
//! coordinator's and the job's name; the first one leads. So leaders spread evenly, and a coordinator that joins or
//! leaves moves only its own leaderships. It is a preference, never a right: the election decides.

use std::cell::LazyCell;

use crate::id::{CoordinatorId, JobName};

/// How many of `others` rank before `me` for this job; 0: `me` should lead.
pub fn rank<'a>(
    job: &JobName,
    me: &CoordinatorId,
    others: impl IntoIterator<Item = &'a CoordinatorId>,
) -> usize {
    // Not computed by a coordinator that is alone.
    let mine = LazyCell::new(|| weight(job, me));
    others.into_iter().filter(|other| (weight(job, other), *other) > (*mine, me)).count()
}

/// The same on every build: FNV-1a, its bits mixed once more, since names differ in few places.
fn weight(job: &JobName, coordinator: &CoordinatorId) -> u64 {
    let text = coordinator.as_str().bytes().chain([0]).chain(job.as_str().bytes());
    let hash = text.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn coordinators(count: usize) -> Vec<CoordinatorId> {
        (0..count).map(|i| CoordinatorId::new(format!("10.0.0.{i}@-@c{i}")).unwrap()).collect()
    }

    fn leader<'a>(job: &JobName, all: &'a [CoordinatorId]) -> &'a CoordinatorId {
        all.iter().find(|me| rank(job, me, all) == 0).unwrap()
    }

    fn jobs() -> Vec<JobName> {
        (0..1000).map(|i| JobName::new(format!("job-{i}")).unwrap()).collect()
    }

    #[test]
    fn every_coordinator_has_a_rank_of_its_own() {
        let all = coordinators(5);
        for job in jobs() {
            let mut ranks: Vec<usize> = all.iter().map(|me| rank(&job, me, &all)).collect();
            ranks.sort_unstable();
            assert_eq!(ranks, [0, 1, 2, 3, 4], "{job}");
        }
    }

    /// During an upgrade two versions rank at the same time, so they must compute the same numbers.
    #[test]
    fn every_version_gives_the_same_weights() {
        let weights = ["10.0.0.1@-@a", "10.0.0.2@-@b", "10.0.0.3@-@c"].map(|name| {
            let coordinator = CoordinatorId::new(name).unwrap();
            ["orders", "nightly"].map(|job| weight(&JobName::new(job).unwrap(), &coordinator))
        });
        let expected = [
            [0xc973_15f4_cadd_fed1, 0x5f76_c6d6_a9c8_fedf],
            [0x2f51_d4a3_d0af_885e, 0x44c3_4226_75ef_206a],
            [0xec0e_6b10_43bd_04f2, 0x4186_0d1b_5c72_0464],
        ];
        assert_eq!(weights, expected);
        let all =
            ["10.0.0.1@-@a", "10.0.0.2@-@b", "10.0.0.3@-@c"].map(|name| CoordinatorId::new(name).unwrap());
        let ranks = |job: &str| {
            let job = JobName::new(job).unwrap();
            all.each_ref().map(|me| rank(&job, me, &all))
        };
        assert_eq!((ranks("orders"), ranks("nightly")), ([1, 2, 0], [0, 1, 2]), "the largest leads");
    }

    #[test]
    fn leaders_are_spread_evenly() {
        for count in [2, 3, 5] {
            let all = coordinators(count);
            let mut led: BTreeMap<&CoordinatorId, usize> = BTreeMap::new();
            for job in jobs() {
                *led.entry(leader(&job, &all)).or_default() += 1;
            }
            let fair = 1000 / count;
            assert!(led.len() == count && led.values().all(|led| led.abs_diff(fair) < fair / 4), "{led:?}");
        }
    }

    #[test]
    fn one_that_goes_moves_its_own_jobs_only() {
        let all = coordinators(4);
        let fewer = &all[..3];
        for job in jobs() {
            let before = leader(&job, &all);
            assert!(*before == all[3] || before == leader(&job, fewer), "{job}");
        }
    }
}
