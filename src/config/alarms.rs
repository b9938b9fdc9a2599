//! The tables of alarms: `[alarms]`, `[[alarms.rules]]`, `[[alarms.receivers]]`. They stand in the file alone. What may be a secret
//! is in a file of its own, so that all of this can be shown.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rosterd_alarms::forms::email;
use rosterd_alarms::kind::{AlarmKind, Severity};
use rosterd_alarms::settings::{Form, Mail, Pattern, Receiver, Rule, Security, Settings, Text};
use toml::{Table, Value};

use super::defect::{Defect, Origin};
use super::field::ALARMS;
use super::reader::ConfigReader;
use super::value;

/// Most rules, and most receivers.
const MOST: usize = 200;
/// Where PagerDuty takes events.
const PAGERDUTY: &str = "https://events.pagerduty.com/v2/enqueue";

/// As it stands in the file. There is no secret in it.
pub(super) fn print(table: &Value, origin: &Origin) -> String {
    let whole = Table::from_iter([(ALARMS.to_owned(), table.clone())]);
    let text = toml::to_string(&whole).unwrap_or_default();
    format!("# alarms and who is told, from {origin}\n{text}")
}

/// Types the tables; without them no alarm is sent.
pub(super) fn read(reader: &mut ConfigReader) -> Settings {
    let Some((table, origin)) = reader.alarms.clone() else { return Settings::default() };
    let mut defects = Vec::new();
    let mut part = Part::new(ALARMS.to_owned(), &table, &origin, &mut defects);
    let usual = Settings::default();
    let mut settings = Settings {
        interval: part.duration("interval", "1s", "1h").unwrap_or(usual.interval),
        group: part.duration("group", "0s", "10m").unwrap_or(usual.group),
        repeat: part.duration("repeat", "1m", "30d"),
        link: part.text("link"),
        job_hosts: part.list("job_hosts").unwrap_or(usual.job_hosts),
        ca: part.file("ca"),
        rules: Vec::new(),
        receivers: Vec::new(),
    };
    if let Some(link) = settings.link.as_ref().filter(|link| !is_url(link)) {
        part.push("link", link.clone(), "it is not a URL", "write https://host/path");
    }
    let (rules, receivers) = (part.tables("rules"), part.tables("receivers"));
    part.unknown(&["interval", "group", "repeat", "link", "job_hosts", "ca", "rules", "receivers"]);
    for (place, table) in &receivers {
        let mut part = Part::new(place.clone(), table, &origin, &mut defects);
        settings.receivers.extend(receiver(&mut part));
    }
    for (place, table) in &rules {
        let mut part = Part::new(place.clone(), table, &origin, &mut defects);
        settings.rules.extend(rule(&mut part));
    }
    between(&settings, &rules, &receivers, &origin, &mut defects);
    if rules.is_empty() && !receivers.is_empty() {
        settings.rules = AlarmKind::ALL.into_iter().map(Rule::new).collect();
    }
    reader.defects.extend(defects);
    settings
}

/// What holds between rules and receivers: names are unique, and those that are named are there.
fn between(
    settings: &Settings,
    rules: &[(String, Value)],
    receivers: &[(String, Value)],
    origin: &Origin,
    defects: &mut Vec<Defect>,
) {
    let mut push = |field: String, value: String, problem: &str, remedy: &str| {
        let value = Some((value, origin.clone()));
        defects.push(Defect { field, value, problem: problem.into(), remedy: remedy.into(), unset: false });
    };
    if rules.len() > MOST || receivers.len() > MOST {
        let remedy = "use patterns of jobs, and lists at the receiver's";
        push(
            ALARMS.to_owned(),
            format!("{} rules, {} receivers", rules.len(), receivers.len()),
            "that is too many",
            remedy,
        );
    }
    let mut known = BTreeSet::new();
    for name in settings.receivers.iter().map(|receiver| &receiver.name) {
        if !known.insert(name) {
            push(format!("{ALARMS}.receivers"), name.clone(), "two have this name", "give each its own");
        }
    }
    let mut named = BTreeSet::new();
    for rule in &settings.rules {
        if !named.insert(&rule.name) {
            let remedy = "give each a name of its own: it is part of what receivers know an alarm by";
            push(format!("{ALARMS}.rules"), rule.name.clone(), "two have this name", remedy);
        }
        for receiver in rule.receivers.iter().filter(|receiver| !known.contains(receiver)) {
            let field = format!("{ALARMS}.rules.{}.receivers", rule.name);
            push(field, receiver.clone(), "unknown receiver", "name one of [[alarms.receivers]]");
        }
    }
}

