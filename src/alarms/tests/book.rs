use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use rosterd_domain::item::Outcome;
use rosterd_domain::time::Time;

use super::{at, job, name, receiver};
use crate::book::{Book, Due, Kept};
use crate::facts::{Coordinator, Job};
use crate::kind::AlarmKind;
use crate::letter::Letter;
use crate::settings::{Pattern, Rule, Settings};
use crate::silence::Silence;

fn settings() -> Settings {
    Settings {
        group: Duration::from_secs(5),
        rules: AlarmKind::ALL.into_iter().map(Rule::new).collect(),
        receivers: vec![receiver("ops"), receiver("chat")],
        ..Settings::default()
    }
}

fn book() -> Book {
    Book::open(settings(), "ns".into(), "http://a:1".into(), Kept::default())
}

fn failing(count: u64) -> Job {
    let mut job = job(1);
    (job.items[0].failed, job.items[0].last) = (count, Some(Outcome::Failed));
    job
}

fn well() -> Job {
    let mut job = job(1);
    (job.items[0].failed, job.items[0].succeeded, job.items[0].last) = (1, 1, Some(Outcome::Succeeded));
    job
}

/// What a receiver is sent now, and accepts.
fn take(book: &mut Book, to: &str, now: Time) -> Option<Letter> {
    match book.due(&receiver(to), now) {
        Due::Now(letter) => {
            book.delivered(to, &letter, now);
            Some(*letter)
        }
        _ => None,
    }
}

fn keys(letter: &Letter) -> (Vec<&str>, Vec<&str>) {
    (
        letter.raised.iter().map(|alarm| alarm.key.as_str()).collect(),
        letter.resolved.iter().map(|alarm| alarm.key.as_str()).collect(),
    )
}

#[test]
fn each_receiver_is_notified_of_an_alarm_once_and_of_its_end_once() {
    let mut book = book();
    book.look_at(&failing(1), at(0));
    assert_eq!(book.due(&receiver("ops"), at(1)), Due::At(at(5)), "others may follow");
    let letter = take(&mut book, "ops", at(5)).unwrap();
    assert_eq!(keys(&letter), (vec!["failed:report"], vec![]));
    assert_eq!(letter.title(), "[rosterd ns] report failed for item 0 once");
    book.look_at(&failing(2), at(6));
    assert_eq!(take(&mut book, "ops", at(60)), None, "it was sent already");
    assert!(take(&mut book, "chat", at(60)).is_some(), "each receiver is notified");
    book.look_at(&well(), at(70));
    assert_eq!(take(&mut book, "ops", at(70)), None, "others may follow");
    let letter = take(&mut book, "ops", at(75)).unwrap();
    assert_eq!(keys(&letter), (vec![], vec!["failed:report"]));
    assert_eq!(letter.resolved[0].text, "report failed for item 0 twice");
    assert!(take(&mut book, "chat", at(75)).is_some());
    assert_eq!((take(&mut book, "ops", at(200)), book.active().count()), (None, 0));
    assert_eq!(book.lately().count(), 1);
}

#[test]
fn what_must_hold_for_a_time_is_not_an_alarm_before() {
    let mut book = book();
    let mut without = job(1);
    without.has_worker = false;
    book.look_at(&without, at(0));
    book.look_at(&without, at(29));
    assert_eq!(book.active().count(), 0);
    book.look_at(&job(1), at(29));
    book.look_at(&without, at(30));
    assert_eq!(book.active().count(), 0, "the time counts from the start again");
    book.look_at(&without, at(60));
    assert_eq!(book.active().next().unwrap().alarm.since, at(30));
}

#[test]
fn changes_that_come_together_are_sent_together() {
    let mut book = book();
    for number in 0..150 {
        let job = Job { name: name(&format!("job-{number:03}")), ..failing(1) };
        book.look_at(&job, at(number / 50));
    }
    let letter = take(&mut book, "ops", at(5)).unwrap();
    assert_eq!((letter.raised.len(), letter.more), (100, 50));
    assert_eq!(letter.title(), "[rosterd ns] 150 alarms");
    assert_eq!(letter.lines(20).len(), 21);
    assert_eq!(take(&mut book, "ops", at(7)).unwrap().raised.len(), 50);
}

#[test]
fn an_alarm_that_ends_while_a_receiver_cannot_be_reached_is_not_sent() {
    let mut book = book();
    book.look_at(&failing(1), at(0));
    let Due::Now(_) = book.due(&receiver("ops"), at(5)) else { panic!("it is due") };
    book.failed("ops", "down", at(5));
    assert_eq!(book.due(&receiver("ops"), at(5)), Due::At(at(6)));
    book.failed("ops", "down", at(6));
    assert_eq!(book.due(&receiver("ops"), at(6)), Due::At(at(8)), "the pause grows");
    assert_eq!((book.post("ops").failures, book.post("ops").error.as_deref()), (2, Some("down")));
    book.look_at(&well(), at(7));
    assert_eq!(book.due(&receiver("ops"), at(100)), Due::Nothing);
    for _ in 0..40 {
        book.failed("ops", "down", at(100));
    }
    assert_eq!(book.post("ops").not_before, Some(at(400)), "the pause is bounded");
}

