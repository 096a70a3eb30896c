//! The blocking contract and everything that can happen to a confirmation (chapter 6).

use aaep_proto::confirm::{Clarification, Confirmation, ConfirmationOutcome, Permit, Resolution, UnanswerableError};
use aaep_proto::engine::{
    EngineConfig, EngineError, NoSubscriberPolicy, ReplyRejection, ResumePolicy, SubscriptionKey,
};
use aaep_proto::id::{ReplyToken, SessionId};
use aaep_proto::message::{CloseReason, CoreType, Decision, Payload, RiskLevel, ToolInvoked};
use serde_json::{Value, json};

use crate::harness::World;

pub fn transfer() -> Confirmation {
    Confirmation::new("Transfer 500 dollars.", "The money moves at once.")
        .for_call("transfer", &json!({"amount": 500}))
        .irreversible()
        .risk(RiskLevel::High)
}

/// A low-risk action that goes ahead in silence.
pub fn tidy_up() -> Confirmation {
    let ask =
        Confirmation::new("Tidy up.", "Old files go.").for_call("tidy", &json!({})).irreversible().risk(RiskLevel::Low);
    ask.accept_on_timeout().unwrap()
}

impl World {
    pub fn ask(&mut self, session: &SessionId, confirmation: Confirmation) -> ReplyToken {
        self.act(|engine, cx| engine.ask(cx, session, confirmation)).unwrap()
    }

    pub fn invoke(
        &mut self,
        session: &SessionId,
        tool: &str,
        arguments: &Value,
        permit: Permit,
    ) -> Result<(), EngineError> {
        let tool = ToolInvoked { tool: tool.into(), summary_normal: "Doing it.".into(), ..ToolInvoked::default() };
        self.act(|engine, cx| engine.invoke_irreversible(cx, session, tool, arguments, permit)).map(|_| ())
    }

    pub fn outcome(&mut self) -> ConfirmationOutcome {
        assert_eq!(self.decided.len(), 1, "{:?}", self.decided);
        self.decided.pop().unwrap().1
    }
}

/// A world with one reader, a session and an open question.
pub fn asked() -> (World, SubscriptionKey, SessionId, ReplyToken) {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    let token = world.ask(&session, transfer());
    (world, reader, session, token)
}

#[test]
fn a_reject_is_followed_by_a_word_about_it() {
    let (mut world, reader, _, token) = asked();
    world.reply(reader, &token, "reject");
    let outcome = world.outcome();
    assert_eq!((outcome.decision, outcome.resolution, outcome.permit), (Decision::Reject, Resolution::Rejected, None));
    let last = world.events(reader).pop().unwrap().clone();
    let Payload::StateChanged(change) = last.payload else { panic!("{last:?}") };
    assert_eq!((change.from_state.as_str(), change.to_state.as_str()), ("awaiting_input", "thinking"));
    assert_eq!(change.summary_normal.as_deref(), Some("Rejected. It will not be done."));
    assert_eq!(last.envelope.extensions.unwrap()["consent"]["outcome"], "rejected");
}

#[test]
fn silence_is_a_timeout_not_a_refusal() {
    let (mut world, _, _, _) = asked();
    world.pass(299_999);
    assert_eq!(world.decided.len(), 0);
    world.pass(1);
    let outcome = world.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Reject, Resolution::TimedOut));
    assert_eq!(world.audit[0].resolution, Resolution::TimedOut);
}

#[test]
fn silence_may_start_what_is_harmless() {
    let mut world = World::new();
    world.join_reader();
    let session = world.start();
    world.ask(&session, tidy_up().timeout_seconds(10));
    world.pass(10_000);
    let outcome = world.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Accept, Resolution::TimedOut));
    world.invoke(&session, "tidy", &json!({}), outcome.permit.unwrap()).unwrap();
}

#[test]
fn what_the_agent_did_not_state_is_not_said() {
    let mut world = World::new();
    let reader = world.join_reader();
    let session = world.start();
    let plain = |n: u32| Confirmation::new(format!("Step {n}."), "It is done.");
    for (ask, stated) in [(plain(1), None), (plain(2).reversible(), Some(false)), (plain(3).irreversible(), Some(true))]
    {
        world.ask(&session, ask);
        let last = world.events(reader).pop().unwrap().clone();
        let Payload::AwaitingConfirmation(asked) = last.payload else { panic!("{last:?}") };
        assert_eq!(asked.irreversible, stated);
    }
}

