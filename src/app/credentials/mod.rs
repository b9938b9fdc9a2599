//! The credential file: who may do what. Read here, changed by `edit` for the command line.
//!
//! ```toml
//! [[credential]]
//! name = "billing-workers"
//! role = "worker"                    # worker, viewer, operator or admin
//! jobs = ["billing-*"]               # only these; without it all
//! machines = ["10.0.7.*"]            # where its workers may say that they are; without it anywhere
//! expires = "2027-01-01T00:00:00Z"   # without it never
//! max_streams = 50                   # and max_jobs, max_items, max_runs_per_minute; without them the defaults
//! id = "0123456789abcdef"            # both from `rosterd credentials add`
//! sha256 = "…"
//!
//! [[credential]]
//! name = "wall"
//! role = "viewer"
//! certificate = "dns:wall.example"   # or cn:NAME, uri:URI: instead of id and sha256
//! ```
//!
//! A file without any is one: then nobody may do anything.

pub mod edit;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rosterd_domain::time::Time;
use serde::Deserialize;

use rosterd_api::access::jobs::JobScope;
use rosterd_api::access::limits::Limits;
use rosterd_api::access::machines::Machines;
use rosterd_api::access::secret::{self, Digest};
use rosterd_api::access::{Grant, Proof};
use rosterd_api::layers::methods::Role;

/// Larger files are something else.
const LARGEST: u64 = 4 << 20;
/// Longest name.
const LONGEST_NAME: usize = 128;
/// Write permission for others than the owner.
const OTHERS_WRITE: u32 = 0o022;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    credential: Vec<CredentialEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialEntry {
    name: String,
    role: String,
    #[serde(default)]
    jobs: Option<Vec<String>>,
    #[serde(default)]
    machines: Option<Vec<String>>,
    #[serde(default)]
    expires: Option<Moment>,
    #[serde(default)]
    max_streams: Option<toml::Value>,
    #[serde(default)]
    max_jobs: Option<toml::Value>,
    #[serde(default)]
    max_items: Option<toml::Value>,
    #[serde(default)]
    max_runs_per_minute: Option<toml::Value>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    sha256: Option<String>,
    #[serde(default)]
    certificate: Option<String>,
    /// Of the first form of the file, so that its remedy can be said.
    #[serde(default)]
    secret: Option<serde::de::IgnoredAny>,
}

/// With quotes or without.
#[derive(Deserialize)]
#[serde(untagged)]
enum Moment {
    Text(String),
    Toml(toml::value::Datetime),
}

/// Reads the file; an error names the file, the entry and the remedy, never a secret.
pub fn read(path: &Path) -> Result<Vec<Grant>, String> {
    let unusable = |why: String| format!("credentials {}: {}", path.display(), hide(&why));
    let there = std::fs::metadata(path).map_err(|error| unusable(format!("it cannot be read: {error}")))?;
    if there.len() > LARGEST {
        return Err(unusable(format!("its {} bytes are more than {LARGEST}", there.len())));
    }
    if there.mode() & OTHERS_WRITE != 0 {
        let what = "others than its owner may write it, and so give themselves any right: chmod go-w it";
        return Err(unusable(what.to_owned()));
    }
    let text =
        std::fs::read_to_string(path).map_err(|error| unusable(format!("it cannot be read: {error}")))?;
    parse(&text).map_err(unusable)
}

/// A text without the secrets in it, which may stand in any place by mistake.
fn hide(text: &str) -> String {
    let mut pieces = text.split("rosterd_");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end =
            piece.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).unwrap_or(piece.len());
        shown += if end > 16 { "rosterd_…" } else { "rosterd_" };
        shown += if end > 16 { &piece[end..] } else { piece };
    }
    shown
}

/// The grants of a file's text.
fn parse(text: &str) -> Result<Vec<Grant>, String> {
    // The parser's own message shows the line, and with it perhaps a secret.
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
        let what = error.message().lines().next().unwrap_or_default();
        format!("near line {line}: {what}: `rosterd credentials add` writes the form")
    })?;
    let grants: Vec<Grant> = file.credential.iter().map(grant).collect::<Result<_, _>>()?;
    for (at, one) in grants.iter().enumerate() {
        let same = |other: &&Grant| match (&one.proof, &other.proof) {
            (Proof::Secret { id, .. }, Proof::Secret { id: other, .. }) => id == other,
            (proof, other) => proof == other,
        };
        if let Some(other) = grants[..at].iter().find(same) {
            let (one, other, proof) = (&one.name, &other.name, &one.proof);
            return Err(format!(
                "{one} and {other} have the same {proof:?}: who that is must be clear; remove one"
            ));
        }
    }
    Ok(grants)
}

