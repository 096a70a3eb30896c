//! The suite: every function is a test for every transport.

use aaep::message::CancelledBy;
use aaep::transport::ReplyRejection;
use serde_json::{Value, json};

use crate::clients::Client;
use crate::harness::*;

const MEBIBYTE: usize = 1024 * 1024;

pub(crate) async fn handshake_returns_the_terms<C: Client + Sync>() {
    let test = TestServer::start().await;
    let mut client = C::connect(&test).await;
    client.send(&request(json!({"max_events_per_second": 7, "supports_confirmation_reply": true}))).await;
    let accepted = client.receive().await.unwrap();
    assert_eq!(kind_of(&accepted), "subscription.accepted");
    assert_eq!(accepted["producer"]["agent_id"], "aaep");
    assert_eq!(accepted["honored_capabilities"]["max_events_per_second"], 7);
    assert_eq!(aaep_proto::validate(accepted.to_string().as_bytes()).problems, []);
    let presence = test.producer().subscriber_counts().await;
    assert_eq!((presence.subscriptions, presence.can_confirm), (1, 1));
}

pub(crate) async fn unsupported_version_is_rejected<C: Client + Sync>() {
    let test = TestServer::start().await;
    let mut client = C::connect(&test).await;
    let mut wrong = replying_request();
    wrong["aaep_version"] = json!("9.0.0");
    client.send(&wrong).await;
    let rejected = client.receive().await.unwrap();
    assert_eq!(kind_of(&rejected), "subscription.rejected", "{rejected}");
    assert_eq!(rejected["reason_code"], "version_unsupported");
    assert_eq!(client.receive().await, None);
    assert_eq!(test.producer().subscriber_counts().await.subscriptions, 0);
}

pub(crate) async fn events_fit_the_negotiated_terms<C: Client + Sync>() {
    let test = TestServer::start().await;
    let shape = json!({"coalesce_boundaries": ["sentence", "completion"],
        "event_filters": {"exclude": ["aaep:agent.progress.*"]}});
    let (mut client, _) = C::subscribed(&test, &request(shape)).await;
    let session = test.producer().session("Working.").await.unwrap();
    session.report_progress(50, "Half of it.").await.unwrap();
    let output = session.output().await.unwrap();
    let text = "One is first. Two is second. Three is last";
    for token in text.as_bytes().chunks(3) {
        output.write(String::from_utf8(token.to_vec()).unwrap()).await.unwrap();
    }
    output.finish().await.unwrap();
    session.complete("Done.").await.unwrap();
    let mut chunks: Vec<String> = Vec::new();
    loop {
        let event = client.receive().await.unwrap();
        assert_eq!(aaep_proto::validate(event.to_string().as_bytes()).problems, []);
        match kind_of(&event) {
            "session.completed" => break,
            "output.streaming" => chunks.push(event["chunk"].as_str().unwrap().to_owned()),
            kind => assert_ne!(kind, "progress.updated"),
        }
    }
    assert_eq!(chunks.concat(), text);
    let cut_inside = |chunk: &&String| !chunk.is_empty() && !chunk.trim_end().ends_with(['.', 't']);
    assert_eq!(chunks.iter().find(cut_inside), None, "{chunks:?}");
}

async fn answered<C: Client + Sync>(decision: &str) -> bool {
    let test = TestServer::start().await;
    let (mut client, id) = C::subscribed(&test, &replying_request()).await;
    let agent = asking(test.producer());
    let question = client.find("awaiting.confirmation").await;
    client.send(&reply(&id, &question, decision)).await;
    let permitted = soon("the agent", agent).await.unwrap();
    client.find("session.completed").await;
    permitted
}

pub(crate) async fn accept_reply_is_delivered_to_the_agent<C: Client + Sync>() {
    assert!(answered::<C>("accept").await);
}

pub(crate) async fn reject_reply_is_delivered_to_the_agent<C: Client + Sync>() {
    assert!(!answered::<C>("reject").await);
}

