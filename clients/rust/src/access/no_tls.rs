//! A build without TLS: it refuses everything that needs TLS, so that nothing is sent unprotected by mistake.

use std::error::Error as StdError;

use tonic::transport::Endpoint;

use super::Access;
use crate::link_error::LinkError;

/// Refuses TLS files, whatever the address: a user who sets them relies on their use.
pub(super) fn plain(access: &Access, address: &str) -> Result<(), LinkError> {
    let given = [
        (&access.ca, "an authority for certificates (ca, ROSTERD_CA)"),
        (&access.certificate, "a client certificate (certificate, ROSTERD_CERT)"),
        (&access.key, "a client certificate's key (key, ROSTERD_KEY)"),
    ];
    match given.into_iter().find(|(file, _)| file.is_some()) {
        Some((_, what)) => Err(missing(address, &format!("{what} is given"))),
        None => Ok(()),
    }
}

/// Refuses the address.
pub(super) fn secured(_: &Access, address: &str, _: String, _: Endpoint) -> Result<Endpoint, LinkError> {
    Err(missing(address, "the address begins with https://"))
}

fn missing(address: &str, why: &str) -> LinkError {
    LinkError::refused(format!(
        "{address}: {why}, but this program was built without TLS: turn on the feature tls-aws-lc or tls-ring of \
         rosterd-client"
    ))
}

/// No error comes from TLS.
pub(super) fn remedy<'a>(_: impl Iterator<Item = &'a (dyn StdError + 'static)>) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn an_https_address_and_files_for_tls_are_refused() {
        let endpoint = Endpoint::from_static("https://a:1");
        let address = secured(&Access::default(), "https://a:1", "a".into(), endpoint).map(drop);
        let with = |access: Access| plain(&access, "a:1");
        let file = || Some(PathBuf::from("file.pem"));
        for (refused, named) in [
            (address, "https://"),
            (with(Access { ca: file(), ..Access::default() }), "ROSTERD_CA"),
            (with(Access { certificate: file(), key: file(), ..Access::default() }), "ROSTERD_CERT"),
            (with(Access { key: file(), ..Access::default() }), "ROSTERD_KEY"),
        ] {
            let refused = refused.unwrap_err();
            let told = refused.to_string();
            assert!(refused.rejected() && told.contains(named) && told.contains("tls-aws-lc"), "{told}");
        }
        plain(&Access::default(), "a:1").unwrap();
    }

    #[cfg(not(feature = "_tls"))]
    #[test]
    fn what_needs_tls_is_refused_with_the_feature_to_turn_on() {
        let file = || Some(PathBuf::from("file.pem"));
        for (address, access, named) in [
            ("https://a:1", Access::default(), "https://"),
            ("http://a:1", Access { ca: file(), ..Access::default() }, "ROSTERD_CA"),
            ("a:1", Access { certificate: file(), key: file(), ..Access::default() }, "ROSTERD_CERT"),
            ("a:1", Access { key: file(), ..Access::default() }, "ROSTERD_KEY"),
        ] {
            let refused = access.endpoint(address).unwrap_err();
            let told = refused.to_string();
            assert!(refused.rejected() && told.contains(named) && told.contains("tls-aws-lc"), "{told}");
            assert!(access.check(&[address.to_owned()]).is_err(), "{address}");
        }
        Access::default().endpoint("a:1").unwrap();
    }
}
