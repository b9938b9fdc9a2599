//! Executes disruptions: the effect of each on a world.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::faults::disruption::{Disruption, ForeignToolAction};
use crate::faults::operator_request;
use crate::faults::partition::Partition;
use crate::world::clock::NodeClock;
use crate::world::network::Direction;
use crate::world::{Later, World};
use rosterd_domain::id::{Item, JobName};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Executes it now, and counts it if it took effect: a process that is not running cannot crash.
pub fn inject(world: &mut World, disruption: &Disruption) {
    let took_effect = match disruption {
        Disruption::Operator(request) => operator_request::ask(world, request),
        Disruption::ForeignTool { job, what } => foreign(world, *job, *what),
        other => {
            let struck = to_worker(world, other).or_else(|| to_stream(world, other));
            struck.or_else(|| to_coordinator(world, other)).unwrap_or(false)
        }
    };
    if took_effect {
        world.coverage.count(disruption.name());
        world.faults += usize::from(disruption.is_fault());
    }
}

/// Returns whether it took effect; `None`: it is of another kind.
fn to_worker(world: &mut World, disruption: &Disruption) -> Option<bool> {
    Some(match *disruption {
        Disruption::WorkerCrashes { machine } => world.crash_worker(machine, false),
        Disruption::WorkerVanishes { machine } => world.crash_worker(machine, true),
        Disruption::WorkerDiesSending { machine, after, arrives } => {
            world.machines[machine].running.as_ref().is_some_and(|running| {
                world.net.doom(&running.process, after, arrives, running.control.clone());
                true
            })
        }
        Disruption::WorkerLeaves { machine } => world.leave(machine),
        Disruption::WorkerStandsStill { machine, span } => world.freeze_worker(machine, ms(span)),
        Disruption::HandlersSlow { machine, times, span } => {
            world.machines[machine].slowness.store(times, Ordering::Relaxed);
            world.later(ms(span), Later::HandlersRecover(machine));
            world.machines[machine].running.is_some()
        }
        Disruption::WorkerCalendarJumps { machine, by, span } => {
            let clock = world.machines[machine].running.as_ref().map(|running| running.clock.clone());
            jump(world, clock, by, span)
        }
        _ => return None,
    })
}

fn to_stream(world: &mut World, disruption: &Disruption) -> Option<bool> {
    let process = |machine: usize| {
        world.machines[machine].running.as_ref().map(|running| running.process.clone()).unwrap_or_default()
    };
    Some(match disruption {
        Disruption::StreamBreaks { machine } => world.net.cut(&process(*machine)),
        Disruption::StreamSilent { machine, direction, span } => {
            let process = process(*machine);
            let talked = world.net.silence_of(&process, *direction, true);
            world.later(ms(*span), Later::EndSilence(process));
            talked
        }
        Disruption::Swizzled { silent, talk, gap } => swizzle(world, silent, talk, ms(*gap)),
        Disruption::FramesRepeated { machine, span } => {
            let process = process(*machine);
            world.net.repeat(&process, true);
            let there = !process.is_empty();
            world.later(ms(*span), Later::StopRepeatingFrames(process));
            there
        }
        Disruption::Parted { machine, replica, direction, span } => {
            part(world, Some(*machine), *replica, *direction, Some(*span))
        }
        Disruption::HostParted { replica, direction, span } => {
            part(world, None, *replica, *direction, Some(*span))
        }
        Disruption::NetworkSlow { longest } => world.net.slow(*longest),
        _ => return None,
    })
}

/// One after the other falls silent, and resumes in another order.
fn swizzle(world: &mut World, silent: &[usize], talk: &[usize], gap: Duration) -> bool {
    let orders =
        silent.iter().map(|machine| (*machine, true)).chain(talk.iter().map(|machine| (*machine, false)));
    for (turn, (machine, silent)) in (0_u32..).zip(orders) {
        world.later(gap * turn, Later::SilenceStreams(machine, silent));
    }
    silent.iter().any(|machine| world.machines[*machine].running.is_some())
}