pub(crate) async fn forged_reply_is_ignored<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, id) = C::subscribed(&test, &replying_request()).await;
    let (mut other, other_id) = C::subscribed(&test, &replying_request()).await;
    let agent = asking(test.producer());
    let question = client.find("awaiting.confirmation").await;
    client.send(&reply(&id, &json!({"reply_token": "rpl_forged"}), "accept")).await;
    let ignored = async |fault: ReplyRejection| {
        until("the fault is noted", async || test.producer().reply_stats().ignored.contains_key(&fault)).await;
    };
    ignored(ReplyRejection::UnknownToken).await;
    if C::BOUND {
        // With the subscription id of another connection.
        other.send(&reply(&id, &question, "accept")).await;
        ignored(ReplyRejection::WrongSubscription).await;
    }
    other.send(&reply(&other_id, &question, "reject")).await;
    assert!(!soon("the agent", agent).await.unwrap());
}

pub(crate) async fn renegotiation_changes_the_terms<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, id) = C::subscribed(&test, &replying_request()).await;
    let change = json!({"type": "subscription.renegotiate", "subscription_id": id,
        "capabilities": {"event_filters": {"exclude": ["aaep:agent.state.*"]}}});
    client.send(&change).await;
    let accepted = client.find("subscription.accepted").await;
    assert_eq!(accepted["subscription_id"], id);
    assert_eq!(accepted["honored_capabilities"]["event_filters"]["exclude"], json!(["aaep:agent.state.*"]));
    let session = test.producer().session("Working.").await.unwrap();
    session.set_state("thinking", None).await.unwrap();
    session.complete("Done.").await.unwrap();
    loop {
        let event = client.receive().await.unwrap();
        assert_ne!(kind_of(&event), "state.changed");
        if kind_of(&event) == "session.completed" {
            return;
        }
    }
}

fn rejection(message: &Value) -> (&str, &str) {
    assert_eq!(kind_of(message), "subscription.rejected", "{message}");
    assert_eq!(aaep_proto::validate(message.to_string().as_bytes()).problems, []);
    (message["reason_code"].as_str().unwrap(), message["reason_message"].as_str().unwrap())
}

pub(crate) async fn invalid_request_is_rejected_with_the_field<C: Client + Sync>() {
    let test = TestServer::start().await;
    let levels = json!({"supported_conformance_levels": [2, 3]});
    for (capabilities, words) in [
        (json!({"languages": "de"}), "capabilities.languages: languages must be an array"),
        (json!({"pace_wpm": 5}), "capabilities.pace_wpm: pace_wpm must be from 50 to 1000"),
        (levels, "supported_conformance_levels: levels 2 and 3 need supports_confirmation_reply"),
    ] {
        let mut client = C::connect(&test).await;
        client.send(&request(capabilities)).await;
        let answer = client.receive().await.unwrap();
        let (code, message) = rejection(&answer);
        assert_eq!(code, "capabilities_incompatible");
        assert!(message.starts_with(words), "{message}");
    }
    let mut client = C::connect(&test).await;
    client.send(&json!({"type": "subscription.request", "aaep_version": "1.0.0", "capabilities": {}})).await;
    let answer = client.receive().await.unwrap();
    assert_eq!(rejection(&answer), ("unknown", "subscriber_id: Add subscriber_id: it is required."));
    assert_eq!(test.producer().subscriber_counts().await.subscriptions, 0);
}

pub(crate) async fn conformance_levels_that_need_replies_are_not_honored<C: Client + Sync>() {
    let test = TestServer::start().await;
    let mut client = C::connect(&test).await;
    client.send(&request(json!({"supported_conformance_levels": [1, 2]}))).await;
    let accepted = client.receive().await.unwrap();
    assert_eq!(accepted["honored_capabilities"]["supported_conformance_levels"], json!([1]), "{accepted}");
    let notes = accepted["negotiation_notes"].as_str().unwrap();
    assert!(notes.contains("supports_confirmation_reply"), "{notes}");
}

