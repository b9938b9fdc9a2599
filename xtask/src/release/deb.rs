//! The package for Debian and its contents: the program, its unit, its settings, completions and manual, made with
//! dpkg-deb. The scripts and the settings are in `deploy/debian`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::program::{Papers, Program, copy, gzipped, run_in, size_below};
use super::{Release, version::Version};
use crate::command::{must, output, root};

const MAINTAINER: &str = "The authors of rosterd <rosterd@users.noreply.github.com>";
/// Files that users may have changed: kept when the package is replaced.
const CONFFILES: [&str; 1] = ["/etc/rosterd/rosterd.env"];
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// The program's path in the unit of the repository, and in the package.
const PLACES: [&str; 2] = ["/usr/local/bin/rosterd", "/usr/bin/rosterd"];

/// Makes it from the program for glibc.
pub(super) fn make(release: &Release, program: &Program, papers: &Papers) -> Result<Vec<PathBuf>> {
    let name = format!("rosterd_{}_amd64", release.version.debian());
    let top = release.work(&name)?;
    let place = |path: &str| top.join(path.trim_start_matches('/'));
    copy(&program.path, &place(PLACES[1]), 0o755)?;
    let unit = std::fs::read_to_string(root().join("deploy/rosterd.service"))?;
    write(&place("/usr/lib/systemd/system/rosterd.service"), &packaged(&unit)?)?;
    copy(&root().join("deploy/debian/rosterd.env"), &place(CONFFILES[0]), 0o644)?;
    for (shell, to) in [
        ("bash", "/usr/share/bash-completion/completions/rosterd"),
        ("zsh", "/usr/share/zsh/vendor-completions/_rosterd"),
        ("fish", "/usr/share/fish/vendor_completions.d/rosterd.fish"),
    ] {
        copy(&papers.completion(shell), &place(to), 0o644)?;
    }
    for page in papers.manual()? {
        let to = place("/usr/share/man/man1").join(page.file_name().unwrap_or_default());
        copy(&page, &to, 0o644)?;
        gzipped(&to)?;
    }
    let doc = place("/usr/share/doc/rosterd");
    copy(&root().join("deploy/debian/copyright"), &doc.join("copyright"), 0o644)?;
    copy(&papers.notices, &doc.join("LICENSES-OF-OTHERS.txt"), 0o644)?;
    copy(&root().join("CHANGELOG.md"), &doc.join("changelog"), 0o644)?;
    for file in ["LICENSES-OF-OTHERS.txt", "changelog"] {
        gzipped(&doc.join(file))?;
    }
    let control = control(&release.version, size_below(&top)?, &needs(&program.path)?);
    write(&place("DEBIAN/control"), &control)?;
    write(&place("DEBIAN/conffiles"), &CONFFILES.map(|file| format!("{file}\n")).concat())?;
    for script in SCRIPTS {
        copy(&root().join("deploy/debian").join(script), &place("DEBIAN").join(script), 0o755)?;
    }
    run_in(&top, "sh", &["-c", "find usr etc -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums"])?;
    let made = release.folder.join(format!("{name}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&top).arg(&made);
    must(build.env("SOURCE_DATE_EPOCH", &release.epoch)).context("dpkg-deb is part of Debian's dpkg")?;
    Ok(vec![made])
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

/// The unit with the package's path of the program, without the instructions for a manual installation.
fn packaged(unit: &str) -> Result<String> {
    let (_, settings) = unit.split_once("[Unit]").context("deploy/rosterd.service has no [Unit]")?;
    if !settings.contains(PLACES[0]) {
        bail!("deploy/rosterd.service starts no {}", PLACES[0]);
    }
    let head = "# A coordinator on a single node. Settings: /etc/rosterd/rosterd.env; credentials: /etc/rosterd/credentials.toml.\n";
    Ok(format!("{head}[Unit]{}", settings.replace(PLACES[0], PLACES[1])))
}

/// `size` in bytes; `needs`: other packages.
fn control(version: &Version, size: u64, needs: &[String]) -> String {
    let fields = [
        ("Package", "rosterd".to_owned()),
        ("Version", version.debian()),
        ("Architecture", "amd64".to_owned()),
        ("Maintainer", MAINTAINER.to_owned()),
        ("Installed-Size", size.div_ceil(1024).to_string()),
        ("Depends", needs.join(", ")),
        ("Recommends", "ca-certificates".to_owned()),
        ("Section", "admin".to_owned()),
        ("Priority", "optional".to_owned()),
        ("Homepage", "https://github.com/rosterd/rosterd".to_owned()),
        ("Description", "distributed scheduler for sharded cron jobs".to_owned()),
    ];
    let fields = fields.map(|(name, value)| format!("{name}: {value}\n")).concat();
    let more = " A job has a cron expression and a number of items. rosterd assigns each item to\n \
                exactly one live worker, tells it when to run, and moves the item when a machine\n \
                or the scheduler itself dies. Workers connect over gRPC, in any language, or are\n \
                programs that rosterd exec starts.\n";
    format!("{fields}{more}")
}

/// The program's system requirements: the newest version of glibc that it references, and its libraries.
fn needs(program: &Path) -> Result<Vec<String>> {
    let symbols = output(Command::new("objdump").arg("--dynamic-syms").arg(program))
        .context("objdump: install binutils")?;
    let libraries = output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(program))?;
    needs_of(&symbols, &libraries)
}

fn needs_of(symbols: &str, libraries: &str) -> Result<Vec<String>> {
    let glibc = newest_glibc(symbols).context("the program requires no version of glibc")?;
    let mut needs = vec!["adduser".to_owned(), format!("libc6 (>= {glibc})")];
    for line in libraries.lines().filter(|line| line.contains("(NEEDED)")) {
        let name = line.split(['[', ']']).nth(1).unwrap_or_default();
        match name.split(".so").next().unwrap_or_default() {
            "libgcc_s" => needs.push("libgcc-s1".into()),
            "libc" | "libm" | "libpthread" | "libdl" | "librt" | "ld-linux-x86-64" => {}
            _ => bail!("the program needs {name}: say here which package has it"),
        }
    }
    Ok(needs)
}

/// Of `GLIBC_2.2.5`, `GLIBC_2.34` and so on.
pub(super) fn newest_glibc(symbols: &str) -> Option<String> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let version = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        version.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>()
    });
    let newest = versions.max()?;
    Some(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_has_what_debian_asks_for() {
        let needs = ["adduser".to_owned(), "libc6 (>= 2.34)".to_owned()];
        let control = control(&"0.2.0-rc.1".parse().unwrap(), 10_241, &needs);
        let field = |name: &str| {
            let line = control.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or_else(|| panic!("no {name} in\n{control}")).to_owned()
        };
        assert_eq!((field("Package").as_str(), field("Version").as_str()), ("rosterd", "0.2.0~rc.1"));
        assert_eq!((field("Architecture").as_str(), field("Installed-Size").as_str()), ("amd64", "11"));
        assert_eq!(field("Depends"), "adduser, libc6 (>= 2.34)");
        assert!(field("Maintainer").ends_with('>') && field("Maintainer").contains('@'));
        // A synopsis without an article or a dot, and each line of the description after a space, none too long.
        assert!(!field("Description").starts_with("A ") && !field("Description").ends_with('.'));
        let (_, more) = control.split_once("Description: ").unwrap();
        assert!(
            more.lines()
                .skip(1)
                .all(|line| line.starts_with(" ") && line.len() <= 81 && line.trim() == &line[1..]),
            "{more}"
        );
        assert!(control.ends_with('\n') && !control.contains("\n\n"));
    }

    #[test]
    fn the_unit_starts_the_program_where_the_package_has_it() {
        let unit = std::fs::read_to_string(root().join("deploy/rosterd.service")).unwrap();
        let packaged = packaged(&unit).unwrap();
        assert!(
            packaged.contains("\nExecStart=/usr/bin/rosterd serve\n") && !packaged.contains("/usr/local"),
            "{packaged}"
        );
        assert!(
            packaged.contains("\nUser=rosterd\n")
                && packaged.contains("EnvironmentFile=-/etc/rosterd/rosterd.env")
        );
        assert!(super::packaged("[Unit]\n[Service]\nExecStart=/bin/true\n").is_err());
    }

    #[test]
    fn the_scripts_make_the_user_of_the_unit_and_are_shell() {
        for script in SCRIPTS {
            let text = std::fs::read_to_string(root().join("deploy/debian").join(script)).unwrap();
            assert!(text.starts_with("#!/bin/sh\nset -e\n"), "{script}");
            let file = root().join("deploy/debian").join(script);
            assert!(Command::new("sh").arg("-n").arg(&file).status().unwrap().success(), "{script}");
        }
        let postinst = std::fs::read_to_string(root().join("deploy/debian/postinst")).unwrap();
        assert!(postinst.contains("adduser --quiet --system --group") && postinst.contains(" rosterd\n"));
    }

    #[test]
    fn the_newest_glibc_is_found_as_numbers_are_ordered() {
        let symbols =
            "0 DF *UND* 0 (GLIBC_2.2.5) free\n0 DF *UND* 0 (GLIBC_2.34) x\n0 DF *UND* (GLIBC_2.9) y\n";
        assert_eq!(newest_glibc(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc("nothing"), None);
        let libraries =
            " 0x1 (NEEDED)  Shared library: [libgcc_s.so.1]\n 0x1 (NEEDED)  Shared library: [libc.so.6]\n";
        assert_eq!(needs_of(symbols, libraries).unwrap(), ["adduser", "libc6 (>= 2.34)", "libgcc-s1"]);
        assert!(needs_of(symbols, "0x1 (NEEDED) Shared library: [libssl.so.3]\n").is_err());
    }
}
