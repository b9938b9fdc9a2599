//! Whose certificates are believed.

use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Whose certificates are believed.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Those that the machine believes.
    System,
    /// Those in these PEM bytes, and no others.
    Pem(&'a [u8]),
    /// Nobody's: only servers without TLS can be asked.
    Nobody,
}

/// Nobody could be believed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The machine has no certificates of authorities.
    #[error(
        "this machine has no certificates of authorities: install ca-certificates, or name a file with --ca or its like"
    )]
    NoSystem,
    /// The bytes hold none that can be used.
    #[error("{0}: give a PEM file with the certificates of the authorities")]
    Pem(String),
}

/// What speaks TLS to servers of these authorities.
pub(crate) fn connector(trust: Trust<'_>, protocol: Option<&[u8]>) -> Result<TlsConnector, TrustError> {
    let roots = match trust {
        Trust::System => system()?,
        Trust::Pem(pem) => given(pem)?,
        Trust::Nobody => RootCertStore::empty(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Pem(error.to_string()))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn system() -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // One that cannot be read is not a reason to trust none.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 { Err(TrustError::NoSystem) } else { Ok(roots) }
}

fn given(pem: &[u8]) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| TrustError::Pem("it is not PEM".to_owned()))?;
        let refused = |error| TrustError::Pem(format!("a certificate in it cannot be used: {error}"));
        roots.add(certificate).map_err(refused)?;
    }
    if roots.is_empty() { Err(TrustError::Pem("it holds no certificate".to_owned())) } else { Ok(roots) }
}
