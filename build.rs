//! Compiles proto/ in pure Rust (no protoc needed) and emits the descriptor set that reflection serves.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

const FILES: [&str; 3] =
    ["proto/rosterd/v1/types.proto", "proto/rosterd/v1/worker.proto", "proto/rosterd/v1/admin.proto"];

#[allow(clippy::disallowed_methods, reason = "cargo tells a build script where to write by a variable")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build.rs");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("rosterd.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
