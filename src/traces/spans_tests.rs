use rosterd_domain::id::{InstanceId, WorkerId};
use rosterd_domain::job::Retries;
use rosterd_domain::time::Mono;
use rosterd_domain::txn::Purpose;
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::frame::RunKind;
use tokio::sync::mpsc::Receiver;

use super::*;

const FIRE: Time = Time(60_000);

fn job() -> JobName {
    JobName::new("words").unwrap()
}

/// So many microseconds after the scheduled time.
fn at(micros: u64) -> Now {
    let since = Duration::from_micros(micros);
    Now { wall: FIRE.plus(since), mono: Mono(Duration::from_secs(5) + since) }
}

fn nanos_at(micros: u64) -> u64 {
    nanos(FIRE) + micros * 1000
}

struct Traced {
    spans: Spans,
    out: Receiver<Span>,
}

impl Traced {
    fn new(ratio: f64) -> Self {
        let (queue, out) = Queue::of(1024, Metrics::new());
        Self { spans: Spans::new(queue, Sampling::of(ratio), "c".to_owned()), out }
    }

    /// A transaction from 1,000 µs to 3,000 µs after the scheduled time, of which this follows.
    fn commits(&mut self, id: TxnId, applied: bool, entries: &[Entry]) {
        let mut txn = Txn::new(Purpose::Host);
        txn.guard(Guard::Incarnation(job(), "born".into()));
        self.spans.handed_over(at(1_000), id, &txn);
        self.spans.answered(at(3_000), id, applied);
        for entry in entries {
            self.spans.entry(at(3_000), &job(), entry);
        }
    }

    fn told(&mut self) -> Vec<Span> {
        std::iter::from_fn(|| self.out.try_recv().ok()).collect()
    }
}

fn trace() -> FireTrace {
    FireTrace::new(&job(), "born", FIRE)
}

fn running(source: Source) -> Running {
    Running {
        fire: FIRE,
        source,
        instance: InstanceId::new("10.0.0.7@-@w").unwrap(),
        worker: WorkerId::new("w").unwrap(),
        since: FIRE,
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    }
}

fn started(item: u32, token: u64, source: Source) -> Entry {
    Entry::Started { item: Item(item), token: Token(token), run: running(source) }
}

fn ended(item: u32, token: u64, source: Source, outcome: Outcome) -> Entry {
    let (item, token, run) = (Item(item), Token(token), running(source));
    Entry::Ended { item, token, run, outcome, at: FIRE, requeued: false }
}

fn reference(item: u32, token: u64) -> RunRef {
    RunRef { job: job(), item: Item(item), token: Token(token) }
}

fn trigger(item: u32, token: u64) -> Trigger {
    Trigger {
        run: reference(item, token),
        task_id: "task".to_owned(),
        incarnation: "born".into(),
        fire: FIRE,
        source: Source::NormalTrigger,
        item_parameter: String::new(),
        job_parameter: String::new(),
        total: 2,
        offset: Arc::from(&[][..]),
        not_before: None,
        starts_in: Duration::ZERO,
        timeout: None,
        kind: RunKind::Simple,
        retries: Retries::default(),
        sampled: true,
    }
}

fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name} in {spans:?}"));
    assert!(found.next().is_none(), "two of {name}");
    span
}

#[test]
fn a_fire_of_two_items_is_one_trace() {
    let mut traced = Traced::new(1.0);
    let both = [started(0, 7, Source::NormalTrigger), started(1, 9, Source::NormalTrigger)];
    traced.commits(1, true, &both);
    traced.spans.sent(at(3_100), &trigger(0, 7));
    traced.spans.sent(at(3_200), &trigger(1, 9));
    traced.spans.settled(at(3_200));
    let begun = traced.told();
    traced.spans.reported(at(5_000), &reference(0, 7));
    traced.spans.reported(at(5_500), &reference(0, 7));
    traced.commits(2, true, &[]);
    traced.spans.entry(at(6_000), &job(), &ended(0, 7, Source::NormalTrigger, Outcome::Succeeded));
    traced.spans.settled(at(6_000));
    let over = traced.told();

    assert!(begun.iter().chain(&over).all(|span| span.trace == trace().id()));
    let (fire, commit) = (one(&begun, "fire words"), one(&begun, "commit"));
    assert_eq!((fire.parent, fire.from, fire.to), (None, nanos_at(0), nanos_at(3_000)));
    assert!(fire.attributes.contains(&("rosterd.items", Value::Number(2))), "{fire:?}");
    assert_eq!((commit.parent, commit.from, commit.to), (Some(fire.id), nanos_at(1_000), nanos_at(3_000)));
    let sent: Vec<_> = begun.iter().filter(|span| span.name == "dispatch").collect();
    let parents = [(0, 7), (1, 9)].map(|(item, token)| Some(trace().run(Item(item), Token(token))));
    assert_eq!([sent[0].parent, sent[1].parent], parents);
    assert_eq!([sent[0].to, sent[1].to], [nanos_at(3_100), nanos_at(3_200)]);
    let (run, report) = (one(&over, "run words"), one(&over, "report"));
    assert_eq!((run.id, run.parent), (trace().run(Item(0), Token(7)), Some(fire.id)));
    assert_eq!((run.from, run.to, &run.failure), (nanos_at(3_000), nanos_at(6_000), &None));
    assert_eq!((report.parent, report.from, report.to), (Some(run.id), nanos_at(5_000), nanos_at(6_000)));
    assert_eq!(over.len(), 2);
}

