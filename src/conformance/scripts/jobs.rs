//! Jobs: registered, refused, and offered again.

use std::time::Duration;

use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{Assignment, ConfigDifference, Registered, RunOutcome, RunRef, Trigger};

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::event::now;
use crate::stage::{CALM, Setting, Stage};

const A: &str = "conformance";
const B: &str = "conformance-b";
const TWO: Setting = Setting { jobs: &[A, B], ..CALM };
const FLOW: Setting = Setting { jobs: &["dataflow-conformance"], ..CALM };

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "jobs",
        setting: TWO,
        attached: true,
        seconds: 4,
        scenes: &[
            scene!(items_of_two_jobs_have_nothing_to_do_with_each_other: "RUN-30"),
            scene!(what_is_said_of_other_jobs_is_ignored: "JOB-7"),
            scene!(a_config_that_has_no_effect_is_warned_of_once: "JOB-10"),
        ],
    },
    Group {
        name: "refused",
        setting: TWO,
        attached: false,
        seconds: 36,
        scenes: &[scene!(a_refused_job_is_offered_again: "LINK-7", "JOB-2", "RUN-8", "JOB-11", "JOB-1")],
    },
    Group {
        name: "dataflow",
        setting: FLOW,
        attached: true,
        seconds: 3,
        scenes: &[scene!(a_dataflow_job_fetches_until_nothing_is_left: "RUN-31")],
    },
];

async fn items_of_two_jobs_have_nothing_to_do_with_each_other(stage: &mut Stage) -> Played {
    let low = stage.new_run();
    let high = stage.later(&low);
    stage.start_run(&high, "sleep 60000").await?;
    let other = RunRef { job: B.into(), ..low };
    stage.trigger(&other, "succeed").await?;
    stage.reported(&other, RunOutcome::Succeeded).await?;
    let told = stage.lines(&high, What::Cancel).len();
    ensure(told == 0, || "the run of the first job was told to stop".into())?;
    stage.say(frames::cancel(&high, rosterd_wire::proto::v1::CancelReason::Operator)).await?;
    stage.reported(&high, RunOutcome::Cancelled).await.map(drop)
}

async fn what_is_said_of_other_jobs_is_ignored(stage: &mut Stage) -> Played {
    stage.register("nobody").await?;
    stage.say(frames::refused("nobody")).await?;
    stage.say(frames::shutdown("nobody")).await?;
    stage.say(Frame::Assignment(Assignment { job: "nobody".into(), ..Assignment::default() })).await?;
    stage.probe().await?;
    let run = RunRef { job: B.into(), ..stage.new_run() };
    stage.trigger(&run, "succeed").await?;
    stage.reported(&run, RunOutcome::Succeeded).await.map(drop)
}

async fn a_config_that_has_no_effect_is_warned_of_once(stage: &mut Stage) -> Played {
    let difference = ConfigDifference {
        field: "misfire".into(),
        stored: Some("stored-47".into()),
        offered: Some("offered-11".into()),
    };
    let registered = Registered {
        job: A.into(),
        sharding_total_count: frames::ITEMS,
        config_differences: vec![difference],
        ..Registered::default()
    };
    stage.say(Frame::Registered(registered.clone())).await?;
    stage.says_on_stderr("stored-47").await?;
    stage.say(Frame::Registered(registered)).await?;
    stage.probe().await?;
    stage.beat("", |_| true).await?;
    let lines = stage.stderr("stored-47");
    ensure(lines.len() == 1, || format!("it is warned of {} times", lines.len()))?;
    let wanted = ["misfire", "offered-11", "overwrite", "rosterd jobs apply"];
    let missing: Vec<&str> = wanted.into_iter().filter(|word| !lines[0].contains(word)).collect();
    ensure(missing.is_empty(), || format!("the warning does not name {missing:?}: {}", lines[0]))
}

async fn a_refused_job_is_offered_again(stage: &mut Stage) -> Played {
    stage.hello().await?;
    stage.welcome().await?;
    stage.registers().await?;
    stage.register(A).await?;
    stage.say(frames::refused(B)).await?;
    stage.probe().await?;
    stage.beat("", |_| true).await?;
    stage.cut()?;
    let hello = stage.hello().await?;
    ensure(hello.jobs == [A] && hello.jobs_asked == [B], || {
        format!("the next Hello says jobs {:?} and jobs_asked {:?}", hello.jobs, hello.jobs_asked)
    })?;
    stage.next_rule();
    stage.welcome().await?;
    stage.registers().await?;
    stage.register(A).await?;
    let refused = now();
    stage.say(frames::refused(B)).await?;
    stage.next_rule();
    let run = RunRef { job: B.into(), ..stage.new_run() };
    stage.is_not_started(&run, "succeed").await?;
    stage.probe().await?;
    stage.next_rule();
    stage.says_on_stderr("JOB_UNKNOWN").await?;
    let lines = stage.stderr("JOB_UNKNOWN");
    ensure(lines.len() == 1, || format!("the refusal is logged {} times", lines.len()))?;
    stage.next_rule();
    let from = stage.here();
    let offered =
        stage.find_within(Duration::from_secs(45), from, "the second Register of the job", |entry| {
            match &entry.event {
                crate::event::WorkerEvent::Frame(_, Some(Said::Register(register))) if register.job == B => {
                    Some(entry.at)
                }
                _ => None,
            }
        });
    let after = offered.await?.saturating_sub(refused);
    ensure(after >= Duration::from_secs(25), || {
        format!("it is offered again after {after:?}: 30 s are asked for")
    })?;
    stage.register(B).await?;
    let run = RunRef { job: B.into(), ..stage.new_run() };
    stage.trigger(&run, "succeed").await?;
    stage.reported(&run, RunOutcome::Succeeded).await?;
    let left = stage.frames(0, |frame| matches!(frame, Said::DrainRequest(_)).then_some(()));
    ensure(left.is_empty(), || "it leaves, although one job is in service".into())
}

async fn a_dataflow_job_fetches_until_nothing_is_left(stage: &mut Stage) -> Played {
    for (streaming, wanted) in [(true, 3), (false, 1)] {
        let run = stage.new_run();
        let trigger = Trigger { streaming, ..stage.trigger_of(&run, "batches 3") };
        stage.say(Frame::Trigger(trigger)).await?;
        let report = stage.reported(&run, RunOutcome::Succeeded).await?;
        ensure(report.processed == wanted, || {
            format!("{} batches of 3 were processed, streaming is {streaming}", report.processed)
        })?;
    }
    Ok(())
}