fn grant(entry: &CredentialEntry) -> Result<Grant, String> {
    let name = &entry.name;
    check_name(name)?;
    let role = role(&entry.role).map_err(|why| format!("{name}: {why}"))?;
    let jobs = match &entry.jobs {
        None => JobScope::all(),
        Some(none) if none.is_empty() => {
            return Err(format!("jobs of {name} is empty: leave it out for all jobs, or name some"));
        }
        Some(jobs) => {
            JobScope::parse(jobs.iter().cloned()).map_err(|why| format!("jobs of {name}: {why}"))?
        }
    };
    check_jobs(role, &jobs).map_err(|why| format!("jobs of {name}: {why}"))?;
    let expires = entry.expires.as_ref().map(|moment| match moment {
        Moment::Text(text) => Time::parse(text),
        Moment::Toml(time) => Time::parse(&time.to_string()),
    });
    let expires = expires
        .transpose()
        .map_err(|error| format!("expires of {name}: {error}: write for example 2027-01-01T00:00:00Z"))?;
    let (machines, limits) = (machines(entry, role)?, limits(entry, role)?);
    Ok(Grant { name: name.clone(), role, jobs, machines, limits, proof: proof(entry)?, expires })
}

/// Where its workers may be; nobody else says where it is.
fn machines(entry: &CredentialEntry, role: Role) -> Result<Machines, String> {
    let name = &entry.name;
    match &entry.machines {
        None => Ok(Machines::any()),
        Some(_) if role != Role::Worker => Err(format!(
            "machines of {name}: only a worker is on a machine: leave it out, or use role worker"
        )),
        Some(none) if none.is_empty() => {
            Err(format!("machines of {name} is empty: leave it out for any machine, or name some"))
        }
        Some(some) => {
            Machines::parse(some.iter().cloned()).map_err(|why| format!("machines of {name}: {why}"))
        }
    }
}

/// What its workers may bring; nobody else brings anything that counts.
fn limits(entry: &CredentialEntry, role: Role) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for (field, given, limit) in [
        ("max_streams", &entry.max_streams, &mut limits.streams),
        ("max_jobs", &entry.max_jobs, &mut limits.jobs),
        ("max_items", &entry.max_items, &mut limits.items),
        ("max_runs_per_minute", &entry.max_runs_per_minute, &mut limits.runs_per_minute),
    ] {
        let Some(given) = given else { continue };
        let name = &entry.name;
        if role != Role::Worker {
            return Err(format!(
                "{field} of {name}: only a worker has limits: leave it out, or use role worker"
            ));
        }
        let number = given.as_integer().and_then(|number| u32::try_from(number).ok()).filter(|n| *n > 0);
        *limit = number
            .ok_or_else(|| format!("{field} of {name} is {given}: write a number from 1 to {}", u32::MAX))?;
    }
    Ok(limits)
}

fn proof(entry: &CredentialEntry) -> Result<Proof, String> {
    let name = &entry.name;
    if entry.secret.is_some() {
        return Err(format!(
            "{name} holds its secret itself: the file keeps digests only; remove the entry and make another with \
             `rosterd credentials add {name} --role {}`",
            entry.role
        ));
    }
    match (&entry.id, &entry.sha256, &entry.certificate) {
        (None, None, Some(subject)) => {
            subject.parse().map(Proof::Certificate).map_err(|e| format!("{name}: {e}"))
        }
        (Some(id), Some(digest), None) if secret::is_id(id) => {
            let digest = Digest::parse(digest)
                .ok_or_else(|| format!("sha256 of {name} is not 64 hexadecimal digits, lower case"))?;
            Ok(Proof::Secret { id: id.clone(), digest })
        }
        _ => Err(format!(
            "{name} needs either `id` and `sha256` as `rosterd credentials add` writes them, or `certificate`"
        )),
    }
}

/// A role by its name.
pub fn role(text: &str) -> Result<Role, String> {
    let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
    found.ok_or_else(|| format!("invalid role {text:?}: expected worker, viewer, operator or admin"))
}

/// Names go into logs and answers as they are.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) {
        let shown: String = name.chars().take(LONGEST_NAME).collect();
        return Err(format!(
            "invalid credential name {shown:?}: use 1 to {LONGEST_NAME} of A-Z a-z 0-9 . _ @ -"
        ));
    }
    Ok(())
}

