//! The web page, in real browsers.
#![cfg(unix)]

mod generated;
