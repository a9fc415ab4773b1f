//! Generates the protobuf types and the gRPC glue, without `protoc`.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let protos = Path::new("../../proto");
    let agent = protos.join("fluke/v1/agent.proto");
    println!("cargo::rerun-if-changed={}", agent.display());
    println!("cargo::rerun-if-changed=build.rs");
    let descriptors = protox::compile([&agent], [protos])?;
    tonic_prost_build::configure()
        // Ordered maps, so that equal messages are equal bytes.
        .btree_map(".")
        // Slices of what is there once for all agents.
        .bytes(".fluke.v1.Part.content")
        // We connect ourselves, and its `connect` would clash with the rpc of this name.
        .build_transport(false)
        .codec_path("crate::codec::LeanCodec")
        .compile_fds(descriptors)?;
    Ok(())
}
