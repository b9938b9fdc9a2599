//! The content of one message: alarms that were raised and resolved.

use rosterd_domain::id::JobName;
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::kind::{AlarmKind, Severity};

/// An alarm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alarm {
    /// The same on every coordinator and after every restart: the rule, and the job or the coordinator.
    pub key: String,
    #[allow(missing_docs)]
    pub alarm: AlarmKind,
    /// The name of its rule.
    pub rule: String,
    #[allow(missing_docs)]
    pub severity: Severity,
    /// The job that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job_name: Option<JobName>,
    /// What is wrong; of a resolved one: what was.
    pub text: String,
    /// Since when that has been seen.
    pub since: Time,
    /// When it was raised.
    pub raised_at: Time,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resolved_at: Option<Time>,
    /// Names of the receivers; empty: all that are configured.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub receivers: Vec<String>,
}

/// One message to one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Somebody tries whether messages come.
    pub test: bool,
    #[allow(missing_docs)]
    pub namespace: String,
    /// The coordinator that sends.
    pub coordinator: String,
    /// Where people look further.
    pub link: Option<String>,
    /// When it was made.
    pub at: Time,
    /// What holds.
    pub raised: Vec<Alarm>,
    /// What is over.
    pub resolved: Vec<Alarm>,
    /// So many others follow in the next message.
    pub more: usize,
}

impl Letter {
    /// The alarms, those that hold first.
    pub fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        self.raised.iter().chain(&self.resolved)
    }

    /// The worst severity among the alarms that hold; alarms that are over do not count.
    pub fn severity(&self) -> Severity {
        self.raised.iter().map(|alarm| alarm.severity).max().unwrap_or(Severity::Info)
    }

    /// One line: what it is about.
    pub fn title(&self) -> String {
        let what = match (&self.raised[..], &self.resolved[..]) {
            _ if self.test => "test: alarms reach you here".to_owned(),
            ([one], []) => one.text.clone(),
            ([], [one]) => format!("resolved: {}", one.text),
            (raised, []) => format!("{} alarms", raised.len() + self.more),
            ([], resolved) => format!("{} alarms resolved", resolved.len() + self.more),
            (raised, resolved) => format!("{} alarms, {} resolved", raised.len(), resolved.len()),
        };
        format!("[rosterd {}] {what}", self.namespace)
    }

    /// A line for each alarm, at most so many, and one for the rest.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let line = |alarm: &Alarm| match alarm.resolved_at {
            None => format!("{}: {} ({}, since {})", alarm.severity, alarm.text, alarm.alarm, alarm.since),
            Some(at) => format!("resolved: {} ({}, over at {at})", alarm.text, alarm.alarm),
        };
        let all = self.raised.len() + self.resolved.len();
        let mut lines: Vec<String> = self.alarms().take(most).map(line).collect();
        let rest = all.saturating_sub(most) + self.more;
        if rest > 0 {
            lines.push(format!("and {rest} more: rosterd alarms list shows them"));
        }
        lines
    }

    /// Where an alarm is looked at further.
    pub fn href(&self, alarm: &Alarm) -> Option<String> {
        let link = self.link.as_ref()?.trim_end_matches('/');
        Some(match &alarm.job_name {
            Some(job) => format!("{link}/jobs/{}", encoded(job.as_str())),
            None => format!("{link}/cluster"),
        })
    }
}

/// A text as a part of a URL.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
