//! The subject of a client certificate. The certificate was verified before: signed by the client CA, not expired, for
//! a client. Only names are read here, by rustls's own reader; for the common name, which that does not parse, a walk
//! over the few bytes of the subject never panics and at worst finds nothing.

use std::fmt;
use std::str::FromStr;

use tokio_rustls::rustls::pki_types::CertificateDer;

/// A subject that a grant is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// `cn:ops`, the common name.
    Common(String),
    /// `dns:worker-7.example`, a host name among the alternative names, lower case.
    Dns(String),
    /// `uri:spiffe://example/billing`, a URI among them.
    Uri(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Common(name) => write!(f, "cn:{name}"),
            Self::Dns(name) => write!(f, "dns:{name}"),
            Self::Uri(name) => write!(f, "uri:{name}"),
        }
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().take(200).collect();
        let wrong = || {
            format!(
                "certificate {shown:?} names no subject: write cn:NAME, dns:HOST or uri:URI of the certificate"
            )
        };
        let (kind, name) = text.split_once(':').ok_or_else(wrong)?;
        if name.is_empty() || name.len() > 1024 || name.chars().any(char::is_control) {
            return Err(wrong());
        }
        match kind {
            "cn" => Ok(Self::Common(name.to_owned())),
            "dns" => Ok(Self::Dns(name.to_ascii_lowercase())),
            "uri" => Ok(Self::Uri(name.to_owned())),
            _ => Err(wrong()),
        }
    }
}

/// The names of a peer's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerNames {
    /// The common name.
    pub common: Option<String>,
    /// Alternative names that are host names.
    pub dns: Vec<String>,
    /// Alternative names that are URIs.
    pub uris: Vec<String>,
}

impl PeerNames {
    /// The names in a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return Self::default() };
        Self {
            common: common_name(certificate.subject()),
            dns: certificate.valid_dns_names().map(ToOwned::to_owned).collect(),
            uris: certificate.valid_uri_names().map(ToOwned::to_owned).collect(),
        }
    }

    /// All of them as subjects, the most specific first.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        let uris = self.uris.iter().map(|uri| Subject::Uri(uri.clone()));
        let dns = self.dns.iter().map(|name| Subject::Dns(name.to_ascii_lowercase()));
        uris.chain(dns).chain(self.common.iter().map(|name| Subject::Common(name.clone())))
    }
}

impl fmt::Display for PeerNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.subjects().map(|subject| subject.to_string()).collect();
        f.write_str(&if all.is_empty() { "no name".to_owned() } else { all.join(" ") })
    }
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The common name among the parts of a subject; `None` if there are two, since it would be ambiguous.
fn common_name(subject: &[u8]) -> Option<String> {
    let mut found = None;
    for (tag, set) in Elements(subject) {
        for (tag, pair) in Elements((tag == SET).then_some(set)?) {
            let mut parts = Elements((tag == SEQUENCE).then_some(pair)?);
            if parts.next()? != (OBJECT, COMMON_NAME) {
                continue;
            }
            let (tag, value) = parts.next()?;
            let name = matches!(tag, UTF8 | PRINTABLE).then(|| std::str::from_utf8(value).ok())??;
            if found.replace(name.to_owned()).is_some() {
                return None;
            }
        }
    }
    found.filter(|name| !name.is_empty() && !name.chars().any(char::is_control))
}

/// The elements of a DER value, one after the other; ends at one that is truncated.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match first {
            short @ ..=0x7f => (usize::from(short), rest),
            0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
            0x82 => rest
                .split_first_chunk::<2>()
                .map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))?,
            _ => return None,
        };
        let (value, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some((tag, value))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SanType};

    use super::*;

    fn names(change: impl FnOnce(&mut CertificateParams)) -> PeerNames {
        let mut params = CertificateParams::new(vec!["Worker.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        PeerNames::of(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    #[test]
    fn a_certificates_names_are_read() {
        let found = names(|params| {
            params.distinguished_name.push(DnType::OrganizationName, "x".repeat(300));
            params.distinguished_name.push(DnType::CommonName, "ops é");
            params.subject_alt_names.push(SanType::URI("spiffe://a/b".try_into().unwrap()));
        });
        let subjects: Vec<_> = found.subjects().map(|subject| subject.to_string()).collect();
        assert_eq!(subjects, ["uri:spiffe://a/b", "dns:worker.example", "cn:ops é"]);
        let printable = DnValue::PrintableString("ops".try_into().unwrap());
        let found = names(|params| params.distinguished_name.push(DnType::CommonName, printable));
        assert_eq!(found.common.as_deref(), Some("ops"));
        assert_eq!(names(|_| {}).common, None);
    }

    #[test]
    fn a_subject_in_pieces_names_nobody_and_harms_nobody() {
        let whole = [&[SET, 14, SEQUENCE, 12, OBJECT, 3][..], COMMON_NAME, &[UTF8, 5], b"alice"].concat();
        assert_eq!(common_name(&whole).as_deref(), Some("alice"));
        for end in 0..whole.len() {
            assert_eq!(common_name(&whole[..end]), None, "{end}");
        }
        assert_eq!(common_name(&whole.repeat(2)), None, "two names");
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0x82, 0xff] {
                let mut broken = whole.clone();
                broken[at] = byte;
                let _ = common_name(&broken);
            }
        }
    }

    #[test]
    fn a_subject_is_written_with_its_kind() {
        assert_eq!("dns:A.example".parse(), Ok(Subject::Dns("a.example".into())));
        for wrong in ["ops", "cn:", "ou:x", "cn:a\nb", ""] {
            assert!(wrong.parse::<Subject>().unwrap_err().contains("cn:NAME"), "{wrong}");
        }
    }
}
