//! A connection to the database, which makes progress only while a question is pending. It has no task of its own: the
//! question and the connection's I/O are polled together, so an idle connection does nothing, and an abandoned one is
//! closed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use super::tls::{MakeTls, Trust};

/// How long connecting may take, including the startup messages.
const CONNECT: Duration = Duration::from_secs(5);

/// Where the database is, and how to connect to it.
#[derive(Clone)]
pub struct Address {
    config: Config,
    tls: Option<MakeTls>,
    schema: String,
    shown: String,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Why an address is invalid.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The URL is invalid.
    #[error("{0}")]
    Url(String),
    /// The CA certificates for the server's certificate are invalid.
    #[error("{0}")]
    Certificates(String),
}

impl Address {
    /// From a URL (`postgres://user@host:port/database`), the password of its user, and the namespace whose history this is:
    /// each has a schema of its own.
    pub fn new(
        url: &str,
        password: Option<&[u8]>,
        trust: &Trust,
        namespace: &str,
    ) -> Result<Self, AddressError> {
        // The parser's errors show their input, which may be a secret that was put in the wrong place.
        let mut config: Config = url.parse().map_err(|_| {
            AddressError::Url("it cannot be read: write postgres://user@host:port/database".to_owned())
        })?;
        if config.get_hosts().is_empty() || config.get_dbname().is_none() {
            return Err(AddressError::Url(
                "it names no host or no database: write postgres://user@host/database".into(),
            ));
        }
        if let Some(password) = password {
            config.password(password);
        }
        let tls = MakeTls::new(trust).map_err(AddressError::Certificates)?;
        config
            .ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable })
            .application_name("rosterd")
            .connect_timeout(CONNECT)
            .tcp_user_timeout(Duration::from_secs(15))
            .keepalives_idle(Duration::from_secs(15));
        let shown = shown(&config);
        Ok(Self { config, tls, schema: schema(namespace), shown })
    }

    /// For people: hosts and database only.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }
}

fn shown(config: &Config) -> String {
    use tokio_postgres::config::Host;
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(n, host)| {
        let port = ports.get(n).or(ports.first()).unwrap_or(&5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(path) => path.display().to_string(),
        }
    });
    let hosts: Vec<_> = hosts.collect();
    format!("postgres://{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

/// The schema of a namespace. PostgreSQL truncates names after 63 bytes, so two could become the same.
fn schema(namespace: &str) -> String {
    let name = format!("rosterd_{namespace}");
    if name.len() <= 63 {
        return name;
    }
    let mut end = 46;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}_{:016x}", &name[..end], fnv(namespace.as_bytes()))
}

/// A stable hash of the bytes: FNV-1a.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A quoted SQL identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Why a question failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Trouble {
    /// The server refused it.
    #[error("{text}")]
    Refused { state: SqlState, text: String },
    /// The connection could not be opened, or is lost.
    #[error("{0}")]
    Broken(String),
    /// There was no answer in time.
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

impl Trouble {
    /// The fault is in the rows, not in the server: it would refuse them again.
    pub(super) fn is_the_rows_fault(&self) -> bool {
        matches!(self, Self::Refused { state, .. } if ["22", "23"].contains(&state.code().get(..2).unwrap_or("")))
    }

    pub(super) fn is(&self, wanted: &SqlState) -> bool {
        matches!(self, Self::Refused { state, .. } if state == wanted)
    }

    fn broke(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            // The last message of a server that shuts down, or of a connection that it closes: another connection may
            // work.
            Some(last) if ends_the_connection(last.code()) => {
                Self::Broken(format!("{} (SQLSTATE {})", last.message(), last.code().code()))
            }
            // Without its detail, which shows the values of rows.
            Some(refused) => Self::Refused {
                state: refused.code().clone(),
                text: format!("{} (SQLSTATE {})", refused.message(), refused.code().code()),
            },
            None => Self::Broken(chain(&error)),
        }
    }
}

fn ends_the_connection(state: &SqlState) -> bool {
    let code = state.code();
    code.starts_with("57P")
        || code.starts_with("08")
        || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

type Moving = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

/// A connection.
pub(super) struct Link {
    client: Arc<Client>,
    moving: Moving,
    /// Whether the connection can be used again after its last question.
    good: bool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("good", &self.good).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects, and sets what applies to all questions: the schema, and the statement timeout.
    pub(super) async fn open(address: &Address, statement: Duration) -> Result<Self, Trouble> {
        let connect = async {
            match &address.tls {
                Some(tls) => {
                    let (client, connection) = address.config.connect(tls.clone()).await?;
                    Ok((client, Box::pin(connection) as Moving))
                }
                None => {
                    let (client, connection) = address.config.connect(NoTls).await?;
                    Ok((client, Box::pin(connection) as Moving))
                }
            }
        };
        let connected: Result<_, Trouble> =
            timeout(CONNECT, connect).await.map_err(|_| Trouble::Silent(CONNECT))?;
        let (client, moving) = connected?;
        let mut link = Self { client: Arc::new(client), moving, good: true };
        let set = format!(
            "SET search_path TO {}; SET statement_timeout TO {ms}; SET lock_timeout TO {ms}; \
             SET idle_in_transaction_session_timeout TO {ms}; SET TimeZone TO 'UTC'",
            quoted(&address.schema),
            ms = statement.as_millis()
        );
        let client = link.client();
        link.ask(CONNECT, async move { Ok(client.batch_execute(&set).await?) }).await?;
        Ok(link)
    }

    /// The client to send questions with; the answers arrive only within [`Link::ask`].
    pub(super) fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// Waits for an answer while driving the connection; afterwards the connection can be used again only if the
    /// question succeeded or the server refused it.
    pub(super) async fn ask<T>(
        &mut self,
        most: Duration,
        question: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        self.good = false;
        let moving = &mut self.moving;
        let answer = async {
            tokio::select! {
                biased;
                answer = question => answer,
                gone = moving => Err(ended(gone)),
            }
        };
        let answer = timeout(most, answer).await.unwrap_or(Err(Trouble::Silent(most)));
        self.good = !matches!(&answer, Err(trouble) if trouble.broke());
        answer
    }

    /// The same for a question that needs exclusive use of the client.
    pub(super) async fn alone<T>(
        &mut self,
        most: Duration,
        question: impl AsyncFnOnce(&mut Client) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.good = false;
        let Some(client) = Arc::get_mut(&mut self.client) else {
            return Err(Trouble::Broken("the connection is asked something else".to_owned()));
        };
        let moving = &mut self.moving;
        let answer = async {
            tokio::select! {
                biased;
                answer = question(client) => answer,
                gone = moving => Err(ended(gone)),
            }
        };
        let answer = timeout(most, answer).await.unwrap_or(Err(Trouble::Silent(most)));
        self.good = !matches!(&answer, Err(trouble) if trouble.broke());
        answer
    }

    pub(super) fn is_good(&self) -> bool {
        self.good && !self.client.is_closed()
    }
}

fn ended(gone: Result<(), tokio_postgres::Error>) -> Trouble {
    match gone {
        Ok(()) => Trouble::Broken("the connection was closed".to_owned()),
        Err(error) => error.into(),
    }
}