fn rule(part: &mut Part<'_>) -> Option<Rule> {
    part.unknown(&["alarm", "name", "jobs", "after", "times", "within", "by", "severity", "receivers"]);
    let kinds = || AlarmKind::ALL.map(AlarmKind::as_str).join(", ");
    let text = part.required("alarm", &format!("write one of {}", kinds()))?;
    let Some(kind) = AlarmKind::named(&text) else {
        part.push("alarm", text, "unknown alarm", &format!("write one of {}", kinds()));
        return None;
    };
    let (takes, usual) = (kind.takes(), Rule::new(kind));
    part.useless(
        kind,
        &[
            ("after", takes.after.is_some()),
            ("times", takes.times.is_some()),
            ("within", takes.within.is_some()),
            ("by", takes.by),
            ("jobs", kind.of_jobs()),
        ],
    );
    let severities = Severity::ALL.map(Severity::as_str).join(", ");
    let severity = part.text("severity").and_then(|text| {
        let found = Severity::ALL.into_iter().find(|severity| severity.as_str() == text);
        if found.is_none() {
            part.push("severity", text, "unknown severity", &format!("write one of {severities}"));
        }
        found
    });
    let by = part.text("by").and_then(|text| {
        let minutes = time_of_day(&text);
        if minutes.is_none() {
            part.push("by", text, "it is not a time of the day", "write it as 06:30");
        }
        minutes
    });
    Some(Rule {
        name: part.name("name").unwrap_or(usual.name),
        kind,
        jobs: part.list("jobs").unwrap_or_default().into_iter().map(Pattern).collect(),
        after: part.duration("after", "0s", "365d").unwrap_or(usual.after),
        times: part.number("times", 1, 1_000_000).unwrap_or(usual.times),
        within: part.duration("within", "1s", "30d").unwrap_or(usual.within),
        by,
        severity: severity.unwrap_or(usual.severity),
        receivers: part.list("receivers").unwrap_or_default(),
    })
}

