//! The listener, fed by real subscriber state machines.

mod commands;
mod connection;

use aaep_announce::Priority;
use aaep_proto::message::{Decision, Response};
use aaep_proto::subscriber::{PromptAnswer, PromptReplyError};
use serde_json::json;

use crate::test_support::{SessionHarness, contains};
use crate::{AnswerError, ControlRequest, Effect};

#[test]
fn question_is_announced_in_full_and_answered_once() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Move $500 to savings.");
    let lines = harness.take_lines();
    assert!(contains(&lines, "Question 1: Agent 0 asks: Move $500 to savings."), "{lines:?}");
    assert!(contains(&lines, "Question 1: It is gone."), "{lines:?}");
    assert!(contains(&lines, "Question 1: This cannot be undone. High risk."), "{lines:?}");
    assert!(contains(&lines, "Answer yes or no."), "{lines:?}");
    harness.advance_ms(2000);
    harness.enter("yes");
    assert_eq!(harness.answers(), [(1, PromptAnswer::accept())]);
    let lines = harness.take_lines();
    assert!(contains(&lines, "Answer 1: Sent: yes."), "{lines:?}");
    harness.enter("yes");
    assert_eq!(harness.answers(), []);
    assert!(contains(&harness.take_lines(), "Nothing waits for an answer. Nothing was sent."));
}

#[test]
fn accepting_an_irreversible_action_needs_the_whole_word() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(2000);
    for letter in ["y", "a"] {
        harness.enter(letter);
        assert_eq!(harness.answers(), []);
        assert!(contains(&harness.take_lines(), "Type yes to accept. Nothing was sent."));
        harness.advance_ms(2000);
    }
    harness.enter("n");
    assert_eq!(harness.answers(), [(1, PromptAnswer::reject())], "saying no is never dangerous");
    harness.take_lines();
    harness.ask_harmless("rpl_2");
    harness.advance_ms(2000);
    harness.enter("y");
    assert_eq!(harness.answers(), [(2, PromptAnswer::accept())]);
}

#[test]
fn answer_entered_as_the_question_arrives_is_not_sent() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(300);
    harness.enter("yes");
    assert_eq!(harness.answers(), []);
    let lines = harness.take_lines();
    assert!(contains(&lines, "Nothing was sent, because this question came just as you answered."), "{lines:?}");
    assert!(contains(&lines, "Question 1: Agent 0 asks: Delete all."), "it is put again: {lines:?}");
    harness.advance_ms(1000);
    harness.enter("yes");
    assert_eq!(harness.answers(), [(1, PromptAnswer::accept())]);
}

#[test]
fn replaced_question_is_not_answered_by_a_yes_for_the_old_one() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Rename one file.");
    harness.advance_ms(5000);
    harness.ask(0, "rpl_1", "Delete everything.");
    let lines = harness.take_lines();
    assert!(contains(&lines, "Question 1 is over, because another question took its place."), "{lines:?}");
    assert!(contains(&lines, "Question 2: Agent 0 asks: Delete everything."), "{lines:?}");
    harness.advance_ms(1500);
    harness.enter("yes");
    assert_eq!(harness.answers(), [], "the user may have had the first in mind");
    assert!(contains(&harness.take_lines(), "Nothing was sent"));
    harness.enter("yes 1");
    assert!(contains(&harness.take_lines(), "Question 1 is over: another question took its place."));
    harness.advance_ms(4000);
    harness.enter("yes");
    assert_eq!(harness.answers(), [(2, PromptAnswer::accept())]);
}

#[test]
fn answer_to_a_question_resolved_elsewhere_is_not_sent() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.event(0, "state.changed", json!({"from_state": "idle", "to_state": "awaiting_input"}));
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(5000);
    harness.event(0, "state.changed", json!({"from_state": "awaiting_input", "to_state": "thinking"}));
    assert!(harness.effects.contains(&Effect::CancelSpeech("0/rpl_1".into())), "stale speech is taken back");
    assert!(contains(&harness.take_lines(), "The question was answered elsewhere."));
    harness.enter("yes");
    assert_eq!(harness.answers(), []);
    assert!(contains(&harness.take_lines(), "Nothing was sent. Question 1 is over: it was settled elsewhere."));
}

#[test]
fn answer_after_the_deadline_is_not_sent() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(601_000);
    harness.enter("yes");
    let lines = harness.take_lines();
    assert!(contains(&lines, "Nothing was sent to question 1. "), "{lines:?}");
    harness.enter("yes");
    assert_eq!(harness.answers(), []);
}

