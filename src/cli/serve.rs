//! `rosterd serve`: a coordinator, configured by file, environment and flags.

use std::path::PathBuf;

use clap::Args;

use super::failure::{Code, Exit, Failure, Result};
use super::log;
use super::output::form::say;
use crate::config::{Config, Defects, Loaded, Sources};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// embedded: a single node; zookeeper: a cluster
    #[arg(long, value_name = "KIND")]
    registry: Option<String>,
    /// ZooKeeper servers, with a path after the last for another root
    #[arg(long, value_name = "HOST:PORT,…")]
    zk: Option<String>,
    /// Allow ZooKeeper servers that are not on loopback without zk_auth or zk_tls_cert
    #[arg(long)]
    insecure_registry: bool,
    /// Check the configuration, start nothing
    #[arg(long)]
    check: bool,
    /// Write the configuration that would hold as a file, start nothing
    #[arg(long)]
    print_config: bool,
}

/// The configuration as flags. What has no flag of its own is set by `--set`.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// TOML file; overridden by ROSTERD_* environment variables and flags
    #[arg(long, value_name = "FILE", env = "ROSTERD_CONFIG")]
    config: Option<PathBuf>,
    /// Where the embedded store and the history are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// Address and port [default: 127.0.0.1:7700]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address and port for health and metrics alone, in plain text and without credentials
    #[arg(long, value_name = "ADDRESS")]
    listen_metrics: Option<String>,
    /// URL under which workers reach this coordinator
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// Path under which a proxy shows the console and REST
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
    /// The one namespace that is served [default: default]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// File with the credentials that are accepted
    #[arg(long, value_name = "FILE")]
    credentials: Option<String>,
    /// PEM file with this coordinator's certificate, then those up to its CA: only TLS is spoken
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// PEM file with the key of --tls-cert
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// PEM file with the certificates of those who sign clients' certificates
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
    /// Allow an address that is not loopback without credentials or without TLS
    #[arg(long)]
    insecure_listen: bool,
    /// What is logged: a level, also by module [default: info; dev: warn]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORM")]
    log_format: Option<String>,
    /// Any field of the configuration; `rosterd serve --print-config` lists them
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write FIELD=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl Settings {
    /// Where values come from; `more` are flags that not every command has.
    pub(crate) fn sources(&self, more: &[(&str, Option<&String>)]) -> Sources {
        let own = [
            ("data_dir", self.data_dir.as_ref()),
            ("listen", self.listen.as_ref()),
            ("listen_metrics", self.listen_metrics.as_ref()),
            ("advertise", self.advertise.as_ref()),
            ("base_path", self.base_path.as_ref()),
            ("namespace", self.namespace.as_ref()),
            ("credentials", self.credentials.as_ref()),
            ("tls_cert", self.tls_cert.as_ref()),
            ("tls_key", self.tls_key.as_ref()),
            ("tls_client_ca", self.tls_client_ca.as_ref()),
            ("log", self.log.as_ref()),
            ("log_format", self.log_format.as_ref()),
        ];
        let given = self.set.iter().cloned();
        let insecure = self.insecure_listen.then(|| ("insecure_listen".to_owned(), "true".to_owned()));
        let named = own
            .iter()
            .chain(more)
            .filter_map(|(name, value)| value.map(|value| ((*name).to_owned(), value.clone())));
        let flags = given.chain(named).chain(insecure).collect();
        Sources {
            defaults: Vec::new(),
            file: self.config.clone(),
            environment: Sources::environment(),
            flags,
        }
    }
}

/// Reads a configuration, or says all that is wrong with it.
pub(crate) fn read(sources: &Sources) -> Result<Loaded> {
    Loaded::read(sources).map_err(invalid)
}

fn invalid(defects: Defects) -> Failure {
    let count = match defects.0.len() {
        1 => "1 defect".to_owned(),
        count => format!("{count} defects"),
    };
    let lines: String = defects.0.iter().map(|defect| format!("\n  {defect}")).collect();
    Failure::new(Exit::Usage, Code::ConfigInvalid, format!("the configuration has {count}{lines}"))
}

/// Starts logging and runs `app` with the configuration.
pub(crate) async fn start<F, E>(config: Config, app: impl FnOnce(Config) -> F) -> Result
where
    F: Future<Output = Result<(), E>>,
    E: std::error::Error,
{
    log::start(&config.log.filter, config.log.json)?;
    app(config).await.map_err(|error| Failure::failed(Code::Serve, chain(&error)))
}

/// An error and its causes, on one line; what one of them says already is not said again.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    for cause in std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
    }
    text
}

impl Serve {
    pub(crate) async fn run(self) -> Result {
        let insecure = self.insecure_registry.then(|| "true".to_owned());
        let more = [
            ("registry", self.registry.as_ref()),
            ("zk", self.zk.as_ref()),
            ("insecure_registry", insecure.as_ref()),
        ];
        let sources = self.settings.sources(&more);
        if self.print_config {
            return say(&Loaded::form(&sources).map_err(invalid)?);
        }
        let loaded = read(&sources)?;
        if self.check {
            crate::app::check(&loaded.config)
                .map_err(|error| Failure::new(Exit::Usage, Code::ConfigInvalid, chain(&error)))?;
            return say("the configuration is valid");
        }
        start(loaded.config, crate::app::serve).await
    }
}
