//! Authorization: the grants in force, and the principal that a request's proof stands for.
//!
//! A grant is a name, a role and a proof: a secret, kept as its digest, or the subject of a client certificate. Grants
//! are replaced as a whole while the edge serves. An unchanged one stays in place; one that was removed or changed is
//! revoked, which the holder of its [`Principal`] learns at once. Reads no file and no header: the composition root
//! provides the grants, `layers::auth` the proofs.

pub(crate) mod attempts;
pub mod guarded;
pub mod provider;
pub mod secret;
pub mod session;
pub mod subject;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rosterd_domain::time::Time;
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use self::jobs::JobScope;
use self::limits::Limits;
use self::machines::Machines;
use self::secret::{Digest, Secret};
use self::subject::{PeerNames, Subject};
use super::layers::methods::Role;
use rosterd_session::code::{Code, Refusal};
pub use rosterd_session::{jobs, limits, machines};

/// The caller, in the extensions of a request.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The grant's name.
    pub name: Arc<str>,
    /// The jobs that it is for.
    pub role: Role,
    /// The machines on which its workers may be.
    pub jobs: JobScope,
    /// The limits of its workers.
    pub machines: Machines,
    /// How much its workers may bring.
    pub limits: Limits,
    /// Cancelled when the grant is revoked, changed or expired.
    pub revoked: CancellationToken,
}

/// The refusal for the holder of a grant that no longer exists.
pub fn revoked() -> Refusal {
    let what = "the credential was revoked, has changed or is over: get a new one from who runs this coordinator \
                (rosterd credentials add)";
    Refusal::new(Code::CredentialRevoked, what)
}

/// Proves that a request comes from the holder of the grant.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// A secret: its public part, and the digest of the whole.
    Secret {
        /// The public part, by which it is found.
        id: String,
        /// The digest that it is compared with.
        digest: Digest,
    },
    /// A client certificate for this subject, signed by the client CA.
    Certificate(Subject),
}

/// Without the digest, which does not belong in logs either.
impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret { id, .. } => write!(f, "secret {id}"),
            Self::Certificate(subject) => write!(f, "certificate {subject}"),
        }
    }
}

/// One entry of the credential file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its name in logs and in the audit.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The jobs that it is for.
    pub jobs: JobScope,
    /// The machines on which its workers may be.
    pub machines: Machines,
    /// The limits of its workers.
    pub limits: Limits,
    /// Its proof.
    pub proof: Proof,
    /// When it expires.
    pub expires: Option<Time>,
}

impl Grant {
    /// A grant for all jobs that does not expire.
    pub fn new(name: &str, role: Role, proof: Proof) -> Self {
        let (jobs, machines, limits) = (JobScope::all(), Machines::any(), Limits::default());
        Self { name: name.to_owned(), role, jobs, machines, limits, proof, expires: None }
    }

    /// The same with a secret as the proof.
    pub fn by_secret(name: &str, role: Role, secret: &Secret) -> Self {
        Self::new(name, role, Proof::Secret { id: secret.id().to_owned(), digest: secret.digest() })
    }
}

#[derive(Debug)]
struct KnownGrant {
    grant: Grant,
    principal: Principal,
}

impl KnownGrant {
    fn new(grant: Grant) -> Self {
        let principal = Principal {
            name: grant.name.as_str().into(),
            role: grant.role,
            jobs: grant.jobs.clone(),
            machines: grant.machines.clone(),
            limits: grant.limits,
            revoked: CancellationToken::new(),
        };
        Self { grant, principal }
    }

    fn over(&self, now: Time) -> bool {
        self.grant.expires.is_some_and(|expires| expires <= now)
    }
}

/// The grants by their proofs. Names are not unique: while a secret is rotated, two of one name overlap.
#[derive(Debug, Default)]
struct Book {
    secrets: BTreeMap<String, Arc<KnownGrant>>,
    subjects: BTreeMap<Subject, Arc<KnownGrant>>,
}

