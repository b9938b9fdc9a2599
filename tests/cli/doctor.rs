//! `rosterd doctor`: each defect with what to do about it.

use std::os::unix::fs::PermissionsExt as _;

use crate::binary::rosterd;

#[test]
fn what_is_wrong_is_said_with_what_to_do_and_where_to_read_on() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().to_str().unwrap();
    let sick = rosterd(["doctor", "--data-dir", path, "--server", "127.0.0.1:1"]);
    assert_eq!(sick.code, Some(1), "{}", sick.err);
    assert_eq!(sick.err, "rosterd: UNHEALTHY: 2 problems found\n");
    for part in [
        "ok       configuration  it is valid",
        "others may read or write",
        &format!("→ chmod 700 {path}"),
        "docs/guide/src/operate.md",
        "no coordinator answers at 127.0.0.1:1",
    ] {
        assert!(sick.out.contains(part), "{part}:\n{}", sick.out);
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let told = rosterd(["doctor", "--data-dir", path, "--server", "127.0.0.1:1", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let bad: Vec<_> = found.as_array().unwrap().iter().filter(|found| found["level"] == "bad").collect();
    assert_eq!((bad.len(), &bad[0]["area"]), (1, &serde_json::json!("reachability")), "{found}");
    assert!(
        found.as_array().unwrap().iter().any(|found| found["area"] == "disk" && found["remedy"].is_null())
    );
    // An unreadable configuration is one more defect, and does not end the command.
    let wrong = rosterd(["doctor", "--data-dir", path, "--set", "lease=soon", "--server", "127.0.0.1:1"]);
    assert!(wrong.out.contains("lease") && wrong.out.contains("serve --check"), "{}", wrong.out);
}

#[test]
fn without_a_terminal_there_is_no_top() {
    let ran = rosterd(["top"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("needs a terminal"), "{}", ran.err);
}
