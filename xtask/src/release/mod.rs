//! `cargo xtask release`: builds all parts of a release in `target/release-X`, and prints a table of which were made
//! and which were not. It pushes nothing: a person or `.github/workflows/release.yml` does. CONTRIBUTING.md describes a
//! release.

mod clients;
mod deb;
mod places;
mod program;
mod sbom;
mod version;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use self::program::Papers;
use self::version::Version;
use crate::command::{is_installed, must, output, root, target};

/// The profile of programs that are released and measured, and the folder of what is built in it.
pub(crate) const DIST: &str = "dist";

/// A release in the making.
struct Release {
    version: Version,
    /// The folder of the artifacts.
    folder: PathBuf,
    /// When the commit was made, in seconds since 1970: the time of all packed files.
    epoch: String,
    dry_run: bool,
}

impl Release {
    /// A folder for intermediate files; it exists.
    fn work(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join("work").join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

/// The result of one artifact.
struct Row {
    what: String,
    made: Vec<PathBuf>,
    /// A note; or why it was not made.
    said: String,
    /// It should have been made.
    failed: bool,
}

/// `cargo xtask release [--dry-run] [--version X]`; whether all parts were made.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let (mut dry_run, mut asked, mut words) = (false, None, arguments.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dry-run" => dry_run = true,
            "--version" => asked = Some(words.next().context("--version: which?")?.parse::<Version>()?),
            other => bail!("release takes --dry-run and --version X, not {other}"),
        }
    }
    let version = match asked {
        Some(version) => version,
        None => places::workspace()?,
    };
    println!("=== rosterd {version}");
    let mut defects = places::defects(&version)?;
    let early = not_ready(&version)?;
    if dry_run {
        early.iter().for_each(|why| println!("    without --dry-run this would be refused: {why}"));
    } else {
        defects.extend(early);
    }
    if !defects.is_empty() {
        defects.iter().for_each(|defect| println!("    DEFECT: {defect}"));
        return Ok(false);
    }
    let folder = target().join(format!("release-{version}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let epoch = git(&["log", "-1", "--format=%ct"])?;
    let release = Release { version, folder, epoch, dry_run };
    let mut rows = make(&release)?;
    rows.push(sums(&release)?);
    rows.extend(not_made_here(&release.version)?);
    std::fs::remove_dir_all(release.folder.join("work"))?;
    println!("\n{}", table(&rows)?);
    let failed = rows.iter().filter(|row| row.failed).count();
    match failed {
        0 => println!("all that can be built here is in {}", release.folder.display()),
        _ => println!("{failed} failed; what was built is in {}", release.folder.display()),
    }
    // A dry run only reports.
    Ok(failed == 0 || dry_run)
}

/// Reasons against a release of this commit.
fn not_ready(version: &Version) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let changed = git(&["status", "--porcelain"])?;
    if !changed.is_empty() {
        found.push(format!("the tree is not clean: {} files", changed.lines().count()));
    }
    let (wanted, tags) = (format!("v{version}"), git(&["tag", "--points-at", "HEAD"])?);
    if !tags.lines().any(|tag| tag == wanted) {
        found.push(format!("this commit is not tagged: git tag {wanted}"));
    }
    let all = git(&["tag", "--list", "v*"])?;
    let released = all.lines().filter_map(|tag| tag.strip_prefix('v')?.parse::<Version>().ok());
    if let Some(last) = released.max().filter(|last| last > version) {
        found.push(format!("{last} was released, which is later"));
    }
    let changes = std::fs::read_to_string(root().join("CHANGELOG.md"))?;
    if notes(&changes, &version.to_string()).is_none() {
        found.push(format!("CHANGELOG.md has no section ## [{version}]"));
    }
    Ok(found)
}

fn git(words: &[&str]) -> Result<String> {
    Ok(output(Command::new("git").current_dir(root()).args(words))?.trim().to_owned())
}

/// The changelog of a version.
fn notes<'t>(changes: &'t str, version: &str) -> Option<&'t str> {
    let (_, rest) = changes.split_once(&format!("\n## [{version}]"))?;
    let (_, rest) = rest.split_once('\n')?;
    Some(rest.split("\n## ").next().unwrap_or(rest).trim())
}

