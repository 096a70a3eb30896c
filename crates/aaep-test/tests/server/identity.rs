//! Authentication and authorization: tokens, roles, and forged replies.

use aaep::transport::ReplyRejection;
use aaep_keys::{Algorithm, KeySet, NamedUsers, NewToken, Role, SigningKey};
use aaep_proto::time::Timestamp;
use aaep_server::{Config, RunningServer};
use hyper::{Method, StatusCode};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::*;
use crate::ws;

const ISSUER: &str = "https://id.example";

struct TestServer {
    server: RunningServer,
    key: SigningKey,
    _files: TempDir,
}

pub(crate) fn write(files: &TempDir, name: &str, text: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = files.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

async fn start_server(algorithm: Algorithm) -> TestServer {
    let files = TempDir::new().unwrap();
    let key = SigningKey::generate(algorithm).unwrap();
    let mut config: Config = config();
    let keys = KeySet::from_iter([key.public().clone()]);
    config.auth.jwks = Some(write(&files, "keys.json", &keys.to_jwks()));
    config.auth.tokens = Some(write(
        &files,
        "tokens",
        "ada-secret-ada-secret-ada-secret ada subscribe,reply\neve-secret-eve-secret-eve-secret eve subscribe,reply\nbob-secret-bob-secret-bob-secret bob subscribe\nmon-secret-mon-secret-mon-secret mon audit,admin\n",
    ));
    config.auth.issuer = ISSUER.to_owned();
    config.auth.audience = "aaep".to_owned();
    TestServer { server: start(config).await, key, _files: files }
}

const ADA: Option<&str> = Some("ada-secret-ada-secret-ada-secret");
const EVE: Option<&str> = Some("eve-secret-eve-secret-eve-secret");
const BOB: Option<&str> = Some("bob-secret-bob-secret-bob-secret");
const MON: Option<&str> = Some("mon-secret-mon-secret-mon-secret");

fn in_hours(hours: i64) -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap() + hours * 3_600_000)
}

fn token(issued_at: Timestamp) -> NewToken {
    NewToken {
        subject: "jane".into(),
        issuer: ISSUER.into(),
        audience: "aaep".into(),
        roles: [Role::Subscribe, Role::Reply].into(),
        users: NamedUsers::Nobody,
        issued_at,
        lifetime_seconds: 3600,
    }
}

#[tokio::test]
async fn signed_tokens_of_every_algorithm_are_accepted() {
    for algorithm in [Algorithm::Es256, Algorithm::EdDsa, Algorithm::Rs256] {
        let test = start_server(algorithm).await;
        let token = token(in_hours(0)).sign(&test.key).unwrap();
        subscribe(test.server.address(), &request(), Some(&token)).await;
    }
}

#[tokio::test]
async fn invalid_tokens_get_identical_responses() {
    let test = start_server(Algorithm::Es256).await;
    let address = test.server.address();
    let good = token(in_hours(0)).sign(&test.key).unwrap();
    let stranger = SigningKey::generate(Algorithm::Es256).unwrap();
    // {"alg":"none"} with the claims of the valid token and no signature.
    let none = format!("eyJhbGciOiJub25lIn0.{}.", good.split('.').nth(1).unwrap());
    let cases = [
        ("none at all", String::new()),
        ("alg none", none),
        ("wrong key", token(in_hours(0)).sign(&stranger).unwrap()),
        ("expired", token(in_hours(-2)).sign(&test.key).unwrap()),
        ("not yet valid", token(in_hours(1)).sign(&test.key).unwrap()),
        ("wrong audience", NewToken { audience: "other".into(), ..token(in_hours(0)) }.sign(&test.key).unwrap()),
        ("wrong issuer", NewToken { issuer: "other".into(), ..token(in_hours(0)) }.sign(&test.key).unwrap()),
        ("cut short", good[..good.len() - 9].to_owned()),
        ("unknown", "guess-guess-guess-guess".to_owned()),
    ];
    let mut answers = Vec::new();
    for (what, token) in &cases {
        let answer = post_as(address, "/aaep/v1/subscriptions", &request(), Some(token)).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{what}");
        assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"aaep\"");
        assert_eq!(answer.json()["reason_code"], "authentication_required");
        answers.push(answer.body);
    }
    let without = post(address, "/aaep/v1/subscriptions", &request()).await;
    answers.push(without.body);
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "the sender does not learn why");
    let numbers =
        call(address, build(Method::GET, "/metrics", &[("authorization", &format!("Bearer {}", MON.unwrap()))], ""))
            .await;
    let text = String::from_utf8(numbers.body.to_vec()).unwrap();
    assert!(text.contains(&format!("aaep_unauthenticated_total {}", cases.len() + 1)), "{text}");
}

