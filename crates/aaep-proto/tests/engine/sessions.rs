//! Sessions: legal order, and what is open is closed.

use aaep_proto::confirm::Confirmation;
use aaep_proto::engine::{EngineError, SessionOptions};
use aaep_proto::message::{
    ErrorCategory, EventMeta, HandoffRequested, HandoffTarget, Localized, Payload, Progress, ProgressUpdated,
    SessionCompleted, ToolCompleted, ToolInvoked, ToolStatus, Urgency,
};
use aaep_proto::time::Timestamp;
use serde_json::{Value, json};

use crate::harness::World;

fn tool(name: &str) -> ToolInvoked {
    ToolInvoked { tool: name.into(), summary_normal: format!("Using {name}."), ..ToolInvoked::default() }
}

fn done(name: &str, id: Option<aaep_proto::id::ToolCallId>) -> ToolCompleted {
    ToolCompleted { tool_call_id: id, ..ToolCompleted::new(name, ToolStatus::Success) }
}

#[test]
fn a_session_tells_its_states() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    let id = world.act(|engine, cx| engine.invoke_tool(cx, &session, tool("look"))).unwrap();
    world.act(|engine, cx| engine.complete_tool(cx, &session, done("look", Some(id)))).unwrap();
    let output = world.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    world.act(|engine, cx| engine.write(cx, &session, &output, "Done.")).unwrap();
    world.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    world.act(|engine, cx| engine.complete_session(cx, &session, "All done.")).unwrap();
    assert_eq!(
        world.names(reader),
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
        world.states(reader),
        ["idle>thinking", "thinking>calling_tool", "calling_tool>thinking", "thinking>writing_output"]
    );
}

#[test]
fn an_illegal_event_goes_back_and_is_never_sent() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    world.clear();
    let unpaired = world.act(|engine, cx| engine.complete_tool(cx, &session, done("look", None)));
    assert!(matches!(unpaired, Err(EngineError::OutOfOrder(_))));
    let nameless = world.act(|engine, cx| engine.invoke_tool(cx, &session, tool("9 lives")));
    assert!(matches!(nameless, Err(EngineError::Invalid(_))));
    let empty = ProgressUpdated { progress: Progress::default(), ..ProgressUpdated::default() };
    assert!(matches!(world.act(|engine, cx| engine.emit(cx, &session, empty.into())), Err(EngineError::Invalid(_))));
    let kinds: Vec<String> = world.names(reader);
    assert!(kinds.iter().all(|k| k == "state.changed"), "{kinds:?}");
    // The session goes on as if nothing had been tried.
    world.act(|engine, cx| engine.complete_session(cx, &session, "Fine.")).unwrap();
}

#[test]
fn an_invalid_start_starts_nothing() {
    let mut world = World::new();
    let started = world.act(|engine, cx| engine.start_session(cx, SessionOptions::new("")));
    assert!(matches!(started, Err(EngineError::Invalid(_))));
    assert_eq!(world.engine.next_deadline(), None);
}

#[test]
fn an_ended_session_takes_nothing_more() {
    let mut world = World::new();
    let session = world.start();
    world.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    assert_eq!(
        world.act(|engine, cx| engine.set_state(cx, &session, "thinking", None)),
        Err(EngineError::UnknownSession)
    );
    assert_eq!(
        world.act(|engine, cx| engine.complete_session(cx, &session, "Done.")),
        Err(EngineError::UnknownSession)
    );
}

#[test]
fn a_session_with_open_tools_does_not_complete_but_can_fail() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    world.act(|engine, cx| engine.invoke_tool(cx, &session, tool("look"))).unwrap();
    let output = world.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    world.act(|engine, cx| engine.write(cx, &session, &output, "Half a sen")).unwrap();
    assert!(matches!(
        world.act(|engine, cx| engine.complete_session(cx, &session, "Done.")),
        Err(EngineError::OutOfOrder(_))
    ));
    world.clear();
    world.act(|engine, cx| engine.fail_session(cx, &session, ErrorCategory::Transient, "It broke.")).unwrap();
    assert_eq!(world.names(reader), ["tool.completed", "output.streaming", "session.errored"]);
    assert!(matches!(&world.events(reader)[0].payload, Payload::ToolCompleted(t) if t.status == ToolStatus::Timeout));
    assert_eq!(world.chunks(reader), [("Half a sen".into(), 0, "completion".into(), true)]);
}

