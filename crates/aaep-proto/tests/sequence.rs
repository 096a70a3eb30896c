//! One test per rule of the sequence checker; the name of a test is the name of its rule, with underscores.
//! A stream is written as a list of short lines, see [`Stream::say`].

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use aaep_proto::message::{CoreType, Message};
use aaep_proto::sequence::SequenceView;
use aaep_proto::{Rule, SequenceChecker, Severity, limits};
use serde_json::{Value, json};

/// A stream under test: each line is one event or reply of session `s`, unless it says otherwise.
struct Stream {
    sequence: SequenceChecker,
    second: u64,
    found: Vec<(usize, Rule)>,
    lines: usize,
}

impl Stream {
    fn new(sequence: SequenceChecker) -> Stream {
        Stream { sequence, second: 0, found: Vec::new(), lines: 0 }
    }

    fn say(&mut self, kind: &str, fields: Value) -> &mut Stream {
        self.second += 1;
        let mut document = match kind {
            "accept" | "reject" => json!({"type": "confirmation.reply", "reply_token": "rpl_1", "decision": kind,
                "subscription_id": "sub_1"}),
            "answer" => json!({"type": "clarification.reply", "reply_token": "rpl_1", "subscription_id": "sub_1"}),
            _ => envelope(kind, self.lines),
        };
        document["timestamp"] = json!(format!("2026-05-24T14:{:02}:{:02}Z", self.second / 60, self.second % 60));
        for (name, value) in fields.as_object().unwrap() {
            document[name] = value.clone();
        }
        let message = Message::parse(document.to_string().as_bytes()).unwrap();
        let line = self.lines;
        self.found.extend(self.sequence.observe(&message).into_iter().map(|p| (line, p.rule)));
        self.lines += 1;
        self
    }
}

fn envelope(kind: &str, line: usize) -> Value {
    let (name, payload) = match kind {
        "start" => ("session.started", json!({"summary_normal": "Go."})),
        "done" => ("session.completed", json!({"summary_normal": "Done."})),
        "error" => ("session.errored", json!({"error_category": "unknown", "summary_normal": "Oops."})),
        "cancel" => ("session.cancelled", json!({"cancelled_by": "user", "summary_normal": "Stopped."})),
        "state" => ("state.changed", json!({})),
        "tool" => ("tool.invoked", json!({"tool": "t", "summary_normal": "Using t."})),
        "tool done" => ("tool.completed", json!({"tool": "t", "status": "success"})),
        "chunk" => ("output.streaming", json!({"complete": false, "output_id": "out_1"})),
        "ask" => (
            "awaiting.confirmation",
            json!({"action": "Delete.", "consequence": "Gone.", "reply_token": "rpl_1",
            "timeout_seconds": 60, "default_decision": "reject", "irreversible": true}),
        ),
        "question" => {
            ("awaiting.clarification", json!({"question": "Which?", "reply_token": "rpl_1", "timeout_seconds": 60}))
        }
        "handoff" => ("handoff.requested", json!({"reason": "Hard.", "target_kind": "human"})),
        other => panic!("no line {other}"),
    };
    let mut document = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{name}"),
        "event_id": format!("evt_{line}"), "session_id": "sess_s", "producer": {"agent_id": "a"}});
    document.as_object_mut().unwrap().extend(payload.as_object().unwrap().clone());
    document
}

/// Checks all lines and compares the problems: the line (from 0) and the rule.
#[track_caller]
fn check_with(sequence: SequenceChecker, lines: &[(&str, Value)], expected: &[(usize, Rule)]) {
    let mut stream = Stream::new(sequence);
    for (kind, fields) in lines {
        stream.say(kind, fields.clone());
    }
    assert_eq!(stream.found, expected);
}

#[track_caller]
fn check(lines: &[(&str, Value)], expected: &[(usize, Rule)]) {
    check_with(SequenceChecker::new(), lines, expected);
}

fn none() -> Value {
    json!({})
}

fn step(from: &str, to: &str) -> Value {
    json!({"from_state": from, "to_state": to})
}

fn chunk(text: &str, position: u64) -> Value {
    json!({"chunk": text, "position": position})
}

