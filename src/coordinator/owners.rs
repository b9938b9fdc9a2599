//! Who owns which item, told after each change of the assignment: to whoever watches, and as a whole to the history, which keeps
//! who owned what over time. It writes nothing and waits for nothing. Called where a job's decision state is taken in.

use rosterd_domain::id::JobName;
use rosterd_domain::ownership::Owned;
use rosterd_domain::view::Job;

use super::event::Effect;
use super::handle::Happening;
use super::job::JobState;
use super::node::Node;

impl Node {
    /// `before`: the job as it was known; `None`: it was not, so the history has to be told whatever is found.
    pub(super) fn tell_owners(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        before: Option<&Job>,
    ) {
        if before.is_some_and(|before| before.sharding.assigns_like(&view.sharding)) {
            return;
        }
        let planned = std::mem::take(&mut job.planned);
        let whys = planned.as_ref().map(|planned| (&planned.why, &planned.causes));
        self.out.push(Effect::Owned(Box::new(Owned::of(view, before, whys))));
        if before.is_none() {
            return;
        }
        let owners =
            view.sharding.assignment().iter().map(|(i, items)| (i.clone(), items.to_vec())).collect();
        let why = planned.map(|planned| planned.why);
        let (job, generation) = (name.clone(), view.generation.0);
        self.out.push(Effect::Tell(Happening::Assigned { job, generation, owners, why }));
    }

    /// The job that was there has gone, and its assignment with it.
    pub(super) fn tell_no_owners(&mut self, gone: &Job) {
        self.out.push(Effect::Owned(Box::new(Owned::removed(gone))));
    }
}
