//! Reports that come too late: the worker was marked dead, and its item runs elsewhere. These workers are scripted: no
//! client library would insist like this.

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use serde_json::json;

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;
use crate::raw::{self, Raw};

/// Heartbeats until it is dropped.
pub struct Beating(tokio::task::JoinHandle<()>);

impl Beating {
    pub fn of(raw: &Raw, timing: Timing) -> Self {
        let sender = raw.sender.clone();
        let lease = Some(prost_types::Duration::try_from(timing.lease).unwrap());
        Self(tokio::spawn(async move {
            for sequence in 1.. {
                let beat = v1::Heartbeat { sequence, lease, ..Default::default() };
                let frame = Some(Frame::Heartbeat(beat));
                if sender.send(v1::SessionRequest { frame }).await.is_err() {
                    return;
                }
                tokio::time::sleep(timing.heartbeat).await;
            }
        }))
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A worker that ran an item, and was marked dead.
struct GivenUp {
    welcome: v1::Welcome,
    run: v1::RunRef,
}

/// A worker at the first coordinator owns the only item, and falls silent: a worker at the second runs it.
async fn given_up(fleet: &mut Fleet) -> GivenUp {
    fleet.apply(job("late", 1, json!({ "failover": true }))).await;
    let (mut old, welcome) = Raw::attached(fleet.channel_of(0), raw::hello()).await;
    let beating = Beating::of(&old, fleet.timing);
    old.registered("late").await;
    fleet.assigned("late", 1).await;
    fleet.trigger("late").await;
    let run = old.trigger().await.run.unwrap();
    fleet.worker_at(1, "b", vec![runs_until("late", fleet.home.path("gate"))]);
    fleet.hosted_by("late", 2, &[0, 1]).await;
    drop(beating);
    fleet.verdict_when("a failover", |verdict| verdict.by_source("late", "FAILOVER").len() == 1).await;
    fleet.hosted_by("late", 1, &[1]).await;
    GivenUp { welcome, run }
}

impl GivenUp {
    /// It comes back as clients do, with its run in flight, and reports the run's outcome.
    async fn reports(
        &self,
        fleet: &Fleet,
        seat: usize,
        token: u64,
        outcome: v1::RunOutcome,
    ) -> v1::ReportAck {
        let run = v1::RunRef { token, ..self.run.clone() };
        let hello = v1::Hello {
            worker_id: self.welcome.worker_id.clone(),
            resume_key: self.welcome.resume_key.clone(),
            stream_number: 2,
            runs_in_flight: vec![run.clone()],
            jobs_asked: vec!["late".to_owned()],
            ..raw::hello()
        };
        let (mut raw, welcome) = Raw::attached(fleet.channel_of(seat), hello).await;
        assert_ne!(
            welcome.worker_id, self.welcome.worker_id,
            "who was given up does not come back as himself"
        );
        let report = v1::RunCompleted {
            run: Some(run.clone()),
            outcome: outcome.into(),
            attempt: 1,
            offset: Some(b"late".to_vec().into()),
            ..Default::default()
        };
        raw.send(Frame::RunCompleted(report)).await;
        let ack = raw
            .find("ReportAck", |said| if let Said::ReportAck(ack) = said { Some(ack) } else { None })
            .await;
        assert_eq!(ack.run, Some(run));
        raw.send(Frame::DrainRequest(v1::DrainRequest {})).await;
        raw.find("Draining", |said| if let Said::Draining(_) = said { Some(()) } else { None }).await;
        raw.send(Frame::Goodbye(v1::Goodbye {})).await;
        raw.find("GoodbyeAck", |said| if let Said::GoodbyeAck(_) = said { Some(()) } else { None }).await;
        ack
    }

    /// Whatever it reports, and to which coordinator: each report is refused, and the item is unchanged.
    async fn is_refused(&self, fleet: &Fleet) {
        use v1::RunOutcome::{Aborted, Failed, HandedBack, Succeeded};
        let before = item(fleet).await;
        for seat in [1, 0] {
            for outcome in [Succeeded, Failed, Aborted, HandedBack] {
                // Its own token; the item's current one, which belongs to another; and an unused one.
                for token in [self.run.token, before.0.token, before.0.token + 1] {
                    let ack = self.reports(fleet, seat, token, outcome).await;
                    let answer = (ack.result(), ack.code.as_str());
                    let what = format!("{outcome:?} of token {token} at c{seat}: {ack:?}");
                    assert_eq!(answer, (v1::ReportResult::Fenced, "REPORT_FENCED"), "{what}");
                    assert_eq!(item(fleet).await, before, "{what}");
                }
            }
        }
    }
}

/// The item, its record as it is written, and its offset.
async fn item(fleet: &Fleet) -> (v1::ItemSummary, Vec<u8>, Option<Vec<u8>>) {
    let mut nodes = fleet.dump("late").await;
    let mut data = |path: &str| nodes.remove(path).map(|node| node.data.to_vec());
    let (record, offset) = (data("/sharding/0").unwrap(), data("/offset/0"));
    (fleet.items("late").await.remove(0), record, offset)
}

/// While the item runs elsewhere, and after it has ended there.
#[tokio::test]
async fn a_late_report_is_refused_and_changes_nothing() {
    let mut fleet = Fleet::start(2, &shared().list(), PATIENT).await;
    let old = given_up(&mut fleet).await;
    let verdict = fleet.verdict();
    assert!(verdict.of("late").all(|run| run.token > old.run.token), "\n{}", verdict.table());
    old.is_refused(&fleet).await;
    fleet.home.open("gate");
    fleet.quiet("late").await;
    old.is_refused(&fleet).await;
    let counters = fleet.counters("late").await;
    assert_eq!((counters.runs, counters.succeeded, counters.crashed), (2, 1, 1), "{counters:?}");
    fleet.nothing_left().await;
    let verdict = fleet.verdict();
    verdict.is_clean();
    assert_eq!(verdict.of("late").count(), 1, "\n{}", verdict.table());
}
