//! The invariants, one file each, named as in reports; the header of a file states the promise, and where it was broken
//! elsewhere or how others keep it. Most see every applied transaction and every frame as it leaves or arrives, keep
//! the state that they need, and report violations; some are checked once faults have stopped.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{InstanceId, Item, JobName, Token, WorkerId};
use rosterd_domain::snapshot::{Attachment, Snapshot};
use rosterd_domain::time::Time;
use rosterd_domain::view::Job;
use rosterd_registry::DumpNode;
use rosterd_session::frame::{FromWorker, RunRef, ToWorker};

use crate::oracle::observer::{AppliedStep, JobShadow, Shadow};

pub mod barrier;
mod bounded;
mod cancelled_stays_cancelled;
mod clean_exit_no_crash;
mod crashed_runs_are_run_again;
mod ended_once;
mod ends_as_reported;
mod fenced;
mod few_moves;
pub mod few_writes;
mod granted;
mod known_runs;
mod leaders_settle;
mod mirrors;
mod never_early;
mod no_fire_vanishes;
mod no_orphans;
mod no_overlap;
mod no_secret;
pub mod nobody_spins;
mod nothing_acknowledged_is_lost;
mod offsets_go_on;
mod once_per_fire;
mod one_leader_writes;
mod one_lease;
mod one_owner;
mod one_runner;
mod one_stream;
mod removed_is_gone;
mod right_clock;
mod right_to_start;
mod settles;
mod slots;
mod sums;
mod tokens_are_new;
mod tokens_grow;

/// An invariant.
pub trait Invariant: Send {
    /// As tests and reports name it.
    fn name(&self) -> &'static str;

    /// A transaction was applied, or a session's ephemerals ended.
    fn applied(&mut self, _step: &AppliedStep<'_>) -> Result<(), String> {
        Ok(())
    }

    /// A frame of a worker process arrives at a coordinator.
    fn said(&mut self, _process: &str, _frame: &FromWorker) -> Result<(), String> {
        Ok(())
    }

    /// A heartbeat of a worker process arrives.
    fn beat(
        &mut self,
        _process: &str,
        _in_flight: &[RunRef],
        _now: &Shadow,
        _at: Time,
    ) -> Result<(), String> {
        Ok(())
    }

    /// A frame leaves for a worker process.
    fn heard(&mut self, _process: &str, _frame: &ToWorker, _now: &Shadow, _at: Time) -> Result<(), String> {
        Ok(())
    }
}

/// Those that see every step.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<one_runner::OneRunner>::default(),
        Box::<one_lease::OneLease>::default(),
        Box::<right_to_start::RightToStart>::default(),
        Box::<one_stream::OneStream>::default(),
        Box::<once_per_fire::OncePerFire>::default(),
        Box::<ended_once::EndedOnce>::default(),
        Box::<no_overlap::NoOverlap>::default(),
        Box::<tokens_grow::TokensGrow>::default(),
        Box::<tokens_are_new::TokensAreNew>::default(),
        Box::<no_fire_vanishes::NoFireVanishes>::default(),
        Box::<one_leader_writes::OneLeaderWrites>::default(),
        Box::<removed_is_gone::RemovedIsGone>::default(),
        Box::<nobody_spins::NobodySpins>::default(),
        Box::<nothing_acknowledged_is_lost::NothingAcknowledgedIsLost>::default(),
        Box::<one_owner::OneOwner>::default(),
        Box::<few_moves::FewMoves>::default(),
        Box::<bounded::Bounded>::default(),
        Box::<granted::Granted>::default(),
        Box::<few_writes::FewWrites>::default(),
        Box::<sums::Sums>::default(),
        Box::<no_secret::NoSecret>::default(),
        Box::<fenced::Fenced>::default(),
        Box::<ends_as_reported::EndsAsReported>::default(),
        Box::<clean_exit_no_crash::CleanExitNoCrash>::default(),
        Box::<crashed_runs_are_run_again::CrashedRunsAreRunAgain>::default(),
        Box::<slots::Slots>::default(),
        Box::<leaders_settle::LeadersSettle>::default(),
        Box::<never_early::NeverEarly>::default(),
        Box::<right_clock::RightClock>::default(),
        Box::<offsets_go_on::OffsetsGoOn>::default(),
        Box::<known_runs::KnownRuns>::default(),
        Box::<cancelled_stays_cancelled::CancelledStaysCancelled>::default(),
    ]
}