fn time_of_day(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |part: &str| (part.len() == 2).then(|| part.parse::<u16>().ok()).flatten();
    let (hour, minute) = (number(hour)?, number(minute)?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

/// The forms, and the fields of each beside `name` and `form`.
const FORMS: [(&str, &[&str]); 6] = [
    ("webhook", &["url", "url_file", "secret_file", "bearer_file"]),
    ("slack", &["url_file"]),
    ("dingtalk", &["url_file", "secret_file", "keyword"]),
    ("wecom", &["url_file"]),
    ("pagerduty", &["routing_key_file", "url"]),
    (
        "email",
        &["host", "port", "security", "username", "password_file", "from", "to", "cc", "bcc", "subject"],
    ),
];

fn receiver(part: &mut Part<'_>) -> Option<Receiver> {
    let forms = FORMS.map(|(name, _)| name).join(", ");
    if !part.table.contains_key("name") {
        part.unset("name", "give it one: rules name receivers");
    }
    let name = part.name("name");
    let text = part.required("form", &format!("write one of {forms}"))?;
    let Some((_, fields)) = FORMS.iter().find(|(known, _)| *known == text) else {
        part.push("form", text, "unknown form", &format!("write one of {forms}"));
        return None;
    };
    part.unknown(&[&["name", "form"], *fields].concat());
    let form = match text.as_str() {
        "webhook" => {
            let url = match part.text("url") {
                Some(url) => part.url("url", url),
                None => part.secret("url_file"),
            };
            let optional = |part: &mut Part<'_>, name| part.file(name).map(Text::File);
            Form::Webhook {
                url: url?,
                secret: optional(part, "secret_file"),
                bearer: optional(part, "bearer_file"),
            }
        }
        "slack" => Form::Slack { url: part.secret("url_file")? },
        "dingtalk" => Form::DingTalk {
            url: part.secret("url_file")?,
            secret: part.file("secret_file").map(Text::File),
            keyword: part.text("keyword"),
        },
        "wecom" => Form::WeCom { url: part.secret("url_file")? },
        "pagerduty" => {
            let url = part.text("url").unwrap_or_else(|| PAGERDUTY.to_owned());
            Form::PagerDuty { url: part.url("url", url)?, routing_key: part.secret("routing_key_file")? }
        }
        _ => Form::Email(Box::new(mail(part)?)),
    };
    Some(Receiver { name: name?, form })
}

fn mail(part: &mut Part<'_>) -> Option<Mail> {
    let security = match part.text("security").as_deref() {
        None | Some("tls") => Security::Tls,
        Some("starttls") => Security::StartTls,
        Some("plain") => Security::Plain,
        Some(other) => {
            part.push("security", other.to_owned(), "unknown method", "write tls, starttls or plain");
            Security::Tls
        }
    };
    let usual = match security {
        Security::Tls => 465,
        Security::StartTls => 587,
        Security::Plain => 25,
    };
    let user = part.text("username");
    let login = match (user, part.file("password_file")) {
        (Some(user), Some(file)) => Some((user, Text::File(file))),
        (None, None) => None,
        (Some(user), None) => {
            part.push("username", user, "password_file is not set", "name the file with the password");
            None
        }
        (None, Some(file)) => {
            let file = file.display().to_string();
            part.push("password_file", file, "username is not set", "give the user whose password it is");
            None
        }
    };
    let host = part.required("host", "give the mail server's name");
    let from = part.required("from", "write name@example.org, or Name <name@example.org>");
    let to = part.list("to").unwrap_or_default();
    if to.is_empty() {
        part.unset("to", "write a list of name@example.org");
    }
    let (cc, bcc) = (part.list("cc").unwrap_or_default(), part.list("bcc").unwrap_or_default());
    let all = from.iter().map(|from| ("from", from)).chain(to.iter().map(|to| ("to", to)));
    let all = all.chain(cc.iter().map(|cc| ("cc", cc))).chain(bcc.iter().map(|bcc| ("bcc", bcc)));
    let wrong: Vec<_> = all.filter(|(_, text)| email::address(text).is_none()).collect();
    for (field, text) in wrong {
        part.push(field, text.clone(), "it is not an address", "write name@example.org in ASCII");
    }
    Some(Mail {
        host: host?,
        port: part.number("port", 1, 65_535).and_then(|port| u16::try_from(port).ok()).unwrap_or(usual),
        security,
        login,
        from: from?,
        to,
        cc,
        bcc,
        subject: part.text("subject").unwrap_or_default(),
    })
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && text.chars().all(|c| c.is_ascii_graphic()))
}

/// One table, and where what is wrong with it goes.
struct Part<'a> {
    place: String,
    table: Table,
    origin: &'a Origin,
    defects: &'a mut Vec<Defect>,
}

impl<'a> Part<'a> {
    fn new(place: String, value: &Value, origin: &'a Origin, defects: &'a mut Vec<Defect>) -> Self {
        let mut part = Self { place, table: Table::new(), origin, defects };
        match value {
            Value::Table(table) => part.table = table.clone(),
            other => {
                let problem = format!("it is a {}", other.type_str());
                part.push("", String::new(), &problem, "write a table, as the guide's page of alarms shows");
            }
        }
        part
    }

    /// `value`: as it stands there; empty: nothing does.
    fn push(&mut self, field: &str, value: String, problem: &str, remedy: &str) {
        let field = if field.is_empty() { self.place.clone() } else { format!("{}.{field}", self.place) };
        let value = (!value.is_empty()).then(|| (value, self.origin.clone()));
        self.defects.push(Defect {
            field,
            value,
            problem: problem.into(),
            remedy: remedy.into(),
            unset: false,
        });
    }

    fn unset(&mut self, field: &str, remedy: &str) {
        self.push(field, String::new(), "it is not set", remedy);
    }

    fn unknown(&mut self, known: &[&str]) {
        let names: Vec<String> =
            self.table.keys().filter(|name| !known.contains(&name.as_str())).cloned().collect();
        for name in names {
            self.push(&name, String::new(), "unknown field", &format!("known are {}", known.join(", ")));
        }
    }

