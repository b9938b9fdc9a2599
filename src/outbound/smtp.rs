//! One mail to one server (RFC 5321), with TLS from the beginning, by STARTTLS, or without; PLAIN or LOGIN where there is a login.
//! What is not said in plain text is never said before TLS: a server that does not offer STARTTLS gets nothing.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::dial::{Link, OutboundError, plain, secured};
use super::trust::{Trust, TrustError, connector};

/// Longest reply, all its lines together.
const REPLY: usize = 16 << 10;

/// How long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until there is a connection.
    pub connect: Duration,
    /// From then until the mail is taken.
    pub exchange: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), exchange: Duration::from_secs(30) }
    }
}

/// A mail server, and who we are to it.
#[derive(Clone)]
pub struct Server {
    #[allow(missing_docs)]
    pub host: String,
    #[allow(missing_docs)]
    pub port: u16,
    /// How the connection is secured.
    pub secured: Secured,
    /// User and password.
    pub login: Option<(String, String)>,
}

/// How a connection is secured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secured {
    /// TLS from the first byte.
    Tls,
    /// STARTTLS, or nothing is sent.
    StartTls,
    /// Not at all.
    Not,
}

/// Who a mail is from and who it is to: bare addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    #[allow(missing_docs)]
    pub from: String,
    #[allow(missing_docs)]
    pub to: Vec<String>,
}

/// Sends mails. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    tls: TlsConnector,
    limits: Limits,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Client {
    /// One that believes these authorities.
    pub fn new(trust: Trust<'_>, limits: Limits) -> Result<Self, TrustError> {
        Ok(Self { tls: connector(trust, None)?, limits })
    }

    /// Sends a message, headers and all, with CRLF at the end of each line. Answered once the server has taken it for everybody it
    /// is to; if it refuses one of them, nobody gets it.
    pub async fn send(&self, to: &Server, envelope: &Envelope, message: &str) -> Result<(), OutboundError> {
        let server = || format!("{}:{}", to.host, to.port);
        let late = |after| OutboundError::Late { server: server(), after };
        let connected = timeout(self.limits.connect, plain(&to.host, to.port)).await;
        let stream = connected.map_err(|_| late(self.limits.connect))??;
        let talk = async {
            let link = match to.secured {
                Secured::Tls => secured(stream, &self.tls, &to.host, to.port).await?,
                Secured::StartTls | Secured::Not => Link::Plain(stream),
            };
            let mut talk = Talk { link, server: server(), unread: Vec::new() };
            talk.reply(220).await?;
            let mut offers = talk.greet().await?;
            if to.secured == Secured::StartTls {
                talk = talk.secure(&offers, &self.tls, to).await?;
                offers = talk.greet().await?;
            }
            if let Some((user, password)) = &to.login {
                talk.log_in(&offers, user, password).await?;
            }
            talk.hand_over(envelope, message).await
        };
        timeout(self.limits.exchange, talk).await.map_err(|_| late(self.limits.exchange))?
    }
}

/// A conversation.
struct Talk {
    link: Link,
    server: String,
    /// What came behind the last reply.
    unread: Vec<u8>,
}

impl Talk {
    fn failed(&self, why: impl Into<String>) -> OutboundError {
        OutboundError::Exchange { server: self.server.clone(), why: why.into() }
    }

    /// Says a line; `None`: what it says is a secret, and shows up nowhere.
    async fn say(&mut self, line: &str, wanted: u16) -> Result<String, OutboundError> {
        if line.contains(['\r', '\n']) {
            return Err(self.failed("a line to be sent holds a line end"));
        }
        let written = self.link.write_all(format!("{line}\r\n").as_bytes()).await;
        written.map_err(|error| self.failed(error.to_string()))?;
        self.link.flush().await.map_err(|error| self.failed(error.to_string()))?;
        self.reply(wanted).await
    }

