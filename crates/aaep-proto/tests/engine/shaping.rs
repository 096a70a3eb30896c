//! What one subscription gets, and when (5.5.4, 5.6).

use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::{OutputId, SessionId};
use aaep_proto::message::{CoreType, ErrorCategory, Progress, ProgressUpdated};
use aaep_proto::record::Decimal;
use serde_json::{Value, json};

use crate::harness::{Received, World};

impl World {
    fn open(&mut self, session: &SessionId) -> OutputId {
        self.act(|engine, cx| engine.open_output(cx, session, "text/plain", None)).unwrap()
    }

    fn write(&mut self, session: &SessionId, output: &OutputId, text: &str) {
        self.act(|engine, cx| engine.write(cx, session, output, text)).unwrap();
    }

    fn finish(&mut self, session: &SessionId, output: &OutputId) {
        self.act(|engine, cx| engine.finish_output(cx, session, output)).unwrap();
    }

    fn progress(&mut self, session: &SessionId, percent: f64) {
        let progress = Progress { percent: Some(Decimal(percent)), ..Progress::default() };
        let updated = ProgressUpdated { progress, ..ProgressUpdated::default() };
        self.act(|engine, cx| engine.emit(cx, session, updated.into())).unwrap();
    }

    /// When each event came, with its short name.
    fn times(&self, key: SubscriptionKey) -> Vec<(u64, String)> {
        let all = self.received.get(&key).into_iter().flatten();
        all.filter_map(|(at, r)| match r {
            Received::Event(e) => Some((*at, e.type_name().replace("aaep:agent.", ""))),
            Received::Message(_) => None,
        })
        .collect()
    }
}

const TEXT: &str = "It is done. Nothing else moved.\n\nYou have 12,000 dollars left.";

/// Streams the text token by token to one subscription.
fn stream(capabilities: Value) -> Vec<(String, u64, String, bool)> {
    let mut world = World::new();
    let reader = world.join(capabilities);
    let session = world.start();
    let output = world.open(&session);
    for token in TEXT.split_inclusive(' ') {
        world.write(&session, &output, token);
    }
    world.finish(&session, &output);
    world.chunks(reader)
}

fn texts(boundaries: Value) -> Vec<(String, String)> {
    stream(json!({"coalesce_boundaries": boundaries})).into_iter().map(|(text, _, hint, _)| (text, hint)).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn text_is_cut_at_the_finest_boundary_that_was_asked_for() {
    assert_eq!(
        texts(json!(["sentence", "completion"])),
        pairs(&[
            ("It is done. ", "sentence"),
            ("Nothing else moved.\n\n", "sentence"),
            ("You have 12,000 dollars left.", "completion")
        ])
    );
    assert_eq!(
        texts(json!(["paragraph", "completion"])),
        pairs(&[("It is done. Nothing else moved.\n\n", "paragraph"), ("You have 12,000 dollars left.", "completion")])
    );
    assert_eq!(texts(json!(["completion"])), pairs(&[(TEXT, "completion")]));
    assert_eq!(
        texts(json!(["sentence", "paragraph"])),
        pairs(&[
            ("It is done. ", "sentence"),
            ("Nothing else moved.\n\n", "paragraph"),
            ("You have 12,000 dollars left.", "paragraph")
        ])
    );
    let words = texts(json!(["word"]));
    assert!(words.len() > 8 && words.iter().all(|(_, hint)| hint == "word"), "{words:?}");
    let tokens = texts(json!(["none"]));
    assert!(tokens.len() >= 8, "{tokens:?}");
}

#[test]
fn the_whole_text_arrives_with_exact_positions() {
    for boundaries in
        [json!(["none"]), json!(["word"]), json!(["sentence"]), json!(["paragraph"]), json!(["completion"])]
    {
        let chunks = stream(json!({"coalesce_boundaries": boundaries}));
        let mut position = 0;
        for (text, at, _, _) in &chunks {
            assert_eq!(*at, position);
            position += text.chars().count() as u64;
        }
        assert_eq!(chunks.iter().map(|c| c.0.as_str()).collect::<String>(), TEXT);
        assert_eq!(
            chunks.iter().map(|c| c.3).collect::<Vec<_>>().iter().rposition(|c| !c),
            chunks.len().checked_sub(2)
        );
        assert!(chunks.last().unwrap().3);
    }
}

#[test]
fn positions_count_characters_of_the_composed_text() {
    let mut world = World::new();
    let reader = world.join(json!({"coalesce_boundaries": ["sentence"]}));
    let session = world.start();
    let output = world.open(&session);
    for token in ["Cafe", "\u{301} ", "fermé", ". Ba", "r ouvert."] {
        world.write(&session, &output, token);
    }
    world.finish(&session, &output);
    assert_eq!(
        world.chunks(reader),
        [("Café fermé. ".into(), 0, "sentence".into(), false), ("Bar ouvert.".into(), 12, "sentence".into(), true)]
    );
}

#[test]
fn an_output_without_text_still_ends() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    let output = world.open(&session);
    world.finish(&session, &output);
    assert_eq!(world.chunks(reader), [(String::new(), 0, "completion".into(), true)]);
}

