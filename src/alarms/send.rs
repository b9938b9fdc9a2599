//! Sends a letter to a receiver, once. Reads the secrets again each time, so that a file that was replaced takes effect at
//! once.

use std::path::Path;

use bytes::Bytes;
use http::Request;
use rosterd_domain::time::Time;
use rosterd_outbound::http::{Client, Limits};
use rosterd_outbound::smtp::{self, Envelope, Secured};
use rosterd_outbound::{Trust, TrustError};

use super::forms::{Ready, email};
use super::letter::Letter;
use super::settings::{Form, Mail, Receiver, Security, Text};

/// Longest file with a secret.
const LONGEST: u64 = 64 << 10;
/// Most bytes of an answer: nobody says more.
const ANSWER: usize = 64 << 10;

/// Sends letters. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sender {
    http: Client,
    smtp: smtp::Client,
}

impl Sender {
    /// One that believes the authorities of this PEM, or those of the machine.
    pub fn new(ca: Option<&[u8]>) -> Result<Self, TrustError> {
        let trust = ca.map_or(Trust::System, Trust::Pem);
        let limits = Limits { max_body: ANSWER, ..Limits::default() };
        Ok(Self {
            http: Client::new(trust, limits)?,
            smtp: smtp::Client::new(trust, smtp::Limits::default())?,
        })
    }

    /// One that believes nobody: it sends to whoever speaks no TLS.
    pub fn trusting_nobody() -> Result<Self, TrustError> {
        let limits = Limits { max_body: ANSWER, ..Limits::default() };
        let smtp = smtp::Client::new(Trust::Nobody, smtp::Limits::default())?;
        Ok(Self { http: Client::new(Trust::Nobody, limits)?, smtp })
    }

    /// Sends it. The text of an error is for people and holds no secret. `id`: unique.
    pub async fn send(
        &self,
        receiver: &Receiver,
        letter: &Letter,
        id: &str,
        now: Time,
    ) -> Result<(), String> {
        let ready = match &receiver.form {
            Form::Email(mail) => return self.mail(mail, letter, id, now).await,
            Form::Webhook { url, secret, bearer } => Ready::Webhook {
                url: read(url).await?,
                secret: read_some(secret.as_ref()).await?,
                bearer: read_some(bearer.as_ref()).await?,
            },
            Form::Slack { url } => Ready::Slack { url: read(url).await? },
            Form::DingTalk { url, secret, keyword } => Ready::DingTalk {
                url: read(url).await?,
                secret: read_some(secret.as_ref()).await?,
                keyword: keyword.clone(),
            },
            Form::WeCom { url } => Ready::WeCom { url: read(url).await? },
            Form::PagerDuty { routing_key, url } => {
                Ready::PagerDuty { url: read(url).await?, routing_key: read(routing_key).await? }
            }
        };
        let request: Request<Bytes> = ready.request(letter, now)?;
        let answer = self.http.send(request).await.map_err(|error| error.to_string())?;
        ready.check_answer(answer.status(), answer.body())
    }

    async fn mail(&self, mail: &Mail, letter: &Letter, id: &str, now: Time) -> Result<(), String> {
        let login = match &mail.login {
            Some((user, password)) => Some((user.clone(), read(password).await?)),
            None => None,
        };
        let address = |text: &String| {
            let bare = email::address(text).map(str::to_owned);
            bare.ok_or_else(|| format!("{text:?} is not an address: write name@example.org"))
        };
        let to: Result<Vec<String>, String> =
            mail.to.iter().chain(&mail.cc).chain(&mail.bcc).map(address).collect();
        let envelope = Envelope { from: address(&mail.from)?, to: to? };
        let secured = match mail.security {
            Security::Tls => Secured::Tls,
            Security::StartTls => Secured::StartTls,
            Security::Plain => Secured::Not,
        };
        let server = smtp::Server { host: mail.host.clone(), port: mail.port, secured, login };
        let message = email::message(mail, letter, id, now);
        self.smtp.send(&server, &envelope, &message).await.map_err(|error| error.to_string())
    }
}

async fn read_some(text: Option<&Text>) -> Result<Option<String>, String> {
    match text {
        Some(text) => read(text).await.map(Some),
        None => Ok(None),
    }
}

async fn read(text: &Text) -> Result<String, String> {
    match text {
        Text::Plain(text) | Text::Secret(text) => Ok(text.clone()),
        Text::File(path) => file(path).await,
    }
}

async fn file(path: &Path) -> Result<String, String> {
    let unreadable = |why: String| format!("{} cannot be read: {why}", path.display());
    let there = tokio::fs::metadata(path).await.map_err(|error| unreadable(error.to_string()))?;
    if !there.is_file() || there.len() > LONGEST {
        return Err(unreadable(format!("it is not a file of at most {LONGEST} bytes")));
    }
    let text = tokio::fs::read_to_string(path).await.map_err(|error| unreadable(error.to_string()))?;
    let text = text.trim();
    if text.is_empty() { Err(unreadable("it is empty".to_owned())) } else { Ok(text.to_owned()) }
}
