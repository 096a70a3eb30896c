//! Validation of handshake messages, replies and manifests.

use super::path::Path;
use super::{Findings, value};
use crate::json::{Json, Object};
use crate::message::MessageType;
use crate::rule::Rule;

pub(super) fn check(kind: MessageType, object: &Object<'_>, out: &mut Findings) {
    value::check_shape(kind.shape(), object, Path::Root, out);
    if kind == MessageType::SubscriptionRequest {
        check_level_2(object, out);
    }
}

/// Checks that a subscriber of level 2 or 3 supports replies to confirmations (5.3.1.4).
fn check_level_2(request: &Object<'_>, out: &mut Findings) {
    let Some(capabilities) = request.get("capabilities") else { return };
    let levels = capabilities.get("supported_conformance_levels").and_then(Json::items).unwrap_or(&[]);
    let claims = levels.iter().any(|l| matches!(l.integer(), Some(2 | 3)));
    let replies = capabilities.get("supports_confirmation_reply").and_then(Json::boolean);
    if claims && replies != Some(true) {
        let message = "Set supports_confirmation_reply to true, or claim level 1 only.";
        let path = Path::top("capabilities");
        out.add(Rule::CapabilityLevel2, path.field("supports_confirmation_reply"), message);
    }
}