    /// Fields that a kind of alarm does not take.
    fn useless(&mut self, kind: AlarmKind, fields: &[(&str, bool)]) {
        for (field, taken) in fields {
            if !taken && self.table.contains_key(*field) {
                let problem = format!("{kind} does not take it");
                self.push(field, String::new(), &problem, "leave it out");
            }
        }
    }

    fn text(&mut self, field: &str) -> Option<String> {
        match self.table.get(field)? {
            Value::String(text) if !text.is_empty() && text.len() <= 4096 => Some(text.clone()),
            other => {
                let problem = format!("it is a {}, or empty, or too long", other.type_str());
                self.push(field, String::new(), &problem, "write a text");
                None
            }
        }
    }

    fn required(&mut self, field: &str, remedy: &str) -> Option<String> {
        if !self.table.contains_key(field) {
            self.unset(field, remedy);
            return None;
        }
        self.text(field)
    }

    /// The tables of a list, each with its place.
    fn tables(&mut self, field: &str) -> Vec<(String, Value)> {
        match self.table.get(field) {
            None => Vec::new(),
            Some(Value::Array(list)) => {
                let place = |at: usize| format!("{}.{field}[{at}]", self.place);
                list.iter().enumerate().map(|(at, value)| (place(at), value.clone())).collect()
            }
            Some(_) => {
                let remedy = format!("write [[{}.{field}]] before each", self.place);
                self.push(field, String::new(), "it is not a list of tables", &remedy);
                Vec::new()
            }
        }
    }

    /// A name that can stand in keys and labels.
    fn name(&mut self, field: &str) -> Option<String> {
        let text = self.text(field)?;
        let good = text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if !good {
            self.push(field, text, "it is not a name", "use 1 to 64 ASCII letters, digits or . _ -");
            return None;
        }
        Some(text)
    }

    fn list(&mut self, field: &str) -> Option<Vec<String>> {
        let wrong = |part: &mut Self, what: &str| {
            part.push(field, String::new(), what, "write a list of texts");
            None
        };
        match self.table.get(field)? {
            Value::Array(list) if list.len() <= 1000 => {
                let texts: Option<Vec<String>> = list
                    .iter()
                    .map(|text| text.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
                    .collect();
                texts.or_else(|| wrong(self, "not all of it is text"))
            }
            Value::Array(_) => wrong(self, "it is too long"),
            _ => wrong(self, "it is not a list"),
        }
    }

    fn number(&mut self, field: &str, least: i64, most: i64) -> Option<u64> {
        let value = self.table.get(field)?.clone();
        let found = value.as_integer().filter(|number| (least..=most).contains(number));
        if found.is_none() {
            self.push(field, value.to_string(), "out of range", &format!("write {least} to {most}"));
        }
        found.and_then(|number| u64::try_from(number).ok())
    }

    fn duration(&mut self, field: &str, least: &str, most: &str) -> Option<Duration> {
        let text = self.text(field)?;
        let bound = |text| value::duration(text).unwrap_or_default();
        let found = value::duration(&text).ok().filter(|found| (bound(least)..=bound(most)).contains(found));
        if found.is_none() {
            let remedy = format!("write {least} to {most}, a whole number and one of ms, s, m, h, d");
            self.push(field, text, "invalid duration, or out of range", &remedy);
        }
        found
    }

    fn url(&mut self, field: &str, text: String) -> Option<Text> {
        if is_url(&text) {
            return Some(Text::Plain(text));
        }
        self.push(field, text, "it is not a URL", "write https://host/path");
        None
    }

    /// A file that can be read; what is in it is read when it is needed.
    fn file(&mut self, field: &str) -> Option<PathBuf> {
        let text = self.text(field)?;
        match std::fs::File::open(&text).and_then(|mut file| std::io::Read::read(&mut file, &mut [0])) {
            Ok(_) => {}
            Err(error) => {
                let problem = format!("it cannot be read: {error}");
                self.push(field, text.clone(), &problem, "name a file that can be read");
            }
        }
        Some(text.into())
    }

    fn secret(&mut self, field: &str) -> Option<Text> {
        if !self.table.contains_key(field) {
            self.unset(field, "name a file that holds it, since it is a secret");
            return None;
        }
        self.file(field).map(Text::File)
    }
}

#[cfg(test)]
mod tests;
