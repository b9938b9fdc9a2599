//! Opens sessions, and says why one cannot be opened.

use std::time::Duration;

use rosterd_domain::id::Revision;
use rosterd_domain::time::Mono;
use zookeeper_client::{Acls, AddWatchMode, Client, Connector, Error, SaslOptions, TlsOptions};

use super::error::ConnectError;
use super::options::{Credentials, Servers, ZooKeeperOptions};
use super::wants::session;
use super::{identity, multi, probe, root_paths};
use crate::paths::Paths;

/// Opens sessions as the options say; cheap to clone.
#[derive(Clone)]
pub(super) struct Opener {
    connector: Connector,
    secure: bool,
    servers: Servers,
    limit: Duration,
}

/// A session that has proved itself by a write.
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) opener: Opener,
    pub(super) acls: Acls<'static>,
    /// When its first write was sent.
    pub(super) proof: Mono,
    /// That write's number: everything before it was committed before this session.
    pub(super) revision: Revision,
    pub(super) chroot_bytes: usize,
}

impl Opener {
    pub(super) fn new(options: &ZooKeeperOptions) -> Result<Self, ConnectError> {
        let servers = Servers::read(&options.servers)?;
        let mut connector =
            Client::connector().with_session_timeout(options.session_timeout).with_fail_eagerly();
        match &options.credentials {
            Some(Credentials::Digest { user, password }) => {
                connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
            }
            Some(Credentials::Sasl { user, password }) => {
                connector = connector.with_sasl(SaslOptions::digest_md5(user.clone(), password.clone()));
            }
            None => {}
        }
        if let Some(tls) = &options.tls {
            connector = connector.with_tls(tls_options(tls)?);
        }
        let limit = options.connect_timeout;
        Ok(Self { connector, secure: options.tls.is_some(), servers, limit })
    }

    /// One attempt over all servers.
    pub(super) async fn open(&self) -> Result<Client, Error> {
        Ok(self.below_root(self.open_at_root().await?))
    }

    /// The same session, below the root that the options name.
    pub(super) fn below_root(&self, client: Client) -> Client {
        match &self.servers.chroot {
            // Checked when the options were read.
            Some(chroot) => client.chroot(chroot.clone()).unwrap_or_else(|client| client),
            None => client,
        }
    }

    async fn open_at_root(&self) -> Result<Client, Error> {
        let connector = self.connector.clone();
        let opened = async {
            match self.secure {
                true => connector.secure_connect(&self.servers.list).await,
                false => connector.connect(&self.servers.list).await,
            }
        };
        tokio::time::timeout(self.limit, opened).await.unwrap_or(Err(Error::Timeout))
    }
}

fn tls_options(tls: &super::options::Tls) -> Result<TlsOptions, ConnectError> {
    let refuse = |error: Error| ConnectError::Tls(error.to_string());
    let options = TlsOptions::new().with_pem_ca(&tls.ca).map_err(refuse)?;
    match &tls.identity {
        Some((certificate, key)) => options.with_pem_identity(certificate, key).map_err(refuse),
        None => Ok(options),
    }
}

/// Opens a session, creates the root and the folders of the namespace, and proves that it may write there.
pub(super) async fn connect(options: &ZooKeeperOptions, paths: &Paths) -> Result<Opened, ConnectError> {
    let opener = Opener::new(options)?;
    let client = first(&opener, options).await?;
    let acls = if options.is_authenticated() { Acls::creator_all() } else { Acls::anyone_all() };
    let words = Words { servers: &opener.servers.list, options };
    let limit = options.connect_timeout;
    let client = match &opener.servers.chroot {
        Some(chroot) => {
            let options = multi::options(false, acls);
            words.within(limit, root_paths::make(&client, chroot, &options), chroot).await?;
            client.chroot(chroot.clone()).unwrap_or_else(|client| client)
        }
        None => client,
    };
    let common = paths.common();
    let laid =
        async { root_paths::ensure_root_paths(&client, paths, acls).await.map_err(|(_, error)| error) };
    words.within(limit, laid, common.as_str()).await?;
    for root in paths.roots() {
        words.within(limit, client.list_children(root.as_str()), root.as_str()).await?;
    }
    match words.within(limit, client.watch(common.as_str(), AddWatchMode::Persistent), common.as_str()).await
    {
        Ok(watcher) => drop(watcher),
        Err(ConnectError::Refused { problem, .. }) if problem == Error::Unimplemented.to_string() => {
            return Err(ConnectError::TooOld { servers: opener.servers.list.clone() });
        }
        Err(error) => return Err(error),
    }
    let proof = options.clock.mono();
    let (owner, revision) =
        words.within(limit, identity::owner(&client, paths, acls), common.as_str()).await?;
    if owner != session(client.session_id().0) {
        return Err(words.told(identity::strange(owner), common.as_str()));
    }
    let chroot_bytes = opener.servers.chroot.as_ref().map_or(0, String::len);
    Ok(Opened { client, opener, acls, proof, revision, chroot_bytes })
}

/// The first session, with as many retries as the options say.
pub(super) async fn first(opener: &Opener, options: &ZooKeeperOptions) -> Result<Client, ConnectError> {
    let began = options.clock.mono();
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match opener.open_at_root().await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let words = Words { servers: &opener.servers.list, options };
        if error == Error::AuthFailed {
            return Err(words.refused(error, ""));
        }
        if opener.secure && matches!(error, Error::Custom(_) | Error::BadArguments(_)) {
            return Err(ConnectError::Tls(error.to_string()));
        }
        if tries > options.backoff.retries {
            let reasons = probe::reasons(&opener.servers, opener.secure).await;
            let reasons = if reasons.is_empty() { error.to_string() } else { reasons };
            let waited = options.clock.mono().since(began);
            return Err(ConnectError::Unreachable { servers: words.servers.into(), tries, waited, reasons });
        }
        tokio::time::sleep(options.backoff.pause(tries)).await;
    }
}

/// Errors in words.
struct Words<'a> {
    servers: &'a str,
    options: &'a ZooKeeperOptions,
}

impl Words<'_> {
    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, Error>>,
        path: &str,
    ) -> Result<T, ConnectError> {
        match tokio::time::timeout(limit, work).await {
            Ok(done) => done.map_err(|error| self.refused(error, path)),
            Err(_) => Err(self.told(format!("no answer within {} ms", limit.as_millis()), path)),
        }
    }

    fn refused(&self, error: Error, path: &str) -> ConnectError {
        let user = match &self.options.credentials {
            Some(Credentials::Digest { user, .. } | Credentials::Sasl { user, .. }) => user.clone(),
            None if self.options.is_authenticated() => "this certificate".to_owned(),
            None => "a client without credentials".to_owned(),
        };
        match error {
            Error::AuthFailed => ConnectError::Credentials { servers: self.servers.into(), user },
            Error::NoAuth => ConnectError::NotAllowed { user, path: path.into() },
            error => self.told(error.to_string(), path),
        }
    }

    fn told(&self, problem: String, path: &str) -> ConnectError {
        ConnectError::Refused { servers: self.servers.into(), what: path.into(), problem }
    }
}
