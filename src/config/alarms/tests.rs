use std::path::Path;

use super::super::{Loaded, Sources};
use super::*;

fn read(dir: &Path, alarms: &str) -> Result<Loaded, String> {
    let file = dir.join("rosterd.toml");
    std::fs::write(&file, format!("data_dir = \"d\"\n{alarms}")).unwrap();
    let sources = Sources { file: Some(file), ..Sources::default() };
    Loaded::read(&sources).map_err(|defects| defects.to_string())
}

fn dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("secret"), "s3cr3t\n").unwrap();
    dir
}

const WHOLE: &str = r#"
[alarms]
interval = "2s"
group = "1s"
repeat = "4h"
link = "https://console.example/rosterd"
job_hosts = ["mail.example"]

[[alarms.receivers]]
name = "hook"
form = "webhook"
url = "https://hook.example/in"
secret_file = "SECRET"

[[alarms.receivers]]
name = "chat"
form = "slack"
url_file = "SECRET"

[[alarms.receivers]]
name = "ding"
form = "dingtalk"
url_file = "SECRET"
secret_file = "SECRET"
keyword = "rosterd"

[[alarms.receivers]]
name = "wecom"
form = "wecom"
url_file = "SECRET"

[[alarms.receivers]]
name = "duty"
form = "pagerduty"
routing_key_file = "SECRET"

[[alarms.receivers]]
name = "mail"
form = "email"
host = "mail.example"
security = "starttls"
username = "ann"
password_file = "SECRET"
from = "rosterd <rosterd@example.org>"
to = ["ops@example.org"]

[[alarms.rules]]
alarm = "no_worker"
jobs = ["report-*"]
after = "1m"
receivers = ["duty", "chat"]
severity = "error"

[[alarms.rules]]
alarm = "not_finished"
by = "06:30"
"#;

#[test]
fn all_of_it_is_read_shown_and_read_again() {
    let dir = dir();
    let secret = dir.path().join("secret").display().to_string();
    let loaded = read(dir.path(), &WHOLE.replace("SECRET", &secret)).unwrap();
    let alarms = &loaded.config.alarms;
    let forms: Vec<_> = alarms.receivers.iter().map(|receiver| receiver.form.as_str()).collect();
    assert_eq!(forms, ["webhook", "slack", "dingtalk", "wecom", "pagerduty", "email"]);
    assert_eq!((alarms.rules.len(), alarms.rules[1].by), (2, Some(390)));
    assert_eq!((alarms.rules[0].severity, alarms.rules[0].after), (Severity::Error, Duration::from_secs(60)));
    let printed = loaded.print();
    assert!(!printed.contains("s3cr3t") && !format!("{:?}", loaded.config).contains("s3cr3t"));
    std::fs::write(dir.path().join("printed.toml"), &printed).unwrap();
    let sources = Sources { file: Some(dir.path().join("printed.toml")), ..Sources::default() };
    assert_eq!(Loaded::read(&sources).unwrap().config, loaded.config);
}

#[test]
fn receivers_without_rules_are_told_of_every_kind() {
    let dir = dir();
    let config = "[[alarms.receivers]]\nname = \"a\"\nform = \"webhook\"\nurl = \"http://a/\"\n";
    let alarms = read(dir.path(), config).unwrap().config.alarms;
    assert_eq!(alarms.rules.len(), AlarmKind::ALL.len());
    assert!(read(dir.path(), "").unwrap().config.alarms.rules.is_empty());
}

#[test]
fn all_defects_are_told_at_once_each_with_its_place_and_remedy() {
    let dir = dir();
    let wrong = r#"
[alarms]
interval = "0s"
color = "red"
[[alarms.rules]]
alarm = "too_slow"
[[alarms.rules]]
alarm = "failed"
within = "1h"
receivers = ["nobody"]
[[alarms.rules]]
alarm = "failed"
by = "25:00"
[[alarms.receivers]]
name = "a b"
form = "webhook"
url = "nowhere"
[[alarms.receivers]]
form = "slack"
url = "https://hooks.example/secret"
[[alarms.receivers]]
name = "m"
form = "email"
from = "nobody"
"#;
    let told = read(dir.path(), wrong).unwrap_err();
    for wanted in [
        "alarms.interval = \"0s\"",
        "alarms.color: unknown field; known are interval",
        "alarms.rules[0].alarm = \"too_slow\"",
        "alarms.rules[1].within: failed does not take it; leave it out",
        "alarms.rules.failed.receivers = \"nobody\"",
        "alarms.rules = \"failed\"",
        "alarms.rules[2].by = \"25:00\"",
        "alarms.receivers[0].name = \"a b\"",
        "alarms.receivers[0].url = \"nowhere\"",
        "alarms.receivers[1].name: it is not set",
        "alarms.receivers[1].url: unknown field",
        "alarms.receivers[1].url_file: it is not set; name a file that holds it, since it is a secret",
        "alarms.receivers[2].host: it is not set",
        "alarms.receivers[2].to: it is not set",
        "alarms.receivers[2].from = \"nobody\"",
    ] {
        assert!(told.contains(wanted), "{wanted}:\n{told}");
    }
    assert!(!told.contains("hooks.example"), "what may be a secret is not shown:\n{told}");
    assert!(read(dir.path(), "alarms = 5\n").unwrap_err().contains("alarms: it is a integer; write a table"));
}
