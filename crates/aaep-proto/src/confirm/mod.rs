//! Questions to the user: how they are put, how they end, and what an accepted one permits (chapter 6).

mod clarification;
mod outcome;
mod permit;
mod question;

pub use clarification::{Clarification, UnanswerableError};
pub use outcome::{AuditRecord, ClarificationOutcome, ConfirmationOutcome, Resolution};
pub(crate) use permit::Grant;
pub use permit::{Acceptance, CallDigest, ParseDigestError, Permit, PermitError};
pub use question::{CONSENT_PREFIX, CONSENT_URI, Confirmation, UnsafeDefaultError};
