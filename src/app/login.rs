//! What people log in with: the key that seals their sessions, and where it is written down who came. The key is a file: of the
//! data directory, so that a restart knows all sessions again, or one that all coordinators of a cluster are given.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use rosterd_api::access::provider::Provider;
use rosterd_api::access::secret::SECRET_BYTES;
use rosterd_api::access::session::{Audit, Options, Sessions};
use rosterd_domain::time::Time;
use rosterd_history::{EventKind, Recorder};
use rosterd_runtime::clock::System;
use rosterd_runtime::private;
use sha2::{Digest as _, Sha256};

use super::credentials;
use super::oidc::Oidc;
use crate::config::{Config, Login};

/// The key's file in a data directory.
const FILE: &str = "login.key";
/// Longer ones are something else.
const LARGEST: u64 = 64 << 10;
/// Read permission for everybody.
const ALL_READ: u32 = 0o004;

/// Whether the files that the configuration names can be used.
pub(super) fn check(login: &Login) -> Result<(), String> {
    login.key_file.as_deref().map_or(Ok(()), |path| given(path).map(drop))?;
    provider(login).map(drop)
}

/// None if the coordinator asks nobody to log in.
pub(super) fn open(
    config: &Config,
    data_dir: &Path,
    recorder: Recorder,
) -> Result<Option<Arc<Sessions>>, String> {
    if config.credentials.is_none() {
        return Ok(None);
    }
    let key = match &config.login.key_file {
        Some(path) => given(path)?,
        None => own(&data_dir.join(FILE))?,
    };
    Ok(Some(Arc::new(Sessions::new(Options {
        key,
        age: config.login.age,
        path: config.base_path.clone(),
        secure: config.tls.is_some(),
        audit: Box::new(ToHistory(recorder)),
        callback: config.login.oidc.as_ref().and_then(|oidc| oidc.redirect_url.clone()),
    }))))
}

/// None where people log in here alone.
pub(super) fn provider(login: &Login) -> Result<Option<Arc<dyn Provider>>, String> {
    let Some(config) = &login.oidc else { return Ok(None) };
    Ok(Some(Arc::new(Oidc::new(config.clone(), System::shared())?)))
}

fn given(path: &Path) -> Result<[u8; 32], String> {
    let unusable = |why: String| {
        let make = "head -c 32 /dev/urandom > FILE; chmod 600 FILE";
        format!("login_key_file {}: {why}: make one by {make}", path.display())
    };
    let there = std::fs::metadata(path).map_err(|error| unusable(format!("it cannot be read: {error}")))?;
    if there.mode() & ALL_READ != 0 {
        return Err(unusable(
            "everybody on this machine can read it, and could log in as anybody".to_owned(),
        ));
    }
    if !there.is_file() || there.len() > LARGEST {
        return Err(unusable(format!("it is not a file of at most {LARGEST} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|error| unusable(format!("it cannot be read: {error}")))?;
    if bytes.len() < SECRET_BYTES {
        return Err(unusable(format!(
            "it has {} bytes, and {SECRET_BYTES} random ones are needed",
            bytes.len()
        )));
    }
    Ok(Sha256::digest(bytes).into())
}

/// The one in the data directory, made where it is missing. Written beside its place and moved there, so that no crash leaves half
/// of one; one that is damaged costs a login.
fn own(path: &Path) -> Result<[u8; 32], String> {
    let unusable =
        |error: std::io::Error| format!("the key of logins {} cannot be used: {error}", path.display());
    private::close(path).map_err(unusable)?;
    match std::fs::read(path) {
        Ok(bytes) if bytes.len() >= SECRET_BYTES => return Ok(Sha256::digest(bytes).into()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(error)),
        _ => {}
    }
    let bytes = credentials::edit::random::<SECRET_BYTES>()?;
    let beside = path.with_extension("new");
    let mut file = private::create_anew(&beside).map_err(unusable)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(unusable)?;
    std::fs::rename(&beside, path).map_err(unusable)?;
    Ok(Sha256::digest(bytes).into())
}

struct ToHistory(Recorder);

impl Audit for ToHistory {
    fn note(&self, at: Time, text: String, principal: Option<&str>) {
        self.0.event(at, None, EventKind::Operation, text, principal);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_own_key_is_made_once_and_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let key = own(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(own(&path).unwrap(), key, "sessions survive a restart");
        std::fs::write(&path, b"torn").unwrap();
        let anew = own(&path).unwrap();
        assert!(anew != key && own(&path).unwrap() == anew, "a truncated key is replaced");
    }

    #[test]
    fn a_given_key_is_long_and_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let with = |bytes: &[u8], mode| {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            given(&path)
        };
        assert!(with(&[7; 32], 0o600).is_ok());
        assert!(with(&[7; 31], 0o600).unwrap_err().contains("it has 31 bytes, and 32"));
        assert!(with(&[7; 32], 0o604).unwrap_err().contains("everybody on this machine can read it"));
        std::fs::remove_file(&path).unwrap();
        assert!(given(&path).unwrap_err().contains("head -c 32 /dev/urandom"));
    }
}
