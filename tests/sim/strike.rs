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

/// It happens now.
pub fn strike(world: &mut World, trouble: &Trouble) {
    world.coverage.count(trouble.kind());
    match trouble {
        Trouble::Operator(wish) => wish::ask(world, wish),
        Trouble::Foreign { job, what } => foreign(world, *job, *what),
        other => {
            let _one = to_worker(world, other) || to_stream(world, other) || to_coordinator(world, other);
        }
    }
}

fn to_worker(world: &mut World, trouble: &Trouble) -> bool {
    match *trouble {
        Trouble::WorkerCrashes { desk } => world.crash_worker(desk, false),
        Trouble::WorkerVanishes { desk } => world.crash_worker(desk, true),
        Trouble::WorkerDiesSending { desk, after, arrives } => {
            if let Some(running) = &world.desks[desk].running {
                world.net.doom(&running.process, after, arrives, running.hand.clone());
            }
        }
        Trouble::WorkerLeaves { desk } => world.leave(desk),
        Trouble::WorkerStandsStill { desk, span } => world.freeze_worker(desk, ms(span)),
        Trouble::HandlersSlow { desk, times, span } => {
            world.desks[desk].slowness.store(times, Ordering::Relaxed);
            world.later(ms(span), Later::Hurry(desk));
        }
        Trouble::WorkerCalendarJumps { desk, by, span } => {
            let clock = world.desks[desk].running.as_ref().map(|running| running.clock.clone());
            jump(world, clock, by, span);
        }
        _ => return false,
    }
    true
}

fn to_stream(world: &mut World, trouble: &Trouble) -> bool {
    let process = |desk: usize| {
        world.desks[desk].running.as_ref().map(|running| running.process.clone()).unwrap_or_default()
    };
    match *trouble {
        Trouble::StreamBreaks { desk } => world.net.cut(&process(desk)),
        Trouble::StreamSilent { desk, way, span } => {
            let process = process(desk);
            world.net.silence_of(&process, way, true);
            world.later(ms(span), Later::Talk(process));
        }
        Trouble::FramesRepeated { desk, span } => {
            let process = process(desk);
            world.net.repeat(&process, true);
            world.later(ms(span), Later::Once(process));
        }
        Trouble::Parted { desk, seat, way, span } => part(world, Some(desk), seat, way, Some(span)),
        Trouble::HostParted { seat, way, span } => part(world, None, seat, way, Some(span)),
        Trouble::NetworkSlow { longest } => world.net.slow(longest),
        _ => return false,
    }
    true
}

fn to_coordinator(world: &mut World, trouble: &Trouble) -> bool {
    match *trouble {
        Trouble::CoordinatorCrashes { seat } => world.crash_coordinator(seat, false),
        Trouble::CoordinatorVanishes { seat } => world.crash_coordinator(seat, true),
        Trouble::CoordinatorDiesWriting { seat, after } => doom(world, seat, after),
        Trouble::CoordinatorStandsStill { seat, span } => world.freeze_coordinator(seat, ms(span)),
        Trouble::CoordinatorStops { seat } => {
            if let Some(running) = &world.seats[seat].running {
                running.handle.stop();
            }
        }
        Trouble::StoreOutOfReach { seat, span } => world.suspend(seat, ms(span)),
        Trouble::StoreFlaps { seat, times, span } => world.flap(seat, times, ms(span)),
        Trouble::SessionEndsEarly { seat } => {
            if let Some(running) = &world.seats[seat].running {
                world.store.expire(&running.session.clone());
            }
        }
        Trouble::SessionEndsLate { seat, by } => world.suspend_late(seat, ms(by)),
        Trouble::SessionEndsUnheard { seat, span } => world.cut_off(seat, ms(span)),
        Trouble::StoreStalls { span } => world.chaos.stall(ms(span)),
        Trouble::WatchesLate { seat, by, span } => {
            let of = format!("{}#", world.seats[seat].name);
            world.chaos.deafen_for(&of, ms(by), ms(span));
        }
        Trouble::CalendarJumps { seat, by, span } => {
            let clock = world.seats[seat].running.as_ref().map(|running| running.clock.clone());
            jump(world, clock, by, span);
        }
        _ => return false,
    }
    true
}

fn jump(world: &mut World, clock: Option<NodeClock>, by: i64, span: u64) {
    let Some(clock) = clock else { return };
    clock.jump(by);
    world.note(|| format!("a calendar jumps by {by} ms"));
    world.later(ms(span), Later::Jump(clock, -by));
}

/// Nothing passes between these workers and a coordinator, for a while or for ever.
pub fn part(world: &mut World, desk: Option<usize>, seat: usize, way: Way, span: Option<u64>) {
    let host = world.seats[seat].url.clone();
    world.note(|| format!("{host} is parted from {desk:?} {way:?} for {span:?}"));
    let wall = world.net.part(Wall { desk, host, way });
    if let Some(span) = span {
        world.later(ms(span), Later::Join(wall));
    }
}

fn foreign(world: &World, job: usize, what: Foreign) {
    let Some(name) = world.plan.jobs.get(job).and_then(|plan| JobName::new(plan.name).ok()) else { return };
    let path = match what {
        Foreign::Leader => "/leader/election/instance".to_owned(),
        Foreign::Running => format!("/sharding/{}/running", Item(0)),
        Foreign::Instance => match wish::owner(world, Some(&name), 0) {
            Some(instance) => format!("/instances/{instance}"),
            None => return,
        },
    };
    if world.store.foreign(&name, &path, None, false) {
        world.note(|| format!("a foreign tool removes {path} of {name}"));
    }
}

/// The coordinator dies right after its next write but `after`.
pub fn doom(world: &mut World, seat: usize, after: u64) {
    let Some(running) = &world.seats[seat].running else { return };
    let name = world.seats[seat].name.clone();
    let mut watch = world.watch.lock();
    let at = watch.writes_of(&name) + after;
    watch.doomed = Some((name, at, running.hand.clone()));
}
