//! `cargo xtask fuzz`: fuzzing by itself, for as long as requested. The last line is the result.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::told;
use crate::metadata::build;

const WRITE: &str = "write `fuzz --seconds N [--target TARGET]`";

/// The request.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    seconds: u64,
    target: Option<String>,
}

impl Request {
    fn read(arguments: &[String]) -> Result<Self> {
        let (mut seconds, mut target) = (None, None);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value: {WRITE}"));
            match argument.as_str() {
                "--seconds" => {
                    let text = value()?;
                    let number =
                        text.parse().with_context(|| format!("{text:?} is not a number: {WRITE}"))?;
                    seconds = Some(number);
                }
                "--target" => target = Some(value()?.clone()),
                _ => bail!("unknown argument {argument:?}: {WRITE}"),
            }
        }
        Ok(Self { seconds: seconds.context(WRITE)?, target })
    }
}

/// Fuzzes; whether all of it succeeded.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let request = Request::read(arguments)?;
    let wanted = ["--test".to_owned(), "fuzz".into()];
    let Some(programs) = build(&wanted)? else { return Ok(false) };
    let program =
        programs.iter().find(|program| program.target.name == "fuzz").context("no program fuzz was built")?;
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).args(["--exact", "long", "--nocapture"]);
    command.env("FUZZ_SECONDS", request.seconds.to_string());
    if let Some(target) = &request.target {
        command.env("FUZZ_TARGET", target);
    }
    told(&mut command, "fuzz: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request> {
        Request::read(&text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_played_is_what_was_asked() {
        let request = read("--seconds 60 --target frames").unwrap();
        assert_eq!(request, Request { seconds: 60, target: Some("frames".into()) });
        for wrong in ["", "--seconds", "--seconds x", "--target frames", "--all"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