fn irreversible() -> Value {
    json!({"irreversible": true})
}

/// The banking session of 4.6.
fn banking(with_reply: bool) -> Vec<(&'static str, Value)> {
    let mut lines = vec![
        ("start", none()),
        ("state", step("idle", "thinking")),
        ("tool", json!({"tool": "fetch_balance"})),
        ("tool done", json!({"tool": "fetch_balance"})),
        ("state", step("thinking", "deciding")),
        ("state", step("deciding", "thinking")),
        ("ask", none()),
        ("accept", none()),
        ("tool", json!({"tool": "transfer_funds", "irreversible": true, "tool_call_id": "call_1"})),
        ("tool done", json!({"tool": "transfer_funds", "tool_call_id": "call_1"})),
        ("state", step("calling_tool", "writing_output")),
        ("chunk", chunk("Transferred $500.", 0)),
        ("chunk", json!({"chunk": " New balance: $12,000.", "position": 17, "complete": true})),
        ("done", none()),
    ];
    lines.retain(|(kind, _)| with_reply || *kind != "accept");
    lines
}

#[test]
fn the_banking_session_is_in_order() {
    check(&banking(true), &[]);
    check(&banking(false), &[]);
}

#[test]
fn seq_started_first() {
    check(&[("state", step("idle", "thinking")), ("done", none())], &[(0, Rule::StartedFirst)]);
}

#[test]
fn an_extension_event_before_the_start_is_not_a_start() {
    let pulse = json!({"type": "haptic:pulse"});
    check(&[("state", pulse), ("start", none()), ("done", none())], &[(0, Rule::StartedFirst)]);
}

#[test]
fn seq_started_once() {
    check_with(
        SequenceChecker::with_view(SequenceView::WHOLE.midway()),
        &[("handoff", none()), ("start", none()), ("done", none())],
        &[(1, Rule::StartedOnce)],
    );
    check(&[("start", none()), ("start", none()), ("done", none())], &[(1, Rule::StartedOnce)]);
}

#[test]
fn seq_after_terminal() {
    for end in ["done", "error", "cancel"] {
        check(
            &[("start", none()), (end, none()), ("state", step("idle", "thinking")), ("done", none())],
            &[(2, Rule::AfterTerminal), (3, Rule::AfterTerminal)],
        );
    }
}

#[test]
fn seq_session_reused() {
    check(&[("start", none()), ("done", none()), ("start", none())], &[(2, Rule::SessionReused)]);
}

#[test]
fn seq_event_id_reuse() {
    check(
        &[("start", json!({"event_id": "evt_x"})), ("done", json!({"event_id": "evt_x"}))],
        &[(1, Rule::EventIdReused)],
    );
}

#[test]
fn seq_redelivered() {
    let again =
        json!({"event_id": "evt_x", "timestamp": "2026-05-24T14:00:02Z", "from_state": "idle", "to_state": "thinking"});
    check(
        &[("start", none()), ("state", again.clone()), ("state", again.clone()), ("done", none()), ("state", again)],
        &[(2, Rule::Redelivered), (4, Rule::Redelivered)],
    );
    // Whether it is numbered or late does not matter: it is the same event.
    let numbered = |n: u64, at: &str| json!({"sequence_number": n, "event_id": format!("evt_{n}x"), "timestamp": at});
    check(
        &[
            ("start", numbered(0, "2026-05-24T14:00:00Z")),
            ("handoff", numbered(1, "2026-05-24T14:00:01Z")),
            ("start", numbered(0, "2026-05-24T14:00:00Z")),
            ("done", numbered(2, "2026-05-24T14:00:02Z")),
        ],
        &[(2, Rule::Redelivered)],
    );
    assert_eq!(Rule::Redelivered.severity(), Severity::Warning);
}

