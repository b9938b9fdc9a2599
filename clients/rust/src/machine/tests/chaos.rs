//! Seeded disorder: random frames, losses, sleeps and ends of user code. The rules always hold.

use std::collections::BTreeSet;

use super::*;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The state of the world outside of the machine.
#[derive(Default)]
struct World {
    in_code: BTreeSet<RunId>,
    not_before: BTreeMap<RunId, (Duration, bool)>,
    started: BTreeSet<RunId>,
    unacknowledged: BTreeSet<RunId>,
    identity: u64,
    run: u64,
    open: Option<u64>,
}

fn one_step(bench: &mut Bench, world: &mut World, dice: &mut Dice, step: u64) {
    let (item, token) = (u32::try_from(dice.roll(3)).unwrap(), step / 6 + dice.roll(12));
    match dice.roll(20) {
        0..5 => {
            let (run, wait) = (id(item, token), dice.roll(300).saturating_sub(150));
            if !bench.machine.in_flight.runs.contains_key(&run) {
                world.not_before.insert(run, (bench.mono + ms(wait), wait > 0));
            }
            bench.trigger_early(item, token, wait);
        }
        5..9 => {
            let Some(id) = world.in_code.iter().nth(dice.roll(3) as usize).cloned() else { return };
            world.in_code.remove(&id);
            bench.done(id.item, id.token);
        }
        9..11 => bench.acknowledge(item, token, proto::ReportResult::Accepted),
        11 => bench.close(),
        12..15 => {
            bench.connect();
            let fenced = u64::from(dice.roll(12) == 0);
            world.identity += fenced;
            if fenced == 1 {
                world.unacknowledged.clear();
            }
            bench.frame(Response::Welcome(welcome(&format!("w{}", world.identity))));
        }
        15 => bench.sleep(u64::try_from(bench.mono.as_millis()).unwrap() + dice.roll(7_000)),
        16 if !bench.beats().is_empty() => bench.acknowledge_beat(),
        17 => {
            let run = Some(id(item, token).to_proto());
            bench.frame(Response::Cancel(proto::Cancel { run, ..Default::default() }));
        }
        _ => bench.advance(u64::try_from(bench.mono.as_millis()).unwrap() + dice.roll(1_500)),
    }
}

fn look(bench: &mut Bench, world: &mut World) {
    let mut sent = BTreeSet::new();
    for effect in bench.said.split_off(0) {
        match effect {
            Effect::Connect { connection, .. } => {
                assert_eq!(world.open, None, "one stream at a time");
                world.open = Some(connection);
            }
            Effect::Close { connection } => assert_eq!(world.open.take(), Some(connection)),
            Effect::Start(start) => {
                let id = start.id;
                let same = |other: &RunId| (&other.job, other.item) == (&id.job, id.item);
                assert!(!world.in_code.iter().any(same), "one run of an item");
                assert!(
                    !world.started.iter().any(|other| same(other) && other.token >= id.token),
                    "{id} again"
                );
                let (began, leased) = bench.began[&id];
                assert!(leased, "a start needs a lease");
                assert!(world.in_code.len() < 3, "slots");
                if let Some((time, early)) = world.not_before.remove(&id) {
                    assert!(began >= time, "{id} before its time");
                    world.run += u64::from(early);
                }
                world.started.insert(id.clone());
                world.in_code.insert(id);
            }
            Effect::Send(Request::RunCompleted(report)) => {
                let id = RunId::from(report.run.unwrap());
                assert!(!world.in_code.contains(&id), "{id} is reported and still in user code");
                sent.insert(id);
            }
            // Keep the last heartbeat for an acknowledgement.
            Effect::Send(frame @ Request::Heartbeat(_)) => bench.said.push(Effect::Send(frame)),
            _ => {}
        }
    }
    let outstanding = bench.machine.in_flight.reports.values().filter(|report| report.sent).count();
    assert!(outstanding <= 2, "credits");
    if !bench.machine.link.is_open() {
        bench.said.clear();
    }
    if !bench.machine.lease.valid(bench.mono) {
        let runs = bench.machine.in_flight.runs.values();
        assert!(runs.filter(|run| run.stop.is_none()).count() == 0 || bench.machine.deadline() <= bench.mono);
    }
}

#[test]
fn whatever_comes_the_rules_hold() {
    let (mut starts, mut fences, mut run) = (0, 0, 0);
    for seed in 0..400 {
        let (mut bench, mut world, mut dice) = (Bench::new(settings()), World::default(), Dice(seed));
        for step in 0..400 {
            // The network closes a stream by itself.
            let before = bench.machine.link.current();
            one_step(&mut bench, &mut world, &mut dice, step);
            let closed_by_peer = before.is_some()
                && !bench.said.iter().any(|effect| matches!(effect, Effect::Close { .. }))
                && bench.machine.link.current() != before;
            assert!(!closed_by_peer, "a loss is always answered with a close");
            look(&mut bench, &mut world);
        }
        starts += world.started.len();
        fences += world.identity;
        run += world.run;
    }
    assert!(
        starts > 5_000 && fences > 500 && run > 500,
        "the dice are too kind: {starts} starts, {run} of them run, {fences} fences"
    );
}
