//! The suites of `cargo xtask test`, in the order in which they run. To add one: a row in [`SUITES`].

use anyhow::{Result, bail};

use crate::metadata::Target;
use crate::{console, go, java, node, python, web, zookeeper};

/// One suite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What it tests, for people.
    pub(crate) what: &'static str,
    pub(crate) kind: SuiteKind,
    /// Debian packages that it needs.
    pub(crate) packages: &'static [&'static str],
    pub(crate) lane: Lane,
    /// How many tests run at a time: more than the cores if most of them wait.
    pub(crate) threads: Option<&'static str>,
    /// It tests the shipped program, except tests that inject faults.
    pub(crate) shipped: bool,
    /// Selects a program's tests; empty: all that are not in another suite.
    pub(crate) arguments: &'static [&'static str],
    /// It starts the conformance worker of each client.
    pub(crate) workers: bool,
    /// It starts the S3 server that comes with the Python client's environment.
    pub(crate) s3: bool,
    /// It runs programs in Node.js: a client generated from the description of REST, a provider of identities.
    pub(crate) scripts: bool,
}

/// How a suite spends its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// It is compute-bound: it runs concurrently with the others, if they leave a core.
    Computes,
    /// It waits for real processes, disks and clocks: compute-bound suites must not take a core from it.
    Waits,
    /// It tests a client: it mostly waits too, and runs concurrently with those that wait.
    Clients,
}

/// The parts of a suite.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SuiteKind {
    /// `cargo xtask check`.
    Check,
    /// Test programs of the workspace.
    Programs(&'static [Pick]),
    /// Examples in the documentation of the crates.
    Doctests,
    /// The Python client's own tests.
    Python,
    /// The TypeScript client's own tests.
    Node,
    /// The worker of each client against the conformance kit.
    Conformance,
    /// The Go client's own tests.
    Go,
    /// The Java client's own tests.
    Java,
    /// The web console's own tests.
    Console,
}

/// Some test programs of one package.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    /// The tests in its code.
    Units(&'static str),
    /// One program in its folder `tests`.
    Test(&'static str, &'static str),
}

impl Pick {
    pub(crate) fn takes(self, target: &Target) -> bool {
        match self {
            Self::Units(package) => target.package == package && ["lib", "bin"].contains(&&*target.kind),
            Self::Test(package, name) => {
                (&*target.package, &*target.kind, &*target.name) == (package, "test", name)
            }
        }
    }
}

const fn suite(name: &'static str, what: &'static str, kind: SuiteKind) -> Suite {
    Suite {
        name,
        what,
        kind,
        packages: &[],
        lane: Lane::Computes,
        threads: None,
        shipped: false,
        arguments: &[],
        workers: false,
        s3: false,
        scripts: false,
    }
}

const fn programs(name: &'static str, what: &'static str, picks: &'static [Pick]) -> Suite {
    suite(name, what, SuiteKind::Programs(picks))
}

/// Tests of a client with the shipped program.
const fn client(
    name: &'static str,
    what: &'static str,
    kind: SuiteKind,
    packages: &'static [&'static str],
) -> Suite {
    // For Go's fences, S3 is a server in the test process.
    let s3 = !matches!(kind, SuiteKind::Go | SuiteKind::Conformance);
    Suite { lane: Lane::Clients, shipped: true, packages, s3, ..suite(name, what, kind) }
}

/// How many seeds of the simulation a build plays, unless the environment says otherwise.
pub(crate) const SEEDS: (&str, &str) = ("ROSTERD_SIM_SEEDS", "700");

