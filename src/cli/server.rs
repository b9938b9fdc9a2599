//! Which coordinator is asked, and how: the first of the named ones that answers.

use std::future::Future;
use std::time::Duration;

use clap::Args;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use super::failure::{Exit, Failure, Result};
use crate::config::value;
use crate::proto::v1::admin_service_client::AdminServiceClient;

/// How long one address may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Largest answer taken: a dump of a large job.
const MAX_ANSWER: usize = 1 << 30;

/// Where a coordinator is. The credential comes from ROSTERD_CREDENTIAL, never from the command line, which other
/// users of the machine can read.
#[derive(Debug, Clone, Args)]
pub(crate) struct Server {
    /// Coordinators to ask, in this order: a URL or host:port
    #[arg(
        long,
        value_name = "URL",
        env = "ROSTERD_SERVER",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7700"
    )]
    pub(crate) server: Vec<String>,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = value::duration)]
    pub(crate) timeout: Duration,
}

/// The generated client, with the credential.
pub(crate) type Client = AdminServiceClient<InterceptedService<Channel, Bearer>>;

/// The admin service of a coordinator that answers.
pub(crate) struct Admin {
    client: Client,
    timeout: Duration,
}

/// Puts the credential into each request.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    /// The credential of the environment.
    #[allow(clippy::disallowed_methods, reason = "secrets never come from the command line")]
    pub(crate) fn from_env() -> Result<Self> {
        let Some(secret) = std::env::var("ROSTERD_CREDENTIAL").ok().filter(|secret| !secret.is_empty())
        else {
            return Ok(Self(None));
        };
        let value = MetadataValue::try_from(format!("Bearer {secret}"));
        let mut value =
            value.map_err(|_| Failure::usage("ROSTERD_CREDENTIAL holds a character it may not"))?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

impl Server {
    /// Connects to the first that answers.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        let mut tried = Vec::new();
        for server in &self.server {
            match endpoint(server)?.connect().await {
                Ok(channel) => return Ok(channel),
                Err(error) => tried.push(format!("{server} ({})", causes(&error))),
            }
        }
        let tried = tried.join(", ");
        Err(Failure::unavailable(format!(
            "no coordinator answers at {tried}; name one with --server or ROSTERD_SERVER"
        )))
    }

    pub(crate) async fn admin(&self) -> Result<Admin> {
        let client = AdminServiceClient::with_interceptor(self.channel().await?, Bearer::from_env()?);
        Ok(Admin { client: client.max_decoding_message_size(MAX_ANSWER), timeout: self.timeout })
    }

    /// Connects and asks one thing.
    pub(crate) async fn ask<Q, A, F>(
        &self,
        question: Q,
        call: impl FnOnce(Client, Request<Q>) -> F,
    ) -> Result<A>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.admin().await?.ask(question, call).await
    }
}

impl Admin {
    /// Asks one thing; bounded in time.
    pub(crate) async fn ask<Q, A, F>(
        &self,
        question: Q,
        call: impl FnOnce(Client, Request<Q>) -> F,
    ) -> Result<A>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut request = Request::new(question);
        request.set_timeout(self.timeout);
        match tokio::time::timeout(self.timeout, call(self.client.clone(), request)).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => Err(Failure::new(
                Exit::Unavailable,
                "DEADLINE_EXCEEDED",
                format!("no answer within {}; --timeout waits longer", value::show(self.timeout)),
            )),
        }
    }

    /// Asks for page after page and gives all rows; `take` parts an answer into rows and the next page's token,
    /// `turn` puts that token into the question.
    pub(crate) async fn pages<Q, A, F, R>(
        &self,
        mut question: Q,
        call: impl Fn(Client, Request<Q>) -> F,
        take: impl Fn(A) -> (Vec<R>, String),
        turn: impl Fn(&mut Q, String),
    ) -> Result<Vec<R>>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut rows = Vec::new();
        loop {
            let (more, next) = take(self.ask(question.clone(), &call).await?);
            rows.extend(more);
            if next.is_empty() {
                return Ok(rows);
            }
            turn(&mut question, next);
        }
    }

    /// The bare client, for streams.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

fn endpoint(server: &str) -> Result<Endpoint> {
    let url = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    if url.starts_with("https://") {
        return Err(Failure::usage(format!("{server}: this build speaks no TLS; use an http:// address")));
    }
    let endpoint = Endpoint::from_shared(url)
        .map_err(|_| Failure::usage(format!("{server:?} is no URL: write http://host:port")))?;
    Ok(endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true))
}

/// The innermost cause: transport errors hide it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
