//! `rosterd credentials`: changes of the file by people, and that its secrets do not leak.

use std::os::unix::fs::PermissionsExt as _;

use crate::binary::{Ran, command, rosterd};

fn credentials(file: &str, args: &[&str]) -> Ran {
    let mut command = command();
    command.arg("credentials").args(args).env("ROSTERD_CREDENTIALS", file).output().unwrap().into()
}

#[test]
fn a_secret_is_shown_once_and_is_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("credentials.toml");
    let file = path.to_str().unwrap();
    let added = credentials(file, &["add", "fleet", "--role", "worker", "--jobs", "a-*,b"]);
    assert_eq!(added.code, Some(0));
    assert!(added.err.contains("shown this once"), "{}", added.err);
    let secret = added.out.trim();
    assert!(secret.starts_with("rosterd_") && secret.len() == 68, "one line, for programs");
    credentials(file, &["add", "wall", "--role", "viewer", "--certificate", "cn:wall"]).ok();

    let listed = credentials(file, &["list"]).ok();
    let id = &secret[8..24];
    assert!(listed.contains("fleet") && listed.contains("a-*, b") && listed.contains(id), "{listed}");
    assert!(listed.contains("cn:wall"), "{listed}");
    let json = credentials(file, &["list", "--json"]).json();
    assert_eq!((json[0]["proof"].as_str(), json[1]["role"].as_str()), (Some(id), Some("viewer")));
    let text = std::fs::read_to_string(&path).unwrap();
    let printed = rosterd(["serve", "--data-dir", "d", "--credentials", file, "--print-config"]).ok();
    for shown in [&listed, &json.to_string(), &text, &printed] {
        assert!(!shown.contains(&secret[25..]), "{shown}");
    }
    assert!(!printed.contains("sha256"), "{printed}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let check = ["serve", "--data-dir", "d", "--credentials", file, "--check"];
    assert_eq!(rosterd(check).ok(), "the configuration is valid\n");

    assert_eq!(credentials(file, &["revoke", id]).ok(), format!("{id} revoked (1)\n"));
    assert!(!credentials(file, &["list"]).ok().contains("fleet"));
    credentials(file, &["revoke", "wall"]).ok();
    assert_eq!(credentials(file, &["list"]).ok(), "no credentials: nobody may do anything\n");
    assert_eq!(rosterd(check).ok(), "the configuration is valid\n");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    let file = file.to_str().unwrap();
    for (args, told) in [
        (&["add", "a b", "--role", "worker"][..], "invalid credential name"),
        (&["add", "a", "--role", "root"], "expected worker, viewer, operator or admin"),
        (&["add", "a", "--role", "viewer", "--jobs", "x"], "leave it out"),
        (&["add", "a", "--role", "worker", "--certificate", "x"], "write cn:NAME"),
        (&["add", "a", "--role", "worker", "--jobs", "x y"], "write for example billing"),
        (&["revoke", "nobody"], "there is no credential \"nobody\""),
        (&["list"], "it cannot be read"),
    ] {
        let ran = credentials(file, args);
        assert_eq!(ran.code, Some(1), "{args:?}");
        assert!(
            ran.err.starts_with("rosterd: CREDENTIALS: ") && ran.err.contains(told),
            "{args:?}: {}",
            ran.err
        );
        assert_eq!(ran.out, "", "{args:?}");
    }
    assert!(!std::path::Path::new(file).exists(), "what was refused left no file");
}

/// A secret on the command line could be read by other users of the machine: there is no way to put it there.
#[test]
fn a_credential_comes_from_a_file_or_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    for (file, told) in [
        (empty.to_str().unwrap(), "is empty"),
        ("/nowhere", "cannot be read"),
        ("rosterd_0011_secret", "revoke it, and put the next one into a file"),
    ] {
        let ran = rosterd(["jobs", "list", "--credential", file]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.err.contains("--credential") && ran.err.contains(told), "{}", ran.err);
        assert!(!ran.err.contains("0011"), "{}", ran.err);
    }
    let help =
        command().args(["jobs", "list", "--help"]).env("ROSTERD_CREDENTIAL", "s3cret").output().unwrap();
    let help: Ran = help.into();
    assert!(!help.ok().contains("s3cret"));
}
