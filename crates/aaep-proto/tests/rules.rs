//! One test per rule of the validator: what breaks it, where it is reported, and what does not break it.
//! The name of a test is the name of its rule, with underscores.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use aaep_proto::message::CoreType;
use aaep_proto::{Rule, Severity, Validator, validate};
use serde_json::{Value, json};

/// A complete event of each type, without problems.
fn event(name: &str) -> Value {
    let payload = match name {
        "session.started" => json!({"summary_normal": "Sorting your mail."}),
        "session.completed" => json!({"summary_normal": "Your mail is sorted."}),
        "session.errored" => json!({"error_category": "transient", "summary_normal": "The mail server is away."}),
        "session.cancelled" => json!({"cancelled_by": "user", "summary_normal": "Stopped, as you asked."}),
        "state.changed" => json!({"from_state": "idle", "to_state": "thinking"}),
        "progress.updated" => json!({"progress": {"percent": 40}}),
        "tool.invoked" => json!({"tool": "sort_mail", "summary_normal": "Sorting 12 letters."}),
        "tool.completed" => json!({"tool": "sort_mail", "status": "success"}),
        "output.streaming" => json!({"chunk": "All done.", "position": 0, "complete": true}),
        "awaiting.confirmation" => json!({
            "action": "Delete 12 letters.", "consequence": "They are gone for good.", "reply_token": "rpl_1",
            "timeout_seconds": 120, "default_decision": "reject", "risk_level": "high", "irreversible": true
        }),
        "awaiting.clarification" => json!({
            "question": "Which folder?", "reply_token": "rpl_2", "timeout_seconds": 120
        }),
        "handoff.requested" => json!({"reason": "This needs a person.", "target_kind": "human"}),
        other => panic!("no event {other}"),
    };
    let core = CoreType::parse(&format!("aaep:agent.{name}")).expect("a core type");
    let urgency = match core {
        c if c.must_be_critical() => "critical",
        CoreType::ProgressUpdated => "background",
        _ => "normal",
    };
    let envelope = json!({
        "@context": "https://aaep-protocol.org/context/v1", "type": core.as_str(),
        "event_id": "evt_1", "session_id": "sess_1", "timestamp": "2026-05-24T14:22:11.342Z",
        "producer": {"agent_id": "postmaster"}, "urgency": urgency,
        "localization_hints": {"primary_language": "en-US"}
    });
    merge(envelope, payload)
}

fn message(name: &str) -> Value {
    let fields = match name {
        "subscription.request" => json!({"aaep_version": "1.0.0", "subscriber_id": "reader", "capabilities": {}}),
        "subscription.accepted" => json!({"subscription_id": "sub_1", "aaep_version": "1.0.0",
            "producer": {"agent_id": "postmaster"}, "honored_capabilities": {}}),
        "subscription.rejected" => json!({"reason_code": "rate_limit", "reason_message": "Too many listeners."}),
        "subscription.renegotiate" => json!({"subscription_id": "sub_1", "capabilities": {"cognitive_load": "low"}}),
        "subscription.close" => json!({"subscription_id": "sub_1", "reason_code": "subscriber_shutdown"}),
        "confirmation.reply" => json!({"reply_token": "rpl_1", "decision": "accept", "subscription_id": "sub_1",
            "timestamp": "2026-05-24T14:22:24.812Z"}),
        "clarification.reply" => json!({"reply_token": "rpl_2", "response": "inbox", "subscription_id": "sub_1",
            "timestamp": "2026-05-24T14:22:24.812Z"}),
        "aaep:producer.manifest" => json!({"@context": "https://aaep-protocol.org/context/v1",
            "agent_id": "postmaster", "aaep_versions_supported": ["1.0.0"],
            "conformance_levels_supported": [1, 2], "transports_supported": ["sse"]}),
        other => panic!("no message {other}"),
    };
    merge(json!({"type": name}), fields)
}

/// Sets fields at the top level; `null` removes one.
fn merge(mut document: Value, changes: Value) -> Value {
    let fields = document.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => drop(fields.remove(name)),
            value => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    document
}

fn problems(document: &Value) -> Vec<(String, String)> {
    let report = validate(document.to_string().as_bytes());
    report.problems.iter().map(|p| (p.rule.id().to_owned(), p.pointer.clone())).collect()
}

/// Asserts that the document breaks exactly this rule at this place.
#[track_caller]
fn breaks(document: Value, rule: &str, pointer: &str) {
    assert_eq!(problems(&document), [(rule.to_owned(), pointer.to_owned())], "{document:#}");
}

/// Asserts that the document breaks this rule at this place, perhaps among others.
#[track_caller]
fn breaks_also(document: Value, rule: &str, pointer: &str) {
    let found = problems(&document);
    assert!(found.contains(&(rule.to_owned(), pointer.to_owned())), "{found:?} in {document:#}");
}

#[track_caller]
fn keeps(document: Value) {
    assert_eq!(problems(&document), [], "{document:#}");
}

#[track_caller]
fn text_breaks(text: &[u8], rule: Rule) {
    let report = validate(text);
    assert!(report.problems.iter().any(|p| p.rule == rule), "{:?}", report.problems);
}

const EVENTS: [&str; 12] = [
    "session.started",
    "session.completed",
    "session.errored",
    "session.cancelled",
    "state.changed",
    "progress.updated",
    "tool.invoked",
    "tool.completed",
    "output.streaming",
    "awaiting.confirmation",
    "awaiting.clarification",
    "handoff.requested",
];
const MESSAGES: [&str; 8] = [
    "subscription.request",
    "subscription.accepted",
    "subscription.rejected",
    "subscription.renegotiate",
    "subscription.close",
    "confirmation.reply",
    "clarification.reply",
    "aaep:producer.manifest",
];

