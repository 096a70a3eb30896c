//! The same sessions for everyone: few words or many, in each language, fast and slow.

use aaep_announce::{Profile, SubscriberKind};
use aaep_proto::confirm::{Clarification, Confirmation};
use aaep_proto::message::{CognitiveLoad, ErrorCategory, SessionErrored, ToolStatus, Verbosity};
use serde_json::json;

use crate::world::World;
use crate::{ANSWER, check, handoff, start, stream, tool};

/// What the demo writes about a garden.
const REPORT: &str = include_str!("../../../aaep-cli/src/demo/scenes/report.md");

const RECORDINGS: [&str; 2] =
    [include_str!("../../../../examples/banking.ndjson"), include_str!("../../../../examples/events.ndjson")];

/// Every profile that matters for how much is said.
fn everyone() -> impl Iterator<Item = Profile> {
    let languages = ["en", "es", "fr", "de", "ar", "yo"];
    let verbosities = [Verbosity::Terse, Verbosity::Normal, Verbosity::Detailed];
    let loads = [CognitiveLoad::Low, CognitiveLoad::Medium, CognitiveLoad::High];
    languages.into_iter().flat_map(move |language| {
        let verbosities = verbosities.clone();
        let loads = loads.clone();
        verbosities.into_iter().flat_map(move |verbosity| {
            loads.clone().map(move |cognitive_load| Profile {
                languages: vec![language.parse().unwrap(), "en".parse().unwrap()],
                verbosity: verbosity.clone(),
                cognitive_load,
                pace_wpm: 180,
                ..Profile::preset(SubscriberKind::ScreenReader)
            })
        })
    })
}

/// A long sentence, as legal texts have them, and a long word for it all.
fn winding(words: usize) -> String {
    let mut text: String = (1..words).map(|i| if i % 9 == 0 { "and, ".to_owned() } else { format!("w{i} ") }).collect();
    text.push_str("so.");
    text
}

fn ask(world: &mut World, session: &aaep_proto::id::SessionId) {
    let ask = Confirmation::new("Send the letter.", "Ada gets it.").irreversible();
    let token = world.act(|engine, cx| engine.ask(cx, session, ask)).unwrap();
    world.pass(40_000);
    world.reply(json!({"type": "confirmation.reply", "reply_token": token, "decision": "reject"}));
}

#[test]
fn recordings() {
    for profile in everyone() {
        for recording in RECORDINGS {
            let mut world = World::new(profile.clone(), &["en"]);
            world.replay(recording);
            check(&mut world);
        }
    }
}

#[test]
fn a_report_with_questions_in_its_middle() {
    for profile in everyone() {
        let mut world = World::new(profile, &["en"]);
        let session = start(&mut world, "Writing a report.");
        for _ in 0..2 {
            stream(&mut world, &session, REPORT, 5);
            ask(&mut world, &session);
            stream(&mut world, &session, ANSWER, 1);
            let ask = Clarification::choice("Which garden?", [("a", "The front one"), ("b", "The back one")]);
            let token = world.act(|engine, cx| engine.clarify(cx, &session, ask)).unwrap();
            world.pass(5_000);
            world.reply(json!({"type": "clarification.reply", "reply_token": token, "response": "a"}));
        }
        world.act(|engine, cx| engine.complete_session(cx, &session, REPORT)).unwrap();
        check(&mut world);
    }
}

#[test]
fn much_at_once_and_then_a_failure() {
    for profile in everyone() {
        let mut world = World::new(profile, &["en"]);
        let (first, second) = (start(&mut world, "Cleaning up."), start(&mut world, &winding(40)));
        for i in 0..6 {
            tool(&mut world, &first, &format!("sweep_room_{i}"), ToolStatus::Error);
            tool(&mut world, &second, &format!("paint_room_{i}"), ToolStatus::Success);
        }
        stream(&mut world, &second, &winding(150), 1);
        world.act(|engine, cx| engine.complete_session(cx, &second, winding(250))).unwrap();
        let errored = SessionErrored {
            error_code: Some("LOCKED".into()),
            summary_detailed: Some(winding(120)),
            remediation_hint: Some("Open the door.".into()),
            ..SessionErrored::new(ErrorCategory::Permanent, "The door is locked.")
        };
        world.act(|engine, cx| engine.end_session(cx, &first, errored.into())).unwrap();
        check(&mut world);
    }
}

#[test]
fn a_question_right_after_a_long_result() {
    for profile in everyone() {
        let mut world = World::new(profile, &["en"]);
        let (first, second) = (start(&mut world, "Reading."), start(&mut world, "Writing."));
        world.act(|engine, cx| engine.complete_session(cx, &first, REPORT)).unwrap();
        ask(&mut world, &second);
        world.act(|engine, cx| engine.emit(cx, &second, handoff().into())).unwrap();
        world.act(|engine, cx| engine.complete_session(cx, &second, winding(300))).unwrap();
        check(&mut world);
    }
}
