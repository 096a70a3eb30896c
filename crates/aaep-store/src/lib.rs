//! The journal in SQLite: events, resume points, questions, decisions and used permits survive a restart.
//!
//! One thread writes all waiting records in one transaction and syncs once for it, so durability costs one sync per
//! batch, not per event. Every record has a checksum; damaged records are refused or reported as missing, never served.
//! See `docs/reference/durability.md`.
//!
//! ```
//! use aaep::Producer;
//! use aaep_store::{Retention, Store};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let (journal, restored) = Store::open_single(dir, Retention::default())?;
//! let producer = Producer::builder("gardener").journal(journal, restored).build();
//! let session = producer.session("Planning your garden.").await?;
//! session.complete("The plan is ready.").await?;
//! # Ok(())
//! # }
//! ```

mod apply;
mod audit;
mod backup;
mod calls;
mod check;
mod checksum;
mod completeness;
mod error;
mod high_water;
mod permissions;
mod read;
mod resume;
mod retention;
mod schema;
mod seen;
mod store;
mod users;
mod writer;

pub use audit::{Audit, AuditQuery, Decided, PermitUse};
pub use backup::{Backup, backup};
pub use error::StoreError;
pub use retention::Retention;
pub use store::{Store, UserJournal};