#[test]
fn plain_documents_have_no_problems() {
    EVENTS.into_iter().map(event).for_each(keeps);
    MESSAGES.into_iter().map(message).for_each(keeps);
}

#[test]
fn json_syntax() {
    for text in [
        &b"{"[..],
        b"{'a':1}",
        b"\xff{}",
        b"{\"a\":\"\xe9\"}",
        b"{\"a\":\"\\ud800\"}",
        b"",
        b"{}{}",
        b"nul",
        b"\"\x01\"",
    ] {
        text_breaks(text, Rule::Syntax);
    }
    for text in [&b"\xff\xfe{\0}\0"[..], b"\xfe\xff\0{\0}"] {
        let message = &validate(text).problems[0].message;
        assert!(message.contains("UTF-16") && message.contains("UTF-8"), "{message}");
    }
}

#[test]
fn json_object() {
    for text in [&b"[]"[..], b"1", b"\"aaep\"", b"null", b"true"] {
        text_breaks(text, Rule::Object);
    }
}

#[test]
fn json_duplicate_key() {
    let text = event("session.started").to_string().replacen('{', r#"{"event_id":"evt_9","#, 1);
    text_breaks(text.as_bytes(), Rule::DuplicateKey);
    let nested = r#"{"x":{"a":1,"a":2}}"#;
    let document = merge(event("handoff.requested"), json!({"packaged_context": {"here": 1}}));
    let text = document.to_string().replace(r#"{"here":1}"#, nested);
    text_breaks(text.as_bytes(), Rule::DuplicateKey);
}

#[test]
fn json_integer_range() {
    let with = |n: Value| merge(event("handoff.requested"), json!({"packaged_context": {"deep": [n]}}));
    keeps(with(json!(1u64 << 53)));
    keeps(with(json!("9007199254740993")));
    breaks(with(json!((1u64 << 53) + 1)), "json.integer-range", "/packaged_context/deep/0");
    breaks(with(json!(-(1i64 << 53) - 1)), "json.integer-range", "/packaged_context/deep/0");
    // With an exponent it is not an integer.
    keeps(with(json!(6.02e23)));
    keeps(with(json!(1e20)));
}

#[test]
fn env_required() {
    for field in ["@context", "type", "event_id", "session_id", "timestamp", "producer"] {
        breaks_also(merge(event("state.changed"), json!({field: null})), "env.required", &format!("/{field}"));
    }
}

#[test]
fn env_context() {
    let with = |context: Value| merge(event("state.changed"), json!({"@context": context}));
    let core = "https://aaep-protocol.org/context/v1";
    keeps(with(json!([core])));
    keeps(with(json!([core, "https://example.org/haptic/v1"])));
    breaks(with(json!("https://aaep-protocol.org/context/v2")), "env.context", "/@context");
    breaks(with(json!(["https://example.org/haptic/v1", core])), "env.context", "/@context");
    breaks(with(json!([])), "env.context", "/@context");
    breaks(with(json!({})), "env.context", "/@context");
    breaks(with(json!([core, "no uri"])), "env.context", "/@context/1");
    breaks(with(json!([core, {"haptic": "https://example.org"}])), "env.context", "/@context/1");
}

#[test]
fn env_type() {
    for bad in [json!("started"), json!("1x:y"), json!("x: y"), json!(":"), json!(7), json!(null)] {
        let mut document = event("state.changed");
        document["type"] = bad;
        breaks_also(document, "env.type", "/type");
    }
}

#[test]
fn env_unknown_type() {
    let with = |name: &str| merge(event("state.changed"), json!({"type": name}));
    breaks_also(with("aaep:agent.session.paused"), "env.unknown-type", "/type");
    breaks_also(with("https://aaep-protocol.org/types/agent.paused"), "env.unknown-type", "/type");
    keeps(with("https://aaep-protocol.org/types/agent.state.changed"));
}

#[test]
fn env_event_id() {
    for bad in [json!("not-an-id"), json!("evt_"), json!("sess_1"), json!("evt_a b"), json!(1)] {
        breaks(merge(event("state.changed"), json!({"event_id": bad})), "env.event-id", "/event_id");
    }
}

#[test]
fn env_session_id() {
    for bad in [json!("evt_1"), json!("sess_"), json!(format!("sess_{}", "a".repeat(65)))] {
        breaks(merge(event("state.changed"), json!({"session_id": bad})), "env.session-id", "/session_id");
    }
}

#[test]
fn env_timestamp() {
    for bad in [json!("May 24th, 2026"), json!("2026-05-24T14:22:11.3Z"), json!("2026-05-24"), json!(1779632531)] {
        breaks(merge(event("state.changed"), json!({"timestamp": bad})), "env.timestamp", "/timestamp");
    }
    for good in ["2026-05-24T14:22:11Z", "2026-05-24T14:22:11.342118+01:00"] {
        keeps(merge(event("state.changed"), json!({"timestamp": good})));
    }
}

#[test]
fn env_timestamp_day() {
    let with = |at: &str| merge(event("state.changed"), json!({"timestamp": at}));
    breaks(with("2026-02-30T00:00:00Z"), "env.timestamp-day", "/timestamp");
    breaks(with("2026-04-31T00:00:00Z"), "env.timestamp-day", "/timestamp");
}

#[test]
fn env_producer() {
    let with = |producer: Value| merge(event("state.changed"), json!({"producer": producer}));
    keeps(with(
        json!({"agent_id": "a", "agent_version": "1", "agent_name": "A", "model": "m", "manifest_uri": "https://a.example/m"}),
    ));
    breaks(with(json!({})), "env.producer", "/producer/agent_id");
    breaks(with(json!({"agent_id": ""})), "env.producer", "/producer/agent_id");
    breaks(with(json!({"agent_id": "a", "team": "b"})), "env.producer", "/producer/team");
    breaks(with(json!({"agent_id": "a", "manifest_uri": "here"})), "env.producer", "/producer/manifest_uri");
    breaks(with(json!("a")), "env.producer", "/producer");
}

#[test]
fn env_version() {
    let with = |version: Value| merge(event("state.changed"), json!({"aaep_version": version}));
    keeps(with(json!("1.0.0")));
    keeps(with(json!("0.1.0-draft.2")));
    for bad in [json!("1.0"), json!("v1.0.0"), json!("1.0.0-"), json!(1)] {
        breaks(with(bad), "env.version", "/aaep_version");
    }
}

#[test]
fn env_sequence_number() {
    let with = |n: Value| merge(event("state.changed"), json!({"sequence_number": n}));
    keeps(with(json!(0)));
    for bad in [json!(-1), json!(1.5), json!("1")] {
        breaks(with(bad), "env.sequence-number", "/sequence_number");
    }
}

#[test]
fn env_verbosity() {
    breaks(merge(event("state.changed"), json!({"verbosity": "chatty"})), "env.verbosity", "/verbosity");
}

#[test]
fn env_urgency() {
    breaks_also(merge(event("state.changed"), json!({"urgency": "panic"})), "env.urgency", "/urgency");
}

#[test]
fn env_localization() {
    let with = |hints: Value| merge(event("state.changed"), json!({"localization_hints": hints}));
    keeps(with(json!({"primary_language": "ar", "text_direction": "rtl", "available_languages": ["ar", "en"],
        "fallback_chain": ["en"], "script": "Arab", "calendar": "islamic"})));
    breaks(with(json!({"text_direction": "up"})), "env.localization", "/localization_hints/text_direction");
    breaks(with(json!({"tongue": "en"})), "env.localization", "/localization_hints/tongue");
    breaks(
        with(json!({"available_languages": ["en", "en"]})),
        "env.localization",
        "/localization_hints/available_languages/1",
    );
    let many: Vec<String> = (0..33).map(|i| format!("x-{i}")).collect();
    breaks(with(json!({"available_languages": many})), "env.localization", "/localization_hints/available_languages");
}

#[test]
fn i18n_tag() {
    let bad = json!({"localization_hints": {"primary_language": "en_US"}});
    breaks(merge(event("state.changed"), bad), "i18n.tag", "/localization_hints/primary_language");
    breaks(merge(event("output.streaming"), json!({"language": "123"})), "i18n.tag", "/language");
}

#[test]
fn env_correlation_id() {
    breaks(merge(event("state.changed"), json!({"correlation_id": 7})), "env.correlation-id", "/correlation_id");
}

#[test]
fn env_forbidden_field() {
    for field in ["@id", "@graph", "@base", "@vocab", "aaep_secret"] {
        breaks(merge(event("state.changed"), json!({field: "x"})), "env.forbidden-field", &format!("/{field}"));
    }
}

#[test]
fn env_custom_field() {
    breaks(merge(event("state.changed"), json!({"mood": "good"})), "env.custom-field", "/mood");
    breaks(merge(event("state.changed"), json!({"a/b~c": 1})), "env.custom-field", "/a~1b~0c");
    // A field of another type of event does not belong here either.
    breaks(merge(event("state.changed"), json!({"tool": "x"})), "env.custom-field", "/tool");
}

#[test]
fn i18n_variant() {
    let with = |name: &str, text: Value| merge(event("session.started"), json!({name: text}));
    keeps(with("summary_normal_yo", json!("A ń to lẹ́tà.")));
    keeps(with("summary_terse_es_419", json!("Ordenando.")));
    keeps(with("request_text_zh_Hant_TW", json!("整理信件")));
    breaks(with("summary_normal_yo", json!(1)), "payload.type", "/summary_normal_yo");
    breaks(with("summary_normal_yo", json!("")), "payload.limit", "/summary_normal_yo");
    breaks(with("summary_normal_Yoruba", json!("x")), "env.custom-field", "/summary_normal_Yoruba");
    breaks(with("requested_by_yo", json!("x")), "env.custom-field", "/requested_by_yo");
}

#[test]
fn payload_required() {
    for (name, fields) in [
        ("session.started", &["summary_normal"][..]),
        ("session.completed", &["summary_normal"]),
        ("session.errored", &["error_category", "summary_normal"]),
        ("session.cancelled", &["cancelled_by", "summary_normal"]),
        ("state.changed", &["from_state", "to_state"]),
        ("progress.updated", &["progress"]),
        ("tool.invoked", &["tool", "summary_normal"]),
        ("tool.completed", &["tool", "status"]),
        ("output.streaming", &["chunk", "position", "complete"]),
        ("awaiting.confirmation", &["action", "consequence", "reply_token", "timeout_seconds", "default_decision"]),
        ("awaiting.clarification", &["question", "reply_token", "timeout_seconds"]),
        ("handoff.requested", &["reason", "target_kind"]),
    ] {
        for field in fields {
            breaks_also(merge(event(name), json!({*field: null})), "payload.required", &format!("/{field}"));
        }
    }
}

#[test]
fn payload_type() {
    for (name, field, bad) in [
        ("session.started", "summary_normal", json!(1)),
        ("session.started", "tools_available", json!("all")),
        ("session.started", "expected_duration_ms", json!("soon")),
        ("tool.invoked", "irreversible", json!("yes")),
        ("progress.updated", "progress", json!(40)),
        ("output.streaming", "position", json!(1.5)),
        ("handoff.requested", "packaged_context", json!([])),
        ("session.completed", "tool_invocations_count", json!(null)),
    ] {
        let mut document = event(name);
        document[field] = bad;
        breaks(document, "payload.type", &format!("/{field}"));
    }
}

#[test]
fn payload_limit() {
    let long = |n: usize| json!("é".repeat(n));
    for (name, field, good, bad) in [
        ("session.started", "summary_terse", long(4096), long(4097)),
        ("session.started", "requested_by", long(256), long(257)),
        ("state.changed", "to_state", long(64), long(65)),
        ("session.started", "expected_duration_ms", json!(86_400_000), json!(86_400_001)),
        ("awaiting.confirmation", "timeout_seconds", json!(86_400), json!(0)),
        ("awaiting.clarification", "context", long(4096), json!("")),
        ("tool.invoked", "description", long(4096), json!("")),
        ("output.streaming", "chunk", json!(""), json!("a".repeat(16_385))),
        ("session.completed", "tool_invocations_count", json!(0), json!(-1)),
    ] {
        keeps(merge(event(name), json!({field: good})));
        breaks_also(merge(event(name), json!({field: bad})), "payload.limit", &format!("/{field}"));
    }
    breaks(merge(event("progress.updated"), json!({"progress": {}})), "payload.limit", "/progress");
    breaks(
        merge(event("progress.updated"), json!({"progress": {"percent": 100.5}})),
        "payload.limit",
        "/progress/percent",
    );
    breaks(merge(event("progress.updated"), json!({"progress": {"step": 0}})), "payload.limit", "/progress/step");
    let nameless = json!({"progress": {"description": ""}});
    breaks(merge(event("progress.updated"), nameless), "payload.limit", "/progress/description");
    let one_choice = json!({"choices": [{"value": "a", "label": "A"}]});
    breaks(merge(event("awaiting.clarification"), one_choice), "payload.limit", "/choices");
    let twice = json!({"tools_available": ["a", "b", "a"]});
    breaks(merge(event("session.started"), twice), "payload.limit", "/tools_available/2");
}

#[test]
fn payload_enum() {
    for (name, field) in [
        ("session.errored", "error_category"),
        ("session.cancelled", "cancelled_by"),
        ("tool.completed", "status"),
        ("tool.invoked", "risk_level"),
        ("output.streaming", "coalesce_hint"),
        ("awaiting.confirmation", "default_decision"),
        ("awaiting.confirmation", "reversibility"),
        ("handoff.requested", "target_kind"),
        ("handoff.requested", "urgency_for_handoff"),
    ] {
        breaks(merge(event(name), json!({field: "whatever"})), "payload.enum", &format!("/{field}"));
    }
    let kinds = json!({"accepted_response_kinds": ["freetext", "song"]});
    breaks(merge(event("awaiting.clarification"), kinds), "payload.enum", "/accepted_response_kinds/1");
}

#[test]
fn payload_format() {
    for (name, field, bad) in [
        ("tool.invoked", "tool", "9lives"),
        ("tool.invoked", "tool_call_id", "7a2b"),
        ("output.streaming", "output_id", "3a8c2"),
        ("output.streaming", "content_type", "plain"),
        ("awaiting.confirmation", "reply_token", "rpl-1"),
        ("session.errored", "error_code", "timeout"),
        ("session.errored", "error_uri", "see docs"),
        ("session.cancelled", "cancellation_reason", "User pressed escape"),
        ("session.completed", "result_uri", "result.html"),
    ] {
        breaks(merge(event(name), json!({field: bad})), "payload.format", &format!("/{field}"));
    }
}

#[test]
fn urgency_critical() {
    for name in ["session.errored", "awaiting.confirmation", "awaiting.clarification", "handoff.requested"] {
        breaks(merge(event(name), json!({"urgency": "normal"})), "urgency.critical", "/urgency");
        breaks(merge(event(name), json!({"urgency": null})), "urgency.critical", "/urgency");
    }
}

#[test]
fn urgency_recommended() {
    breaks(merge(event("progress.updated"), json!({"urgency": "normal"})), "urgency.recommended", "/urgency");
    breaks(merge(event("tool.invoked"), json!({"urgency": "critical"})), "urgency.recommended", "/urgency");
    keeps(merge(event("state.changed"), json!({"urgency": "background"})));
    for (name, urgency, wanted) in [
        ("progress.updated", "normal", "Set urgency to background"),
        ("state.changed", "critical", "Set urgency to background or normal"),
        ("tool.completed", "background", "Set urgency to normal"),
    ] {
        let report = validate(merge(event(name), json!({"urgency": urgency})).to_string().as_bytes());
        assert!(report.problems[0].message.starts_with(wanted), "{}", report.problems[0].message);
    }
    assert_eq!(Rule::UrgencyRecommended.severity(), Severity::Warning);
}

/// An event of an extension that declares its vocabulary.
fn extension_event() -> Value {
    let context = json!(["https://aaep-protocol.org/context/v1", "https://example.org/haptic/v1"]);
    merge(event("state.changed"), json!({"@context": context, "type": "haptic:pulse"}))
}

fn confirmation(irreversible: bool, risk: Option<&str>, default: &str) -> Value {
    merge(
        event("awaiting.confirmation"),
        json!({"irreversible": irreversible, "risk_level": risk, "default_decision": default}),
    )
}

#[test]
fn conf_default_reject() {
    for risk in [Some("high"), Some("medium"), None] {
        breaks(confirmation(true, risk, "accept"), "conf.default-reject", "/default_decision");
        keeps(confirmation(true, risk, "reject"));
        let by_other_field = merge(confirmation(false, risk, "accept"), json!({"reversibility": "irreversible"}));
        breaks(by_other_field, "conf.default-reject", "/default_decision");
    }
}

#[test]
fn conf_default_should_reject() {
    breaks(confirmation(true, Some("low"), "accept"), "conf.default-should-reject", "/default_decision");
    breaks(confirmation(false, Some("high"), "accept"), "conf.default-should-reject", "/default_decision");
    for risk in [Some("medium"), Some("low"), None] {
        keeps(confirmation(false, risk, "accept"));
    }
    assert_eq!(Rule::DefaultShouldReject.severity(), Severity::Warning);
}

#[test]
fn conf_allowed_replies() {
    let with = |allowed: Value| merge(event("awaiting.confirmation"), json!({"allowed_replies": allowed}));
    keeps(with(json!(["accept", "reject"])));
    breaks(with(json!(["accept", "later"])), "conf.allowed-replies", "/allowed_replies");
    breaks(with(json!(["accept"])), "conf.allowed-replies", "/allowed_replies");
}

#[test]
fn clar_choices() {
    let kinds = json!({"accepted_response_kinds": ["multiple_choice"]});
    breaks(merge(event("awaiting.clarification"), kinds), "clar.choices", "/choices");
}

#[test]
fn i18n_declared() {
    breaks(
        merge(event("session.started"), json!({"localization_hints": null})),
        "i18n.declared",
        "/localization_hints/primary_language",
    );
    keeps(merge(event("state.changed"), json!({"localization_hints": null})));
    let here = "/localization_hints/primary_language";
    let described = json!({"localization_hints": null, "progress": {"description": "Reading."}});
    breaks(merge(event("progress.updated"), described), "i18n.declared", here);
    keeps(merge(event("progress.updated"), json!({"localization_hints": null})));
    let announced = json!({"localization_hints": null, "summary_normal": "A pulse."});
    breaks(merge(extension_event(), announced), "i18n.declared", here);
    keeps(merge(extension_event(), json!({"localization_hints": null})));
    assert_eq!(Rule::LanguageDeclared.severity(), Severity::Warning);
}

#[test]
fn sec_secret() {
    for (name, field) in [
        ("tool.invoked", "args_summary"),
        ("tool.invoked", "summary_normal"),
        ("awaiting.confirmation", "action"),
        ("output.streaming", "chunk"),
        ("session.started", "summary_terse_de"),
    ] {
        for secret in
            ["pay with 4111 1111 1111 1111", "SSN 123-45-6789", "key sk-abc1234567890", "Bearer abcdef0123456789"]
        {
            breaks(merge(event(name), json!({field: secret})), "sec.secret", &format!("/{field}"));
        }
    }
    let choices =
        json!({"choices": [{"value": "a", "label": "Card 4111111111111111"}, {"value": "b", "label": "Other"}]});
    breaks(merge(event("awaiting.clarification"), choices), "sec.secret", "/choices/0/label");
    let card = "Card 4111111111111111";
    for (name, change, pointer) in [
        ("awaiting.confirmation", json!({"extra_context": {"deep": [card]}}), "/extra_context/deep/0"),
        ("handoff.requested", json!({"packaged_context": {"note": card}}), "/packaged_context/note"),
        ("handoff.requested", json!({"packaged_context": {"password": "hunter22"}}), "/packaged_context/password"),
        (
            "handoff.requested",
            json!({"packaged_context": {"password": "password=hunter22"}}),
            "/packaged_context/password",
        ),
        ("state.changed", json!({"producer": {"agent_id": "a", "agent_name": card}}), "/producer/agent_name"),
        ("session.started", json!({"requested_by": card}), "/requested_by"),
        ("session.started", json!({"tools_available": ["t", card]}), "/tools_available/1"),
    ] {
        breaks(merge(event(name), change), "sec.secret", pointer);
    }
    for field in ["summary_terse", "summary_normal", "summary_detailed_pt_BR"] {
        breaks(merge(extension_event(), json!({field: card})), "sec.secret", &format!("/{field}"));
    }
    keeps(merge(extension_event(), json!({"strength": card})));
}

#[test]
fn sec_deceptive_text() {
    for (name, field) in [
        ("awaiting.confirmation", "action"),
        ("awaiting.confirmation", "consequence_fr"),
        ("awaiting.clarification", "question"),
        ("awaiting.confirmation", "summary_normal"),
        ("awaiting.clarification", "summary_terse_de"),
    ] {
        for text in ["Pay \u{202e}001$", "Pay b\u{200b}ob", "Open p\u{0430}ypal", "Pay \u{0440}\u{0430}\u{0443}"] {
            breaks(merge(event(name), json!({field: text})), "sec.deceptive-text", &format!("/{field}"));
        }
    }
    let choices = json!({"choices": [{"value": "a", "label": "A"}, {"value": "b", "label": "p\u{0430}ypal"}]});
    breaks(merge(event("awaiting.clarification"), choices), "sec.deceptive-text", "/choices/1/label");
    keeps(merge(event("session.started"), json!({"summary_normal": "b\u{200b}ob"})));
    // A word in Cyrillic letters is not deceptive in a language that uses them.
    keeps(merge(event("awaiting.confirmation"), json!({"action_ru": "Pay \u{0440}\u{0430}\u{0443}"})));
    let hints = json!({"localization_hints": {"primary_language": "ru"}, "action": "Pay \u{0440}\u{0430}\u{0443}"});
    keeps(merge(event("awaiting.confirmation"), hints));
}

#[test]
fn ext_shape() {
    let with = |extensions: Value| {
        let context = json!(["https://aaep-protocol.org/context/v1", "https://example.org/haptic/v1"]);
        merge(event("state.changed"), json!({"@context": context, "extensions": extensions}))
    };
    keeps(with(json!({"haptic": {"pulse": true}})));
    breaks(with(json!({"haptic": 1})), "ext.shape", "/extensions/haptic");
    breaks(with(json!([])), "ext.shape", "/extensions");
}

#[test]
fn ext_undeclared_prefix() {
    let core = "https://aaep-protocol.org/context/v1";
    let haptic = json!({"haptic": {"pulse": true}});
    let with = |context: Value, extensions: Value| {
        merge(event("state.changed"), json!({"@context": context, "extensions": extensions}))
    };
    breaks(with(json!(core), haptic.clone()), "ext.undeclared-prefix", "/extensions/haptic");
    breaks(with(json!([core]), haptic.clone()), "ext.undeclared-prefix", "/extensions/haptic");
    let two = json!({"haptic": {}, "taste": {}});
    breaks(with(json!([core, "https://example.org/haptic/v1"]), two), "ext.undeclared-prefix", "/extensions/taste");
    // A validator that knows the extension looks for its own vocabulary.
    let known = Validator::new().with_extension("haptic", "https://example.org/haptic/v1");
    let other = with(json!([core, "https://example.org/taste/v1"]), haptic.clone());
    assert!(!known.check_value(&other).is_valid());
    let right = with(json!([core, "https://example.org/haptic/v1"]), haptic);
    assert!(known.check_value(&right).is_valid());
    // An event type of an extension needs its vocabulary too.
    breaks(merge(event("state.changed"), json!({"type": "haptic:pulse"})), "ext.undeclared-prefix", "/type");
    let full = json!({"type": "https://example.org/types/pulse"});
    breaks(merge(event("state.changed"), full.clone()), "ext.undeclared-prefix", "/type");
    keeps(merge(extension_event(), full));
}

#[test]
fn each_prefix_needs_a_vocabulary_of_its_own() {
    let core = "https://aaep-protocol.org/context/v1";
    let haptic = "https://example.org/haptic/v1";
    let with = |context: Value, name: &str, extensions: Value| {
        merge(event("state.changed"), json!({"@context": context, "type": name, "extensions": extensions}))
    };
    let state = "aaep:agent.state.changed";
    let rule = "ext.undeclared-prefix";
    // Neither the core vocabulary nor a repeated one declares an extension, however often it is listed.
    breaks(with(json!([core, core]), state, json!({"haptic": {}})), rule, "/extensions/haptic");
    let two = json!({"haptic": {}, "taste": {}});
    breaks(with(json!([core, haptic, haptic]), state, two), rule, "/extensions/taste");
    // The prefix of the type counts, once.
    breaks(with(json!([core, haptic]), "haptic:x", json!({"taste": {}})), rule, "/extensions/taste");
    keeps(with(json!([core, haptic]), "haptic:x", json!({"haptic": {}})));
    keeps(with(json!([core, haptic, "https://example.org/taste"]), "haptic:x", json!({"taste": {}})));
    // What belongs to a known extension declares no other.
    let known = Validator::new().with_extension("haptic", haptic);
    assert!(!known.check_value(&with(json!([core, haptic]), state, json!({"taste": {}}))).is_valid());
}

#[test]
fn ext_reserved_prefix() {
    let core = json!(["https://aaep-protocol.org/context/v1", "https://example.org/haptic/v1"]);
    for prefix in ["aaep", "xsd", "rdf", "rdfs", "@id", "AAEP", "Aaep", "XSD", "Rdf", "rdfS"] {
        let document = merge(event("state.changed"), json!({"@context": core, "extensions": {prefix: {}}}));
        breaks(document, "ext.reserved-prefix", &format!("/extensions/{prefix}"));
    }
    for name in ["rdf:thing", "RDF:thing", "AAEP:agent.state.changed", "Aaep:thing"] {
        let document = merge(event("state.changed"), json!({"@context": core, "type": name}));
        breaks(document, "ext.reserved-prefix", "/type");
    }
    let posing = "HTTPS://AAEP-protocol.org/types/agent.state.changed";
    breaks(merge(event("state.changed"), json!({"@context": core, "type": posing})), "env.unknown-type", "/type");
    for prefix in ["aaep", "Xsd"] {
        let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "a",
            "capabilities": {prefix: {}}});
        breaks(request, "ext.reserved-prefix", &format!("/capabilities/{prefix}"));
    }
}

