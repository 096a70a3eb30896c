//! Isolation between the users of one server. Every generic function is a test for each transport with credentials.

use serde_json::{Value, json};

use crate::clients::{Client, LineSocket, Sse};
use crate::harness::*;

const ADA: &str = "ada-token-0123456789";
const BEN: &str = "ben-token-0123456789";
const CAROL: &str = "carol-token-0123456789";
const DAVE: &str = "dave-token-0123456789";
const SERVICE: &str = "service-token-0123456789";
const BANK_OF_ADA: &str = "bank-token-0123456789";

fn tokens() -> String {
    [
        format!("{ADA} ada subscribe,reply,produce"),
        format!("{BEN} ben subscribe,reply,produce"),
        format!("{CAROL} carol subscribe,reply users=ada:subscribe"),
        format!("{DAVE} dave subscribe,reply users=ada"),
        format!("{SERVICE} service produce users=*"),
        format!("{BANK_OF_ADA} bank produce users=ada"),
    ]
    .join("\n")
}

/// Sends an event of an agent. Returns the status and the response.
async fn emit(test: &TestServer, token: &str, query: &str, event: &Value) -> (u16, Value) {
    let agent = Sse::connect_as(test, Some(token)).await;
    let path = format!("/aaep/v1/agent/events{query}");
    let headers = [("content-type", "application/json")];
    let response = agent.request(hyper::Method::POST, &path, &headers, &event.to_string()).await;
    let status = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Starts a session of the service for a user.
async fn start(test: &TestServer, user: &str, session: &str) -> Value {
    let started = json!({"type": "session.started", "session_id": session, "requested_by": format!("user:{user}"),
        "summary_normal": format!("Working for {user}.")});
    let (status, response) = emit(test, SERVICE, "?agent=worker", &started).await;
    assert_eq!(status, 200, "{response}");
    response
}

/// Asks a question in a session of the service and returns the pending response.
async fn ask(test: &TestServer, session: &str, event_id: &str) -> Value {
    let question = json!({"type": "awaiting.confirmation", "session_id": session, "event_id": event_id,
        "action": "Move 500 dollars.", "consequence": "It is gone.", "timeout_seconds": 600,
        "default_decision": "reject"});
    emit(test, SERVICE, "?agent=worker&wait=0", &question).await.1
}

fn request_for(user: &str) -> Value {
    let mut request = replying_request();
    request["capabilities"]["users"] = json!({"user": user});
    request
}

/// Receives until the end of a session and returns everything.
async fn until_completed(client: &mut (impl Client + Sync)) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let message = client.receive().await.expect("the connection is open");
        all.push(message.clone());
        if kind_of(&message) == "session.completed" {
            return all;
        }
    }
}

async fn complete(test: &TestServer, session: &str) {
    let done =
        json!({"type": "session.completed", "session_id": session, "summary_normal": format!("Done: {session}.")});
    let (status, response) = emit(test, SERVICE, "?agent=worker", &done).await;
    assert_eq!(status, 200, "{response}");
}

pub(crate) async fn users_receive_only_their_own_sessions<C: Client + Sync>() {
    let test = TestServer::for_users(&tokens()).await;
    let (mut ada, _) = C::subscribed_as(&test, Some(ADA), &replying_request()).await;
    let (mut ben, _) = C::subscribed_as(&test, Some(BEN), &replying_request()).await;
    for (user, session) in [("ada", "a"), ("ben", "b")] {
        start(&test, user, session).await;
    }
    for session in ["a", "b"] {
        let text = json!({"type": "output.streaming", "session_id": session, "chunk": format!("Secret of {session}. "),
            "complete": true});
        emit(&test, SERVICE, "?agent=worker", &text).await;
        complete(&test, session).await;
    }
    for (client, own, other) in [(&mut ada, ("ada", "a"), ("ben", "b")), (&mut ben, ("ben", "b"), ("ada", "a"))] {
        let text = serde_json::to_string(&until_completed(client).await).unwrap();
        assert!(text.contains(&format!("Working for {}.", own.0)) && text.contains(&format!("Secret of {}.", own.1)));
        for foreign in [format!("for {}", other.0), format!("Secret of {}", other.1), format!("Done: {}", other.1)] {
            assert!(!text.contains(&foreign), "{text}");
        }
    }
}

