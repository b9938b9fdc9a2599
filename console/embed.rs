//! Embeds the built console into the binary: a table of the files below `dist`, each with its kind, its tag, and its
//! gzipped form if that is shorter. Run for src/api, whose manifest names this file. It needs no Node: `dist` is
//! committed.

use std::error::Error;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let dist = variable("CARGO_MANIFEST_DIR")?.join("../../console/dist");
    let out = variable("OUT_DIR")?;
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut paths = Vec::new();
    files(&dist, &mut paths).map_err(|error| {
        format!(
            "{}: {error}: build the console (npm run build in console), or check its dist out",
            dist.display()
        )
    })?;
    paths.sort();
    let mut table = String::from("&[\n");
    for (number, path) in paths.iter().enumerate() {
        let name =
            path.strip_prefix(&dist)?.to_str().ok_or("a file of the console has a name that is not UTF-8")?;
        table.push_str(&row(name, path, &out.join(format!("console-{number}.gz")))?);
    }
    table.push_str("]\n");
    if !table.contains("path: \"index.html\"") {
        return Err(format!("{} has no index.html", dist.display()).into());
    }
    fs::write(out.join("console.rs"), table)?;
    Ok(())
}

#[allow(
    clippy::disallowed_methods,
    reason = "cargo tells a build script where it is and where to write by a variable"
)]
fn variable(name: &str) -> Result<PathBuf, env::VarError> {
    env::var(name).map(PathBuf::from)
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

/// One file as a value of src/api's type for it.
fn row(name: &str, path: &Path, packed: &Path) -> Result<String, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&bytes)?;
    let gzip = encoder.finish()?;
    let gzip = if gzip.len() < bytes.len() {
        fs::write(packed, gzip)?;
        format!("Some(include_bytes!({packed:?}))")
    } else {
        "None".to_owned()
    };
    let mut row = String::new();
    write!(
        row,
        "    File {{ path: {name:?}, kind: {:?}, tag: \"\\\"{:016x}\\\"\", ",
        kind(name)?,
        hasher.finish()
    )?;
    writeln!(row, "bytes: include_bytes!({:?}), gzip: {gzip} }},", path.canonicalize()?)?;
    Ok(row)
}

/// The media type by the file extension. An unknown one fails the build, instead of a browser.
fn kind(name: &str) -> Result<&'static str, String> {
    let (_, end) = name.rsplit_once('.').unwrap_or_default();
    Ok(match end {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => return Err(format!("console/dist/{name}: its kind is not known: add it to console/embed.rs")),
    })
}