#[test]
fn extension_events_keep_their_own_fields() {
    let context = json!(["https://aaep-protocol.org/context/v1", "https://example.org/haptic/v1"]);
    let document = merge(event("state.changed"), json!({"@context": context, "type": "haptic:pulse", "strength": 3}));
    keeps(document.clone());
    breaks(merge(document.clone(), json!({"aaep_strength": 3})), "env.forbidden-field", "/aaep_strength");
    breaks(merge(document, json!({"AAEP_strength": 3})), "env.forbidden-field", "/AAEP_strength");
}

#[test]
fn limits_message_size() {
    let big = merge(event("handoff.requested"), json!({"packaged_context": {"x": "a".repeat(1 << 20)}}));
    breaks_also(big, "limits.message-size", "");
}

#[test]
fn limits_event_size() {
    let rows: Vec<String> = (0..100).map(|_| "a".repeat(700)).collect();
    breaks(merge(event("handoff.requested"), json!({"packaged_context": {"rows": rows}})), "limits.event-size", "");
}

#[test]
fn limits_fields() {
    let mut document = event("session.started");
    for i in 0..30 {
        document[format!("summary_normal_x{}_{i}", if i % 2 == 0 { "a" } else { "b" })] = json!("text");
    }
    breaks(document, "limits.fields", "");
}