#[test]
fn ids_are_unique_per_producer() {
    let by_other = |mut fields: Value| {
        fields["producer"] = json!({"agent_id": "b"});
        fields
    };
    let id = |n: u64| json!({"event_id": format!("evt_x{n}")});
    check(
        &[
            ("start", id(0)),
            ("start", by_other(id(0))),
            ("ask", id(1)),
            ("ask", by_other(id(1))),
            ("accept", none()),
            ("accept", none()),
            ("accept", none()),
            ("tool", irreversible()),
            ("tool", by_other(irreversible())),
            ("tool done", none()),
            ("tool done", by_other(none())),
            ("done", none()),
            ("state", by_other(step("idle", "thinking"))),
            ("done", by_other(none())),
        ],
        &[(6, Rule::ReplyDuplicate)],
    );
}

#[test]
fn a_lost_event_stops_the_check_of_its_session() {
    let mut stream = Stream::new(SequenceChecker::new());
    stream.say("start", none()).say("ask", none());
    let lost = stream.sequence.lose(&"sess_s".parse().unwrap());
    assert_eq!(lost.iter().map(|p| p.rule).collect::<Vec<_>>(), [Rule::Forgotten]);
    assert!(stream.sequence.lose(&"sess_s".parse().unwrap()).is_empty());
    stream.say("state", step("deciding", "idle")).say("tool done", none());
    // Nor are the answers to its questions, old and new.
    stream.say("ask", json!({"reply_token": "rpl_2"})).say("accept", none());
    stream.say("accept", json!({"reply_token": "rpl_2"}));
    assert_eq!(stream.found, []);
    assert!(stream.sequence.finish().is_empty());
}

#[test]
fn seq_timestamp() {
    let early = json!({"timestamp": "2026-05-24T13:59:59.999Z"});
    check(&[("start", none()), ("done", early)], &[(1, Rule::TimestampOrder)]);
    // Equal timestamps are valid, also in another time zone.
    check(
        &[
            ("start", json!({"timestamp": "2026-05-24T14:00:00Z"})),
            ("done", json!({"timestamp": "2026-05-24T16:00:00+02:00"})),
        ],
        &[],
    );
}

#[test]
fn seq_number() {
    let numbered = |n: u64| json!({"sequence_number": n});
    check(&[("start", numbered(0)), ("handoff", numbered(1)), ("done", numbered(2))], &[]);
    check(&[("start", numbered(1)), ("done", numbered(2))], &[(0, Rule::SequenceOrder)]);
    check(&[("start", numbered(0)), ("done", numbered(2))], &[(1, Rule::SequenceOrder)]);
    check(&[("start", numbered(0)), ("done", none())], &[(1, Rule::SequenceOrder)]);
    check(&[("start", none()), ("done", numbered(1))], &[(1, Rule::SequenceOrder)]);
    // An event without its number is reported, those after it are not.
    check(
        &[("start", numbered(0)), ("handoff", none()), ("handoff", numbered(2)), ("done", numbered(3))],
        &[(1, Rule::SequenceOrder)],
    );
}

#[test]
fn seq_state_first() {
    check(&[("start", none()), ("state", step("thinking", "deciding"))], &[(1, Rule::StateFirst)]);
}

#[test]
fn seq_state_chain() {
    check(
        &[("start", none()), ("state", step("idle", "thinking")), ("state", step("deciding", "idle"))],
        &[(2, Rule::StateChain)],
    );
    // Custom states are valid, and so are those that other events imply.
    check(
        &[
            ("start", none()),
            ("state", step("idle", "dreaming")),
            ("state", step("dreaming", "thinking")),
            ("handoff", none()),
            ("state", step("handing_off", "idle")),
        ],
        &[],
    );
    // What an event implies is over with the next state change.
    check(
        &[
            ("start", none()),
            ("handoff", none()),
            ("state", step("handing_off", "thinking")),
            ("state", step("handing_off", "idle")),
        ],
        &[(3, Rule::StateChain)],
    );
}

#[test]
fn seq_tool_unpaired() {
    check(&[("start", none()), ("tool done", none())], &[(1, Rule::ToolUnpaired)]);
    check(
        &[
            ("start", none()),
            ("tool", json!({"tool_call_id": "call_1"})),
            ("tool done", json!({"tool_call_id": "call_2"})),
        ],
        &[(2, Rule::ToolUnpaired)],
    );
    check(
        &[("start", none()), ("tool", none()), ("tool done", none()), ("tool done", none())],
        &[(3, Rule::ToolUnpaired)],
    );
    // Two concurrent calls of one tool, matched by name.
    check(
        &[
            ("start", none()),
            ("tool", none()),
            ("tool", none()),
            ("tool done", none()),
            ("tool done", none()),
            ("done", none()),
        ],
        &[],
    );
}

