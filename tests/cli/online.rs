//! Commands that call a coordinator: their requests, and how they show the answer.

use serde_json::json;

use crate::admin::Served;
use crate::binary::rosterd;

#[test]
fn lists_are_tables_for_people() {
    let served = Served::start();
    assert_eq!(
        served.rosterd(&["jobs", "list"]).ok(),
        "JOB    STATUS   CRON           ITEMS  WORKERS  RUNNING  NEXT FIRE\n\
         words  enabled  0/5 * * * * ?  3      2        1        2026-11-21 00:00:05Z\n"
    );
    assert_eq!(served.rosterd(&["jobs", "list", "--filter", "none"]).ok(), "no jobs\n");
    assert_eq!(
        served.rosterd(&["items", "words"]).ok(),
        "ITEM  PARAMETER  STATE     OWNER           LAST FIRE             LAST RUN\n\
         0     Beijing    idle      10.0.0.7@-@w-1  2026-11-21 00:00:00Z  succeeded\n\
         1     -          running   10.0.0.7@-@w-1  2026-11-21 00:00:00Z  -\n\
         2     Beijing    disabled  -               2026-11-21 00:00:00Z  succeeded\n"
    );
    assert_eq!(
        served.rosterd(&["instances"]).ok(),
        "INSTANCE        JOB    STATUS   RUNS       ITEMS  SLOTS  CLIENT\n\
         10.0.0.7@-@w-1  words  enabled  running 1  2      8      python/0.1\n"
    );
    assert_eq!(
        served.rosterd(&["machines", "list", "words"]).ok(),
        "MACHINE   JOB    STATUS    INSTANCES\n10.0.0.7  words  disabled  1\n"
    );
    assert_eq!(
        served.rosterd(&["machines"]).ok(),
        "MACHINE   STATUS           JOBS  DISABLED  INSTANCES\n10.0.0.7  partly disabled  3     1         1\n"
    );
    assert_eq!(
        served.rosterd(&["jobs", "stats", "words", "--last", "1m,1h"]).ok(),
        "LAST  RUNS  SUCCEEDED  FAILED  CANCELLED  CRASHED  TIMED OUT  RECORDS  BAD RECORDS\n\
         1m    9     5          1       0          0        0          700      3\n\
         1h    9     5          1       0          0        0          700      3\n"
    );
    assert_eq!(
        served.rosterd(&["cluster"]).ok(),
        "ASKED  COORDINATOR    URL                   STATUS     LEADS  WORKERS  LAG\n\
         *      10.0.0.1@-@c1  http://10.0.0.1:7700  suspended  4      2        3ms\n       \
                10.0.0.2@-@c2  http://10.0.0.2:7700  draining   0      0        0ms\n"
    );
    let cluster = served.rosterd(&["cluster", "--json"]).json();
    assert_eq!((&cluster[0]["state"], &cluster[0]["proved_ago_ms"]), (&json!("suspended"), &json!(7250)));
    // Of a version that does not report it.
    assert_eq!((&cluster[1]["state"], &cluster[1]["proved_ago_ms"]), (&json!("draining"), &json!(null)));
    assert_eq!(
        served.rosterd(&["runs", "--limit", "2"]).out,
        "STARTED               ITEM     OUTCOME  TOOK  SOURCE    INSTANCE        ERROR\n\
         2026-11-21 00:00:00Z  words/0  failed   1.5s  FAILOVER  10.0.0.7@-@w-1  exit status 3…\n\
         2026-11-21 00:00:00Z  words/1  failed   1.5s  FAILOVER  10.0.0.7@-@w-1  exit status 3…\n"
    );
    assert_eq!(
        served.rosterd(&["events", "--limit", "3"]).out,
        "AT                    KIND    JOB    BY   WHAT\n\
         2026-11-21 00:00:05Z  job     words  ann  paused\n\
         2026-11-21 00:00:00Z  worker  -      -    10.0.0.7@-@w-1 dead\n\
         2026-11-21 00:00:05Z  job     words  ann  paused\n"
    );
    assert_eq!(
        served.rosterd(&["fires", "words"]).ok(),
        "SCHEDULED             ITEM  RESULT            SOURCE    OUTCOME  INSTANCE\n\
         2026-11-21 00:00:00Z  0     run               FAILOVER  failed   10.0.0.7@-@w-1\n\
         2026-11-21 00:00:05Z  0     missed (no_slot)  -         -        -\n"
    );
}