#[test]
fn limits_depth() {
    let nest = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"in": inner}));
    keeps(merge(event("handoff.requested"), json!({"packaged_context": nest(7)})));
    breaks(
        merge(event("handoff.requested"), json!({"packaged_context": nest(8)})),
        "limits.depth",
        "/packaged_context/in/in/in/in/in/in/in",
    );
}

#[test]
fn limits_string() {
    breaks(
        merge(event("handoff.requested"), json!({"packaged_context": {"x": "a".repeat(16_385)}})),
        "limits.string",
        "/packaged_context/x",
    );
}

#[test]
fn msg_required() {
    for name in MESSAGES {
        let document = message(name);
        let required: Vec<String> =
            document.as_object().unwrap().keys().filter(|k| *k != "type" && *k != "reason_code").cloned().collect();
        for field in required {
            let rule = if name == "aaep:producer.manifest" { "manifest.fields" } else { "msg.required" };
            breaks(merge(document.clone(), json!({&field: null})), rule, &format!("/{field}"));
        }
    }
}

#[test]
fn msg_type() {
    breaks(merge(message("subscription.request"), json!({"subscriber_id": 7})), "msg.type", "/subscriber_id");
    breaks(merge(message("clarification.reply"), json!({"response": ["a"]})), "msg.type", "/response");
    breaks(merge(message("confirmation.reply"), json!({"modified_action": "less"})), "msg.type", "/modified_action");
    for response in [json!("inbox"), json!(true), json!(67)] {
        keeps(merge(message("clarification.reply"), json!({"response": response})));
    }
}

