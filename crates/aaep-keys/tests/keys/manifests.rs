//! Signed manifests.

use aaep_keys::manifest::{MANIFEST_BYTES, MANIFEST_TYP};
use aaep_keys::{
    Algorithm, JwsError, ManifestError, ManifestMismatch, SigningKey, VerifiedManifest, sign_manifest,
    sign_manifest_json, verify_manifest,
};
use aaep_proto::message::{Manifest, Message, SubscriptionAccepted};
use jsonwebtoken::Header;
use serde_json::{Value, json};

use crate::{NOW, at, base64url, header, key, other, set_of};

fn json() -> Value {
    json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:producer.manifest",
        "agent_id": "bank-helper", "aaep_versions_supported": ["1.0.0"], "conformance_levels_supported": [1, 2],
        "transports_supported": ["sse", "websocket"], "contact": "access@bank.example"})
}

fn manifest() -> Manifest {
    let Message::Manifest(manifest) = serde_json::from_value(json()).unwrap() else { unreachable!() };
    *manifest
}

fn verified() -> VerifiedManifest {
    let key = key(Algorithm::Es256);
    verify_manifest(&sign_manifest(&manifest(), key, at(NOW)).unwrap(), &set_of(&[key])).unwrap()
}

fn accepted(agent_id: &str, version: &str, levels: Value) -> SubscriptionAccepted {
    let text = json!({"type": "subscription.accepted", "subscription_id": "sub_1", "aaep_version": version,
        "producer": {"agent_id": agent_id}, "honored_capabilities": {"supported_conformance_levels": levels}});
    let Message::SubscriptionAccepted(accepted) = serde_json::from_value(text).unwrap() else { unreachable!() };
    *accepted
}

#[test]
fn signed_manifest_is_verified() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let jws = sign_manifest(&manifest(), key, at(NOW)).unwrap();
        let verified = verify_manifest(&jws, &set_of(&[key])).unwrap();
        assert_eq!(verified.manifest, manifest());
        assert_eq!((verified.issued_at, verified.expires_at), (Some(NOW), None));
        assert_eq!((verified.key.as_str(), verified.algorithm), (key.kid(), algorithm));
        let header = jsonwebtoken::decode_header(&jws).unwrap();
        assert_eq!((header.typ.as_deref(), header.kid.as_deref()), (Some(MANIFEST_TYP), Some(key.kid())));
    }
}

/// It must fit into the field of the accepted message.
#[test]
fn signed_manifest_fits_into_the_accepted_message() {
    let jws = sign_manifest(&manifest(), key(Algorithm::Es256), at(NOW)).unwrap();
    let mut message = accepted("bank-helper", "1.0.0", json!([1]));
    message.signed_manifest = Some(jws);
    let bytes = serde_json::to_vec(&Message::from(message)).unwrap();
    assert_eq!(aaep_proto::validate(&bytes).problems, []);
}

#[test]
fn unknown_fields_are_signed() {
    let mut json = json();
    json["haptic_profile"] = json!({"pulse": true});
    let key = key(Algorithm::EdDsa);
    let jws = sign_manifest_json(json.to_string().as_bytes(), key, at(NOW)).unwrap();
    let payload = set_of(&[key]).verify(&jws, MANIFEST_BYTES).unwrap().payload;
    let claims: Value = serde_json::from_slice(&payload).unwrap();
    json["iat"] = json!(NOW);
    assert_eq!(claims, json);
}

#[test]
fn manifests_signed_elsewhere_are_verified() {
    let key = key(Algorithm::Rs256);
    let mut claims = json();
    claims["iat"] = json!(NOW);
    claims["exp"] = json!(NOW + 60);
    let verified = verify_manifest(&other(key, &header(key), &claims), &set_of(&[key])).unwrap();
    assert_eq!((verified.manifest, verified.expires_at), (manifest(), Some(NOW + 60)));
    // A later version may know levels that this one does not.
    claims["conformance_levels_supported"] = json!([1, 2, 3, 4]);
    assert!(verify_manifest(&other(key, &header(key), &claims), &set_of(&[key])).is_ok());
}

