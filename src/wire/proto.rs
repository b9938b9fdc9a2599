//! The wire's types, services and descriptors, as generated from `proto/`. They stop at the edge: the gRPC API
//! and the command line see them, nothing behind these does.

#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub)]
pub mod v1 {
    tonic::include_proto!("rosterd.v1");

    /// The compiled descriptor set of the package and of all it imports, for reflection.
    pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rosterd.v1.bin"));
}