#[test]
fn secrets_are_blotted_out_before_anything_leaves() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    let mut pay = tool("pay");
    pay.args_summary = Some("card 4111 1111 1111 1111, api_key=sk-test-1234567890".into());
    world.act(|engine, cx| engine.invoke_tool(cx, &session, pay)).unwrap();
    let event = world.events(reader).pop().unwrap().clone();
    let Payload::ToolInvoked(sent) = event.payload else { panic!() };
    assert_eq!(sent.args_summary.as_deref(), Some("card [removed], api_key=[removed]"));
}

#[test]
fn time_does_not_go_back_in_a_session() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    world.skew_millis = -3_600_000;
    world.act(|engine, cx| engine.set_state(cx, &session, "deciding", None)).unwrap();
    let times: Vec<Timestamp> = world.events(reader).iter().map(|e| e.envelope.timestamp).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_handoff_is_critical() {
    let mut world = World::new();
    let filtered = world.join(json!({"event_filters": {"include": []}, "max_events_per_second": 1}));
    let session = world.start();
    let handoff = HandoffRequested::new("A person should look at this.", HandoffTarget::Human);
    world.act(|engine, cx| engine.emit(cx, &session, handoff.into())).unwrap();
    assert_eq!(world.names(filtered), ["handoff.requested"]);
    // Who took over goes on from here; the session ends by being cancelled, which this listener does not want to hear.
    world.act(|engine, cx| engine.cancel_session(cx, &session, "producer".into(), "A person takes over.")).unwrap();
    assert_eq!(world.names(filtered), ["handoff.requested"]);
    assert!(!world.engine.has_session(&session));
}

#[test]
fn who_joins_late_is_told_where_things_stand() {
    let mut world = World::new();
    let session = world.start();
    world.act(|engine, cx| engine.set_state(cx, &session, "deciding", None)).unwrap();
    let reader = world.join_reader();
    assert_eq!(world.names(reader), ["session.started", "state.changed"]);
    assert_eq!(world.states(reader), ["idle>deciding"]);
    world.act(|engine, cx| engine.set_state(cx, &session, "thinking", None)).unwrap();
    assert_eq!(world.states(reader), ["idle>deciding", "deciding>thinking"]);
}