#[test]
fn seq_tool_name() {
    let call = json!({"tool_call_id": "call_1"});
    check(
        &[("start", none()), ("tool", call), ("tool done", json!({"tool_call_id": "call_1", "tool": "u"}))],
        &[(2, Rule::ToolName)],
    );
}

#[test]
fn seq_call_id_reused() {
    let call = json!({"tool_call_id": "call_1"});
    check(
        &[
            ("start", none()),
            ("tool", call.clone()),
            ("tool done", call.clone()),
            ("tool", call.clone()),
            ("tool done", call),
        ],
        &[(3, Rule::CallIdReused)],
    );
}

#[test]
fn seq_tool_open() {
    check(
        &[("start", none()), ("tool", json!({"tool_call_id": "call_1"})), ("tool", none()), ("error", none())],
        &[(3, Rule::ToolOpen), (3, Rule::ToolOpen)],
    );
}

#[test]
fn seq_irreversible_unconfirmed() {
    check(&[("start", none()), ("tool", irreversible())], &[(1, Rule::IrreversibleUnconfirmed)]);
    // One acceptance permits one call.
    check(
        &[("start", none()), ("ask", none()), ("accept", none()), ("tool", irreversible()), ("tool", irreversible())],
        &[(4, Rule::IrreversibleUnconfirmed)],
    );
    // If the stream has replies, an open question permits nothing.
    check_with(
        SequenceChecker::new().with_replies(),
        &[("start", none()), ("ask", none()), ("tool", irreversible())],
        &[(2, Rule::IrreversibleUnconfirmed)],
    );
    // A reply to a clarification permits nothing either.
    check(
        &[("start", none()), ("question", none()), ("answer", json!({"response": true})), ("tool", irreversible())],
        &[(3, Rule::IrreversibleUnconfirmed)],
    );
    // A timeout accepts only if that is the default, and only after the time.
    let default = json!({"default_decision": "accept", "risk_level": "low"});
    let late = json!({"irreversible": true, "timestamp": "2026-05-24T14:05:00Z"});
    check_with(
        SequenceChecker::new().with_replies(),
        &[("start", none()), ("ask", default.clone()), ("tool", late.clone())],
        &[],
    );
    check_with(
        SequenceChecker::new().with_replies(),
        &[("start", none()), ("ask", default), ("tool", irreversible())],
        &[(2, Rule::IrreversibleUnconfirmed)],
    );
    check_with(
        SequenceChecker::new().with_replies(),
        &[("start", none()), ("ask", none()), ("tool", late)],
        &[(2, Rule::IrreversibleUnconfirmed)],
    );
}

/// Returns the consent extension of a state change that reports an outcome.
fn outcome(outcome: &str) -> Value {
    let mut change = step("awaiting_input", "calling_tool");
    change["extensions"] = json!({"consent": {"reply_token": "rpl_1", "outcome": outcome}});
    change
}

