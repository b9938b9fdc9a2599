//! TLS of this edge: 1.3 only, HTTP/2 and HTTP/1.1, one certificate, and clients' certificates if a CA for them is
//! given. The configuration can be replaced while connections are open: those keep the old one. Reads no file: the
//! composition root passes the bytes.

mod validity;

use std::sync::{Arc, PoisonError, RwLock};

use rosterd_domain::time::Time;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tokio_rustls::{Accept, TlsAcceptor};

use super::link::Socket;

/// The contents of the files, PEM.
pub struct Material<'a> {
    /// The certificate of this coordinator, then those up to its CA.
    pub certificate: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
    /// The verification of clients.
    pub clients: Option<Clients<'a>>,
}

/// The verification of clients' certificates.
pub struct Clients<'a> {
    /// The CA that signs them, PEM.
    pub ca: &'a [u8],
    /// Whether the handshake refuses a client without one.
    pub required: bool,
}

/// Which of the files is invalid, and why.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate.
    #[error("{0}")]
    Certificate(String),
    /// The key.
    #[error("{0}")]
    Key(String),
    /// The clients' CA.
    #[error("{0}")]
    ClientCa(String),
}

/// The current configuration.
#[derive(Debug)]
pub struct ServerTls {
    config: RwLock<Arc<ServerConfig>>,
    /// When the first of the presented certificates expires.
    ends: RwLock<Option<Time>>,
}

impl ServerTls {
    /// From the contents of the files.
    pub fn new(material: &Material<'_>) -> Result<Arc<Self>, TlsError> {
        let config = RwLock::new(config(material)?);
        Ok(Arc::new(Self { config, ends: RwLock::new(ends_of(material.certificate)) }))
    }

    /// Replaces the configuration for new connections; if it is invalid, nothing changes.
    pub fn replace(&self, material: &Material<'_>) -> Result<(), TlsError> {
        let config = config(material)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        *self.ends.write().unwrap_or_else(PoisonError::into_inner) = ends_of(material.certificate);
        Ok(())
    }

    /// When the first of the presented certificates expires, if that can be read.
    pub fn ends(&self) -> Option<Time> {
        *self.ends.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handshake that has not started.
    pub(super) fn accept<S: Socket>(&self, socket: S) -> Accept<S> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner).clone();
        TlsAcceptor::from(config).accept(socket)
    }
}

fn config(material: &Material<'_>) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(default_provider());
    let chain = certificates(material.certificate).map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(material.key)
        .map_err(|_| TlsError::Key("it holds no private key in PEM, or one that is encrypted".to_owned()))?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| TlsError::Key(error.to_string()))?;
    let builder = match &material.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let roots = roots(clients.ca).map_err(TlsError::ClientCa)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            let verifier = if clients.required { verifier } else { verifier.allow_unauthenticated() }.build();
            builder
                .with_client_cert_verifier(verifier.map_err(|error| TlsError::ClientCa(error.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Key("it is not the key of the certificate in tls_cert".to_owned())
        }
        rustls::Error::InvalidCertificate(_) => TlsError::Certificate(error.to_string()),
        other => TlsError::Key(other.to_string()),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Connections are few and long-lived: each verifies the certificates again, and none relies on an older CA.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// When the first of the certificates in a PEM text expires; `None` if it holds none that can be read.
pub fn ends_of(pem: &[u8]) -> Option<Time> {
    let chain = certificates(pem).unwrap_or_default();
    chain.iter().filter_map(|certificate| validity::not_after(certificate)).min()
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(not_pem)?;
    if chain.is_empty() {
        return Err("it holds no certificate in PEM".to_owned());
    }
    Ok(chain)
}

/// The reader's own error shows the offending line, byte by byte and of any length.
fn not_pem(error: impl std::fmt::Display) -> String {
    let why: String = error.to_string().chars().take(200).collect();
    format!("it is not PEM: {why}")
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| format!("a certificate in it cannot be used: {error}"))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    fn pair() -> (String, String) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["a.example".into()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn each_file_that_cannot_be_used_has_an_error_of_its_own() {
        let ((certificate, key), (_, other)) = (pair(), pair());
        let load = |certificate: &str, key: &str, ca: Option<&str>| {
            let clients = ca.map(|ca| Clients { ca: ca.as_bytes(), required: true });
            ServerTls::new(&Material { certificate: certificate.as_bytes(), key: key.as_bytes(), clients })
        };
        assert!(load(&certificate, &key, Some(&certificate)).is_ok());
        assert!(matches!(load("", &key, None), Err(TlsError::Certificate(_))));
        assert!(matches!(load(&key, &key, None), Err(TlsError::Certificate(_))));
        assert!(matches!(load(&certificate, "", None), Err(TlsError::Key(_))));
        assert!(matches!(load(&certificate, &certificate, None), Err(TlsError::Key(_))));
        assert!(matches!(load(&certificate, &key, Some("")), Err(TlsError::ClientCa(_))));
        let mixed = load(&certificate, &other, None).unwrap_err();
        assert!(
            matches!(&mixed, TlsError::Key(why) if why.contains("not the key of the certificate")),
            "{mixed}"
        );
    }
}