/// What a subscription that wants German hears, and one that wants English.
#[test]
fn everyone_hears_the_language_they_asked_for() {
    let german = "de".parse().unwrap();
    let mut world = World::with(|config| config.offer.languages = ["en", "de"].map(|l| l.parse().unwrap()).to_vec());
    let capable = |language: &str| json!({"languages": [language], "supports_confirmation_reply": true});
    let (de, en) = (world.join(capable("de-AT")), world.join(capable("en-US")));
    let session = world.start();
    let look = Localized::new(tool("look")).text("summary_normal", &german, "Ich schaue nach.");
    let id = world.act(|engine, cx| engine.invoke_tool(cx, &session, look)).unwrap();
    world.act(|engine, cx| engine.complete_tool(cx, &session, done("look", Some(id)))).unwrap();
    let ask = Confirmation::new("Send it.", "It is gone.").in_language(&german, "Absenden.", "Dann ist es weg.");
    let token = world.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    world.reply(de, &token, "reject");
    let bye = SessionCompleted { summary_normal: "Done.".into(), ..SessionCompleted::default() };
    let bye = Localized::new(bye).text("summary_normal", &german, "Fertig.").into_payload();
    world.act(|engine, cx| engine.end_localized(cx, &session, bye)).unwrap();
    let heard = |key| {
        let texts = world.events(key).into_iter().map(|e| serde_json::to_value(e).unwrap());
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
    // What exists in one language only is told in that, and says so.
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
fn an_extensions_event_goes_to_who_asked_for_it() {
    let mut world =
        World::with(|config| config.offer.extensions.push(("haptic".into(), "https://example.org/haptic/v1".into())));
    let plain = world.join(json!({}));
    let touching = world.join(json!({"event_filters": {"include": ["aaep:agent.*", "haptic:*"]}}));
    let session = world.start();
    let pulse = |name: &str| {
        let mut pulse = Localized::new(Payload::Extension { name: name.to_owned() });
        pulse.variants.insert("strength".into(), json!(3));
        pulse
    };
    world.act(|engine, cx| engine.emit_localized(cx, &session, pulse("haptic:pulse"))).unwrap();
    assert_eq!(world.names(touching).last().map(String::as_str), Some("haptic:pulse"));
    assert!(!world.names(plain).contains(&"haptic:pulse".to_owned()));
    assert!(matches!(
        world.act(|engine, cx| engine.emit_localized(cx, &session, pulse("taste:sweet"))),
        Err(EngineError::Invalid(_))
    ));
}

/// What the types forbid cannot be smuggled in beside them.
#[test]
fn nothing_poses_as_something_else() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    world.clear();
    let fields = |list: Value| list.as_object().unwrap().clone();
    let posing = Localized {
        payload: Payload::Extension { name: "aaep:agent.tool.invoked".into() },
        variants: fields(json!({"tool": "erase", "summary_normal": "Erasing.", "irreversible": true})),
        meta: EventMeta::default(),
    };
    assert!(matches!(
        world.act(|engine, cx| engine.emit_localized(cx, &session, posing)),
        Err(EngineError::Invalid(_))
    ));
    let mut hidden = Localized::new(tool("erase"));
    hidden.variants = fields(json!({"irreversible": true}));
    assert!(matches!(world.act(|engine, cx| engine.invoke_tool(cx, &session, hidden)), Err(EngineError::Invalid(_))));
    for payload in [
        tool("look").into(),
        done("look", None).into(),
        SessionCompleted { summary_normal: "x".into(), ..Default::default() }.into(),
    ] {
        let payload: Payload = payload;
        assert!(matches!(
            world.act(|engine, cx| engine.emit(cx, &session, payload)),
            Err(EngineError::WrongMethod { .. })
        ));
    }
    let no_ending: Payload =
        ProgressUpdated { progress: Progress { step: Some(1), ..Progress::default() }, ..ProgressUpdated::default() }
            .into();
    assert_eq!(
        world.act(|engine, cx| engine.end_session(cx, &session, no_ending)),
        Err(EngineError::WrongMethod { use_instead: "emit" })
    );
    let names = world.names(reader);
    assert!(names.iter().all(|n| n == "state.changed"), "{names:?}");
    world.act(|engine, cx| engine.complete_session(cx, &session, "Fine.")).unwrap();
}

#[test]
fn what_is_said_aside_goes_along_within_bounds() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    world.clear();
    let meta = |urgency: Urgency, extensions: Value| EventMeta {
        urgency: Some(urgency),
        correlation_id: Some("trace".to_owned()),
        vocabularies: vec!["https://garden.example/v1".to_owned()],
        extensions: extensions.as_object().cloned(),
        ..EventMeta::default()
    };
    let mut say = |payload: Payload, meta: EventMeta| {
        let said = Localized { meta, ..Localized::new(payload) };
        world.act(|engine, cx| engine.emit_localized(cx, &session, said))
    };
    let progress =
        ProgressUpdated { progress: Progress { step: Some(1), ..Progress::default() }, ..Default::default() };
    say(progress.clone().into(), meta(Urgency::Normal, json!({"garden": {"bed": 1}}))).unwrap();
    // Nothing becomes critical by being called so: it would pass by every rate and filter.
    say(progress.clone().into(), meta(Urgency::Critical, json!({}))).unwrap();
    // What was agreed to is not for the agent to say, and what is not declared is not said.
    let posing = meta(Urgency::Normal, json!({"consent": {"outcome": "accepted"}}));
    assert!(matches!(say(progress.clone().into(), posing), Err(EngineError::Invalid(_))));
    let undeclared = meta(Urgency::Normal, json!({"garden": {}, "kitchen": {}}));
    assert!(matches!(say(progress.into(), undeclared), Err(EngineError::Invalid(_))));
    let heard: Vec<_> = world.events(reader).iter().map(|event| event.envelope.clone()).collect();
    let [first, second] = <[_; 2]>::try_from(heard).unwrap();
    assert_eq!((first.urgency, second.urgency), (Some(Urgency::Normal), Some(Urgency::Background)));
    assert_eq!(first.correlation_id.as_deref(), Some("trace"));
    assert_eq!(first.extensions.unwrap()["garden"]["bed"], 1);
    assert_eq!(first.context.extensions(), ["https://garden.example/v1"]);
}

#[test]
fn a_refused_ending_changes_nothing() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    world.act(|engine, cx| engine.invoke_tool(cx, &session, tool("look"))).unwrap();
    let output = world.act(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    world.act(|engine, cx| engine.ask(cx, &session, Confirmation::new("Go?", "It goes."))).unwrap();
    world.clear();
    let refused = world.act(|engine, cx| engine.fail_session(cx, &session, ErrorCategory::Unknown, ""));
    assert!(matches!(refused, Err(EngineError::Invalid(_))));
    assert_eq!((world.events(reader).len(), world.engine.open_questions(), world.decided.len()), (0, 1, 0));
    world.act(|engine, cx| engine.write(cx, &session, &output, "Still here.")).unwrap();
}

#[test]
fn a_refused_question_changes_nothing() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    world.clear();
    let refused = world.act(|engine, cx| engine.ask(cx, &session, Confirmation::new("", "It goes.")));
    assert!(matches!(refused, Err(EngineError::Invalid(_))));
    assert_eq!(world.events(reader).len(), 0);
}
