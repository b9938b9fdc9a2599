//! The lease: what renews it, what does not, and what its end brings.

use std::time::Duration;

use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{Assignment, Registered, RunOutcome};

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::event::now;
use crate::stage::{CALM, SHORT, Setting, Stage, at};

const MS: fn(u64) -> Duration = Duration::from_millis;
const SECOND: Duration = Duration::from_secs(1);

const LONGER: Setting =
    Setting { lease: Duration::from_secs(3), interval: Duration::from_millis(500), ..CALM };
/// Three heartbeats take half of the time after which a worker leaves a silent coordinator.
const OFTEN: Setting = Setting { interval: Duration::from_millis(300), ..LONGER };
const SLOW: Setting = Setting { interval: SECOND, ..CALM };

const fn group(name: &'static str, setting: Setting, seconds: u32, scenes: &'static [super::Scene]) -> Group {
    Group { name, setting, attached: true, seconds, scenes }
}

pub(super) const GROUPS: &[Group] = &[
    group(
        "heartbeats",
        CALM,
        4,
        &[scene!(heartbeats_say_what_is_in_flight_and_the_lease: "LEASE-4", "LEASE-3")],
    ),
    group(
        "sent",
        LONGER,
        8,
        &[scene!(the_lease_counts_from_when_the_heartbeat_was_sent: "LEASE-1", "LEASE-2", "RUN-23")],
    ),
    group("lost", OFTEN, 7, &[scene!(acknowledgements_may_be_lost_and_late: "LEASE-17", "LEASE-7")]),
    group(
        "unrenewed",
        SHORT,
        5,
        &[scene!(a_stream_that_talks_and_renews_nothing_is_left: "LEASE-6", "LINK-18")],
    ),
    group("silent", SHORT, 4, &[scene!(a_silent_stream_is_left_while_there_is_time: "LINK-17")]),
    group("shorter", SLOW, 9, &[scene!(a_shorter_lease_counts_for_the_whole_worker: "LEASE-8", "LEASE-9")]),
    group("block", SHORT, 7, &[scene!(a_handler_that_blocks_keeps_its_lease: "LEASE-15")]),
    group("busy", LONGER, 12, &[scene!(a_handler_that_spins_keeps_its_lease: "LEASE-15")]),
];

async fn heartbeats_say_what_is_in_flight_and_the_lease(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "sleep 60000").await?;
    stage.next_beat_names(&[&run]).await?;
    let beat = stage.beat("", |_| true).await?;
    let wanted = frames::span(stage.setting.lease);
    ensure(beat.lease == Some(wanted), || format!("heartbeats say a lease of {:?}", beat.lease))?;
    stage.next_rule();
    let (from, begun) = (stage.here(), now());
    for _ in 0..10 {
        stage.beat("", |_| true).await?;
    }
    let beats: Vec<Duration> = stage
        .frames(from, |frame| matches!(frame, Said::Heartbeat(_)).then_some(()))
        .into_iter()
        .map(|(at, ())| at)
        .collect();
    let took = beats.last().copied().unwrap_or_default().saturating_sub(beats[0]);
    let (wanted, slack) = (stage.setting.interval * 9, stage.slack(begun));
    ensure(took + slack >= wanted && took <= wanted * 2 + slack * 2, || {
        format!("ten heartbeats took {took:?} instead of {wanted:?}")
    })?;
    stage.say(frames::cancel(&run, rosterd_wire::proto::v1::CancelReason::Operator)).await?;
    stage.reported(&run, RunOutcome::Cancelled).await.map(drop)
}

/// Says something that renews nothing, for so long or until it is enough.
async fn talk(stage: &mut Stage, time: Duration, mut enough: impl FnMut(&mut Stage) -> bool) -> Played {
    let until = now() + time;
    while now() < until && !enough(stage) {
        let job = stage.setting.jobs[0].to_owned();
        stage.say(Frame::Assignment(Assignment { job, ..Assignment::default() })).await?;
        stage.pass(MS(100)).await;
    }
    Ok(())
}

