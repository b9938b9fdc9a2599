//! The configuration: which alarms there are, and who receives them. Read by `config`, which also says what is wrong with it. Secrets
//! are in files, so none of this is one.

use std::path::PathBuf;
use std::time::Duration;

use rosterd_domain::id::JobName;

use super::kind::{AlarmKind, Severity};

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often each job is looked at.
    pub interval: Duration,
    /// How long a change waits for others, to be sent with them.
    pub group: Duration,
    /// After how long an alarm that goes on is sent again; none: never.
    pub repeat: Option<Duration>,
    /// Where people look further; links in messages begin with it.
    pub link: Option<String>,
    /// Hosts that jobs' own properties may name as receivers.
    pub job_hosts: Vec<String>,
    /// A PEM file with the authorities of receivers' certificates, instead of the machine's.
    pub ca: Option<PathBuf>,
    /// Which alarms there are.
    pub rules: Vec<Rule>,
    /// Who is told.
    pub receivers: Vec<Receiver>,
}

impl Default for Settings {
    /// Nobody is notified, except for jobs that name DingTalk or WeCom themselves.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            group: Duration::from_secs(5),
            repeat: None,
            link: None,
            job_hosts: vec!["oapi.dingtalk.com".to_owned(), "qyapi.weixin.qq.com".to_owned()],
            ca: None,
            rules: Vec::new(),
            receivers: Vec::new(),
        }
    }
}

/// When an alarm is raised, and who receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Unique, and part of its alarms' keys.
    pub name: String,
    /// What it looks for.
    pub kind: AlarmKind,
    /// In which jobs; empty: in all.
    pub jobs: Vec<Pattern>,
    /// How long it must hold, or by how much.
    pub after: Duration,
    /// How often.
    pub times: u64,
    /// In what time.
    pub within: Duration,
    /// A time of the day, in the job's time zone: minutes since midnight.
    pub by: Option<u16>,
    /// How bad it is.
    pub severity: Severity,
    /// Names of receivers; empty: all.
    pub receivers: Vec<String>,
}

impl Rule {
    /// With the defaults of its kind.
    pub fn new(kind: AlarmKind) -> Self {
        let takes = kind.takes();
        Self {
            name: kind.as_str().to_owned(),
            kind,
            jobs: Vec::new(),
            after: takes.after.unwrap_or_default(),
            times: takes.times.unwrap_or(1),
            within: takes.within.unwrap_or_default(),
            by: None,
            severity: kind.severity(),
            receivers: Vec::new(),
        }
    }

    /// Whether it is about this job.
    pub fn is_for(&self, job: &JobName) -> bool {
        self.kind.of_jobs() && (self.jobs.is_empty() || self.jobs.iter().any(|of| of.matches(job.as_str())))
    }
}

/// A name, or a beginning with `*` after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(pub String);

impl Pattern {
    /// Whether a name is meant.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => self.0 == name,
        }
    }
}

/// A receiver of alarms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Unique.
    pub name: String,
    /// How.
    pub form: Form,
}

/// A text that is written in the configuration, or in a file that is read whenever it is needed.
#[derive(Clone, PartialEq, Eq)]
pub enum Text {
    /// No secret.
    Plain(String),
    /// A file whose content, without white space at its ends, is the text.
    File(PathBuf),
    /// A secret that came with a job's properties.
    Secret(String),
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(text) => write!(f, "{text:?}"),
            Self::File(path) => write!(f, "File({path:?})"),
            Self::Secret(_) => f.write_str("Secret(…)"),
        }
    }
}

/// How a receiver is notified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// JSON of our own, by POST; signed where there is a secret.
    Webhook {
        /// Where.
        url: Text,
        /// What it is signed with.
        secret: Option<Text>,
        /// Sent as `authorization: Bearer …`.
        bearer: Option<Text>,
    },
    /// An incoming webhook of Slack's.
    Slack {
        /// Where; it is a secret.
        url: Text,
    },
    /// A custom robot of DingTalk's.
    DingTalk {
        /// Where; it holds the robot's access token.
        url: Text,
        /// What it is signed with, where the robot asks for a signature.
        secret: Option<Text>,
        /// A word that the robot asks for in each message.
        keyword: Option<String>,
    },
    /// A group robot of WeCom's.
    WeCom {
        /// Where; it holds the robot's key.
        url: Text,
    },
    /// PagerDuty's Events API v2.
    PagerDuty {
        /// The integration key.
        routing_key: Text,
        /// Where.
        url: Text,
    },
    /// E-mail by SMTP.
    Email(Box<Mail>),
}

impl Form {
    /// What [`as_str`](Self::as_str) says of each.
    pub const NAMES: [&'static str; 6] = ["webhook", "slack", "dingtalk", "wecom", "pagerduty", "email"];

    /// Its name in the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
            Self::DingTalk { .. } => "dingtalk",
            Self::WeCom { .. } => "wecom",
            Self::PagerDuty { .. } => "pagerduty",
            Self::Email(_) => "email",
        }
    }

    /// How many alarms one message may be about: PagerDuty knows each by itself.
    pub fn most(&self) -> usize {
        if matches!(self, Self::PagerDuty { .. }) { 1 } else { 100 }
    }
}

/// E-mail by SMTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The server.
    pub host: String,
    #[allow(missing_docs)]
    pub port: u16,
    /// How it is secured.
    pub security: Security,
    /// Who we are to it, and the password.
    pub login: Option<(String, Text)>,
    /// Who it is from.
    pub from: String,
    /// Who it is to.
    pub to: Vec<String>,
    #[allow(missing_docs)]
    pub cc: Vec<String>,
    #[allow(missing_docs)]
    pub bcc: Vec<String>,
    /// What its subject begins with.
    pub subject: String,
}

/// How a connection to a mail server is secured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte (port 465).
    Tls,
    /// STARTTLS, and nothing without it (port 587).
    StartTls,
    /// Not at all: only to a server on this machine, or in a network that is trusted.
    Plain,
}