fn to_coordinator(world: &mut World, disruption: &Disruption) -> Option<bool> {
    Some(match *disruption {
        Disruption::CoordinatorCrashes { replica } => world.crash_coordinator(replica, false),
        Disruption::CoordinatorVanishes { replica } => world.crash_coordinator(replica, true),
        Disruption::CoordinatorDiesWriting { replica, after } => doom(world, replica, after),
        Disruption::CoordinatorStandsStill { replica, span } => world.freeze_coordinator(replica, ms(span)),
        Disruption::CoordinatorStops { replica } => {
            world.replicas[replica].running.as_ref().is_some_and(|running| {
                running.handle.stop();
                true
            })
        }
        Disruption::StoreOutOfReach { replica, span } => world.suspend(replica, ms(span)),
        Disruption::StoreFlaps { replica, times, span } => world.flap(replica, times, ms(span)),
        Disruption::SessionEndsEarly { replica } => {
            let session = world.replicas[replica].running.as_ref().map(|running| running.session.clone());
            session.is_some_and(|session| world.store.expire(&session))
        }
        Disruption::SessionEndsLate { replica, by } => world.suspend_late(replica, ms(by)),
        Disruption::SessionEndsUnheard { replica, span } => world.cut_off(replica, ms(span)),
        Disruption::StoreStalls { span } => {
            world.store_faults.stall(ms(span));
            true
        }
        Disruption::WatchesLate { replica, by, span, merged } => {
            let of = format!("{}#", world.replicas[replica].name);
            world.store_faults.deafen_for(&of, ms(by), ms(span), merged);
            world.replicas[replica].running.is_some()
        }
        Disruption::CalendarJumps { replica, by, span } => {
            let clock = world.replicas[replica].running.as_ref().map(|running| running.clock.clone());
            jump(world, clock, by, span)
        }
        Disruption::CalendarSlews { replica, fast, span } => {
            let Some(clock) = world.replicas[replica].running.as_ref().map(|running| running.clock.clone())
            else {
                return Some(false);
            };
            let steady = clock.slew(fast);
            if steady {
                world
                    .note(|| format!("the calendar of c{replica} runs {fast} millionths fast for {span} ms"));
                world.later(ms(span), Later::EndClockSlew(clock));
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
    world.later(ms(span), Later::JumpClock(clock, -by));
    true
}

/// Partitions these workers from a coordinator, for a while or forever. Returns whether it separates any.
pub fn part(
    world: &mut World,
    machine: Option<usize>,
    replica: usize,
    direction: Direction,
    span: Option<u64>,
) -> bool {
    let host = world.replicas[replica].url.clone();
    world.note(|| format!("{host} is parted from {machine:?} {direction:?} for {span:?}"));
    let partition = world.net.part(Partition { machine, host, direction });
    if let Some(span) = span {
        world.later(ms(span), Later::EndPartition(partition));
    }
    let mut machines =
        world.machines.iter().enumerate().filter(|(at, _)| machine.is_none_or(|machine| machine == *at));
    world.replicas[replica].running.is_some() && machines.any(|(_, machine)| machine.running.is_some())
}

/// Returns whether there was something to remove, or to write.
fn foreign(world: &World, job: usize, what: ForeignToolAction) -> bool {
    let Some(mut name) = world.plan.jobs.get(job).and_then(|plan| JobName::new(plan.name).ok()) else {
        return false;
    };
    let owned = name.clone();
    let owner = || operator_request::owner(world, Some(&owned), 0);
    let (path, data) = match what {
        ForeignToolAction::Leader => ("/leader/election/instance".to_owned(), None),
        ForeignToolAction::Disable => (format!("/sharding/{}/disabled", Item(0)), Some(&b""[..])),
        ForeignToolAction::Enable => {
            // Any marked item of any job: there are few.
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
        ForeignToolAction::Running => (format!("/sharding/{}/running", Item(0)), None),
        ForeignToolAction::Instance | ForeignToolAction::TriggerData | ForeignToolAction::TriggerNode => {
            let Some(instance) = owner() else { return false };
            match what {
                ForeignToolAction::TriggerNode => (format!("/trigger/{instance}"), Some(&b""[..])),
                ForeignToolAction::TriggerData => (format!("/instances/{instance}"), Some(&b"TRIGGER"[..])),
                _ => (format!("/instances/{instance}"), None),
            }
        }
    };
    if matches!(what, ForeignToolAction::TriggerData) && !has(world, &name, &path) {
        return false;
    }
    let done = world.store.foreign(&name, &path, data, false);
    if done {
        let verb = if data.is_some() { "writes" } else { "removes" };
        world.note(|| format!("a foreign tool {verb} {path} of {name}"));
        let mut observer = world.observer.lock();
        let record = observer.shadow.records.get(&(name.clone(), Item(0)));
        if let Some(token) =
            record.map(|record| record.token).filter(|_| matches!(what, ForeignToolAction::Running))
        {
            observer.unmarked.insert((name, Item(0), token));
        }
    }
    done
}

/// A tool changes the data of an existing node; it does not create an instance.
fn has(world: &World, job: &JobName, path: &str) -> bool {
    world.store.view(|view| view.dump(job).is_some_and(|nodes| nodes.contains_key(path)))
}

/// The coordinator dies right after `after` further writes. Returns whether it is running.
pub fn doom(world: &mut World, replica: usize, after: u64) -> bool {
    let Some(running) = &world.replicas[replica].running else { return false };
    let name = world.replicas[replica].name.clone();
    let mut observer = world.observer.lock();
    let at = observer.writes_of(&name) + after;
    observer.doomed = Some((name, at, running.control.clone()));
    true
}
