//! Jobs that are shut down here, and a worker that has none left.

use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::{RunOutcome, RunRef};

use super::runs::open;
use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::stage::{CALM, PATIENCE, Setting, Stage};

const A: &str = "conformance";
const B: &str = "conformance-b";

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "shutdown",
        setting: Setting { jobs: &[A, B], ..CALM },
        attached: true,
        seconds: 4,
        scenes: &[scene!(a_job_is_shut_down_then_the_last_one: "JOB-4", "JOB-5", "RUN-8", "JOB-6")],
    },
    Group {
        name: "all-refused",
        setting: CALM,
        attached: false,
        seconds: 2,
        scenes: &[scene!(without_a_job_it_leaves_and_says_why: "JOB-3")],
    },
    Group {
        name: "all-shut-down",
        setting: CALM,
        attached: true,
        seconds: 2,
        scenes: &[scene!(a_worker_is_shut_down: "JOB-6", "LEAVE-1")],
    },
];

async fn unregisters(stage: &mut Stage) -> Played {
    stage
        .frame(0, &format!("Unregister of {B}"), |frame| match frame {
            Said::Unregister(unregister) => (unregister.job == B).then_some(()),
            _ => None,
        })
        .await
}

async fn a_job_is_shut_down_then_the_last_one(stage: &mut Stage) -> Played {
    let (run, gate) = (RunRef { job: B.into(), ..stage.new_run() }, stage.file());
    stage.start_run(&run, &format!("gate {}", gate.display())).await?;
    stage.say(frames::shutdown(B)).await?;
    unregisters(stage).await?;
    stage.beat("", |_| true).await?;
    stage.beat("", |_| true).await?;
    stage.cut()?;
    let hello = stage.hello().await?;
    ensure(!hello.jobs.contains(&B.to_owned()), || format!("the next Hello says jobs {:?}", hello.jobs))?;
    stage.welcome().await?;
    unregisters(stage).await?;
    stage
        .frame(0, &format!("Register of {A}"), |frame| match frame {
            Said::Register(register) => (register.job == A).then_some(()),
            _ => None,
        })
        .await?;
    stage.register(A).await?;
    stage.probe().await?;
    let again = stage.frames(0, |frame| match frame {
        Said::Register(register) => (register.job == B).then_some(()),
        _ => None,
    });
    ensure(again.is_empty(), || "it is registered again".into())?;
    stage.next_rule();
    open(&gate);
    stage.reported(&run, RunOutcome::Succeeded).await?;
    stage.next_rule();
    let another = RunRef { job: B.into(), ..stage.new_run() };
    stage.is_not_started(&another, "succeed").await?;
    stage.next_rule();
    stage.say(frames::shutdown(A)).await?;
    stage.farewell().await?;
    let code = stage.exits(PATIENCE).await?;
    ensure(code == Some(0), || format!("its exit code is {code:?}"))
}

async fn without_a_job_it_leaves_and_says_why(stage: &mut Stage) -> Played {
    stage.hello().await?;
    stage.welcome().await?;
    stage.registers().await?;
    stage.say(frames::refused(A)).await?;
    stage.farewell().await?;
    let code = stage.exits(PATIENCE).await?;
    ensure(code.is_some_and(|code| code != 0), || format!("its exit code is {code:?}"))?;
    let said = stage.stderr("JOB_UNKNOWN").len();
    ensure(said > 0, || "it does not say on standard error why".into())
}

async fn a_worker_is_shut_down(stage: &mut Stage) -> Played {
    stage.say(frames::shutdown("")).await?;
    stage.farewell().await?;
    let code = stage.exits(PATIENCE).await?;
    ensure(code == Some(0), || format!("its exit code is {code:?}"))
}
