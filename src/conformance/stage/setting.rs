//! What a script's worker and its coordinators are like.

use std::time::Duration;

/// What stands before the coordinators in the list that the worker is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// Somebody takes connections there and never answers.
    Deaf,
    /// Nobody listens there.
    Nobody,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) jobs: &'static [&'static str],
    pub(crate) slots: u32,
    pub(crate) drain: Duration,
    /// How many coordinators there are.
    pub(crate) coordinators: usize,
    /// How many of them the worker is given; Welcome names the others.
    pub(crate) given: usize,
    pub(crate) before: Before,
    /// Under which host Welcome names them.
    pub(crate) host: &'static str,
    pub(crate) lease: Duration,
    pub(crate) interval: Duration,
    pub(crate) budget: Duration,
    pub(crate) credits: u32,
    pub(crate) config: &'static str,
}

const JOB: &str = "conformance";

/// Nothing here depends on time: the lease is long.
pub(crate) const CALM: Setting = Setting {
    jobs: &[JOB],
    slots: 4,
    drain: Duration::from_secs(30),
    coordinators: 1,
    given: 1,
    before: Before::Nothing,
    host: "127.0.0.1",
    lease: Duration::from_secs(10),
    interval: Duration::from_millis(200),
    budget: Duration::from_millis(300),
    credits: 100,
    config: "",
};

/// What is about the lease itself.
pub(crate) const SHORT: Setting =
    Setting { lease: Duration::from_millis(1_500), interval: Duration::from_millis(300), ..CALM };

impl Setting {
    /// When runs are told to stop, counted from when the last acknowledged heartbeat was sent.
    pub(crate) fn stops_after(&self) -> Duration {
        let usable = self.lease - self.lease / 200;
        usable - self.budget.min(self.lease / 4)
    }
}
