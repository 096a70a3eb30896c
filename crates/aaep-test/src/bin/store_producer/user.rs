//! The user of the producer: receives every event and accepts most questions.

use aaep::Producer;
use aaep::message::{Decision, Message, Payload, SubscriptionRequest};
use aaep::transport::{Link, Outbound, ResumePolicy};
use serde_json::json;

use crate::report;
use crate::run::ProducerRun;

/// Resumes the subscription of an earlier run, or opens a new one if there is none.
pub(crate) async fn subscribe(producer: &Producer, run: &ProducerRun<'_>) -> Link {
    if !run.subscription.is_empty() {
        let id = run.subscription.parse().unwrap();
        if let Some(link) = producer.resume(&id, "user", Some(run.last_event)).await {
            report("resumed");
            return link;
        }
    }
    let link = producer.subscribe(&request(), "user", ResumePolicy::Resumable).await.unwrap();
    report(&format!("subscribed {}", link.id()));
    link
}

fn request() -> SubscriptionRequest {
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader",
        "capabilities": {"supports_confirmation_reply": true}});
    match serde_json::from_value(request).unwrap() {
        Message::SubscriptionRequest(request) => *request,
        other => panic!("{other:?}"),
    }
}

/// Reports every event and replies to questions: to all of earlier runs, and to those of this run whose number is not a
/// multiple of 5. Rejects the multiples of 4.
pub(crate) async fn receive(mut link: Link, run: u64) {
    loop {
        let Some(Outbound::Event(frame)) = link.recv().await else { continue };
        let event = frame.event();
        let id = &event.envelope.event_id;
        match &event.payload {
            Payload::ProgressUpdated(progress) => {
                let text = progress.summary_normal.as_deref().unwrap_or_default();
                let number = text.trim_start_matches("Number ").trim_end_matches('.');
                report(&format!("received {id} number {number}"));
            }
            Payload::AwaitingConfirmation(asked) => {
                let origin = asked.action.trim_start_matches("Do ").to_owned();
                report(&format!("received {id} asked {origin} {} {}", asked.reply_token, asked.timeout_seconds));
                let number: u64 = origin[1..].parse().unwrap();
                if !number.is_multiple_of(5) || number / 1000 != run {
                    let decision = if number.is_multiple_of(4) { Decision::Reject } else { Decision::Accept };
                    link.decide(&asked.reply_token, decision).await.unwrap();
                }
            }
            Payload::StateChanged(change)
                if change.summary_normal.as_deref().is_some_and(|s| s.starts_with("Some events were missed")) =>
            {
                report(&format!("received {id} missed"));
            }
            _ => report(&format!("received {id} other")),
        }
    }
}
