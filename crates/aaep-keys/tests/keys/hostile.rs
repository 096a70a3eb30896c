//! Arbitrary bytes: never a panic, never believed.

use aaep_keys::{Algorithm, KeySet, PublicKey, SigningKey, StaticTokens, TokenVerifier, verify_manifest};
use proptest::prelude::*;

use crate::{NOW, at, base64url, key, set_of};

fn known() -> KeySet {
    set_of(&Algorithm::ALL.map(key))
}

proptest! {
    #[test]
    fn arbitrary_text_is_never_a_valid_signature(text in ".{0,200}", header in ".{0,60}", payload in "[A-Za-z0-9_.-]{0,60}") {
        let verifier = TokenVerifier::new(known(), "issuer", "audience");
        for jws in [text.clone(), format!("{}.{payload}", base64url(&header)), format!("{payload}.{payload}.{payload}")] {
            prop_assert!(verifier.verify(&jws, at(NOW)).is_err());
            prop_assert!(verify_manifest(&jws, &known()).is_err());
        }
    }

    #[test]
    fn arbitrary_signature_with_a_known_kid_is_refused(signature in "[A-Za-z0-9_-]{0,120}", algorithm in 0usize..3) {
        let key = key(Algorithm::ALL[algorithm]);
        let header = format!(r#"{{"alg":"{}","kid":"{}"}}"#, key.algorithm(), key.kid());
        let jws = format!("{}.e30.{signature}", base64url(&header));
        prop_assert!(known().verify(&jws, 4096).is_err());
    }

    #[test]
    fn signed_payload_is_returned_unchanged(payload in prop::collection::vec(any::<u8>(), 0..300), algorithm in 0usize..2) {
        let jws = key(Algorithm::ALL[algorithm]).sign("JWT", &payload).unwrap();
        prop_assert_eq!(known().verify(&jws, 4096).unwrap().payload, payload);
    }

    #[test]
    fn arbitrary_files_are_refused(text in "\\PC{0,200}", der in prop::collection::vec(any::<u8>(), 0..120)) {
        for tag in ["PUBLIC KEY", "RSA PUBLIC KEY", "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "CERTIFICATE"] {
            let block = pem::encode(&pem::Pem::new(tag, der.as_slice()));
            prop_assert!(SigningKey::from_pem(&block).is_err());
            prop_assert!(PublicKey::from_pem(&block).is_err());
            prop_assert!(KeySet::parse(&block).is_err());
        }
        prop_assert!(KeySet::parse(&text).is_err());
        prop_assert!(SigningKey::from_pem(&text).is_err());
        let _ = StaticTokens::parse(&text);
    }

    /// Real keys with a byte changed: refused, or another key, but no panic.
    #[test]
    fn damaged_keys_do_not_panic(algorithm in 0usize..3, place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let key = key(Algorithm::ALL[algorithm]);
        for text in [key.public_pem().unwrap(), key.to_pem().unwrap()] {
            let block = pem::parse(text).unwrap();
            let mut der = block.contents().to_vec();
            let place = place.index(der.len());
            der[place] = byte;
            let damaged = pem::encode(&pem::Pem::new(block.tag(), der));
            let _ = (PublicKey::from_pem(&damaged), SigningKey::from_pem(&damaged));
        }
    }
}
