//! Questions about what the user wants (6.5).

use aaep_proto::confirm::{Clarification, Resolution};
use aaep_proto::engine::ReplyRejection;
use aaep_proto::id::ReplyToken;
use aaep_proto::message::{CoreType, Response, ResponseKind};
use serde_json::{Value, json};

use crate::harness::World;

fn asked(clarification: Clarification) -> (World, aaep_proto::engine::SubscriptionKey, ReplyToken) {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    let token = world.act(|engine, cx| engine.clarify(cx, &session, clarification)).unwrap();
    (world, reader, token)
}

fn answer(clarification: Clarification, response: Value) -> Option<Response> {
    let (mut world, reader, token) = asked(clarification);
    world.reply_with(reader, json!({"type": "clarification.reply", "reply_token": token, "response": response}));
    let Some((_, answer)) = world.answered.pop() else {
        assert_eq!(world.ignored, [ReplyRejection::WrongKind]);
        assert_eq!(world.engine.open_questions(), 1, "it goes on waiting");
        return None;
    };
    assert_eq!(answer.resolution, Resolution::Answered);
    answer.response
}

#[test]
fn answers_are_typed_by_the_kind_of_question() {
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
fn without_an_answer_the_agents_own_fallback_counts() {
    let (mut world, _, _) =
        asked(Clarification::choice("Which?", [("a", "A"), ("b", "B")]).default_response("a").timeout_seconds(30));
    world.pass(30_000);
    let (_, answer) = world.answered.pop().unwrap();
    assert_eq!((answer.resolution, answer.response), (Resolution::TimedOut, Some(Response::Text("a".into()))));
    let (mut world, _, _) = asked(Clarification::freetext("Where?").timeout_seconds(30));
    world.pass(30_000);
    assert_eq!(world.answered.pop().unwrap().1.response, None);
}

#[test]
fn who_can_confirm_cannot_necessarily_clarify() {
    let mut world = World::new();
    let reader = world.join(json!({"supports_confirmation_reply": true}));
    let session = world.start();
    world.act(|engine, cx| engine.clarify(cx, &session, Clarification::yes_no("Really?"))).unwrap();
    assert_eq!(world.answered.pop().unwrap().1.resolution, Resolution::NobodyCouldAnswer);
    assert_eq!(world.count(reader, CoreType::AwaitingClarification), 0);
}

#[test]
fn a_withdrawn_question_has_no_answer() {
    let (mut world, _, token) = asked(Clarification::freetext("Where?").default_response("here"));
    world.act(|engine, cx| engine.withdraw(cx, &token, false)).unwrap();
    let (_, answer) = world.answered.pop().unwrap();
    assert_eq!((answer.resolution, answer.response), (Resolution::Cancelled, None));
}
