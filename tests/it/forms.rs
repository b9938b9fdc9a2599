//! The forms in which a worker is lost, as a parameter of tests: killed; frozen past its lease, and resumed afterwards;
//! cut off, so that packets vanish without notice to either end. [`in_each_form`] makes three tests of one.
//!
//! Some cases have fewer: a worker that leaves is there until it has left, and a coordinator that dies is a separate
//! case.

use rosterd_wire::proto::v1;

use crate::harness::*;
use crate::judge::{AuditedRun, Verdict};
use crate::net::{self, Net, Way};

/// How a worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Killed,
    Frozen,
    CutOff,
}

/// A worker that will be lost.
pub struct Loss {
    form: Form,
    net: Option<Net>,
}

impl Loss {
    /// A coordinator with a worker that can be lost in this form; `None` if this machine does not allow it.
    pub async fn on(timing: Timing, form: Form) -> Option<(Self, Cluster)> {
        let mut cluster = Cluster::prepare(timing, &[]);
        let mut net = None;
        if form == Form::CutOff {
            if !net::possible() {
                return None;
            }
            let own = net.insert(Net::new());
            cluster.host.clone_from(&own.host);
        }
        cluster.serve().await;
        Some((Self { form, net }, cluster))
    }

    /// The command that wraps the worker.
    pub fn wrapper(&self) -> Vec<&str> {
        self.net.iter().flat_map(Net::wrapper).collect()
    }

    /// Loses the worker.
    pub fn strike(&self, cluster: &mut Cluster, worker: &str) {
        match (self.form, &self.net) {
            (Form::CutOff, Some(net)) => net.cut(&[Way::FromWorker, Way::ToWorker]),
            (Form::Frozen, _) => cluster.freeze(worker),
            _ => cluster.kill(worker),
        }
    }

    /// Ends the fault, once the worker has been marked dead.
    pub fn relent(&self, cluster: &mut Cluster, worker: &str) {
        match (self.form, &self.net) {
            (Form::CutOff, Some(net)) => net.heal(),
            (Form::Frozen, _) => cluster.thaw(worker),
            // A killed worker does not come back.
            _ => {}
        }
    }

    /// Whether the process itself was frozen while others took over.
    pub fn stood_still(&self) -> bool {
        self.form == Form::Frozen
    }

    /// Whether the worker comes back, under another identity.
    pub fn comes_back(&self) -> bool {
        self.form != Form::Killed
    }

    /// Waits until all lost runs have stopped, by the evidence of this form.
    pub async fn stopped(&self, cluster: &Cluster, job: &str, lost: &[AuditedRun]) -> Verdict {
        let form = self.form;
        let stopped = move |verdict: &Verdict| {
            let now = |old: &AuditedRun| verdict.of(job).find(|run| run.id() == old.id());
            lost.iter().filter_map(now).all(|run| match form {
                // The killer logs it.
                Form::Killed => run.stop.is_some() && run.how.is_none(),
                Form::Frozen | Form::CutOff => run.stopped_by_order(),
            })
        };
        cluster.verdict_when("what was lost to stop", stopped).await
    }
}

/// Waits until a worker that came back runs items of the job again. A Welcome that it did not receive in time leaves an
/// identity behind that may own items and runs none; then the job is triggered once more.
pub async fn works_again(cluster: &Cluster, job: &str, worker: &str) {
    wait(format!("{worker} to work again"), || async {
        fire_through(cluster, job).await;
        cluster.verdict().of(job).any(|run| run.worker == worker && run.ended()).then_some(())
    })
    .await;
}

/// Triggers a job, and waits until each item has started once more and all have ended.
async fn fire_through(cluster: &Cluster, job: &str) {
    let fired = |item: &v1::ItemSummary| item.counters.as_ref().unwrap().runs;
    let before: Vec<u64> = cluster.items(job).await.iter().map(fired).collect();
    cluster.trigger(job).await;
    let begun =
        move |items: &[v1::ItemSummary]| items.iter().map(fired).zip(&before).all(|(now, old)| now > *old);
    cluster.items_when(job, "each item to begin once more", begun).await;
    cluster.quiet(job).await;
}

/// Each old run stopped before its replacement started; if it was frozen meanwhile, it stopped when it resumed, and the
/// judge decides what it may do until then.
pub fn replaced_after_its_stop(stood_still: bool, verdict: &Verdict, job: &str, lost: &[AuditedRun]) {
    for old in lost {
        let now = verdict.of(job).find(|run| run.id() == old.id()).unwrap();
        let takes_over = |run: &&&AuditedRun| run.item == old.item && run.fire == old.fire;
        let failovers = verdict.by_source(job, "FAILOVER");
        let new = failovers.iter().find(takes_over).unwrap_or_else(|| panic!("{old:?} is not run again"));
        assert!(!now.ended(), "{now:?}");
        let stop = now.stop.unwrap();
        let in_order = if stood_still { new.start < stop } else { stop < new.start };
        assert!(in_order, "stood still: {stood_still}\n{old:?}\n{new:?}\n{}", verdict.table());
    }
}

/// Makes a test of each form: `in_each_form!(what_is_promised, function)`.
macro_rules! in_each_form {
    ($name:ident, $test:path) => {
        mod $name {
            use crate::forms::Form;

            #[tokio::test]
            async fn when_it_is_killed() {
                $test(Form::Killed).await;
            }

            #[tokio::test]
            async fn when_it_freezes_past_its_lease() {
                $test(Form::Frozen).await;
            }

            #[tokio::test]
            async fn when_its_packets_vanish() {
                $test(Form::CutOff).await;
            }
        }
    };
}

pub(crate) use in_each_form;
