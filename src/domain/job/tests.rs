//! Tests of the whole module: golden files, what a rewrite keeps, and that no input makes it panic.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::id::{Item, JobName};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/job");

fn one(text: &str) -> JobSpec {
    let mut jobs = parse_file(text.as_bytes()).unwrap_or_else(|defects| panic!("{defects}"));
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

fn refused(text: &str) -> String {
    parse_file(text.as_bytes()).unwrap_err().to_string()
}

fn inputs(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("{DATA}/{folder}")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension != "out"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// The output for an input, as the golden files show it.
fn outcome(folder: &str, input: &[u8]) -> String {
    let result = match folder {
        "node" => JobConfig::from_node(input).map(|config| format!("{}\n", config.to_json())),
        _ => parse_file(input).map(|jobs| jobs.iter().map(described).collect()),
    };
    result.unwrap_or_else(|defects| format!("{defects}\n"))
}

fn described(job: &JobSpec) -> String {
    let mut text = format!("handler {}\nconfig {}\n", job.handler(), job.config().to_json());
    let _ = writeln!(text, "policy {}", job.policy().to_json());
    for note in job.notes() {
        let _ = writeln!(text, "note {note}");
    }
    text
}

#[test]
fn golden_files_hold() {
    let bless = "cargo test -p rosterd-domain write_golden_files -- --ignored";
    for folder in ["accept", "refuse", "node"] {
        for input in inputs(folder) {
            let outcome = outcome(folder, &std::fs::read(&input).unwrap());
            let expected = std::fs::read_to_string(input.with_extension("out")).unwrap_or_default();
            assert_eq!(outcome, expected, "{}; if that is right, run: {bless}", input.display());
        }
    }
}

#[test]
#[ignore = "writes tests/data/job/*/*.out"]
fn write_golden_files() {
    for folder in ["accept", "refuse", "node"] {
        for input in inputs(folder) {
            let outcome = outcome(folder, &std::fs::read(&input).unwrap());
            std::fs::write(input.with_extension("out"), outcome).unwrap();
        }
    }
}

#[test]
fn every_file_in_refuse_is_refused_and_every_other_one_is_not() {
    for (folder, right) in [("accept", true), ("refuse", false)] {
        for input in inputs(folder) {
            let result = parse_file(&std::fs::read(&input).unwrap());
            assert_eq!(result.is_ok(), right, "{}", input.display());
        }
    }
}

#[test]
fn a_bare_job_has_elastic_jobs_defaults() {
    let job = one("jobName: a\nshardingTotalCount: 1\n");
    let config = job.config();
    assert_eq!((config.failover, config.misfire, config.monitor_execution), (false, true, true));
    assert_eq!((config.max_time_diff_seconds, config.reconcile_interval_minutes), (None, Some(10)));
    assert_eq!((config.overwrite, config.disabled, &config.cron), (false, false, &None));
    assert_eq!((config.zone(), job.strategy(), job.handler()), ("UTC", "AVG_ALLOCATION", "a"));
    assert_eq!(*job.policy(), Policy::default());
    assert_eq!(job.policy().catch_up_window, Duration::from_secs(10));
    assert_eq!(job.too_late(), TooLate::RunOnce);
    assert_eq!(job.notes(), [""; 0]);
}

#[test]
fn monitoring_off_turns_a_misfire_off_that_nobody_asked_for() {
    let job = one("jobName: a\nshardingTotalCount: 1\nmonitorExecution: false\n");
    assert!(!job.config().misfire && !job.config().failover);
    assert_eq!(job.too_late(), TooLate::Missed);
    let refused = refused("jobName: a\nshardingTotalCount: 1\nmonitorExecution: false\nmisfire: true\n");
    assert!(refused.contains("misfire = true"), "{refused}");
}

#[test]
fn a_node_in_which_elastic_job_contradicts_itself_is_read_as_elastic_job_acts() {
    let node = b"jobName: a\nshardingTotalCount: 1\nmonitorExecution: false\nmisfire: true\nfailover: true\n";
    let config = JobConfig::from_node(node).unwrap();
    assert!(!config.misfire && !config.failover);
}

#[test]
fn limits_hold_at_the_limit_and_not_beyond() {
    let texts = [
        ("jobParameter", MAX_PARAMETER),
        ("description", MAX_DESCRIPTION),
        ("cron", MAX_CRON),
        ("label", MAX_WORD),
        ("shardingItemParameters", MAX_ITEM_PARAMETERS),
    ];
    for (field, max) in texts {
        let job = |length: usize| {
            let start = if field == "shardingItemParameters" { "0=" } else { "" };
            let text = format!("{start}{}", "x".repeat(length - start.len()));
            parse_file(json!({"jobName": "a", "shardingTotalCount": 1, field: text}).to_string().as_bytes())
        };
        assert!(job(max).is_ok(), "{field}");
        let defects = job(max + 1).unwrap_err();
        let defect = defects.iter().next().unwrap();
        assert_eq!((defect.kind, defect.field.as_str()), (DefectKind::TooLarge, field));
    }
    for count in [1, MAX_ITEMS] {
        assert_eq!(
            one(&format!("jobName: a\nshardingTotalCount: {count}")).config().sharding_total_count,
            count
        );
    }
    let props = |value: usize| {
        let file = json!({"jobName": "a", "shardingTotalCount": 1, "props": {"b": "x".repeat(value)}});
        parse_file(file.to_string().as_bytes())
    };
    assert!(props(MAX_PROPS - 1).is_ok());
    assert_eq!(props(MAX_PROPS).unwrap_err().iter().next().unwrap().field, "props");
    let large = JobConfig::new(ConfigFields::new(JobName::new("a").unwrap(), MAX_ITEMS + 1)).unwrap_err();
    assert!(large.to_string().contains("only 1 to 100000"), "{large}");
    let number = |value: u32| {
        let mut fields = ConfigFields::new(JobName::new("a").unwrap(), 1);
        (fields.max_time_diff_seconds, fields.reconcile_interval_minutes) = (Some(value), Some(value));
        JobConfig::new(fields).map_err(|defects| defects.iter().map(|d| d.field.clone()).collect::<Vec<_>>())
    };
    assert!(number(1).is_ok() && number(2_147_483_647).is_ok());
    for none in [0, 2_147_483_648] {
        assert_eq!(number(none).unwrap_err(), ["maxTimeDiffSeconds", "reconcileIntervalMinutes"]);
    }
}

#[test]
fn the_largest_job_fits_into_a_node() {
    let mut fields = ConfigFields::new(JobName::new("a").unwrap(), MAX_ITEMS);
    let quotes = |bytes: usize| "\"".repeat(bytes);
    fields.sharding_item_parameters =
        ItemParameters::parse(&format!("0={}", quotes(MAX_ITEM_PARAMETERS - 2))).unwrap();
    fields.job_parameter = quotes(MAX_PARAMETER);
    fields.description = quotes(MAX_DESCRIPTION);
    fields.props = BTreeMap::from([("x".to_owned(), quotes(MAX_PROPS - 1))]);
    fields.unused = BTreeMap::from([("x".to_owned(), json!("\u{85}".repeat(MAX_PROPS / 2 - 2)))]);
    let config = JobConfig::new(fields).unwrap();
    let node = config.to_json();
    assert!(node.len() < MAX_NODE, "{}", node.len());
    assert!(JobConfig::from_node(node.as_bytes()).unwrap() == config);
}

#[test]
fn no_message_and_no_debug_text_holds_a_parameter() {
    let file = "jobName: a b\nshardingTotalCount: 1\njobParameter: {k: hunter2}\n\
                shardingItemParameters: hunter2\nprops: {x: [hunter2]}\n";
    let refused = refused(&format!("{file}scriptCommandLine: [hunter2]\njobParamter: hunter2\n"));
    assert!(!refused.contains("hunter2") && refused.lines().count() == 6, "{refused}");
    let job = one("jobName: a\nshardingTotalCount: 1\njobParameter: hunter2\nprops: {x: hunter2}\n\
                   shardingItemParameters: 0=hunter2\n");
    assert!(!format!("{job:?}").contains("hunter2"));
    let other = one("jobName: a\nshardingTotalCount: 1\n");
    let changes = diff(&job, &other);
    assert_eq!(changes.len(), 3);
    assert!(!format!("{changes:?}").contains("hunter2"), "{changes:?}");
}

#[test]
fn schedule_and_strategy_are_asked_about_what_is_in_effect() {
    let job = one("jobName: a\nshardingTotalCount: 1\ncron: x\ntimeZone: GMT+8:00\nrosterd: {strategy: Y}\n");
    let error = job
        .validate_with(
            |cron, zone| (cron != "x").then_some(()).ok_or_else(|| format!("{cron} fails ({zone})")),
            |name| Err(format!("no strategy {name}")),
        )
        .unwrap_err();
    let expected = "\
job \"a\": cron = \"x\": in zone \"GMT+8:00\": x fails (GMT+8:00); correct the expression or the zone, or leave `cron` out to run only when triggered
job \"a\": rosterd.strategy = \"Y\": no strategy Y";
    assert_eq!(error.to_string(), expected);
    let bare = one("jobName: a\nshardingTotalCount: 1\n");
    bare.validate_with(|_, _| Err("asked".into()), |_| Err("asked".into())).unwrap();
}

#[test]
fn a_zone_that_there_is_not_is_reported_as_one() {
    for cron in ["cron: 0 0 0 * * ?\n", "cron: x\n", ""] {
        let job = one(&format!("jobName: a\nshardingTotalCount: 1\ntimeZone: Mars\n{cron}"));
        let error = crate::view::validate(&job).unwrap_err().to_string();
        assert!(
            error.starts_with("job \"a\": timeZone = \"Mars\": \"Mars\" is not a known time zone"),
            "{error}"
        );
    }
    let job = one("jobName: a\nshardingTotalCount: 1\ntimeZone: GMT+8:00\ncron: x\n");
    assert!(crate::view::validate(&job).unwrap_err().to_string().starts_with("job \"a\": cron = \"x\""));
}

#[test]
fn kept_fields_survive_a_rewrite() {
    let text = std::fs::read(format!("{DATA}/node/3.x-all-fields.yaml")).unwrap();
    let stored = JobConfig::from_node(&text).unwrap();
    let edited = stored.edit(|fields| fields.disabled = true).unwrap();
    let again = JobConfig::from_node(edited.to_json().as_bytes()).unwrap();
    assert!(again.disabled);
    assert_eq!(again.unused, stored.unused);
    assert_eq!(again.unused["jobListenerTypes"], json!(["audit"]));
    let applied = one("jobName: orders\nshardingTotalCount: 5\njobErrorHandlerType: THROW\n");
    let replaced = applied.config().replacing(&stored).unwrap();
    assert_eq!(replaced.unused["jobErrorHandlerType"], json!("THROW"));
    assert_eq!(replaced.unused["staticSharding"], json!(true));
    assert_eq!(replaced.sharding_total_count, 5);
}

#[test]
fn a_new_node_holds_elastic_job_3s_fields_only() {
    for file in inputs("accept") {
        for job in parse_file(&std::fs::read(&file).unwrap()).unwrap() {
            let node: BTreeMap<String, serde_json::Value> =
                serde_json::from_str(&job.config().to_json()).unwrap();
            for name in node.keys() {
                assert!(field(name).is_some_and(|field| field.in_config), "{name} in {}", file.display());
            }
        }
    }
}

#[test]
fn a_node_of_2x_stays_readable_for_2x() {
    let stored = JobConfig::from_node(&std::fs::read(format!("{DATA}/node/2.x.json")).unwrap()).unwrap();
    assert_eq!(stored.job_sharding_strategy_type.as_deref(), Some("ODEVITY"));
    let changed =
        stored.edit(|fields| fields.job_sharding_strategy_type = Some("ROUND_ROBIN".into())).unwrap();
    let node: serde_json::Value = serde_json::from_str(&changed.to_json()).unwrap();
    assert_eq!(node["jobType"], "DATAFLOW");
    assert_eq!(node["jobClass"], "com.example.WordCountJob");
    assert_eq!(
        node["jobShardingStrategyClass"],
        "com.dangdang.ddframe.job.lite.api.strategy.impl.RotateServerByNameJobShardingStrategy"
    );
    assert!(node.get("jobShardingStrategyType").is_none());
    assert_eq!(node["streamingProcess"], json!(true));
    let stopped = stored.edit(|fields| {
        fields.props.insert("streaming.process".into(), "false".into());
        fields.props.insert("script.command.line".into(), "true".into());
    });
    let node: Value = serde_json::from_str(&stopped.unwrap().to_json()).unwrap();
    assert_eq!((&node["streamingProcess"], &node["scriptCommandLine"]), (&json!(false), &json!("true")));
    let job = JobSpec::stored("com.example.WordCountJob", stored, None).unwrap();
    assert_eq!(job.policy().kind, JobKind::Dataflow { streaming: true });
}

#[test]
fn a_tree_of_1x_becomes_a_job() {
    let children = [
        ("jobType", "SCRIPT"),
        ("jobClass", "com.example.Script"),
        ("shardingTotalCount", "2"),
        ("shardingItemParameters", "0=a,1=b,2=c"),
        ("jobParameter", ""),
        ("cron", "0 0 2 * * ?"),
        ("monitorExecution", "false"),
        ("maxTimeDiffSeconds", "-1"),
        ("failover", "true"),
        ("misfire", "true"),
        ("jobShardingStrategyClass", ""),
        ("description", ""),
        ("monitorPort", "-1"),
        ("scriptCommandLine", "echo hello"),
        // An unknown field, and one that files refuse.
        ("somethingElse", "1"),
        ("distributedListener", "x"),
    ];
    let children = children.map(|(name, data)| (name.to_owned(), data.to_owned())).into();
    let job = JobSpec::from_v1_nodes(&JobName::new("old").unwrap(), &children).unwrap();
    assert_eq!((job.policy().kind, job.command_line()), (JobKind::Command, Some("echo hello")));
    assert_eq!(job.config().sharding_item_parameters.get(Item(1)), Some("b"));
    let kept = ["monitorPort", "somethingElse", "distributedListener"];
    assert_eq!(kept.map(|name| &job.policy().elastic_job[name]), [&json!("-1"), &json!("1"), &json!("x")]);
    let notes = job.notes();
    let note = |name: &str| notes.iter().find(|note| note.starts_with(&format!("`{name}`"))).unwrap();
    assert_eq!(note("somethingElse"), "`somethingElse` is kept and has no effect");
    assert!(note("monitorPort").starts_with("`monitorPort` is kept and has no effect: "));
    assert_eq!(note("distributedListener"), "`distributedListener` is kept and has no effect");
}

#[test]
fn kind_and_streaming_say_what_a_job_is() {
    let kind = |more: &str| one(&format!("jobName: a\nshardingTotalCount: 1\n{more}")).policy().kind;
    assert_eq!(kind("rosterd: {streaming: true}"), JobKind::Dataflow { streaming: true });
    assert_eq!(kind("rosterd: {streaming: false}"), JobKind::Simple);
    assert_eq!(kind("rosterd: {kind: dataflow}"), JobKind::Dataflow { streaming: false });
    assert_eq!(kind("props: {script.command.line: echo}"), JobKind::Command);
    assert_eq!(kind("props: {streaming.process: 'true'}"), JobKind::Dataflow { streaming: true });
    let streams = "jobType: DATAFLOW\nstreamingProcess: true\nrosterd: {kind: dataflow";
    assert_eq!(kind(&format!("{streams}}}")), JobKind::Dataflow { streaming: true });
    let both = refused(&format!("jobName: a\nshardingTotalCount: 1\n{streams}, streaming: false}}"));
    assert!(both.contains("the property streaming.process says true"), "{both}");
}

/// JSON does not preserve how a number was written.
#[test]
fn a_number_is_a_text_where_its_spelling_is_kept() {
    let named = parse_file(br#"{"jobName": 5, "shardingTotalCount": 1, "label": 7}"#).unwrap();
    assert_eq!((named[0].config().job_name.as_str(), named[0].config().label.as_deref()), ("5", Some("7")));
    let said = refused(r#"{"jobName": 5, "shardingTotalCount": 1, "label": 1.50}"#);
    assert!(said.starts_with("job \"5\": label = 1.5: it must be a text, and a number's spelling"), "{said}");
    // The key is the name, and the job may repeat it.
    let spring = "elasticjob: {jobs: {a: {jobName: a, shardingTotalCount: 1}}}";
    assert_eq!(one(spring).config().job_name.as_str(), "a");
}

/// A migrated job has 3.x's fields, and keeps the rest of the older ones without effect.
#[test]
fn nodes_of_elastic_job_are_taken_over_with_their_handler_and_kind() {
    let name = JobName::new("wordCount").unwrap();
    let take = |root: &str, config: &[u8]| JobSpec::from_foreign_node(&name, root, config);
    let second = take("", include_bytes!("../../../tests/data/job/node/2.x.json")).unwrap();
    assert_eq!(second.handler(), "com.example.WordCountJob");
    assert_eq!(second.policy().kind, JobKind::Dataflow { streaming: true });
    assert_eq!(second.config().job_sharding_strategy_type.as_deref(), Some("ODEVITY"));
    assert!(second.config().unused.is_empty() && second.policy().elastic_job.contains_key("monitorPort"));
    // A parameter left from a higher count is allowed in a node, and a mistake in a file.
    let strict = parse_file(second.to_file().as_bytes()).unwrap_err().to_string();
    assert!(strict.contains("it has a parameter for item 2"), "{strict}");
    let third = include_bytes!("../../../tests/data/job/node/3.x.yaml");
    let class = take("com.example.Orders", third).unwrap();
    assert_eq!((class.handler(), class.policy().kind), ("com.example.Orders", JobKind::Simple));
    assert_eq!(parse_file(class.to_file().as_bytes()).unwrap(), std::slice::from_ref(&class));
    // The path of a node determines the job's name.
    assert_eq!(class.config().job_name, name);
    assert_eq!(take("SCRIPT", third).unwrap().policy().kind, JobKind::Command);
    for bad in [&b"[1]"[..], b"{", b"a: 1\n---\nb: 2\n", b"{}"] {
        assert!(take("", bad).is_err(), "{bad:?}");
    }
}

/// The whole file is checked: a schedule in the third job, a number in the second, a policy in the first.
#[test]
fn every_defect_of_every_job_is_told_once_and_in_the_order_of_the_file() {
    let file = "\
- {jobName: c, shardingTotalCount: 0, cron: no, rosterd: {strategy: Y, retries: {max_attempts: 0}}}
- {jobName: b, shardingTotalCount: x}
- {jobName: a, shardingTotalCount: 1, cron: never, timeZone: Mars/Olympus}
- {jobName: d, shardingTotalCount: 1, jobShardingStrategyType: Z}
";
    let defects = parse_file_with(file.as_bytes(), crate::view::validate).unwrap_err();
    let told: Vec<_> = defects.iter().map(|one| (one.number.unwrap(), one.field.as_str())).collect();
    let mut first: Vec<_> = told.iter().filter(|(number, _)| *number == 1).map(|(_, field)| *field).collect();
    first.sort_unstable();
    assert_eq!(first, ["cron", "rosterd.retries.max_attempts", "rosterd.strategy", "shardingTotalCount"]);
    let others = [(2, "shardingTotalCount"), (3, "timeZone"), (4, "jobShardingStrategyType")];
    assert_eq!(told[4..], others, "{defects}");
    // The remedy once.
    let lines = defects.to_string();
    let zone = lines.lines().find(|line| line.contains("timeZone")).unwrap();
    assert_eq!(zone.matches("Europe/Berlin").count(), 1, "{zone}");
}

#[test]
fn a_jobs_clock_limit_overrides_the_coordinators() {
    let limit = |file: &str| one(file).max_clock_diff(Duration::from_secs(2));
    let base = "jobName: a\nshardingTotalCount: 1\n";
    assert_eq!(limit(base), Duration::from_secs(2));
    assert_eq!(limit(&format!("{base}maxTimeDiffSeconds: 60\n")), Duration::from_secs(60));
    assert_eq!(limit(&format!("{base}maxTimeDiffSeconds: 1\n")), Duration::from_secs(1));
    assert_eq!(limit(&format!("{base}rosterd: {{max_clock_diff_ms: 300}}\n")), Duration::from_millis(300));
}

#[test]
fn a_difference_names_its_field() {
    let a = one("jobName: a\nshardingTotalCount: 2\nshardingItemParameters: 0=x, 1=y\n");
    let b = one("jobName: a\nshardingTotalCount: 3\ncron: 0 0 2 * * *\nshardingItemParameters: 0=x,1=z\n\
                 rosterd: {retries: {max_attempts: 3}, handler: other}\n");
    let shown: Vec<_> = diff(&a, &b).iter().map(ToString::to_string).collect();
    let expected = [
        "cron: (none) -> \"0 0 2 * * *\"",
        "rosterd.handler: \"a\" -> \"other\"",
        "rosterd.retries.max_attempts: 1 -> 3",
        "shardingItemParameters.1: (hidden, 3 bytes) -> (hidden, 3 bytes)",
        "shardingTotalCount: 2 -> 3",
    ];
    assert_eq!(shown, expected);
    assert_eq!(diff(&a, &a), []);
}

#[test]
fn texts_that_yaml_cannot_carry_are_refused() {
    for bad in ["\u{0}", "\u{1b}[31m", "\u{85}", "\u{2028}", "\u{feff}"] {
        let file = json!({"jobName": "a", "shardingTotalCount": 1, "jobParameter": format!("x{bad}")});
        assert!(refused(&file.to_string()).contains("character 2 is U+"), "{bad:?}");
    }
    let own =
        |own: Value| refused(&json!({"jobName": "a", "shardingTotalCount": 1, "rosterd": own}).to_string());
    // Its name and its value in quotes.
    let kept = |most: usize| json!({"elastic_job": {"b": "x".repeat(most - 3)}});
    let most = json!({"jobName": "a", "shardingTotalCount": 1, "rosterd": kept(MAX_PROPS)});
    assert!(parse_file(most.to_string().as_bytes()).is_ok());
    for (what, value) in [("strategy", json!({"strategy": "\u{1b}"})), ("elastic_job", kept(MAX_PROPS + 1))] {
        let said = own(value);
        assert!(
            said.starts_with(&format!("job \"a\": rosterd.{what}: ")) && said.lines().count() == 1,
            "{said}"
        );
    }
    let node = json!({"jobName": "a", "shardingTotalCount": 1, "jobListenerTypes": ["\u{85}\u{2028}"]});
    let written = JobConfig::from_node(node.to_string().as_bytes()).unwrap().to_json();
    assert!(written.contains(r"\u0085\u2028"), "{written}");
    assert_eq!(
        JobConfig::from_node(written.as_bytes()).unwrap().unused["jobListenerTypes"],
        json!(["\u{85}\u{2028}"])
    );
}

fn text() -> impl Strategy<Value = String> {
    let hard = prop::sample::select(vec![
        "",
        " ",
        "null",
        "~",
        "true",
        "yes",
        "1.10",
        "0010",
        "0x1f",
        "a: b",
        "- a",
        "# no",
        "'",
        "\"\\",
        "line\nline\n",
        "\t",
        "ü中😀",
        "{",
        "*a",
        "&a",
        "!t",
        "|",
        "---",
        "a\r\nb",
        "=",
        "<<",
    ]);
    prop_oneof![hard.prop_map(str::to_owned), "[ -~]{0,12}", "\\PC{0,8}"]
        .prop_map(|text| text.replace(['\u{2028}', '\u{2029}', '\u{feff}'], ""))
        .prop_map(|text| text.chars().filter(|c| !c.is_control() || "\n\r\t".contains(*c)).collect())
}

fn parameters() -> impl Strategy<Value = String> {
    prop::collection::btree_map(0u32..50, "[a-zA-Z0-9./ü-]{1,8}", 0..6).prop_map(|map| {
        map.iter().map(|(item, value)| format!("{item}={value}")).collect::<Vec<_>>().join(",")
    })
}

prop_compose! {
    fn spec()(
        name in "[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}",
        count in 50u32..=MAX_ITEMS,
        cron in prop::option::of("[0-9*/?LW# -]{1,20}"),
        zone in prop::option::of("[A-Z][A-Za-z0-9/+:]{0,12}"),
        texts in (text(), text(), parameters()),
        flags in prop::array::uniform5(any::<bool>()),
        numbers in (prop::option::of(1u32..5000), prop::option::of(1u32..5000)),
        strategy in prop::option::of(prop::sample::select(vec!["AVG_ALLOCATION", "ODEVITY", "ROUND_ROBIN"])),
        props in prop::collection::btree_map("[a-z.]{1,8}x", text(), 0..4),
        own in (prop::option::of("[A-Z]{1,8}"), 0u64..86_400_000, prop::option::of(100u64..600_000), 1u32..=100),
        kind in prop::sample::select(vec![JobKind::Simple, JobKind::Command, JobKind::Dataflow { streaming: true }]),
        kept in prop::option::of(text()),
    ) -> JobSpec {
        let [monitor, failover, misfire, disabled, overwrite] = flags;
        let mut fields = ConfigFields::new(JobName::new(name).unwrap(), count);
        fields.cron = cron.map(|c| c.trim().to_owned()).filter(|c| !c.is_empty());
        fields.time_zone = zone;
        (fields.job_parameter, fields.description) = (texts.0, texts.1);
        fields.sharding_item_parameters = ItemParameters::parse(&texts.2).unwrap();
        fields.monitor_execution = monitor;
        (fields.failover, fields.misfire) = (failover && monitor, misfire && monitor);
        (fields.disabled, fields.overwrite) = (disabled, overwrite);
        (fields.max_time_diff_seconds, fields.reconcile_interval_minutes) = numbers;
        fields.job_sharding_strategy_type = strategy.map(str::to_owned);
        fields.props = props;
        if kind == JobKind::Command {
            fields.props.insert(COMMAND_LINE.to_owned(), "echo".to_owned());
        }
        fields.unused = kept.iter().map(|text| ("jobListenerTypes".to_owned(), json!([text]))).collect();
        let policy = Policy {
            kind,
            strategy: own.0,
            catch_up_window: Duration::from_millis(own.1),
            disconnect_grace: own.2.map(Duration::from_millis),
            retries: Retries { max_attempts: own.3, ..Retries::default() },
            elastic_job: kept.into_iter().map(|text| ("monitorPort".to_owned(), json!(text))).collect(),
            ..Policy::default()
        };
        let config = JobConfig::new(fields).unwrap_or_else(|defects| panic!("{defects}"));
        JobSpec::new(config, policy, "handler").unwrap_or_else(|defects| panic!("{defects}"))
    }
}

/// Text that resembles a job file, mistakes included.
fn like_a_file() -> impl Strategy<Value = String> {
    let names: Vec<_> = FIELDS.iter().map(|f| f.name).chain(POLICY_FIELDS.iter().map(|f| f.path)).collect();
    let value = prop_oneof![
        text(),
        any::<i64>().prop_map(|n| n.to_string()),
        Just("[1, {a: b}]".to_owned()),
        Just("{a: {b: 1.5}}".to_owned()),
        Just("*x".to_owned()),
        Just("&x y".to_owned()),
        Just("!!bool t".to_owned()),
    ];
    let line = (prop::sample::select(vec!["", "  ", "- ", "---\n"]), prop::sample::select(names), value);
    prop::collection::vec(line.prop_map(|(start, name, value)| format!("{start}{name}: {value}")), 0..12)
        .prop_map(|lines| lines.join("\n"))
}

/// What people write into jobs may be secret: a log that shows a job shows none of it.
#[test]
fn a_job_is_shown_without_what_may_be_secret() {
    let spec = one(
        "jobName: a\nshardingTotalCount: 2\njobParameter: canary\nshardingItemParameters: \"0=canary\"\n\
                    props:\n  key: canary\n",
    );
    let shown = format!("{:?} {:?}", spec.config(), **spec.config());
    assert_eq!(shown.matches("job_name: a").count(), 2, "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(format!("{:?}", spec.config().sharding_item_parameters), "ItemParameters(1 items)");
    let changes = format!("{:?}", diff(&spec, &one("jobName: a\nshardingTotalCount: 2\n")));
    assert!(changes.contains("jobParameter: (hidden, 8 bytes) -> "), "{changes}");
    assert!(!changes.contains("canary"), "{changes}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(ProptestConfig::default().cases * 2) })]

    #[test]
    fn a_node_survives_reading_and_writing(spec in spec()) {
        let written = spec.config().to_json();
        let read = JobConfig::from_node(written.as_bytes()).unwrap();
        prop_assert_eq!(&read.to_json(), &written);
        prop_assert!(read == *spec.config(), "{}", written);
    }

    #[test]
    fn a_node_is_yaml_that_says_the_same(spec in spec()) {
        let json = spec.config().to_json();
        let yaml = super::yaml::documents(&json, usize::MAX / 2).unwrap();
        prop_assert_eq!(yaml, [serde_json::from_str::<serde_json::Value>(&json).unwrap()]);
    }

    #[test]
    fn a_file_survives_writing_and_reading(spec in spec()) {
        let file = spec.to_file();
        let jobs = parse_file(file.as_bytes());
        prop_assert!(jobs.as_deref() == Ok(&[spec]), "{}\n{:?}", file, jobs);
    }

    #[test]
    fn a_policy_survives_reading_and_writing(spec in spec()) {
        prop_assert_eq!(&Policy::from_node(spec.policy().to_json().as_bytes()).unwrap(), spec.policy());
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (parse_file(&bytes), JobConfig::from_node(&bytes), Policy::from_node(&bytes));
    }

    #[test]
    fn no_file_makes_a_parser_panic(file in like_a_file()) {
        let bytes = file.as_bytes();
        let (file, node, policy) = (parse_file(bytes), JobConfig::from_node(bytes), Policy::from_node(bytes));
        for defects in [file.err(), node.err(), policy.err()].into_iter().flatten() {
            prop_assert!(defects.iter().count() > 0 && !defects.to_string().is_empty());
        }
    }
}
