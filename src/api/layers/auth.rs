//! Who asks, and whether they may. Deny by default: with credentials configured, a request without one, with
//! a wrong one, or for a path without a rule goes no further. Identity comes from here and from nothing that a
//! message says.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::methods::{Access, Role, access};
use super::{is_grpc, refused};
use crate::code::{Code, Refusal};
use crate::runtime::telemetry::Metrics;

/// Who asks, in the extensions of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The credential's name.
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
}

/// A shared secret; only its digest is kept.
#[derive(Clone)]
pub struct Credential {
    principal: Principal,
    digest: [u8; 32],
}

impl Credential {
    /// A credential of that name and role.
    pub fn new(name: &str, role: Role, secret: &str) -> Self {
        Self { principal: Principal { name: name.into(), role }, digest: digest(secret) }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({:?}, {:?})", self.principal.name, self.principal.role)
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The credentials that are accepted.
#[derive(Debug)]
pub struct Auth {
    credentials: Vec<Credential>,
    metrics: Arc<Metrics>,
}

impl Auth {
    /// Without credentials everybody may do everything: for a listener that only its own machine reaches.
    pub fn new(credentials: Vec<Credential>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { credentials, metrics })
    }

    /// Whose secret it is. Looks at every credential, whatever it finds, so that time tells nothing.
    fn known(&self, secret: &str) -> Option<&Principal> {
        let given = digest(secret);
        let mut found = u32::MAX;
        for (index, credential) in (0_u32..).zip(&self.credentials) {
            let same: Choice = credential.digest.ct_eq(&given);
            found.conditional_assign(&index, same);
        }
        self.credentials.get(usize::try_from(found).ok()?).map(|credential| &credential.principal)
    }

    fn decide(&self, path: &str, headers: &HeaderMap) -> Result<Option<Principal>, Refusal> {
        let rule = access(path);
        if rule == Some(Access::Open) {
            return Ok(None);
        }
        let principal = secret(headers).and_then(|secret| self.known(&secret).cloned()).ok_or_else(|| {
            let what = "no valid credential came with the request: send `authorization: Bearer …`";
            Refusal::new(Code::Unauthenticated, what)
        })?;
        match rule {
            Some(rule) if rule.allows(principal.role) => Ok(Some(principal)),
            _ => {
                let what =
                    format!("the credential {:?} ({:?}) does not allow this", principal.name, principal.role);
                Err(Refusal::new(Code::PermissionDenied, what))
            }
        }
    }
}

/// The secret of a request: a bearer's, or the password that a browser asks for.
fn secret(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") || is_grpc(headers) {
        return None;
    }
    let pair = base64::engine::general_purpose::STANDARD.decode(rest.trim()).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

/// The layer.
pub async fn layer(State(auth): State<Arc<Auth>>, mut request: Request, next: Next) -> Response {
    // Never from outside: only this layer says who asks.
    request.extensions_mut().remove::<Principal>();
    if auth.credentials.is_empty() {
        return next.run(request).await;
    }
    match auth.decide(request.uri().path(), request.headers()) {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            next.run(request).await
        }
        Err(refusal) => {
            auth.metrics.refused.get_or_create(&[("code", refusal.code.as_str())]).inc();
            let mut response = refused(is_grpc(request.headers()), &refusal);
            if response.status() == StatusCode::UNAUTHORIZED {
                let challenge = HeaderValue::from_static("Basic realm=\"rosterd\", charset=\"UTF-8\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth() -> Arc<Auth> {
        let credentials = vec![
            Credential::new("fleet", Role::Worker, "w-secret"),
            Credential::new("ops", Role::Operator, "o-secret"),
        ];
        Auth::new(credentials, Metrics::new())
    }

    fn with(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_secret_says_who_asks() {
        let auth = auth();
        let who =
            |value: &str| auth.decide("/metrics", &with(value)).map(|who| who.unwrap().name.to_string());
        assert_eq!(who("Bearer o-secret").unwrap(), "ops");
        assert_eq!(who("Basic dTpvLXNlY3JldA==").unwrap(), "ops");
        assert_eq!(who("Bearer w-secret").unwrap_err().code, Code::PermissionDenied);
        for bad in ["Bearer", "Bearer ", "Bearer o-secret2", "o-secret", "Basic o-secret", "Digest o-secret"]
        {
            assert_eq!(who(bad).unwrap_err().code, Code::Unauthenticated, "{bad}");
        }
        let mut twice = with("Bearer o-secret");
        twice.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        assert_eq!(auth.decide("/metrics", &twice).unwrap_err().code, Code::Unauthenticated);
    }

    #[test]
    fn a_path_without_a_rule_is_denied_to_everybody() {
        let refusal = auth().decide("/debug", &with("Bearer o-secret")).unwrap_err();
        assert_eq!(refusal.code, Code::PermissionDenied);
        assert_eq!(auth().decide("/debug", &HeaderMap::new()).unwrap_err().code, Code::Unauthenticated);
        assert_eq!(auth().decide("/healthz", &HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert!(!format!("{:?}", auth()).contains("secret"));
    }
}
