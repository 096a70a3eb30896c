//! Malformed and incomplete subscription requests.
