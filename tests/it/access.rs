//! Authentication with real processes: TLS and certificates, secrets that are revoked while streams are open, files
//! that are renewed while the coordinator runs, and the messages for mistakes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::json;

use crate::certificates::Authority;
use crate::harness::*;

/// A coordinator with TLS and credentials.
struct Guarded {
    cluster: Cluster,
    ca: Authority,
    clients: Authority,
    admin: String,
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The binary without the tests' own environment, run to its end.
fn rosterd(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary(false));
    clean(&mut command);
    command.args(arguments).envs(environment.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

impl Guarded {
    async fn start(names: &[&str], more: &[&str]) -> Self {
        let (ca, clients) = (Authority::new("servers"), Authority::new("clients"));
        let mut cluster = Cluster::prepare(SHORT, more);
        cluster.scheme = "https";
        let home = cluster.home.path("");
        ca.server(names).write(&home, "server");
        std::fs::write(home.join("clients.pem"), clients.pem()).unwrap();
        std::fs::write(home.join("ca.pem"), ca.pem()).unwrap();
        let mut it = Self { cluster, ca, clients, admin: String::new() };
        it.admin = it.add("boss", &["--role", "admin"]);
        for (field, file) in [
            ("credentials", "credentials.toml"),
            ("tls_cert", "server.pem"),
            ("tls_key", "server.key"),
            ("tls_client_ca", "clients.pem"),
        ] {
            let setting = format!("{field}={}", path(&it.file(file)));
            it.cluster.settings.push(setting);
        }
        it.cluster.launch();
        it.cluster.listening().await;
        it
    }

    fn file(&self, name: &str) -> PathBuf {
        self.cluster.home.path(name)
    }

    /// Changes the credential file with the command line.
    fn credentials(&self, word: &str, name: &str, more: &[&str]) -> String {
        let file = self.file("credentials.toml");
        let done = rosterd(&[&["credentials", word, name, "--file", path(&file)], more].concat(), &[]);
        assert!(done.status.success(), "{}", said(&done));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// A new credential's secret.
    fn add(&self, name: &str, more: &[&str]) -> String {
        self.credentials("add", name, more)
    }

    /// Runs the command line against the coordinator, with this secret.
    fn ask(&self, secret: &str, arguments: &[&str]) -> Output {
        let (ca, url) = (self.file("ca.pem"), self.cluster.url());
        rosterd(
            arguments,
            &[("ROSTERD_CA", path(&ca)), ("ROSTERD_SERVER", &url), ("ROSTERD_CREDENTIAL", secret)],
        )
    }

    /// The same; it must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.ask(&self.admin, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        said(&output)
    }

    fn apply(&self, text: &str) {
        let file = self.file("job.json");
        std::fs::write(&file, text).unwrap();
        self.done(&["jobs", "apply", "--file", path(&file)]);
    }

    /// A worker that runs a program, with this certificate or secret.
    fn exec(&mut self, name: &str, job: &str, proof: &[(&str, &str)]) {
        let gate = self.file("gate");
        let mut command = Command::new(binary(false));
        clean(&mut command);
        command.args(["exec", "--server", &self.cluster.url(), "--job", job, "--address", name]);
        // Its lease ends its programs, and not a stall of a busy machine.
        command.args(["--guard-silence", "30s", "--"]);
        let script = format!("while ! test -e {}; do sleep 0.05; done; echo did $ROSTERD_ITEM", path(&gate));
        command.args(["sh", "-c", &script]).env("ROSTERD_CA", self.file("ca.pem"));
        command.envs(proof.iter().copied());
        let log = self.file(&format!("{name}.log"));
        let proc = Proc::spawn(name, command, &log);
        self.cluster.workers.push(WorkerProc { name: name.into(), proc });
    }

    /// Waits until the answer holds all of these.
    async fn answers(&self, arguments: &[&str], all: &[&str]) {
        wait(format!("{arguments:?} to say {all:?}"), || async {
            let answer = said(&self.ask(&self.admin, arguments));
            all.iter().all(|part| answer.contains(part)).then_some(())
        })
        .await;
    }

    fn worker_log(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(&format!("{name}.log"))).unwrap()
    }

    async fn worker_says(&self, name: &str, part: &str) {
        wait(format!("{name} to say {part:?}"), || async {
            self.worker_log(name).contains(part).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn workers_with_certificates_run_jobs_over_mutual_tls() {
    let mut it = Guarded::start(&["localhost", "127.0.0.1"], &["tls_client_auth=required"]).await;
    it.add("host", &["--role", "worker", "--certificate", "cn:worker-7", "--jobs", "both"]);
    let (certificate, key) = it.clients.client("worker-7").write(&it.file(""), "worker-7");
    let proof = [("ROSTERD_CERT", path(&certificate)), ("ROSTERD_KEY", path(&key))];
    // People need a certificate of the same authority here as well; their secret identifies them.
    let (ca, url, admin) = (it.file("ca.pem"), it.cluster.url(), it.admin.clone());
    let own = [
        proof[0],
        proof[1],
        ("ROSTERD_CA", path(&ca)),
        ("ROSTERD_SERVER", &url),
        ("ROSTERD_CREDENTIAL", &admin),
    ];
    let ask = |arguments: &[&str]| rosterd(arguments, &own);
    let file = it.file("job.json");
    std::fs::write(&file, job("both", 4, json!({}))).unwrap();
    wait("the certificate to be known", || async {
        let answer = said(&rosterd(&["jobs", "list"], &own[..4]));
        answer.contains("PERMISSION_DENIED").then_some(())
    })
    .await;
    let applied = ask(&["jobs", "apply", "--file", path(&file)]);
    assert!(applied.status.success(), "{}", said(&applied));
    it.exec("rust", "both", &proof);
    it.python("python", "both", &proof);
    let said_of = |arguments: &[&str]| said(&ask(arguments));
    wait("both to own items", || async {
        let items = said_of(&["items", "--job", "both"]);
        (items.contains("rust@-@") && items.contains("host-python@-@")).then_some(())
    })
    .await;
    it.cluster.home.open("gate");
    assert!(ask(&["jobs", "trigger", "both"]).status.success());
    wait("four runs to have succeeded", || async {
        let runs = said_of(&["runs", "--job", "both", "--json"]);
        (runs.matches("\"succeeded\"").count() + runs.matches("\"SUCCEEDED\"").count() == 4).then_some(())
    })
    .await;
    assert!(said_of(&["probe"]).is_empty());
    // Without a certificate the handshake is refused, and the answer says what is missing.
    let without = it.ask(&it.admin, &["jobs", "list"]);
    assert!(!without.status.success());
    assert!(
        said(&without).contains("if it wants a client certificate, give one and its key"),
        "{}",
        said(&without)
    );
    for name in ["rust", "python"] {
        it.cluster.process(name).signal(Signal::TERM);
        assert!(it.cluster.process(name).end().await.success(), "{}", it.worker_log(name));
    }
}

#[tokio::test]
async fn a_credential_that_is_revoked_ends_its_streams_and_is_refused_from_then_on() {
    let mut it = Guarded::start(&["127.0.0.1"], &[]).await;
    it.apply(&job("long", 2, json!({ "failover": true })));
    let (first, second) = (it.add("first", &["--role", "worker"]), it.add("second", &["--role", "worker"]));
    it.worker_let_in("a", "long", &first).await;
    it.answers(&["items", "--job", "long"], &["a@-@"]).await;
    it.done(&["jobs", "trigger", "long"]);
    it.answers(&["items", "--job", "long"], &["running"]).await;
    it.credentials("revoke", "first", &[]);
    // It is told at once; its runs end with its lease, and move to a worker that still has the right.
    it.worker_says("a", "the credential was revoked").await;
    it.worker_let_in("b", "long", &second).await;
    it.answers(&["items", "--job", "long"], &["b@-@"]).await;
    it.cluster.home.open("gate");
    it.answers(&["runs", "--job", "long"], &["FAILOVER", "succeeded", "crashed"]).await;
    let log = it.cluster.logged();
    assert!(log.contains("credentials were read again") && log.contains("first"), "{log}");
    for secret in [&first, &second, &it.admin] {
        assert!(!log.contains(&secret[25..]), "a secret is in the log");
    }
    // A new worker with it does not get in, and says why.
    it.exec("late", "long", &[("ROSTERD_CREDENTIAL", &first)]);
    assert!(!it.cluster.process("late").end().await.success());
    assert!(it.worker_log("late").contains("the credential that came with the request is not valid"));
}

#[tokio::test]
async fn the_server_is_verified_and_errors_name_their_remedy() {
    let mut it = Guarded::start(&["coordinator.example"], &[]).await;
    let url = it.cluster.url();
    let ca = it.file("ca.pem");
    let names = it.ask(&it.admin, &["jobs", "list"]);
    assert!(said(&names).contains("not for 127.0.0.1, only for"), "{}", said(&names));
    assert!(said(&names).contains("coordinator.example"), "{}", said(&names));
    let worker = it.add("fleet", &["--role", "worker"]);
    it.exec("named", "x", &[("ROSTERD_CREDENTIAL", &worker)]);
    assert!(!it.cluster.process("named").end().await.success());
    assert!(it.worker_log("named").contains("not for 127.0.0.1"), "{}", it.worker_log("named"));

    // Renewed under the right name while it runs: no restart, and an earlier bad file changes nothing.
    std::fs::write(it.file("server.key"), "nonsense").unwrap();
    let log = wait("the bad key to be told", || async {
        Some(it.cluster.logged()).filter(|log| log.contains("those read before stay in force"))
    })
    .await;
    assert!(log.contains("tls_key") && log.contains("server.key"), "{log}");
    it.ca.server(&["127.0.0.1"]).write(&it.file(""), "server");
    it.answers(&["jobs", "list"], &["no jobs"]).await;
    // The credential file has changed once since the start, by one rename.
    let reads = || it.cluster.logged().matches("credentials were read again").count();
    until("the new credential to be read", || reads() == 1).await;
    it.cluster.coordinator.as_ref().unwrap().signal(Signal::HUP);
    until("the files to be read on SIGHUP", || reads() == 2).await;

    let foreign = it.file("foreign.pem");
    std::fs::write(&foreign, Authority::new("servers").pem()).unwrap();
    let asked = |environment: &[(&str, &str)], arguments: &[&str]| said(&rosterd(arguments, environment));
    let secret = ("ROSTERD_CREDENTIAL", it.admin.as_str());
    for wrong in [&[("ROSTERD_CA", path(&foreign)), secret][..], &[secret][..]] {
        let answer = asked(wrong, &["jobs", "list", "--server", &url]);
        assert!(answer.contains("from an authority that is unknown here: name the file"), "{answer}");
    }
    let plain = url.replace("https://", "http://");
    let answer = asked(&[secret], &["jobs", "list", "--server", &plain]);
    assert!(answer.contains("if it speaks TLS, use https://"), "{answer}");
    let answer = asked(&[secret], &["jobs", "list", "--server", "http://10.255.255.1:7700"]);
    assert!(answer.contains("the credential would go there in plain text"), "{answer}");

    it.ca.expired(&["127.0.0.1"]).write(&it.file(""), "server");
    let known = [("ROSTERD_CA", path(&ca)), secret];
    wait("the expired certificate to be shown", || async {
        let answer = asked(&known, &["jobs", "list", "--server", &url]);
        answer.contains("its certificate has expired: renew it there").then_some(())
    })
    .await;
    it.python("snake", "x", &[("ROSTERD_CREDENTIAL", &worker)]);
    assert!(!it.cluster.process("snake").end().await.success());
    let log = it.cluster.logged();
    assert!(!log.contains(&it.admin[25..]), "{log}");
}

#[tokio::test]
async fn workers_in_python_say_what_is_wrong_with_a_certificate() {
    let mut it = Guarded::start(&["coordinator.example"], &[]).await;
    let worker = it.add("fleet", &["--role", "worker"]);
    it.python("name", "x", &[("ROSTERD_CREDENTIAL", &worker)]);
    let foreign = it.file("foreign.pem");
    std::fs::write(&foreign, Authority::new("others").pem()).unwrap();
    it.python("foreign", "x", &[("ROSTERD_CREDENTIAL", &worker), ("ROSTERD_CA", path(&foreign))]);
    for (name, part) in [("name", "is not for this name"), ("foreign", "ROSTERD_CA")] {
        assert!(!it.cluster.process(name).end().await.success());
        let lines = it.cluster.lines();
        let exit = lines.iter().find(|line| line.worker == name && line.detail.contains(part));
        assert!(exit.is_some(), "{name}: {:?}\n{}", lines, it.worker_log(name));
    }
}

#[test]
fn check_names_the_file_that_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, other) = (Authority::new("a"), Authority::new("b"));
    let (certificate, key) = ca.server(&["a.example"]).write(dir.path(), "good");
    let (_, wrong) = other.server(&["a.example"]).write(dir.path(), "wrong");
    let data = dir.path().join("data");
    let check = |more: &[&str]| {
        let own = ["serve", "--check", "--data-dir", path(&data)];
        said(&rosterd(&[&own[..], more].concat(), &[]))
    };
    let good = ["--tls-cert", path(&certificate), "--tls-key", path(&key)];
    assert_eq!(check(&good), "the configuration is valid\n");
    let told = check(&["--tls-cert", path(&certificate), "--tls-key", path(&wrong)]);
    assert!(told.contains("tls_key") && told.contains("not the key of the certificate"), "{told}");
    let told = check(&["--tls-cert", path(&key), "--tls-key", path(&key)]);
    assert!(told.contains("tls_cert") && told.contains("holds no certificate"), "{told}");
    let credentials = dir.path().join("c.toml");
    std::fs::write(&credentials, "[[credential]]\nname='a'\nrole='root'\ncertificate='cn:a'\n").unwrap();
    let told = check(&["--credentials", path(&credentials)]);
    assert!(told.contains("c.toml: a: invalid role \"root\""), "{told}");
}

impl Guarded {
    /// Restarts a worker until the coordinator has read its credential.
    async fn worker_let_in(&mut self, name: &str, job: &str, secret: &str) {
        wait("the credential to be known", || async {
            // Authenticated: the refusal is about rights, not about the credential.
            let answer = said(&self.ask(secret, &["jobs", "list"]));
            answer.contains("PERMISSION_DENIED").then_some(())
        })
        .await;
        self.exec(name, job, &[("ROSTERD_CREDENTIAL", secret)]);
    }

    fn python(&mut self, name: &str, job: &str, proof: &[(&str, &str)]) {
        let ca = self.file("ca.pem");
        let all: Vec<_> = [("ROSTERD_CA", path(&ca))].iter().chain(proof).copied().collect();
        crate::python::start_with(&mut self.cluster, name, job, &all);
    }
}

/// Status and body of a GET that names a host.
fn get(address: &str, host: &str, path: &str) -> (u16, String) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (heads, body) = answer.split_once("\r\n\r\n").unwrap();
    (heads.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn health_and_metrics_may_have_an_address_of_their_own_and_loopback_has_few_names() {
    let cluster = Cluster::with(LONG, &["listen_metrics=127.0.0.1:0"]).await;
    let told = cluster.logged();
    let lines = told.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let apart = lines
        .filter(|line| line["message"].as_str().is_some_and(|text| text.starts_with("health and metrics")))
        .find_map(|line| line["address"].as_str().map(str::to_owned))
        .expect("the log says where");
    let main = format!("127.0.0.1:{}", cluster.port);
    for address in [&main, &apart] {
        assert_eq!(get(address, address, "/healthz").0, 200);
        assert!(get(address, "localhost", "/metrics").1.contains("rosterd_"));
        let (code, body) = get(address, "rebound.example", "/metrics");
        assert!(code == 403 && body.contains("ORIGIN_REFUSED"), "{address}: {code} {body}");
    }
    assert_eq!((get(&main, &main, "/").0, get(&apart, &apart, "/").0), (200, 404));
}
