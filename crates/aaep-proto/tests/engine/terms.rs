//! Everything that is sent after the response to a renegotiation follows the new terms (5.7.2, decision 77).

use aaep_proto::confirm::Confirmation;
use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::{OutputId, SessionId};
use aaep_proto::message::{CoreType, Localized, Payload, Progress, ProgressUpdated, ToolInvoked};
use serde_json::{Value, json};

use crate::harness::{EngineHarness, Received};

/// A subscription with a blocked link, so that its events are held.
struct Scene {
    harness: EngineHarness,
    reader: SubscriptionKey,
    session: SessionId,
    output: OutputId,
}

impl Scene {
    fn new(capabilities: Value) -> Scene {
        let mut harness =
            EngineHarness::with(|config| config.offer.languages = ["en", "de"].map(|l| l.parse().unwrap()).to_vec());
        let reader = harness.join(capabilities);
        let session = harness.start();
        let output = harness.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
        harness.pass(20_000);
        harness.clear();
        harness.act(|engine, cx| engine.set_blocked(cx, reader, true));
        Scene { harness, reader, session, output }
    }

    fn write(&mut self, text: &str) {
        self.harness.act(|engine, cx| engine.write(cx, &self.session, &self.output, text)).unwrap();
    }

    fn finish(&mut self) {
        self.harness.act(|engine, cx| engine.finish_output(cx, &self.session, &self.output)).unwrap();
    }

    fn renegotiate(&mut self, capabilities: Value) {
        let id = self.harness.engine.subscription_id(self.reader).unwrap().clone();
        let change = json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": capabilities});
        self.harness.send(self.reader, change);
    }

    fn unblock(&mut self) {
        self.harness.act(|engine, cx| engine.set_blocked(cx, self.reader, false));
    }

    fn progress(&mut self, text: &str, german: &str) {
        let progress = Progress { step: Some(1), ..Progress::default() };
        let updated = ProgressUpdated { progress, summary_normal: Some(text.into()), ..ProgressUpdated::default() };
        let updated = Localized::new(updated).text("summary_normal", &"de".parse().unwrap(), german).into_payload();
        self.harness.act(|engine, cx| engine.emit_localized(cx, &self.session, updated)).unwrap();
    }

    fn tool(&mut self) {
        let tool = ToolInvoked {
            tool: "look".into(),
            summary_terse: Some("Look.".into()),
            summary_normal: "Looking.".into(),
            summary_detailed: Some("Looking it up.".into()),
            ..ToolInvoked::default()
        };
        self.harness.act(|engine, cx| engine.invoke_tool(cx, &self.session, tool)).unwrap();
    }

    fn chunks(&self) -> Vec<(String, u64, String, bool)> {
        self.harness.chunks(self.reader)
    }
}

#[test]
fn held_text_waits_for_completion_if_requested() {
    let mut scene = Scene::new(json!({"coalesce_boundaries": ["none"]}));
    for token in ["One is here. ", "Two is", " there. ", "Three"] {
        scene.write(token);
    }
    scene.renegotiate(json!({"coalesce_boundaries": ["completion"]}));
    scene.unblock();
    assert_eq!(scene.chunks(), [], "nothing is complete yet");
    scene.write(" is far.");
    scene.finish();
    let whole = "One is here. Two is there. Three is far.";
    assert_eq!(scene.chunks(), [(whole.to_owned(), 0, "completion".to_owned(), true)]);
}

