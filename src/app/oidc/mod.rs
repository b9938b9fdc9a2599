//! Logins by OpenID Connect: authorization code with PKCE, by discovery. Joins the edge, which has the browser, to the provider,
//! which has the person. What the provider publishes is read when it is first needed and kept for an hour; a provider that is
//! down keeps nobody out who shows a credential.

mod claims;
mod token;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use form_urlencoded::Serializer;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, StatusCode, header};
use jsonwebtoken::jwk::JwkSet;
use rosterd_api::access::provider::{Identity, PendingLogin, Provider};
use rosterd_domain::time::Mono;
use rosterd_outbound::Trust;
use rosterd_outbound::http::{Client, Limits};
use rosterd_runtime::clock::SharedClock;
use rosterd_session::code::{Code, Refusal};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, Semaphore};

use crate::config;

/// How long what the provider publishes is taken for true.
const KEPT: Duration = Duration::from_secs(3600);
/// Keys are read again for one that is not known, but not more often.
const AGAIN: Duration = Duration::from_secs(30);
/// So many conversations with the provider at a time; others wait, as long as their requests may.
const AT_A_TIME: usize = 8;
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// What a provider publishes of itself.
#[derive(Debug, Clone, Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

struct ProviderKeys {
    discovery: Discovery,
    keys: JwkSet,
    read: Mono,
}

/// What is known of it, and why nothing was when it was last asked.
#[derive(Default)]
struct ProviderState {
    known: Option<Arc<ProviderKeys>>,
    failed: Option<(Mono, Refusal)>,
}

/// The keys that it publishes.
#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

/// What the token endpoint answers.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: String,
}

/// The provider that the configuration names.
pub(super) struct Oidc {
    config: config::Oidc,
    secret: Option<String>,
    client: Client,
    clock: SharedClock,
    state: Mutex<ProviderState>,
    turns: Semaphore,
}

impl Oidc {
    /// Asks the provider nothing yet.
    pub(super) fn new(config: config::Oidc, clock: SharedClock) -> Result<Self, String> {
        let secret = config.client_secret_file.as_deref().map(secret).transpose()?;
        let ca = config.ca.as_deref().map(std::fs::read).transpose();
        let ca = ca.map_err(|error| format!("oidc_ca: it cannot be read: {error}: name a PEM file"))?;
        let trust = match &ca {
            Some(pem) => Trust::Pem(pem),
            None if config.issuer.starts_with("http://") => Trust::Nobody,
            None => Trust::System,
        };
        let limits = Limits { exchange: Duration::from_secs(8), ..Limits::default() };
        let client = Client::new(trust, limits).map_err(|error| format!("oidc_ca: {error}"))?;
        let (state, turns) = (Mutex::default(), Semaphore::new(AT_A_TIME));
        Ok(Self { config, secret, client, clock, state, turns })
    }

    /// What the provider publishes; read anew after an hour, or when it has a key that was not there. One login reads it for all
    /// that `began` to wait meanwhile.
    async fn known(&self, again: bool, began: Mono) -> Result<Arc<ProviderKeys>, Refusal> {
        let mut state = self.state.lock().await;
        let now = self.clock.mono();
        if let Some(known) = state.known.as_ref() {
            let age = now.since(known.read);
            if age < AGAIN || (age < KEPT && !again) {
                return Ok(known.clone());
            }
        }
        if let Some((_, refusal)) = state.failed.as_ref().filter(|(at, _)| *at >= began) {
            return Err(refusal.clone());
        }
        let read = self.read(now).await;
        match &read {
            Ok(known) => state.known = Some(known.clone()),
            Err(refusal) => state.failed = Some((self.clock.mono(), refusal.clone())),
        }
        read
    }

    async fn read(&self, now: Mono) -> Result<Arc<ProviderKeys>, Refusal> {
        let address = format!("{}{DISCOVERY}", self.config.issuer);
        let discovery: Discovery = self.get(&address, None).await?;
        if discovery.issuer.trim_end_matches('/') != self.config.issuer {
            let what = format!(
                "{address} says that its issuer is {:?}: set oidc_issuer to what it says",
                discovery.issuer
            );
            return Err(unavailable(&what));
        }
        let keys: Published = self.get(&discovery.jwks_uri, None).await?;
        // One of a kind that nobody here knows keeps the others from nothing.
        let keys = keys.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
        Ok(Arc::new(ProviderKeys { discovery, keys: JwkSet { keys }, read: now }))
    }

    async fn get<T: DeserializeOwned>(&self, address: &str, bearer: Option<&str>) -> Result<T, Refusal> {
        let mut request = Request::get(address).header(header::ACCEPT, "application/json");
        if let Some(bearer) = bearer {
            request = request.header(header::AUTHORIZATION, format!("Bearer {bearer}"));
        }
        self.ask(request.body(Bytes::new())).await
    }

