//! What each trouble does to a world.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::NodeClock;
use crate::trouble::{Foreign, Trouble};
use crate::wall::Wall;
use crate::wire::Way;
use crate::wish;
use crate::world::{Later, World};
use rosterd_domain::id::{Item, JobName};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// It happens now, and is counted if it takes effect: nobody crashes who is not there.
pub fn strike(world: &mut World, trouble: &Trouble) {
    let took_effect = match trouble {
        Trouble::Operator(wish) => wish::ask(world, wish),
        Trouble::Foreign { job, what } => foreign(world, *job, *what),
        other => {
            let struck = to_worker(world, other).or_else(|| to_stream(world, other));
            struck.or_else(|| to_coordinator(world, other)).unwrap_or(false)
        }
    };
    if took_effect {
        world.coverage.count(trouble.name());
        world.faults += usize::from(trouble.is_fault());
    }
}

/// Whether it took effect; `None`: it is of another kind.
fn to_worker(world: &mut World, trouble: &Trouble) -> Option<bool> {
    Some(match *trouble {
        Trouble::WorkerCrashes { desk } => world.crash_worker(desk, false),
        Trouble::WorkerVanishes { desk } => world.crash_worker(desk, true),
        Trouble::WorkerDiesSending { desk, after, arrives } => {
            world.desks[desk].running.as_ref().is_some_and(|running| {
                world.net.doom(&running.process, after, arrives, running.hand.clone());
                true
            })
        }
        Trouble::WorkerLeaves { desk } => world.leave(desk),
        Trouble::WorkerStandsStill { desk, span } => world.freeze_worker(desk, ms(span)),
        Trouble::HandlersSlow { desk, times, span } => {
            world.desks[desk].slowness.store(times, Ordering::Relaxed);
            world.later(ms(span), Later::Hurry(desk));
            world.desks[desk].running.is_some()
        }
        Trouble::WorkerCalendarJumps { desk, by, span } => {
            let clock = world.desks[desk].running.as_ref().map(|running| running.clock.clone());
            jump(world, clock, by, span)
        }
        _ => return None,
    })
}

fn to_stream(world: &mut World, trouble: &Trouble) -> Option<bool> {
    let process = |desk: usize| {
        world.desks[desk].running.as_ref().map(|running| running.process.clone()).unwrap_or_default()
    };
    Some(match trouble {
        Trouble::StreamBreaks { desk } => world.net.cut(&process(*desk)),
        Trouble::StreamSilent { desk, way, span } => {
            let process = process(*desk);
            let talked = world.net.silence_of(&process, *way, true);
            world.later(ms(*span), Later::Talk(process));
            talked
        }
        Trouble::Swizzled { silent, talk, gap } => swizzle(world, silent, talk, ms(*gap)),
        Trouble::FramesRepeated { desk, span } => {
            let process = process(*desk);
            world.net.repeat(&process, true);
            let there = !process.is_empty();
            world.later(ms(*span), Later::Once(process));
            there
        }
        Trouble::Parted { desk, seat, way, span } => part(world, Some(*desk), *seat, *way, Some(*span)),
        Trouble::HostParted { seat, way, span } => part(world, None, *seat, *way, Some(*span)),
        Trouble::NetworkSlow { longest } => world.net.slow(*longest),
        _ => return None,
    })
}

/// One after the other falls silent, and talks again in another order.
fn swizzle(world: &mut World, silent: &[usize], talk: &[usize], gap: Duration) -> bool {
    let orders = silent.iter().map(|desk| (*desk, true)).chain(talk.iter().map(|desk| (*desk, false)));
    for (turn, (desk, silent)) in (0_u32..).zip(orders) {
        world.later(gap * turn, Later::Hush(desk, silent));
    }
    silent.iter().any(|desk| world.desks[*desk].running.is_some())
}

fn to_coordinator(world: &mut World, trouble: &Trouble) -> Option<bool> {
    Some(match *trouble {
        Trouble::CoordinatorCrashes { seat } => world.crash_coordinator(seat, false),
        Trouble::CoordinatorVanishes { seat } => world.crash_coordinator(seat, true),
        Trouble::CoordinatorDiesWriting { seat, after } => doom(world, seat, after),
        Trouble::CoordinatorStandsStill { seat, span } => world.freeze_coordinator(seat, ms(span)),
        Trouble::CoordinatorStops { seat } => world.seats[seat].running.as_ref().is_some_and(|running| {
            running.handle.stop();
            true
        }),
        Trouble::StoreOutOfReach { seat, span } => world.suspend(seat, ms(span)),
        Trouble::StoreFlaps { seat, times, span } => world.flap(seat, times, ms(span)),
        Trouble::SessionEndsEarly { seat } => {
            let session = world.seats[seat].running.as_ref().map(|running| running.session.clone());
            session.is_some_and(|session| world.store.expire(&session))
        }
        Trouble::SessionEndsLate { seat, by } => world.suspend_late(seat, ms(by)),
        Trouble::SessionEndsUnheard { seat, span } => world.cut_off(seat, ms(span)),
        Trouble::StoreStalls { span } => {
            world.chaos.stall(ms(span));
            true
        }
        Trouble::WatchesLate { seat, by, span, merged } => {
            let of = format!("{}#", world.seats[seat].name);
            world.chaos.deafen_for(&of, ms(by), ms(span), merged);
            world.seats[seat].running.is_some()
        }
        Trouble::CalendarJumps { seat, by, span } => {
            let clock = world.seats[seat].running.as_ref().map(|running| running.clock.clone());
            jump(world, clock, by, span)
        }
        Trouble::CalendarSlews { seat, fast, span } => {
            let Some(clock) = world.seats[seat].running.as_ref().map(|running| running.clock.clone()) else {
                return Some(false);
            };
            let steady = clock.slew(fast);
            if steady {
                world.note(|| format!("the calendar of c{seat} runs {fast} millionths fast for {span} ms"));
                world.later(ms(span), Later::Steady(clock));
            }
            steady
        }
        _ => return None,
    })
}

