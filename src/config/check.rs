//! From texts to the [`Config`], and the rules between fields.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rosterd_runtime::telemetry::LogFilter;

use super::oidc;
use super::reader::{ConfigReader, readable};
use super::value::show;
use super::{Config, Limits, Log, Login, Registry, Timing, Tls, alarms, history, traces, zookeeper};

/// Largest window HTTP/2 knows.
const MAX_WINDOW: u64 = (1 << 31) - 1;

/// Types every field; none only where a field without which there is no configuration is unusable.
pub(super) fn config(reader: &mut ConfigReader) -> Option<Config> {
    let namespace = reader.name("namespace", "give the namespace another name");
    let listen = reader.parsed("listen", listen_address, "write address:port, for example 127.0.0.1:7700");
    let listen_metrics =
        reader.parsed("listen_metrics", listen_address, "write address:port, for example 127.0.0.1:7701");
    let (timing, limits, history, log) = (timing(reader), limits(reader), history::read(reader), log(reader));
    let alarms = alarms::read(reader);
    let (otlp, trace_url) = (traces::otlp(reader), traces::page(reader));
    let registry = registry(reader);
    let credentials = credentials(reader);
    let tls = tls(reader, credentials.is_some());
    let (base_path, login) = (base_path(reader), login(reader, credentials.is_some()));
    let insecure = reader.flag("insecure_listen");
    if listen_metrics.is_some_and(|other| other.port() != 0 && Some(other) == listen) {
        reader.push("listen_metrics", "same address as listen", "name another port, or leave it out");
    }
    if let Some(listen) = listen {
        check_listen(reader, listen, (credentials.is_some(), tls.is_some()), insecure);
    }
    let advertise = advertise(reader, listen?, tls.is_some());
    let (namespace, listen, registry) = (namespace?, listen?, registry?);
    Some(Config {
        namespace,
        listen,
        listen_metrics,
        advertise,
        base_path,
        login,
        credentials,
        tls,
        registry,
        timing,
        limits,
        history,
        otlp,
        trace_url,
        log,
        alarms,
        warnings: std::mem::take(&mut reader.warnings),
    })
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let text = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| "not an address with a port".into())
}

/// `guards`: whether there are credentials, and whether there is TLS.
fn check_listen(reader: &mut ConfigReader, listen: SocketAddr, guards: (bool, bool), insecure: bool) {
    if listen.ip().is_loopback() || insecure {
        return;
    }
    let (credentials, tls) = guards;
    if !credentials {
        let problem = "anyone who can reach it could run and remove jobs: it is not a loopback address, and no \
                       credentials are configured";
        let remedy = "give a credential file with --credentials, or say --insecure-listen if the network itself \
                      is trusted";
        reader.push("listen", problem, remedy);
    }
    if !tls {
        let problem = "credentials and jobs could be read in transit: it is not a loopback address, and TLS is not configured";
        let remedy = "give --tls-cert and --tls-key, or say --insecure-listen if a proxy before it speaks TLS or the \
                      network itself is trusted";
        reader.push("listen", problem, remedy);
    }
}

fn advertise(reader: &mut ConfigReader, listen: SocketAddr, tls: bool) -> Option<String> {
    let url = |text: &str| {
        let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        host.filter(|host| !host.is_empty()).ok_or_else(|| "invalid URL".to_owned())?;
        Ok(text.trim_end_matches('/').to_owned())
    };
    let told = reader.parsed("advertise", url, "write http://host:port, or https://host:port with TLS");
    if tls && told.as_ref().is_some_and(|url| url.starts_with("http://")) {
        let problem = "workers would be sent to plain HTTP, and with tls_cert only TLS is spoken";
        reader.push("advertise", problem, "write https://host:port");
    }
    let scheme = if tls { "https" } else { "http" };
    // Port 0 is any free one: which, is known once it is listened on.
    let known = !listen.ip().is_unspecified() && listen.port() != 0;
    told.or_else(|| known.then(|| format!("{scheme}://{listen}")))
}

/// The first parts of paths that a coordinator has itself.
const OWN_PATHS: [&str; 6] = ["api", "assets", "healthz", "login", "metrics", "plain"];

fn base_path(reader: &mut ConfigReader) -> String {
    let plain = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        !part.is_empty() && part.bytes().all(known) && !matches!(part, "." | "..")
    };
    let parse = |text: &str| {
        let path = text.trim_end_matches('/');
        let mut parts = path.split('/');
        match (parts.next(), parts.next()) {
            // The root, which is what there is without one.
            (Some(""), None) => Ok(String::new()),
            (Some(""), Some(first)) if OWN_PATHS.contains(&first) => {
                Err(format!("the coordinator's own paths begin with /{first}"))
            }
            (Some(""), Some(first)) if plain(first) && parts.all(plain) => Ok(path.to_owned()),
            _ => Err("invalid path".to_owned()),
        }
    };
    let remedy = "write a path of letters, digits and - . _ ~, for example /rosterd";
    reader.parsed("base_path", parse, remedy).unwrap_or_default()
}

