//! `rosterd dev`: everything on one port of this machine, to try it out.

use clap::Args;

use super::failure::Result;
use super::serve::{Settings, read, start};

/// Where `dev` keeps its data unless told.
const DATA_DIR: &str = "rosterd-data";

#[derive(Debug, Args)]
pub(crate) struct Dev {
    #[command(flatten)]
    settings: Settings,
}

impl Dev {
    pub(crate) async fn run(self) -> Result {
        let embedded = ("registry".to_owned(), "embedded".to_owned());
        let mut sources = self.settings.sources(&[]);
        sources.defaults.push(("data_dir", DATA_DIR.into()));
        // What happens is told in lines of its own.
        sources.defaults.push(("log", "warn".into()));
        sources.flags.push(embedded);
        start(read(&sources)?.config, crate::app::dev).await
    }
}
