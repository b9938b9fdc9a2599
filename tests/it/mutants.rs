//! Faults that are injected into a running coordinator, which no normal build has, and its own metrics meanwhile.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::*;

impl Cluster {
    /// A coordinator into which faults can be injected.
    pub async fn with_mutants(timing: Timing, mutants: &[(&str, &str)]) -> Self {
        let mut cluster = Self::prepare(timing, &[]);
        std::fs::create_dir(cluster.home.path(MUTANTS)).unwrap();
        for (name, value) in mutants {
            cluster.mutant(name, value);
        }
        cluster.serve().await;
        cluster
    }

    /// Injects a fault into the coordinator, from now on. The file is written atomically: half a number is another
    /// number.
    pub fn mutant(&self, name: &str, value: &str) {
        let (part, whole) = (self.home.path("mutant.part"), self.home.path(MUTANTS).join(name));
        std::fs::write(&part, value).unwrap();
        std::fs::rename(part, whole).unwrap();
    }

    /// The value of a counter, as scraped.
    pub async fn counted(&self, name: &str) -> f64 {
        let text = self.page("/metrics").await;
        let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }

    /// A page of the coordinator.
    pub async fn page(&self, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect((&*self.host, self.port)).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host);
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }
}
