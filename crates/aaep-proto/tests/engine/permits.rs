//! Permits for irreversible tool calls: when they are given, and how long they are valid (decisions 60 and 61).

use aaep_proto::confirm::{Acceptance, Confirmation, PermitError, Resolution};
use aaep_proto::engine::EngineError;
use aaep_proto::message::{Decision, Reversibility, RiskLevel, ToolInvoked};
use serde_json::json;

use crate::confirmations::{asked, tidy_up};
use crate::harness::EngineHarness;

#[test]
fn an_accept_yields_a_permit_for_exactly_that_call() {
    let (mut harness, reader, session, token) = asked();
    assert_eq!(harness.names(reader), ["session.started", "state.changed", "state.changed", "awaiting.confirmation"]);
    harness.reply(reader, &token, "accept");
    let outcome = harness.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Accept, Resolution::Accepted));
    harness.invoke(&session, "transfer", &json!({"amount": 500}), outcome.permit.unwrap()).unwrap();
    assert_eq!(harness.states(reader), ["idle>thinking", "thinking>awaiting_input", "awaiting_input>calling_tool"]);
    assert_eq!(harness.names(reader).last().map(String::as_str), Some("tool.invoked"));
}

#[test]
fn permit_does_not_allow_another_call() {
    for (tool, arguments) in [("transfer", json!({"amount": 5000})), ("withdraw", json!({"amount": 500}))] {
        let (mut harness, reader, session, token) = asked();
        harness.reply(reader, &token, "accept");
        let permit = harness.outcome().permit.unwrap();
        harness.clear();
        assert!(matches!(harness.invoke(&session, tool, &arguments, permit), Err(EngineError::WrongPermit(_))));
        assert_eq!(harness.events(reader).len(), 0, "nothing is sent");
    }
}

#[test]
fn irreversible_tool_needs_a_permit() {
    let (mut harness, _, session, _) = asked();
    let tool = ToolInvoked {
        tool: "transfer".into(),
        summary_normal: "x".into(),
        irreversible: Some(true),
        ..ToolInvoked::default()
    };
    assert_eq!(harness.act(|engine, cx| engine.invoke_tool(cx, &session, tool.clone())), Err(EngineError::NeedsPermit));
    assert_eq!(harness.act(|engine, cx| engine.emit(cx, &session, tool.into())), Err(EngineError::NeedsPermit));
}

/// Accepting a question that was not asked as irreversible yields no permit.
#[test]
fn only_a_question_asked_as_irreversible_yields_a_permit() {
    let plain = || Confirmation::new("Tidy up.", "The desk is tidy.").for_call("tidy", &json!({}));
    let asked = [plain(), plain().reversible(), plain().reversibility(Reversibility::ReversibleWithEffort)];
    for ask in asked {
        let mut harness = EngineHarness::new();
        let reader = harness.join_reader();
        let session = harness.start();
        let token = harness.ask(&session, ask.clone());
        harness.reply(reader, &token, "accept");
        let outcome = harness.outcome();
        assert_eq!(
            (outcome.decision, outcome.resolution, outcome.permit),
            (Decision::Accept, Resolution::Accepted, None)
        );
        // A reversible action may be accepted by default, even at high risk.
        harness.ask(&session, ask.risk(RiskLevel::High).accept_on_timeout().unwrap().timeout_seconds(1));
        harness.pass(1_000);
        let outcome = harness.outcome();
        assert_eq!(
            (outcome.decision, outcome.resolution, outcome.permit),
            (Decision::Accept, Resolution::TimedOut, None)
        );
    }
    // A permit is always for a call; a question without one yields none.
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    let token = harness.ask(&session, Confirmation::new("Tidy up.", "Old files go.").irreversible());
    harness.reply(reader, &token, "accept");
    let outcome = harness.outcome();
    assert_eq!((outcome.decision, outcome.permit), (Decision::Accept, None));
}

#[test]
fn permit_states_how_it_was_given() {
    let (mut harness, reader, _, token) = asked();
    harness.reply(reader, &token, "accept");
    assert_eq!(harness.outcome().permit.unwrap().acceptance(), Acceptance::Reply);
    let session = harness.start();
    harness.ask(&session, tidy_up().timeout_seconds(1));
    harness.pass(1_000);
    assert_eq!(harness.outcome().permit.unwrap().acceptance(), Acceptance::Default);
    // The default applies at once when the last subscriber that can reply leaves.
    harness.ask(&session, tidy_up().timeout_seconds(60));
    harness.act(|engine, cx| engine.disconnect(cx, reader));
    let outcome = harness.outcome();
    assert_eq!(outcome.resolution, Resolution::SubscriberLeft);
    assert_eq!(outcome.permit.unwrap().acceptance(), Acceptance::Default);
}

#[test]
fn a_permit_is_valid_for_ten_minutes() {
    for (millis, expected) in [(599_999, Ok(())), (600_000, Err(EngineError::WrongPermit(PermitError::Expired)))] {
        let (mut harness, reader, session, token) = asked();
        harness.reply(reader, &token, "accept");
        let permit = harness.outcome().permit.unwrap();
        harness.pass(millis);
        assert_eq!(harness.invoke(&session, "transfer", &json!({"amount": 500}), permit), expected);
    }
}
