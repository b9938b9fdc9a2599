//! `rosterd export` and `rosterd import`, on stores in directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, Namespace, ServerAddress, Token, TriggerId, WorkerId};
use rosterd_domain::item::{ItemEvent, Missed, Record, Running, Source};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::{Announced, Stage, TriggerNode};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Guard, Purpose, Txn, Write};
use rosterd_history::{EventFilter, EventKind, History, Options, Page};
use rosterd_registry::Registry;
use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry};
use serde_json::{Value, json};

use crate::binary::{Ran, rosterd};

fn name(text: &str) -> JobName {
    JobName::new(text).unwrap()
}

fn at(second: i64) -> Time {
    Time::from_seconds(second)
}

/// Writes to the store directly, as a coordinator would.
fn store(dir: &Path, writes: Vec<Write>) {
    for chunk in writes.chunks(500) {
        store_with(dir, Vec::new(), chunk.to_vec());
    }
    if writes.is_empty() {
        drop(open(dir));
    }
}

fn store_with(dir: &Path, guards: Vec<Guard>, writes: Vec<Write>) {
    let (registry, runtime) = open(dir);
    let commit = runtime.block_on(registry.commit(Txn { purpose: Purpose::Other, guards, writes }));
    assert!(matches!(commit, Commit::Committed(_)), "{commit:?}");
}

fn open(dir: &Path) -> (EmbeddedRegistry, tokio::runtime::Runtime) {
    let options = EmbeddedOptions::new(Namespace::new("default").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    (EmbeddedRegistry::open(dir, options).unwrap(), runtime)
}

fn create(job: &str, items: u32) -> Write {
    let mut sharding = Sharding::made_at(at(100));
    sharding.disabled_items.insert(Item(1));
    let config = json!({
        "jobName": job, "shardingTotalCount": items, "failover": true, "cron": "0 0 2 * * ?",
        "anotherTools": {"field": [1, 2.5]}
    });
    Write::CreateJob {
        job: name(job),
        incarnation: "i1".into(),
        handler_type: "app.Handler".into(),
        // Exactly, including blanks.
        config: format!(" {config}\n").into(),
        policy: r#"{"run_timeout_ms": 5000}"#.into(),
        assignment: sharding.encode().into(),
    }
}

fn idle(token: u64) -> Record {
    let fresh = Record::new(Token(token), at(200));
    fresh.apply(&ItemEvent::Miss { latest: at(300), count: 4, reason: Missed::Down }).unwrap()
}

fn record(job: &str, item: u32, record: Record) -> Write {
    Write::Record { job: name(job), item: Item(item), expect: None, record: Arc::new(record) }
}

fn offset(job: &str, item: u32, data: &[u8]) -> Write {
    Write::Offset { job: name(job), item: Item(item), data: Arc::from(data) }
}

/// A job with a bit of everything.
fn words(job: &str) -> Vec<Write> {
    let misfired = idle(41).apply(&ItemEvent::Misfire { latest: at(400), count: 2 }).unwrap();
    let server = |address: &str, enabled| Write::Server {
        job: name(job),
        server: ServerAddress::new(address).unwrap(),
        enabled: Some(enabled),
    };
    let announced = Announced { fire: at(250), callback: "c1".into(), instance: None, answered: true };
    let node = TriggerNode { id: TriggerId::new("by-hand").unwrap(), at: at(250) };
    vec![
        create(job, 3),
        Write::Paused(name(job), true),
        server("10.0.0.7", true),
        server("10.0.0.8", false),
        Write::Announced { job: name(job), stage: Stage::Completed, announced: Box::new(announced) },
        Write::Trigger { job: name(job), item: Item(0), node },
        offset(job, 0, "line 17".as_bytes()),
        offset(job, 2, &[0xff, 0, 1]),
        record(job, 0, idle(40)),
        record(job, 1, misfired),
        Write::Misfire { job: name(job), item: Item(1), marked: true },
        Write::ItemDisabled { job: name(job), item: Item(1), disabled: true },
        // Beyond the count: it was lowered.
        record(job, 7, idle(55)),
    ]
}

fn running(token: u64) -> Record {
    let instance = InstanceId::new("10.0.0.7@-@w1").unwrap();
    let worker = WorkerId::new("w1").unwrap();
    let (source, fire) = (Source::NormalTrigger, at(500));
    let run = Running {
        fire,
        source,
        instance,
        worker,
        since: fire,
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    };
    idle(token).apply(&ItemEvent::Start(run)).unwrap()
}

struct Places {
    dir: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn export(&self, store: &str, file: &str) -> Ran {
        rosterd(["export", "--data-dir", &self.text(store), &self.text(file)])
    }

    fn import(&self, store: &str, file: &str, more: &[&str]) -> Ran {
        let (store, file) = (self.text(store), self.text(file));
        rosterd(["import", "--data-dir", &store, &file].iter().chain(more))
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.path(file)).unwrap()).unwrap()
    }

    /// Edits a file, as by hand.
    fn edit(&self, from: &str, to: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.json(from);
        value.as_object_mut().unwrap().remove("digest");
        change(&mut value);
        std::fs::write(self.path(to), value.to_string()).unwrap();
    }

    fn dump(&self, store: &str, job: &str) -> Vec<(String, Vec<u8>)> {
        let options = EmbeddedOptions::new(Namespace::new("default").unwrap());
        let registry = EmbeddedRegistry::open(&self.path(store), options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let nodes = runtime.block_on(registry.dump(&name(job))).unwrap().unwrap_or_default();
        let ours = |path: &String| !path.contains("/incarnation/") && !path.ends_with("/necessary");
        nodes
            .into_iter()
            .filter(|(path, _)| ours(path))
            .map(|(path, node)| (path, node.data.to_vec()))
            .collect()
    }
}

