//! Key pairs and their forms.

use aaep_keys::{Algorithm, KeyError, KeySet, PublicKey, SigningKey};
use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use crate::key;

#[test]
fn key_is_unchanged_after_a_pem_round_trip() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let pem = key.to_pem().unwrap();
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{pem}");
        let again = SigningKey::from_pem(&pem).unwrap();
        assert_eq!((again.kid(), again.algorithm()), (key.kid(), algorithm));
        assert_eq!(again.to_pem().unwrap(), pem);
    }
}

#[test]
fn pem_and_jwk_give_the_same_public_key() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let from_pem = PublicKey::from_pem(&key.public_pem().unwrap()).unwrap();
        let from_jwk = PublicKey::from_jwk(&key.public().to_jwk()).unwrap();
        for public in [&from_pem, &from_jwk] {
            assert_eq!((public.thumbprint(), public.algorithm()), (key.kid(), algorithm));
        }
        // A PEM file gives no name; a JWK that is made here has one.
        assert_eq!((from_pem.kid(), from_jwk.kid()), (None, Some(key.kid())));
    }
}

#[test]
fn jwk_has_public_fields_only() {
    for algorithm in Algorithm::ALL {
        let jwk = key(algorithm).public().to_jwk();
        assert_eq!((jwk["alg"].as_str(), jwk["use"].as_str()), (Some(algorithm.as_str()), Some("sig")));
        let mut names: Vec<&str> = jwk.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        let expected: &[&str] = match algorithm {
            Algorithm::Es256 => &["alg", "crv", "kid", "kty", "use", "x", "y"],
            Algorithm::EdDsa => &["alg", "crv", "kid", "kty", "use", "x"],
            Algorithm::Rs256 => &["alg", "e", "kid", "kty", "n", "use"],
            other => panic!("{other:?} needs a row here"),
        };
        assert_eq!(names, expected);
    }
}

/// The example of RFC 7638, and that of RFC 8037.
#[test]
fn thumbprints_match_the_rfc_examples() {
    let rsa = json!({"kty": "RSA", "e": "AQAB", "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"});
    let ed = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let thumbprint = |jwk: &Value| PublicKey::from_jwk(jwk).unwrap().thumbprint().to_owned();
    assert_eq!(thumbprint(&rsa), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    assert_eq!(thumbprint(&ed), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
}

#[test]
fn sec1_and_pkcs1_private_keys_are_parsed() {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let der: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().unwrap();
    let parameters = pem::encode(&pem::Pem::new("EC PARAMETERS", vec![6, 0]));
    let text = parameters + &pem::encode(&pem::Pem::new("EC PRIVATE KEY", der.as_ref()));
    let modern = pem::encode(&pem::Pem::new("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref()));
    assert_eq!(SigningKey::from_pem(&text).unwrap().kid(), SigningKey::from_pem(&modern).unwrap().kid());

    let rsa = key(Algorithm::Rs256);
    let pkcs8 = pem::parse(rsa.to_pem().unwrap()).unwrap();
    // Before the RSAPrivateKey stand the version, the algorithm and a header, 26 bytes in all.
    let text = pem::encode(&pem::Pem::new("RSA PRIVATE KEY", &pkcs8.contents()[26..]));
    assert_eq!(SigningKey::from_pem(&text).unwrap().kid(), rsa.kid());
}

#[test]
fn invalid_private_keys_have_a_specific_error() {
    let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap().to_pkcs8v1().unwrap();
    let block = |tag: &str, der: &[u8]| pem::encode(&pem::Pem::new(tag, der));
    let public = key(Algorithm::Es256).public_pem().unwrap();
    for (text, fault) in [
        (String::new(), KeyError::NotPem),
        ("{}".to_owned(), KeyError::NotPem),
        (block("ENCRYPTED PRIVATE KEY", b"x"), KeyError::Encrypted),
        (public, KeyError::PublicKey),
        (block("OPENSSH PRIVATE KEY", b"x"), KeyError::Unsupported),
        (block("PRIVATE KEY", b"not DER"), KeyError::Unsupported),
        (block("PRIVATE KEY", p384.as_ref()), KeyError::Unsupported),
    ] {
        assert_eq!(SigningKey::from_pem(&text).unwrap_err(), fault, "{text}");
    }
}

#[test]
fn invalid_public_keys_are_refused() {
    let ec = key(Algorithm::Es256).public().to_jwk();
    let ed = key(Algorithm::EdDsa).public().to_jwk();
    let rsa = key(Algorithm::Rs256).public().to_jwk();
    let with = |jwk: &Value, name: &str, value: Value| {
        let mut jwk = jwk.clone();
        jwk[name] = value;
        jwk
    };
    for jwk in [
        json!({}),
        json!(1),
        json!({"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}),
        with(&ec, "crv", json!("P-384")),
        // Not on the curve.
        with(&ec, "y", ec["x"].clone()),
        with(&ec, "x", json!("AAAA")),
        with(&ec, "x", json!("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU=")),
        with(&ec, "alg", json!("ES384")),
        with(&ec, "alg", json!("HS256")),
        with(&ec, "use", json!("enc")),
        with(&ec, "key_ops", json!(["sign"])),
        with(&ec, "kid", json!("")),
        with(&ec, "kid", json!("k".repeat(257))),
        with(&ed, "x", json!("AAAA")),
        with(&rsa, "alg", json!("PS256")),
        // 1024 bits.
        with(&rsa, "n", json!("_".repeat(171))),
        with(&rsa, "n", json!("")),
        with(&rsa, "e", json!("")),
        with(&rsa, "e", json!("AA")),
        with(&rsa, "e", json!("AQ")),
        with(&rsa, "e", json!("AQAA")),
    ] {
        assert_eq!(PublicKey::from_jwk(&jwk), Err(KeyError::Unsupported), "{jwk}");
    }
    assert!(PublicKey::from_jwk(&with(&ec, "key_ops", json!(["verify"]))).is_ok());
}

#[test]
fn debug_output_contains_no_secret() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let shown = format!("{key:?}");
        assert!(shown.contains(key.kid()) && shown.len() < 200, "{shown}");
    }
}

#[test]
fn private_key_is_refused_as_a_public_key() {
    let pem = key(Algorithm::EdDsa).to_pem().unwrap();
    assert_eq!(PublicKey::from_pem(&pem), Err(KeyError::PrivateKey));
    assert_eq!(KeySet::parse(&pem), Err(KeyError::PrivateKey));
    let with_parameters = pem::encode(&pem::Pem::new("EC PARAMETERS", vec![6, 0])) + &pem;
    assert_eq!(KeySet::parse(&with_parameters), Err(KeyError::PrivateKey));
}
