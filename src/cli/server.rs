//! Which coordinator is asked, and how: the first of the named ones that answers.

use std::future::Future;
use std::time::Duration;

use clap::Args;
use rosterd_client::embedding::{Access, explain, innermost};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use super::connection::{Connection, Resolved};
use super::failure::{Code, Exit, Failure, Result};
use crate::config::value;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;

/// How long one address may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Largest answer taken: a dump of a large job.
const MAX_ANSWER: usize = 1 << 30;
/// All rows that there are.
pub(crate) const ALL: usize = usize::MAX;

/// Where a coordinator is, and who asks.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Server {
    #[command(flatten)]
    connection: Connection,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = value::positive)]
    pub(crate) timeout: Duration,
}

/// The generated client, with the credential.
pub(crate) type Client = AdminServiceClient<InterceptedService<Channel, Bearer>>;

/// The admin service of a coordinator that answers.
pub(crate) struct Admin {
    client: Client,
    timeout: Duration,
    server: String,
    access: Access,
}

/// Puts the credential into each request.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    pub(crate) fn new(access: &Access) -> Result<Self> {
        let value = access.authorization();
        value.map(Self).map_err(|_| Failure::usage("the credential holds a character that it may not"))
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
    /// Where to connect, and with what.
    pub(crate) fn resolve(&self) -> Result<Resolved> {
        self.connection.resolve()
    }

    /// Connects to the first that answers.
    pub(crate) async fn channel(&self, to: &Resolved) -> Result<Channel> {
        let mut tried = Vec::new();
        let mut known = false;
        for server in &to.servers {
            match endpoint(server, &to.access)?.connect().await {
                Ok(channel) => return Ok(channel),
                Err(error) => match explain(server, &error) {
                    // Nobody has seen the request: the next coordinator may take it.
                    Some(why) => {
                        known = true;
                        tried.push(why.to_string());
                    }
                    None => tried.push(format!("{server} ({})", innermost(&error))),
                },
            }
        }
        let tried = tried.join(", ");
        let remedy = if known { "" } else { "; name one with --server or ROSTERD_SERVER" };
        Err(Failure::unavailable(format!("no coordinator answers at {tried}{remedy}")))
    }

    pub(crate) async fn admin(&self) -> Result<Admin> {
        let to = self.resolve()?;
        let channel = self.channel(&to).await?;
        let client = AdminServiceClient::with_interceptor(channel, Bearer::new(&to.access)?);
        let (client, server) = (client.max_decoding_message_size(MAX_ANSWER), to.names());
        Ok(Admin { client, timeout: self.timeout, server, access: to.access })
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
        let answer = bounded(self.timeout, question, |request| call(self.client.clone(), request)).await?;
        Ok(answer.map_err(|status| self.refused(status))?.into_inner())
    }

    /// Opens a stream of answers; that it opens is bounded in time, not how long it goes on.
    pub(crate) async fn open<A>(&self, call: impl Future<Output = Result<Response<A>, Status>>) -> Result<A> {
        let opened = tokio::time::timeout(self.timeout, call).await.map_err(|_| no_answer(self.timeout))?;
        Ok(opened.map_err(|status| self.refused(status))?.into_inner())
    }

    /// Asks for page after page and gives the rows, `most` of them; `take` parts an answer into rows and the next
    /// page's token, `turn` puts that token into the question.
    pub(crate) async fn pages<Q, A, F, R>(
        &self,
        question: Q,
        call: impl Fn(Client, Request<Q>) -> F,
        take: impl Fn(A) -> (Vec<R>, String),
        turn: impl Fn(&mut Q, String),
        most: usize,
    ) -> Result<Vec<R>>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut rows = Vec::new();
        let gather = |answer| {
            let (more, next) = take(answer);
            rows.extend(more.into_iter().take(most - rows.len()));
            Ok(if rows.len() < most { next } else { String::new() })
        };
        self.each_page(question, call, gather, turn).await?;
        Ok(rows)
    }

    /// Asks for page after page; `take` keeps what it will of an answer and gives the next page's token, or none to
    /// end here.
    pub(crate) async fn each_page<Q, A, F>(
        &self,
        mut question: Q,
        call: impl Fn(Client, Request<Q>) -> F,
        mut take: impl FnMut(A) -> Result<String>,
        turn: impl Fn(&mut Q, String),
    ) -> Result
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        loop {
            let next = take(self.ask(question.clone(), &call).await?)?;
            if next.is_empty() {
                return Ok(());
            }
            turn(&mut question, next);
        }
    }

    /// What a stream's refusal means.
    pub(crate) fn refused(&self, status: Status) -> Failure {
        refused(&self.access, &self.server, status)
    }

    /// Which coordinator answers.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The bare client, for streams.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

/// Asks, and waits this long for the answer. The coordinator gets a little more time: what it cannot answer in time is
/// told here, in our words.
pub(crate) async fn bounded<Q, F: Future>(
    timeout: Duration,
    question: Q,
    call: impl FnOnce(Request<Q>) -> F,
) -> Result<F::Output> {
    let mut request = Request::new(question);
    request.set_timeout(timeout + Duration::from_secs(1));
    tokio::time::timeout(timeout, call(request)).await.map_err(|_| no_answer(timeout))
}

fn no_answer(timeout: Duration) -> Failure {
    Failure::late(format!("no answer within {}; --timeout waits longer", value::show(timeout)))
}

fn endpoint(server: &str, access: &Access) -> Result<Endpoint> {
    let endpoint = access.endpoint(server).map_err(Failure::usage)?;
    Ok(endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true))
}

/// What a refusal means, or a connection that was closed.
pub(crate) fn refused(access: &Access, server: &str, status: Status) -> Failure {
    match access.explain_call(server, &status) {
        Some(why) if why.is_about_rights() => {
            Failure::new(Exit::Credential, Code::Unauthenticated, why.to_string())
        }
        Some(why) => Failure::unavailable(why),
        None => status.into(),
    }
}
