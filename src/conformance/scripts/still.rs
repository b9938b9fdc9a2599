//! A process that stands still, as one does whose machine is paused.

use std::time::Duration;

use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::RunOutcome;
use rosterd_wire::proto::v1::session_request::Frame as Said;

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::event::{WorkerEvent, now};
use crate::stage::{CALM, SHORT, Setting, Stage, at};

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "still",
        setting: SHORT,
        attached: true,
        seconds: 6,
        scenes: &[
            scene!(beyond_the_lease_nothing_starts_and_runs_stop: "RUN-26", "LEASE-11", "LEASE-2", "LEASE-14"),
        ],
    },
    Group {
        name: "waited",
        setting: Setting { lease: Duration::from_secs(6), interval: Duration::from_secs(2), ..CALM },
        attached: true,
        seconds: 14,
        scenes: &[scene!(an_acknowledgement_that_waited_counts_before_the_timers: "LEASE-10")],
    },
];

async fn beyond_the_lease_nothing_starts_and_runs_stop(stage: &mut Stage) -> Played {
    let (busy, sleeping) = (stage.new_run(), stage.new_run());
    // Where user code has one thread, the one that spins keeps it.
    stage.start_run(&sleeping, "sleep 60000").await?;
    stage.start_run(&busy, "busy 60000").await?;
    // No acknowledgement may wait in the socket: it would count.
    stage.beat("", |_| true).await?;
    stage.acknowledge_heartbeats(false);
    stage.freeze().await?;
    stage.acknowledge_heartbeats(true);
    let waits = stage.new_run();
    stage.trigger(&waits, "succeed").await?;
    stage.pass(stage.setting.lease * 3 / 2).await;
    let woke = now();
    stage.thaw();
    stage.hello().await?;
    let hello_at = stage.stream()?.number;
    let hello_at = stage
        .find(0, "the Hello", |entry| match &entry.event {
            WorkerEvent::Frame(number, Some(Said::Hello(_))) if *number == hello_at => Some(entry.at),
            _ => None,
        })
        .await?;
    let begun = |stage: &mut Stage| stage.lines(&waits, What::Start).first().map(at);
    if let Some(begun) = begun(stage) {
        return ensure(false, || {
            format!("a Trigger that waited began {:?} after the process woke", begun.saturating_sub(woke))
        });
    }
    stage.next_rule();
    stage.accept().await?;
    for run in [&busy, &sleeping] {
        stage.reported(run, RunOutcome::Aborted).await?;
    }
    if let Some(begun) = begun(stage) {
        ensure(begun >= hello_at, || "a Trigger that waited began before the next Hello".into())?;
    }
    stage.next_rule();
    for run in [&busy, &sleeping] {
        let told = at(&stage.line(run, What::Cancel).await?);
        let most = Duration::from_secs(1) + stage.slack(woke);
        ensure(told <= woke + most, || {
            format!(
                "{} was told to stop {:?} after the process woke",
                frames::name(run),
                told.saturating_sub(woke)
            )
        })?;
    }
    stage.next_rule();
    let done = stage.lines(&busy, What::End).iter().any(|line| line.detail == "ok");
    ensure(!done, || "a handler that looks all the time took its work for done".into())?;
    // Then work goes on.
    stage.probe().await
}

async fn an_acknowledgement_that_waited_counts_before_the_timers(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.beat("", |_| true).await?;
    stage.start_run(&run, "ignore 7500").await?;
    stage.acknowledge_heartbeats(false);
    let from = stage.here();
    let (sent, sequence) = stage
        .find(from, "a heartbeat", |entry| match &entry.event {
            WorkerEvent::Frame(_, Some(Said::Heartbeat(beat))) => Some((entry.at, beat.sequence)),
            _ => None,
        })
        .await?;
    stage.freeze().await?;
    stage.say(frames::heartbeat_ack(sequence)).await?;
    // The lease of the acknowledgement before has ended, that of this one has not.
    let setting = stage.setting;
    let (old, new) = (sent + setting.stops_after() - setting.interval, sent + setting.stops_after());
    stage.pass((old + (new - old) / 2).saturating_sub(now())).await;
    let woke = now();
    stage.acknowledge_heartbeats(true);
    stage.thaw();
    let report = stage.reported(&run, RunOutcome::Succeeded).await;
    // On a machine that kept us waiting for so long the acknowledgement's own lease had ended.
    if woke + stage.slack(woke) < new { report.map(drop) } else { Ok(()) }
}