fn jump(world: &mut World, clock: Option<NodeClock>, by: i64, span: u64) -> bool {
    let Some(clock) = clock else { return false };
    clock.jump(by);
    world.note(|| format!("a calendar jumps by {by} ms"));
    world.later(ms(span), Later::Jump(clock, -by));
    true
}

/// Nothing passes between these workers and a coordinator, for a while or for ever; whether there are two that it parts.
pub fn part(world: &mut World, desk: Option<usize>, seat: usize, way: Way, span: Option<u64>) -> bool {
    let host = world.seats[seat].url.clone();
    world.note(|| format!("{host} is parted from {desk:?} {way:?} for {span:?}"));
    let wall = world.net.part(Wall { desk, host, way });
    if let Some(span) = span {
        world.later(ms(span), Later::Join(wall));
    }
    let mut desks = world.desks.iter().enumerate().filter(|(at, _)| desk.is_none_or(|desk| desk == *at));
    world.seats[seat].running.is_some() && desks.any(|(_, desk)| desk.running.is_some())
}

/// Whether there was something to remove, or to write.
fn foreign(world: &World, job: usize, what: Foreign) -> bool {
    let Some(mut name) = world.plan.jobs.get(job).and_then(|plan| JobName::new(plan.name).ok()) else {
        return false;
    };
    let owned = name.clone();
    let owner = || wish::owner(world, Some(&owned), 0);
    let (path, data) = match what {
        Foreign::Leader => ("/leader/election/instance".to_owned(), None),
        Foreign::Disable => (format!("/sharding/{}/disabled", Item(0)), Some(&b""[..])),
        Foreign::Enable => {
            // Whichever is marked, of any job: there are not many.
            let mark = |item| format!("/sharding/{}/disabled", Item(item));
            let names = world.plan.jobs.iter().filter_map(|plan| JobName::new(plan.name).ok());
            let marked = |name: &JobName| (0..8).map(mark).find(|path| has(world, name, path));
            let mut found = names.filter_map(|name| Some((marked(&name)?, name)));
            let Some((path, of)) = found.next() else {
                return false;
            };
            name = of;
            (path, None)
        }
        Foreign::Running => (format!("/sharding/{}/running", Item(0)), None),
        Foreign::Instance | Foreign::TriggerData | Foreign::TriggerNode => {
            let Some(instance) = owner() else { return false };
            match what {
                Foreign::TriggerNode => (format!("/trigger/{instance}"), Some(&b""[..])),
                Foreign::TriggerData => (format!("/instances/{instance}"), Some(&b"TRIGGER"[..])),
                _ => (format!("/instances/{instance}"), None),
            }
        }
    };
    if matches!(what, Foreign::TriggerData) && !has(world, &name, &path) {
        return false;
    }
    let done = world.store.foreign(&name, &path, data, false);
    if done {
        let verb = if data.is_some() { "writes" } else { "removes" };
        world.note(|| format!("a foreign tool {verb} {path} of {name}"));
        let mut watch = world.watch.lock();
        let record = watch.shadow.records.get(&(name.clone(), Item(0)));
        if let Some(token) = record.map(|record| record.token).filter(|_| matches!(what, Foreign::Running)) {
            watch.unmarked.insert((name, Item(0), token));
        }
    }
    done
}

/// A tool changes the data of a node that is there; it makes no instance.
fn has(world: &World, job: &JobName, path: &str) -> bool {
    world.store.view(|view| view.dump(job).is_some_and(|nodes| nodes.contains_key(path)))
}

/// The coordinator dies right after its next write but `after`; whether it is there.
pub fn doom(world: &mut World, seat: usize, after: u64) -> bool {
    let Some(running) = &world.seats[seat].running else { return false };
    let name = world.seats[seat].name.clone();
    let mut watch = world.watch.lock();
    let at = watch.writes_of(&name) + after;
    watch.doomed = Some((name, at, running.hand.clone()));
    true
}
