//! Every gRPC status, before any Welcome and after one.

use std::time::Duration;

use tonic::Code;

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::stage::{CALM, PATIENCE, Setting, Stage};

const QUICK: Setting = Setting { interval: Duration::from_millis(100), ..CALM };
const TWO: Setting = Setting { coordinators: 2, given: 2, ..QUICK };

const fn group(name: &'static str, setting: Setting, scenes: &'static [super::Scene]) -> Group {
    Group { name, setting, attached: false, seconds: 3, scenes }
}

pub(super) const GROUPS: &[Group] = &[
    group("unauthenticated", CALM, &[scene!(unauthenticated_is_final: "LINK-19")]),
    group("permission-denied", CALM, &[scene!(permission_denied_is_final: "LINK-19")]),
    group("invalid-argument", CALM, &[scene!(invalid_argument_is_final: "LINK-19")]),
    group("not-found", CALM, &[scene!(not_found_is_final: "LINK-19")]),
    group("unimplemented", CALM, &[scene!(unimplemented_is_final: "LINK-19")]),
    group("passing-1", CALM, &[scene!(these_are_tried_again: "LINK-20")]),
    group("passing-2", CALM, &[scene!(those_are_tried_again: "LINK-20")]),
    group("passing-3", CALM, &[scene!(the_others_are_tried_again: "LINK-20")]),
    group(
        "one-of-two",
        TWO,
        &[scene!(a_final_status_of_one_coordinator_is_not_the_end: "LINK-19", "LINK-20")],
    ),
    Group {
        name: "after-welcome",
        setting: QUICK,
        attached: true,
        seconds: 10,
        scenes: &[scene!(after_a_welcome_every_status_is_tried_again: "LINK-21")],
    },
];

async fn unauthenticated_is_final(stage: &mut Stage) -> Played {
    is_final(stage, Code::Unauthenticated).await
}

async fn permission_denied_is_final(stage: &mut Stage) -> Played {
    is_final(stage, Code::PermissionDenied).await
}

async fn invalid_argument_is_final(stage: &mut Stage) -> Played {
    is_final(stage, Code::InvalidArgument).await
}

async fn not_found_is_final(stage: &mut Stage) -> Played {
    is_final(stage, Code::NotFound).await
}

async fn unimplemented_is_final(stage: &mut Stage) -> Played {
    is_final(stage, Code::Unimplemented).await
}

async fn is_final(stage: &mut Stage, code: Code) -> Played {
    stage.hello().await?;
    stage.end(Some(code)).await?;
    let exit = stage.exits(PATIENCE).await?;
    ensure(exit.is_some_and(|exit| exit != 0), || format!("its exit code is {exit:?} after {code:?}"))
}

async fn these_are_tried_again(stage: &mut Stage) -> Played {
    all_are_passing(stage, &[Some(Code::Cancelled), Some(Code::Unknown), Some(Code::DeadlineExceeded), None])
        .await
}

async fn those_are_tried_again(stage: &mut Stage) -> Played {
    let codes = [Code::AlreadyExists, Code::ResourceExhausted, Code::FailedPrecondition, Code::Aborted];
    all_are_passing(stage, &codes.map(Some)).await
}

async fn the_others_are_tried_again(stage: &mut Stage) -> Played {
    let codes = [Code::OutOfRange, Code::Internal, Code::Unavailable, Code::DataLoss];
    all_are_passing(stage, &codes.map(Some)).await
}

async fn all_are_passing(stage: &mut Stage, codes: &[Option<Code>]) -> Played {
    for code in codes {
        stage.hello().await?;
        stage.end(*code).await?;
    }
    stage.attach().await?;
    stage.probe().await
}

/// All coordinators in a row must say so; any other loss resets the count.
async fn a_final_status_of_one_coordinator_is_not_the_end(stage: &mut Stage) -> Played {
    for code in [Code::Unauthenticated, Code::Unavailable, Code::PermissionDenied] {
        stage.hello().await?;
        stage.end(Some(code)).await?;
    }
    stage.attach().await?;
    stage.probe().await
}

async fn after_a_welcome_every_status_is_tried_again(stage: &mut Stage) -> Played {
    for number in 1..=16 {
        stage.beat("", |_| true).await?;
        stage.beat("", |_| true).await?;
        stage.end(Some(Code::from_i32(number))).await?;
        let hello = stage.attach().await?;
        ensure(hello.worker_id == "w1", || format!("its Hello is of {:?}", hello.worker_id))?;
    }
    // Nor is one before the next Welcome the end, once there was one.
    stage.beat("", |_| true).await?;
    stage.end(Some(Code::Unavailable)).await?;
    for code in [Code::Unauthenticated, Code::NotFound, Code::Unimplemented] {
        stage.hello().await?;
        stage.end(Some(code)).await?;
    }
    stage.attach().await.map(drop)
}
