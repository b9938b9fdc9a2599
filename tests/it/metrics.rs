//! Metrics, alert rules and the dashboard, used by the real tools: promtool checks names and rules, and a real
//! Prometheus scrapes a real coordinator and evaluates every expression that we ship.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rosterd_runtime::telemetry::{MetricType, Metrics, as_text_format};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::*;
use crate::http;

fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file)
}

fn rules() -> PathBuf {
    deployed("prometheus/rules.yml")
}

/// The output of promtool; the test fails if it refuses.
fn promtool(words: &[&str]) -> String {
    let done = Command::new("promtool").args(words).output();
    let done = done.unwrap_or_else(|error| panic!("promtool: {error}: apt-get install prometheus"));
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "promtool {words:?}: {said}");
    String::from_utf8(done.stdout).unwrap()
}

/// Every alert of the rules.
fn alerts() -> Vec<String> {
    let text = std::fs::read_to_string(rules()).unwrap();
    text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
}

#[test]
fn every_alert_is_driven_into_firing() {
    promtool(&["check", "rules", rules().to_str().unwrap()]);
    let tests = deployed("prometheus/rules.test.yml");
    promtool(&["test", "rules", tests.to_str().unwrap()]);
    let tested = std::fs::read_to_string(tests).unwrap();
    for alert in alerts() {
        let fires = [
            format!("ALERTS{{alertname=\"{alert}\", alertstate=\"firing\","),
            format!("alertname: {alert}\n"),
        ];
        assert!(fires.iter().any(|fires| tested.contains(fires)), "rules.test.yml never makes {alert} fire");
    }
}

/// A Prometheus that scrapes one coordinator.
struct Prometheus {
    _process: Proc,
    url: String,
}

impl Prometheus {
    async fn scraping(cluster: &Cluster) -> Self {
        let home = &cluster.home;
        let config = json!({
            "global": { "scrape_interval": "250ms", "evaluation_interval": "250ms" },
            "rule_files": [rules()],
            "scrape_configs": [{
                "job_name": "rosterd",
                "static_configs": [{ "targets": [format!("127.0.0.1:{}", cluster.port)] }],
            }],
        });
        let (file, log) = (home.path("prometheus.yml"), home.path("prometheus.log"));
        // JSON is YAML.
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", home.path("prometheus").display()));
        command.args(["--web.listen-address=127.0.0.1:0", "--log.format=json"]);
        let process = Proc::spawn("prometheus", command, &log);
        let address = wait("Prometheus to listen", || {
            let said = std::fs::read_to_string(&log).unwrap();
            let mut lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let listening = lines.find(|line| line["msg"] == "Listening on");
            std::future::ready(listening.and_then(|line| line["address"].as_str().map(str::to_owned)))
        })
        .await;
        Self { _process: process, url: format!("http://{address}") }
    }

    fn series(&self, selector: &str) -> Vec<String> {
        let found = promtool(&["query", "series", "--match", selector, &self.url]);
        found.lines().map(str::to_owned).collect()
    }

    /// The current value of an expression.
    fn value(&self, expression: &str) -> String {
        promtool(&["query", "instant", &self.url, expression])
    }

    /// The state of each rule. Over HTTP/1.0, which has no chunked encoding.
    async fn rules(&self) -> Vec<Value> {
        let address = self.url.trim_start_matches("http://");
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /api/v1/rules HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        if head.contains(" 503 ") {
            // It listens before it is ready.
            return Vec::new();
        }
        let found: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        found["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default()
    }
}

/// All expressions of a dashboard, its variables filled in.
fn dashboard() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(deployed("grafana/rosterd.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets =
        panels.iter().filter_map(|panel| Some((panel["title"].as_str()?, panel["targets"].as_array()?)));
    targets
        .flat_map(|(title, targets)| {
            targets.iter().map(move |target| (title, target["expr"].as_str().unwrap()))
        })
        .map(|(title, expression)| {
            let filled = expression
                .replace("$instance", ".*")
                .replace("$__rate_interval", "1m")
                .replace("$__range", "1h");
            assert!(!filled.contains('$'), "{title}: a variable that nobody fills in: {filled}");
            (title.to_owned(), filled)
        })
        .collect()
}

/// The selectors in an expression: each name that is not a function or a word of the language, with its matchers.
fn selectors(expression: &str) -> BTreeSet<String> {
    const WORDS: [&str; 8] = ["by", "on", "without", "ignoring", "group_left", "group_right", "and", "or"];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let (mut found, mut rest, mut before) = (BTreeSet::new(), expression, String::new());
    while let Some(first) = rest.chars().next() {
        if !is_name(first) {
            // What follows is a list of labels, a range or a text: no selector is in it.
            let end = match first {
                '(' if WORDS[..6].contains(&&*before) => rest.find(')'),
                '[' => rest.find(']'),
                '"' => rest[1..].find('"').map(|end| end + 1),
                _ => Some(first.len_utf8() - 1),
            };
            rest = &rest[end.unwrap() + 1..];
            if !first.is_whitespace() {
                before.clear();
            }
            continue;
        }
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let calls = ["(", "by (", "without ("].iter().any(|next| after.trim_start().starts_with(next));
        let matchers = if after.starts_with('{') { after.find('}').map_or(0, |end| end + 1) } else { 0 };
        if !calls && !WORDS.contains(&name) && !name.starts_with(|c: char| c.is_ascii_digit()) {
            found.insert(format!("{name}{}", &after[..matchers]));
        }
        before = name.to_owned();
        rest = &after[matchers..];
    }
    found
}

#[test]
fn selectors_are_found_where_they_are() {
    let found = selectors(
        "60 * histogram_quantile(0.99, sum by (le) (rate(a_bucket{x=\"(y)\"}[5m]))) > 1 and on (z) b{c!~\"d|e\"} / f",
    );
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a_bucket{x=\"(y)\"}", "b{c!~\"d|e\"}", "f"]);
}

/// A coordinator on which a bit of everything has happened.
async fn lived_in() -> Cluster {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(job("busy", 2, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("w", vec![runs_for("busy", 10)]);
    cluster.verdict_when("runs", |verdict| verdict.of("busy").count() >= 4).await;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], cluster.port));
    // A refusal, so that one is counted.
    let refused = http::ask(address, "POST", "/metrics", "Origin: http://elsewhere.example\r\n", "").await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    cluster
}