pub(crate) async fn invalid_renegotiation_is_rejected_and_ends_the_subscription<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, id) = C::subscribed(&test, &replying_request()).await;
    let change = json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"pace_wpm": 5}});
    client.send(&change).await;
    let answer = client.find("subscription.rejected").await;
    assert!(rejection(&answer).1.starts_with("capabilities.pace_wpm: "), "{answer}");
    assert_eq!(client.rest().await, [] as [Value; 0], "it ends");
    test.subscriptions(0).await;
}

pub(crate) async fn renegotiation_of_another_subscription_is_rejected_without_closing<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, _) = C::subscribed(&test, &replying_request()).await;
    for capabilities in [json!({}), json!({"pace_wpm": 5})] {
        let change =
            json!({"type": "subscription.renegotiate", "subscription_id": "sub_0", "capabilities": capabilities});
        client.send(&change).await;
        let answer = client.find("subscription.rejected").await;
        assert!(rejection(&answer).1.starts_with("subscription_id: "), "{answer}");
    }
    test.producer().session("Working.").await.unwrap().complete("Done.").await.unwrap();
    client.find("session.completed").await;
}

pub(crate) async fn second_request_is_rejected_and_the_subscription_continues<C: Client + Sync>() {
    if !C::BOUND {
        // On SSE a second request is a second subscription.
        return;
    }
    let test = TestServer::start().await;
    let (mut client, id) = C::subscribed(&test, &replying_request()).await;
    for second in [replying_request(), request(json!({"pace_wpm": 5}))] {
        client.send(&second).await;
        let answer = client.find("subscription.rejected").await;
        assert!(rejection(&answer).1.contains(&id), "{answer}");
    }
    test.producer().session("Working.").await.unwrap().complete("Done.").await.unwrap();
    client.find("session.completed").await;
}

pub(crate) async fn close_by_the_subscriber_ends_the_subscription<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, id) = C::subscribed(&test, &replying_request()).await;
    client.send(&json!({"type": "subscription.close", "subscription_id": id})).await;
    assert_eq!(client.rest().await, [] as [Value; 0], "the closing side gets no close message");
    test.subscriptions(0).await;
}

pub(crate) async fn request_to_stop_reaches_the_agent_or_is_refused<C: Client + Sync>() {
    let test = TestServer::start().await;
    let capabilities = json!({"supports_confirmation_reply": true, "cancellation": {}});
    let (mut client, id) = C::subscribed(&test, &request(capabilities)).await;
    let session = test.producer().session("Working.").await.unwrap();
    let request = json!({"type": "cancellation:request", "subscription_id": id, "session_id": session.id(),
        "timestamp": now(), "reason": "It takes too long."});
    client.send(&request).await;
    let refused = client.find("cancellation:refused").await;
    assert_eq!(refused["reason_message"], "This agent cannot be asked to stop.");
    session.accept_cancel_requests().await.unwrap();
    client.send(&request).await;
    let asked = soon("the request", session.cancel_requested()).await.unwrap();
    assert_eq!(asked.reason.as_deref(), Some("It takes too long."));
    session.cancel(CancelledBy::User, "Stopped.").await.unwrap();
    client.find("session.cancelled").await;
}

pub(crate) async fn shutdown_of_the_producer_closes_the_subscription<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, id) = C::subscribed(&test, &replying_request()).await;
    let session = test.producer().session("Working.").await.unwrap();
    let stopping = tokio::spawn(test.server.stop("Going home."));
    let all = client.rest().await;
    let kinds: Vec<&str> = all.iter().map(kind_of).collect();
    let close = all.last().unwrap();
    assert!(kinds.contains(&"session.cancelled"), "{kinds:?}");
    assert_eq!((kind_of(close), &close["subscription_id"]), ("subscription.close", &json!(id)));
    assert_eq!(close["reason_code"], "producer_shutdown");
    drop((client, session));
    soon("the server's end", stopping).await.unwrap();
}

/// Returns a message of this size, padded with spaces.
fn padded(message: &Value, size: usize) -> String {
    let text = message.to_string();
    format!("{{{}{}", " ".repeat(size - text.len()), &text[1..])
}

