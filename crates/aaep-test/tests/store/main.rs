//! The store of a process that is killed, whose files are damaged, whose disk is full or whose directory is in use.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests too")]

mod damage;
mod full_disk;
mod kill;
mod lock;
mod producer;