/// The families of a page, with their kinds.
fn heads(page: &str) -> BTreeSet<&str> {
    page.lines().filter(|line| line.starts_with("# TYPE")).collect()
}

/// The series of a page: their names and their labels' names.
fn served(page: &str) -> BTreeSet<(String, BTreeSet<String>)> {
    let lines = page.lines().filter(|line| !line.starts_with('#') && line.contains(' '));
    lines
        .map(|line| {
            let series = line.rsplit_once(' ').unwrap().0;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let labels = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            (name.to_owned(), labels.filter(|label| label != "le").collect())
        })
        .collect()
}

#[tokio::test]
async fn what_is_served_is_what_the_guide_describes_and_promtool_has_nothing_against_it() {
    let cluster = lived_in().await;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], cluster.port));
    let accept = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let page = http::ask(address, "GET", "/metrics", accept, "").await.body;
    assert!(page.ends_with("# EOF\n"), "{page}");
    // A client without a preference gets the older format, the only one that promtool's lints read.
    let older = cluster.page("/metrics").await;
    let older = older.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(heads(older), heads(&as_text_format(&page)));
    let file = cluster.home.path("metrics.txt");
    std::fs::write(&file, older).unwrap();
    let lint = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(file).unwrap())
        .output();
    let lint = lint.unwrap();
    let said = String::from_utf8_lossy(&lint.stderr).into_owned() + &String::from_utf8_lossy(&lint.stdout);
    assert!(lint.status.success() && said.trim().is_empty(), "{said}");

    let mut described = BTreeSet::new();
    for metric in Metrics::described() {
        let suffixes: &[&str] = match metric.kind {
            MetricType::Counter => &["_total"],
            MetricType::Histogram => &["_bucket", "_sum", "_count"],
            MetricType::Info => &["_info"],
            _ => &[""],
        };
        let labels: BTreeSet<String> = metric.labels.iter().map(|label| (*label).to_owned()).collect();
        described.extend(suffixes.iter().map(|suffix| (format!("{}{suffix}", metric.name), labels.clone())));
    }
    let served = served(&page);
    let undescribed: Vec<_> = served.difference(&described).collect();
    assert!(undescribed.is_empty(), "served, and not described so: {undescribed:?}");
    let unserved: Vec<_> = described.difference(&served).collect();
    assert!(unserved.is_empty(), "described, and not served: {unserved:?}");
}

#[tokio::test]
async fn every_expression_that_we_ship_is_evaluated_and_what_it_names_is_there() {
    let cluster = lived_in().await;
    let prometheus = Prometheus::scraping(&cluster).await;
    let rules = wait("every rule to be evaluated", || async {
        let rules = prometheus.rules().await;
        let ok = !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok");
        ok.then_some(rules)
    })
    .await;
    assert_eq!(rules.iter().map(|rule| rule["name"].as_str().unwrap()).collect::<Vec<_>>(), alerts());
    let of_rules = rules.iter().map(|rule| (rule["name"].as_str().unwrap(), rule["query"].as_str().unwrap()));
    let mut shipped: Vec<_> = of_rules.map(|(name, query)| (name.to_owned(), query.to_owned())).collect();
    shipped.extend(dashboard());
    assert!(shipped.len() > 40, "{shipped:?}");
    let named: BTreeSet<_> = shipped.iter().flat_map(|(_, expression)| selectors(expression)).collect();
    for selector in &named {
        wait(format!("a series of {selector}"), || {
            std::future::ready((!prometheus.series(selector).is_empty()).then_some(()))
        })
        .await;
    }
    for (title, expression) in &shipped {
        prometheus.value(expression);
        assert!(!selectors(expression).is_empty(), "{title} names no metric: {expression}");
    }
    // It is a real coordinator: its state is on the dashboard.
    let value = |expression: &str| prometheus.value(expression);
    assert!(value("sum(rosterd_serving)").contains("=> 1 @"), "{}", value("sum(rosterd_serving)"));
    wait("a rate of runs", || {
        let runs = value("sum(increase(rosterd_runs_started_total[1m])) > 0");
        std::future::ready(runs.contains("=>").then_some(()))
    })
    .await;
    let firing = value("ALERTS{alertstate=\"firing\", alertname!=\"RosterdFiresMissed\"}");
    assert_eq!(firing.trim(), "", "an alert fires though all is well");
}

/// Panels are visible: inside of the board, without overlaps, each with a title and a selectable source.
#[test]
fn the_dashboard_is_whole() {
    let text = std::fs::read_to_string(deployed("grafana/rosterd.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((board["uid"].as_str(), board["id"].is_null()), (Some("rosterd"), true));
    let (mut cells, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for panel in board["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().filter(|title| !title.is_empty()).unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(w > 0 && x + w <= 24, "{title} is wider than the board");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} covers another panel");
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
    let variables = board["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "instance"]);
}
