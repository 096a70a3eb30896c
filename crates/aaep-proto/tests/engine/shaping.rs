//! Shaping of the events of one subscription, and when they are sent (5.5.4, 5.6).

use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::{OutputId, SessionId};
use aaep_proto::message::{CoreType, ErrorCategory, Progress, ProgressUpdated};
use aaep_proto::record::Decimal;
use serde_json::{Value, json};

use crate::harness::{EngineHarness, Received};

impl EngineHarness {
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

    /// Returns the arrival time and the short name of each event.
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
    let mut harness = EngineHarness::new();
    let reader = harness.join(capabilities);
    let session = harness.start();
    let output = harness.open(&session);
    for token in TEXT.split_inclusive(' ') {
        harness.write(&session, &output, token);
    }
    harness.finish(&session, &output);
    harness.chunks(reader)
}

fn texts(boundaries: Value) -> Vec<(String, String)> {
    stream(json!({"coalesce_boundaries": boundaries})).into_iter().map(|(text, _, hint, _)| (text, hint)).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn text_is_cut_at_the_finest_requested_boundary() {
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
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"coalesce_boundaries": ["sentence"]}));
    let session = harness.start();
    let output = harness.open(&session);
    for token in ["Cafe", "\u{301} ", "fermé", ". Ba", "r ouvert."] {
        harness.write(&session, &output, token);
    }
    harness.finish(&session, &output);
    assert_eq!(
        harness.chunks(reader),
        [("Café fermé. ".into(), 0, "sentence".into(), false), ("Bar ouvert.".into(), 12, "sentence".into(), true)]
    );
}

#[test]
fn an_output_without_text_still_ends() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    let output = harness.open(&session);
    harness.finish(&session, &output);
    assert_eq!(harness.chunks(reader), [(String::new(), 0, "completion".into(), true)]);
}

#[test]
fn long_text_is_cut_below_the_chunk_size_limit() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"coalesce_boundaries": ["completion"]}));
    let session = harness.start();
    let output = harness.open(&session);
    let text = "abcdefghij".repeat(10_000);
    harness.write(&session, &output, &text);
    harness.finish(&session, &output);
    let chunks = harness.chunks(reader);
    assert!(chunks.len() > 5 && chunks.iter().all(|c| c.0.chars().count() <= 16_384));
    assert_eq!(harness.texts(reader).concat(), text);
}

#[test]
fn rate_is_respected_and_waiting_events_are_coalesced() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"max_events_per_second": 1}));
    let session = harness.start(); // session.started is sent, idle>thinking waits
    let output = harness.open(&session); // thinking>writing_output is coalesced into it
    for sentence in ["One is here. ", "Two is there. ", "Three is far. ", "Four"] {
        harness.write(&session, &output, sentence);
    }
    harness.pass(1_500);
    harness.finish(&session, &output);
    harness.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    harness.pass(10_000);
    let names: Vec<(u64, &str)> = vec![
        (0, "session.started"),
        (1_000, "state.changed"),
        (2_000, "output.streaming"),
        (3_000, "session.completed"),
    ];
    assert_eq!(harness.times(reader), names.into_iter().map(|(t, n)| (t, n.to_owned())).collect::<Vec<_>>());
    assert_eq!(harness.states(reader), ["idle>writing_output"]);
    assert_eq!(
        harness.chunks(reader),
        [("One is here. Two is there. Three is far. Four".into(), 0, "completion".into(), true)]
    );
}

#[test]
fn only_the_newest_progress_is_sent() {
    let mut harness = EngineHarness::new();
    let reader =
        harness.join(json!({"max_events_per_second": 2, "event_filters": {"exclude": ["aaep:agent.state.changed"]}}));
    let session = harness.start();
    for percent in 0..50 {
        harness.progress(&session, f64::from(percent));
    }
    harness.pass(5_000);
    assert_eq!(harness.count(reader, CoreType::ProgressUpdated), 2);
    let last = serde_json::to_value(harness.events(reader).pop().unwrap()).unwrap();
    assert_eq!(last["progress"]["percent"], 49);
}

#[test]
fn critical_events_bypass_filters_and_rate_limits() {
    let mut harness = EngineHarness::new();
    let deaf = harness
        .join(json!({"event_filters": {"include": [], "exclude": ["aaep:*"]}, "supports_confirmation_reply": true}));
    let slow = harness.join(json!({"max_events_per_second": 1}));
    let session = harness.start();
    let output = harness.open(&session);
    harness.write(&session, &output, "A sentence that waits. Another one. ");
    harness.clear();
    let ask = aaep_proto::confirm::Confirmation::new("Go?", "It goes.");
    harness.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    assert_eq!(harness.names(deaf), ["awaiting.confirmation"]);
    assert_eq!(harness.names(slow), ["awaiting.confirmation"], "it overtakes the waiting events");
    // The text that was overtaken is not lost; the stale state change is.
    harness.finish(&session, &output);
    harness.pass(10_000);
    assert_eq!(harness.texts(slow).concat(), "A sentence that waits. Another one. ");
}

