//! Rows for people, read from the current store, on any coordinator.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use rosterd_domain::id::{CoordinatorId, InstanceId, Item, JobName, ServerAddress};
use rosterd_domain::item::{Counters, Record, State};
use rosterd_domain::snapshot::{InstanceSeen, JobNodes, Snapshot};
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::view::{Job, Timeline};
use rosterd_registry::{DumpNode, ReadError};
use rosterd_session::code::{Code, Refusal};

use crate::cluster::members::Member;
use crate::handle::{
    Birth, Handle, InstanceRow, ItemRow, ItemStatus, JobDetail, JobRow, MachineRow, MemberRow, ServerRow,
};
use crate::io::operation::{next_fire, status};
use crate::queries::looks::Decoded;

impl Handle {
    /// Those of these jobs that exist, in their order.
    pub async fn some_jobs(&self, names: &[JobName]) -> Result<Vec<JobRow>, Refusal> {
        self.look(names, |name, snapshot, view| self.row_of(name, snapshot, view)).await
    }

    /// One job in full, with its next `upcoming` scheduled times.
    pub async fn job(&self, name: &JobName, upcoming: usize) -> Result<JobDetail, Refusal> {
        let snapshot = self.snapshot(name).await?;
        let row = self.row_of(name, &snapshot, &Job::decode(name, &snapshot.nodes));
        let view = self.decoded(name, &snapshot)?;
        let timeline = Timeline::new(&view);
        let mut due = Vec::new();
        let mut after = self.inner.clock.wall();
        while let Some(next) = timeline.next(after).filter(|_| due.len() < upcoming) {
            due.push(next);
            after = next;
        }
        let (generation, epoch) = (view.generation.0, view.epoch.0);
        Ok(JobDetail { row, spec: view.spec.to_file(), generation, epoch, upcoming: due })
    }

    /// The latest scheduled times in (after, until], the last one first, by the schedules in force at the time, as far
    /// as they are remembered; at most `most` of them.
    pub async fn due(
        &self,
        name: &JobName,
        after: Time,
        until: Time,
        most: usize,
    ) -> Result<Vec<Time>, Refusal> {
        let view = self.decision_view(name).await?;
        let timeline = Timeline::new(&view);
        Ok(latest(|after| timeline.next(after), after, until, most))
    }

    /// What distinguishes these jobs from earlier ones of their names; without those that cannot be read.
    pub async fn births(&self, jobs: BTreeSet<JobName>) -> BTreeMap<JobName, Birth> {
        let born = jobs.into_iter().map(|name| async move {
            let nodes = self.inner.registry.job(&name).await.ok()??;
            let view = Job::decode(&name, &nodes).ok()??;
            Some((name, Birth { incarnation: view.incarnation, first: view.first }))
        });
        join_all(born).await.into_iter().flatten().collect()
    }

    /// A job as decisions see it.
    pub async fn decision_view(&self, name: &JobName) -> Result<Job, Refusal> {
        let snapshot = self.snapshot(name).await?;
        self.decoded(name, &snapshot)
    }

    /// A job's items.
    pub async fn items(&self, name: &JobName) -> Result<Vec<ItemRow>, Refusal> {
        let snapshot = self.snapshot(name).await?;
        let view = self.decoded(name, &snapshot)?;
        let count = view.rules.items.max(snapshot.records.keys().next_back().map_or(0, |item| item.0 + 1));
        // Scheduled times of a paused job still lie ahead.
        let follows = Timeline::new(&view).next(self.inner.clock.wall()).is_some();
        Ok((0..count).map(Item).filter_map(|item| item_row(&view, &snapshot, item, follows)).collect())
    }

    /// Instances of one job, or of all.
    pub async fn instances(&self, job: Option<&JobName>) -> Result<Vec<InstanceRow>, Refusal> {
        let see = |name: &JobName, snapshot: &Snapshot, view: &Decoded| {
            let Ok(Some(view)) = view else { return Vec::new() };
            let running = running_on(snapshot);
            let row = |(instance, seen): (&InstanceId, &InstanceSeen)| {
                let node = seen.node.as_ref();
                InstanceRow {
                    instance: instance.clone(),
                    job: name.clone(),
                    address: instance.address().to_string(),
                    host: node.map(|node| node.host.to_string()).unwrap_or_default(),
                    slots: node.map_or(0, |node| node.slots),
                    items: u32::try_from(view.sharding.items_of(instance).len()).unwrap_or(u32::MAX),
                    enabled: view.is_enabled(instance),
                    client: node.map(|node| node.client.clone()).unwrap_or_default(),
                    labels: node.map(|node| node.labels.clone()).unwrap_or_default(),
                    running: running.get(instance).copied().unwrap_or_default(),
                }
            };
            view.instances.iter().map(row).collect()
        };
        rows_of(job, self.look(&self.asked_for(job).await?, see).await?)
    }

