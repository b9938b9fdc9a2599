//! Other tools write what they may: servers, the configuration, the nodes of the leader, commands and mirrors. A mirror
//! is never a precondition; a command or a configuration takes effect once it is noticed.

use std::time::Duration;

use rosterd_coordinator::handle::{Operation, Target};
use rosterd_domain::txn::Purpose;
use rosterd_domain::verify::What;
use rosterd_registry::memory::CommitFault;

use super::fixture::*;
use super::races;
use crate::world::World;
use crate::world::handlers::JobPlan;

races! {
    /// A foreign tool writes an invalid configuration: applying the job again repairs it, and it can be removed.
    a_job_that_cannot_be_understood_is_applied_again_or_removed: spoilt;
    /// An older console fires a job by the data TRIGGER of an instance, another by a node: its items run once for each.
    a_trigger_of_an_older_tool_runs_the_items_once: triggered_by_older_tools, [FOREIGN_TRIGGERS_STAY => "scene"];
    /// A console disables an item by a node of its own, and enables it: the next fire obeys.
    an_item_that_another_tool_disables_does_not_fire: switched_by_other_tools, [FOREIGN_SWITCHES_UNTOLD => "scene"];
    /// A tool disables a server, enables it, writes nothing into it (as 2.x did for enabled), and removes it.
    a_server_that_another_tool_disables_is_given_nothing: switched_servers, [DISABLED_OWN_ITEMS => "scene"];
    /// A tool writes another schedule, other parameters and more items: they are in force from then on, and not for the
    /// time before.
    a_schedule_that_another_tool_writes_holds_from_then_on: rewritten, [FOREIGN_CONFIG_UNNOTICED => "scene"];
    /// A tool damages the configuration and writes it again: nothing starts meanwhile, and the job goes on by itself.
    a_configuration_that_another_tool_mends_is_taken_up_again: spoilt_and_mended;
    /// A tool requests a new plan, and removes the flag of one that is due.
    the_flag_of_a_plan_is_not_needed_for_it: flagged, [PLANS_FOLLOW_THE_FLAG => "scene"];
    /// A tool creates the failover mark of an item that has not crashed, and removes that of one that has.
    crashed_items_that_another_tool_makes_and_removes_are_mirrors: crashed_by_hand, [STRANGE_MIRRORS_STAY => "scene"];
    /// A tool removes the leader's node: another election, and no duplicate run.
    a_leader_that_another_tool_removes_is_elected_again: deposed;
    /// A tool removes the `running` node of an item: the record still has the run.
    a_mirror_of_a_run_that_another_tool_removes_frees_nothing: unmarked, [BUSY_IS_FREE => "one_runner"];
    /// A tool marks an item as running, owned, and failed over elsewhere, and as skipped, and a plan as in progress:
    /// the records and the assignment differ, and decide.
    mirrors_that_another_tool_writes_decide_nothing: marked_by_hand;
    /// A tool marks the items of a held fire as started and completed: no worker was called, and nothing starts.
    marks_of_a_held_fire_that_another_tool_makes_release_nothing: released_by_hand;
    /// A tool removes the instance of a worker that has two jobs: it gives that job up, and goes on with the other.
    an_instance_that_another_tool_removes_leaves_its_job_alone: shut_down_by_hand;
    /// A tool removes a whole job, node by node: no run of it starts, and it is not written again.
    a_job_that_another_tool_removes_has_gone: removed_by_hand;
}

/// A tool writes, or removes, a node of a job.
fn tool(world: &World, job: &str, path: &str, data: Option<&str>) {
    let done = world.store.foreign(&name(job), path, data.map(str::as_bytes), false);
    want(world, done, &format!("{path} is written"));
}

fn there(world: &World, job: &str, path: &str) -> bool {
    world.store.view(|view| view.dump(&name(job)).is_some_and(|nodes| nodes.contains_key(path)))
}

/// The contents of `config`, with other values of some fields.
fn config_with(world: &World, job: &str, fields: &[(&str, serde_json::Value)]) -> String {
    let text = world.store.view(|view| view.dump(&name(job))?.remove("/config"));
    let text = text.map(|node| node.data).unwrap_or_else(|| b"{}"[..].into());
    let mut config: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    for (field, value) in fields {
        config[*field] = value.clone();
    }
    config.to_string()
}

