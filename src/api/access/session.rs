//! Sessions of people in a browser: a cookie that says who logged in and until when, sealed with the coordinator's key.
//! No state is kept for a session, so their number costs nothing, and it survives a restart and works on another
//! coordinator with the same key. The rights of a credential are looked up for every request: a session ends with its
//! credential, whatever its cookie says. Created by `rest::session`, read by `layers::auth`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};
use rosterd_domain::time::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::jobs::JobScope;
use super::limits::Limits;
use super::machines::Machines;
use super::provider::PendingLogin;
use super::{Credentials, Principal};
use crate::layers::methods::Role;
use rosterd_session::code::{Code, Refusal};

/// The cookie.
pub const COOKIE: &str = "rosterd_session";
/// The header that must accompany the cookie in requests that change something.
pub const CSRF: &str = "x-csrf-token";
/// Longer cookies are ignored.
const LONGEST: usize = 3800;
/// How many sessions that were ended early are remembered.
const ENDED: usize = 4096;
/// The cookie of a login in progress at a provider.
const PENDING: &str = "rosterd_login";
/// How long it may take there.
const PENDING_AGE: Duration = Duration::from_secs(600);

/// Records who logged in, and who tried.
pub trait Audit: Send + Sync + 'static {
    /// Adds one row. Nothing waits for it.
    fn note(&self, at: Time, text: String, principal: Option<&str>);
}

/// How sessions are made.
pub struct Options {
    /// Seals cookies; whoever has it can forge them.
    pub key: [u8; 32],
    /// How long a session lasts.
    pub age: Duration,
    /// The path of the cookies: the base path, or empty.
    pub path: String,
    /// Whether browsers send them over TLS only.
    pub secure: bool,
    /// Records who logged in, and who tried.
    pub audit: Box<dyn Audit>,
    /// The address to which a provider redirects browsers; `None`: the address that they used.
    pub callback: Option<String>,
}

/// Creates and verifies sessions.
pub struct Sessions {
    key: hmac::Key,
    options: Options,
    random: SystemRandom,
    ended: Mutex<BTreeMap<(Time, String), ()>>,
}

/// Without the key.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("age", &self.options.age).finish_non_exhaustive()
    }
}

/// Who logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holder {
    /// The owner of this secret, by its public part.
    Secret(String),
    /// A person that an identity provider named, with rights.
    Provided {
        /// For logs and the audit.
        name: String,
        /// What it may do.
        role: Role,
        /// The jobs that it is for.
        jobs: Vec<String>,
    },
}

/// A session, in the extensions of requests that carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Identifies it.
    pub id: String,
    /// The person.
    pub by: Holder,
    /// When it ends.
    pub until: Time,
}

