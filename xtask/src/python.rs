//! The Python client: its environment in the target folder, its tests, its linters.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{must, output, root, target};
use crate::summary::{Tally, pytest, tallied};

/// The oldest Python that the client supports.
const OLDEST: (u32, u32) = (3, 10);
const CANDIDATES: [&str; 6] =
    ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];

/// The servers for its tests of fences; S3 comes with the environment: [`s3_server`].
pub(crate) const SERVERS: &[&str] = &["postgresql", "redis-server"];

fn folder() -> PathBuf {
    root().join("clients/python")
}

fn is_there() -> bool {
    folder().join("pyproject.toml").is_file()
}

fn environment() -> PathBuf {
    target().join("python")
}

fn program(name: &str) -> Command {
    let mut command = Command::new(environment().join("bin").join(name));
    command.current_dir(folder()).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Creates or updates the environment; does nothing if it is up to date.
pub(crate) fn setup() -> Result<()> {
    if !is_there() {
        println!("    python: clients/python does not exist");
        return Ok(());
    }
    let wanted = std::fs::read_to_string(folder().join("pyproject.toml"))?;
    let stamp = environment().join("made-from.toml");
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        println!("    python: ready in {}", environment().display());
        return Ok(());
    }
    make(&environment())?;
    let mut install = program("pip");
    must(install.args(["install", "--disable-pip-version-check", "--quiet", "--editable", ".[dev]"]))?;
    Ok(std::fs::write(stamp, wanted)?)
}

/// Creates an empty environment, and replaces an existing one.
pub(crate) fn make(folder: &Path) -> Result<()> {
    must(Command::new(interpreter()?).args(["-m", "venv", "--clear"]).arg(folder))
        .context("no virtual environment; on Debian: apt-get install python3-venv")
}

/// Debian packages that the environment needs: none if Python comes from elsewhere.
pub(crate) fn packages() -> &'static [&'static str] {
    let can = |name: &&&str| {
        Command::new(name)
            .args(["-c", "import ensurepip, venv"])
            .status()
            .is_ok_and(|status| status.success())
    };
    if interpreter().is_ok_and(|name| can(&&name)) { &[] } else { &["python3", "python3-venv"] }
}

fn interpreter() -> Result<&'static str> {
    let (major, minor) = OLDEST;
    let script = format!("import sys; sys.exit(sys.version_info < ({major}, {minor}))");
    let fits =
        |name: &&&str| Command::new(name).args(["-c", &script]).status().is_ok_and(|status| status.success());
    match CANDIDATES.iter().find(fits) {
        Some(name) => Ok(name),
        None => bail!("no Python {major}.{minor} or newer in PATH: install one"),
    }
}

/// Runs the client's tests; `None`: there is no client yet.
pub(crate) fn test(mark: &str, rest: &[String]) -> Result<Option<Tally>> {
    if !is_there() {
        return Ok(None);
    }
    let mut command = program("python");
    command.args(["-m", "pytest", "-p", "no:cacheprovider", "--durations=10"]).args(rest);
    tallied(&mut command, mark, !rest.is_empty(), pytest).map(Some)
}

/// The variable that names the S3 server to the tests of all clients' fences, and the server: moto, of the environment.
pub(crate) fn s3_server() -> (&'static str, PathBuf) {
    ("ROSTERD_S3_SERVER", environment().join("bin/moto_server"))
}

/// The Python of its environment.
pub(crate) fn interpreter_of_tests() -> String {
    environment().join("bin/python").display().to_string()
}

/// Generates the worker's protocol into this folder, like a user without a client library.
pub(crate) fn generate(into: &Path) -> Result<()> {
    std::fs::create_dir_all(into)?;
    let mut generate = program("python");
    generate.current_dir(root()).args(["-m", "grpc_tools.protoc", "-I", "proto"]);
    generate.arg("--python_out").arg(into).arg("--grpc_python_out").arg(into);
    must(generate.args(["rosterd/v1/types.proto", "rosterd/v1/worker.proto"]))
}

/// Makes its wheel and the archive of its sources in a folder, with the tools of its environment.
pub(crate) fn packages_into(folder: &Path) -> Command {
    let mut build = program("python");
    build.args(["-m", "hatchling", "build", "--directory"]).arg(folder);
    build
}

/// The metadata of its wheel, as built by pip; empty without an environment.
pub(crate) fn metadata(folder: &Path) -> Result<String> {
    if !environment().join("bin/hatchling").is_file() {
        return Ok(String::new());
    }
    let mut wheel = program("pip");
    wheel.args([
        "wheel",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--quiet",
    ]);
    must(wheel.arg("--wheel-dir").arg(folder).arg("."))?;
    let script = "import glob, sys, zipfile\n\
                  wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])\n\
                  print(wheel.read(next(n for n in wheel.namelist() if n.endswith('/METADATA'))).decode())";
    output(program("python").args(["-c", script]).arg(folder))
}

/// The client's linters, if its environment exists.
pub(crate) fn linters() -> Result<Vec<Command>> {
    if !is_there() {
        return Ok(Vec::new());
    }
    setup()?;
    let command = |words: &[&str]| {
        let mut command = program(words[0]);
        command.args(&words[1..]);
        command
    };
    let cache = target().join("python/mypy-cache").display().to_string();
    // An extra check, so that the error names a broken environment instead of a linter.
    output(program("python").arg("--version"))?;
    Ok(vec![
        command(&["ruff", "check", "--no-cache", "."]),
        command(&["ruff", "format", "--no-cache", "--check", "."]),
        command(&["mypy", "--cache-dir", &cache]),
    ])
}