#[test]
fn a_clarification_that_cannot_be_answered_is_refused() {
    let mut world = World::new();
    world.join_reader();
    let session = world.start();
    let none: [(&str, &str); 0] = [];
    let choice = Clarification::choice("Which?", [("a", "A"), ("b", "B")]);
    for (ask, why) in [
        (Clarification::choice("Which?", none), UnanswerableError::NoChoices),
        (choice.clone().default_response("c"), UnanswerableError::DefaultIsNoChoice),
    ] {
        let refused = world.act(|engine, cx| engine.clarify(cx, &session, ask));
        assert_eq!(refused, Err(EngineError::Unanswerable(why)));
    }
    world.act(|engine, cx| engine.clarify(cx, &session, choice.default_response("b"))).unwrap();
    assert_eq!(world.engine.open_questions(), 1);
}

#[test]
fn defaults_follow_the_table() {
    let build = |irreversible: bool, risk: Option<RiskLevel>| {
        let mut ask = Confirmation::new("a", "b");
        if irreversible {
            ask = ask.irreversible();
        }
        if let Some(risk) = risk {
            ask = ask.risk(risk);
        }
        ask.accept_on_timeout().is_ok()
    };
    for risk in [Some(RiskLevel::High), Some(RiskLevel::Medium), None] {
        assert!(!build(true, risk.clone()));
        assert!(build(false, risk));
    }
    assert!(build(true, Some(RiskLevel::Low)));
    // Raising the risk afterwards does not help: the engine looks again.
    let (mut world, _, session, _) = asked();
    let raised = tidy_up().risk(RiskLevel::High);
    assert!(matches!(world.act(|engine, cx| engine.ask(cx, &session, raised)), Err(EngineError::UnsafeDefault(_))));
}

#[test]
fn only_the_first_reply_counts() {
    let (mut world, reader, session, token) = asked();
    let second = world.join_reader();
    world.reply(reader, &token, "reject");
    world.reply(second, &token, "accept");
    world.reply(reader, &token, "accept");
    assert_eq!(world.outcome().resolution, Resolution::Rejected);
    assert_eq!(world.ignored, [ReplyRejection::Settled, ReplyRejection::Settled]);
    assert!(world.engine.has_session(&session));
}

#[test]
fn replies_that_fail_a_check_are_ignored() {
    let faults = |change: &dyn Fn(&mut World, SubscriptionKey, &ReplyToken)| {
        let (mut world, reader, _, token) = asked();
        change(&mut world, reader, &token);
        assert_eq!(world.decided.len(), 0);
        assert_eq!(world.ignored.len(), 1);
        assert_eq!(world.engine.open_questions(), 1, "the question waits on");
        world.ignored[0]
    };
    let reply = |token: &ReplyToken, more: Value| {
        let mut reply = json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept"});
        more.as_object().unwrap().iter().for_each(|(k, v)| reply[k] = v.clone());
        reply
    };
    assert_eq!(
        faults(&|w, r, _| w.reply_with(r, reply(&"rpl_guessed".parse().unwrap(), json!({})))),
        ReplyRejection::UnknownToken
    );
    assert_eq!(
        faults(&|w, r, t| w.reply_with(r, reply(t, json!({"subscription_id": "sub_other"})))),
        ReplyRejection::WrongSubscription
    );
    assert_eq!(faults(&|w, r, t| w.reply_with(r, reply(t, json!({"decision": "maybe"})))), ReplyRejection::NotAllowed);
    assert_eq!(
        faults(&|w, r, t| w.reply_with(r, reply(t, json!({"timestamp": "2036-01-01T00:00:00Z"})))),
        ReplyRejection::Late
    );
    assert_eq!(
        faults(&|w, r, t| w.reply_with(r, reply(t, json!({"timestamp": "2020-01-01T00:00:00Z"})))),
        ReplyRejection::Backdated
    );
    assert_eq!(
        faults(&|w, r, t| w.reply_with(r, json!({"type": "clarification.reply", "reply_token": t, "response": true}))),
        ReplyRejection::WrongKind
    );
    // Captions see the question but said that they cannot answer.
    assert_eq!(
        faults(&|w, _, t| {
            let captions = w.join(json!({}));
            assert_eq!(w.count(captions, CoreType::AwaitingConfirmation), 1);
            w.reply(captions, t, "accept");
        }),
        ReplyRejection::NotCapable
    );
}

