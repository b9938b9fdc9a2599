//! Which coverage how many seeds must reach, or they prove little.
//!
//! Faults and operator requests are listed by the tables that also name them. All other counts must be listed here: an
//! unexpected row, write or recovery path is reported as well.

use rosterd_domain::txn::Purpose;

use crate::faults::disruption::Disruption;
use crate::faults::hostile_worker::SAID;
use crate::faults::operator_request::OperatorAction;
use crate::oracle::coverage::Counts;
use crate::seeds::play::TOO_FEW;
use crate::seeds::script::PermanentFailure;

/// From this number of seeds on everything must have been taken.
pub const SOME: u64 = 500;
/// From this number on each must have been taken [`TIMES`] times.
const ENOUGH: u64 = 2000;
const TIMES: u64 = 50;

/// Rows of an item's lifecycle table.
const ITEM: &[&str] = &[
    "item: cancel",
    "item: claim",
    "item: drop_misfire",
    "item: end cancelled (reported)",
    "item: end cancelled (reported, to be run again)",
    "item: end crashed (reported)",
    "item: end crashed after a cancel",
    "item: end crashed (reported, to be run again)",
    "item: end crashed (expired)",
    "item: end crashed (expired, to be run again)",
    "item: end failed (reported)",
    "item: end succeeded (reported)",
    "item: end timed_out (reported)",
    "item: give_up",
    "item: held: end cancelled (reported)",
    "item: held: end crashed (expired, to be run again)",
    "item: misfire while crashed",
    "item: misfire while held",
    "item: misfire while idle",
    "item: misfire while running",
    "item: miss disabled",
    "item: miss down",
    "item: miss no_slot",
    "item: miss no_worker",
    "item: miss paused",
    "item: miss too_late",
    "item: miss while idle",
    "item: miss while running",
    "item: new",
    "item: release",
    "item: skip while crashed",
    "item: skip while idle",
    "item: skip while running",
    "item: start MANUAL",
    "item: start MISFIRE",
    "item: start NORMAL_TRIGGER",
    "item: start NORMAL_TRIGGER (held)",
];

/// Purposes of writes; together with the rare ones, all that exist.
const WRITES: &[&str] = &[
    "write: abdicate",
    "write: announce",
    "write: apply",
    "write: ask to leave",
    "write: assign",
    "write: attach",
    "write: barrier",
    "write: command",
    "write: commands",
    "write: coordinator",
    "write: create",
    "write: disable",
    "write: dismiss",
    "write: drain",
    "write: elect",
    "write: enable",
    "write: foreign switch",
    "write: foreign trigger",
    "write: goodbye",
    "write: host",
    "write: instances",
    "write: lease",
    "write: mirrors",
    "write: number",
    "write: pause",
    "write: records",
    "write: release",
    "write: remove",
    "write: shutdown",
    "write: sweep",
    "write: trigger",
    "write: expire",
];

/// Effects of faults, recovery paths, and other situations of a world.
const TAKEN: &[&str] = &[
    "fault: clocks of a process fast or slow",
    "fault: coordinator dies after a write",
    "fault: frame of a left stream after the next Hello",
    "fault: frame to a coordinator repeated",
    "fault: frame to a worker repeated",
    "fault: read failed",
    "fault: reply lost",
    "fault: request lost",
    "fault: session of a frozen coordinator expires",
    "fault: session of a living coordinator expires",
    "fault: slow store",
    "fault: step of a stalled store",
    "fault: watch told late",
    "fault: watches merged",
    "fault: worker dies after a frame",
    "fault: write refused",
    "operation Apply: done",
    "operation Cancel: done",
    "operation Drain: done",
    "operation Enable: done",
    "operation Pause: done",
    "operation Remove: done",
    "operation Shutdown: done",
    "operation Trigger: done",
    "fault: a clock is wrong at boot",
    "recovery: another leader",
    "recovery: attached again to the same host",
    "recovery: goodbye by the host",
    "recovery: taken over by another host",
    "recovery: the store is reached again within the session's time",
    "recovery: expire by another",
    "recovery: expire by the host",
    "worker ended: left",
    "world: clocks are changed in the zone of a job",
    "world: clocks are changed in the zone of a job of some hours",
];

