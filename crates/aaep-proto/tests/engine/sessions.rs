//! Sessions: event order, endings, languages and extension events.

use aaep_proto::confirm::Confirmation;
use aaep_proto::engine::{EngineError, SessionOptions};
use aaep_proto::message::{
    ErrorCategory, EventMeta, HandoffRequested, HandoffTarget, Localized, Payload, Progress, ProgressUpdated,
    SessionCompleted, ToolCompleted, ToolInvoked, ToolStatus, Urgency,
};
use aaep_proto::time::Timestamp;
use serde_json::{Value, json};

use crate::harness::EngineHarness;

fn tool(name: &str) -> ToolInvoked {
    ToolInvoked { tool: name.into(), summary_normal: format!("Using {name}."), ..ToolInvoked::default() }
}

fn done(name: &str, id: Option<aaep_proto::id::ToolCallId>) -> ToolCompleted {
    ToolCompleted { tool_call_id: id, ..ToolCompleted::new(name, ToolStatus::Success) }
}

#[test]
fn session_emits_its_state_changes() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    let id = harness.act(|engine, cx| engine.invoke_tool(cx, &session, tool("look"))).unwrap();
    harness.act(|engine, cx| engine.complete_tool(cx, &session, done("look", Some(id)))).unwrap();
    let output = harness.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    harness.act(|engine, cx| engine.write(cx, &session, &output, "Done.")).unwrap();
    harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    harness.act(|engine, cx| engine.complete_session(cx, &session, "All done.")).unwrap();
    assert_eq!(
        harness.names(reader),
        [
            "session.started",
            "state.changed",
            "state.changed",
            "tool.invoked",
            "tool.completed",
            "state.changed",
            "state.changed",
            "output.streaming",
            "session.completed"
        ]
    );
    assert_eq!(
        harness.states(reader),
        ["idle>thinking", "thinking>calling_tool", "calling_tool>thinking", "thinking>writing_output"]
    );
}

#[test]
fn invalid_event_is_refused_and_never_sent() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    harness.clear();
    let unpaired = harness.act(|engine, cx| engine.complete_tool(cx, &session, done("look", None)));
    assert!(matches!(unpaired, Err(EngineError::OutOfOrder(_))));
    let nameless = harness.act(|engine, cx| engine.invoke_tool(cx, &session, tool("9 lives")));
    assert!(matches!(nameless, Err(EngineError::Invalid(_))));
    let empty = ProgressUpdated { progress: Progress::default(), ..ProgressUpdated::default() };
    assert!(matches!(harness.act(|engine, cx| engine.emit(cx, &session, empty.into())), Err(EngineError::Invalid(_))));
    let kinds: Vec<String> = harness.names(reader);
    assert!(kinds.iter().all(|k| k == "state.changed"), "{kinds:?}");
    // The refused event leaves the session unchanged.
    harness.act(|engine, cx| engine.complete_session(cx, &session, "Fine.")).unwrap();
}

#[test]
fn invalid_start_creates_no_session() {
    let mut harness = EngineHarness::new();
    let started = harness.act(|engine, cx| engine.start_session(cx, SessionOptions::new("")));
    assert!(matches!(started, Err(EngineError::Invalid(_))));
    assert_eq!(harness.engine.next_deadline(), None);
}

#[test]
fn ended_session_accepts_no_more_events() {
    let mut harness = EngineHarness::new();
    let session = harness.start();
    harness.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    assert_eq!(
        harness.act(|engine, cx| engine.set_state(cx, &session, "thinking", None)),
        Err(EngineError::UnknownSession)
    );
    assert_eq!(
        harness.act(|engine, cx| engine.complete_session(cx, &session, "Done.")),
        Err(EngineError::UnknownSession)
    );
}

#[test]
fn a_session_with_open_tools_does_not_complete_but_can_fail() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    harness.act(|engine, cx| engine.invoke_tool(cx, &session, tool("look"))).unwrap();
    let output = harness.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    harness.act(|engine, cx| engine.write(cx, &session, &output, "Half a sen")).unwrap();
    assert!(matches!(
        harness.act(|engine, cx| engine.complete_session(cx, &session, "Done.")),
        Err(EngineError::OutOfOrder(_))
    ));
    harness.clear();
    harness.act(|engine, cx| engine.fail_session(cx, &session, ErrorCategory::Transient, "It broke.")).unwrap();
    assert_eq!(harness.names(reader), ["tool.completed", "output.streaming", "session.errored"]);
    assert!(matches!(&harness.events(reader)[0].payload, Payload::ToolCompleted(t) if t.status == ToolStatus::Timeout));
    assert_eq!(harness.chunks(reader), [("Half a sen".into(), 0, "completion".into(), true)]);
}

#[test]
fn secrets_are_redacted_before_an_event_is_sent() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    let mut pay = tool("pay");
    pay.args_summary = Some("card 4111 1111 1111 1111, api_key=sk-test-1234567890".into());
    harness.act(|engine, cx| engine.invoke_tool(cx, &session, pay)).unwrap();
    let event = harness.events(reader).pop().unwrap().clone();
    let Payload::ToolInvoked(sent) = event.payload else { panic!() };
    assert_eq!(sent.args_summary.as_deref(), Some("card [removed], api_key=[removed]"));
}

