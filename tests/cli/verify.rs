//! `rosterd verify`: on logs as workers write them, and on a coordinator's answers.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::admin::Served;
use crate::binary::{Ran, command};

/// A line of a log; times in seconds since the first.
fn line(second: u64, worker: &str, what: &str, token: u64, more: Value) -> String {
    let mut line = json!({
        "at": 1_000_000_000 * (100 + second), "wall": 1_795_219_200_000_u64 + 1000 * second, "worker": worker,
        "what": what, "job": "words", "item": 0, "token": token, "fire": 1_795_219_200_000_u64,
        "source": "NORMAL_TRIGGER", "attempt": 1, "instance": format!("10.0.0.7@-@{worker}"),
    });
    for (name, value) in more.as_object().unwrap() {
        line[name] = value.clone();
    }
    line.to_string() + "\n"
}

fn later(token: u64) -> Value {
    json!({ "fire": 1_795_219_200_000_u64 + 1000 * token })
}

struct Logs(tempfile::TempDir);

impl Logs {
    /// A clean log, one that is consistent with it, and one that is not.
    fn new() -> Self {
        let logs = Self(tempfile::tempdir().unwrap());
        let ann = line(0, "ann", "start", 5, json!({ "lease": 4_000_000_000_u64 }))
            + &line(1, "ann", "tick", 5, json!({}))
            + &line(2, "ann", "end", 5, json!({ "detail": "ok" }))
            + &line(5, "ann", "start", 6, later(6));
        let ben = line(6, "ann", "killed", 0, json!({ "job": "" }))
            + "\n"
            + &line(9, "ben", "start", 7, json!({ "source": "FAILOVER", "fire": 1_795_219_206_000_u64 }))
            + &line(11, "ben", "end", 7, json!({ "source": "FAILOVER", "detail": "ok" }));
        let cleo = line(1, "cleo", "start", 4, json!({}));
        for (name, text) in [("ann", ann), ("ben", ben), ("cleo", cleo)] {
            logs.write(name, &text);
        }
        logs
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(format!("{name}.jsonl")), text).unwrap();
    }

    fn verify(&self, args: &str) -> Ran {
        verify(self.0.path(), args)
    }
}

fn verify(dir: &Path, args: &str) -> Ran {
    command().current_dir(dir).arg("verify").args(args.split_whitespace()).output().unwrap().into()
}

#[test]
fn a_clean_log_is_told_in_a_few_lines() {
    let ran = Logs::new().verify("--log ann.jsonl ben.jsonl --owners");
    let wanted = "\
clean

judged                    3 runs of 1 item of 1 job by 2 workers
from                      2026-11-21T00:00:00Z
to                        2026-11-21T00:00:11Z
run twice for one fire    none
run by two at once        none
without an outcome        none
tokens that do not rise   none
taken over after a crash  1
not ended yet             0

ITEM     FROM                  UNTIL                 RUNS  TOKENS  WHO
words/0  2026-11-21T00:00:00Z  2026-11-21T00:00:06Z  2     5-6     ann (10.0.0.7@-@ann)
words/0  2026-11-21T00:00:09Z  2026-11-21T00:00:11Z  1     7       ben (10.0.0.7@-@ben)
";
    assert_eq!(ran.ok(), wanted);
}

#[test]
fn violations_come_with_the_lines_that_prove_them() {
    let ran = Logs::new().verify("--log ann.jsonl cleo.jsonl");
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), "rosterd: VIOLATIONS: 5 violations were found\n"));
    let wanted = "\
5 violations

lease: words/0: token 4 on cleo began while token 5 on ann had a good lease
  ann.jsonl:1   2026-11-21T00:00:00Z  start  words/0 token 5  on ann, NORMAL_TRIGGER of 2026-11-21T00:00:00Z, lease 4000 ms
  cleo.jsonl:1  2026-11-21T00:00:01Z  start  words/0 token 4  on cleo, NORMAL_TRIGGER of 2026-11-21T00:00:00Z
  ann.jsonl:3   2026-11-21T00:00:02Z  end    words/0 token 5  on ann, ok

";
    assert!(ran.out.starts_with(wanted), "{}", ran.out);
    let wanted = "\
once_per_fire: words/0: the fire of 2026-11-21T00:00:00Z was run as token 5 and 4
  ann.jsonl:1   2026-11-21T00:00:00Z  start  words/0 token 5  on ann, NORMAL_TRIGGER of 2026-11-21T00:00:00Z, lease 4000 ms
";
    assert!(ran.out.contains(wanted), "{}", ran.out);
    let wanted = "\
run twice for one fire    1
run by two at once        3
without an outcome        none
tokens that do not rise   1
";
    assert!(ran.out.contains(wanted), "{}", ran.out);
}

