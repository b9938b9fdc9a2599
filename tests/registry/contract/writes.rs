use rosterd_domain::id::{Epoch, Generation, Item, Token, Version};
use rosterd_domain::snapshot::{Announced, ForeignTrigger, Stage};
use rosterd_domain::txn::{Guard, Write};

use crate::backend::Backend;
use crate::words::*;

pub async fn a_new_job_has_these_nodes(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    let expected = [
        "/config = {}",
        "/guarantee = ",
        "/guarantee/completed = ",
        "/guarantee/started = ",
        "/instances = ",
        "/leader = ",
        "/leader/election = ",
        "/leader/failover = ",
        "/leader/failover/items = ",
        "/leader/sharding = ",
        "/offset = ",
        "/rosterd = ",
        "/rosterd/commands = ",
        "/rosterd/incarnation = ",
        "/rosterd/incarnation/i1 = ",
        "/rosterd/instances = ",
        "/rosterd/policy = p0",
        "/rosterd/triggers = ",
        "/servers = ",
        "/sharding = a0",
        "/trigger = ",
    ];
    assert_eq!(dump(registry, &j()).await, expected);
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!(nodes.incarnation.as_deref(), Some("i1"));
    assert_eq!((&*nodes.handler_type, &*nodes.assignment), ("app.Handler", &b"a0"[..]));
    assert_eq!((nodes.epoch, nodes.generation, nodes.necessary), (Epoch(0), Generation(0), None));
    let config = nodes.config.unwrap();
    assert_eq!((&*config.data, config.version), (&b"{}"[..], Version(0)));
    refused(registry, txn([], [create(&j(), "i2")])).await;
    refused(registry, txn([], [create(&job("bad"), "no/name")])).await;
}

