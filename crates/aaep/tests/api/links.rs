//! Links: slow readers, pace, resumed streams.

use std::sync::Arc;

use aaep::message::ToolInvoked;
use tokio::task::JoinSet;

use super::*;

#[tokio::test(start_paused = true)]
async fn slow_reader_receives_everything() {
    let producer = producer();
    let link = join_with(&producer, json!({"coalesce_boundaries": ["word", "completion"]})).await;
    let session = producer.session("Telling a long story.").await.unwrap();
    let output = session.output().await.unwrap();
    let mut story = String::new();
    for i in 0..3000 {
        let word = format!("word{i} ");
        story.push_str(&word);
        output.write(word).await.unwrap();
    }
    output.finish().await.unwrap();
    for i in 0..300 {
        session.tool(format!("tool{i}")).run(async { Ok::<_, String>(()) }).await.unwrap();
    }
    assert_eq!(producer.subscriber_counts().await.subscriptions, 1, "it is held back, not closed");
    session.complete("That was it.").await.unwrap();
    drop(producer);
    let events = rest(link).await;
    assert_eq!(text(&events), story);
    assert!(events.len() < 2000, "what waited was put together: {}", events.len());
    let count = |core| events.iter().filter(|e| e.core_type() == Some(core)).count();
    assert_eq!((count(CoreType::ToolInvoked), count(CoreType::ToolCompleted)), (300, 300));
    assert_eq!(events.last().unwrap().core_type(), Some(CoreType::SessionCompleted));
}

#[tokio::test(start_paused = true)]
async fn concurrent_events_are_delivered_while_more_are_emitted() {
    let producer = producer();
    let mut link = join(&producer).await;
    let session = Arc::new(producer.session("Looking everywhere.").await.unwrap());
    let mut saying = JoinSet::new();
    for _ in 0..100 {
        let session = session.clone();
        let tool = ToolInvoked { tool: "look".into(), summary_normal: "I look.".into(), ..ToolInvoked::default() };
        saying.spawn(async move { session.invoke_tool(tool).await.unwrap() });
    }
    let reading = tokio::spawn(async move {
        let (mut items, mut most) = (Vec::new(), 0);
        while items.len() < 100 {
            most = link.recv_many(&mut items, 1000).await.max(most);
        }
        most
    });
    saying.join_all().await;
    let most = reading.await.unwrap();
    assert!(most < 64, "{most} waited at once");
}

#[tokio::test(start_paused = true)]
async fn pace_is_kept_after_the_session_ended() {
    let producer = producer();
    let link = join_with(&producer, json!({"pace_wpm": 60, "max_events_per_second": 1})).await;
    let session = producer.session("Telling a story.").await.unwrap();
    let output = session.output().await.unwrap();
    output.write("One two three four. Five six seven eight. Nine ten. ").await.unwrap();
    drop(output);
    session.complete("That was it.").await.unwrap();
    drop(producer);
    let events = rest(link).await;
    assert_eq!(text(&events), "One two three four. Five six seven eight. Nine ten. ");
    assert_eq!(events.last().unwrap().core_type(), Some(CoreType::SessionCompleted));
}

/// Longer than an agent is slowed for a subscriber that does not read.
#[tokio::test(start_paused = true)]
async fn slow_pace_does_not_time_out() {
    let producer = producer();
    let link = join_with(&producer, json!({"pace_wpm": 50})).await;
    let session = producer.session("Telling a story.").await.unwrap();
    let output = session.output().await.unwrap();
    let story = format!("{}end. Then it was over. And more.", "word ".repeat(60));
    output.write(&story).await.unwrap();
    drop(output);
    session.complete("That was it.").await.unwrap();
    drop(producer);
    let events = rest(link).await;
    assert_eq!(text(&events), story);
    assert_eq!(events.last().unwrap().core_type(), Some(CoreType::SessionCompleted));
}

#[tokio::test(start_paused = true)]
async fn resumed_link_receives_missed_events() {
    let producer = producer();
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "r",
        "capabilities": {"supports_confirmation_reply": true}});
    let Message::SubscriptionRequest(request) = serde_json::from_value(request).unwrap() else { unreachable!() };
    let link = producer.subscribe(&request, "ada", ResumePolicy::Resumable).await.unwrap();
    let id = link.id().clone();
    let session = producer.session("Working.").await.unwrap();
    drop(link);
    session.set_state("deciding", Some("While you were away.")).await.unwrap();
    assert!(producer.resume(&id, "eve", None).await.is_none(), "it is not hers");
    let mut first = producer.resume(&id, "ada", None).await.unwrap();
    let second = producer.resume(&id, "ada", None).await.unwrap();
    assert_eq!(first.recv().await, None, "another has taken its place");
    drop(first);
    session.complete("Done.").await.unwrap();
    drop(producer);
    assert_eq!(names(&rest(second).await), ["session.started", "state.changed", "session.completed"]);
}

/// A reservation with a maximum size. The reference count of `_held` shows when it is dropped.
#[derive(Debug)]
struct FixedReservation {
    bytes: usize,
    _held: Arc<()>,
}