    /// The lines of a reply of this code.
    async fn reply(&mut self, wanted: u16) -> Result<String, OutboundError> {
        let mut lines = Vec::new();
        let mut taken = 0;
        loop {
            let line = self.line().await?;
            taken += line.len();
            if taken > REPLY {
                return Err(OutboundError::TooLong { server: self.server.clone(), most: REPLY });
            }
            let (code, rest) = line.split_at_checked(3).ok_or_else(|| self.failed("it speaks no SMTP"))?;
            let code: u16 = code.parse().map_err(|_| self.failed("it speaks no SMTP"))?;
            lines.push(rest.get(1..).unwrap_or_default().to_owned());
            if rest.starts_with('-') {
                continue;
            }
            let text = lines.join("\n");
            // 251 and the like are 250 with more to say.
            if code / 10 == wanted / 10 {
                return Ok(text);
            }
            let said: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
            return Err(self.failed(format!("it said {code} {said}")));
        }
    }

    async fn line(&mut self) -> Result<String, OutboundError> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.unread[looked..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=looked + end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            looked = self.unread.len();
            if looked > REPLY {
                return Err(OutboundError::TooLong { server: self.server.clone(), most: REPLY });
            }
            let mut buffer = [0; 1024];
            match self.link.read(&mut buffer).await {
                Ok(0) => return Err(self.failed("it closed the connection")),
                Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
                Err(error) => return Err(self.failed(error.to_string())),
            }
        }
    }

    /// Says who we are; what the server offers, in capitals, a line each.
    async fn greet(&mut self) -> Result<Vec<String>, OutboundError> {
        // An address literal that is always true: our own name is nobody's business.
        let said = self.say("EHLO [127.0.0.1]", 250).await?;
        Ok(said.lines().map(str::to_ascii_uppercase).collect())
    }

    async fn secure(
        mut self,
        offers: &[String],
        tls: &TlsConnector,
        to: &Server,
    ) -> Result<Self, OutboundError> {
        if !offers.iter().any(|offer| offer == "STARTTLS") {
            return Err(self.failed("it offers no STARTTLS"));
        }
        self.say("STARTTLS", 220).await?;
        // Said before it was secured, meant to be taken for what comes after.
        if !self.unread.is_empty() {
            return Err(self.failed("it said more before TLS began"));
        }
        let Link::Plain(stream) = self.link else {
            return Err(OutboundError::Address("its connection is secured already"));
        };
        let link = secured(stream, tls, &to.host, to.port).await?;
        Ok(Self { link, server: self.server, unread: Vec::new() })
    }

    async fn log_in(&mut self, offers: &[String], user: &str, password: &str) -> Result<(), OutboundError> {
        let ways = offers.iter().find_map(|offer| offer.strip_prefix("AUTH ")).unwrap_or_default();
        let offered = |way| ways.split(' ').any(|offer| offer == way);
        if offered("PLAIN") {
            let both = STANDARD.encode(format!("\0{user}\0{password}"));
            self.say(&format!("AUTH PLAIN {both}"), 235).await?;
        } else if offered("LOGIN") {
            self.say("AUTH LOGIN", 334).await?;
            self.say(&STANDARD.encode(user), 334).await?;
            self.say(&STANDARD.encode(password), 235).await?;
        } else {
            return Err(self.failed("it offers neither AUTH PLAIN nor AUTH LOGIN"));
        }
        Ok(())
    }

    async fn hand_over(&mut self, envelope: &Envelope, message: &str) -> Result<(), OutboundError> {
        self.say(&format!("MAIL FROM:<{}>", envelope.from), 250).await?;
        for to in &envelope.to {
            self.say(&format!("RCPT TO:<{to}>"), 250).await?;
        }
        self.say("DATA", 354).await?;
        let mut data = String::with_capacity(message.len() + 16);
        for line in message.lines() {
            let dot = if line.starts_with('.') { "." } else { "" };
            let _ = write!(data, "{dot}{line}\r\n");
        }
        let written = self.link.write_all(data.as_bytes()).await;
        written.map_err(|error| self.failed(error.to_string()))?;
        self.say(".", 250).await?;
        // It is taken; how the connection ends says nothing of that.
        let _farewell = self.say("QUIT", 221).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
