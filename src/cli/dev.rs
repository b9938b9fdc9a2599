//! `rosterd dev`: everything on one port of this machine, to try it out.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use rosterd_client::{Job, Options, Run, Worker};
use tokio::io::AsyncReadExt as _;

use super::failure::{Code, Failure, Result};
use super::output::look::look;
use super::serve::{Settings, read, start};
use crate::app::{DEMO, Voice};

/// Where `dev` keeps its data unless told.
const DATA_DIR: &str = "rosterd-data";
/// The name under which a process of this program is a worker of the demonstration.
pub(super) const WORKER: &str = "dev-worker";

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
        // Prints a line for each event, crashes and failovers as well.
        sources.defaults.push(("log", "warn,rosterd_coordinator::notes=off".into()));
        sources.flags.push(embedded);
        let voice = Voice { color: look().color, program: program(), worker: WORKER };
        start(read(&sources)?.config, |config| crate::app::dev(config, voice)).await
    }
}

/// How this program is called: by its name where a shell finds it so, else by its path.
#[allow(clippy::disallowed_methods, reason = "PATH is where programs are")]
fn program() -> String {
    let Ok(me) = std::env::current_exe() else { return "rosterd".to_owned() };
    let found = std::env::var_os("PATH").into_iter().any(|path| {
        let first = std::env::split_paths(&path).map(|dir| dir.join("rosterd")).find(|file| file.is_file());
        first.and_then(|file| file.canonicalize().ok()) == me.canonicalize().ok()
    });
    if found {
        return "rosterd".to_owned();
    }
    let here = std::env::current_dir().ok();
    let near = here.and_then(|here| me.strip_prefix(here).ok().map(|path| format!("./{}", path.display())));
    near.unwrap_or_else(|| me.display().to_string())
}

/// A worker of the demonstration, until its stdin ends.
#[derive(Debug, Parser)]
pub(super) struct DevWorker {
    name: String,
    server: String,
}

impl DevWorker {
    pub(super) fn run(self) -> ExitCode {
        let done = tokio::runtime::Runtime::new()
            .map_err(|error| Failure::failed(Code::Runtime, error))
            .and_then(|runtime| runtime.block_on(self.work()));
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        }
    }

    async fn work(self) -> Result {
        super::log::start("error", false)?;
        let mut options = Options::default();
        options.address = self.name;
        let job = Job::new(DEMO).handler(|run: Run| async move {
            tokio::time::sleep(Duration::from_millis(200 + 40 * u64::from(run.item()))).await;
            run.set_output(format!("greeted {}", run.item_parameter()));
            Ok(())
        });
        let over = async {
            let mut all = Vec::new();
            // However it ends, nobody wants this worker from then on.
            let _over = tokio::io::stdin().read_to_end(&mut all).await;
        };
        let worker = Worker::new(options).server(self.server).slots(4).add(job).shutdown(over);
        worker.run().await.map_err(|error| Failure::failed(Code::Worker, error))
    }
}