#[test]
fn very_long_text_is_cut_below_the_bound_of_a_chunk() {
    let mut world = World::new();
    let reader = world.join(json!({"coalesce_boundaries": ["completion"]}));
    let session = world.start();
    let output = world.open(&session);
    let text = "abcdefghij".repeat(10_000);
    world.write(&session, &output, &text);
    world.finish(&session, &output);
    let chunks = world.chunks(reader);
    assert!(chunks.len() > 5 && chunks.iter().all(|c| c.0.chars().count() <= 16_384));
    assert_eq!(world.texts(reader).concat(), text);
}

#[test]
fn the_rate_is_kept_and_what_waits_folds_together() {
    let mut world = World::new();
    let reader = world.join(json!({"max_events_per_second": 1}));
    let session = world.start(); // started goes out, idle>thinking waits
    let output = world.open(&session); // thinking>writing_output folds into it
    for sentence in ["One is here. ", "Two is there. ", "Three is far. ", "Four"] {
        world.write(&session, &output, sentence);
    }
    world.pass(1_500);
    world.finish(&session, &output);
    world.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    world.pass(10_000);
    let names: Vec<(u64, &str)> = vec![
        (0, "session.started"),
        (1_000, "state.changed"),
        (2_000, "output.streaming"),
        (3_000, "session.completed"),
    ];
    assert_eq!(world.times(reader), names.into_iter().map(|(t, n)| (t, n.to_owned())).collect::<Vec<_>>());
    assert_eq!(world.states(reader), ["idle>writing_output"]);
    assert_eq!(
        world.chunks(reader),
        [("One is here. Two is there. Three is far. Four".into(), 0, "completion".into(), true)]
    );
}

#[test]
fn only_the_newest_progress_is_told() {
    let mut world = World::new();
    let reader =
        world.join(json!({"max_events_per_second": 2, "event_filters": {"exclude": ["aaep:agent.state.changed"]}}));
    let session = world.start();
    for percent in 0..50 {
        world.progress(&session, f64::from(percent));
    }
    world.pass(5_000);
    assert_eq!(world.count(reader, CoreType::ProgressUpdated), 2);
    let last = serde_json::to_value(world.events(reader).pop().unwrap()).unwrap();
    assert_eq!(last["progress"]["percent"], 49);
}

#[test]
fn critical_events_pass_filters_and_rates_at_once() {
    let mut world = World::new();
    let deaf = world
        .join(json!({"event_filters": {"include": [], "exclude": ["aaep:*"]}, "supports_confirmation_reply": true}));
    let slow = world.join(json!({"max_events_per_second": 1}));
    let session = world.start();
    let output = world.open(&session);
    world.write(&session, &output, "A sentence that waits. Another one. ");
    world.clear();
    let ask = aaep_proto::confirm::Confirmation::new("Go?", "It goes.");
    world.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    assert_eq!(world.names(deaf), ["awaiting.confirmation"]);
    assert_eq!(world.names(slow), ["awaiting.confirmation"], "it overtakes what waits");
    // The text that was overtaken is not lost; the stale state change is.
    world.finish(&session, &output);
    world.pass(10_000);
    assert_eq!(world.texts(slow).concat(), "A sentence that waits. Another one. ");
}

#[test]
fn an_error_takes_the_rest_of_its_session_along() {
    let mut world = World::new();
    let slow = world.join(json!({"max_events_per_second": 1}));
    let session = world.start();
    let output = world.open(&session);
    world.write(&session, &output, "A sentence that waits. Another one. And a ha");
    world.act(|engine, cx| engine.fail_session(cx, &session, ErrorCategory::Permanent, "Broken.")).unwrap();
    assert_eq!(world.names(slow), ["session.started", "output.streaming", "session.errored"]);
    assert_eq!(world.texts(slow), ["A sentence that waits. Another one. And a ha"]);
    // What went out of turn is paid for: one text is owed, so the next start waits two seconds.
    let next = world.start();
    world.pass(1_999);
    assert_eq!(world.names(slow).len(), 3);
    world.pass(1);
    assert_eq!(world.names(slow)[3], "session.started");
    world.act(|engine, cx| engine.complete_session(cx, &next, "Done.")).unwrap();
}

