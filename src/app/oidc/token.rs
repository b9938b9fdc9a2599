//! Whether an ID token is one: signed by a key that the provider publishes, of this provider, for this client, of this login, and
//! in force. What it says beside is `claims`' to read.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use rosterd_domain::time::Time;
use rosterd_session::code::{Code, Refusal};
use serde_json::Value;

/// How far the provider's clock and ours may be apart, in seconds.
const LEEWAY: i64 = 60;
/// Longer tokens are not looked at.
const LONGEST: usize = 64 << 10;

/// What a token must say.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Time,
}

/// What is wrong with a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// No key that is known has signed it; there may be a newer one.
    Key(String),
    /// It is not for us, or not in force.
    Token(String),
}

impl Wrong {
    pub(super) fn refusal(&self) -> Refusal {
        let (Self::Key(why) | Self::Token(why)) = self;
        Refusal::new(Code::Unauthenticated, format!("the identity provider's token is not valid: {why}"))
    }
}

/// Its claims.
pub(super) fn verify(token: &str, keys: &JwkSet, expected: &Expected<'_>) -> Result<Value, Wrong> {
    let wrong = |what: &str| Wrong::Token(what.to_owned());
    if token.len() > LONGEST {
        return Err(wrong("it is too long"));
    }
    let header = decode_header(token).map_err(|error| Wrong::Token(error.to_string()))?;
    // Never what needs no key, or one that both sides know.
    if matches!(header.alg, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) {
        return Err(wrong("it is signed by a secret and not by a key"));
    }
    let fit = |key: &&Jwk| {
        let named = header.kid.as_ref().is_none_or(|kid| key.common.key_id.as_ref() == Some(kid));
        let signs = key.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
        named && signs && !matches!(key.algorithm, AlgorithmParameters::OctetKey(_))
    };
    let mut validation = Validation::new(header.alg);
    // By our own clock, below.
    (validation.validate_exp, validation.validate_nbf) = (false, false);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client]);
    validation.set_required_spec_claims(&["iss", "aud", "sub", "exp"]);
    let mut why = "no key that the provider publishes fits it".to_owned();
    for key in keys.keys.iter().filter(fit) {
        let Ok(key) = DecodingKey::from_jwk(key) else { continue };
        match decode::<Value>(token, &key, &validation) {
            Ok(decoded) => return in_force(decoded.claims, expected),
            Err(error) => match error.kind() {
                jsonwebtoken::errors::ErrorKind::InvalidSignature
                | jsonwebtoken::errors::ErrorKind::InvalidKeyFormat
                | jsonwebtoken::errors::ErrorKind::InvalidAlgorithm => why = error.to_string(),
                _ => return Err(Wrong::Token(error.to_string())),
            },
        }
    }
    Err(Wrong::Key(why))
}