#[test]
fn an_alarm_that_returns_before_its_end_was_sent_goes_on() {
    let mut book = book();
    book.look_at(&failing(1), at(0));
    take(&mut book, "ops", at(5)).unwrap();
    take(&mut book, "chat", at(5)).unwrap();
    book.look_at(&well(), at(6));
    take(&mut book, "chat", at(20)).unwrap();
    let mut again = failing(2);
    again.items[0].succeeded = 1;
    book.look_at(&again, at(21));
    assert_eq!(take(&mut book, "ops", at(60)), None, "it was not notified of the end");
    assert_eq!(take(&mut book, "chat", at(60)).unwrap().raised.len(), 1, "it was notified");
}

#[test]
fn a_silence_holds_back_what_holds_and_not_what_is_over() {
    let silence = |job: Option<&str>, alarm, until| Silence {
        id: "s".into(),
        alarm,
        job: job.map(str::to_owned),
        until,
        comment: String::new(),
        by: "ann".into(),
    };
    let mut book = book();
    assert!(book.silence(silence(Some("rep*"), Some(AlarmKind::Failed), at(100)), at(0)));
    book.look_at(&failing(1), at(0));
    assert_eq!((take(&mut book, "ops", at(50)), book.active().count()), (None, 1), "it is raised and shown");
    assert!(take(&mut book, "ops", at(100)).is_some(), "the silence has ended");
    book.silence(silence(None, None, at(500)), at(101));
    book.look_at(&well(), at(102));
    assert_eq!(
        take(&mut book, "ops", at(110)).unwrap().resolved.len(),
        1,
        "a receiver that was notified is notified of the end"
    );
    for other in [silence(Some("other"), None, at(500)), silence(None, Some(AlarmKind::Late), at(500))] {
        let mut book = super::book::book();
        book.silence(other, at(0));
        book.look_at(&failing(1), at(0));
        assert!(take(&mut book, "ops", at(10)).is_some(), "the silence does not match it");
    }
    assert!(book.unsilence("s").is_some() && book.unsilence("s").is_none());
}

#[test]
fn an_alarm_that_goes_on_is_sent_again_if_configured() {
    let settings = Settings { repeat: Some(Duration::from_secs(3600)), ..settings() };
    let mut book = Book::open(settings, "ns".into(), "a".into(), Kept::default());
    book.look_at(&failing(1), at(0));
    take(&mut book, "ops", at(5)).unwrap();
    assert_eq!(take(&mut book, "ops", at(3604)), None);
    assert_eq!(take(&mut book, "ops", at(3610)).unwrap().raised.len(), 1);
    assert_eq!(take(&mut book, "ops", at(3700)), None);
}

#[test]
fn rules_choose_jobs_and_receivers() {
    let rule = Rule {
        jobs: vec![Pattern("re*".into())],
        receivers: vec!["chat".into()],
        ..Rule::new(AlarmKind::Failed)
    };
    let mut book =
        Book::open(Settings { rules: vec![rule], ..settings() }, "ns".into(), "a".into(), Kept::default());
    book.look_at(&failing(1), at(0));
    book.look_at(&Job { name: name("other"), ..failing(1) }, at(0));
    assert_eq!(book.active().count(), 1);
    assert_eq!(take(&mut book, "ops", at(10)), None);
    assert!(take(&mut book, "chat", at(10)).is_some());
}

#[test]
fn of_two_coordinators_one_speaks_and_whoever_raised_an_alarm_ends_it() {
    let mut first = book();
    let mut second = book();
    let elsewhere = |job: Job| Job { speaks: false, ..job };
    first.look_at(&failing(1), at(0));
    second.look_at(&elsewhere(failing(1)), at(0));
    assert_eq!(second.active().count(), 0);
    let sent = take(&mut first, "ops", at(5)).unwrap();
    // The second has come to speak for the job.
    second.look_at(&failing(1), at(10));
    first.look_at(&elsewhere(failing(1)), at(10));
    assert_eq!((first.active().count(), take(&mut first, "ops", at(60))), (0, None), "it sends nothing more");
    let again = take(&mut second, "ops", at(60)).unwrap();
    assert_eq!(keys(&sent), keys(&again), "under the same key");
    // And if it was over in between, the first one says so.
    let mut first = book();
    first.look_at(&failing(1), at(0));
    take(&mut first, "ops", at(5)).unwrap();
    assert_eq!(first.followed(), BTreeSet::from([name("report")]));
    first.look_at(&elsewhere(well()), at(10));
    assert_eq!(take(&mut first, "ops", at(20)).unwrap().resolved.len(), 1);
}

