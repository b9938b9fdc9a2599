//! Commands that need no coordinator.

use std::io::Write as _;

use serde_json::json;

use crate::binary::rosterd;

#[test]
fn cron_next_gives_a_list_of_times_in_utc() {
    let args = ["cron", "next", "0 0 9 ? * MON-FRI", "--time-zone", "Europe/Berlin", "--from"];
    let args = args.into_iter().chain(["2026-11-21T00:00:00Z", "--count", "3"]);
    let out = rosterd(args.clone().chain(["--json"])).ok();
    assert_eq!(out, "[\"2026-11-23T08:00:00Z\",\"2026-11-24T08:00:00Z\",\"2026-11-25T08:00:00Z\"]\n");
    let text = rosterd(args).ok();
    let wanted = "LOCAL TIME                   UTC\n\
                  Mon 2026-11-23 09:00:00 CET  2026-11-23T08:00:00Z\n\
                  Tue 2026-11-24 09:00:00 CET  2026-11-24T08:00:00Z\n\
                  Wed 2026-11-25 09:00:00 CET  2026-11-25T08:00:00Z\n";
    assert_eq!(text, wanted);
}

#[test]
fn cron_next_starts_later_than_from_and_ends_with_the_years() {
    let next = |expr: &str, from: &str| {
        rosterd(["cron", "next", expr, "--from", from, "--count", "2", "--json"]).json()
    };
    assert_eq!(
        next("0 0 0 * * ?", "2026-11-21T00:00:00Z"),
        json!(["2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"])
    );
    assert_eq!(next("0 0 0 1 1 ? 2027", "2026-11-21T01:00:00+01:00"), json!(["2027-01-01T00:00:00Z"]));
    assert_eq!(next("0 0 0 1 1 ? 2027", "2027-01-01T00:00:00Z"), json!([]));
}

#[test]
fn a_bad_expression_is_refused_with_its_field() {
    let ran = rosterd(["cron", "next", "0 0 25 * * ?"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.starts_with("rosterd: SCHEDULE_INVALID: hours \"25\""), "{}", ran.err);
}

#[test]
fn plan_spreads_items_in_the_order_of_the_instances() {
    let plan = |strategy: &str, instances: &str| {
        let args =
            ["plan", "--strategy", strategy, "--job", "words", "--items", "7", "--instances", instances];
        rosterd(args.into_iter().chain(["--json"])).ok()
    };
    assert_eq!(plan("AVG_ALLOCATION", "A,B,C"), "{\"assignment\":{\"A\":[0,1,6],\"B\":[2,3],\"C\":[4,5]}}\n");
    assert_eq!(plan("AVG_ALLOCATION", "C,B,A"), "{\"assignment\":{\"A\":[4,5],\"B\":[2,3],\"C\":[0,1,6]}}\n");
}

#[test]
fn plan_continues_from_what_holds() {
    let mut current = tempfile::NamedTempFile::new().unwrap();
    current.write_all(br#"{"assignment": {"A": [0, 1, 2], "B": [3, 4, 5], "gone": [6]}}"#).unwrap();
    let file = current.path().to_str().unwrap();
    let args = ["plan", "--strategy", "STICKY", "--job", "words", "--items", "7", "--instances", "A,B"];
    let args = args.into_iter().chain(["--current", file]);
    let value = rosterd(args.clone().chain(["--json"])).json();
    let owned = |id: &str| value["assignment"][id].as_array().map(Vec::len);
    assert_eq!((owned("A"), owned("B"), owned("gone")), (Some(4), Some(3), None), "{value}");
    let text = rosterd(args).ok();
    assert!(text.starts_with("INSTANCE  COUNT  ITEMS\nA         4      0-2,6\n"), "{text}");
}

#[test]
fn plan_refuses_what_it_does_not_know() {
    let ran = rosterd(["plan", "--strategy", "BEST", "--job", "j", "--items", "1", "--instances", "A"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("there is no strategy \"BEST\": use one of AVG_ALLOCATION"), "{}", ran.err);
}

/// The completions for the last of these words.
fn offered(words: &[&str], server: &str) -> Vec<String> {
    let mut asked = crate::binary::command();
    asked.env("COMPLETE", "fish").env("ROSTERD_SERVER", server).env("ROSTERD_CREDENTIAL", "s3cret");
    asked.args(["--", "rosterd"]).args(words);
    let ran: crate::binary::Ran = asked.output().unwrap().into();
    let offered = ran.ok();
    offered.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn completion_knows_the_commands_the_flags_and_the_jobs() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = rosterd(["completion", shell]).ok();
        assert!(script.contains("COMPLETE") && script.contains("rosterd"), "{shell}: {script}");
    }
    let nobody = "127.0.0.1:1";
    let commands = offered(&[""], nobody);
    for word in ["serve", "exec", "jobs", "completion"] {
        assert!(commands.iter().any(|offered| offered == word), "{word}: {commands:?}");
    }
    assert!(
        !commands.iter().any(|word| word.contains("guard") || word.contains("dev-worker")),
        "{commands:?}"
    );
    assert!(offered(&["cron", "next", "--t"], nobody).contains(&"--time-zone".to_owned()));
    let served = crate::admin::Served::start();
    assert_eq!(offered(&["jobs", "show", "w"], &served.url), ["words"]);
    assert!(offered(&["items", "w"], &served.url).contains(&"words".to_owned()));
    // A shell does not wait for an unreachable coordinator.
    assert!(!offered(&["jobs", "show", "w"], nobody).contains(&"words".to_owned()));
}

#[test]
fn a_reader_that_goes_away_is_not_a_failure() {
    let mut child = crate::binary::command();
    child.args(["cron", "next", "* * * * * ?", "--count", "100000"]);
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