#[test]
fn the_coordinator_that_answers_is_shown() {
    let served = Served::start();
    assert_eq!(
        served.rosterd(&["info"]).ok(),
        "version       0\nnamespace     default\ncoordinator   c\nstore         embedded\nhealth        suspended\n\
         started       2026-11-21 00:00:00Z\nnow           2026-11-21 00:00:05Z\n\
         coordinators  http://a:1 http://b:2\n"
    );
    let info = served.rosterd(&["info", "--json"]).json();
    assert_eq!(info["coordinators"], json!(["http://a:1", "http://b:2"]));
    assert_eq!((&info["health"], &info["started"]), (&json!("suspended"), &json!("2026-11-21T00:00:00Z")));
}

#[test]
fn lists_are_json_for_programs() {
    let served = Served::start();
    let jobs = served.rosterd(&["jobs", "list", "--json"]).json();
    assert_eq!(jobs[0]["status"], "enabled");
    assert_eq!(jobs[0]["next_fire"], "2026-11-21T00:00:05Z");
    assert_eq!(jobs[0]["counters"]["missed"], json!({ "down": 2 }));
    let items = served.rosterd(&["items", "--job", "words", "--json"]).json();
    assert_eq!(items[0]["running"], json!(null));
    assert_eq!(items[1]["running"]["source"], "NORMAL_TRIGGER");
    assert_eq!((&items[1]["token"], &items[1]["state"]), (&json!(17), &json!("running")));
    let fires = served.rosterd(&["fires", "--job", "words", "--not-run", "--json"]).json();
    assert_eq!(fires.as_array().map(Vec::len), Some(1));
    assert_eq!((&fires[0]["result"], &fires[0]["reason"]), (&json!("missed"), &json!("no_slot")));
    let events = served.rosterd(&["events", "--kind", "job", "--principal", "ann", "--json"]).json();
    assert_eq!(events[0]["at"], "2026-11-21T00:00:05Z");
    assert_eq!((&events[1]["kind"], &events[1]["job"]), (&json!("worker"), &json!("")));
    let instances = served.rosterd(&["instances", "--json"]).json();
    assert_eq!(instances[0]["labels"], json!({ "zone": "a" }));
    assert_eq!((&instances[0]["state"], &instances[0]["running"]), (&json!("running"), &json!(1)));
    let machines = served.rosterd(&["machines", "--json"]).json();
    assert_eq!((&machines[0]["job"], &machines[0]["disabled_jobs"]), (&json!(null), &json!(1)));
    let machines = served.rosterd(&["machines", "--by-job", "--json"]).json();
    assert_eq!((&machines[0]["job"], &machines[0]["jobs"]), (&json!("words"), &json!(1)));
}

#[test]
fn runs_are_read_page_by_page_up_to_the_limit() {
    let served = Served::start();
    let runs = served.rosterd(&["runs", "--job", "words", "--outcome", "failed", "--json"]).json();
    let items: Vec<_> = runs.as_array().unwrap().iter().map(|run| run["item"].as_u64()).collect();
    assert_eq!(items, [Some(0), Some(1), Some(2)]);
    assert_eq!((&runs[0]["outcome"], &runs[0]["state"]), (&json!("failed"), &json!("TASK_ERROR")));
    assert_eq!(runs[0]["task_id"], "words@-@0@-@READY@-@10.0.0.7@-@w-1");
    assert!(served.asked().contains("page_token: \"2\""), "{}", served.asked());
    assert!(served.asked().contains("outcome: Failed"), "{}", served.asked());
}

