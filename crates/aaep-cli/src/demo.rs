//! `aaep demo`: scripted agents to listen to.

mod command;
mod console;
pub(crate) mod scenes;
mod suite;

pub(crate) use command::{Args, run, scene};
