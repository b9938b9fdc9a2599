//! Changes of the credential file, as people make them. The file is replaced as a whole, by a rename, so that
//! nobody ever reads half of it; two that change it at a time wait for each other; what a person wrote into it
//! stays as it is. Never keeps a secret: it is handed out once.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rosterd_domain::time::Time;
use rustix::fs::{FlockOperation, flock};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;

use super::{check_jobs, check_name, parse, read};
use rosterd_api::access::jobs::JobScope;
use rosterd_api::access::secret::{ID_BYTES, SECRET_BYTES, Secret};
use rosterd_api::access::{Grant, Proof};

const HEAD: &str =
    "# Who may do what: see the guide's page on security. Changed by `rosterd credentials`, or by hand.\n";

/// A credential to add.
#[derive(Debug)]
pub struct NewCredential {
    /// The name.
    pub name: String,
    /// One of the four.
    pub role: String,
    /// Patterns; none: all jobs.
    pub jobs: Vec<String>,
    /// Instead of a secret.
    pub certificate: Option<String>,
    /// When it ends.
    pub expires: Option<Time>,
}

/// A line of the list.
#[derive(Debug)]
pub struct Row {
    /// The name.
    pub name: String,
    /// The role.
    pub role: &'static str,
    /// The patterns.
    pub jobs: String,
    /// The secret's id, or the certificate's subject.
    pub proof: String,
    /// When it ends.
    pub expires: Option<Time>,
}

/// Adds a credential; its secret, unless a certificate is the proof.
pub fn add(path: &Path, credential: NewCredential) -> Result<Option<String>, String> {
    check_name(&credential.name)?;
    let role = super::role(&credential.role)?;
    let jobs = JobScope::parse(credential.jobs)?;
    check_jobs(role, &jobs)?;
    let (proof, secret) = match credential.certificate {
        Some(subject) => (Proof::Certificate(subject.parse()?), None),
        None => {
            let secret = fresh()?;
            (Proof::Secret { id: secret.id().to_owned(), digest: secret.digest() }, Some(secret))
        }
    };
    let grant = Grant { jobs, expires: credential.expires, ..Grant::new(&credential.name, role, proof) };
    change(path, |text| {
        let before = if text.is_empty() { HEAD.to_owned() } else { text.trim_end().to_owned() + "\n" };
        Ok(format!("{before}\n{}", entry(&grant)))
    })?;
    Ok(secret.map(|secret| secret.text().to_owned()))
}

/// All that are in the file, in its order.
pub fn list(path: &Path) -> Result<Vec<Row>, String> {
    let row = |grant: Grant| Row {
        role: grant.role.as_str(),
        jobs: grant.jobs.to_string(),
        proof: match grant.proof {
            Proof::Secret { id, .. } => id,
            Proof::Certificate(subject) => subject.to_string(),
        },
        expires: grant.expires,
        name: grant.name,
    };
    Ok(read(path)?.into_iter().map(row).collect())
}

/// Removes all of a name, or the one with this id; how many.
pub fn revoke(path: &Path, which: &str) -> Result<usize, String> {
    let mut count = 0;
    change(path, |text| {
        let named = |grant: &Grant| {
            grant.name == which || matches!(&grant.proof, Proof::Secret { id, .. } if id == which)
        };
        let before = parse(text)?;
        let blocks = blocks(text);
        count = before.iter().filter(|grant| named(grant)).count();
        if count == 0 {
            return Err(format!("there is no credential {which:?}: `rosterd credentials list` shows them"));
        }
        let kept = blocks.iter().skip(1).zip(&before).filter(|(_, grant)| !named(grant));
        let after = blocks[0].to_owned() + &kept.map(|(block, _)| *block).collect::<String>();
        let credential: Vec<_> = before.iter().filter(|grant| !named(grant)).cloned().collect();
        // The file may be written in a way that has no such blocks.
        if blocks.len() != before.len() + 1 || parse(&after).as_ref() != Ok(&credential) {
            return Err(
                "its entries do not all begin with [[credential]] on a line: edit it by hand".to_owned()
            );
        }
        Ok(after)
    })?;
    Ok(count)
}

/// What is before the first entry, then the entries, comments before them with the one before.
fn blocks(text: &str) -> Vec<&str> {
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("[[credential]]") {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &text[start..end]).collect()
}

fn entry(grant: &Grant) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut out =
        format!("[[credential]]\nname = {}\nrole = \"{}\"\n", quoted(&grant.name), grant.role.as_str());
    // Writing to a string does not fail.
    if !grant.jobs.are_all() {
        let jobs: Vec<_> = grant.jobs.patterns().iter().map(|pattern| quoted(pattern)).collect();
        let _ = writeln!(out, "jobs = [{}]", jobs.join(", "));
    }
    if let Some(expires) = grant.expires {
        let _ = writeln!(out, "expires = \"{expires}\"");
    }
    let _ = match &grant.proof {
        Proof::Secret { id, digest } => writeln!(out, "id = \"{id}\"\nsha256 = \"{digest}\""),
        Proof::Certificate(subject) => writeln!(out, "certificate = {}", quoted(&subject.to_string())),
    };
    out
}