#[test]
fn timestamps_of_a_session_never_decrease() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    harness.skew_millis = -3_600_000;
    harness.act(|engine, cx| engine.set_state(cx, &session, "deciding", None)).unwrap();
    let times: Vec<Timestamp> = harness.events(reader).iter().map(|e| e.envelope.timestamp).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_handoff_is_critical() {
    let mut harness = EngineHarness::new();
    let filtered = harness.join(json!({"event_filters": {"include": []}, "max_events_per_second": 1}));
    let session = harness.start();
    let handoff = HandoffRequested::new("A person should look at this.", HandoffTarget::Human);
    harness.act(|engine, cx| engine.emit(cx, &session, handoff.into())).unwrap();
    assert_eq!(harness.names(filtered), ["handoff.requested"]);
    // After the handoff the session ends by being cancelled, which the filter of this subscriber excludes.
    harness.act(|engine, cx| engine.cancel_session(cx, &session, "producer".into(), "A person takes over.")).unwrap();
    assert_eq!(harness.names(filtered), ["handoff.requested"]);
    assert!(!harness.engine.has_session(&session));
}

#[test]
fn late_subscriber_receives_the_current_state() {
    let mut harness = EngineHarness::new();
    let session = harness.start();
    harness.act(|engine, cx| engine.set_state(cx, &session, "deciding", None)).unwrap();
    let reader = harness.join_reader();
    assert_eq!(harness.names(reader), ["session.started", "state.changed"]);
    assert_eq!(harness.states(reader), ["idle>deciding"]);
    harness.act(|engine, cx| engine.set_state(cx, &session, "thinking", None)).unwrap();
    assert_eq!(harness.states(reader), ["idle>deciding", "deciding>thinking"]);
}

#[test]
fn each_subscriber_receives_its_requested_language() {
    let german = "de".parse().unwrap();
    let mut harness =
        EngineHarness::with(|config| config.offer.languages = ["en", "de"].map(|l| l.parse().unwrap()).to_vec());
    let capable = |language: &str| json!({"languages": [language], "supports_confirmation_reply": true});
    let (de, en) = (harness.join(capable("de-AT")), harness.join(capable("en-US")));
    let session = harness.start();
    let look = Localized::new(tool("look")).text("summary_normal", &german, "Ich schaue nach.");
    let id = harness.act(|engine, cx| engine.invoke_tool(cx, &session, look)).unwrap();
    harness.act(|engine, cx| engine.complete_tool(cx, &session, done("look", Some(id)))).unwrap();
    let ask = Confirmation::new("Send it.", "It is gone.").in_language(&german, "Absenden.", "Dann ist es weg.");
    let token = harness.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    harness.reply(de, &token, "reject");
    let bye = SessionCompleted { summary_normal: "Done.".into(), ..SessionCompleted::default() };
    let bye = Localized::new(bye).text("summary_normal", &german, "Fertig.").into_payload();
    harness.act(|engine, cx| engine.end_localized(cx, &session, bye)).unwrap();
    let heard = |key| {
        let texts = harness.events(key).into_iter().map(|e| serde_json::to_value(e).unwrap());
        texts
            .filter_map(|e| {
                Some((
                    e["summary_normal"].as_str()?.to_owned(),
                    e["localization_hints"]["primary_language"].as_str()?.to_owned(),
                ))
            })
            .collect::<Vec<_>>()
    };
    let pairs =
        |list: &[(&str, &str)]| list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
    // Text that exists in one language only is sent in it and labelled with it.
    assert_eq!(
        heard(de),
        pairs(&[
            ("Working.", "en"),
            ("Ich schaue nach.", "de"),
            ("Absenden. Dann ist es weg.", "de"),
            ("Rejected. It will not be done.", "en"),
            ("Fertig.", "de")
        ])
    );
    assert_eq!(
        heard(en),
        pairs(&[
            ("Working.", "en"),
            ("Using look.", "en"),
            ("Send it. It is gone.", "en"),
            ("Rejected. It will not be done.", "en"),
            ("Done.", "en")
        ])
    );
}

#[test]
fn extension_event_is_sent_only_to_subscribers_that_requested_it() {
    let mut harness = EngineHarness::with(|config| {
        config.offer.extensions.push(("haptic".into(), "https://example.org/haptic/v1".into()))
    });
    let plain = harness.join(json!({}));
    let touching = harness.join(json!({"event_filters": {"include": ["aaep:agent.*", "haptic:*"]}}));
    let session = harness.start();
    let pulse = |name: &str| {
        let mut pulse = Localized::new(Payload::Extension { name: name.to_owned() });
        pulse.variants.insert("strength".into(), json!(3));
        pulse
    };
    harness.act(|engine, cx| engine.emit_localized(cx, &session, pulse("haptic:pulse"))).unwrap();
    assert_eq!(harness.names(touching).last().map(String::as_str), Some("haptic:pulse"));
    assert!(!harness.names(plain).contains(&"haptic:pulse".to_owned()));
    assert!(matches!(
        harness.act(|engine, cx| engine.emit_localized(cx, &session, pulse("taste:sweet"))),
        Err(EngineError::Invalid(_))
    ));
}

