//! Scripts that a person can read: the input, and the resulting plans with their reasons. Lines that begin with `>` are
//! the planner's; `BLESS=1 cargo test -p rosterd-domain golden` writes them again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::world::{World, give, instance, job, worker};
use crate::id::{InstanceId, Item, JobName, Token, TriggerId, Version};
use crate::item::{Crashed, Missed, Outcome, Record, Running, Source, State};
use crate::plan::{Candidates, Class, Report, Reported, Waiting, assign};
use crate::sharding::Gap;
use crate::snapshot::TriggerNode;
use crate::time::Time;

const DAY: &str = "2026-11-21T";

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plan/golden");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn golden_scripts_plan_as_written() {
    let bless = blessed();
    let mut wrong = String::new();
    for path in scripts() {
        let text = std::fs::read_to_string(&path).unwrap();
        let played = play(&text);
        if bless {
            std::fs::write(&path, played).unwrap();
        } else if played != text {
            let _ = writeln!(wrong, "{}:\n{played}", path.display());
        }
    }
    assert!(wrong.is_empty(), "planned otherwise than written (BLESS=1 writes it anew):\n{wrong}");
}

fn play(text: &str) -> String {
    let mut stage = Stage::default();
    let mut played = String::new();
    for line in text.lines().filter(|line| !line.starts_with('>')) {
        let _ = writeln!(played, "{line}");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] | ["#", ..] => {}
            ["plan"] => played.push_str(&stage.plan()),
            ["job", "items", items, flags @ ..] => stage.job(items.parse().unwrap(), flags),
            words => stage.set(words),
        }
    }
    played
}

fn time(text: &str) -> Time {
    Time::parse(&format!("{DAY}{text}Z")).unwrap()
}

fn letter(text: &str) -> usize {
    usize::from(text.as_bytes()[0] - b'a')
}

#[derive(Default)]
struct Stage {
    world: Option<World>,
    slots: BTreeMap<InstanceId, u32>,
    owners: BTreeMap<Item, usize>,
}

impl Stage {
    fn world(&mut self) -> &mut World {
        self.world.as_mut().expect("the first line is the job")
    }

    fn job(&mut self, items: u32, words: &[&str]) {
        let (flags, cron) = match words.iter().position(|word| *word == "at") {
            Some(at) => (&words[..at], Some(words[at + 1..].join(" "))),
            None => (words, None),
        };
        let mut job = job(cron.as_deref(), items);
        job.rules.monitor = !flags.contains(&"unmonitored");
        (job.rules.misfire, job.rules.failover) = (flags.contains(&"misfire"), flags.contains(&"failover"));
        job.rules.run_late = flags.contains(&"misfire") && !flags.contains(&"not_late");
        job.rules.catch_up = Duration::from_secs(10);
        self.world = Some(World::new(job, &[], time("12:00:00")));
    }

    fn set(&mut self, words: &[&str]) {
        match words {
            ["now", at] => self.world().now = time(at),
            ["up", "since", at] => self.world().up_since = time(at),
            ["gained", item, at] => {
                let item = Item(item.parse().unwrap());
                self.world().gained.insert(item, time(at));
            }
            ["instance", name, "slots", slots, rest @ ..] => {
                self.instance(letter(name), slots.parse().unwrap(), rest)
            }
            ["item", item, rest @ ..] => self.item(Item(item.parse().unwrap()), rest),
            ["report", item, how] => self.report(Item(item.parse().unwrap()), how),
            ["dead", name] => {
                self.world().hosted.remove(&instance(letter(name)));
                self.world().dead.insert(worker(letter(name)));
            }
            ["other", name, class, at] => self.other(&instance(letter(name)), class, time(at)),
            ["trigger", item] => {
                let (id, at) = (TriggerId::new("by-hand").unwrap(), self.world().now);
                self.world().job.triggers.insert(Item(item.parse().unwrap()), TriggerNode { id, at });
            }
            words => self.operate(words),
        }
    }

    fn operate(&mut self, words: &[&str]) {
        let until = self.world().now;
        let job = &mut self.world().job;
        match words {
            ["pause"] => job.paused = true,
            ["resume"] => {
                job.paused = false;
                job.sharding.gap = Some(Gap { until, reason: Missed::Paused });
            }
            ["disable", "item", item] => {
                job.sharding.disabled_items.insert(Item(item.parse().unwrap()));
            }
            ["enable", "item", item] => {
                let item = Item(item.parse().unwrap());
                job.sharding.disabled_items.remove(&item);
                job.sharding.gaps.insert(item, Gap { until, reason: Missed::Disabled });
            }
            ["disable", name] => {
                job.sharding.disabled_instances.insert(instance(letter(name)));
            }
            ["count", count] => job.rules.items = count.parse().unwrap(),
            ["assign"] => {
                let candidates = Candidates { now: until, ..Candidates::default() };
                job.sharding = assign(job, &candidates).expect("a new assignment").sharding;
            }
            ["clock", "off"] => self.world().no_starts = true,
            ["clock", "on"] => self.world().no_starts = false,
            words => panic!("what is {words:?}?"),
        }
    }

