//! Whether each due time has become something: what the counters of a job that fires each second say, against what the
//! workers wrote of their runs.

use rosterd::proto::v1;

use crate::harness::*;

/// Per item: the latest due time that is accounted for, and how many are by the counters, less runs that stand for
/// other due times.
pub type Accounts = Vec<(i64, i64)>;

impl Cluster {
    pub async fn accounts(&self, job: &str) -> Accounts {
        let verdict = self.verdict();
        let items = self.items(job).await;
        let account = |item: &v1::ItemSummary| {
            let counters = item.counters.as_ref().unwrap();
            let not_due =
                verdict.of(job).filter(|run| run.item == item.item && run.source != "NORMAL_TRIGGER").count();
            let sum =
                counters.fired + counters.misfired + counters.skipped + counters.missed.values().sum::<u64>();
            (item.last_fire.unwrap().seconds, i64::try_from(sum).unwrap() - i64::try_from(not_due).unwrap())
        };
        items.iter().map(account).collect()
    }

    /// The accounts at a moment at which each run that is counted is in a worker's log.
    pub async fn accounts_when_quiet(&self, job: &str) -> Accounts {
        wait("a quiet moment", || async {
            let first = self.counters(job).await;
            let accounts = self.accounts(job).await;
            let same = self.verdict().of(job).count() as u64 == first.fired
                && self.counters(job).await.fired == first.fired;
            same.then_some(accounts)
        })
        .await
    }

    /// The job fires no more, and none of its runs is in flight or waits.
    pub async fn paused(&self, job: &str) {
        self.admin().pause_job(v1::PauseJobRequest { job: job.into() }).await.unwrap();
        self.items_when(job, "no run is in flight", |items| {
            items.iter().all(|item| item.running.is_none() && item.crashed.is_none())
        })
        .await;
    }

    /// Of a job that is paused: each due time since then has become something, and each run has ended.
    pub async fn balanced(&self, job: &str, before: &Accounts) -> v1::Counters {
        let (verdict, after) = (self.verdict(), self.accounts(job).await);
        for (item, ((from, old), (to, new))) in before.iter().zip(&after).enumerate() {
            assert_eq!(new - old, to - from, "{job}/{item}: due times since {from}\n{}", verdict.table());
        }
        let counters = self.counters(job).await;
        println!("{job}: {counters:?}");
        let ended =
            counters.succeeded + counters.failed + counters.cancelled + counters.crashed + counters.timed_out;
        assert_eq!(counters.fired, ended, "{job}");
        counters
    }
}
