//! `cargo xtask helm`: the chart in `deploy/helm`, linted and rendered by helm itself, and its output checked against
//! the types of Kubernetes. Not part of `test`: helm is compiled from its Go module, which takes minutes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::command::{is_installed, must, output, root, shown, target};

/// Compiled if PATH has none.
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.16.4";
const CHART: &str = "deploy/helm/rosterd";
/// Values with which the chart must render, one file for each kind of installation.
const VALUES: [&str; 3] = ["single.yaml", "cluster.yaml", "trusted.yaml"];
/// The oldest version that the chart supports, and one with all features that it uses.
const KUBERNETES: [&str; 2] = ["1.27.0", "1.33.0"];
/// Manifests outside of the chart.
const MANIFESTS: [&str; 1] = ["deploy/kubernetes/worker.yaml"];
/// Values that the chart must refuse, with the expected message.
const REFUSED: [(&[&str], &str); 7] = [
    (&[], "credentials.existingSecret"),
    (&["credentials.existingSecret=c"], "tls.existingSecret"),
    (&["insecureListen=true", "replicas=3"], "need registry.kind zookeeper"),
    (&["insecureListen=true", "persistence.enabled=false"], "is lost with the pod"),
    (&["insecureListen=true", "registry.kind=zookeeper"], "registry.zookeeper.servers"),
    (
        &["insecureListen=true", "registry.kind=zookeeper", "registry.zookeeper.servers=zk:2181"],
        "could change jobs",
    ),
    (&["insecureListen=true", "config.listen=0.0.0.0:1"], "config"),
];

/// Runs all of it.
pub(crate) fn run() -> Result<()> {
    let helm = helm()?;
    let strict = strict()?;
    for values in VALUES {
        let file = format!("{CHART}/ci/{values}");
        must(Command::new(&helm).current_dir(root()).args(["lint", CHART, "--strict", "--values", &file]))?;
        for version in KUBERNETES {
            let rendered = output(template(&helm, version).args(["--values", &file]))?;
            held_against_types(&strict, &rendered)
                .with_context(|| format!("{values} for Kubernetes {version}"))?;
        }
    }
    for file in MANIFESTS {
        let manifest = std::fs::read_to_string(root().join(file))?;
        held_against_types(&strict, &manifest).context(file)?;
    }
    for (values, says) in REFUSED {
        refused(&helm, values, says)?;
    }
    println!("    the chart renders, and refuses what a coordinator would refuse");
    Ok(())
}

fn template(helm: &Path, version: &str) -> Command {
    let mut command = Command::new(helm);
    command.current_dir(root()).args(["template", "rosterd", CHART, "--namespace", "ops"]);
    command.args(["--kube-version", version]);
    command
}

fn refused(helm: &Path, values: &[&str], says: &str) -> Result<()> {
    let mut command = template(helm, KUBERNETES[1]);
    for value in values {
        command.args(["--set", value]);
    }
    let done = command.output().with_context(|| format!("{} cannot be run", shown(&command)))?;
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() || !told.contains(says) {
        bail!("{}: must be refused with {says:?}, and it said:\n{told}", shown(&command));
    }
    Ok(())
}

fn held_against_types(strict: &Path, manifests: &str) -> Result<()> {
    let mut child = Command::new(strict).stdin(Stdio::piped()).spawn()?;
    // Dropped at the end of the statement, so that the program sees the end.
    child.stdin.take().context("it has no standard input")?.write_all(manifests.as_bytes())?;
    if !child.wait()?.success() {
        bail!("Kubernetes would reject it, see above");
    }
    Ok(())
}

/// The helm of this machine, or one that is compiled below `target`.
fn helm() -> Result<PathBuf> {
    if is_installed("helm") {
        return Ok("helm".into());
    }
    let folder = target().join("helm");
    let program = folder.join("helm");
    if !program.is_file() {
        std::fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        println!("    compiling helm: takes minutes the first time");
        must(go().args(["install", HELM]).env("GOBIN", &folder).env("GOFLAGS", "-buildvcs=false"))
            .with_context(|| {
                format!("{HELM} cannot be fetched from Go's module proxy, or not be compiled")
            })?;
    }
    Ok(program.canonicalize()?)
}

/// The validator of manifests against the types of Kubernetes.
fn strict() -> Result<PathBuf> {
    let folder = target().join("helm");
    std::fs::create_dir_all(&folder)?;
    let program = folder.canonicalize()?.join("strict");
    let mut build = go();
    build.current_dir(root().join("deploy/helm/strict")).arg("build").arg("-o").arg(&program).arg(".");
    must(build.env("GOFLAGS", "-mod=readonly -buildvcs=false"))?;
    Ok(program)
}

fn go() -> Command {
    let mut command = Command::new("go");
    command.env("GOTOOLCHAIN", "local");
    command
}