    /// Servers of one job, or of all.
    pub async fn servers(&self, job: Option<&JobName>) -> Result<Vec<ServerRow>, Refusal> {
        let see = |name: &JobName, nodes: &JobNodes| {
            let of = |server: &str| nodes.instances.keys().filter(|i| i.address() == server).count();
            let row = |(server, enabled): (&ServerAddress, &bool)| ServerRow {
                server: server.clone(),
                job: name.clone(),
                enabled: *enabled,
                instances: u32::try_from(of(server.as_str())).unwrap_or(u32::MAX),
            };
            nodes.servers.iter().map(row).collect::<Vec<_>>()
        };
        rows_of(job, self.look_at_nodes(&self.asked_for(job).await?, see).await?)
    }

    /// All machines, each over the jobs that know it.
    pub async fn machines(&self) -> Result<Vec<MachineRow>, Refusal> {
        #[derive(Default)]
        struct Machine {
            jobs: u32,
            disabled: u32,
            instances: BTreeSet<InstanceId>,
        }
        let mut machines: BTreeMap<ServerAddress, Machine> = BTreeMap::new();
        let see = |_: &JobName, nodes: &JobNodes| {
            for (server, enabled) in &nodes.servers {
                let on = nodes.instances.keys().filter(|on| on.address() == server.as_str());
                let machine = machines.entry(server.clone()).or_default();
                machine.jobs += 1;
                machine.disabled += u32::from(!enabled);
                machine.instances.extend(on.cloned());
            }
        };
        self.look_at_nodes(&self.asked_for(None).await?, see).await?;
        let row = |(machine, of): (ServerAddress, Machine)| MachineRow {
            machine,
            jobs: of.jobs,
            disabled_jobs: of.disabled,
            instances: u32::try_from(of.instances.len()).unwrap_or(u32::MAX),
        };
        Ok(machines.into_iter().map(row).collect())
    }

    /// The coordinators of the namespace whose session is alive.
    pub async fn members(&self) -> Result<Vec<MemberRow>, Refusal> {
        let read = self.inner.registry.coordinators().await.map_err(unreadable)?;
        let row = |(id, data): (CoordinatorId, std::sync::Arc<str>)| {
            let (asked, member) = (id == self.inner.id, Member::parse(&data));
            let told = member.told.map(|told| self.inner.clock.wall().since(told));
            let proved_ago = if asked { Some(self.proved_ago()) } else { told };
            MemberRow { id, asked, member, proved_ago }
        };
        Ok(read.into_iter().map(row).collect())
    }

    fn proved_ago(&self) -> Duration {
        let proved = Mono(Duration::from_millis(self.inner.proved.load(Ordering::Relaxed)));
        self.inner.clock.mono().since(proved)
    }

    /// A job's whole tree.
    pub async fn dump(&self, name: &JobName) -> Result<BTreeMap<String, DumpNode>, Refusal> {
        self.inner.registry.dump(name).await.map_err(unreadable)?.ok_or_else(|| unknown(name))
    }

    /// One job, or all.
    async fn asked_for(&self, job: Option<&JobName>) -> Result<Vec<JobName>, Refusal> {
        match job {
            Some(job) => Ok(vec![job.clone()]),
            None => Ok(self.names().await?.into_iter().collect()),
        }
    }

    pub(crate) async fn snapshot(&self, name: &JobName) -> Result<Snapshot, Refusal> {
        self.inner.registry.snapshot(name).await.map_err(unreadable)?.ok_or_else(|| unknown(name))
    }

    pub(crate) fn decoded(&self, name: &JobName, snapshot: &Snapshot) -> Result<Job, Refusal> {
        match Job::decode(name, &snapshot.nodes) {
            Ok(Some(view)) => Ok(view),
            Ok(None) => Err(Refusal::new(Code::JobRemoving, format!("job {name} is being removed"))),
            Err(why) => Err(Refusal::new(Code::ConfigDamaged, format!("job {name}: {why}: apply it again"))),
        }
    }

    pub(crate) fn row_of<J: Borrow<Job>>(
        &self,
        name: &JobName,
        snapshot: &Snapshot,
        decoded: &Result<Option<J>, String>,
    ) -> JobRow {
        let decoded: Result<Option<&Job>, &String> =
            decoded.as_ref().map(|view| view.as_ref().map(Borrow::borrow));
        let view = decoded.ok().flatten();
        let config = view.map(|view| view.spec.config());
        let running = snapshot.records.values().filter(|(_, record)| record.running().is_some()).count();
        let servers = &snapshot.nodes.servers;
        JobRow {
            name: name.clone(),
            handler_type: snapshot.nodes.handler_type.to_string(),
            cron: config.and_then(|config| config.cron.clone()),
            time_zone: config.map(|config| config.zone().to_string()).unwrap_or_default(),
            items: config.map_or(0, |config| config.sharding_total_count),
            description: config.map(|config| config.description.clone()).unwrap_or_default(),
            status: status(decoded),
            instances: u32::try_from(snapshot.nodes.instances.len()).unwrap_or(u32::MAX),
            running: u32::try_from(running).unwrap_or(u32::MAX),
            leader: snapshot.nodes.leader.as_ref().map(|(leader, _)| leader.to_string()),
            made: view.and_then(|view| view.sharding.made),
            next_fire: view.and_then(|view| next_fire(view, self.inner.clock.wall())),
            counters: sum(snapshot),
            unmonitored: view.is_some_and(|view| !view.rules.monitor),
            disabled_everywhere: !servers.is_empty() && servers.values().all(|enabled| !enabled),
        }
    }
}

