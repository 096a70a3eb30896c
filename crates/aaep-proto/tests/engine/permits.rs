//! What permits an irreversible call, for how long, and what does not (decisions 60 and 61).

use aaep_proto::confirm::{Acceptance, Confirmation, PermitError, Resolution};
use aaep_proto::engine::EngineError;
use aaep_proto::message::{Decision, Reversibility, RiskLevel, ToolInvoked};
use serde_json::json;

use crate::confirmations::{asked, tidy_up};
use crate::harness::World;

#[test]
fn an_accept_yields_a_permit_for_exactly_that_call() {
    let (mut world, reader, session, token) = asked();
    assert_eq!(world.names(reader), ["session.started", "state.changed", "state.changed", "awaiting.confirmation"]);
    world.reply(reader, &token, "accept");
    let outcome = world.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Accept, Resolution::Accepted));
    world.invoke(&session, "transfer", &json!({"amount": 500}), outcome.permit.unwrap()).unwrap();
    assert_eq!(world.states(reader), ["idle>thinking", "thinking>awaiting_input", "awaiting_input>calling_tool"]);
    assert_eq!(world.names(reader).last().map(String::as_str), Some("tool.invoked"));
}

#[test]
fn another_call_does_not_run_with_the_permit() {
    for (tool, arguments) in [("transfer", json!({"amount": 5000})), ("withdraw", json!({"amount": 500}))] {
        let (mut world, reader, session, token) = asked();
        world.reply(reader, &token, "accept");
        let permit = world.outcome().permit.unwrap();
        world.clear();
        assert!(matches!(world.invoke(&session, tool, &arguments, permit), Err(EngineError::WrongPermit(_))));
        assert_eq!(world.events(reader).len(), 0, "nothing is sent");
    }
}

#[test]
fn no_irreversible_tool_without_a_permit() {
    let (mut world, _, session, _) = asked();
    let tool = ToolInvoked {
        tool: "transfer".into(),
        summary_normal: "x".into(),
        irreversible: Some(true),
        ..ToolInvoked::default()
    };
    assert_eq!(world.act(|engine, cx| engine.invoke_tool(cx, &session, tool.clone())), Err(EngineError::NeedsPermit));
    assert_eq!(world.act(|engine, cx| engine.emit(cx, &session, tool.into())), Err(EngineError::NeedsPermit));
}

/// A yes or a default for a question that was not asked as irreversible is a decision, and permits nothing irreversible.
#[test]
fn only_a_question_asked_as_irreversible_yields_a_permit() {
    let plain = || Confirmation::new("Tidy up.", "The desk is tidy.").for_call("tidy", &json!({}));
    let asked = [plain(), plain().reversible(), plain().reversibility(Reversibility::ReversibleWithEffort)];
    for ask in asked {
        let mut world = World::new();
        let reader = world.join_reader();
        let session = world.start();
        let token = world.ask(&session, ask.clone());
        world.reply(reader, &token, "accept");
        let outcome = world.outcome();
        assert_eq!(
            (outcome.decision, outcome.resolution, outcome.permit),
            (Decision::Accept, Resolution::Accepted, None)
        );
        // Silence, high risk: it may be accepted by default, since it can be undone.
        world.ask(&session, ask.risk(RiskLevel::High).accept_on_timeout().unwrap().timeout_seconds(1));
        world.pass(1_000);
        let outcome = world.outcome();
        assert_eq!(
            (outcome.decision, outcome.resolution, outcome.permit),
            (Decision::Accept, Resolution::TimedOut, None)
        );
    }
    // Without a call there is nothing that a permit could be for.
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    let token = world.ask(&session, Confirmation::new("Tidy up.", "Old files go.").irreversible());
    world.reply(reader, &token, "accept");
    let outcome = world.outcome();
    assert_eq!((outcome.decision, outcome.permit), (Decision::Accept, None));
}

#[test]
fn a_permit_says_how_the_user_agreed() {
    let (mut world, reader, _, token) = asked();
    world.reply(reader, &token, "accept");
    assert_eq!(world.outcome().permit.unwrap().acceptance(), Acceptance::Reply);
    let session = world.start();
    world.ask(&session, tidy_up().timeout_seconds(1));
    world.pass(1_000);
    assert_eq!(world.outcome().permit.unwrap().acceptance(), Acceptance::Default);
    // The default is applied at once where the last one who could answer leaves.
    world.ask(&session, tidy_up().timeout_seconds(60));
    world.act(|engine, cx| engine.disconnect(cx, reader));
    let outcome = world.outcome();
    assert_eq!(outcome.resolution, Resolution::SubscriberLeft);
    assert_eq!(outcome.permit.unwrap().acceptance(), Acceptance::Default);
}

#[test]
fn a_permit_is_valid_for_ten_minutes() {
    for (millis, expected) in [(599_999, Ok(())), (600_000, Err(EngineError::WrongPermit(PermitError::Expired)))] {
        let (mut world, reader, session, token) = asked();
        world.reply(reader, &token, "accept");
        let permit = world.outcome().permit.unwrap();
        world.pass(millis);
        assert_eq!(world.invoke(&session, "transfer", &json!({"amount": 500}), permit), expected);
    }
}
