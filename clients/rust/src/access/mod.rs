//! How a worker or a person authenticates, and verifies the coordinator: the credential, the certificates, and advice
//! if something is wrong with them. Files are read again for each connection, so renewed ones apply from the next
//! connection on.

// Compiled in test builds too, so that its refusals are tested without a separate build.
#[cfg(any(test, not(feature = "_tls")))]
#[cfg_attr(feature = "_tls", allow(dead_code, reason = "its tests call it"))]
mod no_tls;
mod shown;
#[cfg(feature = "_tls")]
mod tls;

use std::error::Error as StdError;
use std::net::IpAddr;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Endpoint, Uri};

#[cfg(not(feature = "_tls"))]
use self::no_tls as tls;
pub use self::shown::{Access, innermost};

use crate::error::{Error, Result};
use crate::link_error::LinkError;

impl Access {
    /// Whether connections to these addresses can be tried at all.
    pub fn check(&self, addresses: &[String]) -> Result<()> {
        self.authorization()?;
        for address in addresses {
            self.endpoint(address).map_err(|error| Error::Options(error.to_string()))?;
        }
        Ok(())
    }

    /// The header's value.
    pub fn authorization(&self) -> Result<Option<MetadataValue<Ascii>>> {
        let Some(secret) = self.credential.as_deref() else { return Ok(None) };
        let mut value: MetadataValue<Ascii> = format!("Bearer {secret}")
            .parse()
            .map_err(|_| Error::Options("the credential has characters that no header may have".into()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// What to connect to; `host:port` is plain HTTP/2. Refuses to send a credential in the clear.
    pub fn endpoint(&self, address: &str) -> std::result::Result<Endpoint, LinkError> {
        let endpoint = Endpoint::from_shared(url(address)).map_err(|error| {
            LinkError::refused(format!("invalid address {address:?}: {error}; write https://host:port"))
        })?;
        let host = endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if endpoint.uri().scheme_str() != Some("https") {
            if self.credential.is_some() && !self.insecure_credential && !is_loopback(&host) {
                return Err(LinkError::refused(format!(
                    "{address}: the credential would go there in plain text, for all on the way to read: use https://, \
                     or say that the network is trusted (ROSTERD_INSECURE_CREDENTIAL=true)"
                )));
            }
            tls::plain(self, address)?;
            return Ok(endpoint);
        }
        tls::secured(self, address, host, endpoint)
    }
}

/// Which coordinators to connect to if only a Welcome has named them. An attacker that can write the store, or
/// impersonates a coordinator, can name any address, and any address has a certificate of some authority: the
/// credential is not sent to these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Learn {
    /// All: no credential is sent, and no coordinator is authenticated.
    #[default]
    All,
    /// Those on configured hosts.
    Of {
        /// The hosts.
        hosts: Vec<String>,
        /// And those that the user's own authorities certify.
        vouched: bool,
        /// All configured addresses use TLS, so others must too.
        tls: bool,
    },
}

impl Access {
    /// The policy of a worker that was configured with these addresses.
    pub(crate) fn learns(&self, given: &[String]) -> Learn {
        let are_secure = || given.iter().map(|address| is_secure(address));
        if self.credential.is_none() && !are_secure().any(|secure| secure) {
            return Learn::All;
        }
        let hosts = given.iter().filter_map(|address| host(address)).collect();
        Learn::Of { hosts, vouched: self.ca.is_some(), tls: are_secure().all(|secure| secure) }
    }
}

impl Learn {
    pub(crate) fn takes(&self, address: &str) -> bool {
        let Self::Of { hosts, vouched, tls } = self else { return true };
        let Some(named) = host(address) else { return false };
        let is_given =
            |given: &String| given.eq_ignore_ascii_case(&named) || is_loopback(given) && is_loopback(&named);
        let secure = is_secure(address);
        (secure || !tls) && (hosts.iter().any(is_given) || secure && *vouched)
    }
}

fn is_secure(address: &str) -> bool {
    address.starts_with("https://")
}

fn host(address: &str) -> Option<String> {
    let uri: Uri = url(address).parse().ok()?;
    uri.host().map(|host| host.trim_matches(['[', ']']).to_owned())
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Why a connection or a stream failed, with advice if there is any.
pub fn explain(address: &str, error: &(dyn StdError + 'static)) -> Option<LinkError> {
    let what = tls::remedy(causes(error))?;
    Some(LinkError::refused(format!("{address}: {what}")))
}

impl Access {
    /// Why the first call on a new connection failed, if the coordinator did not report the error. With TLS 1.3 a
    /// coordinator refuses a client's certificate, or that there is none, after the handshake; one that speaks TLS
    /// answers plain text with something other than HTTP/2. In both cases only a closed connection is left.
    pub fn explain_call(&self, address: &str, status: &tonic::Status) -> Option<LinkError> {
        let local = status.source()?;
        if causes(local).any(|cause| cause.is::<tonic::TimeoutExpired>()) {
            return None;
        }
        let doubt = match (address.starts_with("https://"), &self.certificate) {
            (false, _) => "if it speaks TLS, use https://",
            (true, None) => {
                "if it wants a client certificate, give one and its key (ROSTERD_CERT and ROSTERD_KEY, --cert and \
                 --key)"
            }
            (true, Some(_)) => {
                "does it refuse our client certificate? It must be in force and signed by its tls_client_ca \
                 (ROSTERD_CERT, --cert)"
            }
        };
        let doubtful =
            || LinkError::lost(format!("{address}: the connection was closed before an answer: {doubt}"));
        Some(explain(address, local).unwrap_or_else(doubtful))
    }
}

/// An error and what it comes from.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error: &'a (dyn StdError + 'static) = *error;
        error.source()
    })
}

/// `host:port` is plain HTTP/2.
fn url(address: &str) -> String {
    if address.contains("://") { address.to_owned() } else { format!("http://{address}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access { credential: Some("s3cret".into()), ..Access::default() }
    }

    #[test]
    fn a_credential_goes_nowhere_in_plain_text_unless_told() {
        for near in
            ["localhost:1", "127.0.0.1:1", "http://[::1]:1", "http://127.9.9.9:1", "[::ffff:127.0.0.1]:1"]
        {
            access().endpoint(near).unwrap();
        }
        for far in [
            "example.com:1",
            "http://10.0.0.1:1",
            "http://localhost.example.com:1",
            "http://127.0.0.1.example.com",
        ] {
            let refused = access().endpoint(far).unwrap_err();
            assert!(refused.rejected() && refused.to_string().contains("in plain text"), "{refused}");
            assert!(!refused.to_string().contains("s3cret"), "{refused}");
            Access { insecure_credential: true, ..access() }.endpoint(far).unwrap();
            Access::default().endpoint(far).unwrap();
        }
    }

    /// A planted address with a certificate of any authority of the system got the credential.
    #[test]
    fn a_credential_goes_to_no_coordinator_that_only_a_welcome_named() {
        let given = |servers: &[&str], access: &Access| {
            let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
            access.learns(&servers)
        };
        let system = given(&["https://a.example:1"], &access());
        for near in ["https://a.example:2", "https://A.example"] {
            assert!(system.takes(near), "{near}");
        }
        for far in [
            "https://evil.example:1",
            "https://a.example.evil:1",
            "http://a.example:1",
            "a.example:1",
            "",
            "https://",
        ] {
            assert!(!system.takes(far), "{far}");
        }
        // Others also do not get a certificate, and the worker takes no work from them.
        assert!(!given(&["https://a.example:1"], &Access::default()).takes("https://evil.example:1"));
        let own = given(&["https://a.example:1"], &Access { ca: Some("ca.pem".into()), ..access() });
        assert!(own.takes("https://b.example:1") && !own.takes("http://b.example:1"));
        let plain = given(&["localhost:1"], &access());
        assert!(plain.takes("http://127.0.0.1:2") && !plain.takes("http://evil.example:1"));
        let trusted = Access { insecure_credential: true, ..access() };
        assert!(!given(&["10.0.0.1:1"], &trusted).takes("http://evil.example:1"));
        assert_eq!(given(&["10.0.0.1:1"], &Access::default()), Learn::All);
    }

    #[test]
    fn the_secret_is_not_shown() {
        let options = crate::Options { credential: Some("s3cret".into()), ..crate::Options::default() };
        let shown = format!("{:?} {:?} {options:?}", access(), access().authorization().unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
