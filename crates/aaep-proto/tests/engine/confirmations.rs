//! Confirmations: replies, timeouts, withdrawal and audit records (chapter 6).

use aaep_proto::confirm::{Clarification, Confirmation, ConfirmationOutcome, Permit, Resolution, UnanswerableError};
use aaep_proto::engine::{EngineError, ReplyRejection, SubscriptionKey};
use aaep_proto::id::{ReplyToken, SessionId};
use aaep_proto::message::{CoreType, Decision, Payload, RiskLevel, ToolInvoked};
use serde_json::{Value, json};

use crate::harness::EngineHarness;

pub fn transfer() -> Confirmation {
    Confirmation::new("Transfer 500 dollars.", "The money moves at once.")
        .for_call("transfer", &json!({"amount": 500}))
        .irreversible()
        .risk(RiskLevel::High)
}

/// A low-risk action that is accepted if nobody replies in time.
pub fn tidy_up() -> Confirmation {
    let ask =
        Confirmation::new("Tidy up.", "Old files go.").for_call("tidy", &json!({})).irreversible().risk(RiskLevel::Low);
    ask.accept_on_timeout().unwrap()
}

impl EngineHarness {
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

/// A harness with one subscriber that can reply, a session and an open question.
pub fn asked() -> (EngineHarness, SubscriptionKey, SessionId, ReplyToken) {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    let token = harness.ask(&session, transfer());
    (harness, reader, session, token)
}

#[test]
fn rejection_is_followed_by_a_state_change_that_states_it() {
    let (mut harness, reader, _, token) = asked();
    harness.reply(reader, &token, "reject");
    let outcome = harness.outcome();
    assert_eq!((outcome.decision, outcome.resolution, outcome.permit), (Decision::Reject, Resolution::Rejected, None));
    let last = harness.events(reader).pop().unwrap().clone();
    let Payload::StateChanged(change) = last.payload else { panic!("{last:?}") };
    assert_eq!((change.from_state.as_str(), change.to_state.as_str()), ("awaiting_input", "thinking"));
    assert_eq!(change.summary_normal.as_deref(), Some("Rejected. It will not be done."));
    assert_eq!(last.envelope.extensions.unwrap()["consent"]["outcome"], "rejected");
}

#[test]
fn unanswered_confirmation_times_out_and_is_not_recorded_as_rejected() {
    let (mut harness, _, _, _) = asked();
    harness.pass(299_999);
    assert_eq!(harness.decided.len(), 0);
    harness.pass(1);
    let outcome = harness.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Reject, Resolution::TimedOut));
    assert_eq!(harness.audit[0].resolution, Resolution::TimedOut);
}

#[test]
fn timeout_accepts_a_low_risk_action_that_allows_it() {
    let mut harness = EngineHarness::new();
    harness.join_reader();
    let session = harness.start();
    harness.ask(&session, tidy_up().timeout_seconds(10));
    harness.pass(10_000);
    let outcome = harness.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Accept, Resolution::TimedOut));
    harness.invoke(&session, "tidy", &json!({}), outcome.permit.unwrap()).unwrap();
}

#[test]
fn irreversible_field_is_absent_unless_the_agent_sets_it() {
    let mut harness = EngineHarness::new();
    let reader = harness.join_reader();
    let session = harness.start();
    let plain = |n: u32| Confirmation::new(format!("Step {n}."), "It is done.");
    for (ask, stated) in [(plain(1), None), (plain(2).reversible(), Some(false)), (plain(3).irreversible(), Some(true))]
    {
        harness.ask(&session, ask);
        let last = harness.events(reader).pop().unwrap().clone();
        let Payload::AwaitingConfirmation(asked) = last.payload else { panic!("{last:?}") };
        assert_eq!(asked.irreversible, stated);
    }
}

#[test]
fn unanswerable_clarification_is_refused() {
    let mut harness = EngineHarness::new();
    harness.join_reader();
    let session = harness.start();
    let none: [(&str, &str); 0] = [];
    let choice = Clarification::choice("Which?", [("a", "A"), ("b", "B")]);
    for (ask, why) in [
        (Clarification::choice("Which?", none), UnanswerableError::NoChoices),
        (choice.clone().default_response("c"), UnanswerableError::DefaultIsNoChoice),
    ] {
        let refused = harness.act(|engine, cx| engine.clarify(cx, &session, ask));
        assert_eq!(refused, Err(EngineError::Unanswerable(why)));
    }
    harness.act(|engine, cx| engine.clarify(cx, &session, choice.default_response("b"))).unwrap();
    assert_eq!(harness.engine.open_questions(), 1);
}

