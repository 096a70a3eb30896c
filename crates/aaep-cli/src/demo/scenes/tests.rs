//! Every scene, heard by a listener that says yes, no, or nothing. Time is held: nothing waits for real.

use aaep::message::{Capabilities, CoreType, Decision, Event, Payload, Response, ResponseKind};
use aaep::transport::{Link, Outbound};
use serde_json::json;

use super::*;

/// What the listener does when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Yes,
    No,
    Silent,
}

fn producer() -> Producer {
    let builder = Producer::builder("demo").name("Demo");
    languages().into_iter().fold(builder, |builder, language| builder.language(language)).build()
}

async fn join(producer: &Producer, language: &str) -> Link {
    let capabilities = json!({"supports_confirmation_reply": true, "supports_clarification_reply": true,
        "languages": [language]});
    let capabilities: Capabilities = serde_json::from_value(capabilities).unwrap();
    producer.subscribe_local("listener", capabilities).await.unwrap()
}

async fn answer(link: &Link, payload: &Payload, manner: Manner) {
    let yes = manner == Manner::Yes;
    match payload {
        _ if manner == Manner::Silent => {}
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

/// Plays a scene and answers what was heard, to the last word.
async fn hear(scene: Scene, manner: Manner, language: &str) -> Vec<Event> {
    let producer = producer();
    let mut link = join(&producer, language).await;
    let listener = tokio::spawn(async move {
        let mut events = Vec::new();
        while let Some(outgoing) = link.recv().await {
            let Outbound::Event(frame) = outgoing else { continue };
            answer(&link, &frame.event().payload, manner).await;
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

fn acts_for_good(event: &Event) -> bool {
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
async fn all_events_are_heard_and_nothing_is_wrong() {
    let mut seen = Vec::new();
    for scene in Scene::ALL {
        for manner in [Manner::Yes, Manner::No, Manner::Silent] {
            let events = hear(scene, manner, "en").await;
            assert_eq!(events.first().and_then(Event::core_type), Some(CoreType::SessionStarted));
            seen.extend(events.iter().filter_map(Event::core_type));
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 12, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_for_good_without_a_yes() {
    for scene in Scene::ALL {
        for manner in [Manner::No, Manner::Silent] {
            assert!(!hear(scene, manner, "en").await.iter().any(acts_for_good), "{scene:?} {manner:?}");
        }
    }
    let events = hear(Scene::Banking, Manner::Yes, "en").await;
    assert_eq!(events.iter().filter(|e| acts_for_good(e)).count(), 1);
    assert_eq!(text(&events), "Transferred $500 successfully. New balance: $12,000.");
}

#[tokio::test(start_paused = true)]
async fn silence_is_not_told_as_a_no() {
    let no = hear(Scene::Banking, Manner::No, "en").await.pop().unwrap();
    assert_eq!(
        (no.core_type(), summary(&no)),
        (Some(CoreType::SessionCompleted), "Nothing was transferred, as you wished.".into())
    );
    let silence = hear(Scene::Banking, Manner::Silent, "en").await.pop().unwrap();
    assert_eq!(silence.core_type(), Some(CoreType::SessionCancelled));
    assert!(summary(&silence).starts_with("Nobody said yes"), "{}", summary(&silence));
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_no_consent() {
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
    let plan = text(&hear(Scene::Trip, Manner::Yes, "en").await);
    for word in ["Ibadan", "ferry", "Travellers: 3.", "quiet seats"] {
        assert!(plan.contains(word), "{word}: {plan}");
    }
    let plan = text(&hear(Scene::Trip, Manner::Silent, "en").await);
    assert!(plan.contains("train") && plan.contains("Travellers: 1."), "{plan}");
    let stopped = hear(Scene::Photos, Manner::Yes, "en").await.pop().unwrap();
    let Payload::SessionCancelled(cancelled) = stopped.payload else { panic!("{stopped:?}") };
    assert_eq!(cancelled.cancelled_by, aaep::message::CancelledBy::User);
    let done = hear(Scene::Photos, Manner::No, "en").await.pop().unwrap();
    assert_eq!(done.core_type(), Some(CoreType::SessionCompleted));
}

#[tokio::test(start_paused = true)]
async fn tools_fail_in_both_ways_and_the_error_says_what_to_do() {
    let events = hear(Scene::Printer, Manner::Yes, "en").await;
    let status =
        |e: &Event| if let Payload::ToolCompleted(c) = &e.payload { Some(c.status.as_str().to_owned()) } else { None };
    assert_eq!(events.iter().filter_map(status).collect::<Vec<_>>(), ["error", "timeout"]);
    let Some(Payload::SessionErrored(errored)) = events.last().map(|e| &e.payload) else { panic!("{events:?}") };
    assert!(errored.remediation_hint.is_some());
}

#[tokio::test(start_paused = true)]
async fn everyone_hears_the_announcements_in_their_language() {
    for (language, opening) in [
        ("en", "Collecting the opening hours of the library."),
        ("es", "Reuniendo el horario de la biblioteca."),
        ("de", "Ich suche die Öffnungszeiten der Bibliothek zusammen."),
        ("ar", "أجمع ساعات عمل المكتبة."),
        ("yo", "Mò ń kó àwọn wákàtí ilé ìkàwé jọ."),
    ] {
        let events = hear(Scene::Greetings, Manner::Yes, language).await;
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
async fn the_report_arrives_whole_and_in_pieces() {
    let events = hear(Scene::Report, Manner::Yes, "en").await;
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
fn tokens_are_the_text() {
    let said = "Mò ń kó àwọn wákàtí jọ.";
    assert_eq!(tokens(said).collect::<String>(), said);
    assert!(tokens(said).all(|token| (1..=5).contains(&token.chars().count())));
}