#[test]
fn a_run_that_is_sent_again_is_dispatched_twice() {
    let mut traced = Traced::new(1.0);
    traced.commits(1, true, &[started(0, 7, Source::NormalTrigger)]);
    traced.spans.sent(at(3_100), &trigger(0, 7));
    traced.spans.sent(at(9_000), &trigger(0, 7));
    let sent = traced.told();
    assert_ne!(sent[0].id, sent[1].id);
    assert_eq!((sent[1].from, sent[1].to), (nanos_at(9_000), nanos_at(9_000)));
}

#[test]
fn a_failover_goes_on_in_the_trace_of_its_fire() {
    let mut traced = Traced::new(1.0);
    traced.commits(1, true, &[started(0, 7, Source::NormalTrigger)]);
    traced.spans.settled(at(3_000));
    traced.commits(
        2,
        true,
        &[ended(0, 7, Source::NormalTrigger, Outcome::Crashed), started(0, 8, Source::Failover)],
    );
    traced.spans.settled(at(3_000));
    let told = traced.told();
    assert!(told.iter().all(|span| span.trace == trace().id()));
    let fires: Vec<_> = told.iter().filter(|span| span.name == "fire words").collect();
    assert_ne!(fires[0].id, fires[1].id);
    assert_eq!(
        [fires[0].from, fires[1].from],
        [nanos_at(0), nanos_at(1_000)],
        "it did not wait for a scheduled time"
    );
    assert_eq!(one(&told, "run words").failure.as_deref(), Some("crashed"));
}

#[test]
fn what_is_not_applied_leaves_nothing() {
    let mut traced = Traced::new(1.0);
    traced.commits(1, false, &[]);
    traced.spans.settled(at(3_000));
    assert!(traced.told().is_empty() && traced.spans.pending.is_empty() && traced.spans.answered.is_empty());
}

#[test]
fn a_run_that_another_coordinator_began_is_a_root() {
    let mut traced = Traced::new(1.0);
    traced.commits(1, true, &[ended(0, 7, Source::NormalTrigger, Outcome::Failed)]);
    let told = traced.told();
    let run = one(&told, "run words");
    assert_eq!((run.id, run.parent, run.from), (trace().run(Item(0), Token(7)), None, nanos_at(0)));
}

#[test]
fn a_trace_is_kept_as_a_whole_or_not_at_all() {
    let mut traced = Traced::new(0.0);
    traced.commits(1, true, &[started(0, 7, Source::NormalTrigger)]);
    traced.spans.sent(at(3_100), &trigger(0, 7));
    traced.spans.reported(at(4_000), &reference(0, 7));
    traced.commits(2, true, &[ended(0, 7, Source::NormalTrigger, Outcome::Succeeded)]);
    traced.spans.settled(at(5_000));
    assert!(traced.told().is_empty() && !traced.spans.keeps(&trigger(0, 7)));
    assert!(traced.spans.runs.is_empty());
    // A tenth of all is about a tenth.
    let some = Sampling::of(0.1);
    let kept = (0..10_000).filter(|n| some.keeps(FireTrace::new(&job(), "born", Time(*n)).id())).count();
    assert!((800..1_200).contains(&kept), "{kept}");
}

#[test]
fn runs_that_never_end_here_do_not_pile_up() {
    let mut traced = Traced::new(1.0);
    let many: Vec<_> = (0..=MOST_RUNS as u64).map(|n| started(0, n, Source::NormalTrigger)).collect();
    traced.commits(1, true, &many);
    assert_eq!(traced.spans.runs.len(), MOST_RUNS);
    assert_eq!(traced.spans.runs.first_key_value().unwrap().0.0, Token(1), "the oldest is forgotten");
}

#[test]
fn times_follow_a_calendar_that_is_set_and_are_finer_than_it() {
    let mut clock = Exact::default();
    let read = |clock: &mut Exact, wall: i64, micros: u64| {
        clock.read(Now { wall: Time(wall), mono: Mono(Duration::from_micros(micros)) })
    };
    assert_eq!(read(&mut clock, 1_000, 0), 1_000_000_000);
    assert_eq!(read(&mut clock, 1_000, 700), 1_000_700_000);
    assert_eq!(read(&mut clock, 1_001, 1_400), 1_001_400_000);
    assert_eq!(read(&mut clock, 9_000, 2_000), 9_000_000_000, "the clock was set");
    assert_eq!(read(&mut clock, 9_000, 2_300), 9_000_300_000);
}
