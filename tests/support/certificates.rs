//! Certificates for tests: authorities, and certificates signed by them.

#![allow(dead_code, reason = "each suite uses its part")]

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// For a coordinator under these names.
    pub fn server(&self, names: &[&str]) -> Pair {
        self.issue("coordinator", names, ExtendedKeyUsagePurpose::ServerAuth, false)
    }

    /// The same, expired.
    pub fn expired(&self, names: &[&str]) -> Pair {
        self.issue("coordinator", names, ExtendedKeyUsagePurpose::ServerAuth, true)
    }

    /// For a client of this common name.
    pub fn client(&self, common: &str) -> Pair {
        self.issue(common, &[], ExtendedKeyUsagePurpose::ClientAuth, false)
    }

    fn issue(&self, common: &str, names: &[&str], usage: ExtendedKeyUsagePurpose, over: bool) -> Pair {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        if over {
            (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }
}

impl Pair {
    /// Writes both into a directory: `{name}.pem` and `{name}.key`.
    pub fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let at = |end: &str, text: &str| {
            let path = dir.join(format!("{name}.{end}"));
            std::fs::write(&path, text).unwrap();
            path
        };
        (at("pem", &self.certificate), at("key", &self.key))
    }
}
