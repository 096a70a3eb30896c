//! Signed tokens: the identity they give, and every reason to reject them.

use aaep_keys::token::{MAX_LEEWAY_SECONDS, TOKEN_BYTES};
use aaep_keys::{Algorithm, Identity, JwsError, NamedUsers, NewToken, Role, SigningKey, TokenError, TokenVerifier};
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};

use crate::{NOW, at, base64url, header, key, other, set_of};

fn verifier() -> TokenVerifier {
    TokenVerifier::new(set_of(&Algorithm::ALL.map(key)), "https://id.example", "aaep")
}

fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": "aaep", "sub": "reader-7", "exp": NOW + 600, "iat": NOW, "nbf": NOW,
        "roles": ["subscribe", "reply"]})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name).unwrap();
    claims
}

fn sign(claims: &Value) -> String {
    let key = key(Algorithm::Es256);
    other(key, &header(key), claims)
}

fn check(claims: &Value) -> Result<Identity, TokenError> {
    verifier().verify(&sign(claims), at(NOW))
}

/// Verifies a token with these claims and returns the error code, or "accepted".
fn code(claims: &Value) -> &'static str {
    check(claims).map_or_else(|error| error.code(), |_| "accepted")
}

#[test]
fn valid_token_gives_the_identity() {
    let expires = claims()["exp"].as_i64().map(at);
    let expected = Identity { expires, ..Identity::new("reader-7", [Role::Subscribe, Role::Reply]) };
    for algorithm in Algorithm::ALL {
        let token = other(key(algorithm), &header(key(algorithm)), &claims());
        assert_eq!(verifier().verify(&token, at(NOW)), Ok(expected.clone()));
    }
}

#[test]
fn created_tokens_are_accepted_until_they_expire() {
    let token = NewToken {
        subject: "agent".into(),
        issuer: "https://id.example".into(),
        audience: "aaep".into(),
        roles: [Role::Produce].into(),
        users: NamedUsers::Nobody,
        issued_at: at(NOW),
        lifetime_seconds: 60,
    };
    for algorithm in Algorithm::ALL {
        let text = token.sign(key(algorithm)).unwrap();
        let verifier = verifier().with_leeway(0);
        assert!(verifier.verify(&text, at(NOW)).unwrap().may(Role::Produce));
        assert!(verifier.verify(&text, at(NOW + 59)).is_ok());
        assert_eq!(verifier.verify(&text, at(NOW + 60)), Err(TokenError::Expired));
        assert_eq!(verifier.verify(&text, at(NOW - 1)), Err(TokenError::NotYetValid));
    }
}

#[test]
fn time_is_checked_with_leeway() {
    let verifier = verifier().with_leeway(10);
    for (claims, now, expected) in [
        (with("exp", json!(NOW)), NOW + 9, "accepted"),
        (with("exp", json!(NOW)), NOW + 10, "expired"),
        (with("exp", json!(NOW as f64 + 0.5)), NOW + 10, "accepted"),
        (with("exp", json!(-1)), NOW, "expired"),
        (with("exp", json!(0)), NOW, "expired"),
        (with("exp", json!(1e300)), NOW, "accepted"),
        (with("nbf", json!(NOW + 10)), NOW, "accepted"),
        (with("nbf", json!(NOW + 11)), NOW, "not-yet-valid"),
        (with("iat", json!(NOW + 11)), NOW, "not-yet-valid"),
        (without("nbf"), NOW, "accepted"),
        (without("iat"), NOW, "accepted"),
        (without("exp"), NOW, "no-expiry"),
        (with("exp", json!(null)), NOW, "no-expiry"),
    ] {
        let seen = verifier.verify(&sign(&claims), at(now)).map_or_else(|error| error.code(), |_| "accepted");
        assert_eq!(seen, expected, "{claims}");
    }
}

#[test]
fn leeway_is_bounded() {
    let token = sign(&with("exp", json!(NOW)));
    let verifier = verifier().with_leeway(u32::MAX);
    let most = i64::from(MAX_LEEWAY_SECONDS);
    assert!(verifier.verify(&token, at(NOW + most - 1)).is_ok());
    assert_eq!(verifier.verify(&token, at(NOW + most)), Err(TokenError::Expired));
}