fn login(reader: &mut ConfigReader, credentials: bool) -> Login {
    Login {
        age: reader.duration("login_age", "1m", "30d"),
        key_file: readable(reader, "login_key_file"),
        oidc: oidc::read(reader, credentials),
    }
}

fn credentials(reader: &mut ConfigReader) -> Option<PathBuf> {
    readable(reader, "credentials")
}

fn tls(reader: &mut ConfigReader, credentials: bool) -> Option<Tls> {
    let (cert, key) = (readable(reader, "tls_cert"), readable(reader, "tls_key"));
    let client_ca = readable(reader, "tls_client_ca");
    let required = |text: &str| match text {
        "required" => Ok(true),
        "optional" => Ok(false),
        _ => Err("unknown mode".to_owned()),
    };
    let client_required =
        reader.parsed("tls_client_auth", required, "write optional or required").unwrap_or_default();
    for (given, missing) in [(&cert, "tls_key"), (&key, "tls_cert"), (&client_ca, "tls_cert")] {
        if given.is_some() && reader.text(missing).is_none() {
            reader.push(missing, "it is not set, and TLS needs it", format!("give {missing}, a PEM file"));
            break;
        }
    }
    if client_required && client_ca.is_none() {
        let problem = "no client's certificate could be verified: tls_client_ca is not set";
        reader.push("tls_client_auth", problem, "give tls_client_ca, a PEM file, or write optional");
    }
    if client_ca.is_some() && !credentials {
        let problem = "no credentials define what a client with a certificate may do";
        reader.push(
            "tls_client_ca",
            problem,
            "give a credential file that names certificates with --credentials",
        );
    }
    Some(Tls { cert: cert?, key: key?, client_ca, client_required })
}

fn registry(reader: &mut ConfigReader) -> Option<Registry> {
    let data_dir = reader.text("data_dir").map(PathBuf::from);
    if let Some(path) = data_dir.as_deref().filter(|path| path.exists() && !path.is_dir()) {
        reader.push("data_dir", format!("{} is not a directory", path.display()), "name a directory");
    }
    match reader.text("registry") {
        Some("embedded") => {
            zookeeper::refuse(reader);
            if data_dir.is_none() {
                reader.unset("data_dir", "the embedded store keeps its data there", "give --data-dir DIR");
            }
            Some(Registry::Embedded { data_dir: data_dir? })
        }
        Some("zookeeper") => {
            zookeeper::read(reader, data_dir).map(|zookeeper| Registry::ZooKeeper(Box::new(zookeeper)))
        }
        _ => {
            reader.push("registry", "unknown store", "write embedded or zookeeper");
            None
        }
    }
}

fn timing(reader: &mut ConfigReader) -> Timing {
    let before = reader.defects.len();
    let session = reader.duration("session", "1s", "10m");
    let timing = Timing {
        lease: reader.duration("lease", "200ms", "5m"),
        heartbeat: reader.duration("heartbeat", "50ms", "1m"),
        stop_budget: reader.duration("stop_budget", "10ms", "1m"),
        timeout_grace: reader.duration("timeout_grace", "100ms", "1h"),
        session,
        clock_drift_ppm: reader.count("clock_drift_ppm", 0, 100_000),
        max_clock_difference: reader.duration("max_clock_difference", "1ms", "1h"),
        drain_deadline: reader.duration("drain_deadline", "0s", "1h"),
        machine_retention: reader.duration("machine_retention", "1m", "3650d"),
    };
    if reader.defects.len() == before {
        check_timing(reader, &timing);
    }
    timing
}

fn check_timing(reader: &mut ConfigReader, timing: &Timing) {
    let Timing { lease, heartbeat, stop_budget, session, .. } = *timing;
    if session < 2 * lease {
        let problem =
            format!("a lease of {} needs a session of {}, twice as long", show(lease), show(2 * lease));
        reader.push(
            "session",
            problem,
            format!("set session to {} or lease to {}", show(2 * lease), show(session / 2)),
        );
    }
    if lease < 3 * heartbeat {
        let problem = format!(
            "a heartbeat of {} needs a lease of {}, three times as long",
            show(heartbeat),
            show(3 * heartbeat)
        );
        let third = Duration::from_millis(u64::try_from(lease.as_millis() / 3).unwrap_or(u64::MAX));
        reader.push(
            "lease",
            problem,
            format!("set lease to {} or heartbeat to {}", show(3 * heartbeat), show(third)),
        );
    }
    if stop_budget + 2 * heartbeat > lease {
        let problem = format!(
            "it leaves {} of a lease of {}, less than two heartbeats of {}",
            show(lease.saturating_sub(stop_budget)),
            show(lease),
            show(heartbeat)
        );
        reader.push("stop_budget", problem, "make stop_budget or heartbeat shorter, or lease longer");
    }
}