/// Each write, and exactly the nodes that it creates or changes.
pub async fn each_write_has_its_form(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 7)]).await;
    let (job, item, id) = (j(), Item(0), instance("w"));
    let table: Vec<(Write, &[&str])> = vec![
        (Write::Config(j(), "{2}".into()), &["/config = {2}"]),
        (Write::Policy(j(), "p1".into()), &["/rosterd/policy = p1"]),
        (Write::HandlerType(j(), "h".into()), &[]),
        (Write::Paused(j(), true), &["/rosterd/paused = "]),
        (assign(0, "a1"), &["/sharding = a1"]),
        (Write::RaiseNecessary(j()), &["/leader/sharding/necessary = "]),
        (elect(0), &["/leader/election = c@-@1", "/leader/election/instance = c@-@1 (ephemeral)"]),
        (
            write_record(1, None, 8),
            &[r#"/sharding/1 = {\"token\":8,\"last_fire\":\"1970-01-01T00:00:10Z\"}"#],
        ),
        (Write::Offset { job: job.clone(), item, data: bytes("o") }, &["/offset/0 = o"]),
        (running(0, Some("w")), &["/sharding/0/running = 10.0.0.7@-@w (ephemeral)"]),
        (
            Write::Failover { job: job.clone(), item, instance: Some(id.clone()) },
            &["/sharding/0/failover = 10.0.0.7@-@w (ephemeral)"],
        ),
        (Write::Misfire { job: job.clone(), item, marked: true }, &["/sharding/0/misfire = "]),
        (Write::ItemDisabled { job: job.clone(), item, disabled: true }, &["/sharding/0/disabled = "]),
        (
            Write::ItemInstance { job: job.clone(), item, instance: Some(id.clone()) },
            &["/sharding/0/instance = 10.0.0.7@-@w"],
        ),
        (
            Write::FailoverItem { job: job.clone(), item, crashed: Some((at(20), Token(7))) },
            &[r#"/leader/failover/items/0 = {\"fire\":\"1970-01-01T00:00:20Z\",\"token\":7}"#],
        ),
        (Write::Started { job: job.clone(), item, present: true }, &["/guarantee/started/0 = "]),
        (Write::Completed { job: job.clone(), item, present: true }, &["/guarantee/completed/0 = "]),
        (
            Write::Server { job: job.clone(), server: server(), enabled: None },
            &["/servers/10.0.0.7 = ENABLED"],
        ),
        (
            write_instance("w"),
            &[
                "/instances/10.0.0.7@-@w = jobInstanceId: 10.0.0.7@-@w\\nserverIp: 10.0.0.7\\n (ephemeral)",
                r#"/rosterd/instances/10.0.0.7@-@w = {\"address\":\"10.0.0.7\",\"slots\":4,\"client\":\"rust/1\",\"host\":\"c\"} (ephemeral)"#,
            ],
        ),
        (command(), &[r#"/rosterd/commands/cancel-0 = {\"cancel\":{\"item\":0,\"token\":7}}"#]),
        (trigger(0, "t1"), &[r#"/rosterd/triggers/0 = {\"id\":\"t1\",\"at\":\"1970-01-01T00:00:20Z\"}"#]),
    ];
    for (write, expected) in table {
        let before = dump(registry, &j()).await;
        put(registry, [write.clone()]).await;
        assert_eq!(added(&before, &dump(registry, &j()).await), expected, "{write:?}");
    }
    assert_eq!(&*registry.job(&j()).await.unwrap().unwrap().handler_type, "h");
    each_write_is_taken_back(registry).await;
}

async fn each_write_is_taken_back(registry: &dyn rosterd_registry::Registry) {
    let (job, item) = (j(), Item(0));
    let table: Vec<(Write, &[&str])> = vec![
        (Write::Paused(j(), false), &["/rosterd/paused"]),
        (Write::ClearNecessary(j(), Version(0)), &["/leader/sharding/necessary"]),
        (Write::Abdicate { job: j(), expect: Epoch(1) }, &["/leader/election/instance"]),
        (running(0, None), &["/sharding/0/running"]),
        (Write::Failover { job: job.clone(), item, instance: None }, &["/sharding/0/failover"]),
        (Write::Misfire { job: job.clone(), item, marked: false }, &["/sharding/0/misfire"]),
        (Write::ItemDisabled { job: job.clone(), item, disabled: false }, &["/sharding/0/disabled"]),
        (Write::ItemInstance { job: job.clone(), item, instance: None }, &["/sharding/0/instance"]),
        (Write::FailoverItem { job: job.clone(), item, crashed: None }, &["/leader/failover/items/0"]),
        (Write::Started { job: job.clone(), item, present: false }, &["/guarantee/started/0"]),
        (Write::Completed { job: job.clone(), item, present: false }, &["/guarantee/completed/0"]),
        (Write::RemoveServer(j(), server()), &["/servers/10.0.0.7"]),
        (
            Write::RemoveInstance(j(), instance("w")),
            &["/instances/10.0.0.7@-@w", "/rosterd/instances/10.0.0.7@-@w"],
        ),
        (Write::RemoveCommand(j(), command_name()), &["/rosterd/commands/cancel-0"]),
        (Write::RemoveTrigger(j(), item), &["/rosterd/triggers/0"]),
        (
            Write::ClearForeignTrigger {
                job: j(),
                instance: instance("w"),
                how: ForeignTrigger { node: true, data: None },
            },
            &[],
        ),
    ];
    for (write, expected) in table {
        let before = registry.dump(&j()).await.unwrap().unwrap();
        put(registry, [write.clone()]).await;
        let after = registry.dump(&j()).await.unwrap().unwrap();
        let gone: Vec<&str> =
            before.keys().filter(|path| !after.contains_key(*path)).map(String::as_str).collect();
        assert_eq!(gone, expected, "{write:?}");
        assert!(after.iter().all(|(path, node)| before.get(path) == Some(node)), "{write:?}");
    }
}

pub async fn records_are_written_at_the_version_read(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 7)]).await;
    refused(registry, txn([], [write_record(0, None, 8)])).await;
    put(registry, [write_record(0, Some(0), 8)]).await;
    refused(registry, txn([], [write_record(0, Some(0), 9)])).await;
    refused(registry, txn([], [write_record(1, Some(0), 9)])).await;
    let records = snapshot(registry).await.records;
    assert_eq!(records.into_iter().collect::<Vec<_>>(), [(Item(0), (Version(1), record(8).into()))]);
}

pub async fn mirrors_are_not_a_precondition(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 7)]).await;
    let (job, item) = (j(), Item(0));
    let mirrors = |there: bool| {
        let instance = there.then(|| instance("w"));
        [
            Write::Running { job: job.clone(), item, instance: instance.clone() },
            Write::Failover { job: job.clone(), item, instance: instance.clone() },
            Write::Misfire { job: job.clone(), item, marked: there },
            Write::ItemDisabled { job: job.clone(), item, disabled: there },
            Write::ItemInstance { job: job.clone(), item, instance },
            Write::FailoverItem { job: job.clone(), item, crashed: there.then_some((at(1), Token(1))) },
            Write::Started { job: job.clone(), item, present: there },
            Write::Completed { job: job.clone(), item, present: there },
        ]
    };
    let before = dump(registry, &j()).await;
    for there in [false, true, true] {
        put(registry, mirrors(there)).await;
    }
    assert_eq!(added(&before, &dump(registry, &j()).await).len(), 8);
    for _ in 0..2 {
        put(registry, mirrors(false)).await;
    }
    assert_eq!(dump(registry, &j()).await, before);
}