#[test]
fn issuer_and_audience_must_match() {
    for (claims, expected) in [
        (with("aud", json!("someone")), "wrong-audience"),
        (with("aud", json!([])), "wrong-audience"),
        (with("aud", json!("aaep2")), "wrong-audience"),
        (with("aud", json!(["someone", "aaep"])), "accepted"),
        (without("aud"), "wrong-audience"),
        (with("iss", json!("https://id.example/")), "wrong-issuer"),
        (without("iss"), "wrong-issuer"),
    ] {
        assert_eq!(code(&claims), expected, "{claims}");
    }
}

#[test]
fn subject_must_be_a_valid_principal() {
    for sub in [json!(""), json!("  "), json!(null), json!("a\nb"), json!("x".repeat(257))] {
        assert_eq!(code(&with("sub", sub.clone())), "no-subject", "{sub}");
    }
    assert_eq!(code(&without("sub")), "no-subject");
    assert_eq!(check(&with("sub", json!("x".repeat(256)))).unwrap().principal.len(), 256);
}

#[test]
fn roles_are_parsed_from_roles_and_scope() {
    let roles = |claims: &Value| check(claims).unwrap().roles.into_iter().collect::<Vec<_>>();
    assert_eq!(roles(&with("roles", json!("audit"))), [Role::Audit]);
    assert_eq!(roles(&with("roles", json!(["admin", "cook", "Subscribe", "produce"]))), [Role::Admin, Role::Produce]);
    assert_eq!(roles(&without("roles")), []);
    let mut claims = without("roles");
    claims["scope"] = json!("openid subscribe  email reply");
    assert_eq!(roles(&claims), [Role::Subscribe, Role::Reply]);
    claims["roles"] = json!(["audit"]);
    assert_eq!(roles(&claims), [Role::Subscribe, Role::Reply, Role::Audit]);
}

#[test]
fn claims_of_the_wrong_type_are_malformed() {
    for (name, value) in [
        ("exp", json!("tomorrow")),
        ("nbf", json!([])),
        ("iat", json!({})),
        ("sub", json!(7)),
        ("iss", json!(["https://id.example"])),
        ("aud", json!({"aaep": true})),
        ("roles", json!([1])),
        ("scope", json!(["subscribe"])),
    ] {
        assert_eq!(code(&with(name, value)), "malformed-claims", "{name}");
    }
    for payload in ["", "[]", "null", "{", r#"{"exp":1,"exp":99999999999}"#, "\u{0}"] {
        let token = key(Algorithm::Es256).sign("JWT", payload.as_bytes()).unwrap();
        assert_eq!(verifier().verify(&token, at(NOW)), Err(TokenError::Malformed), "{payload}");
    }
}

#[test]
fn forged_tokens_are_refused_with_exact_errors() {
    let unsigned = format!("{}.{}.", base64url(r#"{"alg":"none","typ":"JWT"}"#), base64url(&claims().to_string()));
    let rsa = key(Algorithm::Rs256);
    let mut confused = Header::new(jsonwebtoken::Algorithm::HS256);
    confused.kid = Some(rsa.kid().to_owned());
    let secret = EncodingKey::from_secret(rsa.public_pem().unwrap().as_bytes());
    let confused = jsonwebtoken::encode(&confused, &claims(), &secret).unwrap();
    let thief = SigningKey::generate(Algorithm::Es256).unwrap();
    let unknown = other(&thief, &header(&thief), &claims());
    let wrong_key = other(&thief, &header(key(Algorithm::Es256)), &claims());
    let good = sign(&claims());
    // Cut to a whole number of bytes: otherwise the unused last bits decide whether it can be decoded.
    let truncated = &good[..good.len() - 2];
    let (_, rest) = good.split_once('.').unwrap();
    let cut = &rest[..10];
    let huge = sign(&with("note", json!("x".repeat(TOKEN_BYTES))));
    let not_compact = "token rejected: it is not a compact JWS: its form cannot be parsed";
    for (token, code, text) in [
        (unsigned.as_str(), "alg-none", "token rejected: it is not signed"),
        (
            &confused,
            "alg-not-allowed",
            "token rejected: it is signed with \"HS256\"; ES256, EdDSA and RS256 are accepted",
        ),
        (&unknown, "unknown-kid", "token rejected: it is signed with an unknown key"),
        (&wrong_key, "bad-signature", "token rejected: its signature is wrong"),
        (truncated, "bad-signature", "token rejected: its signature is wrong"),
        (cut, "malformed", not_compact),
        (&huge, "too-long", "token rejected: it is too long"),
        ("", "malformed", not_compact),
        ("Bearer x", "malformed", not_compact),
    ] {
        let error = verifier().verify(token, at(NOW)).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, text), "{token}");
    }
    assert!(verifier().verify(&good, at(NOW)).is_ok());
}