fn in_force(claims: Value, expected: &Expected<'_>) -> Result<Value, Wrong> {
    let now = expected.now.0.div_euclid(1000);
    let at = |name: &str| claims[name].as_f64().filter(|at| at.is_finite());
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a float that is too large becomes the largest number"
    )]
    let seconds = |name: &str| at(name).map(|at| at as i64);
    if seconds("exp").is_none_or(|exp| exp.saturating_add(LEEWAY) <= now) {
        return Err(Wrong::Token(
            "it has expired: compare the provider's clock and this machine's".to_owned(),
        ));
    }
    if seconds("nbf").is_some_and(|nbf| nbf > now + LEEWAY)
        || seconds("iat").is_some_and(|iat| iat > now + LEEWAY)
    {
        let what = "it is of a time to come: compare the provider's clock and this machine's";
        return Err(Wrong::Token(what.to_owned()));
    }
    if claims["nonce"].as_str() != Some(expected.nonce) {
        return Err(Wrong::Token("it is of another login".to_owned()));
    }
    let several = claims["aud"].as_array().is_some_and(|all| all.len() > 1);
    if (several || !claims["azp"].is_null()) && claims["azp"].as_str() != Some(expected.client) {
        return Err(Wrong::Token("it was issued to another client".to_owned()));
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
    use serde_json::json;

    use super::*;

    /// A key and what is published of it.
    fn key(kid: &str) -> (EncodingKey, Value) {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        // The point, uncompressed: a byte that says so, x, y.
        let point = pair.der_bytes()[1..].to_vec();
        let [x, y] = [&point[..32], &point[32..]].map(|part| URL_SAFE_NO_PAD.encode(part));
        let jwk =
            json!({ "kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256", "x": x, "y": y });
        (EncodingKey::from_ec_der(&pair.serialize_der()), jwk)
    }

    fn published(keys: &[&Value]) -> JwkSet {
        serde_json::from_value(json!({ "keys": keys })).unwrap()
    }

    fn signed(key: &EncodingKey, kid: &str, claims: &Value) -> String {
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::ES256) };
        encode(&header, claims, key).unwrap()
    }

    const EXPECTED: Expected<'static> =
        Expected { issuer: "https://id.example", client: "console", nonce: "n", now: Time(1_000_000_000) };

    fn good() -> Value {
        json!({ "iss": "https://id.example", "aud": "console", "sub": "ann", "nonce": "n", "iat": 999_999, "exp": 1_000_300 })
    }

    #[test]
    fn a_token_of_this_login_is_taken() {
        let (key, jwk) = key("a");
        let token = signed(&key, "a", &good());
        assert_eq!(verify(&token, &published(&[&jwk]), &EXPECTED).unwrap()["sub"], "ann");
    }

    #[test]
    fn what_was_signed_by_others_is_refused_and_newer_keys_are_asked_for() {
        let ((mine, jwk), (other, _)) = (key("a"), key("a"));
        let forged = signed(&other, "a", &good());
        assert!(matches!(verify(&forged, &published(&[&jwk]), &EXPECTED), Err(Wrong::Key(_))));
        let newer = signed(&mine, "b", &good());
        assert!(matches!(verify(&newer, &published(&[&jwk]), &EXPECTED), Err(Wrong::Key(_))));
        let secret = EncodingKey::from_secret(jwk["x"].as_str().unwrap().as_bytes());
        let header = Header { kid: Some("a".to_owned()), ..Header::new(Algorithm::HS256) };
        let confused = encode(&header, &good(), &secret).unwrap();
        let refused = verify(&confused, &published(&[&jwk]), &EXPECTED).unwrap_err();
        assert_eq!(refused, Wrong::Token("it is signed by a secret and not by a key".to_owned()));
        let unsigned = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(br#"{"alg":"none","kid":"a"}"#),
            URL_SAFE_NO_PAD.encode(good().to_string())
        );
        assert!(matches!(verify(&unsigned, &published(&[&jwk]), &EXPECTED), Err(Wrong::Token(_))));
    }

    #[test]
    fn a_token_for_others_or_out_of_its_time_is_refused() {
        let (key, jwk) = key("a");
        let keys = published(&[&jwk]);
        for (field, value) in [
            ("iss", json!("https://other.example")),
            ("aud", json!("other")),
            ("aud", json!(["console", "other"])),
            ("azp", json!("other")),
            ("nonce", json!("m")),
            ("nonce", Value::Null),
            ("exp", json!(999_940)),
            ("exp", Value::Null),
            ("iat", json!(1_000_061)),
            ("nbf", json!(1_000_061)),
        ] {
            let mut claims = good();
            claims[field] = value.clone();
            let refused = verify(&signed(&key, "a", &claims), &keys, &EXPECTED);
            assert!(matches!(refused, Err(Wrong::Token(_))), "{field} {value}: {refused:?}");
        }
        let mut both = good();
        (both["aud"], both["azp"]) = (json!(["console", "other"]), json!("console"));
        assert!(verify(&signed(&key, "a", &both), &keys, &EXPECTED).is_ok());
    }
}
