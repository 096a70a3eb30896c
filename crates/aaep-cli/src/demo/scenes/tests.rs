//! Every scene with a subscriber that accepts, rejects, or does not answer. The clock is paused.

use aaep::message::{Capabilities, CoreType, Decision, Event, Message, Payload, Response, ResponseKind};
use aaep::transport::{Link, Outbound};
use serde_json::json;

use super::*;

/// How the subscriber answers questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerBehavior {
    Yes,
    No,
    Silent,
}

fn producer() -> Producer {
    let builder = Producer::builder("demo").name("Demo");
    languages().into_iter().fold(builder, |builder, language| builder.language(language)).build()
}

async fn subscribe(producer: &Producer, language: &str) -> Link {
    let capabilities = json!({"supports_confirmation_reply": true, "supports_clarification_reply": true,
        "languages": [language]});
    let capabilities: Capabilities = serde_json::from_value(capabilities).unwrap();
    producer.subscribe_local("listener", capabilities).await.unwrap()
}

async fn answer(link: &Link, payload: &Payload, behavior: AnswerBehavior) {
    let yes = behavior == AnswerBehavior::Yes;
    match payload {
        _ if behavior == AnswerBehavior::Silent => {}
        Payload::AwaitingConfirmation(ask) => {
            let decision = if yes { Decision::Accept } else { Decision::Reject };
            link.decide(&ask.reply_token, decision).await.unwrap();
        }
        Payload::AwaitingClarification(ask) => {
            let response = match &ask.accepted_response_kinds.as_ref().unwrap()[0] {
                ResponseKind::YesNo => Response::Boolean(yes),
                ResponseKind::Numeric => Response::Number(3.0),
                ResponseKind::MultipleChoice => Response::Text("ferry".to_owned()),
                _ => Response::Text("Ibadan".to_owned()),
            };
            link.answer(&ask.reply_token, response).await.unwrap();
        }
        _ => {}
    }
}

/// Plays a scene and returns all events that the subscriber received.
async fn play_to_subscriber(scene: Scene, behavior: AnswerBehavior, language: &str) -> Vec<Event> {
    let producer = producer();
    let mut link = subscribe(&producer, language).await;
    let listener = tokio::spawn(async move {
        let mut events = Vec::new();
        while let Some(outgoing) = link.recv().await {
            let Outbound::Event(frame) = outgoing else { continue };
            answer(&link, &frame.event().payload, behavior).await;
            assert_eq!(aaep_proto::validate(frame.json()).problems, [], "{scene:?}");
            events.push(frame.event().clone());
        }
        events
    });
    assert_eq!(play_at(scene, &producer, Pace::NORMAL).await, Ok(()), "{scene:?}");
    drop(producer);
    let events = listener.await.unwrap();
    let mut sequence = aaep_proto::SequenceChecker::new();
    for event in &events {
        assert_eq!(sequence.observe(&event.clone().into()), [], "{scene:?}");
    }
    assert_eq!(sequence.finish(), [], "{scene:?}");
    events
}

fn is_irreversible_call(event: &Event) -> bool {
    matches!(&event.payload, Payload::ToolInvoked(tool) if tool.irreversible == Some(true))
}

fn text(events: &[Event]) -> String {
    let chunk = |e: &Event| if let Payload::OutputStreaming(o) = &e.payload { Some(o.chunk.clone()) } else { None };
    events.iter().filter_map(chunk).collect()
}

