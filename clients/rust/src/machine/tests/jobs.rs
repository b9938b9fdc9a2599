//! Jobs: offered after every Welcome, refused, shut down; the lease that a job shortens.

use super::*;

fn registers(bench: &Bench) -> Vec<String> {
    let jobs = bench.frames().filter_map(|frame| match frame {
        Request::Register(register) => Some(register.job.clone()),
        _ => None,
    });
    jobs.collect()
}

fn refused(job: &str) -> Response {
    let (code, message) = ("JOB_UNKNOWN".into(), "create it".into());
    Response::Refused(proto::Refused { job: job.into(), code, message })
}

fn registered(job: &str) -> Response {
    Response::Registered(proto::Registered { job: job.into(), ..Default::default() })
}

#[test]
fn jobs_are_offered_after_every_welcome() {
    let mut bench = Bench::attached();
    bench.frame(registered("j"));
    bench.frame(refused("k"));
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(registers(&bench), ["j", "k"]);
    assert_eq!(bench.exit(), None);
}

/// The next coordinator reads the records of the jobs that Hello names before Welcome: a stream that breaks between
/// Welcome and Registered must not make it forget runs in flight.
#[test]
fn a_job_that_was_registered_once_is_named_in_every_later_hello() {
    let mut bench = Bench::attached();
    bench.frame(registered("j"));
    bench.frame(refused("k"));
    bench.reattach("w1");
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(bench.hello().jobs, ["j"]);
}

/// Its coordinator may have assigned it runs of a job whose registration it never answered: the next one reads those.
#[test]
fn every_other_job_is_named_as_asked_for_once_there_is_an_identity() {
    let mut bench = Bench::new(settings());
    bench.connect();
    assert_eq!(bench.hello().jobs_asked, [""; 0]);
    bench.frame(Response::Welcome(welcome("w1")));
    bench.after(|bench| bench.reattach("w1"));
    let hello = bench.hello();
    assert_eq!((hello.jobs, hello.jobs_asked), (vec![], vec!["j".to_owned(), "k".to_owned()]));
    bench.frame(registered("k"));
    bench.after(|bench| bench.reattach("w1"));
    let hello = bench.hello();
    assert_eq!((hello.jobs, hello.jobs_asked), (vec!["k".to_owned()], vec!["j".to_owned()]));
}

#[test]
fn a_refused_job_is_offered_again_later() {
    let mut bench = Bench::attached();
    bench.frame(registered("j"));
    bench.frame(refused("k"));
    bench.after(|bench| bench.live(29_999));
    assert_eq!(registers(&bench), [""; 0]);
    bench.live(30_000);
    assert_eq!(registers(&bench), ["k"]);
    bench.after(|bench| bench.live(90_000));
    assert_eq!(registers(&bench), [""; 0], "not while it is offered");
}

#[test]
fn a_refused_job_that_finds_no_stream_does_not_spin() {
    let mut bench = Bench::attached();
    bench.frame(refused("k"));
    bench.close();
    bench.advance(29_000);
    bench.connect();
    bench.advance(60_000);
}

#[test]
fn a_worker_with_every_job_refused_leaves_and_says_so() {
    let mut bench = Bench::attached();
    bench.frame(refused("j"));
    assert!(!bench.said_frame(|frame| matches!(frame, Request::DrainRequest(_))), "k may still be accepted");
    bench.frame(refused("k"));
    bench.frame(Response::Draining(proto::Draining {}));
    bench.frame(Response::GoodbyeAck(proto::GoodbyeAck {}));
    let exit = Exit::Refused { job: "j".into(), code: "JOB_UNKNOWN".into(), message: "create it".into() };
    assert_eq!(bench.exit(), Some(&exit));
}

#[test]
fn a_worker_may_be_told_to_stay_when_refused() {
    let mut bench =
        Bench::attached_with(Settings { on_refused: OnRefused::Retry, ..settings() }, welcome("w1"));
    bench.frame(refused("j"));
    bench.frame(refused("k"));
    bench.after(|bench| bench.live(30_000));
    assert_eq!(registers(&bench), ["j", "k"]);
}

#[test]
fn a_job_that_is_shut_down_starts_nothing_and_stays_down() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.after(|bench| {
        bench.frame(Response::Shutdown(proto::Shutdown { job: "j".into(), message: String::new() }));
        bench.trigger(1, 1);
    });
    assert!(bench.said_frame(|frame| matches!(frame, Request::Unregister(_))));
    assert_eq!((bench.cancels(), bench.starts()), (vec![], vec![]), "the run in flight goes on");
    assert_eq!(bench.outcomes(), [(1, 1, RunOutcome::NotStarted)]);
    bench.frame(registered("j"));
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(registers(&bench), ["k"]);
    let given_up = bench.said_frame(|frame| matches!(frame, Request::Unregister(given) if given.job == "j"));
    assert!(given_up, "the next host hears of it too");
    bench.done(0, 1);
    bench.frame(Response::Shutdown(proto::Shutdown { job: "k".into(), message: String::new() }));
    assert!(bench.said_frame(|frame| matches!(frame, Request::DrainRequest(_))), "nothing left to do");
}

