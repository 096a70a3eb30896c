//! Redaction of secrets and of deceptive characters before events are sent.

use aaep_proto::confirm::{Clarification, Confirmation};
use aaep_proto::engine::{EngineEffect, EngineError, SessionOptions};
use aaep_proto::id::OutputId;
use aaep_proto::message::{
    CoreType, EventMeta, HandoffRequested, HandoffTarget, Localized, Payload, Producer, StateChanged, ToolInvoked,
};
use aaep_proto::rule::Rule;
use serde_json::{Value, json};

use crate::harness::EngineHarness;

const KEY: &str = "ghp_abcdefghij0123456789ABCD";

/// Everything that a subscription received, as JSON.
fn received(harness: &EngineHarness, reader: aaep_proto::engine::SubscriptionKey) -> String {
    harness.events(reader).iter().map(|event| serde_json::to_string(event).unwrap()).collect()
}

fn text(harness: &EngineHarness, reader: aaep_proto::engine::SubscriptionKey) -> String {
    let chunks = harness.events(reader).into_iter().filter_map(|event| match &event.payload {
        Payload::OutputStreaming(output) => Some(output.chunk.as_str()),
        _ => None,
    });
    chunks.collect()
}

fn open(harness: &mut EngineHarness, session: &aaep_proto::id::SessionId) -> OutputId {
    harness.act(|engine, cx| engine.open_output(cx, session, "text/plain", None)).unwrap()
}

#[test]
fn secrets_are_removed_from_streamed_text_however_it_is_cut() {
    let whole = format!("Use {KEY} and card 4111 1111 1111 1111. Then go on.");
    for size in [1, 2, 3, 7, 16, whole.len()] {
        let mut harness = EngineHarness::new();
        let (reader, session) = (harness.join_reader(), harness.start());
        let output = open(&mut harness, &session);
        for piece in whole.as_bytes().chunks(size) {
            let piece = std::str::from_utf8(piece).unwrap();
            harness.act(|engine, cx| engine.write(cx, &session, &output, piece)).unwrap();
            harness.pass(30);
        }
        harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
        assert_eq!(text(&harness, reader), "Use [removed] and card [removed]. Then go on.", "{size} at once");
    }
}

#[test]
fn the_journal_gets_text_without_secrets() {
    let mut harness = EngineHarness::with(|config| config.journal = true);
    let session = harness.start();
    let output = open(&mut harness, &session);
    let mut kept = String::new();
    for piece in ["Use ghp_abcdef", "ghij0123456789ABCD", " now."] {
        let now = aaep_proto::time::Now { moment: Default::default(), wall: harness.wall() };
        let cx = &mut aaep_proto::engine::Cx { now, entropy: &mut harness.entropy };
        harness.engine.write(cx, &session, &output, piece).unwrap();
        loop {
            match harness.engine.poll_effect() {
                EngineEffect::Journal(entry) => kept.push_str(&format!("{entry:?}")),
                EngineEffect::Idle(_) => break,
                _ => {}
            }
        }
    }
    assert!(kept.contains("[removed]") && !kept.contains("ghp_") && !kept.contains("ghij0123"), "{kept}");
}

#[test]
fn possible_start_of_a_secret_is_held_back_only_briefly() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join(json!({"coalesce_boundaries": ["none"]})), harness.start());
    let output = open(&mut harness, &session);
    harness.act(|engine, cx| engine.write(cx, &session, &output, "You owe 500. ")).unwrap();
    harness.pass(2000);
    assert!(text(&harness, reader).contains("500"), "{:?}", text(&harness, reader));
    // Text that ends inside a word is held back.
    harness.act(|engine, cx| engine.write(cx, &session, &output, "Use ghp_abcdefghij")).unwrap();
    harness.pass(2000);
    assert!(!text(&harness, reader).contains("ghp_"), "{:?}", text(&harness, reader));
    harness.act(|engine, cx| engine.write(cx, &session, &output, "0123456789ABCD now. ")).unwrap();
    harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    assert_eq!(text(&harness, reader), "You owe 500. Use [removed] now. ");
}

#[test]
fn held_back_text_is_sent_before_the_next_event_of_its_session() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join(json!({"coalesce_boundaries": ["none"]})), harness.start());
    let output = open(&mut harness, &session);
    harness.act(|engine, cx| engine.write(cx, &session, &output, "The total is 4111")).unwrap();
    assert_eq!(text(&harness, reader).trim_end(), "The total is");
    harness.act(|engine, cx| engine.set_state(cx, &session, "deciding", None)).unwrap();
    assert!(text(&harness, reader).starts_with("The total is 411"), "{:?}", text(&harness, reader));
    assert_eq!(harness.names(reader).last().map(String::as_str), Some("state.changed"));
}

