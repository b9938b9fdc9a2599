//! Last fires that lie in the future: a clock was ahead when they were written. Nothing is decided here; somebody should know.

use rosterd_domain::id::JobName;
use rosterd_domain::plan::Plan;
use rosterd_domain::view::Job;

use super::job::JobState;
use super::node::Node;

impl Node {
    /// Such an item of a worker here is silent until then, so that nothing is run twice. Told once.
    pub(super) fn alarm_of_silence(&self, name: &JobName, job: &mut JobState, view: &Job) {
        let (now, settings) = (self.now.wall, &self.settings);
        // So far ahead it may be where two clocks are as they should be, and a start was written ahead of its time.
        let apart = 2 * view.spec.max_clock_diff(settings.max_clock_difference) + settings.ahead.1;
        // What is further ahead is set back.
        let silent = now.plus(apart)..now.plus(settings.longest_silence);
        for (item, (_, record)) in &job.records {
            let until = record.last_fire;
            let ours = || view.sharding.owner(*item).is_some_and(|owner| job.hosted.contains_key(owner));
            if !silent.contains(&until) || !ours() || job.silent_until.insert(*item, until) == Some(until) {
                continue;
            }
            tracing::warn!(
                job = %name,
                item = item.0,
                "ALARM: the last fire of an item, {until}, lies in the future: a clock was ahead when it was written. The item \
                 is silent until then, so that nothing is run twice; it can be triggered by hand"
            );
        }
    }
}

/// One is set back: it lies further ahead than any correction of a clock that is right.
pub(super) fn alarm_of_set_back(name: &JobName, job: &JobState, plan: &Plan) {
    for (item, (_, after)) in &plan.records {
        let before = job.records.get(item).map(|(_, before)| before.last_fire);
        if let Some(before) = before.filter(|before| *before > after.last_fire) {
            tracing::warn!(
                job = %name,
                item = item.0,
                "ALARM: the last fire of an item, {before}, lies far in the future: a clock was wrong when it was written. It is \
                 set back to {}; what was accounted for ahead of its time is not run again, as far as the record tells since when",
                after.last_fire
            );
        }
    }
}
