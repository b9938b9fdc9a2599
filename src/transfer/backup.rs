//! The file of a backup: lines of JSON. The first says what it is, each further one is a job as an export has it, the
//! last one counts them and has a checksum over all before it, so that a file that was cut or changed is refused. It is
//! written and read line by line: no more than one job is in memory.

use std::fmt::Write as _;
use std::io::{BufRead, Read as _};

use rosterd_domain::id::{JobName, Namespace, Token};
use rosterd_domain::time::Time;
use rosterd_registry::{ReadError, Registry};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::take::{TakeError, job as take_job, why_none};
use super::{Job, form, read};

/// What the file says it is.
const FORMAT: &str = "rosterd-backup";
/// The version that is written, and the newest that is read.
const VERSION: u64 = 1;
/// Longest line, which is the largest job: in bytes.
pub const MOST_LINE: usize = 256 << 20;
/// How many digits of the checksum name a backup.
const MARK: usize = 16;
const DIGEST: &str = ",\"digest\":\"sha256:";

/// Writes the lines of a backup.
#[derive(Debug, Default)]
pub struct Writer {
    sum: Sha256,
    jobs: u64,
    records: u64,
    tokens: Token,
}

impl Writer {
    /// The first line. `by`: who writes it, for people.
    pub fn begin(&mut self, namespace: &Namespace, now: Time, by: &str) -> String {
        let head = json!({
            "format": FORMAT,
            "version": VERSION,
            "namespace": namespace,
            "taken_at": now,
            "taken_by": by,
        });
        self.line(&head)
    }

    /// A job's line.
    pub fn job(&mut self, job: &Job) -> String {
        self.jobs += 1;
        self.records += job.records.len() as u64;
        self.tokens = job.records.values().map(|record| record.token).fold(self.tokens, Token::max);
        self.line(&form::job(job))
    }

    /// The last line. No token above `given` was given that is in no record.
    pub fn end(mut self, given: Token) -> String {
        let tokens = self.tokens.max(given);
        let mut line = format!("{{\"jobs\":{},\"records\":{},\"tokens\":{tokens}", self.jobs, self.records);
        self.sum.update(line.as_bytes());
        let _ = writeln!(line, "{DIGEST}{}\"}}", hex(self.sum));
        line
    }

    fn line(&mut self, value: &Value) -> String {
        let line = value.to_string() + "\n";
        self.sum.update(line.as_bytes());
        line
    }
}

fn hex(sum: Sha256) -> String {
    hex::encode(sum.finalize())
}

/// A job as it stands in a store that goes on meanwhile, at one revision.
#[derive(Debug)]
pub enum Found {
    /// It is.
    Job(Box<Job>),
    /// It is left out, and why; `damaged`: it should not be.
    Left { why: String, damaged: bool },
    /// It was removed meanwhile.
    Gone,
}

/// Reads one job for a backup. A job that cannot be understood does not keep others from being saved.
pub async fn find(registry: &dyn Registry, name: &JobName) -> Result<Found, ReadError> {
    let left = |why, damaged| Ok(Found::Left { why, damaged });
    match registry.whole(name).await {
        Ok(None) => Ok(Found::Gone),
        Ok(Some(whole)) if whole.snapshot.nodes.incarnation.is_none() => {
            match whole.snapshot.nodes.config.is_some() {
                true => left(why_none(&whole.snapshot.nodes).to_owned(), false),
                false => Ok(Found::Gone),
            }
        }
        Ok(Some(whole)) => match take_job(name, whole) {
            Ok(job) => Ok(Found::Job(Box::new(job))),
            Err(TakeError::Damaged { why, .. }) => left(why, true),
            Err(error) => left(error.to_string(), true),
        },
        Err(error @ ReadError::Damaged { .. }) => left(error.to_string(), true),
        Err(error) => Err(error),
    }
}

/// What a file holds, all of which was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Whose jobs they are.
    pub namespace: Namespace,
    /// When it was begun.
    pub taken_at: Time,
    /// No token that was given until then is above it.
    pub tokens: Token,
    /// Names the backup: the first digits of its checksum.
    pub mark: String,
    /// The jobs, in the order of the file.
    pub jobs: Vec<JobName>,
    /// How many records they have.
    pub records: u64,
}