#[test]
fn shutdown_of_all_and_drain_leave() {
    let grace = proto_ms(2_000);
    for frame in [
        Response::Shutdown(proto::Shutdown::default()),
        Response::Drain(proto::Drain { grace, ..Default::default() }),
    ] {
        let mut bench = Bench::attached();
        bench.frame(frame);
        assert!(bench.said_frame(|frame| matches!(frame, Request::DrainRequest(_))));
    }
}

#[test]
fn a_short_grace_shortens_lease_and_interval_as_long_as_the_worker_is_the_same() {
    let mut bench = Bench::attached_with(settings(), Welcome { stop_budget: proto_ms(100), ..welcome("w1") });
    bench.advance(400);
    let lease = proto_ms(900);
    let heartbeat_interval = proto_ms(300);
    bench.after(|bench| {
        let job = "j".into();
        bench.frame(Response::Registered(proto::Registered {
            job,
            lease,
            heartbeat_interval,
            ..Default::default()
        }));
        bench.advance(400);
    });
    assert_eq!(bench.beats().len(), 1, "due at once");
    bench.acknowledge_beat();
    bench.frame(registered("k"));
    bench.trigger(0, 1);
    bench.advance(700);
    assert_eq!(bench.beats().len(), 2);
    bench.advance(1_100);
    assert_eq!(
        bench.machine.lease.stops_at(),
        Some(ms(400) + ms(900) - Duration::from_micros(4_500) - ms(100))
    );
    bench.advance(1_200);
    assert_eq!(bench.cancels(), [id(0, 1)]);
    // Otherwise a coordinator would mark it dead by the shorter lease that every heartbeat states.
    bench.reattach("w1");
    let welcomed = bench.mono;
    assert_eq!(bench.machine.lease.stops_at(), Some(welcomed + Duration::from_micros(895_500) - ms(225)));
    bench.after(|bench| bench.advance(u64::try_from(welcomed.as_millis()).unwrap() + 301));
    assert_eq!(bench.beats().len(), 1, "as often as before");
    bench.reattach("w2");
    assert_eq!(bench.machine.lease.stops_at(), Some(bench.mono + ms(4_975 - 500)));
}

#[test]
fn a_refusal_is_logged_once() {
    let refused =
        |message: &str| proto::Refused { job: "j".into(), code: "C".into(), message: message.into() };
    let jobs = &mut Bench::attached().machine.jobs;
    assert!(jobs.is_news(&refused("why")));
    assert!(!jobs.is_news(&refused("why")), "offered again, and refused again");
    assert!(jobs.is_news(&refused("another")));
}

#[test]
fn a_config_that_is_ignored_is_logged_once_with_what_differs() {
    let difference = |field: &str, stored: Option<&str>, offered: Option<&str>| proto::ConfigDifference {
        field: field.into(),
        stored: stored.map(Into::into),
        offered: offered.map(Into::into),
    };
    let differences = vec![
        difference("cron", Some("0 0 2 * * ?"), Some("0 0 3 * * ?")),
        difference("description", None, Some("nightly")),
    ];
    let told = |config_differences: &[_]| proto::Registered {
        job: "j".into(),
        config_differences: config_differences.to_vec(),
        ..Default::default()
    };
    let jobs = &mut Bench::attached().machine.jobs;
    let wanted = "the config of job j is ignored, since the job exists: cron is 0 0 2 * * ? in the store and 0 0 3 * * ? \
                  here, description is (none) in the store and nightly here; register it with overwrite, or change the \
                  job by `rosterd jobs apply`";
    assert_eq!(jobs.ignored(&told(&differences)).as_deref(), Some(wanted));
    assert_eq!(jobs.ignored(&told(&differences)), None, "at the next registration it was said already");
    assert!(jobs.ignored(&told(&differences[1..])).is_some_and(|said| !said.contains("cron")));
    assert_eq!(jobs.ignored(&told(&[])), None);
}

/// A run keeps its initial properties across attempts; the properties outlive the stream.
#[test]
fn props_are_those_that_were_told_last() {
    let told = |colour: &str| {
        let props = BTreeMap::from([("colour".to_owned(), colour.to_owned())]);
        Response::Assignment(proto::Assignment { job: "j".into(), props, ..Default::default() })
    };
    let mut bench = Bench::attached();
    bench.frame(told("green"));
    bench.frame(Response::Trigger(Trigger { max_attempts: 2, ..trigger(0, 1) }));
    bench.frame(told("blue"));
    bench.ended(id(0, 1), 1, UserResult::Failed { error: "again".into(), retry: true });
    bench.advance(1);
    bench.trigger(1, 1);
    bench.reattach("w1");
    bench.trigger(2, 1);
    let seen: Vec<_> = bench
        .starts()
        .iter()
        .map(|start| (start.id.item, start.attempt, start.props["colour"].clone()))
        .collect();
    let wanted = [(0, 1, "green"), (0, 2, "green"), (1, 1, "blue"), (2, 1, "blue")];
    assert_eq!(seen, wanted.map(|(item, attempt, colour)| (item, attempt, colour.to_owned())));
}
