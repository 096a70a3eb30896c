//! Nothing is lost: the store under kills, damage, full disks and rivals.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests too")]

mod child;
mod damage;
mod full;
mod kill;
mod upkeep;