/// The table. A suite whose test program cargo does not know is skipped and named.
pub(crate) const SUITES: &[Suite] = &[
    suite("check", "formatting, lints, dependencies", SuiteKind::Check),
    programs(
        "domain",
        "the decisions: pure functions, golden files, properties",
        &[Pick::Units("rosterd-domain")],
    ),
    Suite {
        packages: python::SERVERS,
        s3: true,
        ..programs(
            "unit",
            "unit tests, those of the Rust client, arrows between folders",
            &[
                Pick::Units("rosterd-runtime"),
                Pick::Units("rosterd-session"),
                Pick::Units("rosterd-wire"),
                Pick::Units("rosterd-registry"),
                Pick::Units("rosterd-history"),
                Pick::Units("rosterd-coordinator"),
                Pick::Units("rosterd-traces"),
                Pick::Units("rosterd-api"),
                Pick::Units("rosterd-outbound"),
                Pick::Units("rosterd-alarms"),
                Pick::Units("rosterd-conformance"),
                Pick::Units("rosterd"),
                Pick::Test("rosterd", "architecture"),
                Pick::Units("rosterd-client"),
                Pick::Test("rosterd-client", "it"),
                Pick::Test("rosterd-client", "traces"),
                Pick::Units("xtask"),
            ],
        )
    },
    Suite {
        packages: &["strace", "util-linux", "mount", "default-jre-headless", zookeeper::MAVEN],
        lane: Lane::Waits,
        threads: Some("4"),
        ..programs(
            "registry",
            "the contract on every store; disks, real ZooKeeper servers",
            &[Pick::Test("rosterd", "registry")],
        )
    },
    Suite {
        packages: &["postgresql"],
        lane: Lane::Waits,
        threads: Some("4"),
        ..programs(
            "history",
            "the history in PostgreSQL, at real servers: kills, stalls, lost answers, TLS",
            &[Pick::Test("rosterd", "history")],
        )
    },
    programs(
        "sim",
        "whole clusters under a simulated clock, seeded faults",
        &[Pick::Test("rosterd-sim", "sim")],
    ),
    programs(
        "net",
        "the real network stack and client on hosts of a simulated network",
        &[Pick::Test("rosterd", "net")],
    ),
    Suite {
        lane: Lane::Waits,
        ..programs(
            "edge",
            "the gRPC and HTTP edge before a scripted coordinator",
            &[Pick::Test("rosterd", "edge")],
        )
    },
    programs(
        "fuzz",
        "everything that reads what others wrote, on mutated inputs",
        &[Pick::Test("rosterd", "fuzz")],
    ),
    // After the others that compute: it waits for the build lock, which a check holds for long.
    suite("doc", "examples in the documentation", SuiteKind::Doctests),
    Suite { lane: Lane::Waits, ..programs("cli", "the command line", &[Pick::Test("rosterd", "cli")]) },
    Suite {
        packages: &["iproute2", "mount", "nftables", "prometheus", "util-linux"],
        lane: Lane::Waits,
        threads: Some("6"),
        scripts: true,
        ..programs("it", "real processes: coordinators, workers, kills", &[Pick::Test("rosterd", "it")])
    },
    Suite {
        packages: &[
            "iproute2",
            "mount",
            "nftables",
            "postgresql",
            "util-linux",
            console::JDK,
            zookeeper::MAVEN,
        ],
        lane: Lane::Waits,
        threads: Some("4"),
        shipped: true,
        ..programs(
            "cluster",
            "several coordinators on real ZooKeeper servers, kills, cuts, full disks; Elastic-Job's console",
            &[Pick::Test("rosterd", "cluster")],
        )
    },
    Suite {
        lane: Lane::Waits,
        shipped: true,
        arguments: &["hostile::", "--ignored"],
        ..programs(
            "hostile",
            "a worker that sends whatever it can, for a minute, next to honest ones",
            &[Pick::Test("rosterd", "it")],
        )
    },
    client(
        "python",
        "the Python client; its fences at PostgreSQL, Redis and S3",
        SuiteKind::Python,
        python::SERVERS,
    ),
    client(
        "typescript",
        "the TypeScript client, at a real coordinator too; its fences at PostgreSQL, Redis and S3",
        SuiteKind::Node,
        node::PACKAGES,
    ),
    client(
        "go",
        "the Go client, at a real coordinator too; its fences at PostgreSQL, Redis and S3",
        SuiteKind::Go,
        go::PACKAGES,
    ),
    client(
        "java",
        "the Java client, at a real coordinator too; its fences at PostgreSQL, Redis and S3; Elastic-Job's jobs",
        SuiteKind::Java,
        java::PACKAGES,
    ),
    Suite {
        workers: true,
        ..client(
            "conformance",
            "every client's worker before the scripted coordinator of `rosterd conformance`",
            SuiteKind::Conformance,
            &[],
        )
    },
    Suite {
        lane: Lane::Waits,
        shipped: true,
        arguments: &["languages::", "--ignored"],
        workers: true,
        packages: &["default-jre-headless", zookeeper::MAVEN],
        ..programs(
            "languages",
            "workers of all languages share a job on three coordinators, and each process is killed",
            &[Pick::Test("rosterd", "cluster")],
        )
    },
    Suite {
        packages: web::PACKAGES,
        lane: Lane::Waits,
        shipped: true,
        ..suite(
            "console",
            "the web console: what it computes; every page and action in Chromium",
            SuiteKind::Console,
        )
    },
];

/// The requested suites, or all; in the table's order.
pub(crate) fn chosen(only: &[String]) -> Result<Vec<Suite>> {
    if let Some(name) = only.iter().find(|name| SUITES.iter().all(|suite| suite.name != **name)) {
        bail!("there is no suite {name:?}; the suites are:\n{}", list());
    }
    let wanted = |suite: &&Suite| only.is_empty() || only.iter().any(|name| name == suite.name);
    Ok(SUITES.iter().filter(wanted).copied().collect())
}

/// The table for people.
pub(crate) fn list() -> String {
    SUITES.iter().map(|suite| format!("  {:<11} {}\n", suite.name, suite.what)).collect()
}

/// The cargo targets of these suites. Always with the whole workspace's features, so that nothing is built twice.
pub(crate) fn build_arguments(suites: &[Suite]) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| {
        if !arguments.windows(words.len()).any(|there| there == words) {
            arguments.extend(words.iter().map(ToString::to_string));
        }
    };
    for suite in suites {
        let SuiteKind::Programs(picks) = suite.kind else { continue };
        for pick in picks {
            match pick {
                Pick::Units(_) => add(&["--lib", "--bins"]),
                Pick::Test(_, name) => add(&["--test", name]),
            }
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::targets;

    #[test]
    fn every_test_target_of_the_workspace_belongs_to_exactly_one_suite() {
        for target in &targets().unwrap() {
            let takes = |suite: &&Suite| match suite.kind {
                SuiteKind::Programs(picks) => picks.iter().any(|pick| pick.takes(target)),
                _ => false,
            };
            // A suite with some tests of a program has a counterpart with the others.
            let whole = SUITES.iter().filter(|suite| suite.arguments.is_empty());
            let names: Vec<_> = whole.filter(takes).map(|suite| suite.name).collect();
            assert_eq!(
                names.len(),
                1,
                "{target:?} is in {names:?}: give it one row in SUITES (xtask/src/suites.rs)"
            );
        }
    }

    #[test]
    fn an_unknown_suite_is_refused_with_the_list() {
        let error = chosen(&["simm".into()]).unwrap_err().to_string();
        assert!(error.contains("\"simm\"") && error.contains("  sim  "), "{error}");
    }

    #[test]
    fn one_suite_builds_no_more_than_it_needs() {
        let sim = chosen(&["sim".into(), "edge".into()]).unwrap();
        assert_eq!(build_arguments(&sim), ["--test", "sim", "--test", "edge"]);
    }
}
