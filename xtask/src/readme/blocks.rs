//! The blocks of README's first section, in order, and how each is handled.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) language: String,
    pub(super) text: String,
}

/// How a block is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Do {
    /// It prepares the machine: only run on a fresh one.
    Prepare,
    /// All of its commands must succeed.
    Run,
    /// Its last command keeps running; it is ended like by Ctrl-C once it has printed this.
    Ends(&'static str),
    /// Its last command runs until the end; the next step waits until it has printed this.
    Stays(&'static str),
    /// It is the text of this file.
    File(&'static str),
    /// Each of its lines begins like one of the output of the last `Stays`.
    Said,
    /// It is skipped, for this reason.
    LeftOut(&'static str),
}

/// A block, by its beginning.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) begins: &'static str,
    /// Below the home folder.
    pub(super) folder: &'static str,
    pub(super) what: Do,
}

const fn step(begins: &'static str, folder: &'static str, what: Do) -> Step {
    Step { begins, folder, what }
}

const CLONE: &str = "rosterd";

/// The steps of a reader of README, in the folders that its text names.
pub(super) const STEPS: [Step; 12] = [
    step("apt-get install git", "", Do::Prepare),
    step("cargo run --release -- dev", CLONE, Do::Stays("succeeded")),
    step("rosterd is up on", CLONE, Do::Said),
    step("python3 -m venv .venv", CLONE, Do::Run),
    step("from rosterd import Worker", CLONE, Do::File("hello.py")),
    step(".venv/bin/python hello.py", CLONE, Do::Ends("item ")),
    step("cargo new hello", "", Do::Run),
    step("use rosterd_client::", "hello", Do::File("src/main.rs")),
    step("cargo run", "hello", Do::Ends("item ")),
    step("cargo install --locked --path .", CLONE, Do::Stays(": users")),
    step("rosterd jobs list", CLONE, Do::Ends("backup/")),
    step("cargo xtask test", CLONE, Do::LeftOut("it is the suites themselves")),
];

/// How long a step may take: the first one compiles all.
pub(super) const PATIENCE: Duration = Duration::from_secs(45 * 60);

/// The blocks of the section, each with its step.
pub(super) fn planned(readme: &str) -> Result<Vec<(Block, &'static Step)>> {
    let blocks = blocks(readme)?;
    let begins: Vec<&str> = blocks.iter().filter_map(|block| block.text.lines().next()).collect();
    ensure!(
        begins.len() == STEPS.len()
            && begins.iter().zip(&STEPS).all(|(is, step)| is.starts_with(step.begins)),
        "README's blocks are {begins:#?}: give each its step in STEPS (xtask/src/readme/blocks.rs)"
    );
    Ok(blocks.into_iter().zip(&STEPS).collect())
}

fn blocks(readme: &str) -> Result<Vec<Block>> {
    let Some((_, section)) = readme.split_once("\n## Try it\n") else {
        bail!("README has no section \"Try it\"")
    };
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in section.lines() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => open = Some(Block { language: language.into(), text: String::new() }),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    ensure!(open.is_none(), "README's last block is not closed");
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;

    #[test]
    fn each_block_of_the_readme_has_its_step() {
        let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
        let planned = planned(&readme).unwrap();
        for (block, step) in &planned {
            let shell =
                matches!(step.what, Do::Prepare | Do::Run | Do::Ends(_) | Do::Stays(_) | Do::LeftOut(_));
            assert_eq!(block.language == "sh", shell, "{block:?} {step:?}");
        }
        let more = readme.replacen("## Try it\n", "## Try it\n\n```sh\nrm -rf /\n```\n", 1);
        let refused = self::planned(&more).unwrap_err().to_string();
        assert!(refused.contains("rm -rf /") && refused.contains("STEPS"), "{refused}");
    }
}