#[test]
fn seq_irreversible_not_asked() {
    for asked in [json!({"irreversible": false}), json!({"irreversible": false, "reversibility": "reversible"})] {
        let towards_tool = step("awaiting_input", "calling_tool");
        let expected = [(3, Rule::IrreversibleNotAsked)];
        // Acceptance, a timeout, and a direct state change to the tool: none of them is consent to an irreversible call.
        for answer in [("accept", none()), ("state", outcome("accepted")), ("state", towards_tool.clone())] {
            check(&[("start", none()), ("ask", asked.clone()), answer, ("tool", irreversible())], &expected);
        }
        let mut silent = asked.clone();
        silent["default_decision"] = json!("accept");
        for answer in [("state", outcome("timed_out")), ("state", towards_tool)] {
            check(&[("start", none()), ("ask", silent.clone()), answer, ("tool", irreversible())], &expected);
        }
    }
    // Either field declares it irreversible (decision 14).
    let other_field = json!({"irreversible": false, "reversibility": "irreversible"});
    check(&[("start", none()), ("ask", other_field), ("accept", none()), ("tool", irreversible())], &[]);
    // Another question that was asked as irreversible counts, and a question about another tool does not.
    let plain = json!({"irreversible": false, "action": "Look.", "reply_token": "rpl_2"});
    let yes = json!({"reply_token": "rpl_2"});
    let both = [("start", none()), ("ask", plain), ("accept", yes), ("ask", none()), ("accept", none())];
    check(&[&both[..], &[("tool", irreversible())]].concat(), &[]);
    let of_other = json!({"extensions": {"consent": {"tool": "other", "call_digest": "sha256:0"}}});
    check(
        &[("start", none()), ("ask", of_other), ("accept", none()), ("tool", irreversible())],
        &[(3, Rule::IrreversibleUnconfirmed)],
    );
    // A subscriber that joins midway may have missed the question.
    check_with(
        SequenceChecker::with_view(SequenceView::WHOLE.midway()),
        &[("ask", json!({"irreversible": false})), ("accept", none()), ("tool", irreversible())],
        &[],
    );
}

#[test]
fn seq_irreversible_by_default() {
    let accept = |risk: Option<&str>| {
        let mut asked = json!({"default_decision": "accept"});
        if let Some(risk) = risk {
            asked["risk_level"] = json!(risk);
        }
        asked
    };
    let late = json!({"irreversible": true, "timestamp": "2026-05-24T14:05:00Z"});
    for risk in [None, Some("medium"), Some("high")] {
        for told in ["timed_out", "nobody_could_answer", "subscriber_left"] {
            check(
                &[("start", none()), ("ask", accept(risk)), ("state", outcome(told)), ("tool", irreversible())],
                &[(3, Rule::IrreversibleByDefault)],
            );
        }
        check_with(
            SequenceChecker::new().with_replies(),
            &[("start", none()), ("ask", accept(risk)), ("tool", late.clone())],
            &[(2, Rule::IrreversibleByDefault)],
        );
        // A reply is not a default.
        check(&[("start", none()), ("ask", accept(risk)), ("accept", none()), ("tool", irreversible())], &[]);
    }
    // The one default that 6.4.1 allows.
    let low = accept(Some("low"));
    check(&[("start", none()), ("ask", low.clone()), ("state", outcome("timed_out")), ("tool", irreversible())], &[]);
    check_with(SequenceChecker::new().with_replies(), &[("start", none()), ("ask", low), ("tool", late)], &[]);
    // A default of reject starts nothing.
    check(
        &[("start", none()), ("ask", none()), ("state", outcome("timed_out")), ("tool", irreversible())],
        &[(3, Rule::ToolAfterReject)],
    );
}

#[test]
fn an_outcome_that_is_told_settles_its_own_question_only() {
    let second = json!({"action": "Burn.", "reply_token": "rpl_2"});
    let told = json!({"from_state": "awaiting_input", "to_state": "calling_tool",
        "extensions": {"consent": {"reply_token": "rpl_2", "outcome": "rejected"}}});
    let mut stream = Stream::new(SequenceChecker::new());
    stream.say("start", none()).say("ask", none()).say("ask", second).say("state", told);
    stream.say("tool", irreversible()).say("tool", irreversible());
    // The first question is open and permits one call; the second was refused.
    assert_eq!(stream.found, [(5, Rule::ToolAfterReject)]);
}

