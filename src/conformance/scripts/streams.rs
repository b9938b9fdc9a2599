//! Streams: what they begin with, what is ignored on them, and what follows their loss.

use std::time::Duration;

use prost::Message as _;
use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{RunOutcome, SessionResponse, Trigger};
use tonic::Code;

use super::runs::open;
use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::stage::{CALM, Setting, Stage};

/// A host that the user has not named, and nobody has.
const STRANGER: &str = "stranger.invalid";
/// How many there are to be tried in turn.
const COORDINATORS: usize = 3;
/// How long a client waits for a connection.
const CONNECT: Duration = Duration::from_secs(3);
const QUICK: Setting = Setting { interval: Duration::from_millis(100), ..CALM };

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "greeting",
        setting: Setting { config: CONFIG, ..QUICK },
        attached: false,
        seconds: 3,
        scenes: &[scene!(nothing_counts_before_welcome_and_no_second_one: "LINK-23", "JOB-13")],
    },
    Group {
        name: "streams",
        setting: QUICK,
        attached: true,
        seconds: 6,
        scenes: &[
            scene!(what_is_not_known_is_ignored: "LINK-22"),
            scene!(runs_go_on_without_a_stream: "LINK-28"),
            scene!(every_way_to_lose_a_stream_is_the_same: "LINK-24"),
            scene!(another_identity_ends_all_runs_unreported: "LINK-9"),
        ],
    },
    Group {
        name: "route",
        setting: Setting { coordinators: COORDINATORS, given: 2, ..QUICK },
        attached: true,
        seconds: 3,
        scenes: &[scene!(coordinators_are_tried_in_turn: "LINK-14", "LINK-11")],
    },
    Group {
        name: "stranger",
        setting: Setting { coordinators: 2, given: 1, host: STRANGER, ..QUICK },
        attached: true,
        seconds: 3,
        scenes: &[scene!(no_credential_goes_to_a_host_that_welcome_alone_names: "LINK-30")],
    },
];

const CONFIG: &str = "jobName: NAME\ncron: 0/5 * * * * ?\nshardingTotalCount: 3\n";

async fn nothing_counts_before_welcome_and_no_second_one(stage: &mut Stage) -> Played {
    stage.hello().await?;
    let early = stage.new_run();
    stage.trigger(&early, "succeed").await?;
    stage.say(frames::heartbeat_ack(1)).await?;
    stage.register(stage.setting.jobs[0]).await?;
    stage.say(frames::drain(None)).await?;
    stage.say(frames::shutdown("")).await?;
    stage.say(frames::goodbye_ack()).await?;
    stage.welcome().await?;
    let registers = stage.registers().await?;
    stage.register(stage.setting.jobs[0]).await?;
    stage.probe().await?;
    stage.ensure_not_begun(&early)?;
    let left = stage.frames(0, |frame| matches!(frame, Said::DrainRequest(_)).then_some(()));
    ensure(left.is_empty(), || "it leaves by a frame that came before Welcome".into())?;
    // The second one is another worker's; the next Hello shows that it was not heard.
    let mut other = stage.welcome_frame();
    other.worker_id = "w9".into();
    stage.say(Frame::Welcome(other)).await?;
    stage.probe().await?;
    stage.beat("", |_| true).await?;
    stage.cut()?;
    let hello = stage.attach().await?;
    ensure(hello.worker_id == "w1", || {
        format!("after a second Welcome its Hello is of {:?}", hello.worker_id)
    })?;
    stage.next_rule();
    let wanted = CONFIG.replace("NAME", stage.setting.jobs[0]);
    let is = (registers[0].handler_type.as_str(), registers[0].config.as_str());
    ensure(is == ("conformance", wanted.as_str()), || format!("Register says handler type and config {is:?}"))
}

async fn what_is_not_known_is_ignored(stage: &mut Stage) -> Played {
    // Field 500 of the frame, with a length; field 501 with a number; and a frame without anything in it.
    stage.say_bytes("an unknown frame", vec![0xa2, 0x1f, 0x03, 1, 2, 3]).await?;
    stage.say_bytes("an unknown number", vec![0xa8, 0x1f, 0x01]).await?;
    stage.say_bytes("an empty frame", Vec::new()).await?;
    let run = stage.new_run();
    let trigger = Trigger { source: 77, kind: 77, ..stage.trigger_of(&run, "output fine") };
    let mut trigger = trigger.encode_to_vec();
    // Fields 300 and 301 of the Trigger.
    trigger.extend([0xe2, 0x12, 0x02, 9, 9, 0xe8, 0x12, 0x05]);
    let mut bytes = SessionResponse { frame: None }.encode_to_vec();
    // Field 6 of the frame is a Trigger.
    bytes.push(0x32);
    prost::encode_length_delimiter(trigger.len(), &mut bytes).unwrap_or_default();
    bytes.extend(trigger);
    stage.say_bytes("a Trigger with unknown fields and values", bytes).await?;
    stage.reported(&run, RunOutcome::Succeeded).await?;
    stage.probe().await
}