/// Together with their marks, which are below it; neither hides the other.
pub async fn what_was_announced_is_read(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 7)]).await;
    assert!(registry.job(&j()).await.unwrap().unwrap().announced.is_empty());
    let announced =
        |answered| Announced { fire: at(10), callback: "c1".into(), instance: Some(instance("w")), answered };
    let write =
        |stage, answered| Write::Announced { job: j(), stage, announced: Box::new(announced(answered)) };
    let mark = |present| Write::Completed { job: j(), item: Item(0), present };
    let before = dump(registry, &j()).await;
    put(registry, [mark(true), write(Stage::Completed, false)]).await;
    let json = r#"/guarantee/completed = {\"fire\":\"1970-01-01T00:00:10Z\",\"callback\":\"c1\",\"instance\":\"10.0.0.7@-@w\",\"answered\":false}"#;
    assert_eq!(added(&before, &dump(registry, &j()).await), [json, "/guarantee/completed/0 = "]);
    put(registry, [mark(false), write(Stage::Started, false), write(Stage::Completed, true)]).await;
    let read = || [(Stage::Started, announced(false)), (Stage::Completed, announced(true))];
    assert_eq!(registry.job(&j()).await.unwrap().unwrap().announced, read().into());
    assert_eq!(snapshot(registry).await.nodes.announced, read().into());
}

/// Otherwise the item would have a node without a record, and its record could never be created.
pub async fn a_mirror_of_an_item_without_record_is_dropped(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    let before = dump(registry, &j()).await;
    put(registry, [running(3, Some("w")), running(3, None)]).await;
    assert_eq!(dump(registry, &j()).await, before);
    put(registry, [write_record(3, None, 7), running(3, Some("w"))]).await;
    assert_eq!(added(&before, &dump(registry, &j()).await).len(), 2);
}

pub async fn versions_count(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    for n in 0..3 {
        put(registry, [assign(n, "a"), Write::Config(j(), "{}".into()), Write::RaiseNecessary(j())]).await;
        put(registry, [elect(n)]).await;
        put(registry, [Write::Abdicate { job: j(), expect: Epoch(n + 1) }]).await;
    }
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!((nodes.generation, nodes.epoch), (Generation(3), Epoch(3)));
    assert_eq!((nodes.config.unwrap().version, nodes.necessary), (Version(3), Some(Version(2))));
    refused(registry, txn([], [Write::ClearNecessary(j(), Version(1))])).await;
    put(registry, [Write::ClearNecessary(j(), Version(2))]).await;
    refused(registry, txn([], [Write::ClearNecessary(j(), Version(2))])).await;
}

pub async fn servers_keep_disabled(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    let write = |enabled| Write::Server { job: j(), server: server(), enabled };
    for (enabled, expected) in
        [(None, true), (Some(false), false), (None, false), (Some(true), true), (None, true)]
    {
        put(registry, [write(enabled)]).await;
        let nodes = registry.job(&j()).await.unwrap().unwrap();
        assert_eq!(nodes.servers.into_iter().collect::<Vec<_>>(), [(server(), expected)]);
    }
}

pub async fn leadership_is_a_lock(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    put(registry, [elect(0)]).await;
    refused(registry, txn([], [elect(0)])).await;
    refused(registry, txn([], [elect(1)])).await;
    refused(registry, txn([], [Write::Abdicate { job: j(), expect: Epoch(0) }])).await;
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!((nodes.leader, nodes.epoch), (Some((coordinator("c@-@1"), true)), Epoch(1)));
    put(registry, [Write::Abdicate { job: j(), expect: Epoch(1) }]).await;
    assert_eq!(registry.job(&j()).await.unwrap().unwrap().leader, None);
    put(registry, [elect(1)]).await;
}

