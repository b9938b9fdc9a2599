//! Reports of runs, and what workers say about runs.

use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token, Version, WorkerId};
use rosterd_domain::item::{Outcome, Record, Running, Source, State};
use rosterd_domain::plan::{Class, Reported, Waiting};
use rosterd_domain::time::Mono;
use rosterd_session::frame::{Completed, RunRef, ToWorker};

use crate::io::event::Effect;
use crate::job::parts::cache::Cache;
use crate::job::state::JobState;
use crate::machine::Machine;
use crate::tests::{at, host, job_with};
use crate::workers::parts::flight::Unheeded;

const STREAM: u64 = 1;

/// A host whose worker runs item 0 of a job with token 5.
fn at_work() -> (Machine, WorkerId, JobName) {
    let mut machine = host();
    let (id, instance) = machine
        .workers
        .here()
        .unordered_values()
        .map(|worker| (worker.id.clone(), worker.instance.clone()))
        .next()
        .unwrap();
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
    let mut job = JobState { cache: Cache::of(view), ..JobState::default() };
    job.cache.put_record(Item(0), Version(1), record.into());
    machine.jobs.put(name.clone(), job);
    machine.workers.get_mut(&id).unwrap().ledger.run_began(&name, Item(0));
    (machine, id, name)
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
fn answered(machine: &mut Machine) -> Vec<(u64, bool)> {
    let out = std::mem::take(&mut machine.io.out);
    out.into_iter()
        .filter_map(|effect| match effect {
            Effect::Send(_, ToWorker::ReportAck { run, refusal }) => Some((run.token.0, refusal.is_none())),
            _ => None,
        })
        .collect()
}

/// Regression: if a worker named a token that is not the item's, the report of the current run was answered as fenced,
/// and its own was kept.
#[test]
fn a_report_of_another_run_takes_no_place() {
    for strange in [4, 6, i64::MAX.unsigned_abs()] {
        let (mut machine, id, name) = at_work();
        machine.io.out.clear();
        machine.all_jobs().run_completed(STREAM, &id, report(&name, 5));
        machine.all_jobs().run_completed(STREAM, &id, report(&name, strange));
        assert_eq!(machine.jobs.all[&name].reports.by_item()[&Item(0)].token, Token(5));
        assert_eq!(answered(&mut machine), [(strange, false)]);
    }
}

/// The same while the records are being read, when they cannot be told apart yet: each waits, and gets its answer.
#[test]
fn reports_that_contradict_each_other_wait_for_the_records() {
    for strange in [4, i64::MAX.unsigned_abs()] {
        let (mut machine, id, name) = at_work();
        machine.io.out.clear();
        machine.jobs.all.get_mut(&name).unwrap().writer.begin_reading();
        machine.all_jobs().run_completed(STREAM, &id, report(&name, strange));
        machine.all_jobs().run_completed(STREAM, &id, report(&name, 5));
        assert_eq!(answered(&mut machine), []);
        assert_eq!(machine.workers.here()[&id].ledger.unacknowledged(), 2);
        let mut all = machine.all_jobs();
        let (mut turn, job) = all.turn_of(&name).unwrap();
        job.writer.read_ended();
        turn.answer_reports(&name, job);
        assert_eq!(answered(&mut machine), [(strange, false)]);
        let job = &machine.jobs.all[&name];
        assert_eq!((job.reports.by_item()[&Item(0)].token, job.reports.disputed().len()), (Token(5), 0));
        assert_eq!(machine.workers.here()[&id].ledger.unacknowledged(), 1);
    }
}

/// A report, or a run in flight, of a job that its worker is not concerned with is ignored: it creates no state.
#[test]
fn nothing_comes_of_what_a_worker_says_of_jobs_that_are_not_its() {
    let (mut machine, id, name) = at_work();
    machine.io.out.clear();
    let other = JobName::new("other").unwrap();
    machine.all_jobs().run_completed(STREAM, &id, report(&other, 7));
    assert_eq!(answered(&mut machine), [(7, false)]);
    let run = RunRef { job: other.clone(), item: Item(0), token: Token(7) };
    machine.all_jobs().compare_runs(&id, std::slice::from_ref(&run));
    machine.all_jobs().progress(&id, run, 50, "half".into(), None);
    assert_eq!(machine.jobs.all.keys().collect::<Vec<_>>(), [&name]);
    assert!(
        !machine.io.out.iter().any(|effect| matches!(effect, Effect::Publish(_))),
        "{:?}",
        machine.io.out
    );
    // Even for a job that it works for, it may not report on another worker's run.
    machine.all_jobs().progress(
        &id,
        RunRef { job: name.clone(), item: Item(0), token: Token(4) },
        50,
        "half".into(),
        None,
    );
    assert!(
        !machine.io.out.iter().any(|effect| matches!(effect, Effect::Publish(_))),
        "{:?}",
        machine.io.out
    );
    machine.all_jobs().progress(
        &id,
        RunRef { job: name, item: Item(0), token: Token(5) },
        50,
        "half".into(),
        None,
    );
    assert!(
        machine.io.out.iter().any(|effect| matches!(effect, Effect::Publish(_))),
        "its own progress is published"
    );
}

/// It was sent a run five times, each time for three heartbeats, and for two leases in all, and never listed it.
#[test]
fn a_run_that_its_worker_never_names_is_ended_for_it() {
    let (mut machine, id, name) = at_work();
    let run = RunRef { job: name.clone(), item: Item(0), token: Token(5) };
    let lease = machine.io.settings.verdict_after(machine.io.settings.lease);
    machine.io.now.mono = Mono(3 * lease);
    let tell = |machine: &mut Machine, times: u32, leases: Option<u32>| {
        let since =
            leases.map(|leases| Mono(machine.io.now.mono.0 - leases * lease - Duration::from_millis(1)));
        let worker = machine.workers.get_mut(&id).unwrap();
        worker.flight.forget(&run);
        worker.flight.put_unheeded(run.clone(), Unheeded { times, since });
        machine.all_jobs().compare_runs(&id, &[]);
        machine.jobs.all[&name].reports.of(Item(0)).map(|report| report.ended)
    };
    assert_eq!(tell(&mut machine, 4, Some(2)), None);
    assert_eq!(tell(&mut machine, 20, Some(1)), None, "the Trigger may be in transit");
    assert_eq!(tell(&mut machine, 20, None), None, "it was not sent on this stream");
    machine.all_jobs().compare_runs(&id, std::slice::from_ref(&run));
    assert!(machine.workers.here()[&id].flight.heeds_all(), "it names it now");
    let version = machine.workers.here()[&id].link.version();
    assert_eq!(tell(&mut machine, 5, Some(2)), Some(Reported::Forgotten(version)));
}

/// However a slot becomes free, the job whose item waits for it has a turn: nothing else may bring it one.
#[test]
fn a_freed_slot_is_offered_however_it_became_free() {
    type Frees = fn(&mut Machine, &WorkerId, &RunRef);
    /// The slot is used by the run, which no record holds.
    fn without_a_record(machine: &mut Machine, id: &WorkerId, run: &RunRef) {
        let worker = machine.workers.get_mut(id).unwrap();
        worker.ledger.run_ended(&run.job, run.item);
        worker.ledger.take_away(run.clone());
        assert_eq!(worker.ledger.free(), 0);
    }
    let ways: [(&str, Frees); 5] = [
        ("its record is gone", |machine, _, run| {
            let mut all = machine.all_jobs();
            let (mut turn, job) = all.turn_of(&run.job).unwrap();
            turn.drop_record(&run.job, job, run.item);
        }),
        ("a start was not applied", |machine, id, run| {
            let worker = machine.workers.get_mut(id).unwrap();
            worker.ledger.run_ended(&run.job, run.item);
            worker.ledger.reserve(1);
            machine.workers.release_slots(&[(id.clone(), 1)].into());
        }),
        ("its report is answered", |machine, id, run| {
            without_a_record(machine, id, run);
            machine.all_jobs().workers_turn().answer_report(id, run.clone(), None);
        }),
        ("a heartbeat does not list it", |machine, id, run| {
            without_a_record(machine, id, run);
            machine.all_jobs().compare_runs(id, &[]);
        }),
        ("a heartbeat does not list it, and it was never to have a record", |machine, id, run| {
            let worker = machine.workers.get_mut(id).unwrap();
            worker.ledger.run_ended(&run.job, run.item);
            worker.ledger.found_untracked(run);
            machine.all_jobs().compare_runs(id, &[]);
        }),
    ];
    for (how, frees) in ways {
        let (mut machine, id, name) = at_work();
        let run = RunRef { job: name, item: Item(0), token: Token(5) };
        let other = JobName::new("other").unwrap();
        let waiting = Waiting { class: Class::Fire, fire: at(0.0).wall, job: other.clone(), item: Item(0) };
        machine.workers.get_mut(&id).unwrap().ledger.wait(&other, vec![waiting]);
        frees(&mut machine, &id, &run);
        machine.all_jobs().workers_turn().offer_freed_slots();
        let mut turns = std::iter::from_fn(|| machine.schedule.run_queue.pop());
        assert!(turns.any(|job| job == other), "{how}");
    }
}