#[tokio::test]
async fn websocket_closes_with_4002_or_4003_without_authorization() {
    let test = start_server(Algorithm::Es256).await;
    let address = test.server.address();
    let (mut nobody, _) = ws::connect(address, &[]).await;
    assert_eq!(ws::receive(&mut nobody).await.unwrap()["reason_code"], "authentication_required");
    assert_eq!(ws::receive(&mut nobody).await, Err(4002));
    let bearer = format!("Bearer {}", MON.unwrap());
    let (mut auditor, _) = ws::connect(address, &[("authorization", &bearer)]).await;
    ws::send(&mut auditor, &request()).await;
    assert_eq!(ws::receive(&mut auditor).await.unwrap()["reason_code"], "authorization_denied");
    assert_eq!(ws::receive(&mut auditor).await, Err(4003));
}

#[tokio::test]
async fn roles_limit_what_a_principal_may_do() {
    let test = start_server(Algorithm::Es256).await;
    let address = test.server.address();
    let answer = post_as(address, "/aaep/v1/subscriptions", &request(), MON).await;
    assert_eq!((answer.status.as_u16(), answer.json()["reason_code"].as_str()), (403, Some("authorization_denied")));
    let answer = post_as(address, "/aaep/v1/subscriptions", &request(), BOB).await;
    let honored = &answer.json()["honored_capabilities"];
    assert_eq!(honored["supports_confirmation_reply"], false, "who may not reply is not waited for");
    let id = answer.json()["subscription_id"].as_str().unwrap().to_owned();
    let change = json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"supports_confirmation_reply": true}});
    let changed = post_as(address, "/aaep/v1/replies", &change, BOB).await;
    assert_eq!(changed.json()["honored_capabilities"]["supports_confirmation_reply"], false);
    let forbidden = post_as(address, "/aaep/v1/replies", &reply(&id, "rpl_1", "accept"), BOB).await;
    assert_eq!(forbidden.status, StatusCode::FORBIDDEN);
    let metrics =
        call(address, build(Method::GET, "/metrics", &[("authorization", &format!("Bearer {}", ADA.unwrap()))], ""))
            .await;
    assert_eq!(metrics.status, StatusCode::FORBIDDEN);
    assert_eq!(get(address, "/healthz").await.status, StatusCode::OK, "health is for everyone");
}

#[tokio::test]
async fn subscription_of_another_principal_is_not_accessible() {
    let test = start_server(Algorithm::Es256).await;
    let address = test.server.address();
    let id = subscribe(address, &request(), ADA).await;
    let path = format!("/aaep/v1/events?subscription_id={id}");
    let as_eve = format!("Bearer {}", EVE.unwrap());
    let stolen = call(address, build(Method::GET, &path, &[("authorization", &as_eve)], "")).await;
    assert_eq!(stolen.status, StatusCode::NOT_FOUND);
    let close = json!({"type": "subscription.close", "subscription_id": id});
    assert_eq!(post_as(address, "/aaep/v1/replies", &close, EVE).await.status, StatusCode::NO_CONTENT);
    // The token in the query string, as the EventSource of a web page needs it.
    let own = open(address, build(Method::GET, &format!("{path}&access_token={}", ADA.unwrap()), &[], "")).await;
    assert_eq!(own.status(), StatusCode::OK, "it is still there");
}