/// Looking is not restricted by job: who believed that it is would be deceived.
fn check_jobs(role: Role, jobs: &JobScope) -> Result<(), String> {
    if role == Role::Viewer && !jobs.are_all() {
        return Err(
            "a viewer sees all jobs, only working and changing can be restricted: leave it out".into()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "id='0123456789abcdef'\nsha256='";

    fn entry(rest: &str) -> String {
        format!("[[credential]]\nname='w'\n{rest}\n")
    }

    #[test]
    fn a_file_is_read() {
        let digest = "ab".repeat(32);
        let text = entry(&format!(
            "role='worker'\njobs=['a*']\nmachines=['10.*']\nexpires=2030-01-01T00:00:00Z\n{GOOD}{digest}'"
        )) + &entry("role='admin'\ncertificate='cn:ops'\nexpires='2030-01-01T00:00:00Z'");
        let grants = parse(&text).unwrap();
        assert_eq!(grants[0].jobs, JobScope::parse(["a*"]).unwrap());
        assert_eq!(grants[0].machines, Machines::parse(["10.*"]).unwrap());
        assert!(grants[0].expires.is_some() && grants[0].expires == grants[1].expires);
        assert_eq!(grants[1].proof, Proof::Certificate("cn:ops".parse().unwrap()));
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn a_worker_has_the_limits_of_its_entry_and_the_others_by_default() {
        let some = "role='worker'\nmax_streams=1\nmax_jobs=2\nmax_items=3\nmax_runs_per_minute=4\ncertificate='cn:a'";
        let text = entry(some) + &entry("role='worker'\nmax_jobs=7\ncertificate='cn:b'");
        let limits: Vec<Limits> = parse(&text).unwrap().into_iter().map(|grant| grant.limits).collect();
        assert_eq!(limits[0], Limits { streams: 1, jobs: 2, items: 3, runs_per_minute: 4 });
        assert_eq!(limits[1], Limits { jobs: 7, ..Limits::default() });
    }

    #[test]
    fn defects_are_named_with_their_remedy_and_without_secrets() {
        let digest = "cd".repeat(32);
        let good = format!("role='worker'\n{GOOD}{digest}'");
        for (text, expected) in [
            (entry("role='root'\ncertificate='cn:a'"), "expected worker, viewer, operator or admin"),
            (entry("role='worker'"), "needs either `id` and `sha256`"),
            (entry(&format!("{good}\ncertificate='cn:a'")), "needs either `id` and `sha256`"),
            (entry("role='worker'\nid='12'\nsha256='34'"), "needs either `id` and `sha256`"),
            (entry(&format!("role='worker'\n{GOOD}12'")), "64 hexadecimal digits"),
            (entry("role='worker'\ncertificate='ops'"), "write cn:NAME"),
            (entry("role='viewer'\njobs=['a']\ncertificate='cn:a'"), "leave it out"),
            (entry("role='worker'\njobs=[]\ncertificate='cn:a'"), "leave it out for all jobs"),
            (entry("role='worker'\nmachines=[]\ncertificate='cn:a'"), "leave it out for any machine"),
            (entry("role='worker'\nmachines=['a b']\ncertificate='cn:a'"), "write for example 10.0.7.3"),
            (entry("role='admin'\nmachines=['a']\ncertificate='cn:a'"), "only a worker is on a machine"),
            (entry("role='worker'\njobs=['a b']\ncertificate='cn:a'"), "write for example billing"),
            (entry("role='worker'\nexpires='soon'\ncertificate='cn:a'"), "2027-01-01T00:00:00Z"),
            (
                entry("role='worker'\nmax_jobs=0\ncertificate='cn:a'"),
                "max_jobs of w is 0: write a number from 1 to 4294967295",
            ),
            (
                entry("role='worker'\nmax_items='all'\ncertificate='cn:a'"),
                "max_items of w is \"all\": write a number",
            ),
            (
                entry("role='admin'\nmax_streams=5\ncertificate='cn:a'"),
                "max_streams of w: only a worker has limits",
            ),
            (
                entry("role='worker'\nsecret='hunter2hunter2hunter2'"),
                "`rosterd credentials add w --role worker`",
            ),
            (entry(&format!("{good}\nextra='hunter2'")), "near line"),
            (entry(&good) + &entry(&good), "w and w have the same secret 0123456789abcdef"),
            ("[[credential]]\nname='a\\nb'\nrole='worker'".to_owned(), "invalid credential name"),
        ] {
            let refused = parse(&text).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
            assert!(!refused.contains("hunter2") && !refused.contains(&digest), "{refused}");
        }
    }

    #[test]
    fn a_file_that_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
        assert!(read(&path).unwrap_err().contains("chmod go-w"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&path).unwrap().is_empty());
    }
}
