use super::*;
use crate::sql::{EventTable, events_sql, runs_sql};
use crate::{EventFilter, EventKind, HistoryError, RunState};

fn page(size: usize, token: Option<String>) -> Page {
    Page { size, token }
}

#[tokio::test]
async fn pages_hold_every_run_once_also_while_more_come() {
    for filter in [RunFilter::default(), RunFilter { job: Some(job()), ..RunFilter::default() }] {
        let mut desk = Desk::new();
        // Ten at each time, in another order than that of their items.
        let items: Vec<u32> = (0..95).map(|n| n * 61 % 95).collect();
        for (n, item) in items.iter().enumerate() {
            let run = run(Source::NormalTrigger, n as i64 / 10);
            desk.recorder.record(&job(), at(0), &started(*item, 1, run), None);
        }
        desk.write();
        let (mut seen, mut token) = (Vec::new(), None);
        loop {
            let (rows, next) = desk.reader.runs(filter.clone(), page(7, token)).await.unwrap();
            assert!(rows.len() == 7 || next.is_none());
            seen.extend(rows.iter().map(|row| (row.since, row.item.0)));
            desk.record(&started(1000 + seen.len() as u32, 1, run(Source::NormalTrigger, 500)), None);
            token = next;
            if token.is_none() {
                break;
            }
        }
        let mut expected: Vec<_> = (0..).zip(items).map(|(n, item)| (at(n / 10), item)).collect();
        expected.reverse();
        assert_eq!(seen, expected, "{filter:?}");
    }
}

#[tokio::test]
async fn a_page_of_long_texts_is_shorter_and_still_goes_on() {
    let mut desk = Desk::new();
    for n in 0..50 {
        let detail = Detail { output: "x".repeat(64 << 10), ..Detail::default() };
        desk.record(&ended(n, 1, run(Source::NormalTrigger, 0), Outcome::Succeeded), Some(detail));
    }
    let (first, next) = desk.reader.runs(RunFilter::default(), page(0, None)).await.unwrap();
    assert_eq!(first.len(), 32);
    let (second, end) = desk.reader.runs(RunFilter::default(), page(0, next)).await.unwrap();
    assert_eq!((second.len(), end), (18, None));
}