/// Too long to be shown.
#[track_caller]
fn same(one: &[(String, Vec<u8>)], other: &[(String, Vec<u8>)]) {
    let strange = one.iter().zip(other).find(|(one, other)| one != other);
    assert!(strange.is_none(), "{strange:?}");
    assert_eq!(one.len(), other.len());
}

#[track_caller]
fn refused(ran: Ran, code: &str, words: &[&str]) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    assert!(ran.err.starts_with(&format!("rosterd: {code}: ")), "{}", ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{word:?} is not in: {}", ran.err);
    }
}

#[test]
fn what_is_exported_is_imported_node_for_node() {
    let places = Places::new();
    store(&places.path("a"), [words("words"), words("other")].concat());
    let said = places.export("a", "a.json").ok();
    assert!(said.starts_with("2 jobs of default with 6 records written to "), "{said}");
    assert_eq!(places.import("b", "a.json", &[]).ok(), "other imported\nwords imported\n");
    for job in ["words", "other"] {
        let (there, here) = (places.dump("a", job), places.dump("b", job));
        assert!(there.len() > 30);
        same(&there, &here);
    }
    places.export("b", "b.json").ok();
    assert_eq!(places.json("a.json")["jobs"], places.json("b.json")["jobs"]);
    let said = places.export("a", "a.json");
    assert_eq!((said.code, said.err.contains("a.json exists: name a file that does not")), (Some(2), true));
}

