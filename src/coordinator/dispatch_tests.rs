//! Reports of runs, and what is told of runs.

use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token, Version, WorkerId};
use rosterd_domain::item::{Outcome, Record, Running, Source, State};
use rosterd_domain::plan::Reported;
use rosterd_domain::time::Mono;

use crate::event::Effect;
use crate::failure_detector::tests::{at, host, job_with};
use crate::job::JobState;
use crate::node::Node;
use crate::worker::Unheeded;
use rosterd_session::frame::{Completed, RunRef, ToWorker};

const STREAM: u64 = 1;

/// A host whose worker runs item 0 of a job under token 5.
fn at_work() -> (Node, WorkerId, JobName) {
    let mut node = host();
    let (id, instance) =
        node.workers.values().map(|worker| (worker.id.clone(), worker.instance.clone())).next().unwrap();
    let (name, view) = job_with(&instance);
    let run = Running {
        fire: at(0.0).wall,
        source: Source::NormalTrigger,
        instance,
        worker: id.clone(),
        since: at(0.0).wall,
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    };
    let record =
        Record { token: Token(5), state: State::Running(run), ..Record::new(Token(0), at(0.0).wall) };
    let mut job = JobState { view: Some(view), loaded: true, ..JobState::default() };
    job.records.insert(Item(0), (Version(1), record));
    node.jobs.insert(name.clone(), Box::new(job));
    node.workers.get_mut(&id).unwrap().runs.insert((name.clone(), Item(0)));
    (node, id, name)
}

fn report(name: &JobName, token: u64) -> Completed {
    Completed {
        run: RunRef { job: name.clone(), item: Item(0), token: Token(token) },
        ended: Reported::Done(Outcome::Succeeded),
        error: String::new(),
        counts: (0, 0),
        offset: None,
        started_at: None,
        ended_at: None,
        output: String::new(),
        attempt: 1,
    }
}

/// The tokens of reports that were answered, and whether they were accepted.
fn answered(node: &mut Node) -> Vec<(u64, bool)> {
    let out = std::mem::take(&mut node.out);
    out.into_iter()
        .filter_map(|effect| match effect {
            Effect::Send(_, ToWorker::ReportAck { run, refusal }) => Some((run.token.0, refusal.is_none())),
            _ => None,
        })
        .collect()
}

/// Whoever named a token that is not the item's had the report of the run that is answered as fenced, and its own kept.
#[test]
fn a_report_of_another_run_takes_no_place() {
    for strange in [4, 6, i64::MAX.unsigned_abs()] {
        let (mut node, id, name) = at_work();
        node.out.clear();
        node.run_completed(STREAM, &id, report(&name, 5));
        node.run_completed(STREAM, &id, report(&name, strange));
        assert_eq!(node.jobs[&name].reports[&Item(0)].token, Token(5));
        assert_eq!(answered(&mut node), [(strange, false)]);
    }
}

/// Nor while the records are read, when none can be told from another yet: each waits, and has its answer.
#[test]
fn reports_that_contradict_each_other_wait_for_the_records() {
    for strange in [4, i64::MAX.unsigned_abs()] {
        let (mut node, id, name) = at_work();
        node.out.clear();
        node.jobs.get_mut(&name).unwrap().reading = true;
        node.run_completed(STREAM, &id, report(&name, strange));
        node.run_completed(STREAM, &id, report(&name, 5));
        assert_eq!(answered(&mut node), []);
        assert_eq!(node.workers[&id].unacknowledged, 2);
        let mut job = node.jobs.remove(&name).unwrap();
        job.reading = false;
        node.answer_reports(&name, &mut job);
        assert_eq!(answered(&mut node), [(strange, false)]);
        assert_eq!((job.reports[&Item(0)].token, job.disputed.len()), (Token(5), 0));
        assert_eq!(node.workers[&id].unacknowledged, 1);
    }
}

/// A report, or a run in flight, of a job with which its worker has nothing to do is nothing: no state is made for it.
#[test]
fn nothing_comes_of_what_a_worker_says_of_jobs_that_are_not_its() {
    let (mut node, id, name) = at_work();
    node.out.clear();
    let other = JobName::new("other").unwrap();
    node.run_completed(STREAM, &id, report(&other, 7));
    assert_eq!(answered(&mut node), [(7, false)]);
    let run = RunRef { job: other.clone(), item: Item(0), token: Token(7) };
    node.compare_runs(&id, std::slice::from_ref(&run));
    node.progress(&id, run, 50, "half".into(), None);
    assert_eq!(node.jobs.keys().collect::<Vec<_>>(), [&name]);
    assert!(!node.out.iter().any(|effect| matches!(effect, Effect::Tell(_))), "{:?}", node.out);
    // Of a job that it works for, the run of another is not its own to speak of either.
    node.progress(&id, RunRef { job: name.clone(), item: Item(0), token: Token(4) }, 50, "half".into(), None);
    assert!(!node.out.iter().any(|effect| matches!(effect, Effect::Tell(_))), "{:?}", node.out);
    node.progress(&id, RunRef { job: name, item: Item(0), token: Token(5) }, 50, "half".into(), None);
    assert!(node.out.iter().any(|effect| matches!(effect, Effect::Tell(_))), "its own is told");
}

/// Five times it was told of a run, each time for three heartbeats, and for two leases in all; and it never named it.
#[test]
fn a_run_that_its_worker_never_names_is_ended_for_it() {
    let (mut node, id, name) = at_work();
    let run = RunRef { job: name.clone(), item: Item(0), token: Token(5) };
    let lease = node.settings.verdict_after(node.settings.lease);
    node.now.mono = Mono(3 * lease);
    let tell = |node: &mut Node, times: u32, leases: Option<u32>| {
        let since = leases.map(|leases| Mono(node.now.mono.0 - leases * lease - Duration::from_millis(1)));
        let worker = node.workers.get_mut(&id).unwrap();
        worker.dispatched.remove(&run);
        worker.unheeded.insert(run.clone(), Unheeded { times, since });
        node.compare_runs(&id, &[]);
        node.jobs[&name].reports.get(&Item(0)).map(|report| report.ended)
    };
    assert_eq!(tell(&mut node, 4, Some(2)), None);
    assert_eq!(tell(&mut node, 20, Some(1)), None, "it may be on its way");
    assert_eq!(tell(&mut node, 20, None), None, "on this stream it was not told so far");
    node.compare_runs(&id, std::slice::from_ref(&run));
    assert!(node.workers[&id].unheeded.is_empty(), "it names it now");
    let version = node.workers[&id].version;
    assert_eq!(tell(&mut node, 5, Some(2)), Some(Reported::Forgotten(version)));
}