/// Extension names and language variants cannot be used to emit events that the typed methods forbid.
#[test]
fn agent_cannot_imitate_core_events_or_the_engine() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    harness.clear();
    let fields = |list: Value| list.as_object().unwrap().clone();
    let posing = Localized {
        payload: Payload::Extension { name: "aaep:agent.tool.invoked".into() },
        variants: fields(json!({"tool": "erase", "summary_normal": "Erasing.", "irreversible": true})),
        meta: EventMeta::default(),
    };
    assert!(matches!(
        harness.act(|engine, cx| engine.emit_localized(cx, &session, posing)),
        Err(EngineError::Invalid(_))
    ));
    let mut hidden = Localized::new(tool("erase"));
    hidden.variants = fields(json!({"irreversible": true}));
    assert!(matches!(harness.act(|engine, cx| engine.invoke_tool(cx, &session, hidden)), Err(EngineError::Invalid(_))));
    for payload in [
        tool("look").into(),
        done("look", None).into(),
        SessionCompleted { summary_normal: "x".into(), ..Default::default() }.into(),
    ] {
        let payload: Payload = payload;
        assert!(matches!(
            harness.act(|engine, cx| engine.emit(cx, &session, payload)),
            Err(EngineError::WrongMethod { .. })
        ));
    }
    let no_ending: Payload =
        ProgressUpdated { progress: Progress { step: Some(1), ..Progress::default() }, ..ProgressUpdated::default() }
            .into();
    assert_eq!(
        harness.act(|engine, cx| engine.end_session(cx, &session, no_ending)),
        Err(EngineError::WrongMethod { use_instead: "emit" })
    );
    let names = harness.names(reader);
    assert!(names.iter().all(|n| n == "state.changed"), "{names:?}");
    harness.act(|engine, cx| engine.complete_session(cx, &session, "Fine.")).unwrap();
}

#[test]
fn extension_data_is_carried_within_limits() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    harness.clear();
    let meta = |urgency: Urgency, extensions: Value| EventMeta {
        urgency: Some(urgency),
        correlation_id: Some("trace".to_owned()),
        vocabularies: vec!["https://garden.example/v1".to_owned()],
        extensions: extensions.as_object().cloned(),
        ..EventMeta::default()
    };
    let mut say = |payload: Payload, meta: EventMeta| {
        let said = Localized { meta, ..Localized::new(payload) };
        harness.act(|engine, cx| engine.emit_localized(cx, &session, said))
    };
    let progress =
        ProgressUpdated { progress: Progress { step: Some(1), ..Progress::default() }, ..Default::default() };
    say(progress.clone().into(), meta(Urgency::Normal, json!({"garden": {"bed": 1}}))).unwrap();
    // An agent cannot make an event critical, since it would bypass every rate and filter.
    say(progress.clone().into(), meta(Urgency::Critical, json!({}))).unwrap();
    // The consent extension is reserved for the engine, and extensions must be declared.
    let posing = meta(Urgency::Normal, json!({"consent": {"outcome": "accepted"}}));
    assert!(matches!(say(progress.clone().into(), posing), Err(EngineError::Invalid(_))));
    let undeclared = meta(Urgency::Normal, json!({"garden": {}, "kitchen": {}}));
    assert!(matches!(say(progress.into(), undeclared), Err(EngineError::Invalid(_))));
    let heard: Vec<_> = harness.events(reader).iter().map(|event| event.envelope.clone()).collect();
    let [first, second] = <[_; 2]>::try_from(heard).unwrap();
    assert_eq!((first.urgency, second.urgency), (Some(Urgency::Normal), Some(Urgency::Background)));
    assert_eq!(first.correlation_id.as_deref(), Some("trace"));
    assert_eq!(first.extensions.unwrap()["garden"]["bed"], 1);
    assert_eq!(first.context.extensions(), ["https://garden.example/v1"]);
}

#[test]
fn a_refused_ending_changes_nothing() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    harness.act(|engine, cx| engine.invoke_tool(cx, &session, tool("look"))).unwrap();
    let output = harness.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    harness.act(|engine, cx| engine.ask(cx, &session, Confirmation::new("Go?", "It goes."))).unwrap();
    harness.clear();
    let refused = harness.act(|engine, cx| engine.fail_session(cx, &session, ErrorCategory::Unknown, ""));
    assert!(matches!(refused, Err(EngineError::Invalid(_))));
    assert_eq!((harness.events(reader).len(), harness.engine.open_questions(), harness.decided.len()), (0, 1, 0));
    harness.act(|engine, cx| engine.write(cx, &session, &output, "Still here.")).unwrap();
}

#[test]
fn a_refused_question_changes_nothing() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    harness.clear();
    let refused = harness.act(|engine, cx| engine.ask(cx, &session, Confirmation::new("", "It goes.")));
    assert!(matches!(refused, Err(EngineError::Invalid(_))));
    assert_eq!(harness.events(reader).len(), 0);
}