/// Makes all parts one after the other: a failure does not prevent the others.
fn make(release: &Release) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let tree = sbom::Tree::read()?;
    rows.push(row("bill of materials", format!("CycloneDX, {} crates", tree.crates()), bill(release, &tree)));
    rows.push(row("notes", String::new(), noted(release)));
    let built = [("program, glibc", program::gnu(release)), ("program, static", program::musl(release))];
    let first = built.iter().find_map(|(_, built)| built.as_ref().ok());
    let without = || anyhow::anyhow!("the program was not built");
    let papers =
        first.map_or_else(|| Err(without()), |program| Papers::of(release, program, &tree.notices()?));
    let mut package = Err(without());
    for (n, (name, built)) in built.into_iter().enumerate() {
        match (built, &papers) {
            (Ok(program), Ok(papers)) => {
                let without = if papers.manual()?.is_empty() { ", without a manual" } else { "" };
                let said = format!("{}{without}", program.asks_for());
                rows.push(row(name, said, program.packed(release, papers)));
                if n == 0 {
                    package = deb::make(release, &program, papers);
                }
            }
            (Ok(_), Err(error)) => rows.push(row(name, String::new(), Err(anyhow::anyhow!("{error:#}")))),
            (Err(error), _) => rows.push(row(name, String::new(), Err(error))),
        }
    }
    rows.push(row("package for Debian", "with its unit; starts nothing by itself".into(), package));
    rows.push(row("client: Rust", String::new(), clients::rust(release)));
    rows.push(row("client: Python", String::new(), clients::python(release)));
    rows.push(row("client: TypeScript", String::new(), clients::typescript(release)));
    rows.push(row("client: Java", String::new(), clients::java(release)));
    Ok(rows)
}

fn row(what: &str, said: String, made: Result<Vec<PathBuf>>) -> Row {
    let what = what.to_owned();
    match made {
        Ok(made) => Row { what, made, said, failed: false },
        Err(error) => Row { what, made: Vec::new(), said: format!("{error:#}"), failed: true },
    }
}

fn bill(release: &Release, tree: &sbom::Tree) -> Result<Vec<PathBuf>> {
    let file = release.folder.join(format!("rosterd-{}.cdx.json", release.version));
    std::fs::write(&file, serde_json::to_vec_pretty(&tree.cyclonedx(&release.version, &release.epoch)?)?)?;
    Ok(vec![file])
}

/// The text of the release page. A dry run uses the unreleased section.
fn noted(release: &Release) -> Result<Vec<PathBuf>> {
    let changes = std::fs::read_to_string(root().join("CHANGELOG.md"))?;
    let version = release.version.to_string();
    let unreleased = || notes(&changes, "Unreleased").filter(|_| release.dry_run);
    let notes = notes(&changes, &version).or_else(unreleased);
    let notes = notes.with_context(|| format!("CHANGELOG.md has no section ## [{version}]"))?;
    let file = release.folder.join("NOTES.md");
    std::fs::write(&file, format!("{notes}\n"))?;
    Ok(vec![file])
}

/// The digests of all artifacts.
fn sums(release: &Release) -> Result<Row> {
    let script = "find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum > SHA256SUMS";
    let mut sum = Command::new("sh");
    must(sum.current_dir(&release.folder).args(["-c", script]))?;
    must(Command::new("sha256sum").current_dir(&release.folder).args(["--check", "--quiet", "SHA256SUMS"]))?;
    Ok(row("digests", String::new(), Ok(vec![release.folder.join("SHA256SUMS")])))
}

/// Parts of a release that this command does not make: printed, so that nobody expects them.
fn not_made_here(version: &Version) -> Result<Vec<Row>> {
    let mut aarch64 = Vec::new();
    if !is_installed("aarch64-linux-gnu-gcc") {
        aarch64.push("no C cross compiler (gcc-aarch64-linux-gnu)");
    }
    if !program::has_target("aarch64-unknown-linux-gnu")? {
        aarch64.push("no target (rustup target add aarch64-unknown-linux-gnu)");
    }
    aarch64.push("nothing here could run it");
    let not = |what: &str, why: String| Row { what: what.into(), made: Vec::new(), said: why, failed: false };
    let credentials = |how: &str| format!("not published: needs credentials: {how}");
    Ok(vec![
        not("program, aarch64", aarch64.join("; ")),
        not("images", image()),
        not("client: Go", format!("has no package: it is the tag clients/go/v{version}")),
        not("crates.io", credentials("cargo publish --package rosterd-client")),
        not("PyPI", credentials("twine upload, of the wheel and the sources")),
        not("npm", credentials("npm publish, of the .tgz")),
        not("Maven Central", credentials("a signing key too: the .jar and .pom files")),
        not("page of the release", "made by .github/workflows/release.yml, when the tag is pushed".into()),
    ])
}

