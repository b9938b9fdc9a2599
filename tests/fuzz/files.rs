//! Files of people: exports, credentials, configuration, logs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rosterd::app::credentials;
use rosterd::config::{Loaded, Sources};
use rosterd::transfer::{Existing, Export, Options, put, take};
use rosterd_api::access::secret::Secret;
use rosterd_domain::time::Time;
use rosterd_domain::verify::history::{Kept, RecordedResult, TraceBuilder};
use rosterd_domain::verify::{judge, read, read_all};
use rosterd_registry::memory::{MemoryStore, SessionOptions};

use crate::texts::told;

pub const CREDENTIAL_WORDS: &[&str] = &[
    "[[credential]]\n",
    "name = ",
    "role = ",
    "\"worker\"",
    "\"admin\"",
    "id = ",
    "sha256 = ",
    "jobs = [\"*\"]",
    "expires = ",
    "2027-01-01T00:00:00Z",
    "certificate = ",
    "\"cn:ops\"",
    "secret = ",
    "\"\"\"",
    "\n",
];

pub const CONFIG_WORDS: &[&str] = &[
    "data_dir = ",
    "listen = ",
    "\"0.0.0.0:7700\"",
    "lease = ",
    "\"5s\"",
    "heartbeat = ",
    "session = ",
    "registry = ",
    "zk = ",
    "\"zookeeper\"",
    "insecure_listen = true",
    "history_retention = ",
    "max_",
    "tls_cert = ",
    "[",
    "]",
    "\n",
    "= ",
    "\"",
    "credentials = ",
    "namespace = ",
    "log = ",
    "[alarms]\n",
    "interval = ",
    "[[alarms.rules]]\n",
    "alarm = ",
    "\"failed\"",
    "\"not_finished\"",
    "by = \"06:30\"",
    "jobs = [\"a*\"]",
    "times = ",
    "[[alarms.receivers]]\n",
    "name = \"a\"\n",
    "form = \"webhook\"\n",
    "url = \"http://a/\"\n",
    "form = \"email\"\n",
    "to = [\"a@b\"]\n",
];

pub const LOG_WORDS: &[&str] = &[
    "\"at\":",
    "\"what\":",
    "\"start\"",
    "\"end\"",
    "\"killed\"",
    "\"frozen\"",
    "\"thawed\"",
    "\"told\"",
    "\"settled\"",
    "\"lost\"",
    "\"scheduled\"",
    "\"not_run\"",
    "\"lease\":",
    "\"token\":",
    "\"item\":",
    "\"fire\":",
    "\"attempt\":",
    "\"worker\":",
    "\"source\":\"FAILOVER\"",
    "\n",
    "}\n{",
];