async fn runs_go_on_without_a_stream(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    stage.start_run(&run, &format!("gate {};output done", gate.display())).await?;
    stage.beat("", |_| true).await?;
    stage.cut()?;
    let hello = stage.hello().await?;
    ensure(hello.runs_in_flight.contains(&run), || "the Hello does not name the run".into())?;
    open(&gate);
    // There is no Welcome yet.
    stage.line(&run, What::End).await?;
    stage.accept().await?;
    stage.reported(&run, RunOutcome::Succeeded).await?;
    let told = stage.lines(&run, What::Cancel).len();
    ensure(told == 0, || "the run was told to stop".into())
}

async fn every_way_to_lose_a_stream_is_the_same(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    stage.start_run(&run, &format!("gate {}", gate.display())).await?;
    for way in ["an end", "a reset", "GOAWAY and an end"] {
        stage.did(format!("the stream is lost by {way}"));
        stage.beat("", |_| true).await?;
        stage.beat("", |_| true).await?;
        match way {
            "an end" => stage.end(None).await?,
            "a reset" => stage.cut()?,
            _ => {
                stage.stream()?.go_away();
                // What is under way goes on.
                let beside = stage.new_run();
                stage.trigger(&beside, "succeed").await?;
                let report = stage.report(&beside).await;
                if report.is_ok() {
                    stage.acknowledge(&beside).await?;
                    stage.beat("", |_| true).await?;
                    stage.end(Some(Code::Unavailable)).await?;
                }
            }
        }
        let hello = stage.attach().await?;
        ensure(hello.worker_id == "w1", || format!("its Hello is of {:?}", hello.worker_id))?;
        ensure(hello.runs_in_flight.contains(&run), || "its Hello does not name the run".into())?;
    }
    open(&gate);
    stage.reported(&run, RunOutcome::Succeeded).await.map(drop)
}

async fn another_identity_ends_all_runs_unreported(stage: &mut Stage) -> Played {
    let (going, reported) = (stage.new_run(), stage.new_run());
    stage.start_run(&going, "sleep 60000").await?;
    stage.trigger(&reported, "succeed").await?;
    stage.report(&reported).await?;
    stage.beat("", |_| true).await?;
    stage.cut()?;
    stage.rename("w2");
    let here = stage.here();
    stage.attach().await?;
    stage.line(&going, What::Cancel).await?;
    stage.probe().await?;
    stage.next_beat_names(&[]).await?;
    let ours = [going, reported];
    let came = stage.frames(here, |frame| match frame {
        Said::RunCompleted(report) => report.run.clone().filter(|run| ours.contains(run)),
        _ => None,
    });
    ensure(came.is_empty(), || format!("{} was reported", frames::name(&came[0].1)))
}

async fn coordinators_are_tried_in_turn(stage: &mut Stage) -> Played {
    let mut present = stage.stream()?.at;
    for _ in 0..5 {
        // Well again: the next loss is the first.
        stage.beat("", |_| true).await?;
        stage.beat("", |_| true).await?;
        let lost = crate::event::now();
        stage.cut()?;
        stage.attach().await?;
        let (next, took) = (stage.stream()?.at, crate::event::now() - lost);
        // On a busy machine an attempt is given up and the one after it is next, but not before its timer is over.
        let given_up = (next + COORDINATORS - present - 1) % COORDINATORS;
        ensure(took >= CONNECT * u32::try_from(given_up).unwrap_or(u32::MAX), || {
            format!("after coordinator {present} it came to {next} within {took:?}")
        })?;
        present = next;
    }
    Ok(())
}

/// The second is named by Welcome alone. All names of this machine are one, so it is one that nobody has: who tries it says so
/// each time.
async fn no_credential_goes_to_a_host_that_welcome_alone_names(stage: &mut Stage) -> Played {
    for _ in 0..3 {
        stage.beat("", |_| true).await?;
        stage.beat("", |_| true).await?;
        stage.cut()?;
        stage.attach().await?;
    }
    stage.says_on_stderr(STRANGER).await?;
    let lines = stage.stderr(STRANGER);
    ensure(lines.len() == 1, || {
        format!("{} lines on standard error are about {STRANGER}: {lines:?}", lines.len())
    })
}
