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
mod shutdown;
mod statuses;
mod still;
mod streams;
mod texts;

use futures_util::future::LocalBoxFuture;

use crate::broken::Played;
use crate::stage::{Setting, Stage};

pub(crate) type Play = for<'a> fn(&'a mut Stage) -> LocalBoxFuture<'a, Played>;

/// One script.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// What it judges, in the order in which it does.
    pub(crate) rules: &'static [&'static str],
    pub(crate) play: Play,
}

pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    /// Each scene begins with a worker that is attached and has nothing in flight, and leaves it so.
    pub(crate) attached: bool,
    /// About how many seconds it takes, to begin with the longest.
    pub(crate) seconds: u32,
    pub(crate) scenes: &'static [Scene],
}

/// A scene by its function.
macro_rules! scene {
    ($play:ident: $($rule:literal),+) => {
        $crate::scripts::Scene {
            name: stringify!($play),
            rules: &[$($rule),+],
            play: |stage| ::std::boxed::Box::pin($play(stage)),
        }
    };
}
pub(crate) use scene;

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