pub(crate) async fn reply_of_another_user_does_nothing<C: Client + Sync>() {
    let test = TestServer::for_users(&tokens()).await;
    let (mut ada, ada_subscription) = C::subscribed_as(&test, Some(ADA), &replying_request()).await;
    let (mut ben, ben_subscription) = C::subscribed_as(&test, Some(BEN), &replying_request()).await;
    start(&test, "ada", "a").await;
    assert_eq!(ask(&test, "a", "q1").await["type"], "pending");
    let question = ada.find("awaiting.confirmation").await;
    for subscription in [&ada_subscription, &ben_subscription] {
        ben.send(&reply(subscription, &question, "accept")).await;
    }
    // An event of Ben's own shows that his replies were handled.
    start(&test, "ben", "b").await;
    ben.find("session.started").await;
    assert_eq!(ask(&test, "a", "q1").await["type"], "pending", "Ben has decided nothing");
    ada.send(&reply(&ada_subscription, &question, "accept")).await;
    until("the decision", async || ask(&test, "a", "q1").await["verdict"] == "accepted").await;
    // A replay of the accepted reply by Ben is no reply to anything.
    ben.send(&reply(&ben_subscription, &question, "reject")).await;
    assert_eq!(ask(&test, "a", "q1").await["verdict"], "accepted");
}

pub(crate) async fn question_defaults_although_another_user_could_answer<C: Client + Sync>() {
    let test = TestServer::for_users(&tokens()).await;
    let captions = request(json!({"supports_confirmation_reply": false}));
    let (mut ada, _) = C::subscribed_as(&test, Some(ADA), &captions).await;
    let (mut ben, _) = C::subscribed_as(&test, Some(BEN), &replying_request()).await;
    start(&test, "ada", "a").await;
    let response = ask(&test, "a", "q1").await;
    assert_eq!(
        (&response["verdict"], &response["decision"]),
        (&json!("nobody_could_answer"), &json!("reject")),
        "{response}"
    );
    let resolved = loop {
        let change = ada.find("state.changed").await;
        if change["extensions"]["consent"]["outcome"].is_string() {
            break change;
        }
    };
    assert_eq!(resolved["extensions"]["consent"]["outcome"], "nobody_could_answer");
    start(&test, "ben", "b").await;
    let first = ben.receive().await.unwrap();
    assert_eq!((kind_of(&first), &first["summary_normal"]), ("session.started", &json!("Working for ben.")), "{first}");
}

pub(crate) async fn delegate_receives_for_the_user_that_it_names<C: Client + Sync>() {
    let test = TestServer::for_users(&tokens()).await;
    let mut dave = C::connect_as(&test, Some(DAVE)).await;
    dave.send(&request_for("ada")).await;
    let accepted = dave.receive().await.unwrap();
    assert_eq!(accepted["honored_capabilities"]["users"], json!({"user": "ada"}), "{accepted}");
    let subscription = accepted["subscription_id"].as_str().unwrap().to_owned();
    let (mut himself, _) = C::subscribed_as(&test, Some(DAVE), &replying_request()).await;
    start(&test, "ada", "a").await;
    assert_eq!(ask(&test, "a", "q1").await["type"], "pending");
    let question = dave.find("awaiting.confirmation").await;
    dave.send(&reply(&subscription, &question, "accept")).await;
    until("the decision", async || ask(&test, "a", "q1").await["verdict"] == "accepted").await;
    start(&test, "dave", "d").await;
    let first = himself.receive().await.unwrap();
    assert_eq!(first["summary_normal"], "Working for dave.", "{first}");
}