#[test]
fn seq_tool_after_reject() {
    check(
        &[("start", none()), ("ask", none()), ("reject", none()), ("tool", irreversible())],
        &[(3, Rule::ToolAfterReject)],
    );
    // Without replies, the state change back to thinking shows the outcome.
    check(
        &[("start", none()), ("ask", none()), ("state", step("awaiting_input", "thinking")), ("tool", irreversible())],
        &[(3, Rule::ToolAfterReject)],
    );
    check(
        &[
            ("start", none()),
            ("ask", none()),
            ("state", step("awaiting_input", "calling_tool")),
            ("tool", irreversible()),
        ],
        &[],
    );
    // An agent may think after an acceptance; no rejection was seen.
    check(
        &[
            ("start", none()),
            ("ask", none()),
            ("state", step("awaiting_input", "thinking")),
            ("state", step("thinking", "calling_tool")),
            ("tool", irreversible()),
            ("tool", irreversible()),
        ],
        &[(5, Rule::IrreversibleUnconfirmed)],
    );
    // The stream has replies, but none to this question.
    check_with(
        SequenceChecker::new().with_replies(),
        &[
            ("start", none()),
            ("ask", none()),
            ("state", step("awaiting_input", "thinking")),
            ("state", step("thinking", "calling_tool")),
            ("tool", irreversible()),
        ],
        &[(4, Rule::ToolAfterReject)],
    );
    // A modified action is not the action that was asked about.
    check(
        &[
            ("start", none()),
            ("ask", none()),
            ("accept", json!({"modified_action": {"amount": 1}})),
            ("tool", irreversible()),
        ],
        &[(3, Rule::ToolAfterReject)],
    );
}

#[test]
fn seq_confirm_again() {
    check(&[("start", none()), ("ask", none()), ("ask", json!({"reply_token": "rpl_2"}))], &[(2, Rule::ConfirmAgain)]);
    check(&[("start", none()), ("ask", none()), ("ask", json!({"reply_token": "rpl_2", "action": "Send."}))], &[]);
    check(&[("start", none()), ("ask", none()), ("reject", none()), ("ask", json!({"reply_token": "rpl_2"}))], &[]);
}

#[test]
fn seq_token_reuse() {
    check(&[("start", none()), ("ask", none()), ("reject", none()), ("ask", none())], &[(3, Rule::TokenReused)]);
    // Not in another session either.
    check(
        &[
            ("start", none()),
            ("ask", none()),
            ("cancel", none()),
            ("start", json!({"session_id": "sess_2"})),
            ("question", json!({"session_id": "sess_2"})),
        ],
        &[(4, Rule::TokenReused)],
    );
}

#[test]
fn seq_output_after_complete() {
    let last = json!({"chunk": "Hi.", "position": 0, "complete": true});
    check(&[("start", none()), ("chunk", last), ("chunk", chunk("More.", 3))], &[(2, Rule::OutputAfterComplete)]);
}

#[test]
fn seq_output_unfinished() {
    check(&[("start", none()), ("chunk", chunk("Hi.", 0)), ("done", none())], &[(2, Rule::OutputUnfinished)]);
}

#[test]
fn seq_position() {
    // Characters, not bytes: five scalar values, the last two make one letter.
    check(&[("start", none()), ("chunk", chunk("Ẹ kuo\u{300}", 0)), ("chunk", chunk("!", 6))], &[]);
    check(&[("start", none()), ("chunk", chunk("Ẹ kuo\u{300}", 0)), ("chunk", chunk("!", 9))], &[(2, Rule::Position)]);
    check(&[("start", none()), ("chunk", chunk("abc", 0)), ("chunk", chunk("b", 1))], &[(2, Rule::Position)]);
    check(&[("start", none()), ("chunk", chunk("abc", 5))], &[(1, Rule::Position)]);
    // Positions are per output.
    let other = json!({"chunk": "x", "position": 0, "output_id": "out_2"});
    check(&[("start", none()), ("chunk", chunk("abc", 0)), ("chunk", other), ("chunk", chunk("d", 3))], &[]);
}

#[test]
fn seq_pending_at_end() {
    check(&[("start", none()), ("ask", none()), ("done", none())], &[(2, Rule::PendingAtEnd)]);
    check(&[("start", none()), ("ask", none()), ("cancel", none())], &[]);
}

#[test]
fn seq_unended() {
    let mut stream = Stream::new(SequenceChecker::new());
    stream.say("start", none()).say("start", json!({"session_id": "sess_t"})).say("done", none());
    let unended = stream.sequence.finish();
    assert_eq!(unended.len(), 1);
    assert_eq!((unended[0].0.as_str(), unended[0].1.rule), ("sess_t", Rule::Unended));
}