/// How many workers have items.
fn owners(world: &World, job: &str, items: u32) -> usize {
    let owners: std::collections::BTreeSet<_> =
        (0..items).filter_map(|item| owner(world, job, item)).collect();
    owners.len()
}

fn switched_servers() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(4, 50, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        let path = format!("/servers/{}", instance(&world, "short", 0).address());
        for enabled in [Some("ENABLED"), Some(""), None] {
            tool(&world, "short", &path, Some("DISABLED"));
            until(&mut world, "the other has all items", |world| owners(world, "short", 4) == 1).await;
            world.pass(secs(1)).await;
            let before = starts(&world, "short", "NORMAL_TRIGGER");
            world.pass(secs(4)).await;
            want(&world, (0..4).all(|item| owner(&world, "short", item) == Some(1)), "it has them");
            want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= before + 4, "they are run");
            tool(&world, "short", &path, enabled);
            until(&mut world, "both have items again", |world| owners(world, "short", 4) == 2).await;
        }
        world
    })
}

fn rewritten() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 50, 50)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        before_due(&mut world, 50, secs(20)).await;
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        let at = world.observer.lock().now();
        let fields = [
            ("cron", "0/1 * * * * ?".into()),
            ("shardingTotalCount", 3.into()),
            ("shardingItemParameters", "2=c".into()),
        ];
        let config = config_with(&world, "short", &fields);
        tool(&world, "short", "/config", Some(&config));
        world.pass(secs(5)).await;
        let begun: Vec<_> = world.log.lines().into_iter().filter(|line| line.what == What::Start).collect();
        let (old, new): (Vec<_>, Vec<_>) = begun.iter().partition(|line| line.fire <= at.0);
        want(&world, old.len() == before, "nothing is run for the time before");
        want(&world, (0..3).all(|item| new.iter().any(|line| line.item == item)), "each of the items is run");
        // The same again, and the item count lower.
        let fewer =
            config_with(&world, "short", &[("shardingTotalCount", 1.into()), ("disabled", true.into())]);
        tool(&world, "short", "/config", Some(&fewer));
        world.pass(secs(1)).await;
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(4)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") == before, "it is disabled");
        let enabled = config_with(&world, "short", &[("disabled", false.into())]);
        tool(&world, "short", "/config", Some(&enabled));
        world.pass(secs(3)).await;
        let after = starts(&world, "short", "NORMAL_TRIGGER");
        want(&world, (before + 1..before + 5).contains(&after), "what it missed is not run");
        world
    })
}

fn spoilt_and_mended() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 50, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        let good = config_with(&world, "short", &[]);
        for bad in ["{", "", "[]", r#"{"cron":"no","shardingTotalCount":2}"#] {
            tool(&world, "short", "/config", Some(bad));
            world.pass(secs(1)).await;
            let before = starts(&world, "short", "NORMAL_TRIGGER");
            world.pass(secs(4)).await;
            want(&world, starts(&world, "short", "NORMAL_TRIGGER") == before, "nothing begins");
            tool(&world, "short", "/config", Some(&good));
            let begins = |world: &World| starts(world, "short", "NORMAL_TRIGGER") > before + 1;
            until(&mut world, "it goes on", begins).await;
        }
        world
    })
}

fn flagged() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 50, 5)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(1)).await;
        let path = "/leader/sharding/necessary";
        tool(&world, "short", path, Some(""));
        until(&mut world, "it is taken down", |world| !there(world, "short", path)).await;
        // The plan that is due for a new instance is refused once; the flag is removed before the retry.
        let leads = leader(&world, "short").unwrap_or(0);
        slow(&world, &format!("c{leads}"), Purpose::Assign, millis(800), 1);
        world.start_worker(1);
        until(&mut world, "a plan is under way", |world| world.store_faults.holds() == 0).await;
        tool(&world, "short", path, None);
        at_work(&mut world, "short", 2).await;
        world
    })
}

