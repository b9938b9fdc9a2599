//! The audit's lines in the log: who requested what, of which jobs, and the outcome, in fields that a program can
//! parse. The rows in the history are written elsewhere. No text of a job's file gets here: it may hold secrets.

use rosterd_coordinator::handle::{MachineAction, Operation, Target};
use rosterd_domain::id::JobName;
use rosterd_session::code::Refusal;
use tracing::field::display;

use crate::access::Principal;

/// How many jobs a line names; if there are more it says how many.
const MOST_JOBS: usize = 10;

/// A line: a request, and then its outcome.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AuditLine {
    action: &'static str,
    jobs: String,
    /// Details of the request.
    of: Option<String>,
    dry_run: bool,
}

impl AuditLine {
    /// For these jobs, or for none in particular.
    pub(crate) fn new<'a>(action: &'static str, jobs: impl IntoIterator<Item = &'a JobName>) -> Self {
        let mut jobs = jobs.into_iter();
        let named: Vec<&str> = jobs.by_ref().take(MOST_JOBS).map(JobName::as_str).collect();
        let (mut text, more) = (named.join(","), jobs.count());
        if more > 0 {
            text += &format!(",…(+{more})");
        }
        Self { action, jobs: text, of: None, dry_run: false }
    }

    pub(crate) fn of(self, of: impl Into<String>) -> Self {
        Self { of: Some(of.into()), ..self }
    }

    pub(crate) fn dry(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// As a change of jobs.
    pub(crate) fn change(operation: &Operation) -> Self {
        match operation {
            Operation::Apply { specs, dry_run, .. } => {
                Self::new("apply", specs.iter().map(|spec| &spec.config().job_name)).dry(*dry_run)
            }
            Operation::Trigger { job, items, .. } => {
                let line = Self::new("trigger", [job]);
                match items[..] {
                    [] => line,
                    [item] => line.of(format!("item {item}")),
                    _ => line.of(format!("{} items", items.len())),
                }
            }
            Operation::Pause { job, paused } => Self::new(if *paused { "pause" } else { "resume" }, [job]),
            Operation::Enable { job, target, enabled, cancel } => {
                let line = Self::new(enables(*enabled, *cancel), [job]);
                match target {
                    Target::Job => line,
                    Target::Item(item) => line.of(format!("item {item}")),
                    Target::Machine(machine) => line.of(format!("machine {machine}")),
                    Target::Instance(instance) => line.of(format!("instance {instance}")),
                }
            }
            Operation::Remove { job, cancel } => {
                Self::new(if *cancel { "remove_and_cancel" } else { "remove" }, [job])
            }
            Operation::Cancel { job, item } => Self::new("cancel", [job]).of(format!("item {item}")),
            Operation::Drain { instance, .. } => Self::new("drain", []).of(format!("instance {instance}")),
            Operation::Shutdown { job, instance } => {
                Self::new("shutdown", [job]).of(format!("instance {instance}"))
            }
            Operation::Machine { machine, jobs, action } => {
                let action = match action {
                    MachineAction::Enable { enabled, cancel } => enables(*enabled, *cancel),
                    MachineAction::Shutdown => "shutdown",
                    MachineAction::Remove => "remove_machine",
                };
                Self::new(action, jobs).of(format!("machine {machine}"))
            }
        }
    }

    /// Writes the line, once the outcome is known.
    pub(crate) fn log(&self, who: Option<&Principal>, refused: Option<&Refusal>) {
        let principal = who.map_or("anonymous", |who| &*who.name);
        let jobs = (!self.jobs.is_empty()).then(|| display(&self.jobs));
        tracing::info!(
            target: "rosterd::audit",
            action = %self.action,
            jobs,
            of = self.of.as_deref(),
            dry_run = self.dry_run.then_some(true),
            principal,
            result = %refused.map_or("ok", |_| "refused"),
            code = refused.map(|refusal| display(refusal.code)),
            "audit"
        );
    }
}

fn enables(enabled: bool, cancel: bool) -> &'static str {
    match (enabled, cancel) {
        (true, _) => "enable",
        (false, false) => "disable",
        (false, true) => "disable_and_cancel",
    }
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{InstanceId, Item, ServerAddress};

    use super::*;

    fn job(name: &str) -> JobName {
        JobName::new(name).unwrap()
    }

    fn line_of(operation: &Operation) -> (&'static str, String, Option<String>) {
        let line = AuditLine::change(operation);
        (line.action, line.jobs, line.of)
    }

    #[test]
    fn a_change_is_logged_in_words_of_the_protocol() {
        let machine = ServerAddress::new("10.0.0.7").unwrap();
        let instance = InstanceId::new("10.0.0.7@-@w").unwrap();
        let of = |what: &str| Some(what.to_owned());
        let target = Target::Machine(machine.clone());
        for (operation, expected) in [
            (Operation::Pause { job: job("a"), paused: true }, ("pause", "a", None)),
            (Operation::Pause { job: job("a"), paused: false }, ("resume", "a", None)),
            (Operation::Cancel { job: job("a"), item: Item(3) }, ("cancel", "a", of("item 3"))),
            (
                Operation::Trigger { job: job("a"), items: vec![Item(1), Item(2)], after_current: false },
                ("trigger", "a", of("2 items")),
            ),
            (
                Operation::Enable { job: job("a"), target, enabled: false, cancel: true },
                ("disable_and_cancel", "a", of("machine 10.0.0.7")),
            ),
            (Operation::Remove { job: job("a"), cancel: false }, ("remove", "a", None)),
            (
                Operation::Drain { instance: instance.clone(), grace: std::time::Duration::ZERO },
                ("drain", "", of("instance 10.0.0.7@-@w")),
            ),
            (Operation::Shutdown { job: job("a"), instance }, ("shutdown", "a", of("instance 10.0.0.7@-@w"))),
            (
                Operation::Machine { machine, jobs: vec![job("a"), job("b")], action: MachineAction::Remove },
                ("remove_machine", "a,b", of("machine 10.0.0.7")),
            ),
        ] {
            let (action, jobs, of) = expected;
            assert_eq!(line_of(&operation), (action, jobs.to_owned(), of), "{operation:?}");
        }
    }

    #[test]
    fn a_line_names_some_jobs_and_counts_the_rest() {
        let file: String = (0..13)
            .map(|n| format!("---\njobName: j{n:02}\nshardingTotalCount: 1\njobParameter: secret\n"))
            .collect();
        let (action, jobs, of) = line_of(&Operation::apply(&file, true).unwrap());
        assert_eq!((action, of), ("apply", None));
        assert_eq!(jobs, "j00,j01,j02,j03,j04,j05,j06,j07,j08,j09,…(+3)");
    }
}