#[test]
fn tokens_go_on_above_all_that_were_given() {
    let places = Places::new();
    store(&places.path("a"), words("words"));
    places.export("a", "a.json").ok();
    let high = 1_u64 << 45;
    places.edit("a.json", "high.json", |file| file["tokens"] = high.into());
    places.import("b", "high.json", &[]).ok();
    // Another job of the new store, and one that is created later: above the ceiling of the file.
    store(&places.path("b"), vec![create("later", 2)]);
    let options = EmbeddedOptions::new(Namespace::new("default").unwrap());
    let registry = EmbeddedRegistry::open(&places.path("b"), options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for job in ["words", "later"] {
        let nodes = runtime.block_on(registry.job(&name(job))).unwrap().unwrap();
        assert!(nodes.base.0 > high, "{job} begins at {}", nodes.base);
    }
    drop(registry);
    places.export("b", "b.json").ok();
    assert!(places.json("b.json")["tokens"].as_u64().unwrap() > high);
    // Nothing is added to a store that is as far already.
    places.import("c", "b.json", &[]).ok();
    places.export("c", "c.json").ok();
    places.import("b", "c.json", &["--overwrite"]).ok();
    places.export("b", "again.json").ok();
    // Opening a store skips some numbers; the offset was not added again.
    let again = places.json("again.json")["tokens"].as_u64().unwrap();
    assert!(again < high + (1 << 30), "{again}");
}

/// The file is older than the last issued token: the operator can override its ceiling.
#[test]
fn an_old_file_goes_on_above_what_was_given_since() {
    let places = Places::new();
    store(&places.path("a"), words("words"));
    places.export("a", "a.json").ok();
    places.import("b", "a.json", &["--tokens-above", "9000000"]).ok();
    places.export("b", "b.json").ok();
    let file = places.json("b.json");
    assert!(file["tokens"].as_u64() >= Some(9_000_000));
    let records = file["jobs"][0]["records"].as_object().unwrap();
    assert!(records.values().all(|record| record["token"] == 9_000_000), "{records:?}");
    let none = places.import("b", "a.json", &["--tokens-above", "9000000000000000000"]);
    assert_eq!((none.code, none.err.contains("--tokens-above")), (Some(2), true), "{}", none.err);
}

/// An import that replaces a job was killed after it had removed it, and is run again as its message says: the tokens
/// of the job are no longer stored, and are still not issued again.
#[test]
fn an_import_that_stopped_halfway_and_goes_on_lets_no_token_fall() {
    let places = Places::new();
    store(&places.path("a"), words("words"));
    places.export("a", "a.json").ok();
    // Since then it has issued more: at most one token for each transaction.
    let busy = (0..100).map(|_| Write::Paused(name("words"), true)).collect::<Vec<_>>();
    busy.into_iter().for_each(|write| store(&places.path("a"), vec![write]));
    let ends = vec![Guard::Incarnation(name("words"), "i1".into())];
    store_with(&places.path("a"), ends, vec![Write::EndJob(name("words"))]);
    store(&places.path("a"), vec![Write::SweepJob { job: name("words"), limit: 200 }]);
    let given = {
        let (registry, runtime) = open(&places.path("a"));
        runtime.block_on(registry.numbering()).unwrap().ceiling()
    };
    places.import("a", "a.json", &["--skip-existing"]).ok();
    places.export("a", "again.json").ok();
    let records = places.json("again.json")["jobs"][0]["records"].clone();
    for (item, record) in records.as_object().unwrap() {
        let token = record["token"].as_u64().unwrap();
        assert!(token >= given.0, "item {item} begins at {token}, and {given} was given");
    }
}

#[test]
fn jobs_that_exist_are_kept_unless_overwriting_is_requested() {
    let places = Places::new();
    store(&places.path("a"), words("words"));
    places.export("a", "a.json").ok();
    assert_eq!(places.import("b", "a.json", &["--dry-run"]).ok(), "words would be imported\n");
    assert!(!places.path("b").exists(), "nothing was made");
    store(&places.path("b"), vec![create("words", 5), record("words", 0, idle(9_000)), create("mine", 1)]);
    let before = places.dump("b", "words");
    refused(
        places.import("b", "a.json", &[]),
        "IMPORT",
        &["nothing was written", "words exists: give --overwrite or --skip-existing"],
    );
    assert_eq!(places.import("b", "a.json", &["--skip-existing"]).ok(), "words skipped: it exists\n");
    let dry = places.import("b", "a.json", &["--overwrite", "--dry-run"]).ok();
    assert_eq!(dry, "words would be overwritten\n");
    assert_eq!(places.dump("b", "words"), before);
    assert_eq!(places.import("b", "a.json", &["--overwrite"]).ok(), "words overwritten\n");
    places.export("b", "b.json").ok();
    let mut jobs = places.json("b.json")["jobs"].clone();
    assert_eq!(jobs[0]["name"], "mine");
    let mut expected = places.json("a.json")["jobs"][0].clone();
    assert!(above(&mut jobs[1], &mut expected) >= 9_000, "above the tokens of both");
    assert_eq!(jobs[1], expected);
}

/// Imported jobs go on above all tokens that the new store has issued, whatever the file says. Returns the lowest
/// token; afterwards both are equal.
fn above(imported: &mut Value, exported: &mut Value) -> u64 {
    let mut lowest = u64::MAX;
    for (item, record) in imported["records"].as_object_mut().unwrap() {
        let before = exported["records"][item]["token"].take();
        let token = record["token"].take().as_u64().unwrap();
        assert!(before.as_u64().unwrap() <= token);
        lowest = lowest.min(token);
    }
    lowest
}

#[test]
fn runs_in_flight_are_named_and_crashed_only_where_that_is_said() {
    let places = Places::new();
    let mut writes = vec![create("words", 3)];
    writes.extend((0..3).map(|item| record("words", item, running(50))));
    store(&places.path("a"), writes);
    let said = places.export("a", "a.json");
    assert!(said.out.contains("3 runs are in flight"), "{}", said.out);
    assert!(said.err.contains("in flight: words/0: NORMAL_TRIGGER of 1970-01-01T00:08:20Z by 10.0.0.7@-@w1"));
    refused(places.import("b", "a.json", &[]), "IMPORT", &["words/0", "words/2", "--crash-running"]);
    assert!(places.dump("b", "words").is_empty());
    let done = places.import("b", "a.json", &["--crash-running"]).ok();
    assert_eq!(done.lines().count(), 4, "{done}");
    places.export("b", "b.json").ok();
    let records = places.json("b.json")["jobs"][0]["records"].clone();
    // The disabled item is not run again.
    let waits = |item: &str| records[item]["state"]["crashed"].is_object();
    assert_eq!([waits("0"), waits("1"), waits("2")], [true, false, true], "{records}");
    assert_eq!(records["1"]["last"]["outcome"], "crashed");
    let marks = places.dump("b", "words").into_iter().map(|(path, _)| path);
    let marks: Vec<String> = marks.filter(|path| path.contains("failover/items/")).collect();
    assert_eq!(marks.len(), 2, "{marks:?}");
}

#[test]
fn every_defect_of_a_file_is_told_with_its_place() {
    let places = Places::new();
    store(&places.path("a"), [words("words"), words("other")].concat());
    places.export("a", "a.json").ok();
    places.edit("a.json", "bad.json", |file| {
        file["more"] = 1.into();
        let job = &mut file["jobs"][1];
        job["records"]["0"]["token"] = "x".into();
        job["records"]["01"] = json!({});
        job["offsets"]["0"] = json!({ "base64": "?" });
        job["rights"]["owners"] = json!([0]);
        job["servers"]["10.0.0.8"] = "no".into();
        let job = &mut file["jobs"][0];
        job["records"]["7"]["token"] = (1_u64 << 50).into();
        job["config"] = r#"{"jobName":"else","shardingTotalCount":1,"cron":"never"}"#.into();
        job.as_object_mut().unwrap().remove("paused");
    });
    refused(
        places.import("b", "bad.json", &[]),
        "EXPORT_INVALID",
        &[
            "more: unknown field",
            "jobs[1] \"words\" records.0: ",
            "jobs[1] \"words\" records.01: write it as 1",
            "jobs[1] \"words\" offsets.0: it is not base64",
            "jobs[1] \"words\" rights.owners: owners do not move with a job; remove it",
            "jobs[1] \"words\" servers.10.0.0.8: it must be true (enabled) or false",
            "jobs[0] \"other\" paused: it is missing",
        ],
    );
    places.edit("a.json", "worse.json", |file| {
        file["jobs"][0]["config"] = r#"{"jobName":"else","shardingTotalCount":1,"cron":"never"}"#.into();
        file["jobs"][1]["records"]["7"]["token"] = (1_u64 << 50).into();
        file["jobs"][1]["config"] = r#"{"jobName":"else","shardingTotalCount":1}"#.into();
    });
    refused(
        places.import("b", "worse.json", &[]),
        "EXPORT_INVALID",
        &[
            "jobs[0] \"other\" config: job \"else\": cron = \"never\"",
            "jobs[1] \"words\" records.7: token 1125899906842624 is above the ",
            "jobs[1] \"words\" config: its jobName is else; make both the same",
        ],
    );
    assert!(!places.path("b").exists(), "nothing was written");
}

#[test]
fn an_import_leaves_a_line_for_the_audit_and_one_of_each_job() {
    let places = Places::new();
    store(&places.path("a"), words("words"));
    places.export("a", "a.json").ok();
    places.import("b", "a.json", &["--dry-run"]).ok();
    assert!(!places.path("b").exists());
    places.import("b", "a.json", &[]).ok();
    places.import("b", "a.json", &["--overwrite"]).ok();
    let file = places.path("b").join("history.db");
    let lines = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (recorder, reader) = History::open(file, Options::default(), Arc::new(|| at(400))).unwrap();
        let (lines, _) = reader.events(EventFilter::default(), Page { size: 9, token: None }).await.unwrap();
        recorder.stop().await;
        lines
    });
    let who = format!("uid {}", rustix::process::getuid().as_raw());
    assert!(lines.iter().all(|line| line.principal.as_ref() == Some(&who)), "{lines:?}");
    let lines: Vec<_> = lines.into_iter().map(|line| (line.job, line.kind, line.text)).collect();
    let of_job = |what: &str| (Some(name("words")), EventKind::Job, what.to_owned());
    let audit = |over: u32| {
        let file = places.path("a.json");
        let jobs = format!("1 made, {over} of them over what was there, 0 left as they were");
        let text = format!("imported from {}: {jobs}", file.display());
        (None, EventKind::Operation, text)
    };
    let expected = [audit(1), of_job("imported over what was there"), audit(0), of_job("imported")];
    assert_eq!(lines, expected);
}

