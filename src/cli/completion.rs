//! `rosterd completion`: scripts that complete commands, flags and the names of jobs in a shell.

use clap::{Args, ValueEnum};
use clap_complete::env::Shells;

use super::failure::{Code, Failure, Result};
use super::output::form::say;

#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// The variable by which a shell asks this program what to offer.
pub(super) const VARIABLE: &str = "COMPLETE";

impl Completion {
    pub(crate) fn run(&self) -> Result {
        let name =
            self.shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let shells = Shells::builtins();
        let failed = |why: String| Failure::failed(Code::Output, why);
        let shell = shells.completer(&name).ok_or_else(|| failed(format!("{name}: no such shell")))?;
        let mut script = Vec::new();
        let written = shell.write_registration(VARIABLE, "rosterd", "rosterd", "rosterd", &mut script);
        written.map_err(|error| failed(error.to_string()))?;
        say(&String::from_utf8_lossy(&script))
    }
}
