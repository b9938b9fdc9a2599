//! Lines of a world's trace: the changes of a transaction, and the contents of a frame.

use rosterd_domain::txn::{Txn, Write};
use rosterd_session::frame::ToWorker;

use crate::oracle::observer::{RecordChange, job_of};

/// An applied transaction; `None`: the session's ephemerals ended.
pub fn describe(session: &str, txn: Option<&Txn>, changes: &[RecordChange]) -> String {
    let Some(txn) = txn else { return format!("{session}: its session ended") };
    let job = job_of(txn).map(|job| format!(" {job}")).unwrap_or_default();
    let mut line = format!("{session}: {}{job}", txn.purpose);
    for write in &txn.writes {
        if let Write::Attachment { worker, node, .. } = write {
            line += &format!(" {worker}@{} stream {} draining {}", node.host, node.stream, node.draining);
        }
        if let Write::RemoveAttachment { worker, .. } = write {
            line += &format!(" {worker}");
        }
    }
    for change in changes {
        line += &format!(" [{}", change.item);
        if let Some((run, ended)) = &change.ended {
            line += &format!(" end {} {} of {}", ended.token, ended.outcome, run.instance);
        }
        if let Some((run, token)) = &change.started {
            line += &format!(" {} {token} of {} on {}", run.source, run.fire, run.instance);
        }
        if change.after.misfire != change.before.as_ref().and_then(|before| before.misfire) {
            line += &format!(" misfire {:?}", change.after.misfire);
        }
        if change.after.crashed().is_some() {
            line += " crashed";
        }
        line += &format!(" last {}]", change.after.last_fire);
    }
    line
}

/// A frame for a worker.
pub fn brief(frame: &ToWorker) -> String {
    match frame {
        ToWorker::Trigger(trigger) => {
            format!("trigger {}[{}]#{}", trigger.run.job, trigger.run.item, trigger.run.token)
        }
        ToWorker::Welcome(welcome) => format!("welcome {}", welcome.instance),
        ToWorker::ReportAck { run, refusal } => {
            let how = refusal.as_ref().map_or("accepted", |refusal| refusal.code.as_str());
            format!("report {}[{}]#{} {how}", run.job, run.item, run.token)
        }
        other => {
            let mut text = format!("{other:?}");
            text.truncate(160);
            text
        }
    }
}