#[test]
fn a_reply_that_arrives_in_time_by_its_own_clock_but_not_by_ours_is_late() {
    let (mut world, reader, _, token) = asked();
    let early = world.wall().to_string();
    world.millis += 300_000; // The timer has not been handled yet.
    world.reply_with(
        reader,
        json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "timestamp": early}),
    );
    assert_eq!(world.ignored, [ReplyRejection::Late]);
    world.pass(0);
    assert_eq!(world.outcome().resolution, Resolution::TimedOut);
}

#[test]
fn five_seconds_of_skew_are_forgiven() {
    let (mut world, reader, _, token) = asked();
    world.skew_millis = -4_900;
    world.reply(reader, &token, "accept");
    assert_eq!(world.outcome().resolution, Resolution::Accepted);
}

#[test]
fn a_modified_action_is_no_yes() {
    let (mut world, reader, _, token) = asked();
    let reply = json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "modified_action": {"amount": 5}});
    world.reply_with(reader, reply.clone());
    let outcome = world.outcome();
    assert_eq!((outcome.resolution, outcome.permit, outcome.modified_action), (Resolution::Rejected, None, None));
    // An agent that can handle it is told, but still gets no permit for it.
    let session = world.start();
    let token = world.ask(&session, transfer().allow_modified_action());
    world.reply_with(reader, json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "modified_action": {"amount": 5}}));
    let outcome = world.outcome();
    assert_eq!((outcome.resolution, outcome.permit), (Resolution::Rejected, None));
    assert_eq!(outcome.modified_action.unwrap()["amount"], 5);
}

#[test]
fn when_nobody_could_answer_the_default_applies_at_once() {
    let mut world = World::new();
    let captions = world.join(json!({}));
    let session = world.start();
    world.ask(&session, transfer());
    assert_eq!(world.outcome().resolution, Resolution::NobodyCouldAnswer);
    assert_eq!(world.count(captions, CoreType::AwaitingConfirmation), 0, "it would only have been noise");
    assert_eq!(world.states(captions).last().map(String::as_str), Some("awaiting_input>thinking"));
}

#[test]
fn when_nobody_is_there_it_waits_and_is_handed_to_who_comes() {
    let mut world = World::new();
    let session = world.start();
    let token = world.ask(&session, transfer());
    world.pass(100_000);
    assert_eq!(world.decided.len(), 0);
    let captions = world.join(json!({}));
    assert_eq!(world.count(captions, CoreType::AwaitingConfirmation), 0);
    let reader = world.join_reader();
    assert_eq!(world.count(reader, CoreType::AwaitingConfirmation), 1);
    assert_eq!(
        world.count(captions, CoreType::AwaitingConfirmation),
        1,
        "now that someone can answer, everyone sees it"
    );
    world.reply(reader, &token, "accept");
    assert_eq!(world.outcome().resolution, Resolution::Accepted);
}

#[test]
fn a_producer_may_choose_not_to_wait_alone() {
    let mut world =
        World::with(|config: &mut EngineConfig| config.no_subscriber_policy = NoSubscriberPolicy::ApplyDefault);
    let session = world.start();
    world.ask(&session, transfer());
    assert_eq!(world.outcome().resolution, Resolution::NobodyCouldAnswer);
}

#[test]
fn the_last_one_who_could_answer_leaves() {
    let (mut world, reader, _, _) = asked();
    let id = world.engine.subscription_id(reader).unwrap().clone();
    world.send(reader, json!({"type": "subscription.close", "subscription_id": id}));
    let outcome = world.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Reject, Resolution::SubscriberLeft));

    let (mut world, reader, _, _) = asked();
    world.act(|engine, cx| engine.disconnect(cx, reader));
    assert_eq!(world.outcome().resolution, Resolution::SubscriberLeft);
}

#[test]
fn while_another_can_answer_nothing_is_defaulted() {
    let (mut world, reader, _, token) = asked();
    let other = world.join_reader();
    world.act(|engine, cx| engine.disconnect(cx, reader));
    assert_eq!(world.decided.len(), 0);
    world.reply(other, &token, "accept");
    assert_eq!(world.outcome().resolution, Resolution::Accepted);
}