#[test]
fn with_several_open_questions_the_number_decides() {
    let mut harness = SessionHarness::new(&["http://a", "http://b"]);
    harness.ask(0, "rpl_1", "Paint it red.");
    // The same token from someone else is another question.
    harness.ask(1, "rpl_1", "Paint it blue.");
    harness.advance_ms(5000);
    harness.take_lines();
    harness.enter("yes");
    assert_eq!(harness.answers(), []);
    let lines = harness.take_lines();
    assert!(contains(&lines, "more than one question waits"), "{lines:?}");
    assert!(
        contains(&lines, "Question 1: Agent 0 asks: Paint it red.") && contains(&lines, "Question 2: "),
        "{lines:?}"
    );
    harness.enter("no 2");
    assert_eq!(harness.answers(), [(2, PromptAnswer::reject())]);
    harness.take_lines();
    harness.enter("yes");
    assert_eq!(harness.answers(), [], "what was in mind is settled, so the other is put first");
    assert!(contains(&harness.take_lines(), "Question 1: Agent 0 asks: Paint it red."));
    harness.advance_ms(1000);
    harness.enter("yes");
    assert_eq!(harness.answers(), [(1, PromptAnswer::accept())]);
}

#[test]
fn clarifications_take_numbers_choices_and_words() {
    let mut harness = SessionHarness::new(&["http://a"]);
    let question = |token: &str, kind: &str| {
        let mut fields = json!({"urgency": "critical", "question": "How?", "reply_token": token, "timeout_seconds": 60,
            "accepted_response_kinds": [kind]});
        if kind == "multiple_choice" {
            fields["choices"] = json!([{"value": "t", "label": "By train"}, {"value": "b", "label": "By bus"}]);
        }
        fields
    };
    for (number, (kind, line, response)) in [
        ("multiple_choice", "2", Response::Text("b".into())),
        ("numeric", "3", Response::Number(3.0)),
        ("freetext", "Lagos, please", Response::Text("Lagos, please".into())),
        ("freetext", "answer help", Response::Text("help".into())),
        ("yes_no", "no", Response::Boolean(false)),
    ]
    .into_iter()
    .enumerate()
    {
        harness.event(0, "awaiting.clarification", question(&format!("rpl_{number}"), kind));
        harness.advance_ms(5000);
        harness.effects.clear();
        harness.enter(line);
        assert_eq!(harness.answers(), [(number as u32 + 1, PromptAnswer::response(response))], "{kind}");
    }
}

#[test]
fn lines_other_than_yes_and_no_never_answer_a_confirmation() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(5000);
    for line in ["yess", "sure go ahead", "ok", "1", "yes 7", "", "repeat", "details", "waiting"] {
        harness.enter(line);
        assert_eq!(harness.answers(), [], "{line:?}");
    }
    let lines = harness.take_lines();
    assert!(contains(&lines, "Not understood, and nothing was sent."), "{lines:?}");
    assert!(contains(&lines, "There is no question 7."), "{lines:?}");
    assert!(contains(&lines, "Reply: Action: Delete all."), "{lines:?}");
}

#[test]
fn hidden_characters_in_a_question_are_named_and_never_printed() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Pay \u{202e}001\u{202c} to b\u{0430}nk.\u{1b}[2J\nQuestion 9: harmless");
    let lines = harness.take_lines();
    assert!(contains(&lines, "Warning: this text has a character that changes its order, U+202E."), "{lines:?}");
    harness.enter("details");
    for line in lines.iter().chain(&harness.take_lines()) {
        assert!(!line.contains(['\u{202e}', '\u{1b}', '\n']), "{line:?}");
    }
}

#[test]
fn muted_agent_is_announced_only_for_critical_events() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.event(0, "session.started", json!({"summary_normal": "Begins."}));
    assert!(contains(&harness.take_lines(), "Start: Begins."));
    harness.enter("mute");
    harness.take_lines();
    harness.event(0, "tool.invoked", json!({"tool": "t", "summary_normal": "Using a tool."}));
    assert_eq!(harness.take_lines(), Vec::<String>::new());
    harness.ask(0, "rpl_1", "Delete all.");
    assert!(contains(&harness.take_lines(), "asks: Delete all."));
    harness.enter("prev tool");
    assert!(contains(&harness.take_lines(), "Tool: Using a tool."), "it can be walked to");
    harness.enter("unmute Agent 0");
    harness.advance_ms(100);
    harness.event(0, "tool.completed", json!({"tool": "t", "status": "success", "summary_normal": "Tool done."}));
    assert!(contains(&harness.take_lines(), "Tool: Tool done."));
}

#[test]
fn only_the_first_sentence_of_a_question_has_important_priority() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    let said: Vec<_> = harness
        .effects
        .iter()
        .filter_map(
            |effect| if let Effect::Speak(said) | Effect::Respond(said) = effect { Some(said.clone()) } else { None },
        )
        .collect();
    let question: Vec<_> = said.iter().filter(|said| said.about.as_deref() == Some("0/rpl_1")).collect();
    assert_eq!(question[0].priority, Priority::Important);
    assert!(question[1..].iter().all(|said| said.priority == Priority::Message), "{question:?}");
    let question = harness.effects.iter().position(|effect| matches!(effect, Effect::PlaySound(_)));
    assert!(question.is_some(), "a sound goes with it");
}

