//! Questions to the user, their outcomes, and the permit that an accepted confirmation yields (chapter 6).

mod clarification;
mod outcome;
mod permit;
mod question;

pub use clarification::{Clarification, UnanswerableError};
pub use outcome::{AuditRecord, ClarificationOutcome, ConfirmationOutcome, Resolution, reported_outcome};
pub(crate) use permit::Grant;
pub use permit::{Acceptance, CallDigest, ParseDigestError, Permit, PermitError};
pub(crate) use question::BoundCall;
pub use question::{CONSENT_PREFIX, CONSENT_URI, Confirmation, UnsafeDefaultError};