#[test]
fn a_job_is_shown_with_its_file() {
    let served = Served::start();
    let wanted = "\
job          words
description  counts words
status       enabled
schedule     0/5 * * * * ? (UTC)
next         2026-11-21 00:00:05Z, 2026-11-21 00:00:10Z, 2026-11-21 00:00:15Z, 2026-11-21 00:00:20Z, 2026-11-21 00:00:25Z
items        3, 1 running
workers      2
leader       10.0.0.1@-@c-1
started      7 runs
ended        5 succeeded, 1 crashed, 2 missed
epoch        2
generation   4

jobName: words
shardingTotalCount: 3
";
    assert_eq!(served.rosterd(&["jobs", "show", "words"]).ok(), wanted);
    let spec = served.rosterd(&["jobs", "show", "words", "--spec"]).ok();
    assert_eq!(spec, "jobName: words\nshardingTotalCount: 3\n");
    let next = served.rosterd(&["jobs", "next", "words", "--count", "2", "--json"]).json();
    assert_eq!(next, json!(["2026-11-21T00:00:05Z", "2026-11-21T00:00:10Z"]));
}

#[test]
fn changes_ask_for_what_was_typed() {
    let served = Served::start();
    let changes: &[(&[&str], &str, &str)] = &[
        (&["jobs", "pause", "words"], "words: paused\n", "pause_job PauseJobRequest { job: \"words\" }"),
        (&["jobs", "resume", "words"], "words: resumed\n", "resume_job"),
        (
            &["jobs", "disable", "words", "--item", "2", "--cancel"],
            "words: disabled\n",
            "enabled: false, cancel: true, target: Some(Item(2))",
        ),
        (&["jobs", "disable", "words"], "words: disabled\n", "target: None"),
        (
            &["jobs", "enable", "words", "--machine", "10.0.0.7"],
            "words: enabled\n",
            "enabled: true, cancel: false, target: Some(Machine(\"10.0.0.7\"))",
        ),
        (&["jobs", "cancel", "words", "--item", "3"], "words: item 3 is told to stop\n", "item: 3"),
        (&["jobs", "remove", "words", "--cancel"], "words: removed\n", "cancel: true"),
        (
            &["jobs", "trigger", "words", "--item", "1,2", "--after-current"],
            "words: items 1, 2 run now\n",
            "items: [1, 2], after_current: true",
        ),
        (
            &["machines", "disable", "10.0.0.7", "--cancel"],
            "words: machine disabled\n",
            "set_machine_enabled SetMachineEnabledRequest { machine: \"10.0.0.7\", enabled: false, cancel: true }",
        ),
        (&["machines", "enable", "10.0.0.7"], "words: machine enabled\n", "enabled: true, cancel: false"),
        (&["machines", "shutdown", "m"], "words: 1 instances are shut down\n", "shutdown_machine"),
        (&["instances", "drain", "A", "--grace", "30s"], "asked to leave\n", "seconds: 30"),
        (&["instances", "shutdown", "A", "--job", "words"], "words: shut down\n", "instance: \"A\""),
    ];
    for (args, out, asked) in changes {
        assert_eq!(served.rosterd(args).ok(), *out, "{args:?}");
        assert!(served.asked().contains(asked), "{args:?}: {}", served.asked());
    }
    let triggered = served.rosterd(&["jobs", "trigger", "words", "--json"]).json();
    let change = json!({ "job": "words", "effect": "changed", "fields": [], "lines": ["items 1, 2 run now"], "warnings": [], "code": null });
    let wanted = json!({ "trigger_id": "t-1", "changes": [change] });
    assert_eq!(triggered, wanted);
}