/// The rows of each job that was read. A job that was asked for by name must be among them.
fn rows_of<T>(job: Option<&JobName>, seen: Vec<Vec<T>>) -> Result<Vec<T>, Refusal> {
    match job {
        Some(job) if seen.is_empty() => Err(unknown(job)),
        _ => Ok(seen.into_iter().flatten().collect()),
    }
}

/// The latest of the times that `next` returns in (after, until], the last one first. A schedule can only be queried
/// forward, so it is queried in spans from the end, each as long as the rest will probably need.
fn latest(next: impl Fn(Time) -> Option<Time>, after: Time, until: Time, most: usize) -> Vec<Time> {
    const FIRST: Duration = Duration::from_secs(60);
    // A span with more is split: it may be crowded after years without any.
    let crowded = most.saturating_mul(4).max(1000);
    let (mut found, mut end, mut span) = (Vec::new(), until, FIRST);
    while found.len() < most && end > after {
        let begin = end.minus(span).max(after);
        let due = |from: Time| next(from).filter(|due| *due <= end);
        let part: Vec<Time> =
            std::iter::successors(due(begin), |from| due(*from)).take(crowded + 1).collect();
        if part.len() > crowded && span > FIRST {
            span = (span / 2).max(FIRST);
            continue;
        }
        found.extend(part.into_iter().rev());
        (end, span) = (begin, span.saturating_mul(2));
    }
    found.truncate(most);
    found
}

fn sum(snapshot: &Snapshot) -> Counters {
    let mut all = Counters::default();
    for (_, record) in snapshot.records.values() {
        all.add(&record.counters);
    }
    all
}

fn running_on(snapshot: &Snapshot) -> BTreeMap<InstanceId, u32> {
    let mut running = BTreeMap::new();
    for run in snapshot.records.values().filter_map(|(_, record)| record.running()) {
        *running.entry(run.instance.clone()).or_default() += 1;
    }
    running
}

/// `follows`: a scheduled time lies ahead.
fn item_row(view: &Job, snapshot: &Snapshot, item: Item, follows: bool) -> Option<ItemRow> {
    let record = snapshot.records.get(&item).map(|(_, record)| (**record).clone());
    if record.is_none() && item.0 >= view.rules.items {
        return None;
    }
    // An owner that is gone remains in the assignment until the next one.
    let owner = view.sharding.owner(item).filter(|owner| view.instances.contains_key(*owner)).cloned();
    let parameter = view.spec.config().sharding_item_parameters.get(item).unwrap_or_default().to_string();
    let disabled = view.sharding.disabled_items.contains(&item);
    let record = record.unwrap_or_else(|| Record::new(view.base, Time::default()));
    let surplus = item.0 >= view.rules.items;
    let status = match &record.state {
        State::Running(_) => ItemStatus::Running,
        State::Crashed(_) => ItemStatus::Crashed,
        State::Idle if surplus => ItemStatus::Surplus,
        State::Idle if disabled => ItemStatus::Disabled,
        State::Idle if owner.is_none() => ItemStatus::Unassigned,
        State::Idle if follows || record.misfire.is_some() || view.triggers.contains_key(&item) => {
            ItemStatus::Pending
        }
        State::Idle if record.last.is_some() => ItemStatus::Completed,
        State::Idle => ItemStatus::Pending,
    };
    Some(ItemRow {
        item,
        parameter,
        owner,
        disabled,
        surplus,
        state: record.state,
        token: record.token,
        last_fire: record.last_fire,
        misfire: record.misfire,
        last: record.last,
        counters: record.counters,
        status,
    })
}

fn unknown(name: &JobName) -> Refusal {
    Refusal::new(Code::JobUnknown, format!("job {name} does not exist: see rosterd jobs list"))
}

pub(crate) fn unreadable(error: ReadError) -> Refusal {
    Refusal::new(Code::StoreUnavailable, format!("{error}: try again"))
}

#[cfg(test)]
mod tests {
    use rosterd_domain::schedule::Schedule;

    use super::*;

    #[test]
    fn the_latest_scheduled_times_are_found_from_the_end() {
        let schedules = [
            "* * * * * ?",
            "0/7 * * * * ?",
            "0 0 0/9 * * ?",
            // Crowded, after a long time without any, and before one.
            "* * * 3 1 ? 1970",
            "0 0 0 1 1 ? 2099",
        ];
        let (after, until) = (Time::from_seconds(0), Time::from_seconds(20 * 86_400 + 12_345));
        for cron in schedules {
            let schedule = Schedule::parse(cron, "UTC").unwrap();
            let mut all: Vec<Time> = schedule.iter(after).take_while(|due| *due <= until).collect();
            all.reverse();
            for most in [0, 1, 3, 1000, 2001] {
                let found = latest(|after| schedule.next(after), after, until, most);
                assert_eq!(found, all[..most.min(all.len())], "{cron}, {most}");
            }
        }
    }
}
