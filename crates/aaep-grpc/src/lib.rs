//! AAEP over gRPC: the service definition `proto/aaep/v1/aaep.proto` and the code made from it.
//!
//! The code is kept beside the definition, so that no protobuf compiler is needed to build this crate; a test makes it again and
//! compares. The server and the client are in `aaep-server` and `aaep-client`.
//!
//! ```
//! use aaep_grpc::v1::AaepMessage;
//! let message = AaepMessage { json: r#"{"type":"subscription.close"}"#.into(), ..AaepMessage::default() };
//! assert!(message.json.starts_with(b"{"));
//! ```

/// The package `aaep.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    reason = "made by a program"
)]
pub mod v1 {
    include!("generated/aaep.v1.rs");
}

/// The definition in the form that reflection serves.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/aaep.v1.bin");

/// The definition as text, for generating clients.
pub const PROTO: &str = include_str!("../proto/aaep/v1/aaep.proto");
