//! `aaep demo`: a scripted demo agent.

mod command;
mod console;
pub(crate) mod scenes;

pub(crate) use command::{DemoArgs, parse_scene, run};
