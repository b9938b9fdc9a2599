//! `rosterd completion`: scripts that complete commands and flags in a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use super::failure::Result;
use super::show::say;

#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell, for example: source <(rosterd completion bash)
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(&self) -> Result {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "rosterd", &mut script);
        say(&String::from_utf8_lossy(&script))
    }
}
