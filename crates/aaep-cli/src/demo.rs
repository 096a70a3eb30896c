//! `aaep demo`: scripted agents to listen to.

mod scenes;
