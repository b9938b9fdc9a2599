//! `rosterd man`: the manual, a page for each command.

use std::path::PathBuf;

use clap::{Args, Command};

use super::failure::{Code, Failure, Result};
use super::output::form::say;

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where the pages go, as rosterd.1, rosterd-jobs-list.1 and so on; made if there is none
    dir: PathBuf,
}

impl Man {
    /// `command`: all commands.
    pub(crate) fn run(&self, command: Command) -> Result {
        let written =
            std::fs::create_dir_all(&self.dir).and_then(|()| clap_mangen::generate_to(command, &self.dir));
        let dir = self.dir.display();
        written.map_err(|error| Failure::failed(Code::Output, format!("{dir}: {error}")))?;
        say(&format!("the manual is in {dir}: man {dir}/rosterd.1"))
    }
}