#[test]
fn requests_without_a_number_accept_only_harmless_questions() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(5000);
    let now = harness.now();
    let pending = harness.listener.handle_request(now, &ControlRequest::Pending);
    assert_eq!((pending.ok, pending.questions.len()), (true, 1));
    assert_eq!(pending.questions[0]["number"], 1);
    let refused = harness.listener.handle_request(now, &ControlRequest::Accept { number: None });
    assert!(!refused.ok && refused.text.contains("name its number"), "{refused:?}");
    assert!(!harness.listener.handle_request(now, &ControlRequest::Accept { number: Some(2) }).ok);
    assert!(
        !harness.listener.handle_request(now, &ControlRequest::Answer { number: Some(1), text: "maybe".into() }).ok
    );
    assert!(harness.listener.handle_request(now, &ControlRequest::Accept { number: Some(1) }).ok);
    assert!(
        !harness.listener.handle_request(now, &ControlRequest::Reject { number: Some(1) }).ok,
        "an answer is on its way"
    );
    harness.perform();
    assert_eq!(harness.answers(), [(1, PromptAnswer::accept())]);
    harness.take_lines();
    harness.ask_harmless("rpl_2");
    let now = harness.now();
    assert!(!harness.listener.handle_request(now, &ControlRequest::Accept { number: None }).ok, "it came only just");
    harness.advance_ms(1000);
    let now = harness.now();
    assert!(harness.listener.handle_request(now, &ControlRequest::Accept { number: None }).ok);
    harness.perform();
    assert_eq!(harness.answers(), [(2, PromptAnswer::accept())]);
}

#[test]
fn hook_answers_or_leaves_the_question_to_the_user() {
    let mut harness = SessionHarness::new(&["http://a"]);
    for (token, answer, sent) in [
        ("rpl_1", Ok("accept"), Some(Decision::Accept)),
        ("rpl_2", Ok("reject"), Some(Decision::Reject)),
        ("rpl_3", Ok("yes please"), None),
        ("rpl_4", Ok(""), None),
        ("rpl_5", Err("it took too long"), None),
    ] {
        harness.ask(0, token, "Delete all.");
        harness.effects.clear();
        let number = harness.listener.questions.open().last().unwrap().number;
        let now = harness.now();
        harness.listener.handle_hook_result(now, number, answer.map(str::to_owned).map_err(str::to_owned));
        harness.perform();
        let expected = sent.map(|decision| PromptAnswer::Decision { decision, rationale: None, modified_action: None });
        assert_eq!(
            harness.answers(),
            expected.map(|answer| (number, answer)).into_iter().collect::<Vec<_>>(),
            "{answer:?}"
        );
        if harness.answers().is_empty() {
            assert!(contains(&harness.take_lines(), "It still waits for you."), "{answer:?}");
        }
    }
}

#[test]
fn answer_that_cannot_be_sent_leaves_the_question_open() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(2000);
    let now = harness.now();
    harness.listener.handle_line(now, "yes");
    let Some(Effect::SendReply { number, .. }) =
        harness.listener.drain_effects().into_iter().find(|a| matches!(a, Effect::SendReply { .. }))
    else {
        panic!("no answer was sent")
    };
    harness.listener.handle_reply_result(now, number, Err(AnswerError::Refused(PromptReplyError::NotConnected)));
    harness.perform();
    assert!(contains(&harness.take_lines(), "Nothing was sent to question 1. "));
    harness.advance_ms(2000);
    harness.enter("yes");
    assert_eq!(harness.answers(), [(1, PromptAnswer::accept())]);
}

#[test]
fn leaving_by_letter_warns_first_if_a_question_is_open() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    harness.take_lines();
    harness.enter("q");
    assert!(!harness.effects.contains(&Effect::Exit));
    assert_eq!(harness.take_lines(), ["Reply: A question waits. Type close to leave all the same."]);
    harness.enter("close");
    assert!(harness.effects.contains(&Effect::Exit));
}

#[test]
fn less_and_more_time_renegotiate_capabilities() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.enter("terser");
    harness.enter("more time");
    let mut terms = harness
        .effects
        .iter()
        .filter_map(|effect| if let Effect::Renegotiate(terms) = effect { Some(terms) } else { None });
    let last = terms.next_back().unwrap();
    assert_eq!(serde_json::to_value(last).unwrap()["preferred_verbosity"], "terse");
    assert_eq!(serde_json::to_value(last).unwrap()["more_time"], json!({"factor": 2}));
}