#[test]
fn programs_are_told_all_of_it() {
    let ran = Logs::new().verify("--log ann.jsonl cleo.jsonl --json");
    assert_eq!(ran.code, Some(1));
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&value["clean"], &value["runs"]), (&json!(false), &json!(3)));
    let rules: Vec<&str> =
        value["violations"].as_array().unwrap().iter().map(|fault| fault["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["lease", "overlap", "overlap", "tokens", "once_per_fire"]);
    let proof = &value["violations"][0]["proof"];
    assert_eq!(proof[0]["place"], "ann.jsonl:1");
    assert_eq!((&proof[0]["line"]["token"], &proof[1]["line"]["worker"]), (&json!(5), &json!("cleo")));
    let owners: Vec<&Value> =
        value["owners"].as_array().unwrap().iter().map(|owner| &owner["worker"]).collect();
    assert_eq!(owners, ["ann", "cleo", "ann"]);
    let clean = Logs::new().verify("--log ann.jsonl --json").json();
    assert_eq!((&clean["clean"], &clean["not_ended"]), (&json!(true), &json!(1)));
}

#[test]
fn runs_of_a_job_without_monitoring_may_overlap() {
    let logs = Logs::new();
    let ran = logs.verify("--log ann.jsonl cleo.jsonl --unmonitored words");
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), "rosterd: VIOLATIONS: 1 violation was found\n"));
    assert!(ran.out.starts_with("1 violation\n\nonce_per_fire: words/0: "), "{}", ran.out);
    let row = "\nnot promised              4 overlaps or unknown ends, of jobs without monitorExecution\n";
    assert!(ran.out.contains(row), "{}", ran.out);
    let other = logs.verify("--log ann.jsonl cleo.jsonl --unmonitored other --json");
    let other: Value = serde_json::from_str(&other.out).unwrap();
    assert_eq!((other["violations"].as_array().unwrap().len(), &other["not_promised"]), (5, &json!(0)));
}

#[test]
fn a_span_and_a_job_are_judged_alone() {
    let logs = Logs::new();
    let runs =
        |args: &str| logs.verify(&format!("--log ann.jsonl ben.jsonl --json {args}")).json()["runs"].clone();
    assert_eq!(runs("--since 2026-11-21T00:00:05Z"), 2);
    assert_eq!(runs("--until 2026-11-21T00:00:05Z"), 1);
    assert_eq!(runs("--since 2026-11-21T00:00:05Z --until 2026-11-21T00:00:06Z"), 1);
    assert_eq!(runs("--job words"), 3);
}

#[test]
fn without_a_verdict_the_exit_code_is_not_that_of_a_verdict() {
    let logs = Logs::new();
    let mut torn = String::from("{\"at\": 1}\n");
    let _ = write!(torn, "{}", line(0, "dan", "start", 1, json!({})));
    logs.write("torn", &torn);
    logs.write("timeless", &line(0, "dan", "start", 1, json!({ "wall": 0 })));
    logs.write("cut", &(line(0, "dan", "start", 1, json!({})) + "{\"at\": 17, \"wor"));
    let refused = |args: &str, words: &str| {
        let ran = logs.verify(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{args}: {}", ran.err);
        assert!(ran.err.contains(words), "{args}: {}", ran.err);
    };
    refused("--log torn.jsonl", "torn.jsonl:1 is not a line of a worker's log: missing field `worker`");
    refused("--log timeless.jsonl --since 1h", "timeless.jsonl:1 has no wall time");
    refused("--log none.jsonl", "none.jsonl cannot be read");
    refused("--log ann.jsonl --job other", "nothing of job other was run or scheduled in that time");
    refused("--log ann.jsonl --until 2020-01-01T00:00:00Z", "there is nothing to judge");
    refused("--log ann.jsonl --since 1h --until 2h", "is not before --until");
    refused("--log ann.jsonl --data-dir .", "cannot be used with");
    refused("--data-dir .", "there is no history.db in .");
    logs.verify("--log cut.jsonl").ok();
    let nobody = logs.verify("--server 127.0.0.1:1");
    assert_eq!((nobody.code, nobody.out.as_str()), (Some(3), ""), "{}", nobody.err);
}

#[test]
fn a_coordinator_is_asked_for_what_it_knows() {
    let served = Served::start();
    let ran = served.rosterd(&["verify", "--job", "words"]);
    let wanted = "\
clean

judged                    3 runs of 3 items of 1 job by 1 worker
from                      2026-11-21T00:00:00Z
to                        2026-11-21T00:00:01.5Z
run twice for one fire    none
run by two at once        none
without an outcome        none
tokens that do not rise   none
taken over after a crash  3
not ended yet             0
scheduled times           1 missed (no_slot), 1 run
";
    assert_eq!(ran.ok(), wanted);
}

#[test]
fn the_histories_of_an_ensemble_are_none_of_a_coordinator_with_its_own_registry() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("history.db"), "").unwrap();
    let served = Served::start();
    let ran = served.rosterd(&["verify", "--whole", "--data-dir", dir.path().to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    let words = format!("--whole: the coordinator at {} has a store of its own", served.url);
    assert!(ran.err.contains(&words), "{}", ran.err);
    let ran = served.rosterd(&["verify", "--whole"]);
    assert!(ran.code == Some(2) && ran.err.contains("--data-dir"), "{}", ran.err);
}
