//! Which test covers each effective field of a job file: a test in which it alone is changed, and a worker, or an
//! operator if workers do not get the field, sees the difference.

use std::collections::BTreeMap;
use std::path::Path;

use rosterd_domain::job::{FIELDS, POLICY_FIELDS, PolicyField, Use};

/// Every used field of Elastic-Job, and the tests of this suite in which it is seen.
const SEEN: &[(&str, &[&str])] = &[
    ("jobName", &["what_a_run_is_told"]),
    ("cron", &["a_schedule_and_its_zone_decide_when_workers_run"]),
    ("timeZone", &["a_schedule_and_its_zone_decide_when_workers_run"]),
    ("shardingTotalCount", &["what_a_run_is_told"]),
    ("shardingItemParameters", &["what_a_run_is_told"]),
    ("jobParameter", &["what_a_run_is_told"]),
    ("monitorExecution", &["without_monitoring_no_run_is_recorded_and_none_is_merged"]),
    ("failover", &["failover_decides_whether_a_crashed_run_runs_again"]),
    ("misfire", &["misfire_decides_whether_a_run_stands_for_those_that_were_due"]),
    ("maxTimeDiffSeconds", &["a_job_may_ask_for_a_better_clock"]),
    ("reconcileIntervalMinutes", &["what_nothing_told_of_is_found_by_looking_again"]),
    (
        "jobShardingStrategyType",
        &["the_strategy_decides_who_owns_what", "schedule_and_strategy_change_while_workers_work"],
    ),
    ("jobShardingStrategyClass", &["the_strategy_decides_who_owns_what"]),
    // Workers do not get these two.
    ("description", &["what_people_are_shown_and_workers_are_not_told"]),
    ("label", &["what_people_are_shown_and_workers_are_not_told"]),
    ("props", &["props_reach_workers_of_every_kind_and_so_does_their_change"]),
    ("disabled", &["a_job_may_start_disabled"]),
    ("overwrite", &["a_job_file_may_say_that_it_overwrites"]),
    ("jobClass", &["a_handler_by_its_class_or_kind_is_the_one_that_workers_must_name"]),
    ("elasticJobClass", &["a_handler_by_its_class_or_kind_is_the_one_that_workers_must_name"]),
    (
        "elasticJobType",
        &[
            "a_handler_by_its_class_or_kind_is_the_one_that_workers_must_name",
            "the_kind_alone_decides_whether_a_job_can_stream",
        ],
    ),
    (
        "jobType",
        &[
            "a_handler_by_its_class_or_kind_is_the_one_that_workers_must_name",
            "the_kind_alone_decides_whether_a_job_can_stream",
        ],
    ),
    ("streamingProcess", &["a_dataflow_of_elastic_job_streams_where_it_says_so"]),
    ("scriptCommandLine", &["a_command_line_is_a_property_that_its_worker_is_told"]),
    ("typeConfig", &["the_nesting_of_elastic_job_2_hides_nothing"]),
    ("coreConfig", &["the_nesting_of_elastic_job_2_hides_nothing"]),
];

/// The same for the fields of a job file under `rosterd`.
const SEEN_OWN: &[(&str, &[&str])] = &[
    ("handler", &["a_handler_by_its_class_or_kind_is_the_one_that_workers_must_name"]),
    ("kind", &["a_handler_by_its_class_or_kind_is_the_one_that_workers_must_name"]),
    ("streaming", &["a_dataflow_fetches_until_there_is_nothing_where_it_streams"]),
    ("catch_up_window_ms", &["down_for_several_fires_they_run_late_while_the_window_lasts"]),
    ("too_late", &["down_for_several_fires_they_are_missed_where_the_job_says_so"]),
    ("gap", &["a_time_that_daylight_saving_leaves_out_is_due_at_its_end_or_never"]),
    ("run_timeout_ms", &["a_run_that_takes_too_long_is_stopped_and_has_timed_out"]),
    ("max_failovers", &["a_run_that_kills_its_workers_is_given_up"]),
    ("disconnect_grace_ms", &["disconnect_grace_is_a_shorter_lease"]),
    ("strategy", &["schedule_and_strategy_change_while_workers_work"]),
    ("max_clock_diff_ms", &["a_job_may_ask_for_a_better_clock"]),
    ("retries.max_attempts", &["attempts_of_a_run_share_its_token_and_the_last_decides"]),
    ("retries.backoff_ms", &["attempts_are_as_far_apart_as_the_job_says"]),
    ("retries.backoff_multiplier", &["attempts_are_as_far_apart_as_the_job_says"]),
    ("retries.backoff_max_ms", &["attempts_are_as_far_apart_as_the_job_says"]),
    ("guarantee.started", &["a_fire_is_announced_once_before_and_once_after"]),
    ("guarantee.completed", &["a_fire_is_announced_once_before_and_once_after"]),
    ("guarantee.timeout_ms", &["a_callback_that_is_not_answered_in_time_holds_its_fire_no_longer"]),
    ("guarantee.on_timeout", &["a_callback_that_is_not_answered_in_time_holds_its_fire_no_longer"]),
];

/// Kept without an effect, as their rows in the table say.
const KEPT: &[&str] = &["elastic_job"];

/// Each test of this suite, with its file.
fn tests() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut tests = BTreeMap::new();
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let marked = text.split("#[tokio::test]\nasync fn ").skip(1).map(|rest| (rest, '('));
        let in_forms = text.split("\nin_each_form!(").skip(1).map(|rest| (rest, ','));
        for (rest, end) in marked.chain(in_forms) {
            let name = rest.split(end).next().unwrap_or_default().trim();
            tests.insert(name.to_owned(), text.clone());
        }
    }
    tests
}

fn all_are_tried(used: &[&str], seen: &[(&str, &[&str])]) {
    let missing: Vec<_> = used.iter().filter(|name| seen.iter().all(|(seen, _)| seen != *name)).collect();
    let surplus: Vec<_> = seen.iter().filter(|(seen, _)| !used.contains(seen)).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "not tried: {missing:?}; not used: {surplus:?}");
    let tests = tests();
    let harness = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/harness.rs"));
    let harness = harness.unwrap();
    for (field, names) in seen {
        let word = format!("\"{}\"", field.rsplit('.').next().unwrap_or(field));
        for name in *names {
            let text = tests.get(*name).unwrap_or_else(|| panic!("{field}: there is no test {name}"));
            let said = text.contains(&word) || harness.contains(&word);
            assert!(said, "{field}: the file of {name} does not say it");
        }
        assert!(!names.is_empty(), "{field}: no test");
    }
}

#[test]
fn every_used_field_of_elastic_job_is_tried() {
    let used = FIELDS.iter().filter(|field| matches!(field.use_, Use::Used(_)));
    all_are_tried(&used.map(|field| field.name).collect::<Vec<_>>(), SEEN);
}

#[test]
fn every_field_of_our_own_is_tried() {
    let fields = POLICY_FIELDS.iter();
    let (kept, own): (Vec<&PolicyField>, Vec<_>) = fields.partition(|field| KEPT.contains(&field.path));
    assert_eq!(kept.len(), KEPT.len());
    for field in kept {
        assert!(field.what.contains("kept"), "{}: its row does not say that it is kept only", field.path);
    }
    all_are_tried(&own.iter().map(|field| field.path).collect::<Vec<_>>(), SEEN_OWN);
}
