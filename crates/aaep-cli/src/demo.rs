//! `aaep demo`: scripted agents to listen to.

pub(crate) mod scenes;
mod suite;
mod verb;

pub(crate) use verb::{Args, run, scene};
