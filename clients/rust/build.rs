//! Compiles the worker protocol with a pure-Rust compiler, so nobody needs protoc. Maps become BTreeMaps: the frames
//! are the same in every run.
//!
//! A cfg marks what only the project's repository can test: the package has no vectors and no second copy of the
//! protocol.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A copy of the project's, so that the package is complete; a test keeps it fresh.
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
