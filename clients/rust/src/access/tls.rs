//! TLS for `https://` addresses, and advice if it fails.

use std::error::Error as StdError;
use std::path::Path;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::{Access, innermost};
use crate::link_error::LinkError;

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Without TLS: TLS files may be meant for another address.
#[expect(clippy::unnecessary_wraps, reason = "a build without TLS refuses here")]
pub(super) fn plain(_: &Access, _: &str) -> Result<(), LinkError> {
    Ok(())
}

/// With TLS, and with the configured certificates.
pub(super) fn secured(
    access: &Access,
    address: &str,
    host: String,
    endpoint: Endpoint,
) -> Result<Endpoint, LinkError> {
    let tls = config(access, address)?.domain_name(host).timeout(HANDSHAKE_TIMEOUT);
    endpoint.tls_config(tls).map_err(|error| {
        let why = innermost(&error);
        LinkError::refused(format!("{address}: TLS cannot be set up with the files that are given: {why}"))
    })
}

fn config(access: &Access, address: &str) -> Result<ClientTlsConfig, LinkError> {
    let refused = |why: String| LinkError::refused(format!("{address}: {why}"));
    let tls = match &access.ca {
        None => ClientTlsConfig::new().with_enabled_roots(),
        Some(path) => {
            let pem = read("ca", "ROSTERD_CA", path).map_err(refused)?;
            let whole = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
            if !whole.is_ok_and(|all| !all.is_empty()) {
                let path = path.display();
                return Err(refused(format!("ca {path} holds no certificate in PEM: name a file that does")));
            }
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
    };
    match (&access.certificate, &access.key) {
        (None, None) => Ok(tls),
        (Some(certificate), Some(key)) => {
            let certificate = read("certificate", "ROSTERD_CERT", certificate).map_err(refused)?;
            let key = read("key", "ROSTERD_KEY", key).map_err(refused)?;
            Ok(tls.identity(Identity::from_pem(certificate, key)))
        }
        _ => Err(refused(
            "a client certificate and its key go together: give both (ROSTERD_CERT, ROSTERD_KEY)".into(),
        )),
    }
}

fn read(what: &str, variable: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| {
        format!("{what} {} ({variable}) cannot be read: {error}: name a PEM file", path.display())
    })
}

/// An I/O error contains it, but not as its source.
fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a TlsError> {
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inner.and_then(|inner| inner.downcast_ref()).or_else(|| error.downcast_ref())
}

/// What to do about an error with these causes, if one of them is a known error of TLS.
pub(super) fn remedy<'a>(mut causes: impl Iterator<Item = &'a (dyn StdError + 'static)>) -> Option<String> {
    causes.find_map(tls_error).and_then(words)
}

fn words(error: &TlsError) -> Option<String> {
    use AlertDescription as Alert;
    use CertificateError as Bad;
    const CLOCK: &str =
        "renew it there (it is read again without a restart), and look at this machine's clock";
    Some(match error {
        TlsError::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "its certificate is from an authority that is unknown here: name the file with the CA's certificate \
             (ROSTERD_CA, --ca)"
                .to_owned()
        }
        TlsError::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            format!("its certificate has expired: {CLOCK}")
        }
        TlsError::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            format!("its certificate is not valid yet: {CLOCK}")
        }
        TlsError::InvalidCertificate(Bad::NotValidForNameContext { expected, presented }) => format!(
            "its certificate is not for {}, only for {}: connect by such a name, or have one issued for this",
            expected.to_str(),
            if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") }
        ),
        TlsError::InvalidCertificate(other) => {
            format!("its certificate cannot be trusted ({other:?}): have another issued")
        }
        TlsError::AlertReceived(Alert::CertificateRequired) => {
            "it wants a client certificate: give one and its key (ROSTERD_CERT and ROSTERD_KEY, --cert and --key)"
                .to_owned()
        }
        TlsError::AlertReceived(
            alert @ (Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::UnsupportedCertificate
            | Alert::DecryptError
            | Alert::AccessDenied),
        ) => format!(
            "it refuses our client certificate ({alert:?}): show one in force that its tls_client_ca has signed \
             (ROSTERD_CERT, --cert)"
        ),
        TlsError::InvalidMessage(_) => {
            "it does not speak TLS: use http:// where the network is trusted, or give it a certificate (--tls-cert)"
                .to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let this = Some(PathBuf::from(file!()).file_name().map_or_else(PathBuf::new, PathBuf::from));
        let told = |access: Access| access.endpoint("https://a:1").unwrap_err().to_string();
        let ca = Some(PathBuf::from("/nowhere/ca.pem"));
        assert!(
            told(Access { ca, ..Access::default() })
                .contains("ca /nowhere/ca.pem (ROSTERD_CA) cannot be read")
        );
        let ca = Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        assert!(told(Access { ca: ca.clone(), ..Access::default() }).contains("holds no certificate"));
        assert!(told(Access { key: this, ..Access::default() }).contains("go together"));
        let files = Access { certificate: ca.clone(), key: ca, ..Access::default() };
        assert!(told(files).contains("TLS cannot be set up"));
    }
}