fn crashed_by_hand() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(1, 20_000, 55)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        world.pass(secs(1)).await;
        let path = "/leader/failover/items/0";
        tool(&world, "again", path, Some(""));
        until(&mut world, "it is deleted", |world| !there(world, "again", path)).await;
        want(&world, !runs(&world, "again"), "nothing is run for it");
        ask(&world, 0, trigger("again"));
        until(&mut world, "it runs", |world| starts(world, "again", "MANUAL") == 1).await;
        tool(&world, "again", path, Some(""));
        until(&mut world, "it is deleted", |world| !there(world, "again", path)).await;
        lose_worker(&mut world, 0);
        let waits =
            |world: &World| record(world, "again", 0).is_some_and(|record| record.crashed().is_some());
        until(&mut world, "its run waits for a worker", waits).await;
        tool(&world, "again", path, None);
        world.pass(secs(1)).await;
        start(&mut world, 1..2).await;
        until(&mut world, "it is run again", |world| starts(world, "again", "FAILOVER") == 1).await;
        world
    })
}

fn deposed() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 50, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        for _ in 0..3 {
            let before = starts(&world, "short", "NORMAL_TRIGGER");
            tool(&world, "short", "/leader/election/instance", None);
            until(&mut world, "there is a leader", |world| leader(world, "short").is_some()).await;
            world.pass(secs(4)).await;
            want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= before + 2, "its fires go on");
        }
        world
    })
}

fn unmarked() -> Faults {
    scene(async || {
        let mut world = both_run(again(2, 6000, 3)).await;
        for item in 0..2 {
            let path = format!("/sharding/{item}/running");
            let token = record(&world, "again", item).map_or(Default::default(), |record| record.token);
            world.observer.lock().unmarked.insert((name("again"), rosterd_domain::id::Item(item), token));
            tool(&world, "again", &path, None);
        }
        let before = world.log.lines().iter().filter(|line| line.what == What::Start).count();
        world.pass(secs(4)).await;
        let after = world.log.lines().iter().filter(|line| line.what == What::Start).count();
        want(&world, before == after && runs(&world, "again"), "no run begins beside one that goes on");
        world.pass(secs(8)).await;
        want(&world, starts(&world, "again", "MANUAL") == 2, "nothing is run twice");
        world
    })
}

fn marked_by_hand() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 50, 2)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        before_due(&mut world, 2, secs(1)).await;
        let nobody = Some("10.9.9.9@-@nobody");
        let marks = ["running", "failover", "misfire", "instance"].map(|mark| format!("/sharding/0/{mark}"));
        for path in &marks {
            tool(&world, "short", path, nobody);
        }
        tool(&world, "short", "/leader/sharding/processing", Some(""));
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(6)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") == before + 6, "each fire is run");
        let others = ["MISFIRE", "FAILOVER", "MANUAL"].map(|source| starts(&world, "short", source));
        want(&world, others == [0; 3], "and nothing else is");
        world.start_worker(1);
        at_work(&mut world, "short", 2).await;
        // The newly elected leader writes the owners again.
        tool(&world, "short", &marks[1], None);
        tool(&world, "short", &marks[2], None);
        tool(&world, "short", "/leader/election/instance", None);
        world.pass(secs(5)).await;
        world
    })
}

fn released_by_hand() -> Faults {
    scene(async || {
        let held = JobPlan { held: Some("run"), answer: (1, 1), ..again(2, 300, 20) };
        let mut world = small_world(2, &[0, 1], vec![held]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        before_due(&mut world, 20, secs(1)).await;
        lose(&world, Purpose::Announce, CommitFault::LoseBefore, 10_000);
        let held =
            |world: &World| (0..2).all(|item| running(world, "again", item).is_some_and(|run| run.held));
        until(&mut world, "both are held", held).await;
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        for (item, stage) in [0, 1].into_iter().flat_map(|item| [(item, "started"), (item, "completed")]) {
            tool(&world, "again", &format!("/guarantee/{stage}/{item}"), Some(""));
        }
        world.pass(secs(2)).await;
        want(&world, held(&world), "they are held");
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") == before, "and nothing has begun");
        world.store_faults.release_held();
        let begins = |world: &World| starts(world, "again", "NORMAL_TRIGGER") == before + 2;
        until(&mut world, "both begin once a worker was asked", begins).await;
        world
    })
}

fn shut_down_by_hand() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 50, 2), again(2, 50, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        at_work(&mut world, "again", 2).await;
        let path = format!("/instances/{}", instance(&world, "short", 0));
        tool(&world, "short", &path, None);
        until(&mut world, "the other has all its items", |world| owners(world, "short", 2) == 1).await;
        let before = ["short", "again"].map(|job| starts(&world, job, "NORMAL_TRIGGER"));
        world.pass(secs(6)).await;
        want(&world, owner(&world, "short", 0) == Some(1), "it has them");
        want(&world, !there(&world, "short", &path), "and no coordinator restores the instance");
        want(&world, owners(&world, "again", 2) == 2, "of another job it has its items");
        let after = ["short", "again"].map(|job| starts(&world, job, "NORMAL_TRIGGER"));
        want(&world, (0..2).all(|job| after[job] >= before[job] + 4), "both jobs go on");
        world
    })
}

