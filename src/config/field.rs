//! Every field of the configuration: its name, default, and what it is for. The one table from which the file,
//! the environment, the flags and `--print-config` are understood.

/// One field.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// As in the file; in the environment it is upper case after `ROSTERD_`.
    pub name: &'static str,
    /// As it would be written; empty: not set.
    pub default: &'static str,
    /// What it is for.
    pub what: &'static str,
}

impl Field {
    /// The variable that sets it.
    pub fn variable(&self) -> String {
        variable(self.name)
    }
}

pub(super) fn variable(name: &str) -> String {
    format!("ROSTERD_{}", name.to_uppercase())
}

/// Names that fields had, and those that they have now: the former are taken still, and warned of.
pub(super) const FORMER: &[(&str, &str)] = &[("server_retention", "machine_retention")];

/// The field of this name.
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

const fn row(name: &'static str, default: &'static str, what: &'static str) -> Field {
    Field { name, default, what }
}

/// The table, in the order in which it is shown: one row a line, whatever its width.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    row("namespace", "default", "the one namespace that is served"),
    row("listen", "127.0.0.1:7700", "address and port of gRPC, REST, the console, health and metrics"),
    row("listen_metrics", "", "address and port of a listener for health and metrics alone, in plain text and without credentials"),
    row("advertise", "", "URL under which workers reach this coordinator; default: from listen, where that is one address"),
    row("base_path", "", "path under which a proxy shows the console and REST, for example /rosterd; requests may come with it or without"),
    row("credentials", "", "file with the credentials that are accepted; without one everybody may do everything"),
    row("tls_cert", "", "PEM file with this coordinator's certificate, then those up to its CA; with it only TLS is spoken"),
    row("tls_key", "", "PEM file with the key of tls_cert"),
    row("tls_client_ca", "", "PEM file with the certificates of those who sign clients' certificates"),
    row("tls_client_auth", "optional", "optional: clients may show a certificate; required: others are refused at the handshake"),
    row("login_age", "12h", "how long a login to the console lasts"),
    row("login_key_file", "", "file of 32 bytes or more that seals logins, the same for all coordinators of a cluster; default: one of its own in data_dir"),
    row("oidc_issuer", "", "URL of an identity provider (OpenID Connect) at which people may log in to the console"),
    row("oidc_client_id", "", "this console's name at the provider"),
    row("oidc_client_secret_file", "", "file whose only line is the secret that goes with it; without one the client is public"),
    row("oidc_ca", "", "PEM file with the certificates that the provider's is believed by; default: those of the machine"),
    row("oidc_redirect_url", "", "URL that the provider sends browsers back to; default: /login/oidc/callback where the browser is"),
    row("oidc_scopes", "openid profile email", "what the provider is asked to tell of a person"),
    row("oidc_name_claim", "preferred_username", "claim with the person's name; where it is missing: email, then sub"),
    row("oidc_role_claim", "groups", "claim whose values give a role; a dot leads into it, for example realm_access.roles"),
    row("oidc_roles", "viewer=rosterd-viewer,operator=rosterd-operator,admin=rosterd-admin", "which value gives which role, ROLE=VALUE separated by commas; the largest counts, and who has none may not come in"),
    row("oidc_jobs_claim", "", "claim with the names and patterns of the jobs that the person may change; default: all"),
    row("insecure_listen", "false", "allow an address that is not loopback without credentials or without TLS"),
    row("registry", "embedded", "embedded: a single node; zookeeper: a cluster"),
    row("data_dir", "", "directory of the embedded store and of the history; with zookeeper, of the history alone, default rosterd-data"),
    row("zk", "", "ZooKeeper servers, host:port separated by commas; a path after the last is the root below which everything is"),
    row("insecure_registry", "false", "allow ZooKeeper servers that are not on loopback without zk_auth or zk_tls_cert: anyone who can reach them can change the store"),
    row("zk_connect_timeout", "15s", "how long one round over all ZooKeeper servers may take until there is a session"),
    row("zk_request_timeout", "", "how long a request to ZooKeeper may wait and take; default: half of session"),
    row("zk_retry_base", "100ms", "pause before connecting or a read is tried again; it doubles"),
    row("zk_retry_max", "3s", "longest such pause"),
    row("zk_retries", "3", "how often connecting and reads are tried again"),
    row("zk_auth", "", "digest or sasl: how the user is shown to ZooKeeper; nodes that are made then belong to that user alone"),
    row("zk_user", "", "the user"),
    row("zk_password_file", "", "file whose only line is the user's password"),
    row("zk_tls_ca", "", "PEM file with the certificates that the servers' are believed by; with it all connections are TLS"),
    row("zk_tls_cert", "", "PEM file with a client certificate; nodes that are made then belong to its holder"),
    row("zk_tls_key", "", "PEM file with the certificate's key"),
    row("lease", "5s", "the lease of a worker: without a heartbeat for so long it expires"),
    row("heartbeat", "1s", "how often a worker sends a heartbeat; at most a third of lease"),
    row("stop_budget", "500ms", "how long before its lease ends a worker stops its runs"),
    row("timeout_grace", "10s", "how long after its timeout a run is taken away from a worker that does not end it; lease and the clients' stop_grace (5s) together, or longer"),
    row("session", "10s", "a coordinator that is silent for so long loses its store session; at least twice lease"),
    row("clock_drift_ppm", "5000", "how much faster or slower than ours a machine's clock may run, in millionths"),
    row("max_clock_difference", "2s", "no fires while this clock and ZooKeeper's are further apart, and none for a minute after this clock jumped by more"),
    row("drain_deadline", "30s", "how long a coordinator that stops waits for its workers to attach elsewhere"),
    row("machine_retention", "1d", "a machine without instances that is not disabled is forgotten after this"),
    row("max_receive_bytes", "1MiB", "largest message that is taken"),
    row("max_send_bytes", "16MiB", "largest message that is sent"),
    row("max_connections", "10000", "connections, over all addresses"),
    row("max_connections_per_ip", "1000", "connections from one address"),
    row("max_streams_per_connection", "256", "calls and streams at a time on one connection"),
    row("max_workers", "10000", "worker streams"),
    row("max_watchers", "256", "watches of people and programs"),
    row("max_requests", "1024", "requests of people being carried out"),
    row("max_jobs_per_worker", "1000", "jobs that one worker may register"),
    row("max_unacknowledged_reports", "1024", "reports that one worker may have unacknowledged"),
    row("max_outbox_frames", "16384", "frames that wait for one worker; one more ends its stream"),
    row("metrics_jobs", "1000", "jobs with metrics of their own, those that the coordinator hears of first; 0: none"),
    row("preface_timeout", "5s", "how long a connection may take until it speaks HTTP, a TLS handshake included"),
    row("hello_timeout", "5s", "how long a worker stream may take until its Hello"),
    row("request_timeout", "30s", "how long a request may take that names no deadline"),
    row("keepalive_interval", "15s", "how often an idle connection is probed"),
    row("keepalive_timeout", "10s", "a probed connection that is silent for so long is closed"),
    row("connection_window", "32MiB", "HTTP/2 window of a connection"),
    row("stream_window", "1MiB", "HTTP/2 window of a stream"),
    row("history", "", "file of the history, or postgres://user@host:port/database, which all coordinators of the namespace share; default: history.db in data_dir"),
    row("history_password_file", "", "file whose only line is the password of the database's user"),
    row("history_tls", "", "TLS to the database: disable, require, verify-ca or verify-full; default: verify-full, but disable on loopback"),
    row("history_tls_ca", "", "PEM file with the certificates that the database's is believed by; default: those of the system"),
    row("history_spool", "1GiB", "most bytes of rows that wait on the disk for the database; more are counted and dropped"),
    row("history_retention", "30d", "how long ended runs are kept"),
    row("history_max_runs", "10000000", "most runs kept; the oldest go first"),
    row("history_queue", "65536", "runs that wait to be written to the history; more are counted and dropped"),
    row("otlp_endpoint", "", "collector of traces, http://host:port or https://host:port, which takes OTLP over gRPC; without it no spans are made"),
    row("otlp_headers_file", "", "file with headers for the collector, name=value on each line"),
    row("otlp_ca", "", "PEM file with the certificates that the collector's is believed by; default: the system's"),
    row("otlp_timeout", "10s", "how long a request to the collector may take"),
    row("otlp_interval", "1s", "how long a span waits for others that go with it"),
    row("otlp_queue", "65536", "spans that wait for the collector; more are counted and dropped"),
    row("otlp_sampling", "1", "part of all traces that is kept, 0 to 1; the same ones on each coordinator"),
    row("trace_url", "", "page of a trace for people, with {trace_id} where its id goes, for example https://jaeger.example.com/trace/{trace_id}"),
    row("log", "info", "what is logged: error, warn, info, debug, trace, also by module"),
    row("log_format", "text", "text or json"),
];

/// The name of the tables of alarms, which stand in the file alone.
pub(super) const ALARMS: &str = "alarms";