pub(crate) async fn messages_over_one_mebibyte_are_refused<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, id) = C::subscribed(&test, &replying_request()).await;
    let change = json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {}});
    client.send_text("subscription.renegotiate", &padded(&change, MEBIBYTE)).await;
    let accepted = client.receive().await.unwrap();
    assert_eq!(kind_of(&accepted), "subscription.accepted", "{accepted}");
    client.send_text("subscription.renegotiate", &padded(&change, MEBIBYTE + 1)).await;
    if C::BOUND {
        let rest = client.rest().await;
        assert!(rest.iter().all(|m| kind_of(m) != "subscription.accepted"), "{rest:?}");
        test.subscriptions(0).await;
    } else {
        assert_eq!(client.receive().await, Some(json!({"refused": 413})));
    }
}

pub(crate) async fn disconnected_subscriber_does_not_delay_the_agent<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, _) = C::subscribed(&test, &replying_request()).await;
    let agent = asking(test.producer());
    client.find("awaiting.confirmation").await;
    drop(client);
    if C::BOUND {
        // The question has a timeout of an hour; it ends now because no subscriber is left that could reply.
        assert!(!soon("the default", agent).await.unwrap());
        test.subscriptions(0).await;
    } else {
        // The subscription may be resumed, so the question stays open; another subscriber replies.
        assert_eq!(test.producer().subscriber_counts().await.subscriptions, 1);
        let (mut other, id) = C::subscribed(&test, &replying_request()).await;
        let question = other.find("awaiting.confirmation").await;
        other.send(&reply(&id, &question, "accept")).await;
        assert!(soon("the agent", agent).await.unwrap());
    }
}

pub(crate) async fn malformed_messages_are_tolerated_up_to_a_limit<C: Client + Sync>() {
    let test = TestServer::start().await;
    let (mut client, _) = C::subscribed(&test, &replying_request()).await;
    for garbage in ["not JSON", "{\"type\":\"nonsense\"}", "{}", "[[[[", "\u{1F600}"] {
        client.send_text("", garbage).await;
    }
    test.producer().session("Working.").await.unwrap().complete("Done.").await.unwrap();
    client.find("session.completed").await;
    if C::BOUND {
        for _ in 0..20 {
            client.send_text("confirmation.reply", "{\"type\":\"confirmation.reply\"}").await;
        }
        client.rest().await;
        test.subscriptions(0).await;
    }
}

pub(crate) async fn slow_reader_is_bounded_and_closed<C: Client + Sync>() {
    let test = TestServer::start().await;
    let producer = test.producer();
    let (mut client, _) = C::subscribed(&test, &replying_request()).await;
    let session = producer.session("Writing.").await.unwrap();
    let output = session.output().await.unwrap();
    let page = "All is well. ".repeat(1000);
    let measure = async || producer.stats().await.unwrap();
    soon("the reader is held back", async {
        while measure().await.blocked == 0 {
            output.write(page.clone()).await.unwrap();
        }
    })
    .await;
    // State changes coalesce, so a slow subscriber is not closed.
    for n in 0..3000 {
        session.set_state(&format!("step_{n}"), None).await.unwrap();
    }
    let behind = measure().await;
    assert_eq!(behind.subscribers.subscriptions, 1);
    assert!(behind.held <= 1024 && behind.queued <= 1024, "{behind:?}");
    // Text cannot be dropped: a subscriber that does not read it is closed.
    soon("the end of the subscription", async {
        while measure().await.subscribers.subscriptions == 1 {
            output.write(page.clone()).await.unwrap();
        }
    })
    .await;
    let received = client.rest().await;
    let close = received.last().unwrap();
    assert_eq!((kind_of(close), close["reason_code"].as_str()), ("subscription.close", Some("too_slow")), "{close}");
    let mut position = 0;
    for chunk in received.iter().filter(|event| kind_of(event) == "output.streaming") {
        assert_eq!(chunk["position"], position, "nothing is missing before the end");
        position += chunk["chunk"].as_str().unwrap().chars().count();
    }
    assert!(position > 0);
}