impl Book {
    fn entries(&self) -> impl Iterator<Item = &Arc<KnownGrant>> {
        self.secrets.values().chain(self.subjects.values())
    }

    fn find(&self, proof: &Proof) -> Option<&Arc<KnownGrant>> {
        match proof {
            Proof::Secret { id, .. } => self.secrets.get(id),
            Proof::Certificate(subject) => self.subjects.get(subject),
        }
    }
}

/// The grants in force; without any book every caller may do everything.
#[derive(Debug, Default)]
pub struct Credentials {
    book: RwLock<Option<Book>>,
}

impl Credentials {
    /// Every caller may do everything: for a listener that only its own machine can reach.
    pub fn open() -> Arc<Self> {
        Arc::default()
    }

    /// These grants, and no others.
    pub fn new(grants: Vec<Grant>) -> Arc<Self> {
        let credentials = Self::default();
        credentials.replace(grants);
        Arc::new(credentials)
    }

    /// Whether callers need no credential.
    pub fn is_open(&self) -> bool {
        self.book.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Replaces the grants. Revokes those that are no longer among them; returns their names.
    pub fn replace(&self, grants: Vec<Grant>) -> Vec<String> {
        let mut book = self.book.write().unwrap_or_else(PoisonError::into_inner);
        let before = book.take().unwrap_or_default();
        let mut after = Book::default();
        for grant in grants {
            let kept = before.find(&grant.proof).filter(|entry| entry.grant == grant).cloned();
            let entry = kept.unwrap_or_else(|| Arc::new(KnownGrant::new(grant)));
            match &entry.grant.proof {
                Proof::Secret { id, .. } => drop(after.secrets.insert(id.clone(), entry)),
                Proof::Certificate(subject) => drop(after.subjects.insert(subject.clone(), entry)),
            }
        }
        let kept = |entry: &Arc<KnownGrant>| {
            after.find(&entry.grant.proof).is_some_and(|other| Arc::ptr_eq(other, entry))
        };
        let gone: Vec<_> = before.entries().filter(|entry| !kept(entry)).cloned().collect();
        *book = Some(after);
        drop(book);
        gone.iter().for_each(|entry| entry.principal.revoked.cancel());
        gone.iter().map(|entry| entry.grant.name.clone()).collect()
    }

    /// Revokes expired grants. Looking a caller up does not depend on this call.
    pub fn expire(&self, now: Time) {
        let book = self.book.read().unwrap_or_else(PoisonError::into_inner);
        let over = book.iter().flat_map(Book::entries).filter(|entry| entry.over(now));
        over.for_each(|entry| entry.principal.revoked.cancel());
    }

    /// The owner of a secret. One look-up by its public part, one digest, one comparison in constant time: the cost of
    /// a wrong secret does not depend on what is stored.
    pub fn by_secret(&self, text: &str, now: Time) -> Option<Principal> {
        let secret = Secret::parse(text)?;
        let given = secret.digest();
        let book = self.book.read().unwrap_or_else(PoisonError::into_inner);
        let entry = book.as_ref().and_then(|book| book.secrets.get(secret.id()));
        let stored = match entry.map(|entry| &entry.grant.proof) {
            Some(Proof::Secret { digest, .. }) => *digest,
            _ => Digest::default(),
        };
        let same = bool::from(stored.0.ct_eq(&given.0));
        entry.filter(|entry| same && !entry.over(now)).map(|entry| entry.principal.clone())
    }

    /// The owner of the secret with this public part, for callers that have presented the whole of it before.
    pub(crate) fn by_id(&self, id: &str, now: Time) -> Option<Principal> {
        let book = self.book.read().unwrap_or_else(PoisonError::into_inner);
        let entry = book.as_ref().and_then(|book| book.secrets.get(id));
        entry.filter(|entry| !entry.over(now)).map(|entry| entry.principal.clone())
    }

    /// The owner of a verified certificate: tries its URIs first, then its host names, then its common name.
    pub fn by_certificate(&self, names: &PeerNames, now: Time) -> Option<Principal> {
        let book = self.book.read().unwrap_or_else(PoisonError::into_inner);
        let book = book.as_ref()?;
        let entry = names.subjects().find_map(|subject| book.subjects.get(&subject))?;
        (!entry.over(now)).then(|| entry.principal.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(number: u8) -> Secret {
        Secret::from_bytes([number; secret::ID_BYTES], [number; secret::SECRET_BYTES])
    }

    #[test]
    fn only_the_whole_secret_is_known() {
        let (mine, other) = (secret(1), secret(2));
        let credentials = Credentials::new(vec![Grant::by_secret("a", Role::Viewer, &mine)]);
        let who = |text: &str| credentials.by_secret(text, Time(0)).map(|who| who.name.to_string());
        assert_eq!(who(mine.text()).as_deref(), Some("a"));
        let mixed = format!("rosterd_{}_{}", mine.id(), &other.text()[other.text().len() - 43..]);
        for wrong in ["", "a", other.text(), &mixed, &mine.text()[1..], &mine.text().to_uppercase()] {
            assert_eq!(who(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn revoked_and_changed_credentials_are_reported_and_unchanged_ones_are_not() {
        let grants =
            [1, 2, 3].map(|number| Grant::by_secret(&format!("g{number}"), Role::Worker, &secret(number)));
        let credentials = Credentials::new(grants.to_vec());
        let [stays, goes, changes] =
            [1, 2, 3].map(|number| credentials.by_secret(secret(number).text(), Time(0)).unwrap());
        let narrower = Grant { jobs: JobScope::parse(["a"]).unwrap(), ..grants[2].clone() };
        assert_eq!(credentials.replace(vec![grants[0].clone(), narrower]), ["g2", "g3"]);
        assert!(!stays.revoked.is_cancelled());
        assert!(goes.revoked.is_cancelled() && changes.revoked.is_cancelled());
        assert!(credentials.by_secret(secret(2).text(), Time(0)).is_none());
        let changed = credentials.by_secret(secret(3).text(), Time(0)).unwrap();
        assert!(!changed.revoked.is_cancelled());
    }

    #[test]
    fn a_grant_ends_when_its_time_is_over() {
        let grant = Grant { expires: Some(Time(5)), ..Grant::by_secret("a", Role::Viewer, &secret(1)) };
        let credentials = Credentials::new(vec![grant]);
        let held = credentials.by_secret(secret(1).text(), Time(4)).unwrap();
        credentials.expire(Time(4));
        assert!(!held.revoked.is_cancelled());
        assert!(credentials.by_secret(secret(1).text(), Time(5)).is_none());
        credentials.expire(Time(5));
        assert!(held.revoked.is_cancelled());
    }

    #[test]
    fn a_certificate_stands_for_the_subject_that_is_granted() {
        let by = |subject: &str| Proof::Certificate(subject.parse().unwrap());
        let credentials = Credentials::new(vec![
            Grant::new("cn", Role::Viewer, by("cn:ops")),
            Grant::new("dns", Role::Worker, by("dns:w.example")),
        ]);
        let names = |common: &str, dns: &[&str]| PeerNames {
            common: Some(common.to_owned()),
            dns: dns.iter().map(|&name| name.to_owned()).collect(),
            uris: Vec::new(),
        };
        let who = |names| credentials.by_certificate(&names, Time(0)).map(|who| who.name.to_string());
        assert_eq!(who(names("ops", &["x.example"])).as_deref(), Some("cn"));
        assert_eq!(who(names("ops", &["W.example"])).as_deref(), Some("dns"), "host names take precedence");
        assert_eq!(who(names("w.example", &["ops"])), None, "a name of another kind does not match");
    }

    #[test]
    fn nothing_of_a_secret_is_shown() {
        let credentials = Credentials::new(vec![Grant::by_secret("a", Role::Viewer, &secret(7))]);
        let shown = format!("{credentials:?} {:?}", secret(7));
        assert!(!shown.contains(&secret(7).text()[25..]), "{shown}");
        assert!(!shown.contains(&secret(7).digest().to_string()), "{shown}");
    }
}
