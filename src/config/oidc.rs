//! The fields of logins at a provider of identities, and the rules between them. Fields with defaults count for nothing without
//! `oidc_issuer`, so that a printed configuration can be read again.

use std::path::PathBuf;

use super::reader::{ConfigReader, readable};
use super::value::is_loopback;

/// A provider of identities, and what its words mean here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oidc {
    /// Its URL, without a slash at its end.
    pub issuer: String,
    /// How people know it: its host.
    pub name: String,
    /// Who we are there.
    pub client_id: String,
    /// What goes with it.
    pub client_secret_file: Option<PathBuf>,
    /// By whom it is believed.
    pub ca: Option<PathBuf>,
    /// Where it sends browsers back to; none: where they came from.
    pub redirect_url: Option<String>,
    /// What it is asked to tell.
    pub scopes: String,
    /// The claim with a name.
    pub name_claim: String,
    /// The claim whose values give roles.
    pub role_claim: String,
    /// Role and value.
    pub roles: Vec<(String, String)>,
    /// The claim with jobs; none: all.
    pub jobs_claim: Option<String>,
}

/// What is set only where there is a provider.
const OWN: [&str; 5] =
    ["oidc_client_id", "oidc_client_secret_file", "oidc_ca", "oidc_redirect_url", "oidc_jobs_claim"];

/// Types the fields; none without a provider.
pub(super) fn read(reader: &mut ConfigReader, credentials: bool) -> Option<Oidc> {
    let roles = reader.parsed(
        "oidc_roles",
        roles,
        "write ROLE=VALUE, several separated by commas, each role viewer, operator or admin",
    );
    let scopes = reader.parsed("oidc_scopes", scopes, "write openid, and others separated by spaces");
    if reader.text("oidc_issuer").is_none() {
        for name in OWN.into_iter().filter(|name| reader.text(name).is_some()).collect::<Vec<_>>() {
            reader.push(name, "oidc_issuer is not set", format!("set oidc_issuer, or leave {name} out"));
        }
        return None;
    }
    if !credentials {
        let problem = "anyone could do everything without logging in: no credentials are configured";
        reader.push("oidc_issuer", problem, "give a credential file with --credentials; it may be empty");
    }
    let issuer = reader.parsed("oidc_issuer", issuer, "write https://host/path, as the provider says it");
    let client_id = reader.text("oidc_client_id").map(str::to_owned);
    if client_id.is_none() {
        reader.push(
            "oidc_client_id",
            "it is not set, and oidc_issuer needs it",
            "give the name that the provider has for it",
        );
    }
    let (client_secret_file, ca) = (readable(reader, "oidc_client_secret_file"), readable(reader, "oidc_ca"));
    let redirect = reader.parsed(
        "oidc_redirect_url",
        redirect,
        "write https://host/login/oidc/callback, after base_path",
    );
    let text = |name: &str| reader.text(name).map(str::to_owned);
    let (name_claim, role_claim) = (text("oidc_name_claim"), text("oidc_role_claim"));
    let jobs_claim = text("oidc_jobs_claim");
    let issuer = issuer?;
    Some(Oidc {
        name: host(&issuer).unwrap_or_default().to_owned(),
        issuer,
        client_id: client_id?,
        client_secret_file,
        ca,
        redirect_url: redirect,
        scopes: scopes.unwrap_or_default(),
        name_claim: name_claim.unwrap_or_else(|| "preferred_username".to_owned()),
        role_claim: role_claim.unwrap_or_else(|| "groups".to_owned()),
        roles: roles.unwrap_or_default(),
        jobs_claim,
    })
}

fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    rest.split('/').next().filter(|host| !host.is_empty() && !host.contains(['@', '?', '#', ' ']))
}

/// Over TLS, but on this machine.
fn issuer(text: &str) -> Result<String, String> {
    let host = host(text).filter(|_| !text.contains(['?', '#'])).ok_or("invalid URL")?;
    if !text.starts_with("https://") && !is_loopback(host) {
        return Err("who is on the way could log in as anybody: it is not https".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn redirect(text: &str) -> Result<String, String> {
    host(text).ok_or("invalid URL")?;
    if text.ends_with("/login/oidc/callback") {
        Ok(text.to_owned())
    } else {
        Err("it is not the page of logins".to_owned())
    }
}

fn scopes(text: &str) -> Result<String, String> {
    let scopes: Vec<&str> = text.split_ascii_whitespace().collect();
    if scopes.contains(&"openid") {
        Ok(scopes.join(" "))
    } else {
        Err("without openid it is no OpenID Connect".to_owned())
    }
}

fn roles(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |part: &str| {
        let (role, value) = part.split_once('=').ok_or_else(|| format!("{part:?} has no ="))?;
        let (role, value) = (role.trim(), value.trim());
        if !matches!(role, "viewer" | "operator" | "admin") || value.is_empty() {
            return Err(format!("{part:?} gives no role that can log in"));
        }
        Ok((role.to_owned(), value.to_owned()))
    };
    text.split(',').map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Loaded, Sources};

    fn read(more: &[(&str, &str)]) -> Result<Loaded, String> {
        let all = [("data_dir", "d")].iter().chain(more);
        let flags = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Loaded::read(&Sources { flags, ..Sources::default() }).map_err(|defects| defects.to_string())
    }

    const FULL: [(&str, &str); 3] = [
        ("credentials", file!()),
        ("oidc_issuer", "https://id.example/realm/"),
        ("oidc_client_id", "console"),
    ];

    fn with(more: (&str, &str)) -> Result<Loaded, String> {
        read(&[&FULL[..], &[more]].concat())
    }

    #[test]
    fn a_provider_is_whole_or_refused() {
        let oidc = read(&FULL).unwrap().config.login.oidc.unwrap();
        assert_eq!((oidc.issuer.as_str(), oidc.name.as_str()), ("https://id.example/realm", "id.example"));
        assert_eq!(oidc.roles[1], ("operator".to_owned(), "rosterd-operator".to_owned()));
        assert!(read(&FULL[1..]).unwrap_err().contains("no credentials are configured"));
        assert!(read(&FULL[..2]).unwrap_err().contains("oidc_client_id: it is not set"));
        assert!(read(&[FULL[2]]).unwrap_err().contains("oidc_issuer is not set; set oidc_issuer"));
        for (field, value, told) in [
            ("oidc_issuer", "http://id.example", "it is not https"),
            ("oidc_issuer", "id.example", "invalid URL"),
            ("oidc_issuer", "https://a@id.example", "invalid URL"),
            ("oidc_redirect_url", "https://a/b", "it is not the page of logins"),
            ("oidc_scopes", "profile", "without openid"),
            ("oidc_roles", "worker=a", "gives no role that can log in"),
            ("oidc_roles", "admin", "has no ="),
            ("oidc_ca", "/nowhere", "it cannot be read"),
        ] {
            let refused = with((field, value)).unwrap_err();
            assert!(refused.contains(told), "{field} {value}: {refused}");
        }
        for local in ["http://localhost:8080", "http://127.0.0.1:1/a", "http://[::1]:1", "http://[::1]"] {
            with(("oidc_issuer", local)).unwrap();
        }
    }

    #[test]
    fn a_printed_configuration_is_read_again_with_a_provider_and_without() {
        for flags in [&FULL[..], &[]] {
            let loaded = read(flags).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("rosterd.toml");
            std::fs::write(&file, loaded.print()).unwrap();
            let again = Loaded::read(&Sources { file: Some(file), ..Sources::default() }).unwrap();
            assert_eq!(again.config, loaded.config);
        }
    }
}
