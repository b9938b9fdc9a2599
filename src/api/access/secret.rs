//! Secrets as they are issued: `rosterd_{id}_{secret}`, 64 and 256 random bits. The id finds the grant and salts the
//! digest; the rest is so random that one plain digest is enough (see docs/decisions). A secret that a person made up
//! cannot have this form.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// Bytes of the public part.
pub const ID_BYTES: usize = 8;
/// Random bytes.
pub const SECRET_BYTES: usize = 32;
const PREFIX: &str = "rosterd_";

/// What is kept of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(pub [u8; 32]);

/// Hexadecimal.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

impl Digest {
    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        from_hex(text, &mut bytes).then_some(Self(bytes))
    }
}

fn from_hex(text: &str, bytes: &mut [u8]) -> bool {
    text.len() == 2 * bytes.len()
        && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        && bytes.iter_mut().enumerate().all(|(at, byte)| {
            u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map(|read| *byte = read).is_ok()
        })
}

/// Whether it can be the id of a secret.
pub fn is_id(text: &str) -> bool {
    from_hex(text, &mut [0; ID_BYTES])
}

/// A secret. Only [`Secret::text`] reveals it.
#[derive(Clone)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.id())
    }
}

impl Secret {
    /// From bytes that nobody can guess.
    pub fn from_bytes(id: [u8; ID_BYTES], secret: [u8; SECRET_BYTES]) -> Self {
        Self(format!("{PREFIX}{}_{}", hex::encode(id), URL_SAFE_NO_PAD.encode(secret)))
    }

    /// Parses a text; `None`: it does not have the form of a secret, so it needs no look-up.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let whole = is_id(id)
            && secret.len() == (SECRET_BYTES * 4).div_ceil(3)
            && URL_SAFE_NO_PAD.decode(secret).is_ok_and(|bytes| bytes.len() == SECRET_BYTES);
        whole.then(|| Self(text.to_owned()))
    }

    /// The public part.
    pub fn id(&self) -> &str {
        &self.0[PREFIX.len()..PREFIX.len() + 2 * ID_BYTES]
    }

    /// The whole secret, for its owner.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn digest(&self) -> Digest {
        Digest(Sha256::digest(self.0.as_bytes()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_and_nothing_else_is_one() {
        let secret = Secret::from_bytes([0xab; ID_BYTES], [0xff; SECRET_BYTES]);
        assert_eq!(secret.id(), "abababababababab");
        assert_eq!(Secret::parse(secret.text()).unwrap().digest(), secret.digest());
        assert_eq!(Digest::parse(&secret.digest().to_string()), Some(secret.digest()));
        let text = secret.text();
        for wrong in [&text[..text.len() - 1], &format!("{text}A"), &text.replace('_', "/"), "rosterd__", "é"]
        {
            assert!(Secret::parse(wrong).is_none(), "{wrong}");
        }
        assert!(Digest::parse(&"AB".repeat(32)).is_none() && Digest::parse("ab").is_none());
    }
}
