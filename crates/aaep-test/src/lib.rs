//! Holds nothing but tests.
