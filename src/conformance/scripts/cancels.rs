//! How a run is told to stop, and what is reported of it.

use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::{CancelReason, RunOutcome};

use super::runs::open;
use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::stage::{CALM, Stage};

pub(super) const GROUPS: &[Group] = &[Group {
    name: "cancels",
    setting: CALM,
    attached: true,
    seconds: 10,
    scenes: &[
        scene!(each_reason_has_its_outcome: "RUN-23"),
        scene!(a_stopped_run_has_not_succeeded_whatever_it_returns: "RUN-23"),
        scene!(a_reason_that_is_not_known_is_an_operators: "RUN-33"),
        scene!(the_first_reason_is_reported_and_a_fence_outweighs: "RUN-21"),
        scene!(a_cancel_of_what_does_not_run_changes_nothing: "RUN-25"),
        scene!(user_code_is_told_once: "RUN-22"),
    ],
}];

async fn each_reason_has_its_outcome(stage: &mut Stage) -> Played {
    let pairs = [
        (CancelReason::Operator, RunOutcome::Cancelled),
        (CancelReason::TimedOut, RunOutcome::TimedOut),
        (CancelReason::Fenced, RunOutcome::Aborted),
    ];
    for (reason, outcome) in pairs {
        for steps in ["sleep 60000", "busy 60000"] {
            let run = stage.new_run();
            stage.start_run(&run, steps).await?;
            stage.say(frames::cancel(&run, reason)).await?;
            stage.line(&run, What::Cancel).await?;
            stage.reported(&run, outcome).await?;
        }
    }
    Ok(())
}

async fn a_stopped_run_has_not_succeeded_whatever_it_returns(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "ignore 500;output all is well").await?;
    stage.say(frames::cancel(&run, CancelReason::Operator)).await?;
    stage.reported(&run, RunOutcome::Cancelled).await.map(drop)
}

async fn a_reason_that_is_not_known_is_an_operators(stage: &mut Stage) -> Played {
    for reason in [0, 4, 99] {
        let run = stage.new_run();
        stage.start_run(&run, "sleep 60000").await?;
        stage.say(frames::cancel_by_number(&run, reason)).await?;
        stage.reported(&run, RunOutcome::Cancelled).await?;
    }
    Ok(())
}

async fn the_first_reason_is_reported_and_a_fence_outweighs(stage: &mut Stage) -> Played {
    let both = [
        ([CancelReason::Operator, CancelReason::TimedOut], RunOutcome::Cancelled),
        ([CancelReason::TimedOut, CancelReason::Operator], RunOutcome::TimedOut),
        ([CancelReason::Operator, CancelReason::Fenced], RunOutcome::Aborted),
        ([CancelReason::Fenced, CancelReason::Operator], RunOutcome::Aborted),
    ];
    for (reasons, outcome) in both {
        let run = stage.new_run();
        stage.start_run(&run, "ignore 500").await?;
        for reason in reasons {
            stage.say(frames::cancel(&run, reason)).await?;
        }
        stage.reported(&run, outcome).await?;
    }
    Ok(())
}

async fn a_cancel_of_what_does_not_run_changes_nothing(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    stage.start_run(&run, &format!("gate {}", gate.display())).await?;
    let reported = stage.new_run();
    stage.trigger(&reported, "succeed").await?;
    stage.report(&reported).await?;
    let (other, unknown) = (stage.later(&run), stage.new_run());
    for nothing in [&other, &unknown, &reported] {
        stage.say(frames::cancel(nothing, CancelReason::Operator)).await?;
    }
    stage.probe().await?;
    let told = stage.lines(&run, What::Cancel).len();
    ensure(told == 0, || "another run of the item was told to stop".into())?;
    open(&gate);
    stage.reported(&run, RunOutcome::Succeeded).await?;
    stage.acknowledge(&reported).await
}

async fn user_code_is_told_once(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "sleep 60000").await?;
    for _ in 0..3 {
        stage.say(frames::cancel(&run, CancelReason::Operator)).await?;
    }
    stage.reported(&run, RunOutcome::Cancelled).await?;
    stage.probe().await?;
    let told = stage.lines(&run, What::Cancel).len();
    ensure(told == 1, || format!("user code was told {told} times"))
}