#[test]
fn a_stream_that_can_be_resumed_has_a_while_to_come_back() {
    let capable = json!({"supports_confirmation_reply": true});
    let mut world = World::new();
    let reader = world.try_join_as("user", ResumePolicy::Resumable, capable).unwrap();
    let session = world.start();
    let token = world.ask(&session, transfer());
    world.act(|engine, cx| engine.disconnect(cx, reader));
    world.pass(14_999);
    assert_eq!(world.decided.len(), 0);
    world.act(|engine, cx| engine.reconnect(cx, reader)).unwrap();
    world.pass(60_000);
    assert_eq!(world.decided.len(), 0);
    world.act(|engine, cx| engine.disconnect(cx, reader));
    world.pass(15_000);
    assert_eq!(world.outcome().resolution, Resolution::SubscriberLeft);
    world.act(|engine, cx| engine.reconnect(cx, reader)).unwrap();
    world.reply(reader, &token, "accept");
    assert_eq!(world.ignored, [ReplyRejection::Settled]);
}

#[test]
fn giving_up_the_ability_to_answer_counts_as_leaving() {
    let (mut world, reader, _, _) = asked();
    let id = world.engine.subscription_id(reader).unwrap().clone();
    world.send(reader, json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {"supports_confirmation_reply": false}}));
    assert_eq!(world.outcome().resolution, Resolution::SubscriberLeft);
}

#[test]
fn a_question_can_be_withdrawn_or_superseded() {
    let (mut world, reader, _, token) = asked();
    world.act(|engine, cx| engine.withdraw(cx, &token, false)).unwrap();
    let outcome = world.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Reject, Resolution::Cancelled));
    assert_eq!(world.states(reader).last().map(String::as_str), Some("awaiting_input>thinking"));
    world.reply(reader, &token, "accept");
    assert_eq!(world.ignored, [ReplyRejection::Settled]);
    assert_eq!(world.act(|engine, cx| engine.withdraw(cx, &token, false)), Err(EngineError::UnknownQuestion));

    let (mut world, _, _, token) = asked();
    world.act(|engine, cx| engine.withdraw(cx, &token, true)).unwrap();
    assert_eq!(world.outcome().resolution, Resolution::Superseded);
}

#[test]
fn the_end_of_a_session_cancels_its_questions() {
    let (mut world, reader, session, token) = asked();
    world.act(|engine, cx| engine.cancel_session(cx, &session, "user".into(), "Stopped.")).unwrap();
    assert_eq!(world.outcome().resolution, Resolution::Cancelled);
    world.reply(reader, &token, "accept");
    assert_eq!(world.ignored, [ReplyRejection::Settled]);
    assert_eq!(world.engine.next_deadline(), None, "no timer is left behind");
}

#[test]
fn the_same_action_is_not_asked_about_twice_at_once() {
    let (mut world, _, session, _) = asked();
    let again = world.act(|engine, cx| engine.ask(cx, &session, transfer()));
    assert!(matches!(again, Err(EngineError::OutOfOrder(_))), "{again:?}");
    assert_eq!(world.engine.open_questions(), 1);
}

#[test]
fn several_questions_are_settled_one_by_one() {
    let (mut world, reader, session, first) = asked();
    let second = world.ask(&session, Confirmation::new("Send the receipt.", "Ada gets a letter."));
    world.reply(reader, &first, "accept");
    assert_eq!(world.outcome().resolution, Resolution::Accepted);
    assert_eq!(world.states(reader)[2..], ["awaiting_input>calling_tool", "calling_tool>awaiting_input"]);
    world.reply(reader, &second, "reject");
    assert_eq!(world.outcome().resolution, Resolution::Rejected);
    assert_eq!(world.states(reader).last().map(String::as_str), Some("awaiting_input>thinking"));
}

#[test]
fn everyone_who_got_the_question_is_told_how_it_ended() {
    let (mut world, reader, _, token) = asked();
    let captions = world.join(json!({}));
    world.reply(reader, &token, "accept");
    for key in [reader, captions] {
        let last = world.events(key).pop().unwrap().clone();
        assert_eq!(last.envelope.extensions.unwrap()["consent"], json!({"reply_token": token, "outcome": "accepted"}));
    }
}

