//! Secrets and deceptive characters in events.