/// The output lists the changed and the unchanged jobs, and the exit code shows that one was not changed.
#[test]
fn a_change_that_one_of_several_jobs_refuses_is_a_failure_that_tells_the_rest() {
    let served = Served::start();
    let removed = served.rosterd(&["machines", "remove", "m"]);
    assert_eq!(removed.code, Some(1));
    assert_eq!(
        removed.out,
        "words: machine m removed\n\
         nightly: refused: MACHINE_IN_USE: machine m has 1 instances: shut them down first\n"
    );
    assert_eq!(removed.err, "rosterd: MACHINE_IN_USE: 1 of 2 jobs refused and stay as they were\n");
    let removed = served.rosterd(&["machines", "remove", "m", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&removed.out).unwrap();
    assert_eq!(
        (&told["changes"][1]["effect"], &told["changes"][1]["code"]),
        (&json!("refused"), &json!("MACHINE_IN_USE"))
    );
    assert_eq!((&told["changes"][0]["effect"], removed.code), (&json!("changed"), Some(1)));
}

#[test]
fn a_job_file_is_applied_or_compared() {
    let served = Served::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("words.yaml");
    std::fs::write(&file, "jobName: words\n").unwrap();
    let file = file.to_str().unwrap();
    let words_cron = "words: cron: (none) -> \"0 0 2 * * ?\"\n";
    assert_eq!(served.rosterd(&["jobs", "apply", "-f", file]).ok(), words_cron);
    assert!(
        served.asked().ends_with("{ text: \"jobName: words\\n\", dry_run: false }"),
        "{}",
        served.asked()
    );
    assert_eq!(served.rosterd(&["jobs", "diff", "-f", file]).ok(), words_cron);
    assert!(served.asked().contains("dry_run: true"));
    assert_eq!(served.rosterd(&["jobs", "diff", "-f", file, "--exit-code"]).code, Some(1));
    assert_eq!(served.rosterd(&["jobs", "apply", "-f", "/nowhere"]).code, Some(2));
}

#[test]
fn a_dump_is_one_object_of_nodes() {
    let served = Served::start();
    assert_eq!(
        served.rosterd(&["dump", "--job", "words", "--json"]).json(),
        json!({
            "/config": { "data": "{\"jobName\":\"words\"}", "ephemeral": false },
            "/sharding/10/running": { "data": "A", "ephemeral": true },
            "/sharding/2": { "data": [255, 0], "ephemeral": false },
        })
    );
    assert_eq!(
        served.rosterd(&["dump", "--job", "words"]).ok(),
        "/config  {\"jobName\":\"words\"}\n/sharding/2  \u{fffd}\0\n/sharding/10/running (ephemeral)  A\n"
    );
}

#[test]
fn a_watch_tells_each_event_and_how_it_ended() {
    let served = Served::start();
    let ran = served.rosterd(&["watch", "--job", "words"]);
    let wanted = "\
2026-11-21 00:00:01Z  words/1 started NORMAL_TRIGGER of 2026-11-21 00:00:00Z on 10.0.0.7@-@w-1, token 17
2026-11-21 00:00:01Z  words/1 failed NORMAL_TRIGGER of 2026-11-21 00:00:00Z on 10.0.0.7@-@w-1, token 17: exit status 3
2026-11-21 00:00:01Z  words/1 missed (no_worker): 3 fires, 2026-11-21 00:00:00Z to 2026-11-21 00:00:10Z
2026-11-21 00:00:01Z  words assigned: A 0-2 (an instance joined)
2026-11-21 00:00:01Z  A dead
2026-11-21 00:00:01Z  words paused
2026-11-21 00:00:01Z  9 events were lost: this watch is too slow
";
    assert_eq!(ran.out, wanted);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(3), "rosterd: UNAVAILABLE: the coordinator ended the watch: it is stopping\n")
    );
    let ran = served.rosterd(&["watch", "--json"]);
    let told: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let all = ["run_started", "run_ended", "fires_not_run", "assigned", "worker", "job", "events_lost"];
    assert_eq!(names, all);
    assert_eq!(told[4]["change"], "dead");
    assert_eq!((&told[5]["action"], &told[5]["principal"]), (&json!("pause"), &json!("ops")));
    assert_eq!(told[3]["assignment"], json!({ "A": [0, 1, 2] }));
}

