//! Expired, revoked and confused credentials.
