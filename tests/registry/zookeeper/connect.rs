//! Opening a session: with which credentials, where, and the errors if it fails.

use std::time::{Duration, Instant};

use rosterd_domain::txn::Commit;
use rosterd_registry::Registry;
use rosterd_registry::zookeeper::{Backoff, ConnectError, Credentials, ZooKeeperOptions, ZooKeeperRegistry};
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

use super::old::Old;
use super::{connect, on_single, raw};
use crate::words::*;
use crate::zookeeper_server::Ensemble;

fn digest(password: &str) -> Option<Credentials> {
    Some(Credentials::Digest { user: "ann".into(), password: password.into() })
}

async fn refused_to(options: ZooKeeperOptions) -> ConnectError {
    match ZooKeeperRegistry::connect(options).await {
        Ok(registry) => panic!("a session was opened: {}", registry.session()),
        Err(error) => error,
    }
}

#[tokio::test]
async fn nodes_belong_to_the_credentials_that_made_them() {
    let open = on_single().await;
    let options = ZooKeeperOptions { credentials: digest("secret"), ..open.clone() };
    let registry = connect(&options).await;
    put(&registry, [create(&j(), "i1"), write_instance("w"), attach("w", None, 1)]).await;
    let client = zookeeper_client::Client::connector()
        .with_auth("digest", b"ann:secret")
        .connect(&options.servers)
        .await
        .unwrap();
    for path in
        ["/ns", "/ns/job", "/ns/job/config", "/ns/job/instances/10.0.0.7@-@w", "/rosterd/ns/workers/w"]
    {
        let (acls, _) = client.get_acl(path).await.unwrap();
        let shown: Vec<_> = acls.iter().map(|acl| (acl.scheme(), acl.permission())).collect();
        assert_eq!(shown, [("digest", Permission::ALL)], "{path}");
        assert!(acls[0].id().starts_with("ann:"));
    }
    for credentials in [None, digest("wrong")] {
        let error = refused_to(ZooKeeperOptions { credentials, ..open.clone() }).await;
        let text = error.to_string();
        assert!(matches!(error, ConnectError::NotAllowed { .. }), "{text}");
        assert!(text.contains("other credentials") && !text.contains("wrong"), "{text}");
    }
    let again = connect(&options).await;
    put(&again, [assign(0, "a1")]).await;
}

/// Gives all nodes from `path` down to the client's identity, as `setAcl -R PATH auth::cdrwa` does.
async fn give_to_all_of(client: &zookeeper_client::Client, path: String) {
    let mut folders = vec![path];
    while let Some(path) = folders.pop() {
        let acl = [Acl::new(Permission::ALL, AuthId::authed())];
        client.set_acl(&path, &acl, None).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        folders
            .extend(client.list_children(&path).await.unwrap().iter().map(|name| format!("{path}/{name}")));
    }
}

/// The guide's procedure to change a password: a node names the user and a hash of the password.
#[tokio::test]
async fn another_password_is_let_in_once_the_nodes_are_given_to_both() {
    let open = on_single().await;
    let with = |password| ZooKeeperOptions { credentials: digest(password), ..open.clone() };
    let before = connect(&with("secret")).await;
    put(&before, [create(&j(), "i1"), attach("w", None, 1)]).await;
    let error = refused_to(with("next")).await;
    assert!(matches!(error, ConnectError::NotAllowed { .. }), "{error}");
    let both = zookeeper_client::Client::connector()
        .with_auth("digest", b"ann:secret")
        .with_auth("digest", b"ann:next")
        .connect(&open.servers)
        .await
        .unwrap();
    // The first of them also created the root of the options.
    both.set_acl("/", &[Acl::new(Permission::ALL, AuthId::authed())], None).await.unwrap();
    for path in ["/ns", "/rosterd/ns"] {
        give_to_all_of(&both, path.to_owned()).await;
    }
    let after = connect(&with("next")).await;
    put(&after, [assign(0, "a1"), create(&job("b"), "i1")]).await;
    // Both may use existing nodes. New nodes belong only to the new one: coordinators change all together.
    put(&before, [assign(1, "a2")]).await;
    let Err(error) = before.job(&job("b")).await else { panic!("it was read") };
    assert!(error.to_string().contains("does not allow"), "{error}");
}

