//! The credential file: who may do what, by shared secret.
//!
//! ```toml
//! [[credential]]
//! name = "billing-workers"
//! role = "worker"            # worker, viewer or operator
//! secret = "at least 16 characters"
//! ```

use std::path::Path;

use serde::Deserialize;

use crate::api::layers::auth::Credential;
use crate::api::layers::methods::Role;

/// Shorter secrets can be guessed.
const SHORTEST: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    credential: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    role: String,
    secret: String,
}

/// Reads the file; an error names the file, the entry and the remedy, never a secret.
pub(super) fn read(path: Option<&Path>) -> Result<Vec<Credential>, String> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("credentials {shown} cannot be read: {e}"))?;
    // The parser's own message shows the line, and with it perhaps a secret.
    let file: File = toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start].lines().count());
        format!(
            "credentials {shown}, near line {line}: {}: write [[credential]] with name, role and secret",
            e.message()
        )
    })?;
    if file.credential.is_empty() {
        return Err(format!("credentials {shown} holds no [[credential]]: nobody could do anything"));
    }
    file.credential
        .iter()
        .map(|entry| parse(entry).map_err(|why| format!("credentials {shown}: {why}")))
        .collect()
}

fn parse(entry: &Entry) -> Result<Credential, String> {
    let name = &entry.name;
    let role = match entry.role.as_str() {
        "worker" => Role::Worker,
        "viewer" => Role::Viewer,
        "operator" => Role::Operator,
        other => return Err(format!("role {other:?} of {name}: it is worker, viewer or operator")),
    };
    if entry.secret.len() < SHORTEST {
        return Err(format!(
            "the secret of {name} is shorter than {SHORTEST} characters: make a longer, random one"
        ));
    }
    Ok(Credential::new(name, role, &entry.secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Credential>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials.toml");
        std::fs::write(&path, text).unwrap();
        read(Some(&path))
    }

    #[test]
    fn a_file_is_read_and_its_defects_are_named_without_its_secrets() {
        let good = "[[credential]]\nname='w'\nrole='worker'\nsecret='0123456789abcdef'\n";
        assert_eq!(read_text(good).unwrap().len(), 1);
        let short = read_text("[[credential]]\nname='w'\nrole='worker'\nsecret='hunter2'\n").unwrap_err();
        assert!(short.contains("shorter than 16") && !short.contains("hunter2"), "{short}");
        let role =
            read_text("[[credential]]\nname='w'\nrole='root'\nsecret='0123456789abcdef'\n").unwrap_err();
        assert!(role.contains("worker, viewer or operator"), "{role}");
        let unknown = read_text("[[credential]]\nnam='w'\nsecret='0123456789abcdef'\n").unwrap_err();
        assert!(unknown.contains("near line") && !unknown.contains("0123456789abcdef"), "{unknown}");
        assert!(read_text("").unwrap_err().contains("nobody"));
    }
}