fn summary(event: &Event) -> String {
    serde_json::to_value(event).unwrap()["summary_normal"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn scenes_emit_all_core_types_without_problems() {
    let mut seen = Vec::new();
    for scene in Scene::ALL {
        for behavior in [AnswerBehavior::Yes, AnswerBehavior::No, AnswerBehavior::Silent] {
            let events = play_to_subscriber(scene, behavior, "en").await;
            assert_eq!(events.first().and_then(Event::core_type), Some(CoreType::SessionStarted));
            seen.extend(events.iter().filter_map(Event::core_type));
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 12, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn no_irreversible_call_without_acceptance() {
    for scene in Scene::ALL {
        for behavior in [AnswerBehavior::No, AnswerBehavior::Silent] {
            assert!(
                !play_to_subscriber(scene, behavior, "en").await.iter().any(is_irreversible_call),
                "{scene:?} {behavior:?}"
            );
        }
    }
    let events = play_to_subscriber(Scene::Banking, AnswerBehavior::Yes, "en").await;
    assert_eq!(events.iter().filter(|e| is_irreversible_call(e)).count(), 1);
    assert_eq!(text(&events), "Transferred $500 successfully. New balance: $12,000.");
}

#[tokio::test(start_paused = true)]
async fn timeout_is_not_reported_as_rejection() {
    let no = play_to_subscriber(Scene::Banking, AnswerBehavior::No, "en").await.pop().unwrap();
    assert_eq!(
        (no.core_type(), summary(&no)),
        (Some(CoreType::SessionCompleted), "Nothing was transferred, as you wished.".into())
    );
    let silence = play_to_subscriber(Scene::Banking, AnswerBehavior::Silent, "en").await.pop().unwrap();
    assert_eq!(silence.core_type(), Some(CoreType::SessionCancelled));
    assert!(summary(&silence).starts_with("Nobody said yes"), "{}", summary(&silence));
}

#[tokio::test(start_paused = true)]
async fn confirmations_without_subscribers_are_not_accepted() {
    let producer = Producer::builder("alone").no_subscriber_policy(aaep::NoSubscriberPolicy::ApplyDefault).build();
    let mut audit = producer.audit().unwrap();
    for scene in Scene::ALL {
        assert_eq!(play_at(scene, &producer, Pace::NONE).await, Ok(()), "{scene:?}");
    }
    drop(producer);
    let mut asked = 0;
    while let Some(record) = audit.recv().await {
        asked += 1;
        assert_ne!(record.decision, Some(Decision::Accept), "{record:?}");
    }
    assert_eq!(asked, 6);
}

#[tokio::test(start_paused = true)]
async fn answers_are_used() {
    let plan = text(&play_to_subscriber(Scene::Trip, AnswerBehavior::Yes, "en").await);
    for word in ["Ibadan", "ferry", "Travellers: 3.", "quiet seats"] {
        assert!(plan.contains(word), "{word}: {plan}");
    }
    let plan = text(&play_to_subscriber(Scene::Trip, AnswerBehavior::Silent, "en").await);
    assert!(plan.contains("train") && plan.contains("Travellers: 1."), "{plan}");
    let stopped = play_to_subscriber(Scene::Photos, AnswerBehavior::Yes, "en").await.pop().unwrap();
    let Payload::SessionCancelled(cancelled) = stopped.payload else { panic!("{stopped:?}") };
    assert_eq!(cancelled.cancelled_by, aaep::message::CancelledBy::User);
    let done = play_to_subscriber(Scene::Photos, AnswerBehavior::No, "en").await.pop().unwrap();
    assert_eq!(done.core_type(), Some(CoreType::SessionCompleted));
}

#[tokio::test(start_paused = true)]
async fn photos_stop_when_the_user_asks_for_it() {
    let producer = producer();
    let capabilities = json!({"supports_confirmation_reply": true, "cancellation": {}});
    let capabilities: Capabilities = serde_json::from_value(capabilities).unwrap();
    let mut link = producer.subscribe_local("listener", capabilities).await.unwrap();
    let listener = tokio::spawn(async move {
        let subscription = link.id().clone();
        let mut events = Vec::new();
        while let Some(outgoing) = link.recv().await {
            let Outbound::Event(frame) = outgoing else { continue };
            if matches!(frame.event().payload, Payload::ProgressUpdated(_)) {
                let request = json!({"type": "cancellation:request", "subscription_id": subscription,
                    "session_id": frame.session(), "timestamp": "2026-05-24T14:22:13Z"});
                link.send(Message::parse(request.to_string().as_bytes()).unwrap()).await.unwrap();
            }
            events.push(frame.event().clone());
        }
        events
    });
    assert_eq!(play_at(Scene::Photos, &producer, Pace::NORMAL).await, Ok(()));
    drop(producer);
    let last = listener.await.unwrap().pop().unwrap();
    let Payload::SessionCancelled(cancelled) = last.payload else { panic!("{last:?}") };
    assert_eq!(cancelled.partial_result.as_deref(), Some("100 of 400 photos are sorted."));
}

#[tokio::test(start_paused = true)]
async fn printer_tools_fail_and_time_out_with_a_remediation_hint() {
    let events = play_to_subscriber(Scene::Printer, AnswerBehavior::Yes, "en").await;
    let status =
        |e: &Event| if let Payload::ToolCompleted(c) = &e.payload { Some(c.status.as_str().to_owned()) } else { None };
    assert_eq!(events.iter().filter_map(status).collect::<Vec<_>>(), ["error", "timeout"]);
    let Some(Payload::SessionErrored(errored)) = events.last().map(|e| &e.payload) else { panic!("{events:?}") };
    assert!(errored.remediation_hint.is_some());
}

#[tokio::test(start_paused = true)]
async fn announcements_are_in_the_language_of_the_subscriber() {
    for (language, opening) in [
        ("en", "Collecting the opening hours of the library."),
        ("es", "Reuniendo el horario de la biblioteca."),
        ("de", "Ich suche die Öffnungszeiten der Bibliothek zusammen."),
        ("ar", "أجمع ساعات عمل المكتبة."),
        ("yo", "Mò ń kó àwọn wákàtí ilé ìkàwé jọ."),
    ] {
        let events = play_to_subscriber(Scene::Greetings, AnswerBehavior::Yes, language).await;
        assert_eq!(summary(&events[0]), opening);
        let mut spoken: Vec<String> = Vec::new();
        for event in &events {
            let Payload::OutputStreaming(output) = &event.payload else { continue };
            let hints = event.envelope.localization_hints.as_ref().and_then(|h| h.primary_language.clone());
            spoken.extend(output.language.clone().or(hints).map(|tag| tag.to_string()));
        }
        spoken.dedup();
        assert_eq!(spoken, ["en", "es", "de", "ar", "yo"]);
    }
}

#[tokio::test(start_paused = true)]
async fn report_is_delivered_whole_in_chunks() {
    let events = play_to_subscriber(Scene::Report, AnswerBehavior::Yes, "en").await;
    assert_eq!(text(&events), include_str!("report.md"));
    let pieces = events.iter().filter(|e| e.core_type() == Some(CoreType::OutputStreaming)).count();
    assert!((10..80).contains(&pieces), "{pieces}");
}

#[test]
fn scenes_are_found_by_name() {
    for scene in Scene::ALL {
        assert_eq!(Scene::find(scene.name()), Some(scene));
        assert!(scene.description().ends_with('.'));
    }
    assert_eq!(Scene::find("opera"), None);
}

#[test]
fn tokens_concatenate_to_the_text() {
    let said = "Mò ń kó àwọn wákàtí jọ.";
    assert_eq!(tokens(said).collect::<String>(), said);
    assert!(tokens(said).all(|token| (1..=5).contains(&token.chars().count())));
}
