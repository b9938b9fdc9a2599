//! Compiles proto/ in pure Rust (no protoc needed) and emits the descriptor set that reflection serves.
//! Run for src/wire, which holds what comes of it; its manifest names this file.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

const FILES: [&str; 5] = [
    "rosterd/v1/types.proto",
    "rosterd/v1/worker.proto",
    "rosterd/v1/admin.proto",
    "rosterd/v1/backup.proto",
    "rosterd/v1/alarms.proto",
];

#[allow(
    clippy::disallowed_methods,
    reason = "cargo tells a build script where it is and where to write by a variable"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let top = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let proto = top.join("proto");
    println!("cargo:rerun-if-changed={}", proto.display());
    println!("cargo:rerun-if-changed={}", top.join("build.rs").display());
    let descriptors = protox::compile(FILES, [proto])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("rosterd.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::SmallBuffers")
        .compile_fds(descriptors)?;
    Ok(())
}