fn fresh() -> Result<Secret, String> {
    Ok(Secret::from_bytes(random::<ID_BYTES>()?, random::<SECRET_BYTES>()?))
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let filled = default_provider().secure_random.fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| "the system gives no random bytes: try again".to_owned())
}

/// Replaces the file by what `edit` makes of its text, which must be a file as well.
fn change(path: &Path, edit: impl FnOnce(&str) -> Result<String, String>) -> Result<(), String> {
    let unusable = |why: String| format!("credentials {}: {why}", path.display());
    let cannot = |error: io::Error| unusable(format!("it cannot be written: {error}"));
    let path = real(path).map_err(cannot)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot)?;
    // Held until the end: whoever else changes the file waits.
    let lock = File::open(dir).map_err(cannot)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| cannot(error.into()))?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unusable(format!("it cannot be read: {error}"))),
    };
    parse(&text).map_err(unusable)?;
    let after = edit(&text).map_err(unusable)?;
    parse(&after).map_err(unusable)?;
    replace(&path, &after, &lock).map_err(cannot)
}

/// Behind a link the file itself is replaced, not the link.
fn real(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        found => found,
    }
}

fn replace(path: &Path, text: &str, dir: &File) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = write(&new, text, path).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // The content that could not be written is of no use; the error is what is reported.
        let _ = fs::remove_file(&new);
    }
    written.and_then(|()| dir.sync_all())
}

fn write(new: &Path, text: &str, old: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    if let Ok(before) = fs::metadata(old) {
        // A coordinator that runs as another user must still be able to read it.
        use std::os::unix::fs::MetadataExt as _;
        if (before.uid(), before.gid()) != (file.metadata()?.uid(), file.metadata()?.gid()) {
            std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(before.mode() & 0o644))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rosterd_api::layers::methods::Role;

    fn credential(name: &str, role: Role) -> NewCredential {
        let (name, role) = (name.to_owned(), role.as_str().to_owned());
        NewCredential { name, role, jobs: Vec::new(), certificate: None, expires: None }
    }

    #[test]
    fn what_is_added_is_listed_and_can_be_revoked_and_comments_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/credentials.toml");
        let first = add(&path, credential("a", Role::Admin)).unwrap().unwrap();
        let text = fs::read_to_string(&path).unwrap() + "\n# mine\n";
        // The alphabet of a secret has an underscore, too.
        let secret = first.splitn(3, '_').nth(2).unwrap();
        assert!(secret.len() > 40 && !text.contains(secret), "{text}");
        fs::write(&path, text).unwrap();
        let jobs = vec!["b-*".to_owned()];
        let second = add(&path, NewCredential { jobs, ..credential("b", Role::Worker) }).unwrap().unwrap();
        let certificate = Some("cn:c".to_owned());
        let none = add(
            &path,
            NewCredential { certificate, expires: Some(Time(0)), ..credential("c", Role::Viewer) },
        )
        .unwrap();
        assert!(none.is_none() && first != second);
        let rows = |path: &Path| {
            list(path)
                .unwrap()
                .into_iter()
                .map(|row| format!("{} {} {}", row.name, row.role, row.jobs))
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(&path), ["a admin *", "b worker b-*", "c viewer *"]);
        assert_eq!(revoke(&path, Secret::parse(&second).unwrap().id()).unwrap(), 1);
        assert!(fs::read_to_string(&path).unwrap().contains("# mine"));
        assert_eq!(rows(&path), ["a admin *", "c viewer *"]);
        assert!(revoke(&path, "b").unwrap_err().contains("no credential \"b\""));
        revoke(&path, "a").unwrap();
        revoke(&path, "c").unwrap();
        assert!(rows(&path).is_empty());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_file_in_another_form_is_not_guessed_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        let text = "credential = [{name='a', role='viewer', certificate='cn:a'}]\n";
        fs::write(&path, text).unwrap();
        assert!(revoke(&path, "a").unwrap_err().contains("by hand"));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::write(&path, "nonsense").unwrap();
        assert!(add(&path, credential("a", Role::Viewer)).unwrap_err().contains("near line 1"));
    }

    #[test]
    fn concurrent_additions_wait_for_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || add(path, credential(&format!("n{number}"), Role::Viewer)).unwrap());
            }
        });
        assert_eq!(list(&path).unwrap().len(), 8);
    }
}