#[test]
fn accept_on_timeout_is_allowed_only_by_risk_and_reversibility() {
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
    // The engine checks again, so raising the risk afterwards is refused.
    let (mut harness, _, session, _) = asked();
    let raised = tidy_up().risk(RiskLevel::High);
    assert!(matches!(harness.act(|engine, cx| engine.ask(cx, &session, raised)), Err(EngineError::UnsafeDefault(_))));
}

#[test]
fn only_the_first_reply_counts() {
    let (mut harness, reader, session, token) = asked();
    let second = harness.join_reader();
    harness.reply(reader, &token, "reject");
    harness.reply(second, &token, "accept");
    harness.reply(reader, &token, "accept");
    assert_eq!(harness.outcome().resolution, Resolution::Rejected);
    assert_eq!(harness.ignored, [ReplyRejection::Settled, ReplyRejection::Settled]);
    assert!(harness.engine.has_session(&session));
}

#[test]
fn replies_that_fail_a_check_are_ignored() {
    let faults = |change: &dyn Fn(&mut EngineHarness, SubscriptionKey, &ReplyToken)| {
        let (mut harness, reader, _, token) = asked();
        change(&mut harness, reader, &token);
        assert_eq!(harness.decided.len(), 0);
        assert_eq!(harness.ignored.len(), 1);
        assert_eq!(harness.engine.open_questions(), 1, "the question stays open");
        harness.ignored[0]
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
    // Captions receive the question but declared no reply support.
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
fn reply_after_the_deadline_is_late_whatever_its_timestamp_claims() {
    let (mut harness, reader, _, token) = asked();
    let early = harness.wall().to_string();
    harness.millis += 300_000; // The timer has not been handled yet.
    harness.reply_with(
        reader,
        json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "timestamp": early}),
    );
    assert_eq!(harness.ignored, [ReplyRejection::Late]);
    harness.pass(0);
    assert_eq!(harness.outcome().resolution, Resolution::TimedOut);
}

#[test]
fn reply_timestamp_tolerates_five_seconds_of_clock_skew() {
    let (mut harness, reader, _, token) = asked();
    harness.skew_millis = -4_900;
    harness.reply(reader, &token, "accept");
    assert_eq!(harness.outcome().resolution, Resolution::Accepted);
}

#[test]
fn modified_action_counts_as_rejection() {
    let (mut harness, reader, _, token) = asked();
    let reply = json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "modified_action": {"amount": 5}});
    harness.reply_with(reader, reply.clone());
    let outcome = harness.outcome();
    assert_eq!((outcome.resolution, outcome.permit, outcome.modified_action), (Resolution::Rejected, None, None));
    // An agent that allows modified actions receives it, but no permit for it.
    let session = harness.start();
    let token = harness.ask(&session, transfer().allow_modified_action());
    harness.reply_with(reader, json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "modified_action": {"amount": 5}}));
    let outcome = harness.outcome();
    assert_eq!((outcome.resolution, outcome.permit), (Resolution::Rejected, None));
    assert_eq!(outcome.modified_action.unwrap()["amount"], 5);
}

#[test]
fn a_question_can_be_withdrawn_or_superseded() {
    let (mut harness, reader, _, token) = asked();
    harness.act(|engine, cx| engine.withdraw(cx, &token, false)).unwrap();
    let outcome = harness.outcome();
    assert_eq!((outcome.decision, outcome.resolution), (Decision::Reject, Resolution::Cancelled));
    assert_eq!(harness.states(reader).last().map(String::as_str), Some("awaiting_input>thinking"));
    harness.reply(reader, &token, "accept");
    assert_eq!(harness.ignored, [ReplyRejection::Settled]);
    assert_eq!(harness.act(|engine, cx| engine.withdraw(cx, &token, false)), Err(EngineError::UnknownQuestion));

    let (mut harness, _, _, token) = asked();
    harness.act(|engine, cx| engine.withdraw(cx, &token, true)).unwrap();
    assert_eq!(harness.outcome().resolution, Resolution::Superseded);
}

