//! The program: built for glibc and for musl, stripped, tested, and packed with licenses, completions, the manual and
//! the unit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::deb::newest_glibc;
use super::{DIST, Release};
use crate::command::{cargo, is_installed, must, output, root, shown, succeeds, target};

pub(super) const MUSL: &str = "x86_64-unknown-linux-musl";
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// One that was built.
pub(super) struct Program {
    /// `x86_64-linux-gnu`, for the names of archives.
    name: &'static str,
    /// Stripped.
    pub(super) path: PathBuf,
}

/// The generated files of a program, and the files that ship with it.
pub(super) struct Papers {
    completions: PathBuf,
    /// No pages if the program has no `man`.
    manual: PathBuf,
    pub(super) notices: PathBuf,
}

/// For the C library of this machine.
pub(super) fn gnu(release: &Release) -> Result<Program> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        bail!("this machine is not an x86_64 Linux with glibc");
    }
    must(cargo().args(["build", "--profile", DIST, "--locked", "--bin", "rosterd"]))?;
    stripped(release, "x86_64-linux-gnu", &target().join(DIST).join("rosterd"))
}

/// Static: for any Linux.
pub(super) fn musl(release: &Release) -> Result<Program> {
    let missing = missing_for_musl()?;
    if !missing.is_empty() {
        bail!("missing: {}", missing.join("; "));
    }
    let mut build = cargo();
    build.args(["build", "--profile", DIST, "--locked", "--bin", "rosterd", "--target", MUSL]);
    // musl's folders lack the kernel's headers.
    let headers = "-idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu";
    build.env("CC_x86_64_unknown_linux_musl", "musl-gcc").env("CFLAGS_x86_64_unknown_linux_musl", headers);
    must(&mut build)?;
    let program = stripped(release, "x86_64-linux-musl", &target().join(MUSL).join(DIST).join("rosterd"))?;
    let libraries = output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&program.path))?;
    if libraries.contains("(NEEDED)") {
        bail!("the program is not static:\n{libraries}");
    }
    Ok(program)
}

fn missing_for_musl() -> Result<Vec<String>> {
    let mut missing = Vec::new();
    if !is_installed("musl-gcc") {
        missing.push("musl-gcc: apt-get install musl-tools".to_owned());
    }
    if !has_target(MUSL)? {
        missing.push(format!("the target: rustup target add {MUSL}"));
    }
    Ok(missing)
}

/// Whether Rust's standard library for it is installed, by any tool.
pub(super) fn has_target(name: &str) -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = output(Command::new(rustc).current_dir(root()).args(["--print", "sysroot"]))?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(name).join("lib").is_dir())
}

fn stripped(release: &Release, name: &'static str, built: &Path) -> Result<Program> {
    let path = release.work("programs")?.join(format!("rosterd-{name}"));
    copy(built, &path, 0o755)?;
    must(Command::new("strip").arg("--strip-all").arg(&path)).context("strip: install binutils")?;
    let said = output(Command::new(&path).arg("--version"))?;
    if said.trim() != format!("rosterd {}", release.version) {
        bail!("{} says that it is {:?}, not rosterd {}", path.display(), said.trim(), release.version);
    }
    Ok(Program { name, path })
}

impl Program {
    /// Its system requirements, briefly.
    pub(super) fn asks_for(&self) -> String {
        let symbols =
            output(Command::new("objdump").arg("--dynamic-syms").arg(&self.path)).unwrap_or_default();
        newest_glibc(&symbols).map_or_else(|| "static".into(), |version| format!("needs glibc {version}"))
    }

    /// `rosterd-0.1.0-x86_64-linux-gnu.tar.gz`: the same bytes for the same inputs.
    pub(super) fn packed(&self, release: &Release, papers: &Papers) -> Result<Vec<PathBuf>> {
        let name = format!("rosterd-{}-{}", release.version, self.name);
        let top = release.work(&name)?;
        copy(&self.path, &top.join("rosterd"), 0o755)?;
        for file in ["LICENSE", "README.md", "CHANGELOG.md", "deploy/rosterd.service"] {
            let path = root().join(file);
            copy(&path, &top.join(path.file_name().unwrap_or_default()), 0o644)?;
        }
        copy(&papers.notices, &top.join("LICENSES-OF-OTHERS.txt"), 0o644)?;
        for shell in SHELLS {
            let script = papers.completion(shell);
            copy(&script, &top.join("completions").join(script.file_name().unwrap_or_default()), 0o644)?;
        }
        for page in papers.manual()? {
            copy(&page, &top.join("man").join(page.file_name().unwrap_or_default()), 0o644)?;
        }
        let archive = release.folder.join(format!("{name}.tar"));
        let mut tar = Command::new("tar");
        tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", release.epoch)).arg("--file").arg(&archive);
        must(tar.arg("--directory").arg(release.work(".")?).arg(&name))?;
        gzipped(&archive)?;
        Ok(vec![archive.with_extension("tar.gz")])
    }
}

impl Papers {
    /// Generates them with one of the programs. `notices`: the licenses of others.
    pub(super) fn of(release: &Release, program: &Program, notices: &str) -> Result<Self> {
        let completions = release.work("completions")?;
        for shell in SHELLS {
            let script = output(Command::new(&program.path).args(["completion", shell]))?;
            std::fs::write(completions.join(file_of(shell)), script)?;
        }
        let manual = release.work("man")?;
        if !succeeds(Command::new(&program.path).arg("man").arg(&manual))? {
            println!("    `rosterd man` fails: archives and package go without a manual");
        }
        let file = completions.with_file_name("LICENSES-OF-OTHERS.txt");
        std::fs::write(&file, notices)?;
        Ok(Self { completions, manual, notices: file })
    }

    pub(super) fn completion(&self, shell: &str) -> PathBuf {
        self.completions.join(file_of(shell))
    }

    /// Its pages, of section 1.
    pub(super) fn manual(&self) -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(&self.manual)?.map(|entry| Ok(entry?.path()));
        let mut pages = entries.collect::<Result<Vec<_>>>()?;
        pages.retain(|path| path.extension().is_some_and(|end| end == "1"));
        pages.sort();
        Ok(pages)
    }
}

fn file_of(shell: &str) -> &'static str {
    match shell {
        "bash" => "rosterd.bash",
        "zsh" => "_rosterd",
        _ => "rosterd.fish",
    }
}

/// Copies a file into a folder, which is created if it is missing.
pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let mut install = Command::new("install");
    install.args(["-D", "--mode", &format!("{mode:o}")]).arg(from).arg(to);
    output(&mut install).map(|_| ()).with_context(|| shown(&install))
}

/// Replaces a file by its compressed form, without name and time in it.
pub(super) fn gzipped(file: &Path) -> Result<()> {
    output(Command::new("gzip").args(["--no-name", "--best", "--force"]).arg(file)).map(|_| ())
}

pub(super) fn run_in(folder: &Path, program: &str, words: &[&str]) -> Result<()> {
    output(Command::new(program).current_dir(folder).args(words)).map(|_| ())
}

/// Bytes of all files below a folder.
pub(super) fn size_below(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        size += if kind.is_dir() { size_below(&entry.path())? } else { kind.len() };
    }
    Ok(size)
}
