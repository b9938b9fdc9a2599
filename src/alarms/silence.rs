//! What is not told for a time, since somebody knows of it.

use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::kind::AlarmKind;
use super::letter::Alarm;
use super::settings::Pattern;

/// Most of them.
pub const MOST: usize = 1000;

/// Alarms that are not told until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Silence {
    /// Chosen by who makes it.
    pub id: String,
    /// Of this kind; none: of all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alarm: Option<AlarmKind>,
    /// Of this job, or of jobs that begin so where it ends with `*`; none: of all, and of coordinators.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<String>,
    /// When it ends by itself.
    pub until: Time,
    /// Why.
    pub comment: String,
    /// Who made it.
    pub by: String,
}

impl Silence {
    /// Whether an alarm is meant, while it lasts.
    pub fn covers(&self, alarm: &Alarm, now: Time) -> bool {
        let job = |wanted: &String| {
            let pattern = Pattern(wanted.clone());
            alarm.job_name.as_ref().is_some_and(|job| pattern.matches(job.as_str()))
        };
        now < self.until
            && self.alarm.is_none_or(|kind| kind == alarm.alarm)
            && self.job.as_ref().is_none_or(job)
    }
}
