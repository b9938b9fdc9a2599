//! Reports of runs, and what is told of runs.

use rosterd_domain::id::{Item, JobName, Token, Version, WorkerId};
use rosterd_domain::item::{Outcome, Record, Running, Source, State};
use rosterd_domain::plan::Reported;

use crate::event::Effect;
use crate::job::JobState;
use crate::node::Node;
use crate::verdict::tests::{at, host, job_with};
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
    };
    let record =
        Record { token: Token(5), state: State::Running(run), ..Record::new(Token(0), at(0.0).wall) };
    let mut job = JobState { view: Some(view), loaded: true, ..JobState::default() };
    job.records.insert(Item(0), (Version(1), record));
    node.jobs.insert(name.clone(), Box::new(job));
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

/// Whoever named a token that is not the item's had the report of the run that is answered as fenced, and its own kept.
#[test]
fn a_report_of_another_run_takes_no_place() {
    for strange in [4, 6] {
        let (mut node, id, name) = at_work();
        node.out.clear();
        node.run_completed(STREAM, &id, report(&name, 5));
        node.run_completed(STREAM, &id, report(&name, strange));
        assert_eq!(node.jobs[&name].reports[&Item(0)].token, Token(5));
        let refused: Vec<Token> = node
            .out
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send(_, ToWorker::ReportAck { run, refusal: Some(_) }) => Some(run.token),
                _ => None,
            })
            .collect();
        assert_eq!(refused, [Token(strange)]);
    }
}
