//! Nothing is lost: the store under kills, damage, full disks and rivals.
#![expect(clippy::print_stdout, reason = "the child tells the test what it saw")]

mod child;
mod damage;
mod full;
mod kill;
mod upkeep;