#[test]
fn a_damaged_or_newer_file_is_refused() {
    let places = Places::new();
    store(&places.path("a"), words("words"));
    places.export("a", "a.json").ok();
    let text = std::fs::read_to_string(places.path("a.json")).unwrap();
    let table = [
        ("cut", text[..text.len() / 2].to_owned(), "it is not JSON, or was cut off"),
        ("flipped", text.replace("10.0.0.8", "10.0.0.9"), "digest: the file is not what was written"),
        (
            "newer",
            text.replace("\"version\": 1", "\"version\": 2"),
            "version = 2: this rosterd reads up to 1",
        ),
        ("other", "{\"jobs\": []}".to_owned(), "format = nothing: it must be \"rosterd-export\""),
        ("empty", String::new(), "it is not JSON, or was cut off"),
    ];
    for (name, text, words) in table {
        std::fs::write(places.path(name), &text).unwrap();
        refused(places.import("b", name, &[]), "EXPORT_INVALID", &[words, "nothing was written"]);
    }
    assert!(!places.path("b").exists());
}

/// The process died in the middle: the leftovers are not a job, and the next import starts over.
#[test]
fn what_an_import_left_unfinished_is_taken_away_by_the_next() {
    let places = Places::new();
    store(&places.path("a"), words("words"));
    places.export("a", "a.json").ok();
    let Write::CreateJob { job, handler_type, policy, assignment, .. } = create("words", 9) else { panic!() };
    let config = r#"{"jobName":"words","shardingTotalCount":9}"#.into();
    let begun = Write::PrepareJob { job, name: "s1".into(), handler_type, config, policy, assignment };
    store(&places.path("b"), vec![begun, record("words", 8, idle(1)), create("whole", 1)]);
    let said = places.export("b", "b.json");
    assert_eq!(said.err, "rosterd: words is left out: an import of it did not end\n");
    assert_eq!(places.import("b", "a.json", &[]).ok(), "words imported\n");
    places.export("b", "again.json").ok();
    let mut imported = places.json("again.json")["jobs"][1].clone();
    let mut expected = places.json("a.json")["jobs"][0].clone();
    above(&mut imported, &mut expected);
    assert_eq!(imported, expected);
}

