//! AAEP for agents: what an agent does and asks, in a form that screen readers, braille displays, captions and voice
//! control can follow.
//!
//! An agent uses a [`Producer`]. It starts a [`Session`], and a session has tools, questions and outputs. Nothing
//! irreversible runs without a [`Permit`], and only a user who accepts an irreversible [`Confirmation`] gives one.
//!
//! Everything else is in modules:
//!
//! | Module | For |
//! |---|---|
//! | [`transport`] | carrying events to subscribers, or receiving them in the same process |
//! | [`journal`] | storage for what must survive a restart |
//! | [`recovery`] | agents that continue their sessions and questions after a restart |
//! | [`stats`] | metrics and diagnosis |
//! | [`message`], [`id`] | the types of the protocol |
//!
//! Dropping a value ends what it stands for: a session is cancelled, an output finished, a tool call reported as abandoned,
//! a question withdrawn, a subscription closed.
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
//! The rules of the protocol are in [`aaep_proto`], which does no I/O. This crate runs them in a task, with the time and
//! random bytes. `examples/` has complete programs.

mod backpressure;
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
mod worker;

pub use error::{Error, ToolError};
pub use output::Output;
pub use producer::{AuditLog, Builder, Producer};
pub use question::Question;
pub use session::Session;
pub use tool::{Permitted, Reversible, Tool, Unpermitted};
pub use worker::Worker;

pub use aaep_proto::confirm::{
    Acceptance, AuditRecord, CallDigest, Clarification, ClarificationOutcome, Confirmation, ConfirmationOutcome,
    Permit, PermitError, Resolution, UnanswerableError, UnsafeDefaultError,
};
pub use aaep_proto::engine::{CancelRequest, EngineError, NoSubscriberPolicy, OutputFormat, SessionOptions};
pub use aaep_proto::language::LanguageTag;
pub use aaep_proto::negotiate::Offer;
pub use aaep_proto::{id, message};
