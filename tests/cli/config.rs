//! The configuration as `serve` takes it.

use crate::binary::{Ran, command, rosterd};

fn with_file(toml: &str, env: &[(&str, &str)], args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rosterd.toml"), toml).unwrap();
    let mut command = command();
    command.current_dir(&dir).args(["serve", "--config", "rosterd.toml"]).args(args);
    command.envs(env.iter().copied()).output().unwrap().into()
}

#[test]
fn all_defects_are_said_at_once() {
    let toml =
        "lease = \"6s\"\nsession = 10\nlisten = \"0.0.0.0:7700\"\nmax_conections = 5\n[limits]\nx = 1\n";
    let ran = with_file(toml, &[("ROSTERD_NAMESPACE", "a/b")], &["--set", "max_workers=0"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    let wanted = "\
rosterd: CONFIG_INVALID: the configuration has 8 defects
  limits: unknown field (rosterd.toml); --print-config lists the fields
  max_conections: unknown field (rosterd.toml); did you mean max_connections?
  namespace = \"a/b\" (ROSTERD_NAMESPACE): namespace \"a/b\" is not a name: it holds a character that a name may \
not have; use 1 to 128 letters, marks and digits of any script or . _ -, at most 255 bytes; give the namespace another name
  session = \"10\" (rosterd.toml): invalid duration; write 1s to 10m, a whole number and one of ms, s, m, h, d
  max_workers = \"0\" (command line): out of range; write 1 to 1000000
  data_dir: it is not set, and the embedded store keeps its data there; give --data-dir DIR
  listen = \"0.0.0.0:7700\" (rosterd.toml): anyone who can reach it could run and remove jobs: it is not \
a loopback address, and no credentials are configured; give a credential file with --credentials, or say --insecure-listen if \
the network itself is trusted
  listen = \"0.0.0.0:7700\" (rosterd.toml): credentials and jobs could be read in transit: it is not a loopback \
address, and TLS is not configured; give --tls-cert and --tls-key, or say --insecure-listen if a proxy before it speaks TLS or the \
network itself is trusted
";
    assert_eq!(ran.err, wanted);
}

#[test]
fn the_rules_between_times_are_told_with_their_numbers() {
    let ran =
        rosterd(["serve", "--data-dir", "d", "--check", "--set", "session=8s", "--set", "heartbeat=2s"]);
    let wanted = "\
rosterd: CONFIG_INVALID: the configuration has 2 defects
  session = \"8s\" (command line): a lease of 5s needs a session of 10s, twice as long; set session to 10s or \
lease to 4s
  lease = \"5s\" (default): a heartbeat of 2s needs a lease of 6s, three times as long; set lease to 6s or \
heartbeat to 1666ms
";
    assert_eq!((ran.code, ran.err.as_str()), (Some(2), wanted));
}

#[test]
fn a_flag_overrides_the_environment_and_that_the_file() {
    let toml = "listen = \"127.0.0.1:1\"\nlease = \"4s\"\nheartbeat = \"800ms\"\ndata_dir = \"d\"\n";
    let env =
        [("ROSTERD_LISTEN", "127.0.0.1:2"), ("ROSTERD_LEASE", "3s"), ("ROSTERD_PORT", "tcp://10.0.0.1:7700")];
    let printed = with_file(toml, &env, &["--listen", "127.0.0.1:3", "--print-config"]).ok();
    for line in [
        "listen = \"127.0.0.1:3\"  # command line",
        "lease = \"3s\"  # ROSTERD_LEASE",
        "heartbeat = \"800ms\"  # rosterd.toml",
        "session = \"10s\"",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
    }
}

#[test]
fn the_printed_configuration_is_the_documented_one_and_can_be_read_again() {
    let printed = rosterd(["serve", "--data-dir", "/var/lib/rosterd", "--print-config"]).ok();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/golden/print-config.toml");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, &printed).unwrap();
    }
    assert_eq!(printed, std::fs::read_to_string(golden).unwrap(), "UPDATE_GOLDEN=1 writes it anew");
    assert_eq!(with_file(&printed, &[], &["--check"]).ok(), "the configuration is valid\n");
}

/// Users who do not know the fields are sent here.
#[test]
fn the_fields_are_printed_before_anything_is_set() {
    let bare = rosterd(["serve", "--print-config"]).ok();
    let with = rosterd(["serve", "--data-dir", "d", "--print-config"]).ok();
    assert_eq!(bare, with.replace("data_dir = \"d\"  # command line", "# data_dir = \"\""));
    let on_zookeeper = rosterd(["serve", "--registry", "zookeeper", "--print-config"]).ok();
    assert!(on_zookeeper.contains("\n# zk = \"\"\n"), "{on_zookeeper}");
    // Invalid settings are still refused.
    let refused = rosterd(["serve", "--set", "lease=x", "--print-config"]);
    assert!(refused.err.contains("has 1 defect\n  lease = \"x\""), "{}", refused.err);
    // And it does not serve.
    let served = rosterd(["serve", "--check"]);
    assert!(served.err.contains("data_dir: it is not set"), "{}", served.err);
}

#[test]
fn a_registry_on_zookeeper_needs_servers_and_all_of_its_credentials() {
    let zookeeper = ["serve", "--registry", "zookeeper", "--check"];
    let given = |more: &[&str]| rosterd(zookeeper.iter().chain(more).copied());
    assert_eq!(
        given(&["--zk", "127.0.0.1:2181,localhost:2182/root", "--namespace", "ns"]).ok(),
        "the configuration is valid\n"
    );
    let open = ["--zk", "h1:2181,h2:2181/root"];
    let refused = given(&open);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("has 1 defect\n  zk = \"h1:2181,h2:2181/root\" (command line): anyone who"));
    assert!(refused.err.contains("or say --insecure-registry"), "{}", refused.err);
    given(&[open[0], open[1], "--insecure-registry"]).ok();
    let table: &[(&[&str], &str)] = &[
        (&[], "zk: it is not set, and the store is on ZooKeeper; give --zk"),
        (&["--zk", "h1:2181,h2"], "\"h2\" is not a server; write host:port"),
        (&["--zk", "h1:2181/a//b"], "\"/a//b\" is not a path; write host:port"),
        (&["--zk", "h:1", "--set", "zk_user=ann"], "zk_auth is not set; set zk_auth to digest or sasl"),
        (&["--zk", "h:1", "--set", "zk_auth=plain"], "unknown method; write digest or sasl"),
        (
            &["--zk", "h:1", "--set", "zk_auth=sasl"],
            "zk_password_file: it is not set, and zk_auth needs a password",
        ),
        (
            &["--zk", "h:1", "--set", "zk_tls_cert=Cargo.toml"],
            "zk_tls_key: it is not set, and zk_tls_cert is",
        ),
        (
            &["--zk", "h:1", "--set", "zk_tls_ca=/nowhere"],
            "zk_tls_ca = \"/nowhere\" (command line): it cannot be read",
        ),
        (&["--zk", "h:1", "--set", "zk_retry_max=1ms"], "it is less than zk_retry_base"),
    ];
    for (more, expected) in table {
        let ran = given(more);
        assert_eq!(ran.code, Some(2), "{more:?}");
        assert!(ran.err.contains(expected), "{more:?}: {}", ran.err);
    }
    let both = rosterd(["serve", "--data-dir", "d", "--zk", "h:1", "--set", "zk_auth=sasl", "--check"]);
    assert!(both.err.contains("2 defects") && both.err.contains("leave zk_auth out"), "{}", both.err);
}

#[test]
fn a_data_directory_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    // An address that is taken: if the directory were not refused, the address would be, and it would not serve.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for registry in [&["--registry", "embedded"][..], &["--zk", "127.0.0.1:1", "--registry", "zookeeper"]] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().to_str().unwrap();
        let serve = ["serve", "--listen", &address, "--log", "off", "--data-dir", path];
        let ran = rosterd(serve.iter().chain(registry));
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let told = format!(
            "data_dir {path} cannot be used: others on this machine may read or write it (mode 0755)"
        );
        assert!(ran.err.contains(&told), "{}", ran.err);
        assert!(ran.err.contains("chmod 700 it, or name a directory below it"), "{}", ran.err);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "nothing was made in it");
    }
}

#[test]
fn a_credential_file_must_be_there() {
    let ran = rosterd([
        "serve",
        "--data-dir",
        "d",
        "--listen",
        "0.0.0.0:1",
        "--credentials",
        "/nowhere/at/all",
        "--check",
    ]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.err.contains("credentials = \"/nowhere/at/all\" (command line): it cannot be read"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("no credentials are configured"), "{}", ran.err);
    assert!(ran.err.contains("TLS is not configured; give --tls-cert and --tls-key"), "{}", ran.err);
}
