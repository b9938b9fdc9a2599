//! TLS to the database: rustls, as everywhere here. [`Trust`] says how the server is verified, in libpq's terms. The
//! password is sent by SCRAM, without channel binding: it is bound to the server because the server's certificate is
//! verified.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Session;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// How the server is verified: the modes of libpq that guarantee something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// No TLS.
    Plain,
    /// TLS without verification: protects against eavesdropping, but not against an impostor.
    Anybody,
    /// A certificate that one of these CAs signed, for any name.
    Chain(Roots),
    /// A certificate that one of these CAs signed, for the name that was connected to.
    Full(Roots),
}

/// The trusted CAs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// Those of the system.
    System,
    /// Certificates in PEM.
    Pem(Vec<u8>),
}

/// Sets up TLS on a connection.
#[derive(Clone)]
pub(super) struct MakeTls(Arc<ClientConfig>);

impl MakeTls {
    /// `None` if TLS is disabled; the error says what is wrong with the certificates.
    pub(super) fn new(trust: &Trust) -> Result<Option<Self>, String> {
        let provider = Arc::new(default_provider());
        let chain = |roots: &Roots| {
            WebPkiServerVerifier::builder_with_provider(Arc::new(store(roots)?), provider.clone())
                .build()
                .map_err(|error| error.to_string())
        };
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Plain => return Ok(None),
            Trust::Anybody => Arc::new(Lenient { chain: None, provider: provider.clone() }),
            Trust::Chain(roots) => {
                Arc::new(Lenient { chain: Some(chain(roots)?), provider: provider.clone() })
            }
            Trust::Full(roots) => chain(roots)?,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        // Every connection verifies the server again: none relies on an earlier verification.
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Some(Self(Arc::new(config))))
    }
}

fn store(roots: &Roots) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
        }
        Roots::Pem(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|_| "it is not PEM".to_owned())?;
                store.add(certificate).map_err(|e| format!("a certificate in it cannot be used: {e}"))?;
            }
        }
    }
    if store.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    Ok(store)
}

/// Verifies less than rustls does: the chain alone, or only that the server has the key of its certificate.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The name is checked last: everything else is valid.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl MakeTlsConnect<Socket> for MakeTls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake { config: self.0.clone(), name })
    }
}

/// A handshake that has not started.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let session = TlsConnector::from(self.config).connect(self.name, stream).await?;
            Ok(Encrypted(Box::new(session)))
        })
    }
}

/// A connection under TLS.
pub(super) struct Encrypted(Box<Session<Socket>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