fn removed_by_hand() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 50, 2), again(2, 50, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        at_work(&mut world, "again", 2).await;
        world.pass(secs(4)).await;
        before_due(&mut world, 2, secs(1)).await;
        let nodes = world.store.view(|view| view.dump(&name("short"))).unwrap_or_default();
        // The nodes below a node come after it.
        for path in nodes.keys().rev().filter(|path| !path.is_empty()) {
            tool(&world, "short", path, None);
        }
        tool(&world, "short", "", None);
        let before = ["short", "again"].map(|job| starts(&world, job, "NORMAL_TRIGGER"));
        world.pass(secs(6)).await;
        let after = ["short", "again"].map(|job| starts(&world, job, "NORMAL_TRIGGER"));
        want(&world, after[0] == before[0], "nothing of it begins");
        want(&world, after[1] >= before[1] + 4, "another job goes on");
        want(&world, world.store.view(|view| view.dump(&name("short"))).is_none(), "it is removed");
        world
    })
}

fn triggered_by_older_tools() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0], vec![short(2, 50, 120)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        let id = instance(&world, "short", 0);
        let ways = [(format!("/instances/{id}"), &b"TRIGGER"[..]), (format!("/trigger/{id}"), &b""[..])];
        for (times, (path, data)) in (1..).zip(&ways) {
            want(&world, world.store.foreign(&name("short"), path, Some(data), false), "it is written");
            world.pass(secs(6)).await;
            let ran = starts(&world, "short", "MANUAL");
            want(&world, ran == 2 * times, "each item runs once for each command");
        }
        ask(&world, 1, disable("short", Target::Job));
        world.pass(secs(1)).await;
        world.store.foreign(&name("short"), &ways[0].0, Some(ways[0].1), false);
        world.pass(secs(3)).await;
        want(&world, starts(&world, "short", "MANUAL") == 4, "of a disabled job nothing runs");
        ask(&world, 1, enable("short", Target::Job));
        world.pass(secs(3)).await;
        want(&world, starts(&world, "short", "MANUAL") == 4, "nor once it is enabled again");
        world
    })
}

fn switched_by_other_tools() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0], vec![short(2, 50, 3)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(4)).await;
        let path = "/sharding/1/disabled";
        before_due(&mut world, 3, Duration::from_millis(500)).await;
        want(&world, world.store.foreign(&name("short"), path, Some(b""), false), "it is written");
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(2)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") == before + 1, "the other item fires alone");
        before_due(&mut world, 3, Duration::from_millis(500)).await;
        want(&world, world.store.foreign(&name("short"), path, None, false), "it is deleted");
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(2)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") == before + 2, "both fire again");
        world
    })
}

fn spoilt() -> Faults {
    scene(async || {
        let plan = short(2, 100, 3);
        let mut world = small_world(2, &[0, 1], vec![plan.clone()]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        let spoil = |world: &World| world.store.foreign(&name("short"), "/config", Some(b"{"), false);
        let answers = |world: &World, what| covered(world, what);
        want(&world, spoil(&world), "it is spoilt");
        world.pass(secs(4)).await;
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        ask(&world, 0, trigger("short"));
        ask(&world, 0, Operation::Remove { job: name("short"), cancel: false });
        world.pass(secs(4)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") == before, "nothing begins");
        want(&world, answers(&world, "operation Remove: CONFIG_DAMAGED") == 1, "what runs is not removed");
        ask(&world, 1, apply(&plan));
        until(&mut world, "it goes on", |world| starts(world, "short", "NORMAL_TRIGGER") > before + 1).await;
        want(&world, spoil(&world), "it is spoilt again");
        world.pass(secs(4)).await;
        ask(&world, 0, Operation::Remove { job: name("short"), cancel: true });
        until(&mut world, "it is removed", |world| covered(world, "operation Remove: done") == 1).await;
        ask(&world, 1, apply(&plan));
        world
    })
}
