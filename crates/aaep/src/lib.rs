//! AAEP for agents: what an agent does and asks, in a form that screen readers, braille displays,
//! captions and voice control can follow.
//!
//! There are two doors:
//! - [`Producer`], for those who write agents. It starts a [`Session`], and a session has tools,
//!   questions and outputs. Nothing irreversible runs without a [`Permit`], and only the user's yes to
//!   a question that was asked as irreversible gives one.
//! - [`Link`], for those who carry events to subscribers, or listen in the same process.
//!
//! What is dropped is ended properly: a session is cancelled, an output finished, a tool reported as
//! given up, a question withdrawn, a subscription closed.
//!
//! ```
//! use aaep::Producer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let producer = Producer::builder("gardener").build();
//! let session = producer.session("Planning your garden.").await?;
//! let output = session.output().await?;
//! output.write("Plant beans first.").await?;
//! output.finish().await?;
//! session.complete("The plan is ready.").await?;
//! # Ok(())
//! # }
//! ```
//!
//! The rules themselves are in [`aaep_proto`], which does no I/O; this crate is the thin shell that gives
//! it a task, the time and random bytes.

mod backpressure;
mod clock;
mod driver;
mod error;
pub mod journal;
mod output;
mod producer;
mod question;
pub mod recovery;
mod replay;
mod session;
pub mod stats;
mod tool;
pub mod transport;

pub use error::{Error, ToolError};
pub use output::Output;
pub use producer::{AuditLog, Builder, Producer};
pub use question::Question;
pub use session::Session;
pub use tool::{Permitted, Reversible, Tool, Unpermitted};

pub use aaep_proto::confirm::{
    Acceptance, AuditRecord, CallDigest, Clarification, ClarificationOutcome, Confirmation, ConfirmationOutcome,
    Permit, PermitError, Resolution, UnanswerableError, UnsafeDefaultError,
};
pub use aaep_proto::engine::{EngineError, NoSubscriberPolicy, OutputFormat, SessionOptions};
pub use aaep_proto::language::LanguageTag;
pub use aaep_proto::negotiate::Offer;
pub use aaep_proto::{id, message};

/// The README shows code; here it is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
