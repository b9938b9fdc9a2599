//! The store that `export` and `import` work on, as the configuration of `serve` names it.

use std::path::PathBuf;

use clap::Args;

use super::serve::{assignment, read};
use crate::cli::failure::Result;
use crate::config::{Config, Sources};

/// Which store: the same fields, file and variables as for `rosterd serve`.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// TOML file; overridden by ROSTERD_* environment variables and flags
    #[arg(long, value_name = "FILE", env = "ROSTERD_CONFIG")]
    config: Option<PathBuf>,
    /// The directory of an embedded store
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// embedded or zookeeper; zookeeper where --zk is given
    #[arg(long, value_name = "KIND")]
    registry: Option<String>,
    /// ZooKeeper servers, with a path after the last for another root
    #[arg(long, value_name = "HOST:PORT,…")]
    pub(crate) zk: Option<String>,
    /// The namespace [default: default]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Allow ZooKeeper servers that are not on loopback without zk_auth or zk_tls_cert
    #[arg(long)]
    insecure_registry: bool,
    /// Any field of the configuration, as for `rosterd serve`
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

/// The configuration of an embedded store in a directory, whatever else is configured.
pub(crate) fn directory(data_dir: &str, namespace: Option<String>) -> Result<Config> {
    let named = [
        ("data_dir", Some(data_dir.to_owned())),
        ("registry", Some("embedded".to_owned())),
        ("namespace", namespace),
    ];
    let flags = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let sources =
        Sources { defaults: Vec::new(), file: None, environment: std::collections::BTreeMap::new(), flags };
    Ok(read(&sources)?.config)
}

impl StoreArgs {
    /// Whether a store is named at all, by a flag or by the environment.
    pub(crate) fn is_given(&self) -> bool {
        let environment = Sources::environment();
        let named = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
        self.config.is_some()
            || self.data_dir.is_some()
            || self.zk.is_some()
            || !self.set.is_empty()
            || named("ROSTERD_DATA_DIR")
            || named("ROSTERD_ZK")
    }

    /// The configuration that names it.
    pub(crate) fn config(&self) -> Result<Config> {
        self.read(
            self.zk.clone(),
            self.namespace.clone(),
            self.registry.clone(),
            &self.set,
            self.insecure_registry,
        )
    }

    /// That of Elastic-Job's own tree, reached in the same way. It is only read: whoever may write it is its owner's affair.
    pub(crate) fn source(&self, servers: String, namespace: String) -> Result<Config> {
        self.read(Some(servers), Some(namespace), Some("zookeeper".to_owned()), &self.set, true)
    }

    /// That of the store which jobs of Elastic-Job's own go into: an ensemble where one is named, else a directory,
    /// which has no use for how ZooKeeper is reached.
    pub(crate) fn target(&self, servers: Option<String>) -> Result<Config> {
        let embedded = servers.is_none() && self.registry.as_deref() != Some("zookeeper");
        let set = self.set.iter().filter(|(name, _)| !(embedded && name.starts_with("zk_")));
        let zk = if embedded { None } else { servers.or_else(|| self.zk.clone()) };
        let set: Vec<_> = set.cloned().collect();
        self.read(zk, self.namespace.clone(), self.registry.clone(), &set, self.insecure_registry)
    }

    fn read(
        &self,
        zk: Option<String>,
        namespace: Option<String>,
        registry: Option<String>,
        set: &[(String, String)],
        insecure: bool,
    ) -> Result<Config> {
        let registry = registry.or_else(|| zk.as_ref().map(|_| "zookeeper".to_owned()));
        let data_dir = self.data_dir.clone();
        let named = [("data_dir", data_dir), ("registry", registry), ("zk", zk), ("namespace", namespace)];
        let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let insecure = insecure.then(|| ("insecure_registry".to_owned(), "true".to_owned()));
        let flags = set.iter().cloned().chain(named).chain(insecure).collect();
        let sources = Sources {
            defaults: Vec::new(),
            file: self.config.clone(),
            environment: Sources::environment(),
            flags,
        };
        Ok(read(&sources)?.config)
    }
}