pub async fn a_trigger_waits_once(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    put(registry, [trigger(0, "t1"), trigger(1, "t1")]).await;
    refused(registry, txn([], [trigger(1, "t2")])).await;
    let triggers = registry.job(&j()).await.unwrap().unwrap().triggers;
    assert_eq!(triggers.keys().copied().collect::<Vec<_>>(), [Item(0), Item(1)]);
    assert_eq!((triggers[&Item(1)].id.as_str(), triggers[&Item(1)].at), ("t1", at(20)));
    put(registry, [Write::RemoveTrigger(j(), Item(1)), trigger(1, "t2")]).await;
}

pub async fn attachments_are_fenced(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [attach("w", None, 1), attach("v", None, 1)]).await;
    refused(registry, txn([], [attach("w", None, 2)])).await;
    put(registry, [attach("w", Some(0), 2)]).await;
    refused(registry, txn([], [attach("w", Some(0), 3)])).await;
    let remove = |expect| Write::RemoveAttachment { worker: worker("w"), expect: Version(expect) };
    refused(registry, txn([], [remove(0)])).await;
    let read = registry.attachment(&worker("w")).await.unwrap();
    assert_eq!(read, Some((Version(1), attachment(2))));
    put(registry, [remove(1)]).await;
    assert_eq!(registry.attachment(&worker("w")).await.unwrap(), None);
    let all = registry.attachments().await.unwrap();
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [(worker("v"), (Version(0), attachment(1)))]);
}

pub async fn what_was_written_is_read(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    let node = Write::Coordinator { id: coordinator("c@-@1"), data: "here".into() };
    put(registry, [create(&j(), "i1"), create(&job("b"), "i2"), node]).await;
    put(registry, [write_instance("w"), Write::Paused(j(), true), elect(0)]).await;
    put(registry, [Write::Offset { job: j(), item: Item(2), data: bytes("o") }]).await;
    let crashed = Write::FailoverItem { job: j(), item: Item(5), crashed: Some((at(1), Token(3))) };
    put(registry, [crashed]).await;
    assert_eq!(registry.jobs().await.unwrap().into_iter().collect::<Vec<_>>(), [job("b"), j()]);
    let coordinators = registry.coordinators().await.unwrap();
    assert_eq!(coordinators.into_iter().collect::<Vec<_>>(), [(coordinator("c@-@1"), "here".into())]);
    assert_eq!(registry.offset(&j(), Item(2)).await.unwrap().as_deref(), Some(&b"o"[..]));
    assert_eq!(registry.offset(&j(), Item(0)).await.unwrap(), None);
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert!(nodes.paused && nodes.foreign_triggers.is_empty());
    assert_eq!(nodes.failover.into_iter().collect::<Vec<_>>(), [Item(5)]);
    let seen = &nodes.instances[&instance("w")];
    assert_eq!((seen.mine, seen.node.as_ref().unwrap().slots), (true, 4));
    assert_eq!(registry.job(&job("none")).await.unwrap(), None);
    assert_eq!(registry.snapshot(&job("none")).await.unwrap(), None);
    assert_eq!(registry.dump(&job("none")).await.unwrap(), None);
}

pub async fn nothing_is_written_below_a_job_that_is_not_there(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    for write in [
        write_record(0, None, 1),
        write_instance("w"),
        trigger(0, "t"),
        elect(0),
        assign(0, "a"),
        Write::RaiseNecessary(j()),
        Write::Config(j(), "{}".into()),
        Write::Policy(j(), "p".into()),
        Write::Paused(j(), true),
        Write::Server { job: j(), server: server(), enabled: None },
        Write::Server { job: j(), server: server(), enabled: Some(true) },
        Write::Offset { job: j(), item: Item(0), data: bytes("o") },
    ] {
        refused(registry, txn([], [write])).await;
    }
    put(registry, [running(0, Some("w")), Write::Started { job: j(), item: Item(0), present: true }]).await;
    committed(registry.commit(txn([Guard::NoJob(j())], [])).await);
}
