//! Who may do what: the grants that hold now, and whom a request's proof stands for.
//!
//! A grant is a name, a role and a proof: a secret, kept as its digest, or the subject of a client certificate.
//! Grants are replaced as a whole while the edge serves. One that is unchanged stays as it is; one that has gone
//! or changed is revoked, which whoever holds its [`Principal`] is told at once. Reads no file and no header: the
//! composition root brings the grants, `layers::auth` the proofs.

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

use self::jobs::Jobs;
use self::limits::Limits;
use self::machines::Machines;
use self::secret::{Digest, Secret};
use self::subject::{PeerNames, Subject};
use super::layers::methods::Role;
use rosterd_session::code::{Code, Refusal};
pub use rosterd_session::{jobs, limits, machines};

/// Who asks, in the extensions of a request.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The grant's name.
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
    /// To which jobs.
    pub jobs: Jobs,
    /// On which machines its workers may be.
    pub machines: Machines,
    /// How much its workers may bring.
    pub limits: Limits,
    /// Cancelled when the grant is revoked, changed or over.
    pub revoked: CancellationToken,
}

/// What is told to who holds a grant that is no more.
pub fn revoked() -> Refusal {
    let what = "the credential was revoked, has changed or is over: get a new one from who runs this coordinator \
                (rosterd credentials add)";
    Refusal::new(Code::CredentialRevoked, what)
}

/// What shows that a request comes from who holds the grant.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// A secret: its public part, and the digest of the whole.
    Secret {
        /// By which it is found.
        id: String,
        /// With which it is compared.
        digest: Digest,
    },
    /// A client certificate that names this subject, and that the client CA has signed.
    Certificate(Subject),
}

/// Never the digest: what guards a secret is not for logs either.
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
    /// As logs and the audit name it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// To which jobs.
    pub jobs: Jobs,
    /// On which machines its workers may be.
    pub machines: Machines,
    /// How much its workers may bring.
    pub limits: Limits,
    /// Its proof.
    pub proof: Proof,
    /// From when on it counts no more.
    pub expires: Option<Time>,
}

impl Grant {
    /// A grant for all jobs and for good.
    pub fn new(name: &str, role: Role, proof: Proof) -> Self {
        let (jobs, machines, limits) = (Jobs::all(), Machines::any(), Limits::default());
        Self { name: name.to_owned(), role, jobs, machines, limits, proof, expires: None }
    }

    /// The same by a secret.
    pub fn by_secret(name: &str, role: Role, secret: &Secret) -> Self {
        Self::new(name, role, Proof::Secret { id: secret.id().to_owned(), digest: secret.digest() })
    }
}

#[derive(Debug)]
struct Entry {
    grant: Grant,
    principal: Principal,
}

impl Entry {
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

/// The grants by what finds them. Names are not unique: two secrets of one name overlap while one is rotated.
#[derive(Debug, Default)]
struct Book {
    secrets: BTreeMap<String, Arc<Entry>>,
    subjects: BTreeMap<Subject, Arc<Entry>>,
}

impl Book {
    fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.secrets.values().chain(self.subjects.values())
    }

    fn find(&self, proof: &Proof) -> Option<&Arc<Entry>> {
        match proof {
            Proof::Secret { id, .. } => self.secrets.get(id),
            Proof::Certificate(subject) => self.subjects.get(subject),
        }
    }
}

/// The grants that hold; without any book everybody may do everything.
#[derive(Debug, Default)]
pub struct Credentials {
    book: RwLock<Option<Book>>,
}

impl Credentials {
    /// Everybody may do everything: for a listener that only its own machine reaches.
    pub fn open() -> Arc<Self> {
        Arc::default()
    }

    /// These, and nobody else.
    pub fn new(grants: Vec<Grant>) -> Arc<Self> {
        let credentials = Self::default();
        credentials.replace(grants);
        Arc::new(credentials)
    }

    /// Whether nobody is asked who they are.
    pub fn is_open(&self) -> bool {
        self.book.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// From now on these. Who held one that is not among them is told; the names of those that are no more.
    pub fn replace(&self, grants: Vec<Grant>) -> Vec<String> {
        let mut book = self.book.write().unwrap_or_else(PoisonError::into_inner);
        let before = book.take().unwrap_or_default();
        let mut after = Book::default();
        for grant in grants {
            let kept = before.find(&grant.proof).filter(|entry| entry.grant == grant).cloned();
            let entry = kept.unwrap_or_else(|| Arc::new(Entry::new(grant)));
            match &entry.grant.proof {
                Proof::Secret { id, .. } => drop(after.secrets.insert(id.clone(), entry)),
                Proof::Certificate(subject) => drop(after.subjects.insert(subject.clone(), entry)),
            }
        }
        let kept = |entry: &Arc<Entry>| {
            after.find(&entry.grant.proof).is_some_and(|other| Arc::ptr_eq(other, entry))
        };
        let gone: Vec<_> = before.entries().filter(|entry| !kept(entry)).cloned().collect();
        *book = Some(after);
        drop(book);
        gone.iter().for_each(|entry| entry.principal.revoked.cancel());
        gone.iter().map(|entry| entry.grant.name.clone()).collect()
    }

    /// Tells those whose time is over. Asking who somebody is needs no such call.
    pub fn expire(&self, now: Time) {
        let book = self.book.read().unwrap_or_else(PoisonError::into_inner);
        let over = book.iter().flat_map(Book::entries).filter(|entry| entry.over(now));
        over.for_each(|entry| entry.principal.revoked.cancel());
    }

    /// Whose secret it is. One look-up by its public part, one digest, one comparison in constant time: what a
    /// wrong secret costs does not depend on what is stored.
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

    /// Whose secret has this public part. For who has shown the whole of it before.
    pub(crate) fn by_id(&self, id: &str, now: Time) -> Option<Principal> {
        let book = self.book.read().unwrap_or_else(PoisonError::into_inner);
        let entry = book.as_ref().and_then(|book| book.secrets.get(id));
        entry.filter(|entry| !entry.over(now)).map(|entry| entry.principal.clone())
    }

    /// Whom a verified certificate names: its URIs first, then its host names, then its common name.
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
    fn what_is_revoked_or_changed_is_told_and_what_stays_is_not() {
        let grants =
            [1, 2, 3].map(|number| Grant::by_secret(&format!("g{number}"), Role::Worker, &secret(number)));
        let credentials = Credentials::new(grants.to_vec());
        let [stays, goes, changes] =
            [1, 2, 3].map(|number| credentials.by_secret(secret(number).text(), Time(0)).unwrap());
        let narrower = Grant { jobs: Jobs::parse(["a"]).unwrap(), ..grants[2].clone() };
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
        assert_eq!(who(names("ops", &["W.example"])).as_deref(), Some("dns"), "host names go before");
        assert_eq!(who(names("w.example", &["ops"])), None, "a name of another kind is another name");
    }

    #[test]
    fn nothing_of_a_secret_is_shown() {
        let credentials = Credentials::new(vec![Grant::by_secret("a", Role::Viewer, &secret(7))]);
        let shown = format!("{credentials:?} {:?}", secret(7));
        assert!(!shown.contains(&secret(7).text()[25..]), "{shown}");
        assert!(!shown.contains(&secret(7).digest().to_string()), "{shown}");
    }
}