fn limits(reader: &mut ConfigReader) -> Limits {
    let limits = Limits {
        max_receive_bytes: reader.bytes("max_receive_bytes", 256 << 10, 64 << 20),
        max_send_bytes: reader.bytes("max_send_bytes", 1 << 20, 1 << 30),
        max_connections: reader.count("max_connections", 1, 1_000_000),
        max_connections_per_ip: reader.count("max_connections_per_ip", 1, 1_000_000),
        max_streams_per_connection: reader.count("max_streams_per_connection", 1, 65_536),
        max_workers: reader.count("max_workers", 1, 1_000_000),
        max_watchers: reader.count("max_watchers", 0, 100_000),
        max_requests: reader.count("max_requests", 1, 100_000),
        max_jobs_per_worker: reader.count("max_jobs_per_worker", 1, 100_000),
        max_unacknowledged_reports: reader.count("max_unacknowledged_reports", 1, 65_536),
        max_outbox_frames: reader.count("max_outbox_frames", 16, 1_000_000),
        metrics_jobs: reader.count("metrics_jobs", 0, 100_000),
        preface_timeout: reader.duration("preface_timeout", "100ms", "5m"),
        hello_timeout: reader.duration("hello_timeout", "100ms", "5m"),
        request_timeout: reader.duration("request_timeout", "100ms", "1h"),
        keepalive_interval: reader.duration("keepalive_interval", "1s", "1h"),
        keepalive_timeout: reader.duration("keepalive_timeout", "1s", "1h"),
        connection_window: reader.bytes("connection_window", 1 << 16, MAX_WINDOW),
        stream_window: reader.bytes("stream_window", 1 << 16, MAX_WINDOW),
    };
    if limits.max_connections_per_ip > limits.max_connections
        && reader.values["max_connections_per_ip"].1 != super::Origin::Default
    {
        let problem = format!("that is more than max_connections, {}", limits.max_connections);
        reader.push("max_connections_per_ip", problem, "make it smaller, or max_connections larger");
    }
    limits
}

