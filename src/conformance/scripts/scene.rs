//! What a script is: scenes in groups.

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
