//! Much at once: of Triggers, of Assignments, of reports that nobody acknowledges.

use std::collections::BTreeSet;
use std::time::Duration;

use rosterd_domain::verify::{Line, What};
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{Assignment, RunOutcome, RunRef};

use super::{Group, scene};
use crate::broken::{Broken, Played, ensure};
use crate::coordinator::frames;
use crate::event::{WorkerEvent, now};
use crate::stage::{CALM, Setting, Stage};

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "flood",
        setting: CALM,
        attached: true,
        seconds: 8,
        scenes: &[
            scene!(of_thousands_of_triggers_only_the_slots_run: "RUN-28", "LINK-25"),
            scene!(thousands_of_assignments_do_no_harm: "JOB-12"),
        ],
    },
    Group {
        name: "memory",
        setting: Setting { slots: 64, credits: 10, ..CALM },
        attached: true,
        seconds: 12,
        scenes: &[scene!(a_thousand_unacknowledged_reports_take_bounded_memory: "REPORT-14")],
    },
];

const TRIGGERS: usize = 3_000;
const ASSIGNMENTS: u64 = 3_000;
const REPORTS: usize = 1_000;
/// As many at a time; there are more slots.
const WAVE: usize = 16;
/// What a thousand reports may take beside what the process had with a hundred of them.
const ROOM: u64 = 48 << 20;
/// How long all of it may take on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

async fn of_thousands_of_triggers_only_the_slots_run(stage: &mut Stage) -> Played {
    let here = stage.here();
    let runs: Vec<RunRef> = (0..TRIGGERS).map(|_| stage.new_run()).collect();
    for run in &runs {
        stage.trigger(run, "sleep 50").await?;
    }
    let answered = collect(stage, here, TRIGGERS).await?;
    let wanted: BTreeSet<u64> = runs.iter().map(|run| run.token).collect();
    ensure(answered == wanted, || {
        format!("{} of {TRIGGERS} Triggers were answered", answered.intersection(&wanted).count())
    })?;
    let most = most_at_once(stage, here);
    let slots = stage.setting.slots as usize;
    ensure((1..=slots).contains(&most), || {
        format!("{most} runs were in user code at once, of {slots} slots")
    })?;
    stage.next_rule();
    stage.next_beat_names(&[]).await?;
    stage.probe().await
}

/// Acknowledges reports as they come, until those of so many runs are there.
async fn collect(stage: &mut Stage, from: usize, wanted: usize) -> Played<BTreeSet<u64>> {
    let (until, mut at) = (now() + LONG, from);
    let mut tokens = BTreeSet::new();
    while tokens.len() < wanted {
        let end = stage.here();
        let came = stage.frames(at, |frame| match frame {
            Said::RunCompleted(report) => report.run.clone(),
            _ => None,
        });
        // What has come meanwhile is looked at with the next.
        at = end;
        for (_, run) in came {
            if tokens.insert(run.token) {
                stage.acknowledge(&run).await?;
            }
        }
        if now() > until || stage.is_over() {
            return Err(Broken(format!(
                "reports of {} runs came, of {wanted}, within {LONG:?}",
                tokens.len()
            )));
        }
        stage.pass(Duration::from_millis(10)).await;
    }
    Ok(tokens)
}

/// How many runs were in user code at the same time.
fn most_at_once(stage: &mut Stage, from: usize) -> usize {
    let mut lines: Vec<Line> = stage.all(from, |entry| match &entry.event {
        WorkerEvent::Line(line) if matches!(line.what, What::Start | What::End | What::Cancel) => {
            Some(line.clone())
        }
        _ => None,
    });
    // An end counts before a beginning of the same instant.
    lines.sort_by_key(|line| (line.at, line.what == What::Start));
    let (mut most, mut at_once) = (0, BTreeSet::new());
    for line in lines {
        if line.what == What::Start {
            at_once.insert(line.token);
            most = most.max(at_once.len());
        } else {
            at_once.remove(&line.token);
        }
    }
    most
}

async fn thousands_of_assignments_do_no_harm(stage: &mut Stage) -> Played {
    for generation in 1..=ASSIGNMENTS {
        let props = [("round".to_owned(), generation.to_string())].into();
        stage
            .say(Frame::Assignment(Assignment {
                job: stage.setting.jobs[0].into(),
                items: (0..200).collect(),
                generation,
                sharding_total_count: frames::ITEMS,
                props,
            }))
            .await?;
    }
    stage.probe().await?;
    stage.next_beat_names(&[]).await
}

async fn a_thousand_unacknowledged_reports_take_bounded_memory(stage: &mut Stage) -> Played {
    let steps = format!("output {}", "x".repeat(200));
    let here = stage.here();
    let mut early = None;
    let mut runs = Vec::new();
    while runs.len() < REPORTS {
        let wave: Vec<RunRef> = (0..WAVE.min(REPORTS - runs.len())).map(|_| stage.new_run()).collect();
        for run in &wave {
            stage.trigger(run, &steps).await?;
        }
        for run in &wave {
            stage.over(run).await?;
        }
        runs.extend(wave);
        if runs.len() >= REPORTS / 10 && early.is_none() {
            early = Some(stage.memory());
        }
    }
    let named = stage.beat("that names all of them", |beat| beat.runs_in_flight.len() == REPORTS).await?;
    let late = stage.memory();
    let answered = collect(stage, here, REPORTS).await?;
    ensure(
        runs.iter().all(|run| answered.contains(&run.token) && named.runs_in_flight.contains(run)),
        || "reports of other runs came".into(),
    )?;
    let succeeded = stage.frames(here, |frame| match frame {
        Said::RunCompleted(report) => (report.outcome() == RunOutcome::Succeeded).then_some(()),
        _ => None,
    });
    ensure(succeeded.len() * 10 >= REPORTS * 9, || {
        format!("{} of {REPORTS} runs succeeded", succeeded.len())
    })?;
    let (Some(early), Some(late)) = (early.flatten(), late) else { return Ok(()) };
    let mib = |bytes: u64| bytes >> 20;
    ensure(late <= early + early / 2 + ROOM, || {
        format!("{} MiB with {REPORTS} reports, {} MiB with a tenth of them", mib(late), mib(early))
    })
}
