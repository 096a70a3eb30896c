//! Several producers, and slow programs.

use aaep_client::{EndReason, HandshakePolicy, PromptAnswer, Subscriber, SubscriberEvent, Subscribers};
use hyper::Method;
use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn events_of_several_producers_share_one_queue_and_replies_are_separate() {
    let (mut one, mut two) = (FakeHttp::new().await, FakeHttp::new().await);
    let mut subscribers = Subscribers::new();
    let first = subscribers.connect(&one.url(), options().handshake(HandshakePolicy::Always)).unwrap();
    let second = subscribers.connect(&two.url(), options().handshake(HandshakePolicy::Always)).unwrap();
    let (stream_one, stream_two) = (one.serve("sub_1").await, two.serve("sub_1").await);
    stream_one.send(&question("evt_1", "rpl_1"));
    stream_two.send(&question("evt_1", "rpl_1"));
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let (from, received) = in_time("a question", subscribers.recv()).await.unwrap();
        if let SubscriberEvent::PromptOpened(prompt, _) = received {
            asked.push((from, prompt.id));
        }
    }
    let prompt_of_second = asked.iter().find(|(from, _)| *from == second).unwrap().1;
    subscribers.handle(second).unwrap().reply(prompt_of_second, PromptAnswer::reject()).await.unwrap();
    two.expect(Method::POST, "/aaep/v1/replies").await.empty(204);
    // The same token with the other producer is still open.
    let prompt_of_first = asked.iter().find(|(from, _)| *from == first).unwrap().1;
    subscribers.handle(first).unwrap().reply(prompt_of_first, PromptAnswer::reject()).await.unwrap();
    one.expect(Method::POST, "/aaep/v1/replies").await.empty(204);
    let closing = subscribers.close("done");
    let served = async {
        one.expect(Method::POST, "/aaep/v1/replies").await.empty(204);
        two.expect(Method::POST, "/aaep/v1/replies").await.empty(204);
    };
    in_time("the close", async { tokio::join!(closing, served) }).await;
    let mut ended = Vec::new();
    while let Some((from, received)) = in_time("the end", subscribers.recv()).await {
        if matches!(received, SubscriberEvent::Ended(EndReason::Closed)) {
            ended.push(from);
        }
    }
    ended.sort();
    assert_eq!(ended, [first, second]);
    assert_eq!(subscribers.producers().count(), 0);
}

#[tokio::test]
async fn question_overtakes_queued_events_of_a_slow_reader() {
    let mut producer = FakeHttp::new().await;
    let mut options = options().handshake(HandshakePolicy::Always);
    // The rate limit allows this many events; the program is too slow.
    options.config.max_events_per_second = 100_000;
    let mut subscriber = Subscriber::connect(&producer.url(), options).unwrap();
    let stream = producer.serve("sub_1").await;
    for n in 0..3000 {
        let (kind, fields) = match n % 2 {
            0 => ("tool.invoked", json!({"tool": "look", "summary_normal": "Looking."})),
            _ => ("progress.updated", json!({"progress": {"percent": 1}})),
        };
        stream.send(&event(&format!("evt_{n}"), kind, fields));
    }
    stream.send(&question("evt_q", "rpl_1"));
    stream.send(&event(
        "evt_e",
        "session.errored",
        json!({"urgency": "critical", "error_category": "unknown",
        "summary_normal": "Failed.", "session_id": "sess_2"}),
    ));
    // The counts show that everything has arrived; nothing was received by the program yet.
    let voice = subscriber.handle();
    in_time("everything to arrive", async {
        while voice.stats().await.events < 3002 {
            tokio::task::yield_now().await
        }
    })
    .await;
    let mut order = Vec::new();
    let mut skipped = 0;
    let mut heard_events = 0;
    while heard_events < 2 + 1024 {
        match subscriber.receive().await {
            SubscriberEvent::Event(event) => {
                heard_events += 1;
                order.push(event.envelope.event_id.to_string());
            }
            SubscriberEvent::PromptOpened(..) => order.push("prompt".to_owned()),
            SubscriberEvent::Skipped(count) => skipped += count,
            SubscriberEvent::Accepted(_) => heard_events += 1,
            _ => {}
        }
    }
    assert_eq!(order[..3], ["evt_q", "prompt", "evt_e"]);
    assert_eq!(skipped as usize + heard_events, 3003, "what is left out is counted");
    let later: Vec<&String> = order[3..].iter().collect();
    assert!(later.windows(2).all(|pair| number(pair[0]) < number(pair[1])), "the rest keeps its order");
}

fn number(id: &str) -> u32 {
    id.trim_start_matches("evt_").parse().unwrap()
}