async fn the_lease_counts_from_when_the_heartbeat_was_sent(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "sleep 60000").await?;
    stage.acknowledge_heartbeats(false);
    let (begun, from) = (now(), stage.here());
    let (sent, sequence) = stage
        .find(from, "a heartbeat", |entry| match &entry.event {
            crate::event::WorkerEvent::Frame(_, Some(Said::Heartbeat(beat))) => {
                Some((entry.at, beat.sequence))
            }
            _ => None,
        })
        .await?;
    // The acknowledgement is late: what counted from it would go on for longer than the lease.
    let late = MS(1_200);
    stage.pass((sent + late).saturating_sub(now())).await;
    stage.say(frames::heartbeat_ack(sequence)).await?;
    let told = run.clone();
    talk(stage, stage.setting.lease * 2, |stage| !stage.lines(&told, What::Cancel).is_empty()).await?;
    let stopped = at(&stage.line(&run, What::Cancel).await?).saturating_sub(sent);
    let (slack, setting) = (stage.slack(begun), stage.setting);
    let most = (setting.lease + slack).min(setting.stops_after() + late - MS(100));
    ensure(stopped <= most, || format!("the run was told to stop {stopped:?} after the heartbeat was sent"))?;
    stage.next_rule();
    let least = setting.stops_after().saturating_sub(slack);
    ensure(stopped >= least, || {
        format!("the run was told to stop {stopped:?} after the heartbeat was sent: not before {least:?}")
    })?;
    stage.next_rule();
    // The stream goes on: its lease is renewed again, for what begins from now on.
    stage.acknowledge_heartbeats(true);
    stage.reported(&run, RunOutcome::Aborted).await.map(drop)
}

async fn acknowledgements_may_be_lost_and_late(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "sleep 60000").await?;
    let here = stage.here();
    let first = stage.stream()?.number;
    stage.acknowledge_heartbeats(false);
    let until = now() + stage.setting.lease * 3 / 2;
    while now() < until {
        // One is lost, of the two after it the later one is acknowledged first.
        stage.beat("", |_| true).await?;
        let earlier = stage.beat("", |_| true).await?.sequence;
        let later = stage.beat("", |_| true).await?.sequence;
        stage.say(frames::heartbeat_ack(later)).await?;
        stage.say(frames::heartbeat_ack(earlier)).await?;
    }
    stage.acknowledge_heartbeats(true);
    stage.beat("", |_| true).await?;
    let told = stage.lines(&run, What::Cancel).len();
    ensure(told == 0, || "the run was told to stop".into())?;
    let others = stage.all(here, |entry| match &entry.event {
        crate::event::WorkerEvent::Opened(stream) => Some(stream.number),
        _ => None,
    });
    ensure(others.is_empty(), || format!("stream {first} was left for {others:?}"))?;
    stage.say(frames::cancel(&run, rosterd_wire::proto::v1::CancelReason::Operator)).await?;
    stage.reported(&run, RunOutcome::Cancelled).await.map(drop)
}

async fn a_stream_that_talks_and_renews_nothing_is_left(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "sleep 60000").await?;
    let renewed = stage.beat("", |_| true).await?.sequence;
    stage.beat("", |_| true).await?;
    stage.acknowledge_heartbeats(false);
    let begun = now();
    let until = begun + stage.setting.lease * 3;
    let told = run.clone();
    while now() < until && stage.lines(&told, What::Cancel).is_empty() {
        // One that was acknowledged before, and one that was not sent.
        stage.say(frames::heartbeat_ack(renewed)).await?;
        stage.say(frames::heartbeat_ack(10_000)).await?;
        stage.pass(MS(50)).await;
    }
    let stopped = at(&stage.line(&run, What::Cancel).await?).saturating_sub(begun);
    let most = stage.setting.lease + stage.slack(begun);
    ensure(stopped <= most, || format!("the run was told to stop {stopped:?} after the last renewal"))?;
    stage.next_rule();
    stage.acknowledge_heartbeats(true);
    stage.hello_within(stage.setting.lease * 3).await?;
    stage.accept().await?;
    stage.reported(&run, RunOutcome::Aborted).await.map(drop)
}

