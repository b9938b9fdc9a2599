//! The metadata of a connection, and the innermost cause of its errors.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;

/// The metadata of a connection.
#[derive(Clone, Default)]
pub struct Access {
    /// The secret; sent as `authorization: Bearer …`.
    pub credential: Option<String>,
    /// PEM file with the authorities for coordinators; None: the system's.
    pub ca: Option<PathBuf>,
    /// PEM file with our own certificate, then those up to its CA.
    pub certificate: Option<PathBuf>,
    /// PEM file with its key.
    pub key: Option<PathBuf>,
    /// Send the credential also if others can read it on its way: over plain HTTP to another machine.
    pub insecure_credential: bool,
}

/// Without the secret.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("credential", &self.credential.as_ref().map(|_| "…"))
            .field("ca", &self.ca)
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .field("insecure_credential", &self.insecure_credential)
            .finish()
    }
}

/// The innermost cause: the errors around it hide it.
pub fn innermost(error: &dyn StdError) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
