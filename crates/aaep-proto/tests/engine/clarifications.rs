//! Questions about what the user wants (6.5).

use aaep_proto::confirm::{Clarification, Resolution};
use aaep_proto::engine::ReplyRejection;
use aaep_proto::id::ReplyToken;
use aaep_proto::message::{CoreType, Response, ResponseKind};
use serde_json::{Value, json};

use crate::harness::EngineHarness;

fn asked(clarification: Clarification) -> (EngineHarness, aaep_proto::engine::SubscriptionKey, ReplyToken) {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    let token = harness.act(|engine, cx| engine.clarify(cx, &session, clarification)).unwrap();
    (harness, reader, token)
}

fn answer(clarification: Clarification, response: Value) -> Option<Response> {
    let (mut harness, reader, token) = asked(clarification);
    harness.reply_with(reader, json!({"type": "clarification.reply", "reply_token": token, "response": response}));
    let Some((_, answer)) = harness.answered.pop() else {
        assert_eq!(harness.ignored, [ReplyRejection::WrongKind]);
        assert_eq!(harness.engine.open_questions(), 1, "the question stays open");
        return None;
    };
    assert_eq!(answer.resolution, Resolution::Answered);
    answer.response
}

#[test]
fn responses_must_have_the_type_of_the_question() {
    let choice = || Clarification::choice("Which?", [("a", "A"), ("b", "B")]);
    assert_eq!(answer(Clarification::freetext("Where?"), json!("Lagos")), Some(Response::Text("Lagos".into())));
    assert_eq!(answer(Clarification::yes_no("Really?"), json!(true)), Some(Response::Boolean(true)));
    assert_eq!(answer(Clarification::numeric("How many?"), json!(67)), Some(Response::Number(67.0)));
    assert_eq!(answer(choice(), json!("b")), Some(Response::Text("b".into())));
    assert_eq!(answer(choice().or(ResponseKind::Numeric), json!(3)), Some(Response::Number(3.0)));
    assert_eq!(answer(choice(), json!("c")), None);
    assert_eq!(answer(Clarification::yes_no("Really?"), json!("yes")), None);
    assert_eq!(answer(Clarification::numeric("How many?"), json!("67")), None);
    assert_eq!(answer(Clarification::freetext("Where?"), json!(1)), None);
}

#[test]
fn unanswered_clarification_uses_the_default_response_of_the_agent() {
    let (mut harness, _, _) =
        asked(Clarification::choice("Which?", [("a", "A"), ("b", "B")]).default_response("a").timeout_seconds(30));
    harness.pass(30_000);
    let (_, answer) = harness.answered.pop().unwrap();
    assert_eq!((answer.resolution, answer.response), (Resolution::TimedOut, Some(Response::Text("a".into()))));
    let (mut harness, _, _) = asked(Clarification::freetext("Where?").timeout_seconds(30));
    harness.pass(30_000);
    assert_eq!(harness.answered.pop().unwrap().1.response, None);
}

#[test]
fn subscriber_for_confirmations_only_does_not_answer_clarifications() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"supports_confirmation_reply": true}));
    let session = harness.start();
    harness.act(|engine, cx| engine.clarify(cx, &session, Clarification::yes_no("Really?"))).unwrap();
    assert_eq!(harness.answered.pop().unwrap().1.resolution, Resolution::NobodyCouldAnswer);
    assert_eq!(harness.count(reader, CoreType::AwaitingClarification), 0);
}

#[test]
fn withdrawn_clarification_has_no_response() {
    let (mut harness, _, token) = asked(Clarification::freetext("Where?").default_response("here"));
    harness.act(|engine, cx| engine.withdraw(cx, &token, false)).unwrap();
    let (_, answer) = harness.answered.pop().unwrap();
    assert_eq!((answer.resolution, answer.response), (Resolution::Cancelled, None));
}