#[test]
fn token_with_another_document_type_is_refused() {
    let key = key(Algorithm::EdDsa);
    for (typ, accepted) in
        [("JWT", true), ("jwt", true), ("application/at+jwt", true), ("aaep-manifest+jws", false), ("JOSE", false)]
    {
        let token = key.sign(typ, claims().to_string().as_bytes()).unwrap();
        let result = verifier().verify(&token, at(NOW));
        assert_eq!(result.is_ok(), accepted, "{typ}");
        assert!(accepted || result == Err(TokenError::WrongType));
    }
    let mut header = header(key);
    header.typ = None;
    assert!(verifier().verify(&other(key, &header, &claims()), at(NOW)).is_ok());
}

#[test]
fn claim_errors_have_exact_texts() {
    for (error, text) in [
        (TokenError::WrongType, "token rejected: the header has the type of another document"),
        (TokenError::Malformed, "token rejected: the claims cannot be parsed"),
        (TokenError::NoExpiry, "token rejected: it has no expiry (exp)"),
        (TokenError::Expired, "token expired; get a new one"),
        (TokenError::NotYetValid, "token not yet valid; check the clocks"),
        (TokenError::WrongIssuer, "token rejected: it has another issuer (iss)"),
        (TokenError::WrongAudience, "token rejected: it is for another audience (aud)"),
        (TokenError::NoSubject, "token rejected: the subject (sub) is missing, not valid or reserved (local, cert:)"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

/// Without a valid signature, the error must not reveal which claims would be accepted.
#[test]
fn signature_is_checked_before_the_claims() {
    let thief = SigningKey::generate(Algorithm::Es256).unwrap();
    let token = other(&thief, &header(key(Algorithm::Es256)), &json!({"exp": 0}));
    assert_eq!(verifier().verify(&token, at(NOW)), Err(TokenError::Signature(JwsError::BadSignature)));
}

#[test]
fn users_of_created_tokens_are_read_back() {
    for users in ["", "*", "ada,ben", "ada:subscribe,ben:reply+subscribe"] {
        let users: NamedUsers = if users.is_empty() { NamedUsers::Nobody } else { users.parse().unwrap() };
        let token = NewToken {
            subject: "carol".into(),
            issuer: "https://id.example".into(),
            audience: "aaep".into(),
            roles: [Role::Subscribe, Role::Reply].into(),
            users: users.clone(),
            issued_at: at(NOW),
            lifetime_seconds: 60,
        };
        let identity = verifier().verify(&token.sign(key(Algorithm::Es256)).unwrap(), at(NOW)).unwrap();
        assert_eq!(identity.users, users);
    }
}

#[test]
fn token_with_users_that_cannot_be_read_is_rejected() {
    for users in [json!(7), json!([]), json!(["*"]), json!([""]), json!({"ada": ["owner"]}), json!({"ada": "reply"})] {
        let mut claims = claims();
        claims["users"] = users.clone();
        assert_eq!(code(&claims), "malformed-claims", "{users}");
    }
}
