//! Coordinators on an ensemble, and their workers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::OnceLock;

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use rustix::process::Signal;
use serde_json::json;
use tonic::transport::{Channel, Endpoint};

use crate::accounts::Accounts;
use crate::harness::*;
use crate::judge::Verdict;
use crate::worker::{Does, Plan};
use crate::zookeeper::Ensemble;

/// Leases and sessions that have to end in the test. If the machine is so busy that others end as well, the test must
/// tolerate it: a test that counts crashes, or checks which workers stay, uses [`PATIENT`].
pub const QUICK: Timing = timing(3000, 400, 6000);
/// Longer than delays of a busy machine, or an election of servers. A killed or frozen process still loses its lease in
/// the test.
pub const PATIENT: Timing = timing(8000, 500, 20_000);

/// Every third second: a run may take a second longer than it should without a misfire.
pub const EVERY_THIRD: &str = "0/3 * * * * ?";

/// One server for all tests that do not disturb it.
pub fn shared() -> &'static Ensemble {
    static SHARED: OnceLock<Ensemble> = OnceLock::new();
    SHARED.get_or_init(|| Ensemble::start(1, &["maxSessionTimeout=60000".to_owned()]))
}

/// A slot for a coordinator.
pub struct Seat {
    pub proc: Option<Proc>,
    pub port: u16,
    /// Its ZooKeeper servers.
    pub zk: String,
    /// A wrapper of its program: another network, for example.
    pub wrapper: Vec<String>,
    /// The address at which others reach it.
    pub host: String,
    /// The address that workers use, if different.
    pub door: Option<String>,
    /// The folder of its faults.
    pub faults: Option<PathBuf>,
}

/// A coordinator's summary.
pub type Member = v1::CoordinatorSummary;

/// Coordinators and their workers. Requests that a cluster of one coordinator supports go to the first live one.
pub struct Fleet {
    pub seats: Vec<Seat>,
    pub namespace: String,
    /// Addresses of workers that do not follow from their names.
    pub addresses: BTreeMap<String, String>,
    pub cluster: Cluster,
}

/// The scheduled times of `tick` that ran, in seconds.
pub fn fires(verdict: &Verdict) -> BTreeSet<i64> {
    verdict.of("tick").map(|run| run.fire / 1000).collect()
}

impl Deref for Fleet {
    type Target = Cluster;
    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl DerefMut for Fleet {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
}

impl Fleet {
    /// Starts this many coordinators.
    pub async fn start(coordinators: usize, zk: &str, timing: Timing) -> Self {
        let mut fleet = Self::prepare(coordinators, zk, timing);
        for seat in 0..coordinators {
            fleet.launch(seat);
        }
        for seat in 0..coordinators {
            fleet.serving(seat).await;
        }
        fleet
    }

    /// One coordinator, into which faults can be injected.
    pub async fn with_mutants(zk: &str, timing: Timing) -> Self {
        let mut fleet = Self::prepare(1, zk, timing);
        let faults = fleet.home.path(MUTANTS);
        std::fs::create_dir(&faults).unwrap();
        fleet.seats[0].faults = Some(faults);
        fleet.launch(0);
        fleet.serving(0).await;
        fleet
    }

    /// Nothing runs yet.
    pub fn prepare(coordinators: usize, zk: &str, timing: Timing) -> Self {
        static LAST: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let namespace = format!("cluster{}-{number}", std::process::id());
        let seat = |_| Seat {
            proc: None,
            port: 0,
            zk: zk.to_owned(),
            wrapper: Vec::new(),
            host: "127.0.0.1".to_owned(),
            door: None,
            faults: None,
        };
        let cluster = Cluster::prepare(timing, &[]);
        Self { seats: (0..coordinators).map(seat).collect(), namespace, addresses: BTreeMap::new(), cluster }
    }

    pub fn log_of(&self, seat: usize) -> PathBuf {
        self.home.path(&format!("c{seat}.log"))
    }

    /// Starts a coordinator, on its previous port.
    pub fn launch(&mut self, seat: usize) {
        let at = &self.seats[seat];
        let mut command = coordinator(binary(at.faults.is_some()), &at.wrapper, self.timing, &self.settings);
        command.args(["--registry", "zookeeper", "--zk", &at.zk, "--namespace", &self.namespace]);
        command.args(["--listen", &format!("{}:{}", at.host, at.port), "--data-dir"]);
        command.arg(self.home.path(&format!("c{seat}")));
        if let Some(faults) = &at.faults {
            command.env("ROSTERD_MUTANTS", faults);
        }
        let log = self.log_of(seat);
        set_aside(&log);
        self.seats[seat].proc = Some(Proc::spawn(&format!("c{seat}"), command, &log));
    }

    /// Waits until a coordinator serves.
    pub async fn serving(&mut self, seat: usize) {
        self.listening(seat).await;
        self.healthy(seat).await;
    }

