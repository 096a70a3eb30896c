//! The same sessions for every profile: terse and detailed, in each language, fast and slow.

use aaep_announce::{Profile, SubscriberKind};
use aaep_proto::confirm::{Clarification, Confirmation};
use aaep_proto::message::{CognitiveLoad, ErrorCategory, SessionErrored, ToolStatus, Verbosity};
use serde_json::json;

use crate::harness::ListenerHarness;
use crate::{ANSWER, check, handoff, start, stream, tool};

/// The output of the demo about a garden.
const REPORT: &str = include_str!("../../../aaep-cli/src/demo/scenes/report.md");

const RECORDINGS: [&str; 2] =
    [include_str!("../../../../examples/banking.ndjson"), include_str!("../../../../examples/events.ndjson")];

/// Returns profiles with every combination that affects how much is announced.
fn all_profiles() -> impl Iterator<Item = Profile> {
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

/// Returns one long sentence, as in legal texts, with a long word in it.
fn long_sentence(words: usize) -> String {
    let mut text: String = (1..words).map(|i| if i % 9 == 0 { "and, ".to_owned() } else { format!("w{i} ") }).collect();
    text.push_str("so.");
    text
}

fn ask(harness: &mut ListenerHarness, session: &aaep_proto::id::SessionId) {
    let ask = Confirmation::new("Send the letter.", "Ada gets it.").irreversible();
    let token = harness.update(|engine, cx| engine.ask(cx, session, ask)).unwrap();
    harness.advance_ms(40_000);
    harness.reply(json!({"type": "confirmation.reply", "reply_token": token, "decision": "reject"}));
}

#[test]
fn recordings_are_announced_for_every_profile() {
    for profile in all_profiles() {
        for recording in RECORDINGS {
            let mut harness = ListenerHarness::new(profile.clone(), &["en"]);
            harness.replay(recording);
            check(&mut harness);
        }
    }
}

#[test]
fn questions_during_a_report_are_announced_for_every_profile() {
    for profile in all_profiles() {
        let mut harness = ListenerHarness::new(profile, &["en"]);
        let session = start(&mut harness, "Writing a report.");
        for _ in 0..2 {
            stream(&mut harness, &session, REPORT, 5);
            ask(&mut harness, &session);
            stream(&mut harness, &session, ANSWER, 1);
            let ask = Clarification::choice("Which garden?", [("a", "The front one"), ("b", "The back one")]);
            let token = harness.update(|engine, cx| engine.clarify(cx, &session, ask)).unwrap();
            harness.advance_ms(5_000);
            harness.reply(json!({"type": "clarification.reply", "reply_token": token, "response": "a"}));
        }
        harness.update(|engine, cx| engine.complete_session(cx, &session, REPORT)).unwrap();
        check(&mut harness);
    }
}

#[test]
fn failure_after_a_burst_is_announced_for_every_profile() {
    for profile in all_profiles() {
        let mut harness = ListenerHarness::new(profile, &["en"]);
        let (first, second) = (start(&mut harness, "Cleaning up."), start(&mut harness, &long_sentence(40)));
        for i in 0..6 {
            tool(&mut harness, &first, &format!("sweep_room_{i}"), ToolStatus::Error);
            tool(&mut harness, &second, &format!("paint_room_{i}"), ToolStatus::Success);
        }
        stream(&mut harness, &second, &long_sentence(150), 1);
        harness.update(|engine, cx| engine.complete_session(cx, &second, long_sentence(250))).unwrap();
        let errored = SessionErrored {
            error_code: Some("LOCKED".into()),
            summary_detailed: Some(long_sentence(120)),
            remediation_hint: Some("Open the door.".into()),
            ..SessionErrored::new(ErrorCategory::Permanent, "The door is locked.")
        };
        harness.update(|engine, cx| engine.end_session(cx, &first, errored.into())).unwrap();
        check(&mut harness);
    }
}

#[test]
fn question_after_a_long_result_is_announced_for_every_profile() {
    for profile in all_profiles() {
        let mut harness = ListenerHarness::new(profile, &["en"]);
        let (first, second) = (start(&mut harness, "Reading."), start(&mut harness, "Writing."));
        harness.update(|engine, cx| engine.complete_session(cx, &first, REPORT)).unwrap();
        ask(&mut harness, &second);
        harness.update(|engine, cx| engine.emit(cx, &second, handoff().into())).unwrap();
        harness.update(|engine, cx| engine.complete_session(cx, &second, long_sentence(300))).unwrap();
        check(&mut harness);
    }
}
