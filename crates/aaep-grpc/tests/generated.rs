//! The code that is kept is the code that the definition makes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::path::Path;

use protox::prost::Message as _;

#[test]
fn generated_code_is_up_to_date() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = here.join("src/generated");
    let made = tempfile::tempdir().unwrap();
    let set = protox::compile(["aaep/v1/aaep.proto"], [here.join("proto")]).unwrap();
    std::fs::write(made.path().join("aaep.v1.bin"), set.encode_to_vec()).unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .bytes(".")
        .out_dir(made.path())
        .compile_fds(set)
        .unwrap();
    for name in ["aaep.v1.rs", "aaep.v1.bin"] {
        let new = std::fs::read(made.path().join(name)).unwrap();
        if std::env::var_os("AAEP_WRITE").is_some() {
            std::fs::write(kept.join(name), &new).unwrap();
        }
        let old = std::fs::read(kept.join(name)).unwrap();
        assert!(old == new, "{name} is out of date: AAEP_WRITE=1 cargo test -p aaep-grpc --test generated");
    }
}
