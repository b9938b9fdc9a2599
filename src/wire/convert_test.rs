use super::*;

/// The field that is refused, and how to break it.
type Case<T> = (&'static str, fn(&mut T));

fn hello() -> v1::Hello {
    v1::Hello { stream_number: 1, slots: 4, address: "10.0.0.7".into(), ..Default::default() }
}

fn taken(frame: In) -> Result<Option<FromWorker>, Defect> {
    from_worker(v1::SessionRequest { frame: Some(frame) })
}

fn refused(frame: In) -> (Code, String) {
    let defect = taken(frame).unwrap_err();
    (defect.malformed.refusal.code, defect.malformed.field)
}

fn report() -> v1::RunCompleted {
    v1::RunCompleted {
        run: Some(v1::RunRef { job: "j".into(), item: 0, token: 7 }),
        outcome: v1::RunOutcome::Succeeded.into(),
        ..Default::default()
    }
}

#[test]
fn a_frame_of_a_newer_client_is_ignored() {
    assert_eq!(from_worker(v1::SessionRequest { frame: None }).unwrap(), None);
}

#[test]
fn a_hello_out_of_range_is_refused_by_its_field() {
    let cases: [Case<v1::Hello>; 8] = [
        ("hello.slots", |h| h.slots = 0),
        ("hello.slots", |h| h.slots = 4097),
        ("hello.stream_number", |h| h.stream_number = 0),
        ("hello.address", |h| h.address = "a/b".into()),
        ("hello.namespace", |h| h.namespace = "..".into()),
        ("hello.labels", |h| h.labels = (0..33).map(|n| (n.to_string(), String::new())).collect()),
        ("hello.labels", |h| h.labels = [("k".into(), "v".repeat(129))].into()),
        ("hello.runs_in_flight.token", |h| {
            h.runs_in_flight = vec![v1::RunRef { job: "j".into(), item: 0, token: u64::MAX }];
        }),
    ];
    for (field, break_it) in cases {
        let mut hello = hello();
        break_it(&mut hello);
        assert_eq!(refused(In::Hello(hello)), (Code::HelloInvalid, field.to_owned()));
    }
    let Some(FromWorker::Hello(taken)) = taken(In::Hello(hello())).unwrap() else { panic!("no hello") };
    assert_eq!((taken.identity, taken.slots, taken.namespace), (None, 4, None));
}

#[test]
fn a_report_that_breaks_a_rule_is_answered_and_the_stream_goes_on() {
    let cases: [Case<v1::RunCompleted>; 3] = [
        ("run_completed.offset", |r| r.offset = Some(vec![0; MAX_OFFSET + 1].into())),
        ("run_completed.outcome", |r| r.outcome = v1::RunOutcome::Crashed.into()),
        ("run_completed.outcome", |r| r.outcome = 4711),
    ];
    for (field, break_it) in cases {
        let mut report = report();
        break_it(&mut report);
        let defect = taken(In::RunCompleted(report.clone())).unwrap_err();
        assert_eq!(defect.malformed.field, field);
        let Some(Out::ReportAck(ack)) = defect.answer.unwrap().frame else { panic!("no answer") };
        assert_eq!((ack.result(), &ack.run), (v1::ReportResult::Invalid, &report.run));
        assert_eq!(ack.code, "REPORT_INVALID");
    }
    let nameless = v1::RunCompleted { run: None, ..report() };
    assert!(taken(In::RunCompleted(nameless)).unwrap_err().answer.is_none());
}

#[test]
fn long_texts_of_a_report_are_cut() {
    let report = v1::RunCompleted {
        error: "e".repeat(MAX_ERROR + 9),
        output: format!("{}end", "o".repeat(MAX_OUTPUT)),
        ..report()
    };
    let Some(FromWorker::RunCompleted(taken)) = taken(In::RunCompleted(report)).unwrap() else { panic!() };
    assert_eq!((taken.error.len(), taken.output.len()), (MAX_ERROR, MAX_OUTPUT));
    assert!(taken.output.ends_with("end"), "the end of an output is kept");
    assert_eq!((taken.offset, taken.attempt), (None, 1));
}

#[test]
fn a_job_that_is_not_a_name_is_refused_for_itself_alone() {
    let register = v1::Register { job: "a/b".into(), handler_type: "h".into(), ..Default::default() };
    let defect = taken(In::Register(register)).unwrap_err();
    let Some(Out::Refused(refused)) = defect.answer.unwrap().frame else { panic!("no answer") };
    assert_eq!((refused.job.as_str(), refused.code.as_str()), ("a/b", "NAME_INVALID"));
}

#[test]
fn a_progress_is_capped() {
    let progress =
        v1::RunProgress { run: report().run, percent: 400, message: "m".repeat(5000), offset: None };
    let Some(FromWorker::RunProgress { percent, message, .. }) = taken(In::RunProgress(progress)).unwrap()
    else {
        panic!()
    };
    assert_eq!((percent, message.len()), (100, MAX_PROGRESS));
}

#[test]
fn an_acknowledgement_says_what_became_of_the_report() {
    let run = RunRef { job: JobName::new("j").unwrap(), item: Item(3), token: Token(9) };
    let result = |refusal: Option<Code>| {
        let refusal = refusal.map(|code| Refusal::new(code, "why"));
        let Ok(frame) = to_worker(ToWorker::ReportAck { run: run.clone(), refusal }) else { panic!() };
        let Some(Out::ReportAck(ack)) = frame.frame else { panic!() };
        ack.result()
    };
    assert_eq!(result(None), v1::ReportResult::Accepted);
    assert_eq!(result(Some(Code::ReportFenced)), v1::ReportResult::Fenced);
    assert_eq!(result(Some(Code::ReportInvalid)), v1::ReportResult::Invalid);
}

#[test]
fn a_close_is_the_end_of_the_stream_and_no_frame() {
    assert_eq!(to_worker(ToWorker::Close(None)).unwrap_err(), None);
    let refusal = Refusal::new(Code::TooSlow, "read");
    assert_eq!(to_worker(ToWorker::Close(Some(refusal.clone()))).unwrap_err(), Some(refusal));
}

#[test]
fn a_registered_dataflow_says_whether_it_streams() {
    let (lease, heartbeat) = (Duration::from_secs(5), Duration::from_secs(1));
    let job = JobName::new("j").unwrap();
    let kind = RunKind::Dataflow { streaming: true };
    let ignored = Vec::new();
    let Ok(frame) =
        to_worker(ToWorker::Registered { job, items: 3, kind, lease, heartbeat, ignored, next: None })
    else {
        panic!()
    };
    let Some(Out::Registered(registered)) = frame.frame else { panic!() };
    assert!(registered.streaming);
    assert_eq!(registered.kind(), v1::JobKind::Dataflow);
    assert_eq!(registered.lease.unwrap().seconds, 5);
}

#[test]
fn a_drain_without_an_end_has_no_grace_on_the_wire() {
    let grace = |grace: Duration| {
        let Ok(frame) = to_worker(ToWorker::Drain { message: String::new(), grace }) else { panic!() };
        let Some(Out::Drain(drain)) = frame.frame else { panic!() };
        drain.grace
    };
    assert_eq!(grace(Duration::MAX), None);
    assert_eq!(grace(Duration::from_secs(30)).unwrap().seconds, 30);
}
