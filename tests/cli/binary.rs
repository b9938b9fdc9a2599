//! Runs the binary.

use std::ffi::OsStr;
use std::process::{Command, Output};

/// The result of a run of the binary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ran {
    /// Its output; it must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Its output as JSON; it must succeed.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        let out = self.ok();
        assert_eq!(out.lines().count(), 1, "one value, one line: {out}");
        serde_json::from_str(&out).expect("output is JSON")
    }
}

/// The binary, without rosterd's variables from the environment of the tests.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rosterd"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROSTERD_")) {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end.
pub(crate) fn rosterd<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    command().args(args).output().expect("the binary starts").into()
}