#[test]
fn secrets_are_removed_from_every_field_that_an_agent_fills() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let mut options = SessionOptions::new(format!("Using {KEY}."));
    options.producer = Some(Producer::new("banker").with_name(format!("Banker {KEY}")));
    let session = harness.act(|engine, cx| engine.start_session(cx, options)).unwrap();
    let meta = || EventMeta {
        correlation_id: Some(format!("trace {KEY}")),
        vocabularies: vec!["https://example.org/haptic/v1".into()],
        extensions: json!({"haptic": {"deep": [KEY], "password": "hunter22"}}).as_object().cloned(),
        ..EventMeta::default()
    };
    let mut change = StateChanged::new("thinking", KEY);
    change.summary_normal = Some("Changing.".into());
    let said = Localized { payload: Payload::from(change), variants: serde_json::Map::new(), meta: meta() };
    harness.act(|engine, cx| engine.emit_localized(cx, &session, said)).unwrap();
    harness.act(|engine, cx| engine.set_state(cx, &session, "deciding", None)).unwrap();
    let tool = ToolInvoked {
        tool: "pay".into(),
        summary_normal: "Paying.".into(),
        args_summary: Some(format!("key {KEY}")),
        ..ToolInvoked::default()
    };
    harness.act(|engine, cx| engine.invoke_tool(cx, &session, tool)).unwrap();
    let kind = aaep_proto::engine::OutputFormat { content_type: "text/plain".into(), language: None };
    let output = harness.act(|engine, cx| engine.open_output_with(cx, &session, kind, meta())).unwrap();
    harness.act(|engine, cx| engine.write(cx, &session, &output, "Plain text. ")).unwrap();
    harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    let choices = Clarification::choice("Which key?", [("a", KEY), ("b", "Another")]).context(KEY);
    harness.act(|engine, cx| engine.clarify(cx, &session, choices)).unwrap();
    let packaged = json!({"notes": [KEY], "password": "hunter22"}).as_object().cloned();
    let confirm = Confirmation::new(format!("Send {KEY}."), "It is sent.").extra_context(packaged.clone().unwrap());
    harness.act(|engine, cx| engine.ask(cx, &session, confirm)).unwrap();
    let handoff = HandoffRequested {
        reason: "A person should look.".into(),
        target_kind: HandoffTarget::Human,
        target_uri: Some("https://bob:hunter22@example.org/".into()),
        urgency_for_handoff: None,
        packaged_context: packaged,
        summary_terse: None,
        summary_normal: None,
        summary_detailed: None,
    };
    harness.act(|engine, cx| engine.emit(cx, &session, handoff.into())).unwrap();
    // A subscriber that joins later receives the state.
    let late = harness.join_reader();
    for key in [reader, late] {
        let all = received(&harness, key);
        assert!(!all.contains("ghp_") && !all.contains("hunter22"), "{all}");
    }
    for core in [CoreType::AwaitingConfirmation, CoreType::AwaitingClarification, CoreType::HandoffRequested] {
        assert_eq!(harness.count(reader, core), 1, "{core:?}");
    }
    let consents: Vec<Value> =
        harness.events(reader).iter().filter_map(|e| e.envelope.extensions.clone()).map(Value::Object).collect();
    assert!(consents.iter().any(|e| e["haptic"]["deep"][0] == "[removed]"), "{consents:?}");
}

#[test]
fn reply_token_in_the_consent_extension_is_not_redacted() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join_reader(), harness.start());
    let confirm = Confirmation::new(format!("Send {KEY}."), "It is sent.");
    let token = harness.act(|engine, cx| engine.ask(cx, &session, confirm)).unwrap();
    harness.reply(reader, &token, "reject");
    let last = harness.events(reader).pop().unwrap().envelope.extensions.clone().unwrap();
    assert_eq!(last["consent"]["reply_token"], token.as_str());
}

#[test]
fn choice_with_a_secret_value_is_refused() {
    let mut harness = EngineHarness::new();
    let session = harness.start();
    for (value, rule) in [(KEY, Rule::Secret), ("a\u{202E}b", Rule::DeceptiveText)] {
        let ask = Clarification::choice("Which?", [("a", "One"), (value, "Two")]);
        let Err(EngineError::Invalid(problems)) = harness.act(|engine, cx| engine.clarify(cx, &session, ask)) else {
            panic!()
        };
        assert_eq!((problems[0].rule, problems[0].pointer.as_str()), (rule, "/choices/1/value"));
    }
}