/// Coverage that is optional, with the reason.
const NOT_ASKED_FOR: &[(&str, &str)] = &[
    ("an operator asks", "each of what they ask for is counted by itself"),
    (
        "item: cap",
        "it needs a wall clock that was trusted while three hours ahead; the domain's tests cover it",
    ),
    ("item: held: end cancelled (reported, to be run again)", "seldom: failover of a fire without an answer"),
    ("item: held: end crashed (expired)", "seldom: a worker that dies while its fire is held"),
    (
        "item: miss clock",
        "a coordinator whose clock is off writes nothing; tests with real processes cover jobs with a stricter limit",
    ),
    (
        "item: end timed_out (expired)",
        "seldom: clients end what has timed out; a scene tries one that does not",
    ),
    ("item: miss while crashed", "seldom: a crashed run is taken before the next scheduled time"),
    ("item: miss while held", "seldom: the longest held fire is shorter than two periods"),
    ("item: skip while held", "as above, without misfire"),
    ("operation", "what is refused, or not answered"),
    ("recovery: attached to its host's next process", "no coordinator has the name of one before it"),
    ("recovery: dismiss by", "counted as a write"),
    ("worker ended: left without acknowledgement", "the result of a leave without an answer"),
    ("write: foreign config", "scene: a_schedule_that_another_tool_writes_holds_from_then_on"),
    ("write: failover items", "scene: crashed_items_that_another_tool_makes_and_removes_are_mirrors"),
    ("write: remove machine", "scene: a_machine_is_forgotten_in_all_its_jobs"),
    ("write: announced", "its answer is written with what follows from it"),
    ("write: servers", "a server that was unused for a day"),
    ("write: import", "tools write it while no coordinator runs: tests of the command line move jobs"),
    ("write: prepare", "as above"),
    ("write: restore", "as above, while they are served: tests with real processes"),
    ("write: reveal", "as above"),
    ("worker ended", "of itself, for any reason but a leave"),
];

fn required() -> impl Iterator<Item = &'static str> {
    let tables =
        [Disruption::KINDS, OperatorAction::KINDS, PermanentFailure::KINDS, SAID, ITEM, WRITES, TAKEN];
    tables.into_iter().flatten().copied().filter(|what| !NOT_ASKED_FOR.iter().any(|(name, _)| name == what))
}

/// What this number of seeds took too rarely, as lines for people; always includes what was never taken.
pub fn missing(counts: &Counts, seeds: u64) -> Vec<String> {
    let least = if seeds >= ENOUGH { TIMES } else { 1 };
    let line = |what: &str| {
        let times = counts.get(what).copied().unwrap_or(0);
        let word = if times == 0 { "never taken".to_owned() } else { format!("taken {times} times only") };
        (times < least).then(|| format!("{word}: {what}"))
    };
    required().filter_map(line).collect()
}

/// What was taken and is not listed, and worlds with too few faults.
pub fn unheard_of(counts: &Counts) -> Vec<String> {
    let is_of = |what: &str, prefix: &str| what.starts_with(prefix);
    let counted =
        ["fault: ", "hostile: ", "item: ", "write: ", "recovery: ", "left behind: ", "operator: ", "world: "];
    let listed = |what: &str| {
        required().any(|name| name == what) || NOT_ASKED_FOR.iter().any(|(name, _)| is_of(what, name))
    };
    let all = counts.iter().filter(|(what, _)| counted.iter().any(|prefix| is_of(what, prefix)));
    let line = |(what, times): (&std::borrow::Cow<'static, str>, &u64)| format!("{times} times: {what}");
    all.filter(|(what, _)| what.as_ref() == TOO_FEW || !listed(what)).map(line).collect()
}

#[test]
fn what_is_seldom_is_named() {
    let mut counts: Counts = required().map(|what| (what.into(), TIMES)).collect();
    assert_eq!(missing(&counts, 5000), Vec::<String>::new());
    assert_eq!(unheard_of(&counts), Vec::<String>::new());
    counts.insert(TAKEN[0].into(), TIMES - 1);
    counts.remove(TAKEN[1]);
    assert_eq!(missing(&counts, 5000).len(), 2);
    assert_eq!(missing(&counts, 100), [format!("never taken: {}", TAKEN[1])]);
    counts.insert(TOO_FEW.into(), 1);
    counts.insert("item: eaten".into(), 2);
    assert_eq!(unheard_of(&counts), ["2 times: item: eaten".to_owned(), format!("1 times: {TOO_FEW}")]);
}

#[test]
fn each_purpose_of_a_write_is_asked_for_or_excused() {
    let known =
        |what: &String| WRITES.contains(&what.as_str()) || NOT_ASKED_FOR.iter().any(|(name, _)| name == what);
    let purposes = Purpose::ALL.iter().map(|purpose| format!("write: {purpose}"));
    let unknown: Vec<String> = purposes.filter(|what| !known(what)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn an_excuse_by_a_scene_names_one_that_is_there() {
    let named: Vec<&str> = NOT_ASKED_FOR.iter().filter_map(|(_, why)| why.strip_prefix("scene: ")).collect();
    assert!(named.len() >= 2, "{named:?}");
    let missing: Vec<&&str> = named.iter().filter(|name| !crate::scenes::races::is_scene(name)).collect();
    assert!(missing.is_empty(), "no such scenes: {missing:?}");
}
