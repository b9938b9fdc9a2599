//! A separate network for a worker, whose packets can be dropped without notice to either end: a namespace with a pair
//! of interfaces, and rules of nftables. Needs root.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static LAST: AtomicU32 = AtomicU32::new(0);

/// A network namespace, joined to the machine's own by a pair of interfaces.
#[derive(Debug)]
pub struct Net {
    name: String,
    /// The machine's end.
    pub host: String,
}

/// The direction of packets.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    FromWorker,
    ToWorker,
}

/// Whether this machine allows it; reports it if not, and fails if it is required.
pub fn possible() -> bool {
    if !crate::harness::has_root("dropping packets (a network namespace and nftables)") {
        return false;
    }
    for (program, package) in [("ip", "iproute2"), ("nft", "nftables")] {
        let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(found.is_ok(), "{program} is missing: run `cargo xtask setup`, or apt-get install {package}");
    }
    true
}

impl Net {
    pub fn new() -> Self {
        // Pairs of addresses of 10.200.0.0/13, a different one for every process and test.
        let pair = (std::process::id() % 8192) * 16 + LAST.fetch_add(1, Ordering::Relaxed);
        let base = (10 << 24) | (200 << 16) | ((pair * 4) % (1 << 19));
        let address = |n: u32| std::net::Ipv4Addr::from(base + n).to_string();
        let name = format!("rit{pair}");
        let net = Self { name: name.clone(), host: address(1) };
        let (ours, theirs) = (format!("{name}a"), format!("{name}b"));
        ip(&["netns", "add", &name]);
        ip(&["link", "add", &ours, "type", "veth", "peer", "name", &theirs, "netns", &name]);
        ip(&["addr", "add", &format!("{}/30", address(1)), "dev", &ours]);
        ip(&["link", "set", &ours, "up"]);
        ip(&["-n", &name, "addr", "add", &format!("{}/30", address(2)), "dev", &theirs]);
        ip(&["-n", &name, "link", "set", &theirs, "up"]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        net
    }

    /// The command that runs a program inside.
    pub fn wrapper(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// From now on every packet in these directions is dropped.
    pub fn cut(&self, ways: &[Way]) {
        let chain = |way: &Way| {
            let (name, hook) = match way {
                Way::FromWorker => ("outgoing", "output"),
                Way::ToWorker => ("incoming", "input"),
            };
            format!("add chain inet cut {name} {{ type filter hook {hook} priority 0; policy drop; }}\n")
        };
        let chains: String = ways.iter().map(chain).collect();
        self.nft(&format!("add table inet cut\n{chains}"));
    }

    /// Packets go through again.
    pub fn heal(&self) {
        self.nft("delete table inet cut");
    }

    fn nft(&self, rules: &str) {
        let words = self.wrapper();
        let mut nft = Command::new(words[0])
            .args(&words[1..])
            .args(["nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "nft refuses {rules}");
    }
}

fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {}: {said}", words.join(" "));
}

impl Drop for Net {
    fn drop(&mut self) {
        // The pair is removed with its namespace, once nothing runs in it.
        let _ = Command::new("ip").args(["link", "del", &format!("{}a", self.name)]).status();
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