#[test]
fn msg_limit() {
    for (name, field, bad) in [
        ("subscription.request", "subscriber_id", json!("")),
        ("subscription.request", "subscriber_version", json!("v".repeat(65))),
        ("subscription.rejected", "retry_after_seconds", json!(86_401)),
        ("subscription.rejected", "reason_message", json!("")),
        ("clarification.reply", "confidence", json!(1.1)),
        ("clarification.reply", "response", json!("")),
        ("confirmation.reply", "decision_rationale", json!("x".repeat(4097))),
        ("subscription.close", "reason_code", json!("")),
        ("subscription.close", "reason_code", json!("x".repeat(257))),
    ] {
        breaks(merge(message(name), json!({field: bad})), "msg.limit", &format!("/{field}"));
    }
}

#[test]
fn msg_enum() {
    breaks(merge(message("confirmation.reply"), json!({"decision": "maybe"})), "msg.enum", "/decision");
    breaks(merge(message("subscription.rejected"), json!({"reason_code": "mood"})), "msg.enum", "/reason_code");
}

#[test]
fn msg_format() {
    for (name, field, bad) in [
        ("confirmation.reply", "reply_token", "xyz"),
        ("confirmation.reply", "subscription_id", "rpl_1"),
        ("confirmation.reply", "timestamp", "now"),
        ("subscription.request", "aaep_version", "one"),
        ("subscription.accepted", "signed_manifest", "not a jws"),
    ] {
        breaks(merge(message(name), json!({field: bad})), "msg.format", &format!("/{field}"));
    }
}

