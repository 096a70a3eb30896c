//! Questions to the user: how they are put, how they end, and what an accepted one permits (chapter 6).

mod clarification;
mod outcome;
mod permit;
mod question;

pub use clarification::{Clarification, UnanswerableQuestion};
pub use outcome::{Answer, AuditRecord, Outcome, Verdict};
pub(crate) use permit::Grant;
pub use permit::{Acceptance, CallDigest, InvalidDigest, Permit, PermitError};
pub use question::{CONSENT_PREFIX, CONSENT_URI, Confirmation, UnsafeDefault};