#[test]
fn the_end_of_a_session_cancels_its_questions() {
    let (mut harness, reader, session, token) = asked();
    harness.act(|engine, cx| engine.cancel_session(cx, &session, "user".into(), "Stopped.")).unwrap();
    assert_eq!(harness.outcome().resolution, Resolution::Cancelled);
    harness.reply(reader, &token, "accept");
    assert_eq!(harness.ignored, [ReplyRejection::Settled]);
    assert_eq!(harness.engine.next_deadline(), None, "no timer is left behind");
}

#[test]
fn second_open_question_about_the_same_call_is_refused() {
    let (mut harness, _, session, _) = asked();
    let again = harness.act(|engine, cx| engine.ask(cx, &session, transfer()));
    assert!(matches!(again, Err(EngineError::OutOfOrder(_))), "{again:?}");
    assert_eq!(harness.engine.open_questions(), 1);
}

#[test]
fn open_questions_are_resolved_independently() {
    let (mut harness, reader, session, first) = asked();
    let second = harness.ask(&session, Confirmation::new("Send the receipt.", "Ada gets a letter."));
    harness.reply(reader, &first, "accept");
    assert_eq!(harness.outcome().resolution, Resolution::Accepted);
    assert_eq!(harness.states(reader)[2..], ["awaiting_input>calling_tool", "calling_tool>awaiting_input"]);
    harness.reply(reader, &second, "reject");
    assert_eq!(harness.outcome().resolution, Resolution::Rejected);
    assert_eq!(harness.states(reader).last().map(String::as_str), Some("awaiting_input>thinking"));
}

#[test]
fn resolution_is_sent_to_every_recipient_of_the_question() {
    let (mut harness, reader, _, token) = asked();
    let captions = harness.join(json!({}));
    harness.reply(reader, &token, "accept");
    for key in [reader, captions] {
        let last = harness.events(key).pop().unwrap().clone();
        assert_eq!(last.envelope.extensions.unwrap()["consent"], json!({"reply_token": token, "outcome": "accepted"}));
    }
}

#[test]
fn remaining_time_is_sent_at_one_half_and_one_tenth() {
    let (mut harness, reader, _, _) = asked();
    harness.clear();
    harness.pass(299_999);
    let told: Vec<(u64, Option<String>)> = harness.received[&reader]
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
    let (mut harness, reader, session, _) = asked();
    harness.ask(&session, Confirmation::new("x", "y").timeout_seconds(60));
    harness.clear();
    harness.pass(60_000);
    assert_eq!(harness.count(reader, CoreType::ProgressUpdated), 0, "a minute needs no countdown");
}

#[test]
fn every_decision_is_audited() {
    let (mut harness, reader, session, token) = asked();
    harness.pass(5_000);
    harness.reply_with(
        reader,
        json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept", "decided_by": "user:ada"}),
    );
    let record = &harness.audit[0];
    assert_eq!((&record.reply_token, &record.session_id), (&token, &session));
    assert_eq!((record.principal.as_deref(), record.decided_by.as_deref()), (Some("user"), Some("user:ada")));
    assert_eq!(
        (record.shown.as_str(), record.consequence.as_deref()),
        ("Transfer 500 dollars.", Some("The money moves at once."))
    );
    assert_eq!(record.decided_at.millis() - record.asked_at.millis(), 5_000);
    assert_eq!(record.subscription_id.as_ref(), harness.engine.subscription_id(reader));
    assert!(record.call.as_ref().unwrap().starts_with("sha256:"));
}

#[test]
fn question_carries_the_digest_of_its_call() {
    let (harness, reader, _, _) = asked();
    let event = harness.events(reader).pop().unwrap().clone();
    let digest = aaep_proto::confirm::CallDigest::of("transfer", &json!({"amount": 500})).to_string();
    assert_eq!(event.envelope.extensions.unwrap()["consent"], json!({"tool": "transfer", "call_digest": digest}));
}

#[test]
fn wall_clock_jumps_do_not_change_deadlines() {
    let (mut harness, _, _, _) = asked();
    harness.skew_millis = 86_400_000;
    harness.pass(299_999);
    assert_eq!(harness.decided.len(), 0);
    harness.skew_millis = -86_400_000;
    harness.pass(1);
    assert_eq!(harness.outcome().resolution, Resolution::TimedOut);
}
