//! Prompts: how they open and end, and which answers are valid.

use aaep_proto::confirm::Resolution;
use aaep_proto::limits;
use aaep_proto::message::{ConfirmationReply, Decision, Message, Response};
use aaep_proto::subscriber::{
    DisconnectReason, Gap, NoticeKind, PromptAnswer, PromptEnd, PromptReplyError, SubscriberEffect, SubscriberEvent,
};
use aaep_proto::time::{Moment, Timestamp};
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn a_question_is_answered_once_and_the_token_is_echoed() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_AbC9", json!({}));
    assert_eq!(prompt.deadline, Moment::from_millis(world.millis).plus_seconds(60));
    world.take();
    world.millis += 1000;
    assert_eq!(world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::accept())), Ok(()));
    let sent = world.sent();
    let [Message::ConfirmationReply(reply)] = sent[..] else { panic!("{sent:?}") };
    let ConfirmationReply { reply_token, decision, subscription_id, timestamp, .. } = &**reply;
    assert_eq!((reply_token.as_str(), decision, subscription_id.as_str()), ("rpl_AbC9", &Decision::Accept, "sub_1"));
    assert_eq!(*timestamp, world.now().wall);
    assert!(aaep_proto::validate(&serde_json::to_vec(sent[0]).unwrap()).is_valid());
    assert_eq!(world.ended_prompts(), [(prompt.id, PromptEnd::AnsweredHere)]);
    assert_eq!(world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::reject())), Err(PromptReplyError::Gone));
    assert_eq!(world.sent().len(), 1);
}

#[test]
fn an_answer_never_counts_for_another_question_under_the_same_token() {
    let mut world = SubscriberHarness::live(replying());
    let first = world.ask("rpl_1", json!({"action": "Delete one letter."}));
    let second = world.ask("rpl_1", json!({"action": "Delete everything."}));
    assert_ne!(first.id, second.id);
    assert!(world.notices().contains(&NoticeKind::ReusedToken));
    assert_eq!(world.ended_prompts(), [(first.id, PromptEnd::Replaced)]);
    assert_eq!(world.act(|s, cx| s.reply(cx, first.id, PromptAnswer::accept())), Err(PromptReplyError::Gone));
    assert!(world.sent().is_empty());
    // Nor if only the call that the consent is bound to differs.
    let consent = |digest: &str| json!({"consent": {"tool": "mail", "call_digest": digest}});
    let context = json!(["https://aaep-protocol.org/context/v1", "urn:aaep:extension:consent:1"]);
    let third = world.ask("rpl_2", json!({"@context": context, "extensions": consent("sha256:a")}));
    let fourth = world.ask("rpl_2", json!({"@context": context, "extensions": consent("sha256:b")}));
    assert_ne!(third.id, fourth.id);
}

#[test]
fn a_question_ends_by_itself_when_its_time_is_over() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_1", json!({}));
    world.pass(59_999);
    assert!(world.ended_prompts().is_empty());
    world.pass(1);
    assert_eq!(world.ended_prompts(), [(prompt.id, PromptEnd::Expired)]);
    // Also if the timeout is handled late: the reply must not be sent.
    let prompt = world.ask("rpl_2", json!({}));
    world.millis += 61_000;
    assert_eq!(world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::accept())), Err(PromptReplyError::Gone));
}

#[test]
fn the_deadline_counts_from_the_timestamp_and_never_beyond_the_timeout() {
    let mut world = SubscriberHarness::live(replying());
    let old = Timestamp::from_millis(START - 20_000).to_string();
    let prompt = world.ask("rpl_1", json!({"timestamp": old}));
    assert_eq!(prompt.deadline, Moment::from_millis(world.millis).plus_seconds(40));
    let ahead = Timestamp::from_millis(START + 3_600_000).to_string();
    let prompt = world.ask("rpl_2", json!({"timestamp": ahead}));
    assert_eq!(prompt.deadline, Moment::from_millis(world.millis).plus_seconds(60));
    world.take();
    assert_eq!(world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::accept())), Ok(()));
    let sent = world.sent();
    assert!(matches!(sent[..], [Message::ConfirmationReply(r)] if r.timestamp.millis() == START + 3_600_000));
    let past = Timestamp::from_millis(START - 100_000).to_string();
    world.take();
    let late = world.event(
        "awaiting.confirmation",
        json!({"urgency": "critical", "action": "Delete.",
        "consequence": "Gone.", "reply_token": "rpl_3", "timeout_seconds": 60, "default_decision": "reject",
        "timestamp": past}),
    );
    world.hear(late);
    assert_eq!((world.events().len(), world.prompts().len()), (1, 0));
    assert_eq!(world.notices(), [NoticeKind::LateQuestion]);
}

