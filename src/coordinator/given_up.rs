//! A run whose workers die, one after the other, may be what kills them: after so many it is given up, and people are told.

use rosterd_domain::id::JobName;
use rosterd_domain::item::Outcome;
use rosterd_domain::plan::Entry;

use super::event::Effect;
use super::handle::{Action, Happening};
use super::job::JobState;
use super::node::Node;

impl Node {
    pub(super) fn tell_given_up(&mut self, name: &JobName, job: &JobState, entry: &Entry) {
        let Entry::Ended { item, token, run, outcome: Outcome::Crashed, requeued: false, .. } = entry else {
            return;
        };
        let Some(view) = job.view.as_ref().filter(|view| view.rules.failover) else { return };
        let most = view.spec.policy().max_failovers;
        if run.deaths < most || run.deaths == 0 || run.cancelled {
            return;
        }
        let (fire, dead) = (run.fire, run.deaths.saturating_add(1));
        let what = format!(
            "item {item}: run {token} of {fire} is given up: {dead} workers died while they ran it (max_failovers: {most})"
        );
        tracing::error!(job = %name, item = item.0, token = token.0, "{what}");
        self.out.push(Effect::Tell(Happening::Job {
            job: name.clone(),
            action: Action::GiveUp,
            what,
            by: None,
        }));
    }
}