#[test]
fn msg_unknown_field() {
    for name in &MESSAGES[..7] {
        breaks(merge(message(name), json!({"mood": "good"})), "msg.unknown-field", "/mood");
    }
    keeps(merge(message("aaep:producer.manifest"), json!({"mood": "good"})));
}

#[test]
fn msg_unknown_type() {
    breaks(json!({"type": "subscription.pause"}), "msg.unknown-type", "/type");
    breaks(json!({"type": "vote.reply"}), "msg.unknown-type", "/type");
    // The specification does not restrict the reason of a close.
    keeps(merge(message("subscription.close"), json!({"reason_code": "Bye bye"})));
}

fn request(capabilities: Value) -> Value {
    merge(message("subscription.request"), json!({"capabilities": capabilities}))
}

#[test]
fn cap_values() {
    for (field, good, bad) in [
        ("max_events_per_second", json!(100_000), json!(0)),
        ("preferred_verbosity", json!("terse"), json!("loud")),
        ("languages", json!(["yo", "en-US"]), json!([])),
        ("supports_confirmation_reply", json!(true), json!("true")),
        ("supports_clarification_reply", json!(false), json!(0)),
        ("coalesce_boundaries", json!(["none", "word"]), json!([])),
        ("event_filters", json!({"include": ["aaep:agent.*"]}), json!({"only": []})),
        ("supported_conformance_levels", json!([1]), json!([])),
        ("supported_extensions", json!(["https://example.org/x"]), json!("https://example.org/x")),
        ("cognitive_load", json!("high"), json!("extreme")),
        ("pace_wpm", json!(50), json!(49)),
        ("accept_signed_manifests_only", json!(true), json!(1)),
    ] {
        keeps(request(json!({field: good})));
        let found = problems(&request(json!({field: bad})));
        assert!(found.iter().all(|(rule, _)| rule == "cap.values") && found.len() == 1, "{field}: {found:?}");
    }
    breaks(
        request(json!({"supported_conformance_levels": [1, 4]})),
        "cap.values",
        "/capabilities/supported_conformance_levels/1",
    );
}

