//! Compact JWS: which signatures are accepted and which are refused.

use aaep_keys::{Algorithm, JwsError, KeySet, SigningKey};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{DecodingKey, EncodingKey, Header, Validation};
use serde_json::{Value, json};

use crate::{base64url, header, key, other, set_of};

const MAX_BYTES: usize = 4096;

fn verify(jws: &str) -> Result<Vec<u8>, JwsError> {
    set_of(&Algorithm::ALL.map(key)).verify(jws, MAX_BYTES).map(|verified| verified.payload)
}

/// RFC 7515 A.2 and A.3, RFC 8037 A.4.
#[test]
fn rfc_examples_verify() {
    let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let rs256 = (
        json!({"kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}),
        format!(
            "eyJhbGciOiJSUzI1NiJ9.{claims}.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
        ),
    );
    let es256 = (
        json!({"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}),
        format!(
            "eyJhbGciOiJFUzI1NiJ9.{claims}.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
        ),
    );
    let ed = (
        json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}),
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg".to_owned(),
    );
    for (jwk, jws) in [rs256, es256, ed] {
        let set = KeySet::from_jwks(&jwk.to_string()).unwrap();
        let verified = set.verify(&jws, MAX_BYTES).unwrap();
        assert!(verified.payload.starts_with(b"{\"iss\":\"joe\"") || verified.payload.starts_with(b"Example of"));
    }
}

#[test]
fn other_implementation_verifies_our_signatures() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let jws = key.sign("JWT", br#"{"hello":"world"}"#).unwrap();
        let jwk: Jwk = serde_json::from_value(key.public().to_jwk()).unwrap();
        let mut validation = Validation::new(algorithm.into());
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        let data = jsonwebtoken::decode::<Value>(&jws, &DecodingKey::from_jwk(&jwk).unwrap(), &validation).unwrap();
        assert_eq!(data.claims, json!({"hello": "world"}));
        assert_eq!(data.header.kid.as_deref(), Some(key.kid()));
    }
}

#[test]
fn signatures_of_another_implementation_verify() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let jws = other(key, &header(key), &json!({"n": 1}));
        let verified = set_of(&[key]).verify(&jws, MAX_BYTES).unwrap();
        assert_eq!((verified.payload.as_slice(), verified.algorithm), (&br#"{"n":1}"#[..], algorithm));
        assert_eq!((verified.key.as_str(), verified.typ.as_deref()), (key.kid(), Some("JWT")));
    }
}

#[test]
fn unsigned_jws_is_refused() {
    for name in ["none", "None", "NONE", "nOnE"] {
        for signature in ["", "AAAA"] {
            let jws = format!("{}.{}.{signature}", base64url(&json!({"alg": name}).to_string()), base64url("{}"));
            assert_eq!(verify(&jws), Err(JwsError::AlgorithmNone), "{jws}");
        }
    }
}

/// The public key is not secret: if it were accepted as an HMAC secret, anyone could sign.
#[test]
fn public_key_is_not_accepted_as_hmac_secret() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let jwk = key.public().to_jwk();
        let pem = key.public_pem().unwrap();
        for secret in [pem.as_bytes(), pem.trim().as_bytes(), jwk.to_string().as_bytes()] {
            let mut header = Header::new(jsonwebtoken::Algorithm::HS256);
            header.kid = Some(key.kid().to_owned());
            let jws = jsonwebtoken::encode(&header, &json!({}), &EncodingKey::from_secret(secret)).unwrap();
            assert_eq!(verify(&jws), Err(JwsError::AlgorithmNotAllowed("HS256".to_owned())));
        }
    }
}

#[test]
fn unsupported_algorithm_is_refused_and_its_name_is_sanitized() {
    for (alg, shown) in [
        ("PS256", "PS256"),
        ("ES384", "ES384"),
        ("es256", "es256"),
        ("", ""),
        ("x\u{1b}[2J\nforged: yes and long", "x[2Jforged:yesan"),
    ] {
        let jws = format!("{}.{}.AAAA", base64url(&json!({ "alg": alg }).to_string()), base64url("{}"));
        assert_eq!(verify(&jws), Err(JwsError::AlgorithmNotAllowed(shown.to_owned())));
    }
}

#[test]
fn algorithm_must_match_the_key() {
    for signer in Algorithm::ALL.map(key) {
        for named in Algorithm::ALL.map(key).into_iter().filter(|k| k.algorithm() != signer.algorithm()) {
            let mut header = header(signer);
            header.kid = Some(named.kid().to_owned());
            assert_eq!(verify(&other(signer, &header, &json!({}))), Err(JwsError::AlgorithmMismatch));
        }
    }
}