#[test]
fn state_change_ends_the_questions_it_resolves() {
    let mut world = SubscriberHarness::live(replying());
    let one = world.ask("rpl_1", json!({}));
    let two = world.ask("rpl_2", json!({"action": "Send it."}));
    let other = world.ask("rpl_3", json!({"session_id": "sess_2"}));
    world.take();
    let context = json!(["https://aaep-protocol.org/context/v1", "urn:aaep:extension:consent:1"]);
    world.say(
        "state.changed",
        json!({"from_state": "awaiting_input", "to_state": "thinking", "@context": context,
        "extensions": {"consent": {"reply_token": "rpl_1", "outcome": "rejected"}}}),
    );
    let elsewhere = PromptEnd::ResolvedElsewhere(Some(Resolution::Rejected));
    assert_eq!(world.ended_prompts(), [(one.id, elsewhere)], "only the one that is named");
    // This producer names the resolved question, so a state change without a token resolves none.
    world.say("state.changed", json!({"from_state": "awaiting_input", "to_state": "thinking"}));
    assert_eq!(world.ended_prompts().len(), 1);
    // The producer of the other session names no question: the state change resolves all.
    world.say("state.changed", json!({"from_state": "awaiting_input", "to_state": "thinking", "session_id": "sess_2"}));
    assert_eq!(world.ended_prompts()[1..], [(other.id, PromptEnd::ResolvedElsewhere(None))]);
    world.say("session.cancelled", json!({"cancelled_by": "user", "summary_normal": "Stopped."}));
    assert_eq!(world.ended_prompts()[2..], [(two.id, PromptEnd::SessionEnded)]);
}

#[test]
fn a_tool_that_runs_ends_the_only_question_of_a_producer_that_names_nothing() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_1", json!({}));
    world.say("tool.completed", json!({"tool": "mail", "status": "error", "session_id": "sess_2"}));
    assert!(world.ended_prompts().is_empty());
    world.say("tool.completed", json!({"tool": "mail", "status": "success"}));
    assert_eq!(world.ended_prompts(), [(prompt.id, PromptEnd::ResolvedElsewhere(None))]);
    let context = json!(["https://aaep-protocol.org/context/v1", "urn:aaep:extension:consent:1"]);
    let bound = json!({"@context": context, "extensions": {"consent": {"tool": "mail", "call_digest": "sha256:a"}}});
    let bound = world.ask("rpl_2", bound);
    world.take();
    world.say("tool.invoked", json!({"tool": "look", "summary_normal": "Looking."}));
    assert!(world.ended_prompts().is_empty(), "that is another tool");
    world.say("tool.invoked", json!({"tool": "mail", "summary_normal": "Sending."}));
    assert_eq!(world.ended_prompts(), [(bound.id, PromptEnd::ResolvedElsewhere(None))]);
}

#[test]
fn a_countdown_moves_the_deadline() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_1", json!({}));
    world.pass(30_000);
    let context = json!(["https://aaep-protocol.org/context/v1", "urn:aaep:extension:consent:1"]);
    world.say(
        "progress.updated",
        json!({"progress": {"description": "90 seconds left."}, "@context": context,
        "extensions": {"consent": {"reply_token": "rpl_1", "seconds_left": 90}}}),
    );
    let later = Moment::from_millis(120_000);
    assert!(world.has(&SubscriberEffect::Event(SubscriberEvent::PromptMoved(prompt.id, later))));
    world.pass(89_999);
    assert!(world.ended_prompts().is_empty());
    world.pass(1);
    assert_eq!(world.ended_prompts(), [(prompt.id, PromptEnd::Expired)]);
}

#[test]
fn after_a_new_subscription_only_repeated_questions_stay_open() {
    let mut world = SubscriberHarness::live(replying());
    let kept = world.ask("rpl_1", json!({}));
    let lost = world.ask("rpl_2", json!({"action": "Send it."}));
    let answered = world.ask("rpl_3", json!({"action": "Print it."}));
    world.act(|s, cx| s.reply(cx, answered.id, PromptAnswer::accept())).unwrap();
    world.act(|s, cx| s.disconnected(cx, DisconnectReason::Broken("gone".into())));
    world.pass(1000);
    world.act(|s, cx| s.connected(cx, false));
    world.take();
    world.accept("sub_2", replying());
    assert!(world.has(&SubscriberEffect::Event(SubscriberEvent::Gap(Gap::Away))));
    // A question that is sent again with the remaining time opens no new prompt.
    let again = json!({"urgency": "critical", "action": "Delete all.", "consequence": "They are gone.",
        "reply_token": "rpl_1", "timeout_seconds": 30, "default_decision": "reject"});
    world.say("awaiting.confirmation", again);
    assert!(world.prompts().is_empty());
    assert!(
        world
            .out
            .iter()
            .any(|o| matches!(o, SubscriberEffect::Event(SubscriberEvent::PromptMoved(id, _)) if *id == kept.id))
    );
    // The reply to this one was lost with the connection.
    let second = world.ask("rpl_3", json!({"action": "Print it."}));
    assert_ne!(second.id, answered.id);
    world.pass(limits::REASK_SECONDS * 1000);
    assert_eq!(world.ended_prompts(), [(lost.id, PromptEnd::ConnectionLost)]);
    world.take();
    world.act(|s, cx| s.reply(cx, kept.id, PromptAnswer::reject())).unwrap();
    let sent = world.sent();
    assert!(matches!(sent[..], [Message::ConfirmationReply(r)] if r.subscription_id.as_str() == "sub_2"));
}

