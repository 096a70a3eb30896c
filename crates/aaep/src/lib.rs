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

mod answers;
mod backpressure;
mod calls;
mod clock;
mod driver;
mod error;
mod fairness;
mod history;
mod journal;
mod lease;
mod link;
mod link_sender;
mod output;
mod producer;
mod question;
mod recovery;
mod replay;
mod replies;
mod seen;
mod session;
mod stats;
mod tool;

pub use error::{Error, ToolError};
pub use journal::{CommitCallback, Journal, MissedEvents};
pub use lease::Lease;
pub use link::{Link, Outbound};
pub use link_sender::LinkSender;
pub use output::Output;
pub use producer::{AuditLog, Builder, Producer};
pub use question::Question;
pub use recovery::{PendingQuestion, RecoveredQuestion};
pub use seen::SeenEvent;
pub use session::Session;
pub use stats::{ProducerStats, ReplyStats};
pub use tool::{Permitted, Reversible, Tool, Unpermitted};

pub use aaep_proto::confirm::{
    Acceptance, AuditRecord, CallDigest, Clarification, ClarificationOutcome, Confirmation, ConfirmationOutcome,
    Permit, PermitError, Resolution, UnanswerableError, UnsafeDefaultError,
};
pub use aaep_proto::engine::{
    CloseInfo, EngineError, EngineStats, JournalEntry, NoSubscriberPolicy, OutputFormat, PendingWork, RecoveredState,
    ReplayItem, ReplyRejection, ResumePolicy, SessionOptions, SubscriberCounts,
};
pub use aaep_proto::frame::Frame;
pub use aaep_proto::language::LanguageTag;
pub use aaep_proto::negotiate::{Offer, Rejection};
pub use aaep_proto::{id, message};

/// The README shows code; here it is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
