//! What the bridges to other protocols share: the driver of their state machines, lines, and the peers at both ends.

mod driver;
mod http_peer;
mod lines;
mod peer;
mod route;
mod serve;

pub(crate) use driver::UnheardQuestions;
pub(crate) use http_peer::HttpPeerOptions;
pub(crate) use peer::PeerKind;
pub(crate) use route::BridgeRoute;
pub(crate) use serve::{BridgeStart, serve_bridge};