#[test]
fn a_reply_that_could_not_be_delivered_is_asked_for_again() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_1", json!({}));
    world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::accept())).unwrap();
    world.take();
    world.act(|s, cx| s.handle_send_failure(cx, &"rpl_1".parse().unwrap()));
    let again = world.prompts().pop().unwrap();
    assert_eq!(again.event, prompt.event);
    world.act(|s, cx| s.reply(cx, again.id, PromptAnswer::reject())).unwrap();
    assert_eq!(world.sent().len(), 1);
}

#[test]
fn an_answer_that_did_not_count_is_noticed() {
    let mut world = SubscriberHarness::live(replying());
    let prompt = world.ask("rpl_1", json!({}));
    world.act(|s, cx| s.reply(cx, prompt.id, PromptAnswer::reject())).unwrap();
    let context = json!(["https://aaep-protocol.org/context/v1", "urn:aaep:extension:consent:1"]);
    world.say(
        "state.changed",
        json!({"from_state": "awaiting_input", "to_state": "calling_tool", "@context": context,
        "extensions": {"consent": {"reply_token": "rpl_1", "outcome": "accepted"}}}),
    );
    assert_eq!(world.notices(), [NoticeKind::AnswerOvertaken]);
}

#[test]
fn answers_must_be_of_the_kind_that_was_asked_for() {
    let mut world = SubscriberHarness::live(replying());
    let clarify = |world: &mut SubscriberHarness, token: &str, fields: Value| {
        let mut all = json!({"urgency": "critical", "question": "Which?", "reply_token": token, "timeout_seconds": 60});
        for (name, value) in fields.as_object().unwrap() {
            all[name] = value.clone();
        }
        world.say("awaiting.clarification", all);
        world.prompts().pop().unwrap().id
    };
    let text = |t: &str| PromptAnswer::response(Response::Text(t.into()));
    let choices = json!({"accepted_response_kinds": ["multiple_choice"],
        "choices": [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]});
    let id = clarify(&mut world, "rpl_1", choices);
    for wrong in [text("c"), PromptAnswer::response(Response::Boolean(true)), PromptAnswer::accept()] {
        assert_eq!(world.act(|s, cx| s.reply(cx, id, wrong)), Err(PromptReplyError::WrongKind));
    }
    assert_eq!(world.act(|s, cx| s.reply(cx, id, text("b"))), Ok(()));
    let id = clarify(&mut world, "rpl_2", json!({"accepted_response_kinds": ["numeric", "yes_no"]}));
    assert_eq!(world.act(|s, cx| s.reply(cx, id, text("b"))), Err(PromptReplyError::WrongKind));
    assert_eq!(world.act(|s, cx| s.reply(cx, id, PromptAnswer::response(Response::Number(4.0)))), Ok(()));
    let id = world.ask("rpl_3", json!({"allowed_replies": ["reject"]})).id;
    assert_eq!(world.act(|s, cx| s.reply(cx, id, PromptAnswer::accept())), Err(PromptReplyError::NotAllowed));
    let id = world.ask("rpl_4", json!({"allowed_replies": ["accept"]})).id;
    assert_eq!(world.act(|s, cx| s.reply(cx, id, PromptAnswer::reject())), Ok(()), "no is always possible");
    for message in world.sent() {
        assert!(aaep_proto::validate(&serde_json::to_vec(message).unwrap()).is_valid(), "{message:?}");
    }
}

#[test]
fn too_many_questions_are_delivered_but_not_opened() {
    let mut world = SubscriberHarness::live(replying());
    for n in 0..limits::OPEN_PROMPTS + 5 {
        world.say(
            "awaiting.confirmation",
            json!({"urgency": "critical", "action": "Delete.", "consequence": "Gone.",
            "reply_token": format!("rpl_{n}"), "timeout_seconds": 60, "default_decision": "reject"}),
        );
    }
    assert_eq!(world.subscriber.open_prompts(), limits::OPEN_PROMPTS);
    assert_eq!(world.events().len(), limits::OPEN_PROMPTS + 5);
    assert!(world.notices().contains(&NoticeKind::TooManyPrompts));
    assert!(world.notices().contains(&NoticeKind::CriticalFlood));
}
