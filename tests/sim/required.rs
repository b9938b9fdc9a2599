//! What must have been taken how often in so many seeds, or they prove little.

use crate::coverage::Counts;

/// From so many seeds on each of these must have been taken [`TIMES`].
pub const ENOUGH: u64 = 2000;
const TIMES: u64 = 100;

/// Every kind of fault, every row of an item's table of life, every wish, every way of recovery.
///
/// Not among them, since no world takes them: a skip of an idle item (jobs without monitorExecution, for which the
/// promises do not hold) and a last fire that is set back (it takes a calendar that was believed three hours ahead);
/// both are tried by the domain's tests.
const TAKEN: &[&str] = &[
    "fault: calendar jumps",
    "fault: calendar of a worker jumps",
    "fault: coordinator crashes",
    "fault: coordinator dies after a write",
    "fault: coordinator is to die after a write",
    "fault: coordinator parted from all workers",
    "fault: coordinator stands still",
    "fault: coordinator stops",
    "fault: coordinator vanishes",
    "fault: foreign tool removes a leader",
    "fault: foreign tool removes a mirror",
    "fault: foreign tool removes an instance",
    "fault: frame to a coordinator repeated",
    "fault: frame to a worker repeated",
    "fault: frames are to be repeated",
    "fault: handlers slow",
    "fault: network slow",
    "fault: read failed",
    "fault: reply lost",
    "fault: request lost",
    "fault: session ends early",
    "fault: session ends late",
    "fault: session ends unheard",
    "fault: session of a frozen coordinator expires",
    "fault: session of a living coordinator expires",
    "fault: slow store",
    "fault: step of a stalled store",
    "fault: store flaps",
    "fault: store out of reach",
    "fault: store stalls",
    "fault: stream breaks",
    "fault: stream silent",
    "fault: stream silent one way",
    "fault: watch told late",
    "fault: watches late",
    "fault: worker crashes",
    "fault: worker dies after a frame",
    "fault: worker is to die after a frame",
    "fault: worker leaves",
    "fault: worker parted from a coordinator",
    "fault: worker parted from a coordinator one way",
    "fault: worker stands still",
    "fault: worker vanishes",
    "fault: write refused",
    "item: claim",
    "item: drop_misfire",
    "item: end cancelled (reported)",
    "item: end cancelled (reported, to be run again)",
    "item: end crashed (reported)",
    "item: end crashed (reported, to be run again)",
    "item: end crashed (verdict)",
    "item: end crashed (verdict, to be run again)",
    "item: end failed (reported)",
    "item: end succeeded (reported)",
    "item: end timed_out (reported)",
    "item: give_up",
    "item: held: end crashed (verdict, to be run again)",
    "item: misfire while crashed",
    "item: misfire while idle",
    "item: misfire while running",
    "item: miss clock",
    "item: miss disabled",
    "item: miss down",
    "item: miss no_slot",
    "item: miss no_worker",
    "item: miss paused",
    "item: miss too_late",
    "item: miss while crashed",
    "item: miss while idle",
    "item: miss while running",
    "item: new",
    "item: release",
    "item: skip while crashed",
    "item: skip while running",
    "item: start MANUAL",
    "item: start MISFIRE",
    "item: start NORMAL_TRIGGER",
    "item: start NORMAL_TRIGGER (held)",
    "left behind: coordinator cut off from the store",
    "left behind: coordinator killed",
    "left behind: coordinator parted from all workers",
    "left behind: coordinator stands still",
    "left behind: coordinator vanished",
    "left behind: worker killed",
    "left behind: worker parted from all coordinators",
    "left behind: worker stands still",
    "left behind: worker vanished",
    "operation Apply: done",
    "operation Cancel: done",
    "operation Drain: done",
    "operation Enable: done",
    "operation Pause: done",
    "operation Remove: done",
    "operation Shutdown: done",
    "operation Trigger: done",
    "operator: another count",
    "operator: another cron",
    "operator: another strategy",
    "operator: another time zone",
    "operator: cancel a run",
    "operator: disable a job",
    "operator: disable a server",
    "operator: disable an instance",
    "operator: disable an item",
    "operator: drain a worker",
    "operator: failover on or off",
    "operator: misfire on or off",
    "operator: pause",
    "operator: remove and make again",
    "operator: shut an instance down",
    "operator: trigger",
    "recovery: another leader",
    "recovery: attached again to the same host",
    "recovery: attached to its host's next process",
    "recovery: goodbye by the host",
    "recovery: taken over by another host",
    "recovery: verdict by another",
    "recovery: verdict by the host",
    "worker ended: left",
    "write: dismiss",
    "write: lease",
    "write: sweep",
];

/// What was taken too seldom in so many seeds, as lines for people; what was never taken always is.
pub fn missing(counts: &Counts, seeds: u64) -> Vec<String> {
    let least = if seeds >= ENOUGH { TIMES } else { 1 };
    let line = |what: &&str| {
        let times = counts.get(*what).copied().unwrap_or(0);
        let word = if times == 0 { "never taken".to_owned() } else { format!("taken {times} times only") };
        (times < least).then(|| format!("{word}: {what}"))
    };
    TAKEN.iter().filter_map(line).collect()
}

#[test]
fn what_is_seldom_is_named() {
    let mut counts: Counts = TAKEN.iter().map(|what| ((*what).into(), 100)).collect();
    assert_eq!(missing(&counts, 5000), Vec::<String>::new());
    counts.insert(TAKEN[0].into(), 99);
    counts.remove(TAKEN[1]);
    assert_eq!(missing(&counts, 5000).len(), 2);
    assert_eq!(missing(&counts, 100), [format!("never taken: {}", TAKEN[1])]);
}