#[tokio::test]
async fn a_write_to_a_foreign_node_is_refused_in_words() {
    let options = on_single().await;
    let registry = connect(&options).await;
    put(&registry, [create(&j(), "i1")]).await;
    let foreign = zookeeper_client::Client::connector().with_auth("digest", b"bob:x");
    let foreign = foreign.connect(&options.servers).await.unwrap();
    let mode = CreateMode::Persistent.with_acls(Acls::creator_all());
    foreign.create("/ns/job/rosterd/paused", &[], &mode).await.unwrap();
    let commit = registry.commit(txn([], [rosterd_domain::txn::Write::Paused(j(), true)])).await;
    let Commit::Unavailable(text) = commit else { panic!("{commit:?}") };
    assert!(text.contains("does not allow") && text.contains("credentials"), "{text}");
    let Err(error) = registry.job(&j()).await else { panic!("it was read") };
    assert!(error.to_string().contains("does not allow"), "{error}");
}

#[tokio::test]
async fn sasl_tells_a_wrong_password_at_once() {
    let provider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider".to_owned();
    let ensemble = tokio::task::spawn_blocking(move || Ensemble::start(1, &[provider])).await.unwrap();
    let options = |password: &str| ZooKeeperOptions {
        credentials: Some(Credentials::Sasl { user: "ann".into(), password: password.into() }),
        ..ZooKeeperOptions::new(ensemble.list(), namespace())
    };
    let error = refused_to(options("wrong")).await;
    assert!(matches!(error, ConnectError::Credentials { .. }), "{error}");
    assert!(error.to_string().contains("credentials of ann"), "{error}");
    let registry = connect(&options("secret")).await;
    put(&registry, [create(&j(), "i1")]).await;
    let anonymous = raw(&ZooKeeperOptions::new(ensemble.list(), namespace())).await;
    for path in ["/ns", "/ns/job", "/ns/job/config", "/rosterd/ns"] {
        assert_eq!(anonymous.get_data(path).await.unwrap_err(), zookeeper_client::Error::NoAuth, "{path}");
    }
}

#[tokio::test]
async fn everything_is_below_the_chroot_which_is_made() {
    let mut options = on_single().await;
    let server = options.servers.split('/').next().unwrap().to_owned();
    options.servers.push_str("/deep/er");
    let root = options.servers[server.len()..].to_owned();
    let registry = connect(&options).await;
    put(&registry, [create(&j(), "i1"), attach("w", None, 1)]).await;
    let client = raw(&ZooKeeperOptions { servers: server, ..options.clone() }).await;
    let mut children = client.list_children(&root).await.unwrap();
    children.sort();
    assert_eq!(children, ["ns", "rosterd"]);
    assert_eq!(client.list_children(&format!("{root}/ns")).await.unwrap(), ["job"]);
    let mut hints = registry.hints();
    put(&registry, [create(&job("b"), "i1")]).await;
    super::until(&mut hints, &rosterd_registry::Hint::Jobs).await;
}