/// Covers every pair of old and new boundaries, with text held inside the output or after its end, with and without
/// another subscription that already has the new terms.
#[test]
fn held_text_is_cut_where_the_new_terms_allow() {
    let sets = [
        json!(["none"]),
        json!(["word"]),
        json!(["sentence"]),
        json!(["sentence", "completion"]),
        json!(["paragraph", "completion"]),
        json!(["completion"]),
    ];
    let text = "One is here. Two is there.\n\nThree is far. Four is gone. Five";
    for (old, new, company, sent, finished) in cases(&sets) {
        let mut scene = Scene::new(json!({"coalesce_boundaries": old}));
        if company {
            scene.harness.join(json!({"coalesce_boundaries": new}));
        }
        let (head, tail) = text.split_at(45);
        for (n, token) in head.split_inclusive(' ').enumerate() {
            if n == sent {
                scene.unblock();
                scene.harness.act(|engine, cx| engine.set_blocked(cx, scene.reader, true));
            }
            scene.write(token);
        }
        if finished {
            scene.write(tail);
            scene.finish();
        }
        let before = scene.chunks().len();
        scene.renegotiate(json!({"coalesce_boundaries": new}));
        scene.unblock();
        if !finished {
            scene.write(tail);
            scene.finish();
        }
        let case = format!("{old} to {new}, company {company}, sent {sent}, finished {finished}: {:?}", scene.chunks());
        let mut position = 0;
        for (n, (chunk, at, hint, complete)) in scene.chunks().iter().enumerate() {
            assert_eq!(*at, position, "{case}");
            position += chunk.chars().count() as u64;
            let allowed = if n < before { &old } else { &new };
            assert!(allowed.as_array().unwrap().contains(&json!(hint)), "{case}");
            let inside = ["word", "none"].contains(&hint.as_str()) || *complete;
            assert!(n < before || inside || chunk.ends_with([' ', '\n']), "{case}");
            assert!(n < before || hint != "paragraph" || *complete || chunk.ends_with("\n\n"), "{case}");
        }
        assert_eq!(scene.harness.texts(scene.reader).concat(), text, "{case}");
        assert!(scene.chunks().last().unwrap().3, "{case}");
    }
}

fn cases(sets: &[Value]) -> Vec<(Value, Value, bool, usize, bool)> {
    let mut all = Vec::new();
    for (old, new) in sets.iter().flat_map(|old| sets.iter().map(move |new| (old, new))) {
        for company in [false, true] {
            for sent in [0, 2, 4] {
                for finished in [false, true] {
                    all.push((old.clone(), new.clone(), company, sent, finished));
                }
            }
        }
    }
    all
}

#[test]
fn held_text_is_sent_before_later_events() {
    let mut scene = Scene::new(json!({"event_filters": {"exclude": ["aaep:agent.state.changed"]}}));
    scene.write("One is here. Two is there. ");
    scene.tool();
    scene.renegotiate(json!({"coalesce_boundaries": ["none"]}));
    scene.unblock();
    assert_eq!(scene.harness.names(scene.reader), ["output.streaming", "tool.invoked"]);
}

#[test]
fn held_events_that_are_no_longer_wanted_are_dropped_but_never_critical_ones() {
    let mut scene = Scene::new(json!({"supports_confirmation_reply": true}));
    scene.write("One is here. ");
    scene.tool();
    scene.progress("One.", "Eins.");
    let ask = Confirmation::new("Go?", "It goes.");
    scene.harness.act(|engine, cx| engine.ask(cx, &scene.session, ask)).unwrap();
    scene.renegotiate(json!({"event_filters": {"include": ["aaep:agent.session.*"]}}));
    scene.unblock();
    scene.harness.pass(10_000);
    assert_eq!(scene.harness.names(scene.reader), ["awaiting.confirmation"]);
}

#[test]
fn held_events_are_sent_in_the_new_language_and_length() {
    let mut scene = Scene::new(json!({"languages": ["en"], "preferred_verbosity": "detailed"}));
    scene.tool();
    scene.progress("Step one.", "Erster Schritt.");
    scene.renegotiate(json!({"languages": ["de"], "preferred_verbosity": "terse"}));
    scene.unblock();
    let events = scene.harness.events(scene.reader);
    let tool = events.iter().find_map(|e| if let Payload::ToolInvoked(t) = &e.payload { Some(t) } else { None });
    let tool = tool.unwrap();
    assert_eq!((tool.summary_terse.as_deref(), tool.summary_detailed.as_deref()), (Some("Look."), None));
    let progress = events.iter().find_map(|e| match &e.payload {
        Payload::ProgressUpdated(p) => Some((p.summary_normal.clone(), e.envelope.localization_hints.clone())),
        _ => None,
    });
    let (text, hints) = progress.unwrap();
    assert_eq!(text.as_deref(), Some("Erster Schritt."));
    assert_eq!(hints.unwrap().primary_language.unwrap().as_str(), "de");
}

