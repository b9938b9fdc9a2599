//! Authentication, of clients and of servers.

use rosterd_domain::item::{Outcome, Source};
use rosterd_history::{Address, Options, Roots, Trust};

use crate::certificates::Authority;
use crate::desk::{Desk, ended, run, until};
use crate::postgres::Postgres;

/// Whether rows were sent, or why not.
async fn outcome(address: Address) -> Result<(), String> {
    let desk = Desk::with(address, Options::default(), 64 << 20);
    desk.record(&ended(0, 1, run(Source::NormalTrigger, 0), Outcome::Succeeded), None);
    desk.recorder.settle().await;
    let outcome = until(|| {
        let status = desk.recorder.status();
        match (status.trouble, status.sent) {
            (Some(trouble), _) => Ok(Err(trouble)),
            (None, 1..) => Ok(Ok(())),
            (None, 0) => Err("neither sent nor refused".to_owned()),
        }
    })
    .await;
    if outcome.is_ok() {
        assert_eq!(desk.runs().await.len(), 1, "readers come in the same way");
    }
    outcome
}

#[tokio::test]
async fn the_server_is_trusted_only_as_configured() {
    let (ca, other) = (Authority::new("ours"), Authority::new("another"));
    let pair = ca.server(&["localhost"]);
    let server = Postgres::start_with(
        &["ssl=on", "ssl_cert_file={dir}/server.crt", "ssl_key_file={dir}/server.key"],
        |dir| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::write(dir.join("server.crt"), &pair.certificate).unwrap();
            std::fs::write(dir.join("server.key"), &pair.key).unwrap();
            std::fs::set_permissions(dir.join("server.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        },
        Some("hush"),
    );
    let by_name = format!("postgres://rosterd@localhost:{}/postgres", server.port);
    let (ours, theirs) = (|| Roots::Pem(ca.pem().into()), || Roots::Pem(other.pem().into()));
    let mut tried = 0;
    let mut connect = |url: &str, password: Option<&str>, trust: Trust| {
        tried += 1;
        Address::new(url, password.map(str::as_bytes), &trust, &format!("t{tried}")).unwrap()
    };
    let hush = Some("hush");
    outcome(connect(&by_name, hush, Trust::Full(ours()))).await.unwrap();
    outcome(connect(&server.url(), hush, Trust::Chain(ours()))).await.unwrap();
    outcome(connect(&server.url(), hush, Trust::Anybody)).await.unwrap();
    outcome(connect(&server.url(), hush, Trust::Plain)).await.unwrap();
    let within = format!("postgres://rosterd:hush@localhost:{}/postgres", server.port);
    outcome(connect(&within, None, Trust::Full(ours()))).await.unwrap();
    for (trust, url, password, expected) in [
        (Trust::Full(ours()), server.url(), hush, "not valid for name"),
        (Trust::Full(theirs()), by_name.clone(), hush, "certificate"),
        (Trust::Chain(theirs()), by_name.clone(), hush, "certificate"),
        (Trust::Full(ours()), by_name.clone(), Some("wrong"), "password authentication failed"),
        (Trust::Full(ours()), by_name.clone(), None, "password"),
    ] {
        let why = outcome(connect(&url, password, trust.clone())).await.unwrap_err();
        assert!(why.contains(expected), "{trust:?} {why}");
        assert!(!why.contains("hush"), "{why}");
    }
}

#[test]
fn an_address_shows_no_password() {
    let url = "postgres://ann:hush@one:1,two:2/jobs";
    let address = Address::new(url, None, &Trust::Plain, "ns").unwrap();
    assert_eq!(address.shown(), "postgres://one:1,two:2/jobs");
    assert_eq!(format!("{address:?}"), "postgres://one:1,two:2/jobs");
    for bad in ["postgres://ann:hush@", "hush", "postgres://ann:hush@db"] {
        let error = Address::new(bad, None, &Trust::Plain, "ns").unwrap_err().to_string();
        assert!(error.contains("postgres://user@host") && !error.contains("hush"), "{error}");
    }
    let wrong = Address::new(url, None, &Trust::Full(Roots::Pem(b"no".to_vec())), "ns").unwrap_err();
    assert!(wrong.to_string().contains("no certificate"), "{wrong}");
}
