//! The command line of the benchmarks.

use std::path::PathBuf;

use crate::clients::{Program, built};

/// Another scheduler that can be measured as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    ElasticJob,
    Quartz,
}

impl Other {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "elasticjob" => Ok(Self::ElasticJob),
            "quartz" => Ok(Self::Quartz),
            other => Err(format!("--against {other:?}: there are elasticjob and quartz")),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Options {
    only: Vec<String>,
    /// The other scheduler to compare with.
    against: Option<Other>,
    /// How often each figure is measured.
    pub(crate) runs: usize,
    /// How often something is killed; 0: the figure's default.
    trials: u32,
    /// The registry is a real ZooKeeper server, not the embedded store.
    pub(crate) zookeeper: bool,
    /// Small sizes and short times, to check that everything works.
    pub(crate) quick: bool,
    /// The coordinator's program.
    pub(crate) program: PathBuf,
    /// The clients whose conformance workers are measured.
    pub(crate) clients: Vec<Program>,
    /// Sizes instead of the figure's own, where it has any.
    pub(crate) sizes: Vec<u32>,
    /// How long fires are measured, in seconds.
    pub(crate) seconds: u64,
    /// The duration was not set, and the run is not quick.
    unhurried: bool,
}

const USAGE: &str = "\
bench [--only NAME[,NAME]] [--runs N] [--quick] [--sizes N[,N]] [--seconds N] [--trials N] [--program PATH]
      [--registry embedded|zookeeper] [--against elasticjob|quartz] [--client NAME=COMMAND]...
";

impl Options {
    /// The other scheduler to measure as well, which has other figures.
    pub(crate) fn against(arguments: &[String]) -> Option<Other> {
        let place = arguments.iter().position(|argument| argument == "--against")?;
        Other::named(arguments.get(place + 1)?).ok()
    }

    /// The settings of the figures.
    pub(crate) fn settings(&self) -> &'static str {
        match (self.against, self.zookeeper) {
            (Some(Other::ElasticJob), _) => crate::against::SETTINGS,
            (Some(Other::Quartz), _) => crate::quartz::SETTINGS,
            (None, true) => {
                "one ZooKeeper 3.9.5 server (tickTime 1 s, its log synced to disk), defaults but for what a figure says to be set"
            }
            (None, false) => "embedded store, defaults but for what a figure says to be set",
        }
    }

    /// `None`: help was requested and printed.
    pub(crate) fn parse(arguments: &[String], figures: &[(&str, &str)]) -> Result<Option<Self>, String> {
        let mut options = Self {
            only: Vec::new(),
            against: None,
            runs: 3,
            trials: 0,
            quick: false,
            zookeeper: false,
            program: beside_this(),
            clients: Vec::new(),
            sizes: Vec::new(),
            seconds: 0,
            unhurried: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value\n{USAGE}"));
            let number = |text: &String| text.parse::<u32>().map_err(|_| format!("{text:?} is not a number"));
            match argument.as_str() {
                "--only" => options.only = value()?.split(',').flat_map(together).collect(),
                "--runs" => options.runs = number(value()?)?.clamp(1, 100) as usize,
                "--trials" => options.trials = number(value()?)?.clamp(1, 1000),
                "--registry" => match value()?.as_str() {
                    "embedded" => options.zookeeper = false,
                    "zookeeper" => options.zookeeper = true,
                    other => return Err(format!("--registry {other:?}: there are embedded and zookeeper")),
                },
                "--against" => options.against = Some(Other::named(value()?)?),
                "--quick" => options.quick = true,
                "--sizes" => {
                    options.sizes =
                        value()?.split(',').map(|n| number(&n.to_owned())).collect::<Result<_, _>>()?;
                }
                "--seconds" => options.seconds = u64::from(number(value()?)?.clamp(1, 600)),
                "--program" => options.program = PathBuf::from(value()?),
                "--client" => {
                    let text = value()?;
                    let program =
                        Program::parse(text).ok_or(format!("--client {text:?}: it is NAME=COMMAND"))?;
                    options.clients.push(program);
                }
                "--help" | "-h" => {
                    print!("{USAGE}");
                    figures.iter().for_each(|(name, what)| println!("  {name:8} {what}"));
                    return Ok(None);
                }
                other => return Err(format!("{other:?} is not understood\n{USAGE}")),
            }
        }
        if let Some(name) = options.only.iter().find(|name| !figures.iter().any(|(known, _)| known == name)) {
            let known: Vec<&str> = figures.iter().map(|(name, _)| *name).collect();
            return Err(format!("no figure {name:?}: there are {}", known.join(", ")));
        }
        if !options.program.exists() {
            return Err(format!("{} is not there: cargo xtask bench builds it", options.program.display()));
        }
        if options.clients.is_empty() {
            options.clients = built();
        }
        if options.quick {
            options.runs = 1;
        }
        if options.seconds == 0 {
            options.unhurried = !options.quick;
            options.seconds = if options.quick { 5 } else { 20 };
        }
        Ok(Some(options))
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// How often to kill: as set, or `usual`, or `quick` in a quick run.
    pub(crate) fn trials(&self, usual: u32, quick: u32) -> u32 {
        match (self.trials, self.quick) {
            (0, true) => quick,
            (0, false) => usual,
            (asked, _) => asked,
        }
    }

    /// How many seconds to measure something that takes longer than fires, unless it is set.
    pub(crate) fn at_leisure(&self, usual: u64) -> u64 {
        if self.unhurried { usual } else { self.seconds }
    }

    /// The sizes as set, or `usual`, or `quick` in a quick run.
    pub(crate) fn sizes(&self, usual: &[u32], quick: u32) -> Vec<u32> {
        match (self.sizes.is_empty(), self.quick) {
            (false, _) => self.sizes.clone(),
            (true, true) => vec![quick],
            (true, false) => usual.to_vec(),
        }
    }
}

/// A name for several figures.
fn together(name: &str) -> Vec<String> {
    let names: &[&str] = match name {
        "kills" => &["crash", "host", "leader"],
        one => &[one],
    };
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The coordinator's program in the folder that this one was built into.
fn beside_this() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("rosterd")
}