#[test]
fn program_phrases_are_in_the_language_of_the_user() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.listener.profile.languages = vec!["de-AT".parse().unwrap(), "en".parse().unwrap()];
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(2000);
    harness.take_lines();
    harness.enter("y");
    let said: Vec<_> = harness
        .effects
        .iter()
        .filter_map(
            |effect| if let Effect::Speak(said) | Effect::Respond(said) = effect { Some(said.clone()) } else { None },
        )
        .collect();
    assert_eq!(said[0].language, "de");
    assert_eq!(said[0].text, "Frage 1 braucht das ganze Wort. Tippe yes, um zuzustimmen. Nichts wurde gesendet.");
    harness.advance_ms(2000);
    harness.enter("nein 7");
    assert!(contains(&harness.take_lines(), "Nichts wurde gesendet. Es gibt keine Frage 7."));
    harness.enter("nein");
    assert_eq!(harness.answers(), [(1, PromptAnswer::reject())]);
    harness.take_lines();
    harness.enter("repeat 1");
    assert!(contains(&harness.take_lines(), "Frage 1 ist vorbei: du hast sie beantwortet."));
}

#[test]
fn more_time_applies_from_the_next_question_and_the_response_says_so() {
    let mut harness = SessionHarness::new(&["http://a"]);
    harness.ask(0, "rpl_1", "Delete all.");
    harness.advance_ms(10_000);
    harness.enter("more time");
    let lines = harness.take_lines();
    assert!(contains(&lines, "From the next question on, you ask for 2 times the time."), "{lines:?}");
    assert!(contains(&lines, "Question 1 keeps its time, 9 minutes left."), "{lines:?}");
    assert_eq!(harness.answers(), []);
}

#[test]
fn speech_is_paced_while_lines_are_printed_at_once() {
    let mut harness = SessionHarness::new(&["http://a"]);
    let words = |harness: &SessionHarness| -> usize {
        let said =
            |effect: &Effect| if let Effect::Speak(said) = effect { said.text.split_whitespace().count() } else { 0 };
        harness.effects.iter().map(said).sum()
    };
    harness.take_lines();
    harness.event(
        0,
        "session.completed",
        json!({"summary_normal": "Seven words are in this short sentence. ".repeat(40)}),
    );
    assert!((1..=70).contains(&words(&harness)), "{}", words(&harness));
    let lines = harness.take_lines();
    assert_eq!(lines.iter().map(|line| line.matches("Seven words").count()).sum::<usize>(), 40, "{lines:?}");
    harness.ask(0, "rpl_1", "Delete all.");
    assert!(harness.spoke("Delete all.") && harness.spoke("Answer yes or no."));
    let mut rest = 0;
    for _ in 0..30 {
        harness.effects.clear();
        harness.advance_ms(10_000);
        harness.timeout();
        rest +=
            harness.effects.iter().filter(|a| matches!(a, Effect::Speak(u) if u.text.contains("Seven words"))).count();
    }
    assert!(rest >= 4, "{rest}");
    // Who wants silence gets it.
    harness.event(
        0,
        "session.errored",
        json!({"urgency": "critical", "error_category": "unknown", "session_id": "sess_2",
        "summary_normal": "Again and again and again. ".repeat(60)}),
    );
    harness.enter("stop");
    harness.effects.clear();
    harness.advance_ms(60_000);
    harness.timeout();
    assert!(!harness.spoke("Again"));
}

#[test]
fn flood_of_questions_is_bounded_and_none_is_answered() {
    let mut harness = SessionHarness::new(&["http://a"]);
    for n in 0..400 {
        harness.ask(0, &format!("rpl_{n}"), "Delete all.");
        harness.advance_ms(50);
    }
    assert_eq!(harness.answers(), []);
    assert!(harness.listener.questions.open().count() <= 256);
    harness.advance_ms(5000);
    harness.enter("yes");
    assert_eq!(harness.answers(), []);
    // What came first and can be answered was not crowded out, and one that was is told to be over.
    harness.take_lines();
    harness.enter("yes 100");
    assert!(contains(&harness.take_lines(), "Nothing was sent. Question 100 is over"));
    harness.enter("no 1");
    assert_eq!(harness.answers(), [(1, PromptAnswer::reject())]);
}

#[test]
fn large_questions_are_bounded_by_bytes() {
    let mut harness = SessionHarness::new(&["http://a"]);
    for n in 0..60 {
        harness.ask(0, &format!("rpl_{n}"), &"All of this is long. ".repeat(20_000));
        harness.advance_ms(50);
    }
    assert!(harness.listener.questions.open().count() < 30);
    harness.advance_ms(5000);
    harness.effects.clear();
    harness.enter("no 1");
    assert_eq!(harness.answers(), [(1, PromptAnswer::reject())]);
}
