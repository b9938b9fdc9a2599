//! Fuzzing of all parsers of foreign input: names, schedules, job files, nodes of a store, exports, credentials,
//! configuration, files of TLS, workers' frames and whole conversations, people's requests with their page tokens,
//! nodes of coordinators, and the lines that `rosterd verify` reads.
//!
//! Each target takes any bytes. It must not panic, must finish in bounded time and memory, and accepted input must have
//! the target's property (mostly: written and read again it is the same). Inputs are mutations of a kept corpus; an
//! input with a new outcome is mutated further. No compiler support is needed, so it runs wherever the tests do.
//!
//! `cargo xtask test --only fuzz` plays a fixed number of rounds, the same every time. `cargo xtask fuzz --seconds N`
//! goes on with other seeds. A failing input is shortened, written below `target/fuzz`, and belongs in the corpus as a
//! regression test once it is fixed: the whole corpus is played in every run.

#![allow(unreachable_pub, reason = "a test binary has no users")]
#![allow(clippy::disallowed_methods, reason = "what is measured is real time")]

mod admin;
mod engine;
mod files;
mod jobs;
mod mutate;
mod nodes;
mod regressions;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../support/rng.rs"]
mod rng;
mod stream;
mod texts;

use peak_alloc::PeakAlloc;

use engine::{Target, play};

/// Counts allocations: memory is bounded as well.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Everything that is fuzzed.
const TARGETS: &[Target] = &[
    Target { rounds: 6000, ..Target::new("names", texts::names, &["-", "@-@", "/", ".", "10.0.0.7"]) },
    Target { rounds: 1500, ..Target::new("schedule", texts::schedule, texts::CRON_WORDS) },
    Target { rounds: 6000, ..Target::new("values", texts::values, &["=", ",", "ms", "KiB", "Z", "0="]) },
    Target { rounds: 4000, ..Target::new("secrets", texts::secrets, &["rosterd_", "_", "dns:", "cn:", "*"]) },
    Target { rounds: 600, ..Target::new("job_file", jobs::file, jobs::WORDS) },
    Target { rounds: 1200, ..Target::new("job_nodes", jobs::nodes, jobs::WORDS) },
    Target { rounds: 800, ..Target::new("elastic_job", jobs::elastic_job, jobs::WORDS) },
    Target { rounds: 3000, ..Target::new("records", nodes::records, nodes::WORDS) },
    // Compressed data may expand a thousandfold, up to 16 MiB.
    Target { rounds: 1500, memory: (40 * MIB, 64), ..Target::new("sharding", nodes::sharding, nodes::WORDS) },
    Target { rounds: 1200, ..Target::new("tree", nodes::tree, nodes::WORDS) },
    Target { rounds: 400, ..Target::new("export", files::export, nodes::WORDS) },
    Target { rounds: 800, ..Target::new("credentials", files::credentials, files::CREDENTIAL_WORDS) },
    Target { rounds: 600, ..Target::new("config", files::config, files::CONFIG_WORDS) },
    Target { rounds: 1500, ..Target::new("log", files::log, files::LOG_WORDS) },
    Target {
        rounds: 3000,
        ..Target::new("frames", stream::frames, &["\u{1}", "\u{0}", "\n", "w1", "words"])
    },
    Target {
        rounds: 120,
        memory: (64 * MIB, 64 * KIB),
        ..Target::new("conversation", stream::conversation, &[])
    },
    Target {
        rounds: 250,
        memory: (64 * MIB, 64 * KIB),
        ..Target::new("admin", admin::requests, admin::REQUEST_WORDS)
    },
    Target {
        rounds: 120,
        memory: (64 * MIB, 64 * KIB),
        ..Target::new(
            "coordinators",
            admin::coordinators,
            &["\n", "\"draining\":true", "\"started\":", "{", "0 "],
        )
    },
    Target {
        rounds: 800,
        ..Target::new(
            "certificates",
            admin::certificates,
            &["\n=====\n", "-----BEGIN CERTIFICATE-----", "-----"],
        )
    },
];

macro_rules! fuzzed {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            play(stringify!($name));
        })*

        #[test]
        fn no_target_is_left_out() {
            let tested = [$(stringify!($name)),*];
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), tested);
        }
    };
}

fuzzed!(
    names,
    schedule,
    values,
    secrets,
    job_file,
    job_nodes,
    elastic_job,
    records,
    sharding,
    tree,
    export,
    credentials,
    config,
    log,
    frames,
    conversation,
    admin,
    coordinators,
    certificates
);

/// `cargo xtask fuzz`: runs for the given time. Without one it does nothing.
#[test]
fn long() {
    let Ok(seconds) = std::env::var("FUZZ_SECONDS") else { return };
    let seconds = seconds.parse().expect("FUZZ_SECONDS is a number");
    engine::go_on(seconds, std::env::var("FUZZ_TARGET").ok().as_deref());
}
