//! `aaep demo`: scripted agents to listen to.

mod console;
pub(crate) mod scenes;
mod suite;
mod verb;

pub(crate) use verb::{Args, run, scene};