impl aaep::transport::Reservation for FixedReservation {
    fn resize(&mut self, bytes: usize) -> Result<(), aaep::transport::Rejection> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let message = "There is no room.".to_owned();
        Err(aaep::transport::Rejection {
            reason_code: aaep::message::ReasonCode::RateLimit,
            message,
            retry_after_seconds: None,
        })
    }
}

fn subscription_request() -> aaep::message::SubscriptionRequest {
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "r",
        "capabilities": {}});
    let Message::SubscriptionRequest(request) = serde_json::from_value(request).unwrap() else { unreachable!() };
    *request
}

#[tokio::test(start_paused = true)]
async fn subscription_holds_its_reservation_until_it_ends() {
    let producer = producer();
    let held = Arc::new(());
    let reservation = Box::new(FixedReservation { bytes: usize::MAX, _held: held.clone() });
    let link = producer
        .subscribe_with_reservation(&subscription_request(), "ada", ResumePolicy::Resumable, reservation)
        .await
        .unwrap();
    let id = link.id().clone();
    drop(link);
    producer.subscriber_counts().await;
    assert_eq!(Arc::strong_count(&held), 2, "it may be resumed");
    let close = json!({"type": "subscription.close", "subscription_id": id});
    producer.handle_message("ada", serde_json::from_value(close).unwrap()).await.unwrap();
    producer.subscriber_counts().await;
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test(start_paused = true)]
async fn renegotiation_beyond_its_reservation_is_rejected() {
    let producer = producer();
    let reservation = Box::new(FixedReservation { bytes: 20_000, _held: Arc::default() });
    let mut link = producer
        .subscribe_with_reservation(&subscription_request(), "ada", ResumePolicy::Connection, reservation)
        .await
        .unwrap();
    link.recv().await.unwrap();
    let change = |patterns: usize| {
        let patterns: Vec<String> = (0..patterns).map(|n| format!("x{n}:{:y<200}", "")).collect();
        let filters = json!({"event_filters": {"include": patterns}});
        let change = json!({"type": "subscription.renegotiate", "subscription_id": link.id(), "capabilities": filters});
        serde_json::from_value::<Message>(change).unwrap()
    };
    let (small, large) = (change(2), change(200));
    link.send(small).await.unwrap();
    assert!(matches!(link.recv().await, Some(Outbound::Message(m)) if matches!(*m, Message::SubscriptionAccepted(_))));
    link.send(large).await.unwrap();
    assert!(matches!(link.recv().await, Some(Outbound::Message(m)) if matches!(*m, Message::SubscriptionRejected(_))));
    assert!(matches!(link.recv().await, Some(Outbound::Closed(_))));
}

#[tokio::test(start_paused = true)]
async fn subscription_with_the_largest_queue_is_closed_over_max_queued_bytes() {
    let producer = aaep::Producer::builder("gardener").max_queued_bytes(2 << 20).build();
    let stalled = producer.subscribe_local("stalled", Default::default()).await.unwrap();
    let mut reading = producer.subscribe_local("reading", Default::default()).await.unwrap();
    let reader = tokio::spawn(async move {
        let mut ended = false;
        while let Some(item) = reading.recv().await {
            if let Outbound::Event(frame) = &item {
                ended |= frame.event().core_type() == Some(CoreType::SessionCancelled);
            }
        }
        ended
    });
    let session = producer.session("Looking everywhere.").await.unwrap();
    for n in 0..300 {
        let summary = format!("{n} {:y<16000}", "");
        let tool = ToolInvoked { tool: "look".into(), summary_normal: summary, ..ToolInvoked::default() };
        session.invoke_tool(tool).await.unwrap();
        tokio::task::yield_now().await;
    }
    let measures = producer.stats().await.unwrap();
    assert_eq!((measures.shed, measures.subscribers.subscriptions), (1, 1), "{measures:?}");
    assert!(measures.queued_bytes < 2 << 20, "{measures:?}");
    session.cancel(aaep::message::CancelledBy::Producer, "Enough.").await.unwrap();
    drop(producer);
    assert!(reader.await.unwrap(), "who reads gets everything");
    drop(stalled);
}

#[tokio::test(start_paused = true)]
async fn posted_renegotiation_gets_its_own_response() {
    let producer = producer();
    let mut link = join(&producer).await;
    let change = |rate: u32| {
        let change = json!({"type": "subscription.renegotiate", "subscription_id": link.id(),
            "capabilities": {"max_events_per_second": rate}});
        serde_json::from_value::<Message>(change).unwrap()
    };
    let rate_of = |message: &Message| match message {
        Message::SubscriptionAccepted(accepted) => accepted.honored_capabilities.fields.max_events_per_second,
        other => panic!("{other:?}"),
    };
    let (first, second) = (change(5), change(7));
    // Both are queued before the driver runs.
    link.send(first).await.unwrap();
    let response = producer.handle_message("reader", second).await.unwrap().unwrap();
    assert_eq!(rate_of(&response), Some(7));
    let Some(Outbound::Message(message)) = link.recv().await else { panic!("no response on the link") };
    assert_eq!(rate_of(&message), Some(5));
}