impl Sessions {
    /// With this key.
    pub fn new(options: Options) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &options.key);
        Self { key, options, random: SystemRandom::new(), ended: Mutex::default() }
    }

    /// Records who logged in, or tried to.
    pub(crate) fn note(&self, at: Time, text: String, principal: Option<&str>) {
        self.options.audit.note(at, text, principal);
    }

    /// Starts a session.
    pub fn begin(&self, by: Holder, now: Time) -> Result<Session, Refusal> {
        Ok(Session { id: self.random_text::<16>()?, by, until: after(now, self.options.age) })
    }

    fn random_text<const N: usize>(&self) -> Result<String, Refusal> {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).map_err(|_| {
            Refusal::new(Code::StoreUnavailable, "the system gives no random bytes: try again")
        })?;
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Starts a login at a provider.
    pub(crate) fn begin_login(
        &self,
        now: Time,
        redirect: String,
        to: String,
    ) -> Result<PendingLogin, Refusal> {
        let (state, nonce, verifier) =
            (self.random_text::<16>()?, self.random_text::<16>()?, self.random_text::<32>()?);
        Ok(PendingLogin { state, nonce, verifier, redirect, to, until: after(now, PENDING_AGE) })
    }

    /// The header that stores it in the browser. Unlike a session's cookie it is also sent when the provider's page
    /// redirects the browser back (Lax).
    pub(crate) fn pending_cookie(&self, pending: &PendingLogin, now: Time, forwarded: bool) -> HeaderValue {
        let seconds = pending.until.since(now).as_secs();
        self.set_cookie(PENDING, &self.seal("pending login", pending), "Lax", seconds, forwarded)
    }

    /// The header that removes it from the browser.
    pub(crate) fn no_pending_cookie(&self, forwarded: bool) -> HeaderValue {
        self.set_cookie(PENDING, "", "Lax", 0, forwarded)
    }

    /// The login that a browser began, if it has this state and has not expired.
    pub(crate) fn find_pending(&self, headers: &HeaderMap, state: &str, now: Time) -> Option<PendingLogin> {
        let pending: PendingLogin =
            cookies(headers, PENDING).find_map(|value| self.unseal("pending login", value))?;
        let same = constant_time::verify_slices_are_equal(pending.state.as_bytes(), state.as_bytes()).is_ok();
        (same && pending.until > now).then_some(pending)
    }

    /// The coordinator's base path.
    pub(crate) fn base(&self) -> &str {
        &self.options.path
    }

    /// Whether this listener uses TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.options.secure
    }

    /// The configured address to which a provider redirects browsers.
    pub(crate) fn callback(&self) -> Option<&str> {
        self.options.callback.as_deref()
    }

    /// The header that stores a session in a browser. `forwarded`: a proxy says that the browser uses TLS.
    pub fn cookie(&self, session: &Session, now: Time, forwarded: bool) -> HeaderValue {
        let seconds = session.until.since(now).as_secs();
        self.set_cookie(COOKIE, &self.seal("session", session), "Strict", seconds, forwarded)
    }

    /// The header that removes it.
    pub fn no_cookie(&self, forwarded: bool) -> HeaderValue {
        self.set_cookie(COOKIE, "", "Strict", 0, forwarded)
    }

    fn set_cookie(&self, name: &str, value: &str, site: &str, seconds: u64, forwarded: bool) -> HeaderValue {
        let secure = if self.options.secure || forwarded { "; Secure" } else { "" };
        let path = &self.options.path;
        let text =
            format!("{name}={value}; Path={path}/; HttpOnly; SameSite={site}; Max-Age={seconds}{secure}");
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }

    /// The session that a request carries if it is valid, and its principal.
    pub fn find(
        &self,
        headers: &HeaderMap,
        credentials: &Credentials,
        now: Time,
    ) -> Option<(Session, Principal)> {
        let session = cookies(headers, COOKIE).find_map(|value| self.open(value, now))?;
        let principal = match &session.by {
            Holder::Secret(id) => credentials.by_id(id, now)?,
            Holder::Provided { name, role, jobs } => Principal {
                name: name.as_str().into(),
                role: *role,
                jobs: JobScope::parse(jobs.iter().cloned()).ok()?,
                machines: Machines::any(),
                limits: Limits::default(),
                revoked: CancellationToken::new(),
            },
        };
        Some((session, principal))
    }

    fn seal<T: Serialize>(&self, purpose: &str, what: &T) -> String {
        // Plain structures of texts and numbers, so this does not fail.
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(what).unwrap_or_default());
        let seal = URL_SAFE_NO_PAD.encode(self.sign(purpose, &payload));
        format!("{payload}.{seal}")
    }

    fn unseal<T: DeserializeOwned>(&self, purpose: &str, value: &str) -> Option<T> {
        let (payload, seal) = value.split_once('.').filter(|_| value.len() <= LONGEST)?;
        let seal = URL_SAFE_NO_PAD.decode(seal).ok()?;
        constant_time::verify_slices_are_equal(&self.sign(purpose, payload), &seal).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }

    fn open(&self, value: &str, now: Time) -> Option<Session> {
        let session: Session = self.unseal("session", value)?;
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = session.until > now && !ended.contains_key(&(session.until, session.id.clone()));
        holds.then_some(session)
    }

    /// Ends a session early. Only on this coordinator, and as long as the process lives: the browser's cookie is
    /// removed as well, and a copy of it expires in time.
    pub fn end(&self, session: &Session, now: Time) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|(until, _), ()| *until > now);
        if ended.len() >= ENDED {
            // The one that would have expired first.
            ended.pop_first();
        }
        ended.insert((session.until, session.id.clone()), ());
    }

    /// The token that our pages send with changes, and no other page knows.
    pub fn csrf(&self, session: &Session) -> String {
        URL_SAFE_NO_PAD.encode(self.sign("csrf", &session.id))
    }

    /// Whether a request that changes something came from one of our pages.
    pub fn check_csrf(&self, session: &Session, headers: &HeaderMap) -> Result<(), Refusal> {
        let given = headers.get(CSRF).map_or(&[][..], |value| value.as_bytes());
        constant_time::verify_slices_are_equal(self.csrf(session).as_bytes(), given).map_err(|_| {
            let what = format!(
                "{CSRF}: the token of the session did not come with the request: send csrfToken of GET /api/session in that \
                 header, or a credential instead of the cookie"
            );
            Refusal::new(Code::OriginRefused, what)
        })
    }

    fn sign(&self, purpose: &str, text: &str) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.key);
        [purpose, "\0", text].iter().for_each(|part| context.update(part.as_bytes()));
        context.sign().as_ref().to_vec()
    }
}