#[test]
fn cap_extension_object() {
    keeps(request(json!({"haptic": {"pulse": true}})));
    breaks(request(json!({"haptic": true})), "cap.extension-object", "/capabilities/haptic");
}

#[test]
fn cap_level2_replies() {
    let at = "/capabilities/supports_confirmation_reply";
    breaks(request(json!({"supported_conformance_levels": [1, 2]})), "cap.level2-replies", at);
    breaks(
        request(json!({"supported_conformance_levels": [3], "supports_confirmation_reply": false})),
        "cap.level2-replies",
        at,
    );
    keeps(request(json!({"supported_conformance_levels": [1, 2, 3], "supports_confirmation_reply": true})));
}

#[test]
fn manifest_fields() {
    let with = |field: &str, value: Value| merge(message("aaep:producer.manifest"), json!({field: value}));
    breaks(with("transports_supported", json!([])), "manifest.fields", "/transports_supported");
    breaks(with("aaep_versions_supported", json!(["one"])), "manifest.fields", "/aaep_versions_supported/0");
    breaks(with("max_concurrent_subscriptions", json!(-1)), "manifest.fields", "/max_concurrent_subscriptions");
    keeps(with("contact", json!("access@example.org")));
}

#[test]
fn every_violation_is_reported_in_the_order_of_the_steps() {
    let document = merge(
        event("session.errored"),
        json!({
            "event_id": "x", "timestamp": "x", "@context": "x", "producer": {}, "error_category": "x",
            "urgency": "normal", "mood": 1, "extensions": {"aaep": {}}, "session_id": null
        }),
    );
    let report = validate(document.to_string().as_bytes());
    let steps: Vec<u8> = report.problems.iter().map(|p| p.rule.step()).collect();
    assert!(steps.is_sorted(), "{:?}", report.problems);
    let rules: Vec<&str> = report.problems.iter().map(|p| p.rule.id()).collect();
    assert_eq!(
        rules,
        [
            "env.required",
            "env.producer",
            "env.context",
            "env.event-id",
            "env.timestamp",
            "payload.enum",
            "env.custom-field",
            "urgency.critical",
            "ext.reserved-prefix"
        ]
    );
    assert!(report.problems.iter().all(|p| p.message.ends_with('.')), "{:?}", report.problems);
}