async fn a_silent_stream_is_left_while_there_is_time(stage: &mut Stage) -> Played {
    stage.beat("", |_| true).await?;
    stage.acknowledge_heartbeats(false);
    let begun = now();
    stage.hello_within(stage.setting.lease * 3).await?;
    let after = now().saturating_sub(begun);
    stage.acknowledge_heartbeats(true);
    stage.accept().await?;
    let most = stage.setting.lease + stage.slack(begun);
    ensure(after <= most, || {
        format!("the next Hello came {after:?} after the last frame: two thirds of the lease are over sooner")
    })
}

async fn a_shorter_lease_counts_for_the_whole_worker(stage: &mut Stage) -> Played {
    let job = stage.setting.jobs[0];
    let says = |lease: Duration, interval: Duration| {
        Frame::Registered(Registered {
            job: job.into(),
            sharding_total_count: frames::ITEMS,
            lease: Some(frames::span(lease)),
            heartbeat_interval: Some(frames::span(interval)),
            ..Registered::default()
        })
    };
    let (short, quick) = (Duration::from_secs(4), MS(200));
    let wanted = Some(frames::span(short));
    stage.say(says(short, quick)).await?;
    stage.beat("that says the shorter lease", |beat| beat.lease == wanted).await?;
    stage.say(says(Duration::from_secs(8), SECOND)).await?;
    stage.probe().await?;
    let begun = now();
    for _ in 0..6 {
        let beat = stage.beat("", |_| true).await?;
        ensure(beat.lease == wanted, || format!("a longer one makes it {:?}", beat.lease))?;
    }
    let took = now().saturating_sub(begun);
    ensure(took <= quick * 6 * 2 + stage.slack(begun) * 2, || {
        format!("six heartbeats took {took:?}: one every {quick:?} was agreed")
    })?;
    // It stays under the same identity, and goes with it.
    stage.next_rule();
    stage.cut()?;
    stage.attach().await?;
    let beat = stage.beat("", |_| true).await?;
    ensure(beat.lease == wanted, || {
        format!("after a reconnect under the same worker_id it says {:?}", beat.lease)
    })?;
    stage.beat("", |_| true).await?;
    stage.cut()?;
    stage.rename("w2");
    stage.attach().await?;
    let long = Some(frames::span(stage.setting.lease));
    let beat = stage.beat("", |_| true).await?;
    ensure(beat.lease == long, || format!("under another worker_id it says {:?}", beat.lease))
}

async fn a_handler_that_blocks_keeps_its_lease(stage: &mut Stage) -> Played {
    keeps_its_lease(stage, "block").await
}

async fn a_handler_that_spins_keeps_its_lease(stage: &mut Stage) -> Played {
    keeps_its_lease(stage, "busy").await
}

async fn keeps_its_lease(stage: &mut Stage, how: &str) -> Played {
    let length = stage.setting.lease * 3;
    let run = stage.new_run();
    let (here, begun) = (stage.here(), now());
    stage.start_run(&run, &format!("{how} {}", length.as_millis())).await?;
    stage.reported(&run, RunOutcome::Succeeded).await?;
    let took = at(&stage.over(&run).await?).saturating_sub(at(&stage.started(&run).await?));
    ensure(took >= length, || format!("`{how}` took {took:?} instead of {length:?}"))?;
    let others = stage.all(here, |entry| match &entry.event {
        crate::event::WorkerEvent::Opened(stream) => Some(stream.number),
        _ => None,
    });
    ensure(others.is_empty(), || "another stream was opened meanwhile".into())?;
    let beats = stage.frames(here, |frame| matches!(frame, Said::Heartbeat(_)).then_some(()));
    let gap = beats.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).max().unwrap_or(length);
    let most = stage.setting.lease * 2 / 3 + stage.slack(begun);
    ensure(gap <= most, || format!("no heartbeat came for {gap:?}"))
}