/// Why there is no image: the workflow builds them on a machine with an engine.
fn image() -> String {
    let mut engine = Command::new("docker");
    engine.arg("info").stdout(Stdio::null()).stderr(Stdio::null());
    match engine.status().is_ok_and(|status| status.success()) {
        true => "made by .github/workflows/release.yml; here: docker build --build-arg REVISION=$(git rev-parse HEAD) .",
        false => "no engine answers here (docker info); made by .github/workflows/release.yml",
    }
    .into()
}

fn table(rows: &[Row]) -> Result<String> {
    let mut lines = vec![["what".to_owned(), "size".to_owned(), "where, or why not".to_owned()]];
    for row in rows {
        if row.made.is_empty() {
            let mark = if row.failed { "NOT MADE: " } else { "" };
            lines.push([row.what.clone(), "-".into(), format!("{mark}{}", one_line(&row.said))]);
        }
        for (n, path) in row.made.iter().enumerate() {
            let said =
                if n == 0 && !row.said.is_empty() { format!(" ({})", row.said) } else { String::new() };
            let place = path.strip_prefix(root()).unwrap_or(path);
            let what = if n == 0 { row.what.clone() } else { String::new() };
            lines.push([what, size(path)?, format!("{}{said}", place.display())]);
        }
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let text = lines.iter().map(|[what, size, place]| format!("{what:first$}  {size:>second$}  {place}\n"));
    Ok(text.collect())
}

fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn size(path: &Path) -> Result<String> {
    let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    Ok(match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    })
}

/// Seconds since 1970, as RFC 3339 writes them.
fn timestamp(epoch: &str) -> Result<String> {
    let written =
        output(Command::new("date").args(["--utc", "--date", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"]));
    Ok(written.with_context(|| format!("invalid time {epoch:?}"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_says() {
        let written = [
            ("0", "1970-01-01T00:00:00Z"),
            ("951782399", "2000-02-28T23:59:59Z"),
            ("951782400", "2000-02-29T00:00:00Z"),
            ("1798761599", "2026-12-31T23:59:59Z"),
        ];
        for (epoch, text) in written {
            assert_eq!(timestamp(epoch).unwrap(), text);
        }
        assert!(timestamp("x").is_err());
    }

    #[test]
    fn notes_are_the_section_of_the_version_alone() {
        let changes = "# Changelog\n\n## [Unreleased]\n\nx\n\n## [0.2.0] - 2027-01-01\n\n### Fixed\n\n* a\n\n## [0.2.0-rc.1]\n\n* b\n";
        assert_eq!(notes(changes, "0.2.0"), Some("### Fixed\n\n* a"));
        assert_eq!(notes(changes, "0.2.0-rc.1"), Some("* b"));
        assert_eq!(notes(changes, "0.1.0"), None);
    }

    #[test]
    fn the_table_names_what_was_made_and_says_why_the_rest_was_not() {
        let file = std::env::temp_dir().join(format!("release-{}", std::process::id()));
        std::fs::write(&file, "abc").unwrap();
        let rows = [
            row("a", "of it".into(), Ok(vec![file.clone(), file.clone()])),
            row("b", "unsaid".into(), Err(anyhow::anyhow!("no\n  engine"))),
        ];
        let table = table(&rows).unwrap();
        std::fs::remove_file(&file).unwrap();
        let lines: Vec<_> = table.lines().collect();
        let path = file.display();
        assert_eq!(
            lines[1..],
            [
                format!("a      3 B  {path} (of it)"),
                format!("       3 B  {path}"),
                "b        -  NOT MADE: no engine".into()
            ]
        );
        assert!(rows[1].failed && !rows[0].failed);
    }
}