/// The world at rest.
pub struct AtRest<'a> {
    pub now: Time,
    pub jobs: BTreeMap<JobName, Snapshot>,
    pub dumps: BTreeMap<JobName, BTreeMap<String, DumpNode>>,
    pub shadows: &'a BTreeMap<JobName, JobShadow>,
    pub attachments: BTreeMap<WorkerId, Attachment>,
    /// Sessions of live coordinators, and the jobs that each watches.
    pub sessions: BTreeMap<String, BTreeSet<JobName>>,
    pub coordinators: BTreeSet<String>,
    /// The workers of live processes.
    pub workers: BTreeSet<WorkerId>,
    /// Open streams of each process that has any.
    pub streams: BTreeMap<String, usize>,
    /// Workers for which a request to leave was acknowledged.
    pub asked_to_leave: &'a BTreeSet<WorkerId>,
    /// Instances for which a shutdown for a job was acknowledged, by the job's incarnation.
    pub shut_down: &'a BTreeSet<(JobName, String, InstanceId)>,
    /// Runs whose mirror a foreign tool removed.
    pub unmarked: &'a BTreeSet<(JobName, Item, Token)>,
    /// When a run of each item last started, for jobs whose runs no record holds.
    pub last_begun: BTreeMap<(String, u32), Time>,
    /// The smallest number of slots of any worker.
    pub fewest_slots: u64,
    /// Runs in user code: job, item and token.
    pub in_user_code: BTreeSet<(String, u32, u64)>,
}

/// Violations: which invariant is broken, and how.
pub type Unsettled = Vec<(&'static str, String)>;

/// A job of the world at rest.
struct Resting<'a> {
    rest: &'a AtRest<'a>,
    view: &'a Job,
    snapshot: &'a Snapshot,
}

/// Checks the invariants of a world at rest; empty: the world has settled.
pub fn at_rest(rest: &AtRest<'_>) -> Unsettled {
    let mut found = Unsettled::new();
    let mut tell = |rule, texts: Vec<String>| found.extend(texts.into_iter().map(|text| (rule, text)));
    tell("no_orphans", no_orphans::of_the_world(rest));
    tell("removed_is_gone", removed_is_gone::at_rest(rest));
    tell("bounded", bounded::at_rest(rest));
    tell("nothing_acknowledged_is_lost", nothing_acknowledged_is_lost::at_rest(rest));
    for (name, snapshot) in &rest.jobs {
        match Job::decode(name, &snapshot.nodes) {
            Ok(Some(view)) => {
                let resting = Resting { rest, view: &view, snapshot };
                tell("one_owner", one_owner::at_rest(&resting));
                tell("no_orphans", no_orphans::of_a_job(&resting));
                tell("settles", settles::at_rest(&resting));
                tell("mirrors", mirrors::at_rest(&resting));
            }
            // Handled above.
            Ok(None) => {}
            Err(why) => tell("settles", vec![format!("job {name} is damaged: {why}")]),
        }
    }
    found
}

impl Resting<'_> {
    /// Whether an instance's worker is alive.
    fn lives(&self, instance: &InstanceId) -> bool {
        instance.worker().is_some_and(|worker| self.rest.workers.contains(&worker))
    }

    /// Whether any instance may be assigned items.
    fn is_served(&self) -> bool {
        self.view.instances.keys().any(|instance| self.view.is_enabled(instance))
    }
}

/// Each invariant has a file of its name, which states its source; and the README lists each.
#[test]
fn each_promise_has_a_file_of_its_name_that_names_its_source() {
    let this = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    // The suite `net` includes this file as well.
    let root = if this.ends_with("sim") { this.to_path_buf() } else { this.join("tests/sim") };
    let page = std::fs::read_to_string(root.join("README.md")).unwrap();
    let mut files: BTreeSet<String> = BTreeSet::new();
    for file in std::fs::read_dir(root.join("invariants")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "mod" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(head.contains("//! Source: "), "{name} does not name its source");
        assert!(page.contains(&format!("`{name}`")), "README.md does not describe {name}");
        files.insert(name);
    }
    for promise in all() {
        assert!(files.contains(promise.name()), "no file is named {}", promise.name());
    }
    for number in 1..=22 {
        assert!(page.contains(&format!("| I{number} ")), "README.md has no row for I{number}");
    }
}
