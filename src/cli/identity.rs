//! How a command shows who it is, and makes sure of who answers. Secrets come from the environment or from a file,
//! never from the command line, which other users of the machine can read.

use std::path::PathBuf;

use clap::Args;
use rosterd_client::Access;

use super::failure::{Failure, Result};

/// Certificates and the credential.
#[derive(Debug, Clone, Default, Args)]
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
    /// What goes with connections.
    pub(crate) fn access(&self) -> Result<Access> {
        Ok(Access {
            credential: self.credential()?,
            ca: self.ca.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            insecure_credential: self.insecure_credential,
        })
    }

    /// The same without the credential, for what is open to everybody.
    pub(crate) fn without_credential(&self) -> Result<Access> {
        Ok(Access { credential: None, ..self.access()? })
    }

    #[allow(clippy::disallowed_methods, reason = "secrets never come from the command line")]
    fn credential(&self) -> Result<Option<String>> {
        if let Some(path) = &self.credential_file {
            let text = std::fs::read_to_string(path).map_err(|error| match path.to_str() {
                Some(secret) if secret.starts_with("rosterd_") => Failure::usage(
                    "--credential takes the name of a file, not the secret itself, which others on this machine may \
                     have read by now: revoke it, and put the next one into a file or into ROSTERD_CREDENTIAL",
                ),
                _ => Failure::usage(format!("--credential {} cannot be read: {error}", path.display())),
            })?;
            let secret = text.trim();
            if secret.is_empty() {
                let what = "is empty: write the secret into it that `rosterd credentials add` has shown";
                return Err(Failure::usage(format!("--credential {} {what}", path.display())));
            }
            return Ok(Some(secret.to_owned()));
        }
        Ok(std::env::var("ROSTERD_CREDENTIAL").ok().filter(|secret| !secret.is_empty()))
    }
}