#[tokio::test]
async fn unreachable_servers_are_named_with_the_reason() {
    let nobody = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let silent = nobody.local_addr().unwrap();
    // Bound, so that it is reserved; nothing listens.
    let refusing = tokio::net::TcpSocket::new_v4().unwrap();
    refusing.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = refusing.local_addr().unwrap();
    let backoff = Backoff { base: Duration::from_millis(10), max: Duration::from_millis(20), retries: 2 };
    let options = ZooKeeperOptions {
        backoff,
        connect_timeout: Duration::from_millis(500),
        ..ZooKeeperOptions::new(format!("{free},{silent}"), namespace())
    };
    let begun = Instant::now();
    let error = refused_to(options).await;
    let text = error.to_string();
    assert!(matches!(error, ConnectError::Unreachable { tries: 3, .. }), "{text}");
    assert!(text.contains(&format!("{free} cannot be reached")), "{text}");
    assert!(text.contains(&format!("{silent} silent")) && text.contains("majority"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_server_without_a_majority_is_recognized() {
    let mut ensemble = tokio::task::spawn_blocking(|| Ensemble::start(3, &[])).await.unwrap();
    ensemble.servers[0].kill();
    ensemble.servers[1].kill();
    let alone = format!("127.0.0.1:{}", ensemble.servers[2].port);
    let begun = Instant::now();
    while !ensemble.servers[2].ask("srvr").is_some_and(|said| said.contains("not currently serving")) {
        assert!(begun.elapsed() < super::PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let backoff = Backoff { retries: 0, ..Backoff::default() };
    let options = ZooKeeperOptions {
        backoff,
        session_timeout: Duration::from_secs(2),
        ..ZooKeeperOptions::new(alone, namespace())
    };
    let text = refused_to(options).await.to_string();
    assert!(text.contains("is in no majority of its ensemble"), "{text}");
}

/// It accepts no writes, and gives a session only to clients that request a read-only one.
#[tokio::test]
async fn a_read_only_server_is_recognized() {
    let read_only = ["-Dreadonlymode.enabled=true".to_owned()];
    let start = move || Ensemble::start(3, &read_only);
    let mut ensemble = tokio::task::spawn_blocking(start).await.unwrap();
    ensemble.servers[0].kill();
    ensemble.servers[1].kill();
    let begun = Instant::now();
    while !ensemble.servers[2].ask("srvr").is_some_and(|said| said.contains("Mode: read-only")) {
        assert!(begun.elapsed() < super::PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let alone = format!("127.0.0.1:{}", ensemble.servers[2].port);
    let options = ZooKeeperOptions {
        backoff: Backoff { retries: 0, ..Backoff::default() },
        session_timeout: Duration::from_secs(2),
        ..ZooKeeperOptions::new(alone, namespace())
    };
    let error = refused_to(options).await;
    let text = error.to_string();
    assert!(matches!(error, ConnectError::Unreachable { tries: 1, .. }), "{text}");
    assert!(text.contains("serves only reads: it is cut off from the majority of its ensemble"), "{text}");
}

#[tokio::test]
async fn servers_that_are_too_old_are_recognized() {
    let options = on_single().await;
    let (server, root) = options.servers.split_once('/').unwrap();
    let old = Old::before(server.to_owned()).await;
    let servers = format!("{}/{root}", old.address);
    let error = refused_to(ZooKeeperOptions { servers, ..options.clone() }).await;
    let text = error.to_string();
    assert!(matches!(error, ConnectError::TooOld { .. }), "{text}");
    assert!(text.contains(&old.address.to_string()) && text.contains("3.6"), "{text}");
    // The same servers without the proxy that makes them old.
    connect(&options).await;
}

/// ZooKeeper removes containers that are empty, and Elastic-Job makes the namespace one.
#[tokio::test]
async fn folders_that_went_are_made_again() {
    let options = on_single().await;
    let registry = connect(&options).await;
    let client = raw(&options).await;
    for round in 0..2 {
        put(&registry, [create(&j(), "i1"), attach("w", None, 1)]).await;
        committed(
            registry
                .commit(txn(
                    [rosterd_domain::txn::Guard::Incarnation(j(), "i1".into())],
                    [rosterd_domain::txn::Write::EndJob(j())],
                ))
                .await,
        );
        put(&registry, [rosterd_domain::txn::Write::SweepJob { job: j(), limit: 1_000 }]).await;
        let version = rosterd_domain::id::Version(0);
        let gone = rosterd_domain::txn::Write::RemoveAttachment { worker: worker("w"), expect: version };
        put(&registry, [gone]).await;
        for path in ["/ns", "/rosterd/ns/workers", "/rosterd/ns/coordinators", "/rosterd/ns"] {
            client.delete(path, None).await.unwrap_or_else(|error| panic!("{round} {path}: {error}"));
        }
    }
    put(&registry, [create(&j(), "i1"), attach("w", None, 1)]).await;
    let node = rosterd_domain::txn::Write::Coordinator { id: coordinator("c"), data: "".into() };
    put(&registry, [node]).await;
}