    /// Waits until it logs that it listens, healthy or not.
    pub async fn listening(&mut self, seat: usize) {
        let log = self.log_of(seat);
        let proc = self.seats[seat].proc.as_mut().unwrap();
        let port = wait(format!("c{seat} to serve"), || {
            let said = std::fs::read_to_string(&log).unwrap();
            if let Some(status) = proc.ended() {
                panic!("c{seat} ended: {status}\n{said}");
            }
            std::future::ready(port_in(&said))
        })
        .await;
        self.seats[seat].port = port;
        self.cluster.port = self.seats.iter().find(|seat| seat.proc.is_some()).unwrap().port;
    }

    pub async fn healthy(&self, seat: usize) {
        wait(format!("a healthy c{seat}"), || async {
            let info =
                self.admin_of(seat).get_server_info(v1::GetServerInfoRequest {}).await.ok()?.into_inner();
            (info.health() == v1::ServerHealth::Serving).then_some(())
        })
        .await;
    }

    pub fn url_of(&self, seat: usize) -> String {
        format!("http://{}:{}", self.seats[seat].host, self.seats[seat].port)
    }

    fn door_of(&self, seat: usize) -> String {
        self.seats[seat].door.clone().unwrap_or_else(|| self.url_of(seat))
    }

    pub fn channel_of(&self, seat: usize) -> Channel {
        Endpoint::from_shared(self.url_of(seat)).unwrap().timeout(PATIENCE).connect_lazy()
    }

