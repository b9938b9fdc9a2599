//! Where README is tested: a bare Debian, created by debootstrap, or if that is not allowed, a clean environment on
//! this machine.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::{is_installed, must, root, succeeds, target};

const SUITE: &str = "bookworm";
/// The configuration that a machine needs to reach its packages: mirrors, certificates, the resolver.
const SETTINGS: [&str; 9] = [
    "/etc/apt/apt.conf.d",
    "/etc/apt/auth.conf.d",
    "/etc/apt/sources.list.d",
    "/etc/ssl/certs",
    "/usr/local/share/ca-certificates",
    "/etc/pip.conf",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/root/.config/pip",
];
/// The same, by prefixes of variables.
const VARIABLES: [&str; 6] =
    ["PIP_", "CARGO_REGISTRIES_", "CARGO_NET_", "CARGO_HTTP_", "SSL_CERT_", "HTTPS_PROXY"];
/// A mount namespace whose root is bare: it lasts until its stdin is closed, and so do its mounts.
const HOLDER: &str = r#"
set -e
for place in proc sys dev tmp; do mkdir -p "$1/$place"; done
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/tmp"
shift
while [ $# -gt 0 ]; do mount --bind "$1" "$2"; shift 2; done
echo ready
cat
"#;

/// A home folder, and how commands are run in it.
pub(super) enum FreshSystem {
    Bare { root: PathBuf, holder: Child, _open: ChildStdin },
    Clean { home: PathBuf },
}

impl FreshSystem {
    /// A bare Debian if this machine allows it; prints which it is.
    pub(super) fn make(clean: bool) -> Result<Self> {
        if clean {
            println!("    place: a clean environment on this machine, as asked for");
            return Self::clean();
        }
        match Self::bare() {
            Ok(place) => {
                println!("    place: a bare Debian {SUITE}, made by debootstrap");
                Ok(place)
            }
            Err(refused) => {
                println!(
                    "    place: a clean environment on this machine; a bare Debian was refused: {refused:#}"
                );
                Self::clean()
            }
        }
    }

    fn clean() -> Result<Self> {
        let home = target().join("readme/home");
        empty(&home)?;
        Ok(Self::Clean { home })
    }

    fn bare() -> Result<Self> {
        ensure!(is_installed("debootstrap"), "debootstrap is missing: apt-get install debootstrap");
        let (kept, root) = (target().join("readme/debian.tar"), target().join("readme/debian"));
        if !kept.exists() {
            empty(&root)?;
            let mut debootstrap = Command::new("debootstrap");
            debootstrap.arg("--variant=minbase").arg(SUITE).arg(&root);
            if !succeeds(debootstrap.stdout(Stdio::null()))? {
                bail!("debootstrap failed");
            }
            must(Command::new("tar").arg("-cf").arg(&kept).arg("-C").arg(&root).arg("."))?;
        }
        empty(&root)?;
        must(Command::new("tar").arg("-xf").arg(&kept).arg("-C").arg(&root))?;
        configure(&root)?;
        let mut holder = Command::new("unshare");
        holder.args(["--mount", "--propagation", "private", "sh", "-c", HOLDER, "sh"]).arg(&root);
        let rustup = Path::new("/root/.rustup");
        if rustup.is_dir() && !reaches_rustup() {
            println!(
                "    rustup's installer cannot be reached: the toolchain of this machine replaces its line"
            );
            std::fs::create_dir_all(root.join("root/.rustup"))?;
            holder.arg(rustup).arg(root.join("root/.rustup"));
            std::fs::create_dir_all(root.join("root/.cargo"))?;
            must(
                Command::new("cp")
                    .args(["-a", "/root/.cargo/bin", "/root/.cargo/env"])
                    .arg(root.join("root/.cargo")),
            )?;
            // Programs that were installed with cargo here are missing on a new machine.
            for entry in std::fs::read_dir(root.join("root/.cargo/bin"))? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if !["rustup", "cargo", "rustc", "rustdoc"].contains(&&*name) {
                    std::fs::remove_file(path)?;
                }
            }
        }
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let open = holder.stdin.take().context("no pipe")?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take().context("no pipe")?).read_line(&mut said)?;
        ensure!(said.trim() == "ready", "cannot mount its folders");
        Ok(Self::Bare { root, holder, _open: open })
    }

    /// Packages that were installed meanwhile may have brought settings of their own, such as which authorities are trusted.
    pub(super) fn configure(&self) -> Result<()> {
        match self {
            Self::Bare { root, .. } => configure(root),
            Self::Clean { .. } => Ok(()),
        }
    }

    pub(super) fn is_bare(&self) -> bool {
        matches!(self, Self::Bare { .. })
    }

    /// The home folder, seen from outside.
    pub(super) fn home(&self) -> PathBuf {
        match self {
            Self::Bare { root, .. } => root.join("root"),
            Self::Clean { home } => home.clone(),
        }
    }

    /// Clones the committed repository into the home folder.
    pub(super) fn clone_repository(&self) -> Result<()> {
        let mut git = Command::new("git");
        must(git.args(["clone", "--quiet", "--no-hardlinks"]).arg(root()).arg(self.home().join("rosterd")))
    }

    /// A shell of its own group that runs a script in a folder below the home folder, like a fresh login.
    pub(super) fn shell(&self, folder: &str, script: &str) -> Command {
        let settings =
            std::env::vars().filter(|(name, _)| VARIABLES.iter().any(|begin| name.starts_with(begin)));
        let login = format!("[ ! -f ~/.cargo/env ] || . ~/.cargo/env; cd ~/{folder} && {script}");
        // It ends with us, and Ctrl-C ends it even if we were started in the background with it ignored.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "env", "--default-signal=INT"]).env_clear();
        match self {
            Self::Bare { root, holder, .. } => {
                command
                    .args(["nsenter", "--target", &holder.id().to_string(), "--mount", "chroot"])
                    .arg(root);
                command
                    .env("HOME", "/root")
                    .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
            }
            Self::Clean { home } => {
                command.env("HOME", home);
                // The compilers, which are the machine's.
                for name in ["PATH", "RUSTUP_HOME"] {
                    command.envs(std::env::var_os(name).map(|value| (name, value)));
                }
                let rustup =
                    std::env::home_dir().map(|home| home.join(".rustup")).filter(|path| path.is_dir());
                command.envs(rustup.map(|path| ("RUSTUP_HOME", path)));
                command.env("CARGO_HOME", home.join(".cargo"));
                let path = std::env::var("PATH").unwrap_or_default();
                command.env("PATH", format!("{}:{path}", home.join(".cargo/bin").display()));
            }
        }
        command.args(["/bin/bash", "-c", &login]);
        // Its output goes through a pipe, on which Python buffers lines that a terminal shows immediately.
        command.envs(settings).env("PYTHONUNBUFFERED", "1").process_group(0);
        command
    }
}

impl Drop for FreshSystem {
    fn drop(&mut self) {
        if let Self::Bare { holder, .. } = self {
            // Its stdin is closed by now or a moment later; with it its mounts go.
            let _gone = holder.kill();
            let _gone = holder.wait();
        }
    }
}

/// Gives a machine the settings of this one.
fn configure(machine: &Path) -> Result<()> {
    for path in SETTINGS.iter().map(Path::new).filter(|path| path.exists()) {
        let into = machine.join(path.strip_prefix("/")?);
        std::fs::create_dir_all(into.parent().context("/")?)?;
        let dot = if path.is_dir() { path.join(".") } else { path.into() };
        must(Command::new("cp").args(["-rL", "--remove-destination"]).arg(dot).arg(into))?;
    }
    Ok(())
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        must(Command::new("rm").args(["-rf", "--one-file-system"]).arg(folder))?;
    }
    Ok(std::fs::create_dir_all(folder)?)
}

fn reaches_rustup() -> bool {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--max-time", "20", "--output", "/dev/null", "https://sh.rustup.rs"]);
    curl.status().is_ok_and(|status| status.success())
}