/// A valid export is the same once it was written again, and can be imported into a store and exported from it.
pub fn export(input: &[u8]) -> String {
    let export = match Export::from_json(input) {
        Ok(export) => export,
        Err(why) => {
            assert!(!why.is_empty());
            let bytes: usize = why.iter().map(String::len).sum();
            assert!(bytes <= (1 << 20) + 16 * input.len(), "{bytes} bytes of refusals");
            let last = why.last().cloned().unwrap_or_default();
            return last.chars().filter(char::is_ascii_lowercase).take(40).collect();
        }
    };
    assert_eq!(Export::from_json(export.to_json().as_bytes()).as_ref(), Ok(&export));
    let runs = export.in_flight().len();
    let store = MemoryStore::new(&export.namespace);
    let session = store.open("fuzz", SessionOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut number = 0;
    let options = Options {
        existing: Existing::Refuse,
        crash_running: true,
        dry_run: false,
        now: Time::from_seconds(1_795_219_200),
        ids: Box::new(move || {
            number += 1;
            format!("id-{number}")
        }),
    };
    let namespace = export.namespace.clone();
    let jobs = export.jobs.len();
    let report = runtime.block_on(put(&session, export, options));
    let mut kind = format!("{} jobs {runs} runs", jobs.min(9));
    match report {
        Ok(_) => {
            let taken = runtime.block_on(take(&session, &namespace, &[], Time(0)));
            match taken {
                Ok(taken) => assert_eq!(taken.export.jobs.len(), jobs),
                Err(why) => assert_eq!(jobs, 0, "it cannot be taken out again: {why}"),
            }
        }
        Err(why) => kind += &told(&why),
    }
    kind
}

thread_local! {
    static DIR: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

/// The input as a file that only its owner may write.
fn file(input: &[u8]) -> PathBuf {
    let path = DIR
        .with_borrow_mut(|dir| dir.get_or_insert_with(|| tempfile::tempdir().unwrap()).path().join("input"));
    std::fs::write(&path, input).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

pub fn credentials(input: &[u8]) -> String {
    match credentials::read(&file(input)) {
        Ok(grants) => format!("{} grants", grants.len().min(9)),
        Err(why) => {
            // A secret is never shown, wherever it was.
            let texts = String::from_utf8_lossy(input).into_owned();
            for at in texts.match_indices("rosterd_").map(|(at, _)| at) {
                let secret: String = texts[at..].chars().take(68).collect();
                assert!(
                    Secret::parse(&secret).is_none() || !why.contains(&secret),
                    "it shows a secret: {why}"
                );
            }
            told(&why)
        }
    }
}

pub fn config(input: &[u8]) -> String {
    let read = |input: &[u8]| {
        let defaults = vec![("data_dir", "/var/lib/rosterd".to_owned())];
        let sources =
            Sources { defaults, file: Some(file(input)), environment: BTreeMap::new(), flags: Vec::new() };
        Loaded::read(&sources)
    };
    match read(input) {
        Ok(loaded) => {
            let printed = loaded.print();
            let again = read(printed.as_bytes())
                .unwrap_or_else(|why| panic!("{why} in what was printed:\n{printed}"));
            assert_eq!(format!("{:?}", again.config), format!("{:?}", loaded.config));
            printed.lines().filter(|line| line.contains("  # ")).count().to_string()
        }
        Err(defects) => {
            let text = defects.to_string();
            assert!(text.len() <= (1 << 20) + 16 * input.len(), "{} bytes of refusals", text.len());
            text.chars().filter(char::is_ascii_lowercase).take(60).collect()
        }
    }
}

/// What `rosterd verify` reads, judged; and the same lines as a history.
pub fn log(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let lines = read(&text);
    let strict = read_all(&text);
    if let Ok(strict) = &strict {
        assert_eq!(strict.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>(), lines);
    }
    let verdict = judge(&lines, u64::MAX);
    let mut rules: Vec<&str> = verdict.faults.iter().map(|fault| fault.rule).collect();
    for fault in verdict.faults.iter().take(20) {
        let proof = fault.proof(&lines);
        assert!(!proof.is_empty(), "{fault} without a line that proves it");
        assert!(
            proof.windows(2).all(|pair| lines[pair[0]].at <= lines[pair[1]].at),
            "{proof:?} is in no order"
        );
    }
    assert_eq!(verdict.owners().iter().map(|owner| owner.runs).sum::<usize>(), verdict.runs.len());
    let mut builder = TraceBuilder::default();
    for line in &lines {
        let at = Time(line.wall);
        builder.run(Kept {
            job: line.job.clone(),
            item: line.item,
            token: line.token,
            fire: Time(line.fire),
            source: line.source.clone(),
            instance: line.instance.clone(),
            attempt: line.attempt,
            began: at,
            ended: line.lease.map(|lease| Time(at.0.saturating_add_unsigned(lease))),
            outcome: Some(line.detail.clone()).filter(|detail| !detail.is_empty()),
            kept_in: "here".into(),
        });
        let result = if line.token % 2 == 0 { RecordedResult::Unknown } else { RecordedResult::Known("run") };
        builder.due(&line.job, line.item, Time(line.fire), result);
    }
    let story = builder.build(Duration::from_secs(line_count(&lines)), lines.len().is_multiple_of(2));
    rules.extend(judge(&story.lines, 0).faults.iter().map(|fault| fault.rule));
    rules.sort_unstable();
    rules.dedup();
    format!("{} {} {}", strict.is_ok(), verdict.runs.len().min(5), rules.join(" "))
}

fn line_count(lines: &[rosterd_domain::verify::Line]) -> u64 {
    lines.len() as u64
}
