//! Attempts to attach: how long each may take, and what lies between them.

use std::time::Duration;

use tonic::Code;

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::event::WorkerEvent;
use crate::stage::{Before, CALM, Setting, Stage};

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "pauses",
        setting: CALM,
        attached: false,
        seconds: 9,
        scenes: &[scene!(pauses_double_until_a_heartbeat_is_acknowledged: "LINK-12", "LINK-13", "LINK-11")],
    },
    Group {
        name: "deaf",
        setting: Setting { before: Before::Deaf, ..CALM },
        attached: false,
        seconds: 5,
        scenes: &[scene!(an_attempt_to_connect_is_given_up: "LINK-15")],
    },
    Group {
        name: "nobody",
        setting: Setting { before: Before::Nobody, ..CALM },
        attached: false,
        seconds: 2,
        scenes: &[scene!(where_nobody_listens_the_next_is_asked: "LINK-15")],
    },
    Group {
        name: "unwelcome",
        setting: Setting { coordinators: 2, given: 2, ..CALM },
        attached: false,
        seconds: 5,
        scenes: &[scene!(a_hello_without_welcome_is_given_up: "LINK-16")],
    },
];

/// How long an attempt may take before it is given up, with what a busy machine adds.
const GIVEN_UP: Duration = Duration::from_secs(12);
/// The first pause; each further one is twice as long, cut by up to a half.
const FIRST: Duration = Duration::from_millis(200);

async fn pauses_double_until_a_heartbeat_is_acknowledged(stage: &mut Stage) -> Played {
    stage.hello().await?;
    for (number, after) in [0, 0, 1, 2, 3].into_iter().enumerate() {
        let pause = next_after(stage, Some(Code::Unavailable)).await?;
        // The first loss is followed at once.
        let least = if number == 0 { Duration::ZERO } else { FIRST * (1 << after) / 2 };
        ensure(pause >= least, || {
            format!("attempt {} came after {pause:?}: at least {least:?}", number + 2)
        })?;
    }
    // A Welcome alone does not reset them.
    stage.next_rule();
    stage.acknowledge_heartbeats(false);
    stage.accept().await?;
    stage.beat("", |_| true).await?;
    let pause = next_after(stage, None).await?;
    ensure(pause >= FIRST * 8 / 2, || {
        format!("after a Welcome alone the next attempt came after {pause:?}")
    })?;
    stage.acknowledge_heartbeats(true);
    stage.accept().await?;
    stage.beat("", |_| true).await?;
    stage.beat("", |_| true).await?;
    stage.next_rule();
    let begun = crate::event::now();
    let pause = next_after(stage, None).await?;
    let most = Duration::from_secs(1) + stage.slack(begun);
    ensure(pause < most, || format!("after an acknowledged heartbeat the next attempt came after {pause:?}"))
}

/// Ends the stream; how long it takes until the next is opened.
async fn next_after(stage: &mut Stage, code: Option<Code>) -> Played<Duration> {
    let (from, ended) = (stage.here(), crate::event::now());
    stage.end(code).await?;
    let opened = stage.find(from, "another attempt", |entry| match &entry.event {
        WorkerEvent::Opened(_) => Some(entry.at),
        _ => None,
    });
    let opened = opened.await?;
    stage.hello().await?;
    Ok(opened.saturating_sub(ended))
}

async fn an_attempt_to_connect_is_given_up(stage: &mut Stage) -> Played {
    stage.hello_within(GIVEN_UP).await?;
    stage.accept().await?;
    stage.probe().await
}

async fn where_nobody_listens_the_next_is_asked(stage: &mut Stage) -> Played {
    stage.hello().await?;
    stage.accept().await?;
    stage.probe().await
}

async fn a_hello_without_welcome_is_given_up(stage: &mut Stage) -> Played {
    stage.hello().await?;
    let first = stage.stream()?.at;
    stage.hello_within(GIVEN_UP).await?;
    let second = stage.stream()?.at;
    // The first that answers: a worker that starts slowly may have given one up already.
    ensure(second == (first + 1) % 2, || format!("coordinator {first} was asked, then {second}"))?;
    stage.accept().await?;
    stage.probe().await
}