#[tokio::test]
async fn invalid_replies_get_identical_responses_and_are_counted() {
    let test = start_server(Algorithm::Es256).await;
    let address = test.server.address();
    let ada = subscribe(address, &request(), ADA).await;
    let eve = subscribe(address, &request(), EVE).await;
    let bearer = format!("Bearer {}", ADA.unwrap());
    let mut stream = Stream::open(address, &ada, &[("authorization", &bearer)]).await;
    let producer = test.server.producer().clone();
    let agent = tokio::spawn(async move {
        let session = session(&producer).await;
        let first = ask(&session).await;
        let second = ask(&session).await;
        session.complete("Done.").await.unwrap();
        (first, second)
    });
    let question = stream.find("awaiting.confirmation").await;
    let token = question["reply_token"].as_str().unwrap().to_owned();
    let mut old = reply(&ada, &token, "accept");
    old["timestamp"] = json!("2020-01-01T00:00:00Z");
    let mut late = reply(&ada, &token, "accept");
    late["timestamp"] = json!("2099-01-01T00:00:00Z");
    let clarified = json!({"type": "clarification.reply", "reply_token": token, "response": "yes", "subscription_id": ada, "timestamp": now()});
    let bad = [
        (ADA, reply(&ada, "rpl_00000000000000000000000000000000", "accept"), ReplyRejection::UnknownToken),
        (EVE, reply(&ada, &token, "accept"), ReplyRejection::WrongSubscription),
        (ADA, reply(&eve, &token, "accept"), ReplyRejection::WrongSubscription),
        (ADA, old, ReplyRejection::Backdated),
        (ADA, late, ReplyRejection::Late),
        (ADA, clarified, ReplyRejection::WrongKind),
    ];
    for (who, message, fault) in &bad {
        let answer = post_as(address, "/aaep/v1/replies", message, *who).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::NO_CONTENT, 0), "{fault:?}");
        assert!(test.server.producer().reply_stats().ignored.contains_key(fault), "{fault:?} is noted");
    }
    // The valid reply is accepted, once.
    let good = reply(&ada, &token, "accept");
    assert_eq!(post_as(address, "/aaep/v1/replies", &good, ADA).await.status, StatusCode::NO_CONTENT);
    let second = stream.find("awaiting.confirmation").await;
    assert_ne!(second["reply_token"], json!(token));
    assert_eq!(post_as(address, "/aaep/v1/replies", &good, ADA).await.status, StatusCode::NO_CONTENT);
    assert!(test.server.producer().reply_stats().ignored.contains_key(&ReplyRejection::Settled), "a replay is noted");
    let second = second["reply_token"].as_str().unwrap();
    post_as(address, "/aaep/v1/replies", &reply(&ada, second, "reject"), ADA).await;
    assert_eq!(agent.await.unwrap(), (true, false));
}

#[tokio::test]
async fn signed_manifest_is_sent_on_request_and_its_key_rotates() {
    let files = TempDir::new().unwrap();
    let path = files.path().join("key.pem");
    let old = SigningKey::generate(Algorithm::Es256).unwrap();
    old.write_new(&path).unwrap();
    let mut config = config();
    config.manifest.key = Some(path.clone());
    let server = start(config).await;
    let address = server.address();
    let demands = request_with(json!({"accept_signed_manifests_only": true}));
    let signed = async || {
        let accepted = post(address, "/aaep/v1/subscriptions", &demands).await.json();
        let keys = get(address, "/.well-known/aaep-keys.json").await;
        let keys = KeySet::from_jwks(std::str::from_utf8(&keys.body).unwrap()).unwrap();
        let jws = accepted["signed_manifest"].as_str().unwrap().to_owned();
        let verified = aaep_keys::verify_manifest(&jws, &keys).unwrap();
        let accepted = serde_json::from_value(accepted).unwrap();
        let aaep_proto::message::Message::SubscriptionAccepted(accepted) = accepted else { panic!() };
        verified.check(&accepted, "sse").unwrap();
        let jose =
            call(address, build(Method::GET, "/.well-known/aaep-manifest.json", &[("accept", "application/jose")], ""))
                .await;
        assert_eq!(jose.header("content-type"), "application/jose");
        verified.key
    };
    assert_eq!(signed().await, old.kid());
    let new = SigningKey::generate(Algorithm::EdDsa).unwrap();
    std::fs::remove_file(&path).unwrap();
    new.write_new(&path).unwrap();
    until("the new key is in use", async || signed().await == new.kid()).await;
    let plain = post(address, "/aaep/v1/subscriptions", &request()).await;
    assert!(plain.json().get("signed_manifest").is_none(), "only if it was requested");
}
