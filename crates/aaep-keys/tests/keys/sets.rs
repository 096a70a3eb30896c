//! Sets of keys and their rotation.

use aaep_keys::{Algorithm, JwsError, KeyError, KeySet, SigningKey};
use serde_json::{Value, json};

use crate::{header, key, other, set_of};

#[test]
fn old_and_new_keys_verify_during_rotation() {
    let (old, new) = (key(Algorithm::Rs256), key(Algorithm::Es256));
    let (before, signed_before) = (set_of(&[old]), old.sign("JWT", b"{}").unwrap());
    let signed_after = new.sign("JWT", b"{}").unwrap();
    assert_eq!(before.verify(&signed_after, 4096), Err(JwsError::UnknownKey));
    let both = KeySet::from_jwks(&set_of(&[new, old]).to_jwks()).unwrap();
    assert_eq!(both.len(), 2);
    for jws in [&signed_before, &signed_after] {
        assert!(both.verify(jws, 4096).is_ok());
    }
    let after = set_of(&[new]);
    assert_eq!(after.verify(&signed_before, 4096), Err(JwsError::UnknownKey));
    assert!(after.verify(&signed_after, 4096).is_ok());
}

#[test]
fn keys_without_kid_are_tried_in_order() {
    let (first, second) = (SigningKey::generate(Algorithm::EdDsa).unwrap(), key(Algorithm::EdDsa));
    let pems = first.public_pem().unwrap() + &second.public_pem().unwrap();
    let set = KeySet::parse(&pems).unwrap();
    assert!(set.iter().all(|key| key.kid().is_none()) && set.len() == 2);
    for key in [&first, second] {
        // The signature names its key; the keys here have no names.
        assert_eq!(set.verify(&key.sign("JWT", b"{}").unwrap(), 4096).unwrap().key, key.kid());
    }
    let stranger = SigningKey::generate(Algorithm::EdDsa).unwrap();
    assert_eq!(set.verify(&stranger.sign("JWT", b"{}").unwrap(), 4096), Err(JwsError::BadSignature));
}

#[test]
fn signature_without_kid_is_tried_with_every_key() {
    let keys = Algorithm::ALL.map(key);
    for signer in keys {
        let mut header = header(signer);
        header.kid = None;
        let jws = other(signer, &header, &json!({}));
        assert_eq!(set_of(&keys).verify(&jws, 4096).unwrap().key, signer.kid());
    }
}

#[test]
fn keys_may_share_a_kid() {
    let (one, two) = (key(Algorithm::Es256), SigningKey::generate(Algorithm::Es256).unwrap());
    let renamed = |key: &SigningKey| {
        let mut jwk = key.public().to_jwk();
        jwk["kid"] = json!("main");
        jwk
    };
    let set = KeySet::from_jwks(&json!({"keys": [renamed(one), renamed(&two)]}).to_string()).unwrap();
    for key in [one, &two] {
        let mut header = header(key);
        header.kid = Some("main".to_owned());
        assert_eq!(set.verify(&other(key, &header, &json!({})), 4096).unwrap().key, key.kid());
    }
}

#[test]
fn unsupported_keys_of_a_set_are_skipped() {
    let good = key(Algorithm::Es256).public().to_jwk();
    let jwks = json!({"keys": [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}, {"kty": "AKP", "alg": "ML-DSA-44"}, 7, {}, good,
    ]});
    let set = KeySet::from_jwks(&jwks.to_string()).unwrap();
    assert_eq!((set.len(), set.iter().next().unwrap().kid()), (1, Some(key(Algorithm::Es256).kid())));
    // One key without a set around it will do.
    assert_eq!(KeySet::parse(&good.to_string()).unwrap(), set);
}

#[test]
fn invalid_key_sets_have_a_specific_error() {
    let good = key(Algorithm::Es256).public().to_jwk();
    let mut private = good.clone();
    private["d"] = json!("AAAA");
    for (text, fault) in [
        (String::new(), KeyError::NotKeySet),
        ("{".to_owned(), KeyError::NotKeySet),
        ("{}".to_owned(), KeyError::NotKeySet),
        ("[]".to_owned(), KeyError::NotKeySet),
        (json!({"keys": 1}).to_string(), KeyError::NotKeySet),
        (json!({"keys": []}).to_string(), KeyError::NoUsableKey),
        (json!({"keys": [{"kty": "oct", "k": "AAAA"}]}).to_string(), KeyError::NoUsableKey),
        (json!({"keys": vec![good.clone(); 65]}).to_string(), KeyError::TooManyKeys),
        (key(Algorithm::Es256).public_pem().unwrap().repeat(65), KeyError::TooManyKeys),
        (json!({"keys": [good, private]}).to_string(), KeyError::PrivateKey),
    ] {
        assert_eq!(KeySet::parse(&text), Err(fault), "{text}");
    }
}

#[test]
fn duplicate_key_is_stored_once() {
    let key = key(Algorithm::EdDsa);
    assert_eq!(set_of(&[key, key]).len(), 1);
    let jwks: Value = serde_json::from_str(&set_of(&[key]).to_jwks()).unwrap();
    assert_eq!(jwks, json!({"keys": [key.public().to_jwk()]}));
}