#[test]
fn reply_unknown_token() {
    check(&[("start", none()), ("accept", none())], &[(1, Rule::ReplyUnknownToken)]);
    // A reply of the other kind answers nothing.
    check(&[("start", none()), ("ask", none()), ("answer", json!({"response": "x"}))], &[(2, Rule::ReplyUnknownToken)]);
}

#[test]
fn reply_duplicate() {
    check(
        &[("start", none()), ("ask", none()), ("accept", none()), ("reject", none()), ("tool", irreversible())],
        &[(3, Rule::ReplyDuplicate)],
    );
    check(&[("start", none()), ("ask", none()), ("cancel", none()), ("accept", none())], &[(3, Rule::ReplyDuplicate)]);
}

#[test]
fn reply_late() {
    let late = json!({"timestamp": "2026-05-24T14:01:02Z"});
    check(
        &[("start", none()), ("ask", none()), ("accept", late), ("tool", irreversible())],
        &[(2, Rule::ReplyLate), (3, Rule::IrreversibleUnconfirmed)],
    );
}

#[test]
fn a_reply_older_than_its_question_counts_for_nothing() {
    let at = |second: u64| json!({"timestamp": format!("2026-05-24T14:00:{second:02}Z")});
    check(
        &[
            ("start", at(0)),
            ("ask", at(30)),
            ("accept", at(24)),
            ("tool", json!({"irreversible": true, "timestamp": "2026-05-24T14:00:31Z"})),
        ],
        &[(2, Rule::ReplyLate), (3, Rule::IrreversibleUnconfirmed)],
    );
    // Clocks may differ a little.
    check(&[("start", at(0)), ("ask", at(30)), ("accept", at(25))], &[]);
}

#[test]
fn reply_decision() {
    check(
        &[
            ("start", none()),
            ("ask", json!({"allowed_replies": ["reject"]})),
            ("accept", none()),
            ("tool", irreversible()),
        ],
        &[(2, Rule::ReplyDecision), (3, Rule::IrreversibleUnconfirmed)],
    );
}