#[test]
fn a_job_or_a_rule_that_is_gone_has_no_alarms() {
    let mut book = book();
    book.look_at(&failing(1), at(0));
    take(&mut book, "ops", at(5)).unwrap();
    book.jobs(&BTreeSet::new(), at(10));
    assert_eq!(take(&mut book, "ops", at(20)).unwrap().resolved.len(), 1);
    let mut before = super::book::book();
    before.look_at(&failing(1), at(0));
    let other = Settings { rules: vec![Rule::new(AlarmKind::Late)], ..settings() };
    let mut after = Book::open(other, "ns".into(), "a".into(), before.kept().clone());
    after.look_at(&failing(1), at(10));
    assert_eq!(after.active().count(), 0);
}

#[test]
fn a_restart_goes_on_where_the_one_before_stopped() {
    let mut before = book();
    before.look_at(&failing(1), at(0));
    take(&mut before, "ops", at(5)).unwrap();
    let mut missed = failing(1);
    missed.missed = 7;
    before.look_at(&missed, at(6));
    let text = serde_json::to_string(before.kept()).unwrap();
    let kept: Kept = serde_json::from_str(&text).unwrap();
    assert_eq!(&kept, before.kept());
    let mut after = Book::open(settings(), "ns".into(), "http://a:1".into(), kept);
    missed.missed = 12;
    after.look_at(&missed, at(700));
    let letter = take(&mut after, "ops", at(710)).unwrap();
    assert_eq!(
        keys(&letter),
        (vec!["missed:report"], vec![]),
        "what was sent is not sent again, what was missed meanwhile is sent"
    );
}

#[test]
fn a_coordinators_alarms_are_its_own() {
    let mut book = book();
    let mut here =
        Coordinator { name: "http://a:1".into(), clock_off: true, store_lost: false, certificate_ends: None };
    book.look_at_coordinator(&here, at(0));
    book.look_at_coordinator(&here, at(10));
    book.jobs(&BTreeSet::new(), at(11));
    assert_eq!(keys(&take(&mut book, "ops", at(20)).unwrap()).0, ["clock_off@http://a:1"]);
    here.clock_off = false;
    book.look_at_coordinator(&here, at(30));
    assert_eq!(book.active().count(), 0);
}

#[test]
fn a_job_with_an_elastic_job_handler_notifies_that_handler_alone() {
    let mut book = Book::open(Settings::default(), "ns".into(), "a".into(), Kept::default());
    let mut with = failing(1);
    let url = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k";
    with.handler = Some(("WECHAT".into(), [("wechat.webhook".to_owned(), url.to_owned())].into()));
    book.look_at(&with, at(0));
    let own = book.own_receivers();
    assert_eq!((own.len(), own[0].name.as_str()), (1, "job report"));
    let Due::Now(letter) = book.due(&own[0], at(10)) else { panic!("it is due") };
    assert_eq!(keys(&letter).0, ["jobErrorHandlerType:report"]);
    assert!(!serde_json::to_string(book.kept()).unwrap().contains("key=k"), "no secret is kept");
    with.handler = Some(("WECHAT".into(), Default::default()));
    book.look_at(&with, at(20));
    assert_eq!((book.refused().len(), book.active().count()), (1, 0));
}

proptest! {
    /// Whatever happens in whatever order, a receiver hears of ends only of what it was told, never twice in a row the same, and
    /// in the end, once it can be reached, it knows what holds and nothing else.
    #[test]
    fn a_receiver_is_sent_beginnings_and_ends_in_turn(steps in prop::collection::vec((0u8..6, 0u8..3, 0u64..30), 1..120)) {
        let mut book = book();
        let (mut now, mut failed) = (at(0), 1);
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut ill = [false; 3];
        let hear = |book: &mut Book, now: Time, known: &mut BTreeSet<String>| -> Result<(), TestCaseError> {
            if let Due::Now(letter) = book.due(&receiver("ops"), now) {
                for alarm in &letter.raised {
                    prop_assert!(known.insert(alarm.key.clone()), "{} is sent twice", alarm.key);
                }
                for alarm in &letter.resolved {
                    prop_assert!(known.remove(&alarm.key), "{} was not known", alarm.key);
                }
                book.delivered("ops", &letter, now);
            }
            Ok(())
        };
        for (what, which, seconds) in steps {
            now = now.plus(Duration::from_secs(seconds));
            let of = name(&format!("j{which}"));
            match what {
                0 | 1 => {
                    failed += 1;
                    ill[usize::from(which)] = true;
                    book.look_at(&Job { name: of, ..failing(failed) }, now);
                }
                2 => {
                    ill[usize::from(which)] = false;
                    let mut facts = well();
                    facts.items[0].succeeded = failed;
                    book.look_at(&Job { name: of, ..facts }, now);
                }
                3 => hear(&mut book, now, &mut known)?,
                4 => book.failed("ops", "down", now),
                _ => book.jobs(&(0..3).map(|number| name(&format!("j{number}"))).collect(), now),
            }
        }
        for round in 1..4 {
            hear(&mut book, now.plus(Duration::from_secs(400 * round)), &mut known)?;
        }
        let wanted: BTreeSet<String> =
            (0..3).filter(|which| ill[*which]).map(|which| format!("failed:j{which}")).collect();
        prop_assert_eq!(known, wanted);
    }
}
