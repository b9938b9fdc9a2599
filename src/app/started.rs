//! The line that says that a coordinator serves: where, what, for whom. People look for it first, and scripts take the
//! address from it: `serving address=…` stays its beginning.

use std::net::SocketAddr;

use super::{reached, store};
use crate::config::Config;
use rosterd_runtime::version::version;

/// Says so.
pub(super) fn say(config: &Config, address: SocketAddr, store: &str) {
    tracing::info!(
        %address,
        namespace = %config.namespace,
        version = %version(),
        data_dir = %store::data_dir(&config.registry).display(),
        store = %store,
        access = %access(config),
        tls = %tls(config),
        page = %page(config, address),
        "serving"
    );
}

/// Who may come in: everybody, who has a credential, or who logs in at a provider as well.
fn access(config: &Config) -> &'static str {
    match (&config.login.oidc, &config.credentials) {
        (Some(_), _) => "oidc",
        (None, Some(_)) => "credentials",
        (None, None) => "open",
    }
}

/// Whether TLS is spoken, and whether clients have to show a certificate.
fn tls(config: &Config) -> &'static str {
    match &config.tls {
        None => "off",
        Some(tls) if tls.client_required => "mutual",
        Some(_) => "on",
    }
}

/// Where people find the console. One that listens on every address is on this machine, too.
fn page(config: &Config, address: SocketAddr) -> String {
    let advertised = config.advertise.as_deref().is_some_and(|url| !url.is_empty());
    let site = if address.ip().is_unspecified() && !advertised {
        format!("{}://localhost:{}", config.scheme(), address.port())
    } else {
        reached(config, address)
    };
    format!("{site}{}/", config.base_path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Loaded, Sources};

    fn config(flags: &[(&str, &str)]) -> Config {
        let given = [("data_dir", "d")].iter().chain(flags);
        let flags = given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Loaded::read(&Sources { flags, ..Sources::default() }).unwrap().config
    }

    #[test]
    fn it_states_the_access_and_the_address_of_the_page() {
        let this = file!();
        let (open, address) = (config(&[]), "127.0.0.1:7700".parse().unwrap());
        assert_eq!((access(&open), tls(&open)), ("open", "off"));
        assert_eq!(page(&open, address), "http://127.0.0.1:7700/");
        let guarded = [("credentials", this), ("tls_cert", this), ("tls_key", this)];
        let closed = config(&guarded);
        assert_eq!((access(&closed), tls(&closed)), ("credentials", "on"));
        let required = [("tls_client_ca", this), ("tls_client_auth", "required")];
        assert_eq!(tls(&config(&[&guarded[..], &required].concat())), "mutual");
        let provider = [("oidc_issuer", "https://id.example.com"), ("oidc_client_id", "rosterd")];
        assert_eq!(access(&config(&[&guarded[..], &provider].concat())), "oidc");

        let everywhere = [("listen", "0.0.0.0:0"), ("insecure_listen", "true"), ("base_path", "/tools")];
        let anywhere = "0.0.0.0:4711".parse().unwrap();
        assert_eq!(page(&config(&everywhere), anywhere), "http://localhost:4711/tools/");
        let advertised = [&everywhere[..], &[("advertise", "http://jobs.example.com")]].concat();
        assert_eq!(page(&config(&advertised), anywhere), "http://jobs.example.com/tools/");
    }
}