pub(crate) async fn delegate_without_the_role_cannot_reply<C: Client + Sync>() {
    let test = TestServer::for_users(&tokens()).await;
    let mut carol = C::connect_as(&test, Some(CAROL)).await;
    carol.send(&request_for("ada")).await;
    let accepted = carol.receive().await.unwrap();
    assert_eq!(accepted["honored_capabilities"]["supports_confirmation_reply"], false, "{accepted}");
    let subscription = accepted["subscription_id"].as_str().unwrap().to_owned();
    let (mut ada, ada_subscription) = C::subscribed_as(&test, Some(ADA), &replying_request()).await;
    start(&test, "ada", "a").await;
    assert_eq!(ask(&test, "a", "q1").await["type"], "pending");
    let question = carol.find("awaiting.confirmation").await;
    for subscription in [&subscription, &ada_subscription] {
        carol.send(&reply(subscription, &question, "accept")).await;
    }
    // A renegotiation cannot bring the role either.
    carol
        .send(&json!({"type": "subscription.renegotiate", "subscription_id": subscription,
        "capabilities": {"supports_confirmation_reply": true}}))
        .await;
    let renegotiated = loop {
        let message = carol.receive().await.unwrap();
        if message.get("refused").is_none() && kind_of(&message) == "subscription.accepted" {
            break message;
        }
    };
    assert_eq!(renegotiated["honored_capabilities"]["supports_confirmation_reply"], false, "{renegotiated}");
    assert_eq!(ask(&test, "a", "q1").await["type"], "pending");
    ada.send(&reply(&ada_subscription, &question, "reject")).await;
    until("the decision", async || ask(&test, "a", "q1").await["verdict"] == "rejected").await;
}

pub(crate) async fn stranger_is_refused_like_a_user_that_does_not_exist<C: Client + Sync>() {
    let test = TestServer::for_users(&tokens()).await;
    let (_ada, _) = C::subscribed_as(&test, Some(ADA), &replying_request()).await;
    let mut refusals = Vec::new();
    for user in ["ada", "nobody-knows-them", "*", "", "ada\n"] {
        let mut ben = C::connect_as(&test, Some(BEN)).await;
        ben.send(&request_for(user)).await;
        let rejected = ben.receive().await.unwrap();
        assert_eq!(kind_of(&rejected), "subscription.rejected", "{user:?}: {rejected}");
        refusals.push(rejected);
    }
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:#?}");
    assert_eq!(refusals[0]["reason_code"], "authorization_denied");
}

pub(crate) async fn renegotiation_cannot_change_the_user<C: Client + Sync>() {
    let test = TestServer::for_users(&tokens()).await;
    let (mut dave, subscription) = C::subscribed_as(&test, Some(DAVE), &replying_request()).await;
    dave.send(&json!({"type": "subscription.renegotiate", "subscription_id": subscription,
        "capabilities": {"users": {"user": "ada"}}}))
        .await;
    let rejected = dave.find("subscription.rejected").await;
    assert!(rejected["reason_message"].as_str().unwrap().contains("stays with its user"), "{rejected}");
}

pub(crate) async fn local_socket_has_a_user_of_its_own<C: Client + Sync>() {
    let test = TestServer::for_users(&tokens()).await;
    let (mut local, _) = LineSocket::subscribed(&test, &replying_request()).await;
    let (mut ada, _) = C::subscribed_as(&test, Some(ADA), &replying_request()).await;
    start(&test, "ada", "a").await;
    ada.find("session.started").await;
    start(&test, "local", "l").await;
    let first = local.receive().await.unwrap();
    assert_eq!(first["summary_normal"], "Working for local.", "{first}");
}

