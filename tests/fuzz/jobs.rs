//! Job files, and the nodes in which Elastic-Job and we keep a job.

use std::collections::{BTreeMap, BTreeSet};
use std::str::from_utf8;

use rosterd::transfer::elastic_job::job as take_over;
use rosterd_domain::id::JobName;
use rosterd_domain::job::{Defects, JobConfig, JobSpec, Policy, diff, parse_file};
use rosterd_domain::time::Time;
use rosterd_domain::view;
use rosterd_registry::zookeeper::foreign::ForeignJob;

pub const WORDS: &[&str] = &[
    "jobName: ",
    "cron: ",
    "shardingTotalCount: ",
    "shardingItemParameters: ",
    "rosterd:\n  ",
    "failover: true",
    "misfire: ",
    "timeZone: ",
    "props:\n  a: b\n",
    "jobClass: ",
    "simpleJob",
    "---\n",
    "\n",
    "  ",
    "- ",
    "\"cron\":",
    "\"0=a,1=b\"",
    "jobShardingStrategyType: ",
    "STICKY",
    "overwrite: true",
    "monitorExecution: false",
    "retries: ",
    "!!binary ",
    "? ",
    "| \n",
    "> \n",
    "jobType: DATAFLOW",
    "streamingProcess: true",
    "scriptCommandLine: ",
    "elasticjob:\n  jobs:\n",
    "&a [",
    "*a, *a]",
    "<<: *a\n",
    "[[[[[[[[",
    "- - - - - - - - ",
    "{a: {a: {a: ",
];

/// Every defect is reported, and all of them together in a bounded text.
fn told(defects: &Defects) -> String {
    let text = defects.to_string();
    assert!(!text.is_empty(), "a refusal without a word");
    assert!(text.len() <= 1 << 20, "a refusal of {} bytes", text.len());
    let mut kinds: Vec<String> = defects.iter().map(|defect| format!("{:?}", defect.kind)).collect();
    kinds.sort();
    kinds.dedup();
    kinds.join(" ")
}

/// An accepted job can be stored, and is the same when it is read again.
fn kept(spec: &JobSpec) {
    let config = JobConfig::from_node(spec.config().to_json().as_bytes());
    let config = config.unwrap_or_else(|defects| panic!("its node cannot be read: {defects}"));
    assert_eq!(&config, spec.config());
    let policy = Policy::from_node(spec.policy().to_json().as_bytes());
    let policy = policy.unwrap_or_else(|defects| panic!("its policy cannot be read: {defects}"));
    assert_eq!(&policy, spec.policy());
    let stored = JobSpec::stored(spec.handler(), config, Some(policy));
    let stored = stored.unwrap_or_else(|defects| panic!("it cannot be read as stored: {defects}"));
    assert_eq!(diff(spec, &stored), []);
}

pub fn file(input: &[u8]) -> String {
    let specs = match parse_file(input) {
        Ok(specs) => specs,
        Err(defects) => return told(&defects),
    };
    let mut kind = format!("{} jobs", specs.len().min(9));
    for spec in &specs {
        match view::validate(spec) {
            Ok(()) => kind += " good",
            Err(defects) => kind += &told(&defects),
        }
        let file = spec.to_file();
        let again = parse_file(file.as_bytes());
        let again =
            again.unwrap_or_else(|defects| panic!("what is shown cannot be applied: {defects}\n{file}"));
        assert_eq!(again, std::slice::from_ref(spec), "shown as\n{file}");
        kept(spec);
        kind += &format!(" {} notes", spec.notes().len());
    }
    kind
}

/// The first line is the handler's, then comes `config`, and after a line of dashes the policy.
pub fn nodes(input: &[u8]) -> String {
    let (root, rest) = split(input, b"\n");
    let (config, policy) = split(rest, b"\n-----\n");
    let root = String::from_utf8_lossy(root);
    let mut kind = String::new();
    let policy = match Policy::from_node(policy) {
        Ok(policy) => {
            assert_eq!(Policy::from_node(policy.to_json().as_bytes()).as_ref(), Ok(&policy));
            Some(policy)
        }
        Err(defects) => {
            kind += &told(&defects);
            None
        }
    };
    match JobConfig::from_node(config) {
        Ok(config) => match JobSpec::stored(&root, config, policy) {
            Ok(spec) => {
                kind += if view::validate(&spec).is_ok() { " good" } else { " stored" };
                kept(&spec);
            }
            Err(defects) => kind += &told(&defects),
        },
        Err(defects) => kind += &told(&defects),
    }
    kind
}

fn split<'a>(input: &'a [u8], at: &[u8]) -> (&'a [u8], &'a [u8]) {
    match input.windows(at.len()).position(|window| window == at) {
        Some(place) => (&input[..place], &input[place + at.len()..]),
        None => (input, &[]),
    }
}

/// The first line is the data of the job's own node, then comes `config`; its lines are the nodes of 1.x as well.
pub fn elastic_job(input: &[u8]) -> String {
    let (root, config) = split(input, b"\n");
    let name = JobName::new("words").unwrap();
    let mut kind = match JobSpec::from_foreign_node(&name, &String::from_utf8_lossy(root), config) {
        Ok(spec) => {
            kept(&spec);
            "taken".to_owned()
        }
        Err(defects) => told(&defects),
    };
    let lines = from_utf8(config).unwrap_or_default().lines();
    let fields: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once([':', '=']))
        .map(|(name, data)| (name.to_owned(), data.to_owned()))
        .collect();
    kind += &match JobSpec::from_v1_nodes(&name, &fields) {
        Ok(spec) => {
            kept(&spec);
            " taken".to_owned()
        }
        Err(defects) => told(&defects),
    };
    for fields in [BTreeMap::new(), fields] {
        let found = ForeignJob {
            name: name.clone(),
            root: root.to_vec(),
            config: config.to_vec(),
            fields: fields.into_iter().map(|(name, data)| (name, data.into_bytes())).collect(),
            servers: BTreeMap::new(),
            live: Vec::new(),
            disabled_items: BTreeSet::new(),
            misfires: BTreeSet::new(),
            failover: BTreeSet::new(),
            offsets: BTreeMap::new(),
            strange_servers: Vec::new(),
        };
        kind += match take_over(&found, Time::from_seconds(1_795_219_200)) {
            Ok(_) => " moved",
            Err(why) => {
                assert!(!why.is_empty());
                " not moved"
            }
        };
    }
    kind
}
