//! `aaep demo`: scripted agents to listen to.

mod scenes;
mod suite;
mod verb;

pub(crate) use verb::{Args, run};