#[tokio::test]
async fn runs_are_found_by_what_is_known_of_them() {
    let mut desk = Desk::new();
    let other = Running { instance: InstanceId::new("b@-@2").unwrap(), ..run(Source::NormalTrigger, 30) };
    desk.record(&ended(0, 1, run(Source::NormalTrigger, 10), Outcome::Succeeded), None);
    desk.record(&ended(1, 1, run(Source::NormalTrigger, 20), Outcome::Failed), None);
    desk.record(&started(0, 2, other.clone()), None);
    let another = JobName::new("another").unwrap();
    desk.recorder.record(&another, at(0), &started(0, 2, run(Source::NormalTrigger, 40)), None);
    desk.write();
    let cases = [
        (RunFilter { job: Some(job()), ..RunFilter::default() }, vec![30, 20, 10]),
        (RunFilter { job: Some(job()), item: Some(Item(0)), ..RunFilter::default() }, vec![30, 10]),
        (RunFilter { state: Some(Outcome::Failed.into()), ..RunFilter::default() }, vec![20]),
        (RunFilter { state: Some(RunState::Staging), ..RunFilter::default() }, vec![40, 30]),
        (RunFilter { instance: Some(other.instance), ..RunFilter::default() }, vec![30]),
        (RunFilter { from: Some(at(20)), to: Some(at(40)), ..RunFilter::default() }, vec![30, 20]),
    ];
    for (filter, expected) in cases {
        let rows = desk.reader.runs(filter.clone(), page(10, None)).await.unwrap().0;
        let found: Vec<i64> = rows.iter().map(|row| row.fire.0 / 1000 - TODAY).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    assert_eq!(desk.reader.last_runs(&job(), 2).await.unwrap().len(), 2);
    assert!(desk.reader.last_runs(&job(), 0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_jobs_runs_are_counted_by_their_state_since_a_time() {
    let mut desk = Desk::new();
    let detail = |processed, failed| Some(Detail { processed, failed, ..Detail::default() });
    desk.record(&ended(0, 1, run(Source::NormalTrigger, 10), Outcome::Succeeded), detail(100, 1));
    desk.record(&ended(0, 2, run(Source::NormalTrigger, 20), Outcome::Succeeded), detail(7, 2));
    desk.record(&ended(1, 1, run(Source::NormalTrigger, 20), Outcome::Succeeded), detail(u64::MAX, 0));
    desk.record(&ended(0, 3, run(Source::NormalTrigger, 30), Outcome::Failed), detail(5, 4));
    desk.record(&started(0, 4, run(Source::NormalTrigger, 40)), None);
    let another = JobName::new("another").unwrap();
    desk.recorder.record(&another, at(0), &started(0, 2, run(Source::NormalTrigger, 40)), None);
    desk.write();
    let counted = desk.reader.recent(&job(), at(20)).await.unwrap();
    let shown: Vec<_> = counted.iter().map(|recent| (recent.state, recent.runs, recent.failed)).collect();
    assert_eq!(shown, [(RunState::Error, 1, 4), (RunState::Finished, 2, 2), (RunState::Staging, 1, 0)]);
    // The counter saturates.
    assert!(counted[1].processed >= i64::MAX as u64 / 2, "{counted:?}");
    assert_eq!((counted[0].processed, counted[2].processed), (5, 0));
    let last = desk.reader.recent(&job(), at(31)).await.unwrap();
    assert_eq!(last.iter().map(|recent| recent.state).collect::<Vec<_>>(), [RunState::Staging]);
}

#[tokio::test]
async fn events_are_kept_with_whose_doing_they_were() {
    let mut desk = Desk::new();
    desk.recorder.event(at(1), None, EventKind::Coordinator, "started", None);
    desk.recorder.event(at(2), Some(&job()), EventKind::Operation, "paused", Some("ann"));
    desk.recorder.event(at(2), Some(&job()), EventKind::Assigned, "item 0 to 10.0.0.7@-@w-1", None);
    desk.write();
    let all = desk.reader.events(EventFilter::default(), page(2, None)).await.unwrap();
    assert_eq!(all.0.iter().map(|e| e.kind).collect::<Vec<_>>(), [EventKind::Assigned, EventKind::Operation]);
    let rest = desk.reader.events(EventFilter::default(), page(2, all.1)).await.unwrap();
    assert_eq!((rest.0.len(), rest.1), (1, None));
    let by = EventFilter { principal: Some("ann".into()), ..EventFilter::default() };
    let found = desk.reader.events(by, page(10, None)).await.unwrap().0;
    assert_eq!((found.len(), found[0].text.as_str(), found[0].job.as_ref()), (1, "paused", Some(&job())));
}

/// They do not belong to the audit: workers cause as many as they like.
#[tokio::test]
async fn what_became_of_runs_is_a_kind_of_its_own() {
    let mut desk = Desk::new();
    desk.recorder.event(at(1), Some(&job()), EventKind::Run, "item 0: run 7 crashed", None);
    desk.recorder.event(at(2), Some(&job()), EventKind::Worker, "w left", None);
    desk.write();
    let of = EventFilter { kind: Some(EventKind::Run), job: Some(job()), ..EventFilter::default() };
    let found = desk.reader.events(of, page(10, None)).await.unwrap().0;
    assert_eq!(found.iter().map(|event| event.text.as_str()).collect::<Vec<_>>(), ["item 0: run 7 crashed"]);
    assert!(!EventKind::Run.is_audit() && EventKind::named("run") == Some(EventKind::Run));
}

#[tokio::test]
async fn a_page_token_of_another_make_is_refused() {
    let desk = Desk::new();
    for token in ["", "1", "a.b", "1.2.3"] {
        let answer = desk.reader.runs(RunFilter::default(), page(1, Some(token.into()))).await;
        assert!(matches!(answer, Err(HistoryError::PageToken(_))), "{token:?}");
    }
}

/// Two tables, one listing: pages of any size give the same rows in the same order.
#[tokio::test]
async fn events_and_the_audit_are_one_listing() {
    let mut desk = Desk::new();
    for n in 0..40 {
        let kind = [EventKind::Worker, EventKind::Job, EventKind::Operation][n % 3];
        // Several at each time.
        desk.recorder.event(at(n as i64 / 7), Some(&job()), kind, format!("{n}"), None);
    }
    desk.write();
    let page = async |size, token| {
        let filter = EventFilter { job: Some(job()), ..EventFilter::default() };
        desk.reader.events(filter, Page { size, token }).await.unwrap()
    };
    let (whole, _) = page(0, None).await;
    assert_eq!(whole.len(), 40);
    assert!(whole.windows(2).all(|two| two[0].at >= two[1].at));
    for size in 1..9 {
        let (mut rows, mut token) = page(size, None).await;
        while let Some(next) = token {
            let more = page(size, Some(next)).await;
            rows.extend(more.0);
            token = more.1;
        }
        assert_eq!(rows, whole, "pages of {size}");
    }
}

#[test]
fn no_listing_reads_a_whole_table_or_sorts_it() {
    let desk = Desk::new();
    let db = rusqlite::Connection::open(desk.dir.path().join("history.db")).unwrap();
    let instance = Some(InstanceId::new("b@-@2").unwrap());
    let mut listings = Vec::new();
    for bits in 0..64_u32 {
        let is = |bit: u32| bits & bit != 0;
        let after = is(16).then_some((1, 1));
        let filter = RunFilter {
            job: is(1).then(job),
            item: is(2).then_some(Item(1)),
            state: is(4).then_some(if is(32) { RunState::Finished } else { RunState::Error }),
            instance: instance.clone().filter(|_| is(8)),
            from: is(16).then(|| at(1)),
            to: None,
            token: None,
        };
        listings.push(runs_sql(&filter, after, 10));
        let (job, kind) = (is(1).then(job), is(2).then_some(EventKind::Job));
        let filter = EventFilter { job, kind, ..EventFilter::default() };
        listings.extend(EventTable::ALL.map(|table| events_sql(table, &filter, after)));
    }
    for (sql, values) in listings {
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = plan.query_map(rusqlite::params_from_iter(values), |row| row.get(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        // Only runs of a job that started in the same millisecond are sorted.
        let ties = "USE TEMP B-TREE FOR LAST TERM OF ORDER BY";
        let is_ok =
            |step: &String| step.contains("INDEX") || step == ties && sql.contains("INDEXED BY runs_job ");
        assert!(steps.iter().all(is_ok), "{sql}: {steps:?}");
    }
}
