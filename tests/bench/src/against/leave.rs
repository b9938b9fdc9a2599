//! Ten workers share five thousand items, and one leaves.

use std::time::{Duration, Instant};

use zookeeper_client::{Acls, Client, CreateMode};

use super::{Pair, Side, Stage, order};
use crate::Result;
use crate::ensemble::{Cost, Ensemble};
use crate::leave::{AFTERWARDS, WORKERS, one};
use crate::options::Options;
use crate::report::Report;
use crate::worker::Spec;

const JOB: &str = "wide-0";
/// The polling interval of Elastic-Job's tree.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(180);

/// Milliseconds, and the server's work until everything was written.
type Left = (f64, Cost);

/// rosterd: until the last Assignment came to a worker. Elastic-Job: until its nodes have the owner of each item;
/// without waiting for a scheduled time, since the benchmark triggers the job as soon as the leave was noticed.
pub(crate) fn leave(options: &Options, report: &mut Report) -> Result {
    for items in options.sizes(&[5000], 1000) {
        for run in 0..options.runs {
            let ensemble = Ensemble::start()?;
            let floor = ensemble.floor()?;
            let mut pair = Pair { floor: Some(floor), ..Pair::default() };
            for side in order(run) {
                let stage = Stage::open(options, &ensemble, side)?;
                let (took, cost) = match side {
                    Side::Ours => ours(&stage, items)?,
                    Side::Theirs => theirs(stage, items)?,
                };
                println!(
                    "  {}: {items} items, 1 of {WORKERS} leaves: {took:.0} ms, {:.0} transactions, ZooKeeper {:.0} ms \
                     of processor time; {floor}",
                    side.name(),
                    cost.counts.transactions,
                    cost.ran * 1e3
                );
                pair.add(side, "leave", "ms", took);
                pair.add(side, "leave: transactions", "", cost.counts.transactions);
                pair.add(side, "leave: packets received", "", cost.counts.received);
                pair.add(side, "leave: ZooKeeper CPU", "ms", cost.ran * 1e3);
            }
            pair.report(&format!("{items} items, 1 of {WORKERS} workers leaves"), report);
        }
    }
    Ok(())
}

fn ours(stage: &Stage<'_>, items: u32) -> Result<Left> {
    let server = stage.server.as_ref().ok_or("no coordinator")?;
    let found = one(server, Some(stage.ensemble), items, "AVG_ALLOCATION")?;
    Ok((found.took, found.cost.ok_or("no ensemble")?))
}

fn theirs(mut stage: Stage<'_>, items: u32) -> Result<Left> {
    for _ in 0..WORKERS {
        stage.start(Spec {
            address: "127.0.0.1".into(),
            prefix: "wide-".into(),
            count: 1,
            jobs: 1,
            // It is only triggered, and its runs write nothing, so that only the assignment is measured.
            file: format!("cron: '0 0 0 1 1 ? 2099'\nshardingTotalCount: {items}\nmonitorExecution: false\n"),
            ..Spec::default()
        })?;
    }
    stage.crew.wait_until_all_came(PATIENCE)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let tree = Tree::open(&stage).await?;
        tree.assigned(items, WORKERS as usize).await?;
        let (since, stand) = (Instant::now(), stage.ensemble.stand()?);
        stage.crew.ask_to_leave(3)?;
        tree.assigned(items, WORKERS as usize - 1).await?;
        let took = since.elapsed().as_secs_f64() * 1e3;
        tokio::time::sleep(AFTERWARDS).await;
        Ok((took, stage.ensemble.cost(&stand)?))
    })
}

/// Elastic-Job's tree of the job.
struct Tree {
    client: Client,
    root: String,
}

impl Tree {
    async fn open(stage: &Stage<'_>) -> Result<Self> {
        // Elastic-Job keeps the server busy for long.
        let connector = Client::connector().with_session_timeout(Duration::from_secs(20));
        let client = connector.connect(&stage.ensemble.address()).await?;
        Ok(Self { client, root: format!("/{}/{JOB}", stage.namespace) })
    }

    /// Triggers the job once this many instances are there and it is flagged, and waits until they own its items.
    async fn assigned(&self, items: u32, instances: usize) -> Result {
        let flag = "leader/sharding/necessary";
        let until = Instant::now() + PATIENCE;
        let mut living = Vec::new();
        while living.len() != instances || !self.there(flag).await? {
            self.look_again(until, "the flag").await?;
            living = self.children("instances").await?;
        }
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.client.mkdir(&format!("{}/trigger", self.root), &options).await?;
        for instance in &living {
            let path = format!("{}/trigger/{instance}", self.root);
            self.client.create(&path, b"", &options).await?;
        }
        while self.there(flag).await? || self.there("leader/sharding/processing").await? {
            self.look_again(until, "the assignment").await?;
        }
        for item in [0, items / 2, items - 1] {
            let (owner, _) = self.client.get_data(&format!("{}/sharding/{item}/instance", self.root)).await?;
            let owner = String::from_utf8_lossy(&owner).into_owned();
            if !living.contains(&owner) {
                return Err(format!("item {item} is given to {owner:?}, who is none of {living:?}").into());
            }
        }
        Ok(())
    }

    async fn look_again(&self, until: Instant, what: &str) -> Result {
        if Instant::now() > until {
            return Err(format!("waited in vain for {what} of Elastic-Job").into());
        }
        tokio::time::sleep(LOOK).await;
        Ok(())
    }

    async fn there(&self, path: &str) -> Result<bool> {
        Ok(self.client.check_stat(&format!("{}/{path}", self.root)).await?.is_some())
    }

    async fn children(&self, path: &str) -> Result<Vec<String>> {
        match self.client.list_children(&format!("{}/{path}", self.root)).await {
            Err(zookeeper_client::Error::NoNode) => Ok(Vec::new()),
            found => Ok(found?),
        }
    }
}
