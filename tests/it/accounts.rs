//! Whether each scheduled time is accounted for: compares the counters of a job that fires each second with the
//! workers' logs.

use rosterd_wire::proto::v1;

use crate::harness::*;

/// The account of an item's scheduled times.
#[derive(Debug, Clone, Copy)]
pub struct Account {
    /// The latest that is accounted for, in seconds.
    last_fire: i64,
    /// How many there are by the counters, less runs that stand for other scheduled times.
    due_times: i64,
    /// How many counted runs no worker has started: it died, or its lease ended, before.
    not_begun: i64,
}

/// Per item.
pub type Accounts = Vec<Account>;

impl Cluster {
    pub async fn accounts(&self, job: &str) -> Accounts {
        let verdict = self.verdict();
        let items = self.items(job).await;
        let account = |item: &v1::ItemSummary| {
            let counters = item.counters.as_ref().unwrap();
            let runs = || verdict.of(job).filter(|run| run.item == item.item);
            let not_due = runs().filter(|run| run.source != "NORMAL_TRIGGER").count();
            let sum =
                counters.runs + counters.misfired + counters.skipped + counters.missed.values().sum::<u64>();
            let less = |all: u64, some: usize| i64::try_from(all).unwrap() - i64::try_from(some).unwrap();
            Account {
                last_fire: item.last_fire.unwrap().seconds,
                due_times: less(sum, not_due),
                not_begun: less(counters.runs, runs().count()),
            }
        };
        items.iter().map(account).collect()
    }

    /// The accounts at a moment at which each counted run is in a worker's log.
    pub async fn accounts_when_quiet(&self, job: &str) -> Accounts {
        wait("a quiet moment", || async {
            // The logs are read first: their runs were counted before they started.
            let accounts = self.accounts(job).await;
            accounts.iter().all(|account| account.not_begun == 0).then_some(accounts)
        })
        .await
    }

    /// Pauses the job, and waits until none of its runs is in flight or waits.
    pub async fn paused(&self, job: &str) {
        self.admin().pause_job(v1::PauseJobRequest { job: job.into() }).await.unwrap();
        self.items_when(job, "no run is in flight", |items| {
            items.iter().all(|item| item.running.is_none() && item.crashed.is_none())
        })
        .await;
    }

    /// Checks a paused job that fires each second: each scheduled time since then is accounted for, and each run has
    /// ended.
    pub async fn balanced(&self, job: &str, before: &Accounts) -> v1::Counters {
        self.balanced_each(1, job, before).await
    }

    /// The same for a job with this period in seconds, counted from full minutes.
    pub async fn balanced_each(&self, seconds: i64, job: &str, before: &Accounts) -> v1::Counters {
        let (verdict, after) = (self.verdict(), self.accounts(job).await);
        for (item, (old, new)) in before.iter().zip(&after).enumerate() {
            let due = new.last_fire.div_euclid(seconds) - old.last_fire.div_euclid(seconds);
            let more = new.due_times - old.due_times - due;
            // A failover or a misfire that no worker has started cannot be distinguished from the run of a scheduled
            // time.
            let untold = new.not_begun - old.not_begun;
            assert!(
                (0..=untold).contains(&more),
                "{job}/{item}: {more} more than the {due} scheduled times, and {untold} runs not begun: {old:?}, {new:?}\n{}",
                verdict.table()
            );
        }
        let counters = self.counters(job).await;
        println!("{job}: {counters:?}");
        let ended =
            counters.succeeded + counters.failed + counters.cancelled + counters.crashed + counters.timed_out;
        assert_eq!(counters.runs, ended, "{job}");
        counters
    }
}