/// Whether the text names a backup, as [`Summary::mark`] does.
pub fn is_mark(text: &str) -> bool {
    text.len() == MARK && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Why a file is refused: every defect, each with what to do.
type Defects = Vec<String>;

/// Reads a file to its end and holds it against its checksum. Nothing is to be done with a file before.
pub fn check(file: impl BufRead) -> Result<Summary, Defects> {
    let mut lines = Lines { file, number: 0 };
    let first = lines.next()?.unwrap_or_default();
    let (namespace, taken_at) = head(&first)?;
    let (mut sum, mut found, mut defects) = (Sha256::new(), Writer::default(), Vec::new());
    let mut jobs: Vec<JobName> = Vec::new();
    sum.update(&first);
    while let Some(line) = lines.next()? {
        let value: Value = serde_json::from_slice(&line).map_err(|_| vec![cut(lines.number)])?;
        if value.get("digest").is_some() {
            if lines.next()?.is_some() {
                return Err(vec![format!(
                    "line {}: there is more behind the last line; {COPY}",
                    lines.number
                )]);
            }
            let tokens = last(&line, &value, sum, &found)?;
            let given = if defects.is_empty() { Ok(()) } else { Err(defects) };
            return given.and_then(|()| match found.tokens <= tokens {
                true => Ok(Summary {
                    namespace,
                    taken_at,
                    tokens,
                    mark: mark(&value),
                    jobs,
                    records: found.records,
                }),
                false => Err(vec![format!(
                    "tokens = {tokens}: a record has the higher one {}; {COPY}",
                    found.tokens
                )]),
            });
        }
        sum.update(&line);
        match job(&line) {
            Ok(job) if jobs.last().is_some_and(|last| *last >= job.name) => {
                defects.push(format!(
                    "line {}: job {} stands twice, or out of order; {COPY}",
                    lines.number, job.name
                ));
            }
            Ok(job) => {
                found.job_seen(&job);
                jobs.push(job.name);
            }
            Err(more) => {
                defects.extend(more.into_iter().map(|defect| format!("line {}: {defect}", lines.number)))
            }
        }
    }
    Err(vec![cut(lines.number + 1)])
}

/// Hands out the lines of the jobs, as they stand in a file that was checked.
pub fn each_job(file: impl BufRead, jobs: usize) -> impl Iterator<Item = Result<Vec<u8>, Defects>> {
    let mut lines = Lines { file, number: 0 };
    let head = lines.next();
    let mut failed = head.err();
    (0..jobs).map_while(move |_| match failed.take() {
        Some(defects) => Some(Err(defects)),
        None => lines.next().transpose(),
    })
}

/// A job from its line; every defect of it.
pub fn job(line: &[u8]) -> Result<Job, Defects> {
    let value: Value =
        serde_json::from_slice(line).map_err(|error| vec![format!("it is not JSON: {error}; {COPY}")])?;
    read::one(&value)
}

const COPY: &str = "take an undamaged copy of the file";

fn cut(line: u64) -> String {
    format!(
        "line {line}: the file was cut off here, its last line with the checksum is missing; take a whole copy of it"
    )
}

impl Writer {
    fn job_seen(&mut self, job: &Job) {
        self.jobs += 1;
        self.records += job.records.len() as u64;
        self.tokens = job.records.values().map(|record| record.token).fold(self.tokens, Token::max);
    }
}

fn head(line: &[u8]) -> Result<(Namespace, Time), Defects> {
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    let format = value.get("format").and_then(Value::as_str);
    if format != Some(FORMAT) {
        let remedy = match format {
            Some("rosterd-export") => "that is a file of `rosterd export`: read it with `rosterd import`",
            _ => "give a file that `rosterd backup` wrote",
        };
        return Err(vec![format!(
            "format = {}: it must be {FORMAT:?}; {remedy}",
            format.unwrap_or("nothing")
        )]);
    }
    match value.get("version").and_then(Value::as_u64) {
        Some(1..=VERSION) => {}
        version => {
            let version = version.map_or_else(|| "nothing".to_owned(), |version| version.to_string());
            return Err(vec![format!(
                "version = {version}: this rosterd reads up to {VERSION}; restore with the rosterd that wrote it, or a later one"
            )]);
        }
    }
    let text = |name| value.get(name).cloned().unwrap_or_default();
    let namespace = serde_json::from_value(text("namespace"));
    let taken_at = serde_json::from_value(text("taken_at"));
    match (namespace, taken_at) {
        (Ok(namespace), Ok(taken_at)) => Ok((namespace, taken_at)),
        (namespace, taken_at) => {
            let said = |name, error: String| format!("{name}: {error}; {COPY}");
            let defects = namespace.err().map(|error| said("namespace", error.to_string()));
            Err(defects.into_iter().chain(taken_at.err().map(|e| said("taken_at", e.to_string()))).collect())
        }
    }
}

/// The tokens of the last line, where it fits all before it.
fn last(line: &[u8], value: &Value, mut sum: Sha256, found: &Writer) -> Result<Token, Defects> {
    let text = String::from_utf8_lossy(line);
    let Some((before, _)) = text.rsplit_once(DIGEST).filter(|_| line.ends_with(b"\n")) else {
        return Err(vec![format!("digest: it cannot be read; {COPY}")]);
    };
    sum.update(before.as_bytes());
    let said = value.get("digest").and_then(Value::as_str).unwrap_or_default();
    let is = format!("sha256:{}", hex(sum));
    if said != is {
        return Err(vec![format!(
            "digest: the file is not what was written ({said} was, {is} is here); {COPY}"
        )]);
    }
    for (name, count) in [("jobs", found.jobs), ("records", found.records)] {
        if value.get(name).and_then(Value::as_u64) != Some(count) {
            return Err(vec![format!(
                "{name}: the file has {count}, and its last line says otherwise; {COPY}"
            )]);
        }
    }
    serde_json::from_value(value.get("tokens").cloned().unwrap_or_default())
        .map_err(|error| vec![format!("tokens: {error}; {COPY}")])
}

fn mark(value: &Value) -> String {
    let digest = value.get("digest").and_then(Value::as_str).unwrap_or_default();
    digest.trim_start_matches("sha256:").chars().take(MARK).collect()
}

struct Lines<R> {
    file: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The next line with its end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Defects> {
        let mut line = Vec::new();
        self.number += 1;
        let read = (&mut self.file).take(MOST_LINE as u64 + 1).read_until(b'\n', &mut line);
        read.map_err(|error| vec![format!("line {}: it cannot be read: {error}", self.number)])?;
        if line.len() > MOST_LINE {
            return Err(vec![format!("line {}: it is longer than {MOST_LINE} bytes; {COPY}", self.number)]);
        }
        Ok((!line.is_empty()).then_some(line))
    }
}
