//! Resuming streams: no duplicates, no silent gaps.

use hyper::StatusCode;
use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn stream_resumes_after_last_event_id() {
    let server = start(config()).await;
    let address = server.address();
    let id = subscribe(address, &request(), None).await;
    let session = session(server.producer()).await;
    let mut stream = Stream::open(address, &id, &[]).await;
    let started = stream.next().await.unwrap();
    // The connection is lost after one event; the second may be in flight.
    drop(stream);
    session.complete("Done.").await.unwrap();
    let stream = &mut Stream::open(address, &id, &[("last-event-id", &started.id)]).await;
    let kinds = [stream.next().await.unwrap(), stream.next().await.unwrap()].map(|e| kind_of(&e.data).to_owned());
    assert_eq!(kinds, ["state.changed", "session.completed"]);
}

#[tokio::test]
async fn last_event_id_is_accepted_in_the_query() {
    let server = start(config()).await;
    let address = server.address();
    let id = subscribe(address, &request(), None).await;
    session(server.producer()).await.complete("Done.").await.unwrap();
    let mut stream = Stream::open(address, &id, &[]).await;
    let second = [stream.next().await.unwrap(), stream.next().await.unwrap()][1].id.clone();
    let mut again = Stream::open(address, &format!("{id}&last_event_id={second}"), &[]).await;
    assert_eq!(kind_of(&again.next().await.unwrap().data), "session.completed");
    while stream.next().await.is_some() {}
}

#[tokio::test]
async fn resuming_beyond_the_history_starts_with_a_summary() {
    let server = start(config()).await;
    let address = server.address();
    let id = subscribe(address, &request(), None).await;
    let session = session(server.producer()).await;
    let mut stream = Stream::open(address, &id, &[]).await;
    let started = stream.next().await.unwrap();
    for n in 0..400 {
        session.set_state(&format!("step_{n}"), Some("A step.")).await.unwrap();
        // Received at once, so that no events are coalesced.
        while stream.next().await.unwrap().data["to_state"] != format!("step_{n}") {}
    }
    drop(stream);
    let mut stream = Stream::open(address, &id, &[("last-event-id", &started.id)]).await;
    let first = stream.next().await.unwrap().data;
    assert!(first["summary_normal"].as_str().unwrap().starts_with("Some events were missed"), "{first}");
    let next = stream.next().await.unwrap().data;
    assert_eq!(first["to_state"], next["from_state"], "the summary is the state where the stream picks up");
    let mut last = next;
    while last["to_state"] != "step_399" {
        let event = stream.next().await.unwrap().data;
        assert_eq!(event["from_state"], last["to_state"], "no further gap");
        last = event;
    }
}

#[tokio::test]
async fn question_survives_a_lost_connection() {
    let server = start(config()).await;
    let address = server.address();
    let id = subscribe(address, &request(), None).await;
    let producer = server.producer().clone();
    let agent = tokio::spawn(async move {
        let session = session(&producer).await;
        let permitted = ask(&session).await;
        session.complete("Done.").await.unwrap();
        permitted
    });
    let mut stream = Stream::open(address, &id, &[]).await;
    let before = stream.next().await.unwrap();
    stream.find("awaiting.confirmation").await;
    drop(stream);
    let mut stream = Stream::open(address, &id, &[("last-event-id", &before.id)]).await;
    let question = stream.find("awaiting.confirmation").await;
    let token = question["reply_token"].as_str().unwrap();
    post(address, "/aaep/v1/replies", &reply(&id, token, "accept")).await;
    assert!(agent.await.unwrap());
}

#[tokio::test]
async fn subscription_of_a_previous_process_is_not_found() {
    let first = start(config()).await;
    let id = subscribe(first.address(), &request(), None).await;
    first.stop("Restarting.").await;
    let second = start(config()).await;
    let path = format!("/aaep/v1/events?subscription_id={id}");
    let answer = get(second.address(), &path).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.json()["detail"].as_str().unwrap().contains("Subscribe again"));
    let renegotiate = json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {}});
    let answer = post(second.address(), "/aaep/v1/replies", &renegotiate).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(answer.json()["type"], "subscription.rejected");
}