#[test]
fn held_critical_event_is_sent_in_the_new_language() {
    let mut scene = Scene::new(json!({"languages": ["en"], "supports_confirmation_reply": true}));
    let ask = Confirmation::new("Go?", "It goes.").in_language(&"de".parse().unwrap(), "Los?", "Es geht los.");
    scene.harness.act(|engine, cx| engine.ask(cx, &scene.session, ask)).unwrap();
    scene.renegotiate(json!({"languages": ["de"]}));
    scene.unblock();
    let asked = scene.harness.events(scene.reader).into_iter().find_map(|e| match &e.payload {
        Payload::AwaitingConfirmation(asked) => Some(asked.action.clone()),
        _ => None,
    });
    assert_eq!(asked.as_deref(), Some("Los?"));
}

#[test]
fn low_load_drops_held_background_events_and_holds_text_until_the_end() {
    let mut scene = Scene::new(json!({}));
    scene.progress("One.", "Eins.");
    scene.write("One is here. Two is there. ");
    scene.renegotiate(json!({"cognitive_load": "low"}));
    scene.unblock();
    assert_eq!(scene.harness.names(scene.reader), Vec::<String>::new());
    scene.finish();
    assert_eq!(scene.chunks().len(), 1);
    assert!(scene.chunks()[0].3 && scene.chunks()[0].2 == "completion");
    // The next state change starts from the last state that was sent.
    scene.harness.act(|engine, cx| engine.set_state(cx, &scene.session, "deciding", Some("Deciding."))).unwrap();
    assert_eq!(scene.harness.states(scene.reader), ["writing_output>deciding"]);
}

#[test]
fn held_events_follow_the_new_rate() {
    let mut scene = Scene::new(json!({}));
    for _ in 0..6 {
        scene.tool();
    }
    scene.renegotiate(json!({"max_events_per_second": 1, "event_filters": {"exclude": ["aaep:agent.state.changed"]}}));
    scene.unblock();
    assert_eq!(scene.harness.count(scene.reader, CoreType::ToolInvoked), 1);
    scene.harness.pass(3_000);
    assert_eq!(scene.harness.count(scene.reader, CoreType::ToolInvoked), 4);
}

#[test]
fn held_text_follows_the_new_pace() {
    let mut scene = Scene::new(json!({"pace_wpm": 60}));
    scene.unblock();
    scene.write("One two three four five six seven eight nine ten. "); // ten seconds
    scene.write("Eleven is here. ");
    assert_eq!(scene.chunks().len(), 1);
    scene.renegotiate(json!({"pace_wpm": 600})); // one second
    scene.harness.pass(999);
    assert_eq!(scene.chunks().len(), 1);
    scene.harness.pass(1);
    assert_eq!(scene.chunks().len(), 2);
    scene.renegotiate(json!({"pace_wpm": 60}));
    scene.write("Twelve is there. ");
    scene.harness.pass(2_999);
    assert_eq!(scene.chunks().len(), 2);
    scene.harness.pass(1);
    assert_eq!(scene.chunks().len(), 3);
}

#[test]
fn response_precedes_events_with_the_new_terms() {
    let mut scene = Scene::new(json!({"max_events_per_second": 1}));
    scene.unblock();
    scene.write("One is here. ");
    scene.write("Two is there. ");
    scene.harness.clear();
    scene.renegotiate(json!({"max_events_per_second": 50, "coalesce_boundaries": ["word"]}));
    scene.harness.pass(1_000);
    let all = &scene.harness.received[&scene.reader];
    assert!(matches!(all[0].1, Received::Message(_)) && all.len() > 1, "{all:?}");
}
