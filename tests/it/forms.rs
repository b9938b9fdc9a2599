//! The forms in which a worker is lost, as a parameter of tests: killed; standing still past its lease, and awake again
//! afterwards; cut off, so that packets vanish and neither end is told. [`in_each_form`] makes three tests of one.
//!
//! Some cases have fewer: who leaves in order is there until it has left, and a coordinator that dies is none of this.

use rosterd_wire::proto::v1;

use crate::harness::*;
use crate::judge::{Run, Verdict};
use crate::net::{self, Net, Way};

/// How a worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Killed,
    Frozen,
    CutOff,
}

/// A worker that is to be lost.
pub struct Loss {
    form: Form,
    net: Option<Net>,
}

impl Loss {
    /// A coordinator of which a worker can be lost in this form; none where this machine does not let us.
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

    /// The words that the worker is started below.
    pub fn wrapper(&self) -> Vec<&str> {
        self.net.iter().flat_map(Net::wrapper).collect()
    }

    /// It happens.
    pub fn strike(&self, cluster: &mut Cluster, worker: &str) {
        match (self.form, &self.net) {
            (Form::CutOff, Some(net)) => net.cut(&[Way::FromWorker, Way::ToWorker]),
            (Form::Frozen, _) => cluster.freeze(worker),
            _ => cluster.kill(worker),
        }
    }

    /// It is over, once the worker has been given up.
    pub fn relent(&self, cluster: &mut Cluster, worker: &str) {
        match (self.form, &self.net) {
            (Form::CutOff, Some(net)) => net.heal(),
            (Form::Frozen, _) => cluster.thaw(worker),
            // Nobody comes back from it.
            _ => {}
        }
    }

    /// Whether the process itself did nothing while others took over.
    pub fn stood_still(&self) -> bool {
        self.form == Form::Frozen
    }

    /// Whether the worker comes back, under another identity.
    pub fn comes_back(&self) -> bool {
        self.form != Form::Killed
    }

    /// Waits until all runs that were lost have stopped, as it is seen in this form.
    pub async fn stopped(&self, cluster: &Cluster, job: &str, lost: &[Run]) -> Verdict {
        let form = self.form;
        let stopped = move |verdict: &Verdict| {
            let now = |old: &Run| verdict.of(job).find(|run| run.id() == old.id());
            lost.iter().filter_map(now).all(|run| match form {
                // Whoever killed it says so.
                Form::Killed => run.stop.is_some() && run.how.is_none(),
                Form::Frozen | Form::CutOff => run.stopped_by_order(),
            })
        };
        cluster.verdict_when("what was lost to stop", stopped).await
    }
}

/// Waits until a worker that came back runs items of the job again. A welcome that it did not hear in time leaves an
/// identity behind that may be given items and runs none; then they are fired once more.
pub async fn works_again(cluster: &Cluster, job: &str, worker: &str) {
    wait(format!("{worker} to work again"), || async {
        fire_through(cluster, job).await;
        cluster.verdict().of(job).any(|run| run.worker == worker && run.ended()).then_some(())
    })
    .await;
}

/// Fires a job by hand, and waits until each item has begun once more and all have ended.
async fn fire_through(cluster: &Cluster, job: &str) {
    let fired = |item: &v1::ItemSummary| item.counters.as_ref().unwrap().runs;
    let before: Vec<u64> = cluster.items(job).await.iter().map(fired).collect();
    cluster.trigger(job).await;
    let begun =
        move |items: &[v1::ItemSummary]| items.iter().map(fired).zip(&before).all(|(now, old)| now > *old);
    cluster.items_when(job, "each item to begin once more", begun).await;
    cluster.quiet(job).await;
}

/// Each old run stopped before the run that took its place began; where it stood still itself meanwhile, it stopped when
/// it woke, and what it may do there the judge says.
pub fn replaced_after_its_stop(stood_still: bool, verdict: &Verdict, job: &str, lost: &[Run]) {
    for old in lost {
        let now = verdict.of(job).find(|run| run.id() == old.id()).unwrap();
        let takes_over = |run: &&&Run| run.item == old.item && run.fire == old.fire;
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
            async fn when_it_stands_still_past_its_lease() {
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