    async fn ask<T: DeserializeOwned>(&self, request: http::Result<Request<Bytes>>) -> Result<T, Refusal> {
        let request = request.map_err(|_| unavailable("it publishes an address that is none"))?;
        // Nothing that the provider publishes leads around TLS.
        let (secure, path) = (request.uri().scheme_str() == Some("https"), request.uri().path().to_owned());
        if !secure && self.config.issuer.starts_with("https://") {
            return Err(unavailable("it publishes an address that is not https"));
        }
        let answer = self.client.send(request).await.map_err(|error| unavailable(&error.to_string()))?;
        if answer.status() != StatusCode::OK {
            // The body of a refusal has a code and no secret of ours; the rest of it is the provider's own text.
            let refusal = serde_json::from_slice::<Value>(answer.body()).unwrap_or_default();
            let code: String = refusal["error"]
                .as_str()
                .unwrap_or_default()
                .chars()
                .filter(char::is_ascii_graphic)
                .take(64)
                .collect();
            if code == "invalid_grant" {
                let what = "the identity provider does not accept the code of this login, or no longer does";
                return Err(Refusal::new(Code::Unauthenticated, what));
            }
            return Err(unavailable(&format!("{path} is answered with {} {code}", answer.status().as_u16())));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| unavailable(&format!("{path} is not what OpenID Connect has there: {error}")))
    }

    fn authorization(&self, discovery: &Discovery, pending: &PendingLogin) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&pending.verifier));
        let query = Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.config.client_id)
            .append_pair("redirect_uri", &pending.redirect)
            .append_pair("scope", &self.config.scopes)
            .append_pair("state", &pending.state)
            .append_pair("nonce", &pending.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .finish();
        let joint = if discovery.authorization_endpoint.contains('?') { '&' } else { '?' };
        format!("{}{joint}{query}", discovery.authorization_endpoint)
    }

    /// Asks for tokens: by the code, and by what only who began the login can show.
    fn exchange(
        &self,
        discovery: &Discovery,
        pending: &PendingLogin,
        code: &str,
    ) -> http::Result<Request<Bytes>> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &pending.redirect)
            .append_pair("code_verifier", &pending.verifier)
            .append_pair("client_id", &self.config.client_id);
        let mut request = Request::post(&discovery.token_endpoint)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json");
        let ways = &discovery.token_endpoint_auth_methods_supported;
        let posted = !ways.is_empty() && !ways.iter().any(|way| way == "client_secret_basic");
        match &self.secret {
            Some(secret) if posted => {
                form.append_pair("client_secret", secret);
            }
            Some(secret) => {
                let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = STANDARD.encode(format!("{}:{}", part(&self.config.client_id), part(secret)));
                request = request.header(header::AUTHORIZATION, format!("Basic {pair}"));
            }
            None => {}
        }
        request.body(form.finish().into())
    }

    async fn identify(&self, pending: &PendingLogin, code: &str, began: Mono) -> Result<Identity, Refusal> {
        let known = self.known(false, began).await?;
        let tokens: Tokens = self.ask(self.exchange(&known.discovery, pending, code)).await?;
        let expected = token::Expected {
            issuer: &known.discovery.issuer,
            client: &self.config.client_id,
            nonce: &pending.nonce,
            now: self.clock.wall(),
        };
        let mut claims = match token::verify(&tokens.id_token, &known.keys, &expected) {
            Err(token::Wrong::Key(_)) => {
                let known = self.known(true, began).await?;
                token::verify(&tokens.id_token, &known.keys, &expected).map_err(|wrong| wrong.refusal())?
            }
            verified => verified.map_err(|wrong| wrong.refusal())?,
        };
        if !claims::are_all_there(&self.config, &claims)
            && let Some(endpoint) = &known.discovery.userinfo_endpoint
        {
            let more: Value = self.get(endpoint, Some(&tokens.access_token)).await?;
            if more["sub"] != claims["sub"] {
                return Err(unavailable("what it says of the person (userinfo) is of another one"));
            }
            claims::add(&mut claims, more);
        }
        claims::identity(&self.config, &claims)
    }
}

impl Provider for Oidc {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn begin<'a>(&'a self, pending: &'a PendingLogin) -> BoxFuture<'a, Result<String, Refusal>> {
        async move {
            let began = self.clock.mono();
            let _turn = self.turns.acquire().await;
            let known = self.known(false, began).await?;
            Ok(self.authorization(&known.discovery, pending))
        }
        .boxed()
    }

    fn finish<'a>(
        &'a self,
        pending: &'a PendingLogin,
        code: &'a str,
    ) -> BoxFuture<'a, Result<Identity, Refusal>> {
        async move {
            let began = self.clock.mono();
            let _turn = self.turns.acquire().await;
            self.identify(pending, code, began).await
        }
        .boxed()
    }
}

fn unavailable(why: &str) -> Refusal {
    let what =
        format!("the identity provider cannot be used: {why}: try again later, or log in with a credential");
    tracing::warn!("{what}");
    Refusal::new(Code::ProviderUnavailable, what)
}

/// The first line of the file.
fn secret(path: &std::path::Path) -> Result<String, String> {
    let unusable = |why: String| {
        format!(
            "oidc_client_secret_file {}: {why}: write the client's secret into it, on one line",
            path.display()
        )
    };
    let text =
        std::fs::read_to_string(path).map_err(|error| unusable(format!("it cannot be read: {error}")))?;
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    if line.is_empty() { Err(unusable("it is empty".to_owned())) } else { Ok(line) }
}
