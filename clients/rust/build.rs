//! Compiles the worker protocol with a pure-Rust compiler, so nobody needs protoc.
//! Maps become BTreeMaps: what this library sends is the same at every run.
//!
//! What only the project's repository can try is marked: the package has no vectors and no copy of the protocol to compare.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A copy of the project's, so that the package has all that it needs; a test holds it fresh.
    let proto = "proto";
    println!("cargo:rerun-if-changed={proto}");
    println!("cargo:rustc-check-cfg=cfg(in_repository)");
    let tests = "src/machine/tests";
    if std::path::Path::new(tests).is_dir() {
        println!("cargo:rustc-cfg=in_repository");
    }
    let files = protox::compile(["rosterd/v1/worker.proto"], [proto])?;
    tonic_prost_build::configure().build_server(false).bytes(".").btree_map(".").compile_fds(files)?;
    Ok(())
}
