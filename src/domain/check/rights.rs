//! Who may get what: every start is for an enabled item, on its owner (or the taker of a crashed run), which is ready
//! and enabled, within the rules, and guarded; and there is no guard that nothing needs.

use super::Case;
use crate::id::Item;
use crate::item::{Outcome, Running, Source, State};
use crate::plan::{Entry, Hosted, Reported};
use crate::snapshot::Stage;
use crate::txn::Guard;

pub(super) fn check(case: &mut Case<'_>) {
    let plan = case.plan;
    let name = || case.job.name.clone();
    let mut needed = vec![Guard::Incarnation(name(), case.job.incarnation.clone())];
    let (generation, mut rests_on_rights) = (Guard::Generation(name(), case.job.generation), false);
    for entry in &plan.entries {
        match entry {
            Entry::Started { item, run, .. } => {
                rests_on_rights = true;
                if let Some(hosted) = case.facts.hosted.get(&run.instance) {
                    needed.push(Guard::Attachment(run.worker.clone(), hosted.attachment));
                }
                started(case, *item, run);
            }
            Entry::Ended { item, token, run, outcome, requeued, .. } => {
                if case.facts.dead.contains(&run.worker) {
                    needed.push(Guard::NoAttachment(run.worker.clone()));
                }
                let report = case.report_of(*item, *token, run).map(|report| report.ended);
                if let Some(attachment) = report.and_then(Reported::spoken_for) {
                    needed.push(Guard::Attachment(run.worker.clone(), attachment));
                }
                if case.is_taken_away(*item, *token, run, *outcome)
                    && let Some(hosted) = case.facts.hosted.get(&run.instance)
                {
                    needed.push(Guard::Attachment(run.worker.clone(), hosted.attachment));
                }
                let handed_back = *outcome == Outcome::Cancelled
                    && matches!(report, Some(Reported::HandedBack | Reported::HandedBackByHost(_)));
                // That it is not run again depends on the job's failover setting.
                rests_on_rights |= !requeued && (*outcome == Outcome::Crashed || handed_back);
            }
            Entry::NotRun { item, .. } => {
                rests_on_rights = true;
                let responsible = case.accounts_for(*item) && !case.facts.no_starts;
                case.expect(responsible, *item, || "its scheduled times are another's to account for".into());
            }
        }
    }
    for item in case.items() {
        if let (Some((version, _)), Some(_)) = (case.before.get(&item), case.goes_on(item)) {
            needed.push(Guard::Record(name(), item, *version));
        }
    }
    for item in plan.records.keys() {
        rests_on_rights |= silent_change(case, *item);
    }
    if rests_on_rights {
        case.expect(case.has(&generation), None, || "the generation is not guarded".into());
        needed.push(generation);
    }
    for guard in &plan.txn.guards {
        case.expect(needed.contains(guard), None, || format!("nothing needs the guard {guard:?}"));
    }
    for guard in needed.iter().filter(|guard| matches!(guard, Guard::Attachment(..) | Guard::Record(..))) {
        case.expect(case.has(guard), None, || format!("{guard:?} is missing"));
    }
}

/// Whether the item's crashed run was given up, or its last fire set back.
fn silent_change(case: &Case<'_>, item: Item) -> bool {
    let (Some((_, before)), Some(after)) = (case.before.get(&item), case.written(item)) else { return false };
    let given_up = before.crashed().is_some() && after.crashed().is_none() && after.token == before.token;
    given_up || after.last_fire < before.last_fire
}

fn started(case: &mut Case<'_>, item: Item, run: &Running) {
    let (job, facts) = (case.job, case.facts);
    case.expect(!facts.no_starts && run.since == facts.now, item, || "it starts while nothing may".into());
    let hosted: Option<&Hosted> = facts.hosted.get(&run.instance);
    let able = hosted.is_some_and(|h| h.ready && h.worker == run.worker && !facts.dead.contains(&h.worker));
    case.expect(able, item, || format!("{} takes no runs", run.instance));
    case.expect(job.is_enabled(&run.instance), item, || format!("{} is disabled", run.instance));
    case.expect(item.0 < job.rules.items && !case.disabled(item), item, || "it gets no runs".into());
    case.expect(!case.in_user_code(item), item, || "it is in user code".into());
    let owned = job.sharding.owner(item) == Some(&run.instance);
    let scheduled = owned && !job.paused;
    let marked = case.before.get(&item).and_then(|(_, record)| record.misfire);
    let right = match run.source {
        Source::Failover => job.rules.failover,
        Source::Manual => {
            owned
                && job
                    .triggers
                    .get(&item)
                    .is_some_and(|t| Some(&t.id) == run.trigger.as_ref() && t.at == run.fire)
        }
        Source::Misfire => scheduled && (marked.is_some() || job.rules.misfire || job.rules.run_late),
        Source::NormalTrigger => {
            let in_time = run.fire <= facts.now && facts.now <= run.fire.plus(job.rules.catch_up);
            scheduled && in_time && job.sharding.gap_of(item, run.fire).is_none()
        }
    };
    case.expect(right, item, || format!("there is no right to run {} of {}", run.source, run.fire));
    case.expect(run.trigger.is_none() || run.source == Source::Manual, item, || "a trigger is named".into());
    // Which run a taker continues: the one that this plan ends, or the last.
    let before = case.before.get(&item).map(|(_, record)| record);
    let was_held = before.is_some_and(|record| match &record.state {
        State::Idle => false,
        State::Running(run) => run.held,
        State::Crashed(crashed) => crashed.held,
    });
    let unheard_of = match job.announced(Stage::Started) {
        Some(known) if known.fire >= run.fire => known.fire == run.fire && !known.answered,
        _ => true,
    };
    let first =
        run.source == Source::NormalTrigger || (run.source == Source::Failover && was_held && unheard_of);
    let held = job.rules.guarantee_started && job.rules.monitor && first;
    case.expect(run.held == held, item, || format!("held is {}", run.held));
}
