//! The server, as clients meet it: bindings, identity, encryption, limits, load.

mod harness;
mod http;
mod identity;
mod limits;
mod load;
mod operations;
mod resume;
mod tls;
mod ws;