fn after(now: Time, time: Duration) -> Time {
    Time(now.0.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)))
}

/// The values of a cookie: a browser may have several, for other paths. Only a few are examined.
fn cookies<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(known, _)| *known == name).map(|(_, value)| value).take(4)
}

#[cfg(test)]
mod tests {
    use super::super::secret::{ID_BYTES, SECRET_BYTES, Secret};
    use super::super::{Grant, Proof};
    use super::*;

    struct Nowhere;

    impl Audit for Nowhere {
        fn note(&self, _: Time, _: String, _: Option<&str>) {}
    }

    fn sessions(key: u8) -> Sessions {
        let (age, audit) = (Duration::from_secs(60), Box::new(Nowhere));
        Sessions::new(Options {
            key: [key; 32],
            age,
            path: "/x".into(),
            secure: false,
            audit,
            callback: None,
        })
    }

    fn secret(number: u8) -> Secret {
        Secret::from_bytes([number; ID_BYTES], [number; SECRET_BYTES])
    }

    fn sent_back(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        HeaderMap::from_iter([(header::COOKIE, format!("a=b; {pair}").parse().unwrap())])
    }

    #[test]
    fn a_session_is_known_wherever_its_key_is_and_nowhere_else() {
        let credentials = Credentials::new(vec![Grant::by_secret("ops", Role::Operator, &secret(1))]);
        let here = sessions(1);
        let session = here.begin(Holder::Secret(secret(1).id().to_owned()), Time(0)).unwrap();
        let cookie = here.cookie(&session, Time(0), false);
        let text = cookie.to_str().unwrap();
        assert!(text.ends_with("; Path=/x/; HttpOnly; SameSite=Strict; Max-Age=60"), "{text}");
        assert!(here.cookie(&session, Time(0), true).to_str().unwrap().ends_with("; Secure"));
        let headers = sent_back(&cookie);
        let name = |sessions: &Sessions, headers: &HeaderMap, at| {
            sessions.find(headers, &credentials, Time(at)).map(|(_, who)| who.name.to_string())
        };
        assert_eq!(name(&here, &headers, 59_999).as_deref(), Some("ops"));
        assert_eq!(name(&sessions(1), &headers, 0).as_deref(), Some("ops"), "after a restart");
        assert_eq!(name(&sessions(2), &headers, 0), None);
        assert_eq!(name(&here, &headers, 60_000), None, "it has expired");
        let whole = headers[header::COOKIE].to_str().unwrap().to_owned();
        for at in (whole.find('=').unwrap() + 5..whole.len()).step_by(7) {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_bytes(&bytes).unwrap())]);
            assert_eq!(name(&here, &changed, 0), None, "byte {at}");
        }
    }

    #[test]
    fn a_session_ends_with_its_credential_and_when_it_is_ended() {
        let grants = || vec![Grant::by_secret("ops", Role::Operator, &secret(1))];
        let (credentials, here) = (Credentials::new(grants()), sessions(1));
        let session = here.begin(Holder::Secret(secret(1).id().to_owned()), Time(0)).unwrap();
        let other = here.begin(Holder::Secret(secret(1).id().to_owned()), Time(0)).unwrap();
        let [first, second] =
            [&session, &other].map(|session| sent_back(&here.cookie(session, Time(0), false)));
        let holds = |headers: &HeaderMap| here.find(headers, &credentials, Time(1)).is_some();
        here.end(&session, Time(1));
        assert!(!holds(&first) && holds(&second));
        let narrower = Grant { role: Role::Viewer, ..grants().remove(0) };
        credentials.replace(vec![narrower]);
        let (_, who) = here.find(&second, &credentials, Time(1)).unwrap();
        assert_eq!(who.role, Role::Viewer, "it has the current rights of its credential");
        credentials.replace(Vec::new());
        assert!(!holds(&second));
    }

    #[test]
    fn what_a_provider_reports_is_in_the_session() {
        let here = sessions(1);
        let by = Holder::Provided { name: "ann".into(), role: Role::Viewer, jobs: vec!["a-*".into()] };
        let session = here.begin(by, Time(0)).unwrap();
        let credentials = Credentials::new(Vec::new());
        let headers = sent_back(&here.cookie(&session, Time(0), false));
        let (_, who) = here.find(&headers, &credentials, Time(1)).unwrap();
        assert_eq!((&*who.name, who.role, who.jobs.to_string()), ("ann", Role::Viewer, "a-*".to_owned()));
    }

    #[test]
    fn a_login_under_way_is_of_its_state_its_browser_and_its_time() {
        let here = sessions(1);
        let pending = here.begin_login(Time(0), "http://a/b".into(), "/x/".into()).unwrap();
        let cookie = here.pending_cookie(&pending, Time(0), false);
        assert!(
            cookie.to_str().unwrap().ends_with("; Path=/x/; HttpOnly; SameSite=Lax; Max-Age=600"),
            "{cookie:?}"
        );
        let headers = sent_back(&cookie);
        assert_eq!(here.find_pending(&headers, &pending.state, Time(599_999)).as_ref(), Some(&pending));
        assert_eq!(here.find_pending(&headers, &pending.state, Time(600_000)), None);
        assert_eq!(here.find_pending(&headers, "", Time(0)), None);
        assert_eq!(here.find_pending(&HeaderMap::new(), &pending.state, Time(0)), None);
        assert_eq!(sessions(2).find_pending(&headers, &pending.state, Time(0)), None);
        // A value that was sealed for one purpose is invalid for another.
        let value = here.seal("pending login", &here.begin(Holder::Secret(String::new()), Time(0)).unwrap());
        assert!(here.open(&value, Time(0)).is_none());
    }

    #[test]
    fn a_change_takes_the_token_of_its_own_session() {
        let here = sessions(1);
        let [one, other] = [1, 2].map(|_| here.begin(Holder::Secret(String::new()), Time(0)).unwrap());
        let with = |token: String| HeaderMap::from_iter([(CSRF.parse().unwrap(), token.parse().unwrap())]);
        assert!(here.check_csrf(&one, &with(here.csrf(&one))).is_ok());
        for headers in [HeaderMap::new(), with(here.csrf(&other)), with(String::new())] {
            assert_eq!(here.check_csrf(&one, &headers).unwrap_err().code, Code::OriginRefused);
        }
    }

    #[test]
    fn no_more_ended_sessions_are_remembered_than_there_is_room_for() {
        let here = sessions(1);
        for _ in 0..ENDED + 10 {
            let session = here.begin(Holder::Secret(String::new()), Time(0)).unwrap();
            here.end(&session, Time(0));
        }
        assert_eq!(here.ended.lock().unwrap().len(), ENDED);
        let later = here.begin(Holder::Secret(String::new()), Time(60_000)).unwrap();
        here.end(&later, Time(60_000));
        assert_eq!(here.ended.lock().unwrap().len(), 1, "expired sessions are dropped");
        assert!(!format!("{here:?}").contains("key"), "{here:?}");
    }

    #[test]
    fn a_certificate_or_an_unknown_id_is_not_a_secret() {
        let by = Proof::Certificate("cn:a".parse().unwrap());
        let credentials = Credentials::new(vec![Grant::new("a", Role::Admin, by)]);
        assert!(credentials.by_id("", Time(0)).is_none() && credentials.by_id("a", Time(0)).is_none());
    }
}