fn log(reader: &mut ConfigReader) -> Log {
    let filter = |text: &str| match LogFilter::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.reason),
    };
    let json = |text: &str| match text {
        "json" => Ok(true),
        "text" => Ok(false),
        _ => Err("unknown format".to_owned()),
    };
    Log {
        filter: reader
            .parsed("log", filter, "write a level, for example info or info,rosterd=debug")
            .unwrap_or_default(),
        json: reader.parsed("log_format", json, "write text or json").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Loaded, Sources};

    fn read(flags: &[(&str, &str)]) -> Result<Loaded, String> {
        let flags = flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Loaded::read(&Sources { flags, ..Sources::default() }).map_err(|defects| defects.to_string())
    }

    #[test]
    fn the_defaults_hold_together() {
        let config = read(&[("data_dir", "d")]).unwrap().config;
        assert_eq!(config.advertise.as_deref(), Some("http://127.0.0.1:7700"));
    }

    #[test]
    fn lease_session_and_heartbeat_are_refused_with_the_numbers() {
        let refused = read(&[("data_dir", "d"), ("lease", "6s"), ("heartbeat", "2500ms")]).unwrap_err();
        assert_eq!(
            refused,
            "session = \"10s\" (default): a lease of 6s needs a session of 12s, twice as long; \
             set session to 12s or lease to 5s\n\
             lease = \"6s\" (command line): a heartbeat of 2500ms needs a lease of 7500ms, three times as long; \
             set lease to 7500ms or heartbeat to 2s"
        );
    }

    #[test]
    fn an_open_listener_needs_credentials_or_a_word() {
        let open = [("data_dir", "d"), ("listen", "0.0.0.0:7700")];
        let refused = read(&open).unwrap_err();
        assert!(refused.starts_with("listen = \"0.0.0.0:7700\" (command line): anyone"), "{refused}");
        assert!(refused.contains("TLS is not configured; give --tls-cert and --tls-key"), "{refused}");
        let said = read(&[open[0], open[1], ("insecure_listen", "true")]).unwrap();
        assert_eq!(said.config.advertise, None);
        assert!(read(&[("data_dir", "d"), ("listen", "[::1]:1")]).is_ok());
    }

    #[test]
    fn metrics_may_have_a_listener_of_their_own() {
        let own = |address| read(&[("data_dir", "d"), ("listen_metrics", address)]);
        let config = own("0.0.0.0:9100").unwrap().config;
        assert_eq!(config.listen_metrics, Some("0.0.0.0:9100".parse().unwrap()));
        assert!(own("127.0.0.1:7700").unwrap_err().contains("same address as listen; name another port"));
        assert!(own("9100").unwrap_err().contains("not an address with a port; write address:port"));
        assert_eq!(read(&[("data_dir", "d")]).unwrap().config.listen_metrics, None);
    }

    #[test]
    fn an_ensemble_that_anyone_may_write_needs_a_word_unless_it_is_on_loopback() {
        let zookeeper = |zk, more: &[(&str, &str)]| {
            read(&[&[("registry", "zookeeper"), ("zk", zk)], more].concat()).map(|loaded| loaded.config)
        };
        for zk in ["10.0.0.1:2181", "127.0.0.1:2181,zk2:2181/root"] {
            let refused = zookeeper(zk, &[]).unwrap_err();
            assert!(refused.contains("anyone who can reach these servers could change"), "{refused}");
            assert!(refused.contains("set zk_auth") && refused.contains("--insecure-registry"), "{refused}");
            zookeeper(zk, &[("insecure_registry", "true")]).unwrap();
        }
        for zk in ["127.0.0.1:2181", "localhost:1,127.0.0.1:2,[::1]:3/root"] {
            zookeeper(zk, &[]).unwrap();
        }
        let this = file!();
        let user = [("zk_auth", "digest"), ("zk_user", "ann"), ("zk_password_file", this)];
        zookeeper("zk1:2181", &user).unwrap();
        let ca = [("zk_tls_ca", this)];
        assert!(zookeeper("zk1:2181", &ca).is_err(), "TLS alone does not authenticate a writer");
        zookeeper("zk1:2181", &[ca[0], ("zk_tls_cert", this), ("zk_tls_key", this)]).unwrap();
    }

    #[test]
    fn jobs_with_metrics_of_their_own_are_bounded() {
        let of = |most| {
            read(&[("data_dir", "d"), ("metrics_jobs", most)]).map(|read| read.config.limits.metrics_jobs)
        };
        assert_eq!(read(&[("data_dir", "d")]).unwrap().config.limits.metrics_jobs, 1000);
        assert_eq!((of("0").unwrap(), of("100000").unwrap()), (0, 100_000));
        assert!(of("100001").unwrap_err().contains("write 0 to 100000"));
    }

    #[test]
    fn a_base_path_is_plain_and_not_one_of_our_own() {
        let of = |path| read(&[("data_dir", "d"), ("base_path", path)]).map(|loaded| loaded.config.base_path);
        for (given, path) in
            [("", ""), ("/", ""), ("/rosterd", "/rosterd"), ("/tools/a-b_c.d~e/", "/tools/a-b_c.d~e")]
        {
            assert_eq!(of(given).unwrap(), path, "{given}");
        }
        for bad in ["x", "//x", "/x//y", "/x\"y", "/..", "/x/../y", "/x?y", "/%41", "/é"] {
            assert!(of(bad).unwrap_err().contains("invalid path; write a path of letters"), "{bad}");
        }
        assert!(of("/api").unwrap_err().contains("own paths begin with /api") && of("/login/x").is_err());
    }

    #[test]
    fn tls_is_whole_or_refused() {
        let this = file!();
        let refused = |more: &[(&str, &str)]| read(&[&[("data_dir", "d")], more].concat()).unwrap_err();
        assert!(refused(&[("tls_cert", this)]).starts_with("tls_key: it is not set"));
        assert!(refused(&[("tls_key", this)]).starts_with("tls_cert: it is not set"));
        assert!(refused(&[("tls_key", "/nowhere"), ("tls_cert", this)]).contains("it cannot be read"));
        assert!(refused(&[("tls_client_auth", "required")]).contains("tls_client_ca is not set"));
        let pair = [("data_dir", "d"), ("tls_cert", this), ("tls_key", this)];
        assert!(refused(&[&pair[..], &[("tls_client_ca", this)]].concat()).contains("no credentials"));
        assert!(refused(&[&pair[..], &[("advertise", "http://a:1")]].concat()).contains("https://host:port"));
        let config = read(&pair).unwrap().config;
        assert_eq!(config.advertise.as_deref(), Some("https://127.0.0.1:7700"));
    }
}