#[test]
fn every_invalid_manifest_has_its_error_code() {
    let signer = key(Algorithm::Es256);
    let known = set_of(&[signer]);
    let good = sign_manifest(&manifest(), signer, at(NOW)).unwrap();
    let thief = SigningKey::generate(Algorithm::Es256).unwrap();
    let mut huge = json();
    huge["contact"] = json!("x".repeat(MANIFEST_BYTES));
    let unsigned = format!("{}.{}.", base64url(r#"{"alg":"none"}"#), base64url(&json().to_string()));
    let secret = jsonwebtoken::EncodingKey::from_secret(signer.public_pem().unwrap().as_bytes());
    let hmac = jsonwebtoken::encode(&Header::default(), &json(), &secret).unwrap();
    let claims = |json: &Value| other(signer, &header(signer), json);
    for (jws, code) in [
        (String::new(), "malformed"),
        (json().to_string(), "malformed"),
        (unsigned, "alg-none"),
        (hmac, "alg-not-allowed"),
        (sign_manifest(&manifest(), &thief, at(NOW)).unwrap(), "unknown-kid"),
        (other(&thief, &header(signer), &json()), "bad-signature"),
        (good.replacen(".eyJ", ".eyK", 1), "bad-signature"),
        (claims(&huge), "too-long"),
        (claims(&json!({"sub": "reader"})), "not-a-manifest"),
        (claims(&json!([1])), "not-a-manifest"),
        (claims(&json!({"type": "subscription.close", "subscription_id": "sub_1"})), "not-a-manifest"),
        (claims(&json!({"type": "aaep:producer.manifest", "agent_id": "x"})), "not-a-manifest"),
    ] {
        let fault = verify_manifest(&jws, &known).unwrap_err();
        assert_eq!(fault.code(), code, "{fault}");
    }
    let mut odd = json();
    odd["iat"] = json!("yesterday");
    assert_eq!(verify_manifest(&claims(&odd), &known).unwrap_err().code(), "not-a-manifest");
    assert!(verify_manifest(&good, &known).is_ok());
}

#[test]
fn only_a_valid_manifest_is_signed() {
    let key = key(Algorithm::Es256);
    let sign = |json: &Value| sign_manifest_json(json.to_string().as_bytes(), key, at(NOW));
    let mut bad = json();
    bad["transports_supported"] = json!([]);
    assert!(
        matches!(sign(&bad), Err(ManifestError::NotAManifest(problem)) if problem.contains("/transports_supported"))
    );
    let close = json!({"type": "subscription.close", "subscription_id": "sub_1"});
    assert!(matches!(sign(&close), Err(ManifestError::NotAManifest(_))));
    assert!(matches!(sign_manifest_json(b"{", key, at(NOW)), Err(ManifestError::NotAManifest(_))));
    let mut huge = json();
    huge["contact"] = json!("x".repeat(MANIFEST_BYTES));
    assert_eq!(sign(&huge), Err(ManifestError::Signature(JwsError::TooLong)));
}

#[test]
fn manifest_of_another_agent_is_a_mismatch() {
    let verified = verified();
    assert_eq!(verified.check(&accepted("bank-helper", "1.0.0", json!([1, 2])), "sse"), Ok(()));
    let misfit = verified.check(&accepted("bank-he1per", "1.0.0", json!([1])), "sse").unwrap_err();
    assert_eq!(misfit, ManifestMismatch::AgentId { signed: "bank-helper".into(), accepted: "bank-he1per".into() });
    assert_eq!(
        misfit.to_string(),
        "the signed manifest is that of \"bank-helper\", but \"bank-he1per\" accepted the subscription"
    );
}

#[test]
fn manifest_must_offer_the_negotiated_terms() {
    let verified = verified();
    let check = |version: &str, levels: Value, transport: &str| {
        verified.check(&accepted("bank-helper", version, levels), transport)
    };
    assert_eq!(check("1.1.0", json!([1]), "sse"), Err(ManifestMismatch::Version("1.1.0".into())));
    assert_eq!(check("1.0.0", json!([1]), "grpc"), Err(ManifestMismatch::Transport("grpc".into())));
    assert_eq!(check("1.0.0", json!([1, 2, 3]), "websocket"), Err(ManifestMismatch::Level(3)));
    assert_eq!(check("1.0.0", json!([2]), "websocket"), Ok(()));
    let mut silent = accepted("bank-helper", "1.0.0", json!([1]));
    silent.honored_capabilities.fields.supported_conformance_levels = None;
    assert_eq!(verified.check(&silent, "sse"), Ok(()));
}

#[test]
fn manifest_is_valid_between_issue_and_expiry() {
    let mut verified = verified();
    assert_eq!(verified.check_time(at(NOW - 5), 5), Ok(()));
    assert_eq!(verified.check_time(at(NOW - 6), 5), Err(ManifestMismatch::NotYet));
    assert_eq!(verified.check_time(at(NOW + 1_000_000), 0), Ok(()));
    verified.expires_at = Some(NOW + 60);
    assert_eq!(verified.check_time(at(NOW + 64), 5), Ok(()));
    assert_eq!(verified.check_time(at(NOW + 65), 5), Err(ManifestMismatch::Expired));
    verified.issued_at = Some(i64::MIN);
    verified.expires_at = Some(i64::MAX);
    assert_eq!(verified.check_time(at(NOW), u32::MAX), Ok(()));
}