#[test]
fn the_invalid_examples_of_chapter_3_are_refused() {
    breaks(merge(event("session.started"), json!({"event_id": null})), "env.required", "/event_id");
    breaks(merge(event("session.started"), json!({"timestamp": "this afternoon"})), "env.timestamp", "/timestamp");
    breaks_also(
        merge(event("session.started"), json!({"type": "aaep:agent.session.begun"})),
        "env.unknown-type",
        "/type",
    );
    breaks(
        merge(event("session.started"), json!({"extensions": {"haptic": {}}})),
        "ext.undeclared-prefix",
        "/extensions/haptic",
    );
    breaks(merge(event("session.started"), json!({"my_field": 1})), "env.custom-field", "/my_field");
}

/// A report contains names of the document, but of bounded length.
#[test]
fn long_names_are_cut_in_reports() {
    let long = "n".repeat(100_000);
    let mut document = event("state.changed");
    document[&long] = json!(1);
    document["type"] = json!(format!("aaep:{long}"));
    document["extensions"] = json!({&long: 1});
    let report = validate(document.to_string().as_bytes());
    assert!(report.problems.len() >= 2, "{:?}", report.problems);
    for problem in report.problems {
        assert!(problem.pointer.len() < 300 && problem.message.len() < 400, "{problem:?}");
        assert!(problem.pointer.len() < 100 || problem.pointer.contains('\u{2026}'), "{problem:?}");
    }
}

/// Returns the messages of all problems of a document.
fn messages(document: &Value) -> Vec<String> {
    let report = Validator::new().check_value(document);
    report.problems.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn misspelt_types_and_fields_are_guessed() {
    for (document, expected) in [
        (merge(event("session.started"), json!({"type": "session.start"})), "Did you mean aaep:agent.session.started?"),
        (
            merge(event("tool.invoked"), json!({"type": "aaep:agent.tool.invoke"})),
            "Did you mean aaep:agent.tool.invoked?",
        ),
        (merge(event("session.started"), json!({"summary": "Hello."})), "no such field. Did you mean summary_normal?"),
        (merge(event("session.started"), json!({"corelation_id": "a"})), "no such field. Did you mean correlation_id?"),
        (merge(event("session.started"), json!({"aaep_verison": "1.0.0"})), "Did you mean aaep_version?"),
        (merge(message("subscription.request"), json!({"subscriber": "me"})), "Did you mean subscriber_id?"),
        (
            merge(message("subscription.request"), json!({"type": "subscription.requst"})),
            "Did you mean subscription.request?",
        ),
        (
            merge(message("subscription.request"), json!({"capabilities": {"supports_confirmation": true}})),
            "Did you mean supports_confirmation_reply?",
        ),
    ] {
        let found = messages(&document);
        assert!(found.iter().any(|message| message.contains(expected)), "{expected}: {found:?}");
    }
    let found = messages(&merge(event("session.started"), json!({"colour": "red"})));
    assert!(found.iter().all(|message| !message.contains("Did you mean")), "{found:?}");
}

#[test]
fn items_that_must_be_objects_are_reported_once_with_an_example() {
    let choices = json!([{"value": "a", "label": "A"}, {"value": "b", "label": "B"}, "c", "d"]);
    let found = messages(&merge(event("awaiting.clarification"), json!({"choices": choices})));
    let expected = r#"choices[2] must be an object such as {"value": "a", "label": "A"}, not a string."#;
    assert_eq!(found, [expected]);
}