    fn instance(&mut self, n: usize, slots: u32, words: &[&str]) {
        self.slots.insert(instance(n), slots);
        self.world().attach(n, slots);
        if let ["owns", owned @ ..] = words {
            self.owners.extend(owned.iter().map(|item| (Item(item.parse().unwrap()), n)));
        }
        let owners: Vec<usize> = self.owners.values().copied().collect();
        give(&mut self.world().job, &owners);
    }

    fn item(&mut self, item: Item, mut words: &[&str]) {
        let fresh = (Version(0), Record::new(Token(100), self.world().now).into());
        let record = Arc::make_mut(&mut self.world().records.entry(item).or_insert(fresh).1);
        while !words.is_empty() {
            words = match words {
                ["last", at, rest @ ..] => {
                    record.last_fire = time(at);
                    rest
                }
                ["marked", at, rest @ ..] => {
                    record.misfire = Some(time(at));
                    rest
                }
                ["runs", at, "since", since, "on", name, rest @ ..] => {
                    record.counters.fired += 1;
                    record.state = State::Running(Running {
                        fire: time(at),
                        source: Source::NormalTrigger,
                        instance: instance(letter(name)),
                        worker: worker(letter(name)),
                        since: time(since),
                        trigger: None,
                        held: false,
                        cancelled: false,
                        deaths: 0,
                    });
                    rest
                }
                ["held", rest @ ..] => {
                    if let State::Running(run) = &mut record.state {
                        run.held = true;
                    }
                    rest
                }
                ["crashed", at, rest @ ..] => {
                    let instance = instance(25);
                    record.state = State::Crashed(Crashed {
                        fire: time(at),
                        instance,
                        since: time(at),
                        held: false,
                        deaths: 0,
                    });
                    rest
                }
                words => panic!("what is {words:?}?"),
            };
        }
    }

    fn report(&mut self, item: Item, how: &str) {
        let world = self.world();
        if world.in_user_code.remove(&item) {
            return;
        }
        let (_, record) = &world.records[&item];
        let ended = match how {
            "succeeded" => Reported::Done(Outcome::Succeeded),
            "failed" => Reported::Done(Outcome::Failed),
            "aborted" => Reported::Aborted,
            "handed_back" => Reported::HandedBack,
            "skipped" => Reported::Skipped,
            how => panic!("what is {how}?"),
        };
        let worker = record.running().expect("a run to report").worker.clone();
        world.reports.insert(item, Report { token: record.token, worker, ended, offset: None });
    }

    fn other(&mut self, instance: &InstanceId, class: &str, fire: Time) {
        let class = match class {
            "misfire" => Class::Misfire,
            "failover" => Class::Failover,
            _ => Class::Fire,
        };
        let waiting = Waiting { class, fire, job: JobName::new("other").unwrap(), item: Item(0) };
        self.world().hosted.get_mut(instance).unwrap().others.push(waiting);
    }

    fn plan(&mut self) -> String {
        let slots = self.slots.clone();
        let world = self.world();
        for (instance, hosted) in &mut world.hosted {
            let running = |(_, record): &&(Version, Arc<Record>)| {
                record.running().is_some_and(|run| run.instance == *instance)
            };
            let used = world.records.values().filter(running).count();
            hosted.free = slots[instance].saturating_sub(u32::try_from(used).unwrap());
        }
        let plan = world.settle();
        let mut said: Vec<String> = plan.reasons.iter().map(ToString::to_string).collect();
        for (instance, waiting) in &plan.waiting {
            let one = |w: &Waiting| {
                format!("{:?} of {} of item {} waits for a slot of {instance}", w.class, w.fire, w.item)
            };
            said.extend(waiting.iter().map(one));
        }
        if said.is_empty() {
            said.push("nothing to do".into());
        }
        said.push(plan.next.map_or("no next look".into(), |next| format!("next look at {next}")));
        let short = |line: &String| format!("> {}\n", line.replace(DAY, "").replace('Z', ""));
        said.iter().map(short).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a person asks for new golden files")]
fn blessed() -> bool {
    std::env::var("BLESS").is_ok()
}
