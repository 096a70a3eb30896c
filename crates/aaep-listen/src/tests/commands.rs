//! Commands, the numbers of questions and the names of agents.

use super::*;

fn spoken(harness: &SessionHarness) -> Vec<String> {
    let text = |effect: &Effect| match effect {
        Effect::Speak(said) => Some(said.text.clone()),
        Effect::Respond(said) => Some(format!("respond: {}", said.text)),
        _ => None,
    };
    harness.effects.iter().filter_map(text).collect()
}

#[test]
fn number_is_spoken_from_the_second_question_on_and_printed_once() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete one.");
    assert!(harness.spoke("Agent 0 asks: Delete one.") && !harness.spoke("Question 1."));
    harness.advance_ms(2000);
    harness.enter("no");
    harness.effects.clear();
    harness.ask(0, "rpl_2", "Delete two.");
    assert_eq!(spoken(&harness)[0], "Question 2. Agent 0 asks: Delete two.");
    assert!(contains(&harness.take_lines(), "Question 2: Agent 0 asks: Delete two."));
}

#[test]
fn answer_replaces_the_speech_about_its_question() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete one.");
    harness.advance_ms(2000);
    harness.effects.clear();
    harness.enter("no");
    assert_eq!(spoken(&harness), ["respond: Sent: no."]);
    let place = |wanted: &dyn Fn(&Effect) -> bool| harness.effects.iter().position(wanted).unwrap();
    let sent = place(&|effect| matches!(effect, Effect::Respond(_)));
    assert!(sent < place(&|effect| matches!(effect, Effect::CancelSpeech(_))), "nothing else can begin in between");
}

#[test]
fn repeat_says_the_time_that_is_left() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete one.");
    harness.advance_ms(300_000);
    harness.take_lines();
    harness.enter("repeat");
    assert_eq!(spoken(&harness)[0], "respond: Agent 0 asks: Delete one.");
    assert!(contains(&harness.take_lines(), "Question 1: You have 5 minutes left to answer."));
}

#[test]
fn no_with_a_number_is_not_sent_as_words() {
    let mut harness = SessionHarness::new(&["http://a"]);
    let fields = json!({"urgency": "critical", "question": "Where?", "reply_token": "rpl_1", "timeout_seconds": 60,
        "accepted_response_kinds": ["freetext"]});
    harness.event(0, "awaiting.clarification", fields);
    harness.advance_ms(5000);
    harness.take_lines();
    harness.enter("no 1");
    assert_eq!(harness.answers(), []);
    let lines = harness.take_lines();
    assert!(contains(&lines, "To send the word no, type: to 1 no"), "{lines:?}");
    harness.enter("to 1 no");
    assert_eq!(harness.answers(), [(1, PromptAnswer::response(Response::Text("no".into())))]);
}

#[test]
fn stop_and_mute_say_what_they_did() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.event(0, "session.started", json!({"summary_normal": "Begins."}));
    harness.take_lines();
    harness.enter("stop");
    assert!(harness.effects.contains(&Effect::Silence));
    assert_eq!(harness.take_lines(), ["Reply: Nothing is being spoken. The agents go on."]);
    harness.listener.set_voice(true);
    harness.enter("stop");
    assert!(contains(&harness.take_lines(), "Reply: Speech is stopped. The agents go on."));
    harness.enter("mute nobody");
    assert_eq!(harness.take_lines(), ["Reply: There is no agent nobody. Agents here: Agent 0."]);
}

#[test]
fn agents_of_one_name_are_told_apart() {
    let mut harness = SessionHarness::new(&["http://a", "http://b"]);
    for producer in [0, 1] {
        let agent = json!({"agent_id": format!("bank-{producer}"), "agent_name": "Bank"});
        harness.event(producer, "session.started", json!({"summary_normal": "Begins.", "producer": agent}));
    }
    let lines = harness.take_lines();
    assert!(contains(&lines, "Start: Bank: Begins.") && contains(&lines, "Start: Bank 2: Begins."), "{lines:?}");
    let asked = json!({"urgency": "critical", "action": "Pay.", "consequence": "Paid.", "reply_token": "rpl_1",
        "timeout_seconds": 600, "default_decision": "reject", "producer": {"agent_id": "bank-1", "agent_name": "Bank"}});
    harness.event(1, "awaiting.confirmation", asked);
    assert!(contains(&harness.take_lines(), "Question 1: Bank 2 asks: Pay."));
}

#[test]
fn headings_of_a_text_can_be_walked() {
    let mut harness = SessionHarness::new(&["http://a"]);
    let text = "# Water\n\nOne.\n\n## Savings\n\nTwo.\n";
    let chunk = json!({"chunk": text, "position": 0, "complete": true, "content_type": "text/markdown"});
    harness.event(0, "output.streaming", chunk);
    assert!(contains(&harness.take_lines(), "Heading: Savings."));
    for (line, found) in [
        ("previous heading", "Heading: Savings."),
        ("previous heading", "Heading: Water."),
        ("next", "Text: One."),
        ("next heading", "Heading: Savings."),
    ] {
        harness.enter(line);
        assert_eq!(harness.take_lines(), [found]);
    }
}

#[test]
fn pace_is_requested_only_with_a_voice_or_a_braille_display() {
    let mut harness = SessionHarness::new(&["http://a"]);
    let pace = |harness: &SessionHarness| harness.listener.capabilities().fields.pace_wpm;
    assert_eq!(pace(&harness), None);
    harness.listener.set_voice(true);
    assert_eq!(pace(&harness), Some(180));
    harness.listener.set_braille(true);
    harness.listener.set_voice(false);
    assert_eq!(pace(&harness), Some(180));
    harness.listener.set_braille(false);
    assert_eq!(pace(&harness), Some(1000), "a renegotiation cannot remove a field");
    let renegotiations = harness.listener.drain_effects();
    assert_eq!(renegotiations.iter().filter(|effect| matches!(effect, Effect::Renegotiate(_))).count(), 2);
}