#[test]
fn error_is_sent_after_the_waiting_events_of_its_session() {
    let mut harness = EngineHarness::new();
    let slow = harness.join(json!({"max_events_per_second": 1}));
    let session = harness.start();
    let output = harness.open(&session);
    harness.write(&session, &output, "A sentence that waits. Another one. And a ha");
    harness.act(|engine, cx| engine.fail_session(cx, &session, ErrorCategory::Permanent, "Broken.")).unwrap();
    assert_eq!(harness.names(slow), ["session.started", "output.streaming", "session.errored"]);
    assert_eq!(harness.texts(slow), ["A sentence that waits. Another one. And a ha"]);
    // Events sent ahead of the rate use up budget: the next session.started waits two seconds.
    let next = harness.start();
    harness.pass(1_999);
    assert_eq!(harness.names(slow).len(), 3);
    harness.pass(1);
    assert_eq!(harness.names(slow)[3], "session.started");
    harness.act(|engine, cx| engine.complete_session(cx, &next, "Done.")).unwrap();
}

#[test]
fn question_is_never_sent_before_the_start_of_its_session() {
    let mut harness = EngineHarness::new();
    let slow = harness.join(json!({"max_events_per_second": 1, "supports_confirmation_reply": true}));
    let first = harness.start();
    harness.act(|engine, cx| engine.complete_session(cx, &first, "Done.")).unwrap();
    let second = harness.start();
    let ask = aaep_proto::confirm::Confirmation::new("Go?", "It goes.");
    harness.act(|engine, cx| engine.ask(cx, &second, ask)).unwrap();
    let of_second: Vec<String> = harness
        .events(slow)
        .iter()
        .filter(|e| e.envelope.session_id == second)
        .map(|e| e.type_name().replace("aaep:agent.", ""))
        .collect();
    assert_eq!(of_second, ["session.started", "awaiting.confirmation"]);
}

#[test]
fn text_is_sent_no_faster_than_the_negotiated_pace() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"pace_wpm": 60}));
    let session = harness.start();
    let output = harness.open(&session);
    harness.write(&session, &output, "One two three four. "); // four words, four seconds
    harness.write(&session, &output, "Five six. Seven eight. Nine");
    harness.pass(3_999);
    assert_eq!(harness.texts(reader), ["One two three four. "]);
    harness.pass(1);
    assert_eq!(
        harness.texts(reader),
        ["One two three four. ", "Five six. Seven eight. "],
        "what waited has grown together"
    );
    harness.finish(&session, &output);
    harness.pass(3_999);
    assert_eq!(harness.chunks(reader).len(), 2);
    harness.pass(1);
    assert_eq!(harness.texts(reader).concat(), "One two three four. Five six. Seven eight. Nine");
}

#[test]
fn low_cognitive_load_omits_background_events() {
    let mut harness = EngineHarness::new();
    let calm = harness.join(json!({"cognitive_load": "low", "coalesce_boundaries": ["sentence", "completion"]}));
    let session = harness.start();
    let output = harness.open(&session);
    harness.write(&session, &output, "One is here. Two is there. ");
    harness.progress(&session, 50.0);
    harness.finish(&session, &output);
    harness.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    assert_eq!(harness.names(calm), ["session.started", "output.streaming", "session.completed"]);
    assert_eq!(harness.texts(calm), ["One is here. Two is there. "]);
}

#[test]
fn subscriptions_with_equal_terms_share_bytes() {
    let mut harness = EngineHarness::new();
    let keys: Vec<_> = (0..3).map(|_| harness.join(json!({"preferred_verbosity": "terse"}))).collect();
    let session = harness.start();
    let output = harness.open(&session);
    harness.write(&session, &output, "One is here. Two");
    harness.finish(&session, &output);
    let ids = |key| harness.events(key).iter().map(|e| e.envelope.event_id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(keys[0]), ids(keys[1]));
    assert_eq!(ids(keys[0]), ids(keys[2]));
}

#[test]
fn equal_backlogs_are_coalesced_once() {
    let mut harness = EngineHarness::new();
    let keys: Vec<_> = (0..2).map(|_| harness.join(json!({"max_events_per_second": 1}))).collect();
    let session = harness.start();
    let output = harness.open(&session);
    harness.write(&session, &output, "One is here. Two is there. Three is far. Four");
    harness.finish(&session, &output);
    harness.pass(5_000);
    let texts = |key| {
        harness
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
fn shaped_variants_of_an_event_keep_its_id() {
    let mut harness = EngineHarness::new();
    let (plain, terse) = (harness.join(json!({})), harness.join(json!({"preferred_verbosity": "terse"})));
    harness.start();
    assert_eq!(harness.events(plain)[0].envelope.event_id, harness.events(terse)[0].envelope.event_id);
}

#[test]
fn unblocked_link_receives_critical_events_first() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    harness.act(|engine, cx| engine.set_blocked(cx, reader, true));
    let output = harness.open(&session);
    harness.write(&session, &output, "One is here. Two is there. Three");
    let ask = aaep_proto::confirm::Confirmation::new("Go?", "It goes.");
    harness.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    harness.clear();
    harness.act(|engine, cx| engine.set_blocked(cx, reader, false));
    assert_eq!(harness.names(reader), ["awaiting.confirmation", "output.streaming"]);
    assert_eq!(harness.texts(reader), ["One is here. Two is there. "]);
}
