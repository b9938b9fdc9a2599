//! A client that is generated from the description of REST drives a real coordinator: what the description says is what is
//! served. The client is made by openapi-typescript and compiled with all checks, so that what it may send and read is the
//! description's (`tests/openapi`; its packages are installed by `cargo xtask setup`).

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::harness::*;
use crate::http::{self, Answered};

/// Runs one program of the client's folder.
fn run(what: &str, words: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi");
    assert!(folder.join("node_modules").exists(), "the client's packages are missing: run cargo xtask setup");
    let ran = Command::new("node").args(words).current_dir(&folder).output().unwrap();
    let told = [ran.stdout, ran.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(ran.status.success(), "{what}: {told}");
}

/// A coordinator without TLS and the secret of an admin.
async fn guarded() -> (Cluster, String) {
    let mut cluster = Cluster::prepare(SHORT, &[]);
    let file = cluster.home.path("credentials.toml");
    let file = file.to_str().unwrap();
    let mut command = Command::new(binary(false));
    clean(&mut command);
    let added =
        command.args(["credentials", "add", "boss", "--role", "admin", "--file", file]).output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    cluster.settings.push(format!("credentials={file}"));
    cluster.launch();
    cluster.listening().await;
    (cluster, String::from_utf8(added.stdout).unwrap().trim().to_owned())
}

async fn ask(cluster: &Cluster, method: &str, path: &str, heads: &str, body: &str) -> Answered {
    http::ask(SocketAddr::from(([127, 0, 0, 1], cluster.port)), method, path, heads, body).await
}

#[tokio::test]
async fn a_generated_client_drives_a_coordinator() {
    let (cluster, credential) = guarded().await;
    let address = format!("http://127.0.0.1:{}", cluster.port);
    let heads = format!("Authorization: Bearer {credential}\r\n");
    let document = ask(&cluster, "GET", "/api/openapi.json", &heads, "").await;
    assert_eq!(document.code, 200, "{}", document.body);
    let described = cluster.home.path("openapi.json");
    std::fs::write(&described, &document.body).unwrap();
    let described = described.to_str().unwrap();
    let generator = "node_modules/openapi-typescript/bin/cli.js";
    run("it is generated", &[generator, described, "--output", "schema.ts"]);
    run("it compiles", &["node_modules/typescript/bin/tsc", "--project", "."]);
    run("it drives", &["build/drive.js", &address, &credential, described]);
}

/// A person stays logged in while the coordinator is replaced, and the audit says who came.
#[tokio::test]
async fn a_login_outlives_the_coordinator_and_is_in_the_audit() {
    let (mut cluster, credential) = guarded().await;
    let body = serde_json::json!({ "credential": credential }).to_string();
    let login = ask(&cluster, "POST", "/api/session", "Content-Type: application/json\r\n", &body).await;
    assert_eq!(login.code, 200, "{}", login.body);
    let cookie = login.head("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let token = login.json()["csrfToken"].as_str().unwrap().to_owned();
    let key = cluster.data.join("login.key");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&key.metadata().unwrap().permissions()) & 0o777,
        0o600
    );
    cluster.kill_coordinator();
    cluster.launch();
    cluster.listening().await;
    let heads = format!("Cookie: {cookie}\r\nX-CSRF-Token: {token}\r\n");
    assert_eq!(ask(&cluster, "GET", "/api/session", &heads, "").await.json()["principal"], "boss");
    let removed = ask(&cluster, "DELETE", "/api/jobs/config/nosuch", &heads, "").await;
    assert_eq!(
        (removed.code, removed.json()["code"].as_str()),
        (404, Some("JOB_UNKNOWN")),
        "{}",
        removed.body
    );
    wait("the login in the audit", || async {
        let rows = ask(&cluster, "GET", "/api/events?kind=operation", &heads, "").await.json();
        let rows = rows.as_array().cloned().unwrap_or_default();
        let is_login = |row: &serde_json::Value| {
            row["what"].as_str().is_some_and(|what| what.contains("log in to the console"))
        };
        rows.into_iter().find(|row| is_login(row) && row["principal"] == "boss")
    })
    .await;
}
