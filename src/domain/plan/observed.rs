//! A hook for the simulation: it gets each plan with its input, and checks it with [`crate::check`]. Only in builds
//! with the feature `observed`, and only on threads that asked for it.

use std::cell::RefCell;

use super::assign::Assigned;
use super::decision::Plan;
use super::facts::Facts;
use crate::candidates::Candidates;
use crate::item::Records;
use crate::view::Job;

/// A plan, and what it was made from.
pub enum Observed<'a> {
    /// A host's plan, for now or for a scheduled time that is about to come.
    Host { job: &'a Job, records: &'a Records, facts: &'a Facts<'a>, plan: &'a Plan, ahead: bool },
    /// A leader's plan.
    Leader { job: &'a Job, candidates: &'a Candidates, assigned: &'a Assigned },
}

/// Gets each plan of its thread. It must not plan itself.
pub type Observer = Box<dyn FnMut(&Observed<'_>)>;

thread_local! {
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

/// Passes all plans of this thread to `observer` from now on; `None` stops that.
pub fn observe(observer: Option<Observer>) {
    OBSERVER.set(observer);
}

pub(super) fn show(observed: &Observed<'_>) {
    OBSERVER.with_borrow_mut(|observer| {
        if let Some(observer) = observer {
            observer(observed);
        }
    });
}