#[test]
fn a_large_job_is_moved_in_several_transactions() {
    let places = Places::new();
    let mut writes = vec![create("large", 2_000)];
    writes.extend((0..2_000).map(|item| record("large", item, idle(u64::from(item) + 7))));
    writes.push(Write::ItemDisabled { job: name("large"), item: Item(1), disabled: true });
    writes.extend((0..40).map(|item| offset("large", item, &vec![b'x'; 50_000])));
    store(&places.path("a"), writes);
    places.export("a", "a.json").ok();
    places.import("b", "a.json", &[]).ok();
    same(&places.dump("b", "large"), &places.dump("a", "large"));
}

#[test]
fn there_must_be_something_to_export() {
    let places = Places::new();
    refused(places.export("none", "x.json"), "EXPORT", &["there is no store in ", "correct data_dir"]);
    assert!(!places.path("none").exists());
    store(&places.path("a"), Vec::new());
    store(&places.path("a"), vec![Write::Numbering { offset: 5, expect: None }]);
    refused(places.export("a", "x.json"), "EXPORT", &["namespace default has no jobs in this store"]);
    store(&places.path("a"), words("words"));
    let one = rosterd(["export", "--data-dir", &places.text("a"), "--job", "else", "-"]);
    refused(one, "EXPORT", &["job else does not exist in namespace default"]);
    let other = rosterd(["export", "--data-dir", &places.text("a"), "--namespace", "b", "-"]);
    refused(other, "EXPORT", &["holds the store of namespace default, not of b"]);
    let held = EmbeddedOptions::new(Namespace::new("default").unwrap());
    let held = EmbeddedRegistry::open(&places.path("a"), held).unwrap();
    refused(places.export("a", "x.json"), "EXPORT", &["is in use by another rosterd process; stop that one"]);
    drop(held);
}

#[test]
fn elastic_job_needs_its_servers() {
    let ran = rosterd(["import", "elastic-job", "--from", "old", "--data-dir", "x"]);
    assert_eq!(
        (ran.code, ran.err.contains("--zk: name the ZooKeeper servers")),
        (Some(2), true),
        "{}",
        ran.err
    );
    let ran = rosterd(["import", "--data-dir", "x"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
}