#[test]
fn a_question_never_comes_before_its_session() {
    let mut world = World::new();
    let slow = world.join(json!({"max_events_per_second": 1, "supports_confirmation_reply": true}));
    let first = world.start();
    world.act(|engine, cx| engine.complete_session(cx, &first, "Done.")).unwrap();
    let second = world.start();
    let ask = aaep_proto::confirm::Confirmation::new("Go?", "It goes.");
    world.act(|engine, cx| engine.ask(cx, &second, ask)).unwrap();
    let of_second: Vec<String> = world
        .events(slow)
        .iter()
        .filter(|e| e.envelope.session_id == second)
        .map(|e| e.type_name().replace("aaep:agent.", ""))
        .collect();
    assert_eq!(of_second, ["session.started", "awaiting.confirmation"]);
}

#[test]
fn text_is_handed_over_no_faster_than_it_can_be_announced() {
    let mut world = World::new();
    let reader = world.join(json!({"pace_wpm": 60}));
    let session = world.start();
    let output = world.open(&session);
    world.write(&session, &output, "One two three four. "); // four words, four seconds
    world.write(&session, &output, "Five six. Seven eight. Nine");
    world.pass(3_999);
    assert_eq!(world.texts(reader), ["One two three four. "]);
    world.pass(1);
    assert_eq!(
        world.texts(reader),
        ["One two three four. ", "Five six. Seven eight. "],
        "what waited has grown together"
    );
    world.finish(&session, &output);
    world.pass(3_999);
    assert_eq!(world.chunks(reader).len(), 2);
    world.pass(1);
    assert_eq!(world.texts(reader).concat(), "One two three four. Five six. Seven eight. Nine");
}

#[test]
fn low_load_hears_what_matters_only() {
    let mut world = World::new();
    let calm = world.join(json!({"cognitive_load": "low", "coalesce_boundaries": ["sentence", "completion"]}));
    let session = world.start();
    let output = world.open(&session);
    world.write(&session, &output, "One is here. Two is there. ");
    world.progress(&session, 50.0);
    world.finish(&session, &output);
    world.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    assert_eq!(world.names(calm), ["session.started", "output.streaming", "session.completed"]);
    assert_eq!(world.texts(calm), ["One is here. Two is there. "]);
}

#[test]
fn the_same_terms_share_the_same_bytes() {
    let mut world = World::new();
    let keys: Vec<_> = (0..3).map(|_| world.join(json!({"preferred_verbosity": "terse"}))).collect();
    let session = world.start();
    let output = world.open(&session);
    world.write(&session, &output, "One is here. Two");
    world.finish(&session, &output);
    let ids = |key| world.events(key).iter().map(|e| e.envelope.event_id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(keys[0]), ids(keys[1]));
    assert_eq!(ids(keys[0]), ids(keys[2]));
}

#[test]
fn what_waited_together_is_put_together_once() {
    let mut world = World::new();
    let keys: Vec<_> = (0..2).map(|_| world.join(json!({"max_events_per_second": 1}))).collect();
    let session = world.start();
    let output = world.open(&session);
    world.write(&session, &output, "One is here. Two is there. Three is far. Four");
    world.finish(&session, &output);
    world.pass(5_000);
    let texts = |key| {
        world
            .events(key)
            .iter()
            .filter(|e| e.core_type() == Some(CoreType::OutputStreaming))
            .map(|e| e.envelope.event_id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(keys[0]), texts(keys[1]));
    assert_eq!(texts(keys[0]).len(), 1);
}

#[test]
fn the_same_event_keeps_its_id_in_every_shape() {
    let mut world = World::new();
    let (plain, terse) = (world.join(json!({})), world.join(json!({"preferred_verbosity": "terse"})));
    world.start();
    assert_eq!(world.events(plain)[0].envelope.event_id, world.events(terse)[0].envelope.event_id);
}

#[test]
fn a_blocked_link_gets_critical_events_first_when_it_opens() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    world.act(|engine, cx| engine.set_blocked(cx, reader, true));
    let output = world.open(&session);
    world.write(&session, &output, "One is here. Two is there. Three");
    let ask = aaep_proto::confirm::Confirmation::new("Go?", "It goes.");
    world.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    world.clear();
    world.act(|engine, cx| engine.set_blocked(cx, reader, false));
    assert_eq!(world.names(reader), ["awaiting.confirmation", "output.streaming"]);
    assert_eq!(world.texts(reader), ["One is here. Two is there. "]);
}