#[test]
fn the_time_left_is_told_at_a_half_and_at_a_tenth() {
    let (mut world, reader, _, _) = asked();
    world.clear();
    world.pass(299_999);
    let told: Vec<(u64, Option<String>)> = world.received[&reader]
        .iter()
        .filter_map(|(at, r)| match r {
            crate::harness::Received::Event(e) => match &e.payload {
                Payload::ProgressUpdated(p) => Some((*at, p.summary_normal.clone())),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [(150_000, Some("150 seconds left to answer.".into())), (270_000, Some("30 seconds left to answer.".into()))]
    );
    let (mut world, reader, session, _) = asked();
    world.ask(&session, Confirmation::new("x", "y").timeout_seconds(60));
    world.clear();
    world.pass(60_000);
    assert_eq!(world.count(reader, CoreType::ProgressUpdated), 0, "a minute needs no countdown");
}

#[test]
fn the_longest_time_that_anyone_needs_is_given() {
    let mut world = World::new();
    world.join_reader();
    let slow = world.join(json!({"supports_confirmation_reply": true, "more_time": {"factor": 3}}));
    world.join(json!({"more_time": {"factor": 10}}));
    let session = world.start();
    world.ask(&session, transfer().timeout_seconds(100));
    let event = world.events(slow).pop().unwrap().clone();
    assert!(
        matches!(event.payload, Payload::AwaitingConfirmation(c) if c.timeout_seconds == 300),
        "who cannot answer needs no time"
    );
    world.pass(299_000);
    assert_eq!(world.decided.len(), 0);
    world.pass(1_000);
    assert_eq!(world.outcome().resolution, Resolution::TimedOut);
}

#[test]
fn every_decision_leaves_a_record() {
    let (mut world, reader, session, token) = asked();
    world.pass(5_000);
    world.reply_with(
        reader,
        json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "decided_by": "user:ada"}),
    );
    let record = &world.audit[0];
    assert_eq!((&record.reply_token, &record.session_id), (&token, &session));
    assert_eq!((record.principal.as_deref(), record.decided_by.as_deref()), (Some("user"), Some("user:ada")));
    assert_eq!(
        (record.shown.as_str(), record.consequence.as_deref()),
        ("Transfer 500 dollars.", Some("The money moves at once."))
    );
    assert_eq!(record.decided_at.millis() - record.asked_at.millis(), 5_000);
    assert_eq!(record.subscription_id.as_ref(), world.engine.subscription_id(reader));
    assert!(record.call.as_ref().unwrap().starts_with("sha256:"));
}

#[test]
fn the_question_carries_the_fingerprint_of_its_call() {
    let (world, reader, _, _) = asked();
    let event = world.events(reader).pop().unwrap().clone();
    let digest = aaep_proto::confirm::CallDigest::of("transfer", &json!({"amount": 500})).to_string();
    assert_eq!(event.envelope.extensions.unwrap()["consent"], json!({"tool": "transfer", "call_digest": digest}));
}

#[test]
fn a_wall_clock_that_jumps_changes_no_deadline() {
    let (mut world, _, _, _) = asked();
    world.skew_millis = 86_400_000;
    world.pass(299_999);
    assert_eq!(world.decided.len(), 0);
    world.skew_millis = -86_400_000;
    world.pass(1);
    assert_eq!(world.outcome().resolution, Resolution::TimedOut);
}

#[test]
fn who_is_gone_for_good_does_not_stand_in_the_way() {
    let mut world = World::new();
    let away =
        world.try_join_as("user", ResumePolicy::Resumable, json!({"supports_confirmation_reply": true})).unwrap();
    let session = world.start();
    world.act(|engine, cx| engine.disconnect(cx, away));
    world.act(|engine, cx| engine.disconnect(cx, away));
    world.pass(15_000);
    // Nobody is there: the question waits, and is handed to who comes back.
    let token = world.ask(&session, transfer());
    assert_eq!(world.decided.len(), 0);
    world.reply(away, &token, "accept");
    assert_eq!(world.decided.len(), 0, "who is gone does not answer");
    world.act(|engine, cx| engine.reconnect(cx, away)).unwrap();
    assert_eq!(world.count(away, CoreType::AwaitingConfirmation), 1);
    world.pass(20_000);
    assert_eq!(world.decided.len(), 0, "no timer of the time away is left");
    world.reply(away, &token, "accept");
    assert_eq!(world.outcome().resolution, Resolution::Accepted);
    // A stream that never comes back is given up.
    world.act(|engine, cx| engine.disconnect(cx, away));
    world.pass(15_000 + 300_000);
    assert_eq!(
        world.closed.last().map(|(key, closing)| (*key, &closing.reason)),
        Some((away, &CloseReason::AwayTooLong))
    );
}
