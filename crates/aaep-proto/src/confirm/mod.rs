//! Questions to the user: how they are put, how they end, and what an accepted one permits (chapter 6).

mod outcome;
mod permit;
mod question;

pub use outcome::{Answer, AuditRecord, Outcome, Verdict};
pub use permit::{CallDigest, InvalidDigest, Permit, PermitMismatch};
pub use question::{CONSENT_PREFIX, CONSENT_URI, Clarification, Confirmation, UnsafeDefault};