#[test]
fn hidden_characters_are_shown_in_words_to_every_subscriber() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.act(|engine, cx| engine.start_session(cx, SessionOptions::new("Pay\u{200B}ing."))).unwrap();
    let confirm = Confirmation::new("Pay \u{202E}001 to bob\u{200B}.", "Gone\u{1b}[2K.")
        .extra_context(json!({"note": ["a\u{2066}b"]}).as_object().cloned().unwrap());
    harness.act(|engine, cx| engine.ask(cx, &session, confirm)).unwrap();
    let ask = Clarification::choice("Which\u{FEFF}?", [("a", "On\u{AD}"), ("b", "\u{200B}\u{200B}Two")]);
    harness.act(|engine, cx| engine.clarify(cx, &session, ask)).unwrap();
    let all: Vec<Value> = harness.events(reader).iter().map(|e| serde_json::to_value(e).unwrap()).collect();
    let raw = |c: char| matches!(c, '\u{200B}' | '\u{202E}' | '\u{2066}' | '\u{FEFF}' | '\u{AD}' | '\u{1b}');
    assert!(
        all.iter().all(|event| !event.to_string().contains(raw) && !event.to_string().contains("\\u001b")),
        "{all:?}"
    );
    assert_eq!(all[0]["summary_normal"], "Pay[hidden character U+200B]ing.");
    let asked = all.iter().find(|e| e["action"].is_string()).unwrap();
    assert_eq!(asked["action"], "Pay [direction control U+202E]001 to bob[hidden character U+200B].");
    assert_eq!(asked["consequence"], "Gone[hidden character U+001B][2K.");
    assert_eq!(asked["extra_context"]["note"][0], "a[direction control U+2066]b");
    let asked = all.iter().find(|e| e["question"].is_string()).unwrap();
    assert_eq!(asked["choices"][1]["label"], "[2 hidden characters]Two");
}

#[test]
fn format_characters_that_a_script_needs_are_kept() {
    let mut harness = EngineHarness::new();
    let (reader, session) = (harness.join_reader(), harness.start());
    for text in [
        "می\u{200C}خواهم",
        "שלום \u{2066}abc\u{2069} שלום",
        "क्\u{200D}ष",
        "\u{1F468}\u{200D}\u{1F469}",
        "One\nTwo\tThree",
    ] {
        harness.act(|engine, cx| engine.ask(cx, &session, Confirmation::new(text, "Done."))).unwrap();
        let Payload::AwaitingConfirmation(asked) = &harness.events(reader).pop().unwrap().payload else { panic!() };
        assert_eq!(asked.action, text);
    }
}

#[test]
fn oversized_event_is_refused_before_it_is_scanned() {
    let mut harness = EngineHarness::new();
    let session = harness.start();
    let huge = "4111111111111111 ".repeat(70_000);
    let meta = EventMeta { extensions: json!({"x": {"y": huge}}).as_object().cloned(), ..EventMeta::default() };
    let said =
        Localized { payload: StateChanged::new("thinking", "deciding").into(), variants: serde_json::Map::new(), meta };
    let Err(EngineError::Invalid(problems)) = harness.act(|engine, cx| engine.emit_localized(cx, &session, said))
    else {
        panic!()
    };
    assert_eq!(problems[0].rule, Rule::MessageSize);
}

#[test]
fn agent_cannot_use_a_reserved_prefix_in_another_case() {
    let mut harness = EngineHarness::new();
    let session = harness.start();
    for prefix in ["consent", "Consent", "AAEP", "Rdf"] {
        let meta = EventMeta {
            vocabularies: vec!["https://example.org/v1".into()],
            extensions: json!({prefix: {"outcome": "accepted"}}).as_object().cloned(),
            ..EventMeta::default()
        };
        let said = Localized {
            payload: StateChanged::new("thinking", "deciding").into(),
            variants: serde_json::Map::new(),
            meta,
        };
        let refused = harness.act(|engine, cx| engine.emit_localized(cx, &session, said));
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{prefix}: {refused:?}");
    }
    for name in ["AAEP:agent.tool.invoked", "HTTPS://aaep-protocol.org/types/agent.tool.invoked"] {
        let refused = harness.act(|engine, cx| engine.emit(cx, &session, Payload::Extension { name: name.into() }));
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{name}: {refused:?}");
    }
}

/// Prints the time with `--nocapture`. A quadratic search took 1.6 s, 25 s and 157 s for these inputs.
#[test]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures")]
fn event_full_of_secrets_is_redacted_in_linear_time() {
    for bytes in [90_000, 360_000, 990_000] {
        let mut harness = EngineHarness::new();
        let (reader, session) = (harness.join_reader(), harness.start());
        let context = json!({"notes": "4111111111111111 ".repeat(bytes / 17)}).as_object().cloned();
        let handoff = HandoffRequested {
            packaged_context: context,
            ..HandoffRequested::new("A person should look.", HandoffTarget::Human)
        };
        let start = std::time::Instant::now();
        harness.act(|engine, cx| engine.emit(cx, &session, handoff.into())).unwrap();
        let took = start.elapsed();
        println!("{bytes} bytes: {took:?}");
        assert!(took.as_secs() < 10, "{bytes} bytes took {took:?}");
        assert!(!received(&harness, reader).contains("4111"));
    }
}