#[test]
fn embedded_key_is_not_trusted() {
    let thief = SigningKey::generate(Algorithm::Es256).unwrap();
    let mut header = header(&thief);
    header.jwk = Some(serde_json::from_value(thief.public().to_jwk()).unwrap());
    header.jku = Some("https://thief.example/keys".to_owned());
    assert_eq!(verify(&other(&thief, &header, &json!({}))), Err(JwsError::UnknownKey));
    header.kid = Some(key(Algorithm::Es256).kid().to_owned());
    assert_eq!(verify(&other(&thief, &header, &json!({}))), Err(JwsError::BadSignature));
    header.kid = None;
    assert_eq!(verify(&other(&thief, &header, &json!({}))), Err(JwsError::BadSignature));
}

#[test]
fn critical_extensions_are_refused() {
    let key = key(Algorithm::Es256);
    let mut header = header(key);
    header.crit = Some(vec!["exp".to_owned()]);
    assert_eq!(verify(&other(key, &header, &json!({}))), Err(JwsError::Critical));
    for crit in [json!(null), json!([]), json!("b64")] {
        let jws = format!("{}.e30.AAAA", base64url(&json!({"alg": "ES256", "crit": crit}).to_string()));
        assert_eq!(verify(&jws), Err(JwsError::Critical));
    }
}

#[test]
fn any_changed_character_is_detected() {
    for algorithm in Algorithm::ALL {
        let set = set_of(&[key(algorithm)]);
        let jws = key(algorithm).sign("JWT", b"{\"a\":1}").unwrap();
        assert!(set.verify(&jws, MAX_BYTES).is_ok());
        for place in 0..jws.len() {
            for other in ["A", "B", "_", ".", "=", " ", "\u{e9}"] {
                if jws[place..].starts_with(other) {
                    continue;
                }
                let changed = format!("{}{other}{}", &jws[..place], &jws[place + 1..]);
                assert!(set.verify(&changed, MAX_BYTES).is_err(), "{changed}");
            }
        }
        for length in 0..jws.len() {
            assert!(set.verify(&jws[..length], MAX_BYTES).is_err());
        }
    }
}

#[test]
fn malformed_jws_error_names_the_part() {
    let good = base64url(r#"{"alg":"ES256"}"#);
    for (jws, part) in [
        (String::new(), "form"),
        ("a.b".to_owned(), "form"),
        ("a.b.c.d".to_owned(), "form"),
        ("!.e30.AAAA".to_owned(), "header"),
        (format!("{}.e30.AAAA", base64url("[]")), "header"),
        (format!("{}.e30.AAAA", base64url("{}")), "header"),
        (format!("{}.e30.AAAA", base64url(r#"{"alg":1}"#)), "header"),
        (format!("{}.e30.AAAA", base64url(r#"{"alg":"none","alg":"ES256"}"#)), "header"),
        (format!("{}.e30.AAAA", base64url(&json!({"alg": "ES256", "kid": "k".repeat(257)}).to_string())), "header"),
        (format!("{good}.e30.A"), "signature"),
        (format!("{good}.e30.AA=="), "signature"),
        (format!("{good}.e30.A+/A"), "signature"),
    ] {
        assert_eq!(verify(&jws), Err(JwsError::Malformed(part)), "{jws}");
    }
    assert_eq!(verify(&format!("{good}.e30.")), Err(JwsError::BadSignature));
}

#[test]
fn size_is_bounded() {
    let key = key(Algorithm::EdDsa);
    let jws = key.sign("JWT", &vec![b' '; 8000]).unwrap();
    assert_eq!(verify(&jws), Err(JwsError::TooLong));
    assert!(set_of(&[key]).verify(&jws, jws.len()).is_ok());
    assert_eq!(set_of(&[key]).verify(&jws, jws.len() - 1), Err(JwsError::TooLong));
    let mut header = header(key);
    header.cty = Some("x".repeat(8000));
    assert_eq!(set_of(&[key]).verify(&other(key, &header, &json!({})), 1 << 20), Err(JwsError::TooLong));
}

#[test]
fn errors_have_unique_codes_and_exact_texts() {
    let errors = [
        (JwsError::TooLong, "it is too long"),
        (JwsError::Malformed("header"), "it is not a compact JWS: its header cannot be parsed"),
        (JwsError::AlgorithmNone, "it is not signed"),
        (
            JwsError::AlgorithmNotAllowed("HS256".to_owned()),
            "it is signed with \"HS256\"; ES256, EdDSA and RS256 are accepted",
        ),
        (JwsError::Critical, "its header requires an extension that is not supported"),
        (JwsError::UnknownKey, "it is signed with an unknown key"),
        (JwsError::AlgorithmMismatch, "its header has another algorithm than the key"),
        (JwsError::BadSignature, "its signature is wrong"),
    ];
    let codes: std::collections::BTreeSet<&str> = errors.iter().map(|(error, _)| error.code()).collect();
    assert_eq!(codes.len(), errors.len());
    for (error, text) in errors {
        assert_eq!(error.to_string(), text);
    }
}