#[test]
fn refusals_say_code_and_message_and_have_an_exit_code() {
    let served = Served::start();
    let ran = served.rosterd(&["jobs", "show", "nope"]);
    let wanted = "rosterd: JOB_UNKNOWN: there is no job \"nope\": apply it first\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(1), "", wanted));
    let ran = served.rosterd(&["jobs", "remove", "words", "--json"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(1), "rosterd: RUN_IN_FLIGHT: item 1 is running: wait, or --cancel\n")
    );
    let ran = rosterd(["jobs", "list", "--server", &served.url]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(4), "rosterd: UNAUTHENTICATED: no valid credential came with the request\n")
    );
    let ran = rosterd(["jobs", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.err.starts_with("rosterd: UNAVAILABLE: no coordinator answers at http://127.0.0.1:1 ("),
        "{}",
        ran.err
    );
    assert_eq!(rosterd(["jobs", "list", "--server", "https://127.0.0.1:1"]).code, Some(3));
    let far = crate::binary::command()
        .args(["jobs", "list", "--server", "http://192.0.2.1:1"])
        .env("ROSTERD_CREDENTIAL", "s3cret")
        .output()
        .unwrap();
    let far: crate::binary::Ran = far.into();
    assert_eq!(far.code, Some(2));
    assert!(far.err.contains("the credential would go there in plain text"), "{}", far.err);
    assert!(!far.err.contains("s3cret"), "{}", far.err);
}

#[test]
fn the_next_server_is_asked_when_one_does_not_answer() {
    let served = Served::start();
    let address = served.url.strip_prefix("http://").unwrap();
    let args = ["jobs", "list", "--server", "127.0.0.1:1", "--server", address];
    assert!(served.rosterd(&args).ok().contains("words"));
}

#[test]
fn probe_tells_by_its_exit_code() {
    let served = Served::start();
    assert_eq!(rosterd(["probe", "--server", &served.url]).ok(), "");
    let down = rosterd(["probe", "--server", &served.url, "--service", "down"]);
    assert_eq!(
        (down.code, down.err.as_str()),
        (Some(3), "rosterd: UNAVAILABLE: the coordinator is NOT_SERVING\n")
    );
    assert_eq!(rosterd(["probe", "--server", "http://127.0.0.1:1"]).code, Some(3));
    // If the coordinator answers anybody, it shows why it does not serve.
    let open = Served::start_open();
    let down = rosterd(["probe", "--server", &open.url, "--service", "down"]);
    assert_eq!(
        (down.code, down.err.as_str()),
        (Some(3), "rosterd: UNAVAILABLE: the coordinator is NOT_SERVING: suspended\n")
    );
}

#[test]
fn an_item_is_explained_within_eighty_columns() {
    let served = Served::start();
    let text = served.rosterd(&["explain", "words/1"]).ok();
    assert_eq!(
        text,
        "words/1\n  \
           owner       10.0.0.7@-@w-1 owns item 1 of words; its worker is attached to\n              \
                       coordinator c-1.\n  \
           candidates  10.0.0.8@-@w-2 gets no items: its worker is leaving.\n              \
                       10.0.0.9@-@w-3 gets no items: it no longer exists.\n"
    );
    let told = served.rosterd(&["explain", "words/1", "--json"]).json();
    assert_eq!(
        (&told["job"], &told["item"], &told["sentences"][1]["part"]),
        (&json!("words"), &json!(1), &json!("candidates"))
    );
    assert_eq!(told["sentences"][0]["links"], json!([{ "text": "10.0.0.7@-@w-1", "href": "workers" }]));
    let wrong = served.rosterd(&["explain", "words"]);
    assert!(
        wrong.code == Some(2) && wrong.err.contains("expected JOB/ITEM"),
        "{:?}: {}",
        wrong.code,
        wrong.err
    );
}

#[test]
fn ownership_is_listed() {
    let served = Served::start();
    assert_eq!(
        served.rosterd(&["items", "--job", "words", "--history", "--item", "1"]).ok(),
        "ITEM  OWNER           FROM                  TO                    WHY                      WHY IT ENDED\n\
         1     10.0.0.7@-@w-1  2026-11-21 00:00:05Z  -                     10.0.0.8@-@w-2 has gone  -\n\
         1     10.0.0.8@-@w-2  2026-11-21 00:00:00Z  2026-11-21 00:00:05Z  first assignment         10.0.0.8@-@w-2 has gone\n"
    );
    let stays = served.rosterd(&["items", "--job", "words", "--history", "--json"]).json();
    assert_eq!(
        (&stays[0]["to"], &stays[0]["end_reason"], &stays[1]["generation"]),
        (&json!(null), &json!(null), &json!(1))
    );
}
