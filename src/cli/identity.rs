//! How a command shows who it is, and makes sure of who answers. Secrets come from the environment or from a file,
//! never from the command line, which other users of the machine can read.

use std::path::{Path, PathBuf};

use clap::Args;
use rosterd_client::embedding::Access;

use super::contexts::Context;
use super::failure::{Failure, Result};

/// Certificates and the credential.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Identity {
    /// PEM file with the authorities that may vouch for the coordinator [default: the system's]
    #[arg(long, value_name = "FILE", env = "ROSTERD_CA", hide_env_values = true)]
    ca: Option<PathBuf>,
    /// PEM file with a client certificate; with --key
    #[arg(long, value_name = "FILE", env = "ROSTERD_CERT", hide_env_values = true)]
    cert: Option<PathBuf>,
    /// PEM file with the key of --cert
    #[arg(long, value_name = "FILE", env = "ROSTERD_KEY", hide_env_values = true)]
    key: Option<PathBuf>,
    /// File with the credential's secret; or the secret itself in ROSTERD_CREDENTIAL
    #[arg(long = "credential", value_name = "FILE", env = "ROSTERD_CREDENTIAL_FILE", hide_env_values = true)]
    credential_file: Option<PathBuf>,
    /// Send the credential also in plain text to another machine
    #[arg(long, env = "ROSTERD_INSECURE_CREDENTIAL", hide_env_values = true)]
    insecure_credential: bool,
}

impl Identity {
    /// What goes with connections: what was typed or stands in the environment, before what a context has.
    pub(super) fn access(&self, context: &Context) -> Result<Access> {
        let credential = match self.credential()? {
            None => context
                .credential_file
                .as_deref()
                .map(|path| secret_in("credential_file", path))
                .transpose()?,
            given => given,
        };
        let certificate = self.cert.clone().or_else(|| context.cert.clone());
        Ok(Access {
            credential,
            ca: self.ca.clone().or_else(|| context.ca.clone()),
            certificate,
            key: self.key.clone().or_else(|| context.key.clone()),
            insecure_credential: self.insecure_credential || context.insecure_credential,
        })
    }

    /// What was typed, as a context keeps it.
    pub(super) fn kept(&self, server: Vec<String>) -> Context {
        Context {
            server,
            ca: self.ca.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            credential_file: self.credential_file.clone(),
            insecure_credential: self.insecure_credential,
        }
    }

    #[allow(clippy::disallowed_methods, reason = "secrets never come from the command line")]
    fn credential(&self) -> Result<Option<String>> {
        if let Some(path) = &self.credential_file {
            return secret_in("--credential", path).map(Some);
        }
        Ok(std::env::var("ROSTERD_CREDENTIAL").ok().filter(|secret| !secret.is_empty()))
    }
}

/// The secret in a file; `named`: who named the file.
fn secret_in(named: &str, path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|error| match path.to_str() {
        Some(secret) if secret.starts_with("rosterd_") => Failure::usage(
            "--credential takes the name of a file, not the secret itself, which others on this machine may \
             have read by now: revoke it, and put the next one into a file or into ROSTERD_CREDENTIAL",
        ),
        _ => Failure::usage(format!("{named} {} cannot be read: {error}", path.display())),
    })?;
    let secret = text.trim();
    if secret.is_empty() {
        let what = "is empty: write the secret into it that `rosterd credentials add` has shown";
        return Err(Failure::usage(format!("{named} {} {what}", path.display())));
    }
    Ok(secret.to_owned())
}