    pub fn admin_of(&self, seat: usize) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel_of(seat))
    }

    /// Sends requests to this coordinator from now on.
    pub fn ask(&mut self, seat: usize) {
        self.cluster.port = self.seats[seat].port;
        self.cluster.host = self.seats[seat].host.clone();
    }

    /// kill -9.
    pub fn crash(&mut self, seat: usize) {
        self.seats[seat].proc.take().unwrap().kill();
        let next = self.seats.iter().position(|seat| seat.proc.is_some());
        if let Some(next) = next {
            self.ask(next);
        }
    }

    /// Freezes or resumes these.
    pub fn stand_still(&self, seats: &[usize], still: bool) {
        for proc in seats.iter().filter_map(|seat| self.seats[*seat].proc.as_ref()) {
            if still { proc.freeze() } else { proc.signal(Signal::CONT) }
        }
    }

    /// kill -9 of several, at a moment at which no run of these jobs is in flight: a run in flight keeps its item busy
    /// until a host learns of its end, and scheduled times until then are one misfire.
    pub async fn crash_between_runs(&mut self, seats: &[usize], jobs: &[&str]) {
        let fleet = &*self;
        wait("a moment between runs", || async {
            if fleet.busy_with(jobs).await {
                return None;
            }
            fleet.stand_still(seats, true);
            if !fleet.busy_with(jobs).await {
                return Some(());
            }
            fleet.stand_still(seats, false);
            None
        })
        .await;
        for seat in seats {
            self.crash(*seat);
        }
    }

    async fn busy_with(&self, jobs: &[&str]) -> bool {
        for job in jobs {
            if !self.in_flight(job).await.is_empty() {
                return true;
            }
        }
        false
    }

    // ---- workers

    /// Starts a worker that knows all coordinators, and tries this one first.
    pub fn worker_at(&mut self, first: usize, name: &str, jobs: Vec<Does>) {
        let plan = self.plan_at(first, name, jobs);
        self.start_worker(&plan, &[]);
    }

    /// The address that a worker states.
    pub fn address_of(&self, worker: &str) -> String {
        self.addresses.get(worker).cloned().unwrap_or_else(|| format!("host-{worker}"))
    }

    pub fn plan_at(&self, first: usize, name: &str, jobs: Vec<Does>) -> Plan {
        let urls: Vec<String> =
            (0..self.seats.len()).map(|n| self.door_of((first + n) % self.seats.len())).collect();
        let mut plan = self.plan(name, jobs);
        plan.server = urls.join(",");
        plan.address = self.address_of(name);
        plan
    }

    /// Nine runs that last until the gate opens are in flight, at workers of these names, one at each coordinator in
    /// turn. The workers also do other work.
    pub async fn nine_in_flight(&mut self, names: &[&str], beside: &[Does]) {
        self.apply(job("nine", 9, json!({ "failover": true }))).await;
        let does = [beside, &[runs_until("nine", self.home.path("gate"))]].concat();
        let seats: Vec<usize> = (0..self.seats.len()).collect();
        for (name, seat) in names.iter().zip(seats.iter().cycle()) {
            self.worker_at(*seat, name, does.clone());
        }
        self.assigned("nine", names.len()).await;
        self.hosted_by("nine", names.len(), &seats).await;
        self.trigger("nine").await;
        self.verdict_when("nine runs", |verdict| verdict.of("nine").count() >= 9).await;
    }

    /// The same workers share `tick`, which fires each second.
    pub async fn busy(&mut self, names: &[&str]) {
        self.busy_at(EVERY_SECOND, names).await;
    }

    /// The same, with `tick` at other times.
    pub async fn busy_at(&mut self, cron: &str, names: &[&str]) {
        self.apply(job("tick", 3, json!({ "cron": cron, "failover": true }))).await;
        self.nine_in_flight(names, &[runs_for("tick", 1)]).await;
        self.assigned("tick", names.len()).await;
    }

    /// `tick` goes on.
    pub async fn more_fires(&self, more: usize) {
        let before = fires(&self.verdict()).len();
        self.verdict_when("more fires", |verdict| fires(verdict).len() >= before + more).await;
    }

    /// Every worker's part of `tick` goes on: no worker is still detached.
    pub async fn more_fires_at_all(&self, more: usize) {
        let of = |verdict: &Verdict, item| verdict.of("tick").filter(|run| run.item == item).count();
        let before = [0, 1, 2].map(|item| of(&self.verdict(), item));
        let all =
            |verdict: &Verdict| (0..).zip(before).all(|(item, before)| of(verdict, item) >= before + more);
        self.verdict_when("more fires of each item", all).await;
    }

    /// The gate opens, each of the nine ends, nothing was ever run twice, and nothing is left over.
    pub async fn nine_done(&self) -> Verdict {
        self.home.open("gate");
        self.quiet("nine").await;
        self.nothing_left().await;
        let verdict = self.verdict();
        verdict.is_clean();
        let done: BTreeSet<u32> = verdict.of("nine").filter(|run| run.ended()).map(|run| run.item).collect();
        assert_eq!(done.len(), 9, "\n{}", verdict.table());
        verdict
    }

    /// The same, and each ran once.
    pub async fn nine_done_once(&self) -> Verdict {
        let verdict = self.nine_done().await;
        assert_eq!(verdict.of("nine").count(), 9, "\n{}", verdict.table());
        assert_eq!(verdict.done("nine", "MANUAL").len(), 9, "\n{}", verdict.table());
        let counters = self.counters("nine").await;
        assert_eq!((counters.runs, counters.succeeded, counters.crashed), (9, 9, 0));
        verdict
    }

    /// The accounts of the job's scheduled times so far: taken while it is paused, so that nothing changes however slow
    /// the count is. From now on it fires again.
    pub async fn accounts_so_far(&self, job: &str) -> Accounts {
        self.paused(job).await;
        let accounts = self.accounts(job).await;
        self.resumed(job).await;
        accounts
    }

    pub async fn resumed(&self, job: &str) {
        self.admin().resume_job(v1::ResumeJobRequest { job: job.into() }).await.unwrap();
    }

    /// Checks a paused job: the counters of each item match its workers' logs, run by run, and each run succeeded.
    pub async fn counted_as_written(&self, job: &str) {
        let verdict = self.verdict();
        for item in self.items(job).await {
            let runs = || verdict.of(job).filter(|run| run.item == item.item);
            let written = (runs().count() as u64, runs().filter(|run| run.ended()).count() as u64);
            let counters = item.counters.unwrap();
            let counted = (counters.runs, counters.succeeded);
            assert_eq!((counted, counters.crashed), (written, 0), "{job}/{}\n{}", item.item, verdict.table());
            assert_eq!(counted.0, counted.1, "{job}/{}: not each run has succeeded", item.item);
        }
    }

    // ---- what there is

    /// The coordinators, as seen by the one that is asked.
    pub async fn members(&self) -> Vec<Member> {
        self.try_members().await.unwrap()
    }

    pub async fn try_members(&self) -> Result<Vec<Member>, tonic::Status> {
        let answer = self.admin().list_coordinators(v1::ListCoordinatorsRequest {}).await?;
        Ok(answer.into_inner().coordinators)
    }

    /// The seat of the coordinator with this id; `None`: it is gone.
    pub async fn seat_of(&self, id: &str) -> Option<usize> {
        let members = self.members().await;
        let url = members.into_iter().find(|member| member.coordinator_id == id)?.url;
        (0..self.seats.len()).find(|seat| self.url_of(*seat) == url)
    }

    /// The host of each instance of a job, once all are at live coordinators.
    pub async fn hosts(&self, job: &str) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        for row in self.instances(job).await {
            if let Some(seat) = self.seat_of(&row.host).await {
                found.push((row.instance, seat));
            }
        }
        found
    }

    /// The seat that leads a job.
    pub async fn leader(&self, job: &str) -> usize {
        wait(format!("a leader of {job}"), || async {
            let leader = self.job(job).await.summary?.leader?;
            self.seat_of(&leader).await
        })
        .await
    }

    /// Waits until every instance of a job is hosted by one of these seats.
    pub async fn hosted_by(&self, job: &str, instances: usize, seats: &[usize]) {
        let wanted: BTreeSet<usize> = seats.iter().copied().collect();
        wait(format!("{instances} instances of {job} at {seats:?}"), || async {
            let hosts = self.hosts(job).await;
            (hosts.len() == instances && hosts.iter().all(|(_, seat)| wanted.contains(seat))).then_some(())
        })
        .await;
    }
}

/// How many rounds a test does: `ROUNDS=N` for more than the suite has time for.
pub fn rounds(usual: u32) -> u32 {
    asked("ROUNDS", usual)
}

/// A number from the environment, or the default.
pub fn asked(name: &str, usual: u32) -> u32 {
    let asked = std::env::var(name).ok();
    asked.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?}: write a number")))
}
