//! What workers wrote, before the one judge: a broken promise fails the test with the table of runs.

#[allow(unused_imports, reason = "shared by several test binaries")]
pub use rosterd_domain::verify::{Line, Run, Verdict, What};

/// Judges. How long a process takes to notice that it woke, nobody can say here.
pub fn judge(lines: &[Line]) -> Verdict {
    rosterd_domain::verify::judge(lines, u64::MAX)
}

/// For tests.
pub trait Clean {
    /// Fails where a promise is broken.
    fn is_clean(&self);
}

impl Clean for Verdict {
    #[track_caller]
    fn is_clean(&self) {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "broken promises:\n  {}\nruns:\n{}", faults.join("\n  "), self.table());
    }
}