#[tokio::test]
async fn agent_acts_only_for_users_that_its_credentials_name() {
    let test = TestServer::for_users(&tokens()).await;
    let started = |by: Option<&str>, session: &str| {
        let mut event = json!({"type": "session.started", "session_id": session, "summary_normal": "Working."});
        if let Some(by) = by {
            event["requested_by"] = json!(by);
        }
        event
    };
    let (_, own) = emit(&test, BANK_OF_ADA, "", &started(None, "s1")).await;
    assert_eq!(own["type"], "published", "the only user need not be named: {own}");
    let (_, named) = emit(&test, BANK_OF_ADA, "", &started(Some("user:ada"), "s2")).await;
    assert_eq!(named["type"], "published", "{named}");
    let (_, process) = emit(&test, BANK_OF_ADA, "", &started(Some("cron"), "s3")).await;
    assert_eq!(process["type"], "published", "a process is no user: {process}");
    let mut refusals = Vec::new();
    for user in ["user:ben", "user:nobody-knows-them", "user:bank", "user:*", "user:"] {
        let (status, refused) = emit(&test, BANK_OF_ADA, "", &started(Some(user), "s4")).await;
        assert_eq!((status, &refused["type"]), (422, &json!("refused")), "{user}: {refused}");
        refusals.push(refused["problems"].clone());
    }
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:#?}");
    let (_, unnamed) = emit(&test, SERVICE, "", &started(None, "s5")).await;
    assert_eq!(unnamed["type"], "refused", "{unnamed}");
    assert!(unnamed["problems"][0]["message"].as_str().unwrap().contains("requested_by"), "{unnamed}");
    let (_, by_connection) = emit(&test, SERVICE, "?user=ada", &started(None, "s6")).await;
    assert_eq!(by_connection["type"], "published", "{by_connection}");
    let mut problems = Vec::new();
    for query in ["?user=ben", "?user=nobody-knows-them", "?user=*", "?user="] {
        let (status, problem) = emit(&test, BANK_OF_ADA, query, &started(None, "s7")).await;
        assert_eq!(status, 403, "{query}: {problem}");
        problems.push(problem);
    }
    assert!(problems.iter().all(|problem| *problem == problems[0]), "{problems:#?}");
}

#[tokio::test]
async fn session_ids_of_another_user_are_as_good_as_unknown_ones() {
    let test = TestServer::for_users(&tokens()).await;
    let id = start(&test, "ada", "a").await["session_id"].as_str().unwrap().to_owned();
    let working = |session: &str| json!({"type": "state.changed", "session_id": session, "to_state": "deciding"});
    let mut responses = Vec::new();
    for session in [id.as_str(), "sess_00000000000000000000000000000000"] {
        let (status, mut response) = emit(&test, BEN, "", &working(session)).await;
        for field in ["event_id", "session_id"] {
            response.as_object_mut().unwrap().remove(field);
        }
        responses.push((status, response));
    }
    assert_eq!(responses[0], responses[1]);
    let (_, other_agent) = emit(&test, ADA, "", &working(&id)).await;
    assert_eq!(other_agent["type"], "refused", "for the same user it is said that the session is another agent's");
}

#[tokio::test]
async fn stream_of_another_user_is_not_found() {
    let test = TestServer::for_users(&tokens()).await;
    let (ada, _) = Sse::subscribed_as(&test, Some(ADA), &replying_request()).await;
    let location = ada.location.clone().unwrap();
    let ben = Sse::connect_as(&test, Some(BEN)).await;
    let mut answers = Vec::new();
    for path in [location.as_str(), "/aaep/v1/events?subscription_id=sub_00000000000000000000000000000000"] {
        let response = ben.request(hyper::Method::GET, path, &[], "").await;
        let status = response.status();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        answers.push((status, body));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].0, hyper::StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn last_event_id_of_another_user_replays_nothing_of_theirs() {
    let test = TestServer::for_users(&tokens()).await;
    let (mut ada, _) = Sse::subscribed_as(&test, Some(ADA), &replying_request()).await;
    let (mut ben, _) = Sse::subscribed_as(&test, Some(BEN), &replying_request()).await;
    start(&test, "ada", "a").await;
    let foreign = ada.find("session.started").await["event_id"].as_str().unwrap().to_owned();
    start(&test, "ben", "b").await;
    ben.find("session.started").await;
    ben.lose();
    ben.last = Some(foreign);
    ben.open().await;
    complete(&test, "b").await;
    let text = serde_json::to_string(&until_completed(&mut ben).await).unwrap();
    assert!(!text.contains("ada"), "{text}");
}

#[tokio::test]
async fn metrics_name_no_user() {
    let admin = "admin-token-0123456789";
    let test = TestServer::for_users(&format!("{}\n{admin} root admin", tokens())).await;
    start(&test, "ada", "a").await;
    let root = Sse::connect_as(&test, Some(admin)).await;
    let response = root.request(hyper::Method::GET, "/metrics", &[], "").await;
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(text.contains("aaep_users 2") && text.contains("aaep_sessions 1"), "{text}");
    assert!(!text.contains("ada"), "{text}");
}
