//! The scripts: groups of scenes that share a setting and, as long as nothing breaks, a worker.

mod boundaries;
mod calls;
mod cancels;
mod flood;
mod held;
mod jobs;
mod lease;
mod leaving;
mod pauses;
mod reports;
mod retries;
mod runs;
mod scene;
mod shutdown;
mod statuses;
mod still;
mod streams;
mod texts;

pub(crate) use self::scene::{Group, Scene, scene};

/// All of them, the longest first.
pub(crate) fn groups() -> Vec<&'static Group> {
    let all = [
        runs::GROUPS,
        cancels::GROUPS,
        held::GROUPS,
        retries::GROUPS,
        reports::GROUPS,
        texts::GROUPS,
        flood::GROUPS,
        streams::GROUPS,
        boundaries::GROUPS,
        pauses::GROUPS,
        statuses::GROUPS,
        lease::GROUPS,
        still::GROUPS,
        jobs::GROUPS,
        shutdown::GROUPS,
        calls::GROUPS,
        leaving::GROUPS,
    ];
    let mut groups: Vec<&'static Group> = all.into_iter().flatten().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.seconds));
    groups
}
