//! Short helpers for frequent writes of the tests.

use std::sync::Arc;

use rosterd_domain::id::*;
use rosterd_domain::item::Record;
use rosterd_domain::snapshot::{Announced, Attachment, Command, InstanceNode, Snapshot, TriggerNode};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Guard, Purpose, Txn, Write};
use rosterd_registry::Registry;

/// A directory that is suitable for a store: private to its owner.
pub fn dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap()
}

pub fn namespace() -> Namespace {
    Namespace::new("ns").unwrap()
}

pub fn job(name: &str) -> JobName {
    JobName::new(name).unwrap()
}

/// The job of most tests.
pub fn j() -> JobName {
    job("job")
}

pub fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

pub fn coordinator(name: &str) -> CoordinatorId {
    CoordinatorId::new(name).unwrap()
}

pub fn server() -> ServerAddress {
    ServerAddress::new("10.0.0.7").unwrap()
}

pub fn instance(unique: &str) -> InstanceId {
    InstanceId::from_parts(&server(), &worker(unique)).unwrap()
}

pub fn bytes(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

pub fn at(second: i64) -> Time {
    Time::from_seconds(second)
}

pub fn command_name() -> CommandName {
    CommandName::new("cancel-0").unwrap()
}

pub fn command() -> Write {
    let command = Command::Cancel { item: Item(0), token: Token(7) };
    Write::Command { job: j(), name: command_name(), command }
}

pub fn create(name: &JobName, incarnation: &str) -> Write {
    Write::CreateJob {
        job: name.clone(),
        incarnation: incarnation.into(),
        handler_type: "app.Handler".into(),
        config: "{}".into(),
        policy: "p0".into(),
        assignment: bytes("a0"),
    }
}

/// Prepares a job under a separate name.
pub fn prepare(job: &JobName, name: &str) -> Write {
    Write::PrepareJob {
        job: job.clone(),
        name: name.into(),
        handler_type: "app.Handler".into(),
        config: "{}".into(),
        policy: "p0".into(),
        assignment: bytes("a0"),
    }
}

pub fn reveal(job: &JobName, name: &str, incarnation: &str) -> Write {
    Write::RevealJob { job: job.clone(), name: name.into(), incarnation: incarnation.into() }
}

/// An announcement of the fire of that second.
pub fn announced(second: u64, instance: Option<InstanceId>) -> Announced {
    let fire = at(second as i64);
    Announced { fire, callback: format!("callback-{second}"), answered: instance.is_none(), instance }
}

pub fn create_new(name: &JobName, incarnation: &str) -> Txn {
    txn([Guard::NoJob(name.clone())], [create(name, incarnation)])
}

pub fn record(token: u64) -> Record {
    Record::new(Token(token), at(10))
}

pub fn write_record(item: u32, expect: Option<u64>, token: u64) -> Write {
    let record = Arc::new(record(token));
    Write::Record { job: j(), item: Item(item), expect: expect.map(Version), record }
}

pub fn assign(expect: u64, data: &str) -> Write {
    Write::Assignment { job: j(), expect: Generation(expect), data: bytes(data) }
}

pub fn elect(expect: u64) -> Write {
    Write::Elect { job: j(), coordinator: coordinator("c@-@1"), expect: Epoch(expect) }
}

pub fn write_instance(unique: &str) -> Write {
    let node = InstanceNode {
        address: server(),
        slots: 4,
        client: "rust/1".into(),
        labels: Default::default(),
        host: coordinator("c"),
    };
    Write::Instance { job: j(), instance: instance(unique), node: Box::new(node) }
}

pub fn attachment(stream: u64) -> Attachment {
    Attachment {
        host: coordinator("c"),
        session: "s".into(),
        stream: StreamNumber(stream),
        draining: false,
        leave_grace_ms: None,
        resume_key: "k".into(),
        principal: None,
        address: server(),
        lease_ms: 5000,
    }
}

pub fn attach(unique: &str, expect: Option<u64>, stream: u64) -> Write {
    let node = Box::new(attachment(stream));
    Write::Attachment { worker: worker(unique), expect: expect.map(Version), node }
}

pub fn trigger(item: u32, id: &str) -> Write {
    let node = TriggerNode { id: TriggerId::new(id).unwrap(), at: at(20) };
    Write::Trigger { job: j(), item: Item(item), node }
}

pub fn running(item: u32, unique: Option<&str>) -> Write {
    Write::Running { job: j(), item: Item(item), instance: unique.map(instance) }
}

pub fn txn(guards: impl IntoIterator<Item = Guard>, writes: impl IntoIterator<Item = Write>) -> Txn {
    let mut txn = Txn::new(Purpose::Other);
    guards.into_iter().for_each(|guard| txn.guard(guard));
    writes.into_iter().for_each(|write| txn.write(write));
    txn
}

/// Commits writes that must succeed.
pub async fn put(registry: &dyn Registry, writes: impl IntoIterator<Item = Write>) -> Revision {
    committed(registry.commit(txn([], writes)).await)
}

pub fn committed(commit: Commit) -> Revision {
    match commit {
        Commit::Committed(revision) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

/// Commits a transaction that must be refused, and returns the text.
pub async fn refused(registry: &dyn Registry, txn: Txn) -> String {
    match registry.commit(txn.clone()).await {
        Commit::Conflict(text) => text,
        other => panic!("{txn:?} was not refused: {other:?}"),
    }
}

pub async fn snapshot(registry: &dyn Registry) -> Snapshot {
    registry.snapshot(&j()).await.unwrap().unwrap()
}

/// A job's nodes as lines `path = data`, ephemeral ones marked.
pub async fn dump(registry: &dyn Registry, name: &JobName) -> Vec<String> {
    let nodes = registry.dump(name).await.unwrap().unwrap_or_default();
    let line = |(path, node): (String, rosterd_registry::DumpNode)| {
        let mark = if node.ephemeral { " (ephemeral)" } else { "" };
        format!("{path} = {}{mark}", String::from_utf8_lossy(&node.data).escape_debug())
    };
    nodes.into_iter().map(line).collect()
}

/// The lines of `after` that are not in `before`.
pub fn added(before: &[String], after: &[String]) -> Vec<String> {
    after.iter().filter(|line| !before.contains(line)).cloned().collect()
}