#[test]
fn reply_response_kind() {
    let choices = json!([{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]);
    for (kinds, response, fits) in [
        (json!(["freetext"]), json!("anything"), true),
        (json!(["freetext"]), json!(true), false),
        (json!(["yes_no"]), json!(true), true),
        (json!(["yes_no"]), json!("yes"), false),
        (json!(["multiple_choice"]), json!("b"), true),
        (json!(["multiple_choice"]), json!("c"), false),
        (json!(["numeric"]), json!(67), true),
        (json!(["numeric"]), json!("67"), false),
        (json!(["multiple_choice", "numeric"]), json!(67), true),
    ] {
        let question = json!({"accepted_response_kinds": kinds, "choices": choices});
        let expected: &[(usize, Rule)] = if fits { &[] } else { &[(2, Rule::ReplyResponse)] };
        check(&[("start", none()), ("question", question), ("answer", json!({"response": response}))], expected);
    }
}

#[test]
fn seq_forgotten() {
    let mut stream = Stream::new(SequenceChecker::new());
    for i in 0..=limits::CHECKED_SESSIONS {
        stream.say("start", json!({"session_id": format!("sess_{i}"), "timestamp": "2026-05-24T14:00:00Z"}));
    }
    assert_eq!(stream.found, [(limits::CHECKED_SESSIONS, Rule::Forgotten)]);
    assert_eq!(stream.sequence.open_sessions(), limits::CHECKED_SESSIONS);
    // Evicted items are not checked any more, rather than checked wrongly.
    stream.say("done", json!({"session_id": "sess_0", "timestamp": "2026-05-24T14:00:00Z"}));
    assert_eq!(stream.found.len(), 1);
}

#[test]
fn memory_stays_bounded_over_many_sessions() {
    let mut stream = Stream::new(SequenceChecker::new());
    let at = "2026-05-24T14:00:00Z";
    for i in 0..20_000 {
        let id = format!("sess_{i}");
        stream.say("start", json!({"session_id": id, "timestamp": at}));
        stream.say("done", json!({"session_id": id, "timestamp": at}));
    }
    assert_eq!(stream.found, []);
    assert_eq!(stream.sequence.open_sessions(), 0);
    stream.say("start", json!({"session_id": "sess_5", "timestamp": at}));
    assert_eq!(stream.found.last().map(|f| f.1), Some(Rule::SessionReused));
}

#[test]
fn many_outputs_one_after_the_other_are_followed() {
    let mut stream = Stream::new(SequenceChecker::new());
    let at = "2026-05-24T14:00:00Z";
    let piece = |i: usize, position: u64, complete: bool| json!({"output_id": format!("out_{i}"), "chunk": "ab", "position": position, "complete": complete, "timestamp": at});
    stream.say("start", json!({"timestamp": at}));
    for i in 0..limits::CHECKED_ITEMS_PER_SESSION + 100 {
        stream.say("chunk", piece(i, 0, false)).say("chunk", piece(i, 2, true));
    }
    assert_eq!(stream.found, []);
    stream.say("chunk", piece(limits::CHECKED_ITEMS_PER_SESSION + 50, 4, false));
    assert_eq!(stream.found.pop().map(|f| f.1), Some(Rule::OutputAfterComplete));
    // More at once than can be tracked: reported once, and the rest is not checked.
    for i in 0..limits::CHECKED_ITEMS_PER_SESSION + 2 {
        stream.say("chunk", piece(10_000 + i, 0, false));
    }
    stream.say("chunk", piece(10_000 + limits::CHECKED_ITEMS_PER_SESSION + 1, 2, true));
    let found: Vec<Rule> = stream.found.iter().map(|f| f.1).collect();
    assert_eq!(found, [Rule::Forgotten]);
}

#[test]
fn many_settled_questions_do_not_hide_a_new_one() {
    let mut stream = Stream::new(SequenceChecker::new());
    let at = "2026-05-24T14:00:00Z";
    let with = |i: usize| json!({"reply_token": format!("rpl_{i}"), "timestamp": at});
    stream.say("start", json!({"timestamp": at}));
    for i in 0..limits::CHECKED_ITEMS_PER_SESSION + 100 {
        stream.say("ask", with(i)).say("reject", with(i));
    }
    stream.say("ask", with(9999)).say("accept", with(9999));
    stream.say("tool", json!({"irreversible": true, "timestamp": at}));
    assert_eq!(stream.found, []);
    // A reply to an evicted question is reported as a second one.
    stream.say("accept", with(3));
    assert_eq!(stream.found.pop().map(|f| f.1), Some(Rule::ReplyDuplicate));
}

#[test]
fn open_questions_without_end_are_not_judged_wrongly() {
    let mut stream = Stream::new(SequenceChecker::new().with_replies());
    let at = "2026-05-24T14:00:00Z";
    let with = |i: usize| json!({"reply_token": format!("rpl_{i}"), "timestamp": at, "action": format!("Do {i}.")});
    stream.say("start", json!({"timestamp": at}));
    for i in 0..limits::CHECKED_ITEMS_PER_SESSION + 10 {
        stream.say("ask", with(i));
    }
    stream.say("tool", json!({"irreversible": true, "timestamp": at}));
    assert_eq!(stream.found, []);
}

#[test]
fn sessions_may_interleave() {
    let other = |mut fields: Value| {
        fields["session_id"] = json!("sess_other");
        fields
    };
    check(
        &[
            ("start", none()),
            ("start", other(none())),
            ("state", step("idle", "thinking")),
            ("state", other(step("idle", "deciding"))),
            ("state", step("thinking", "idle")),
            ("done", other(none())),
            ("done", none()),
        ],
        &[],
    );
}

#[test]
fn a_partial_view_is_not_held_against_the_producer() {
    let no_tools = SequenceView::of(|core| core != CoreType::ToolInvoked);
    check_with(
        SequenceChecker::with_view(no_tools),
        &[("start", none()), ("tool done", none()), ("done", none())],
        &[],
    );
    check_with(
        SequenceChecker::with_view(SequenceView::WHOLE.midway()),
        &[("tool done", none()), ("chunk", chunk("rest", 100)), ("state", step("writing_output", "idle"))],
        &[],
    );
}
