//! What the terminal does with what is heard and typed.

use aaep_announce::Priority;
use aaep_client::{PromptAnswer, PromptReplyError, ReplyError};
use aaep_proto::message::{Decision, Response};
use serde_json::json;

use super::control::Wish;
use super::line::Effect;
use super::test_support::{Stage, has};

#[test]
fn a_question_is_put_whole_and_answered_once() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Move $500 to savings.");
    let lines = stage.lines();
    assert!(has(&lines, "Question 1: Agent 0 asks: Move $500 to savings."), "{lines:?}");
    assert!(has(&lines, "Question 1: It is gone."), "{lines:?}");
    assert!(has(&lines, "Question 1: This cannot be undone. High risk."), "{lines:?}");
    assert!(has(&lines, "Answer yes or no."), "{lines:?}");
    stage.wait(2000);
    stage.line("yes");
    assert_eq!(stage.answers(), [(1, PromptAnswer::accept())]);
    let lines = stage.lines();
    assert!(has(&lines, "Answer 1: Your answer was sent."), "{lines:?}");
    stage.line("yes");
    assert_eq!(stage.answers(), []);
    assert!(has(&stage.lines(), "Nothing waits for an answer. Nothing was sent."));
}

#[test]
fn what_cannot_be_undone_needs_the_whole_word() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(2000);
    for letter in ["y", "a"] {
        stage.line(letter);
        assert_eq!(stage.answers(), []);
        assert!(has(&stage.lines(), "Type yes to accept. Nothing was sent."));
        stage.wait(2000);
    }
    stage.line("n");
    assert_eq!(stage.answers(), [(1, PromptAnswer::reject())], "saying no is never dangerous");
    stage.lines();
    stage.ask_lightly("rpl_2");
    stage.wait(2000);
    stage.line("y");
    assert_eq!(stage.answers(), [(2, PromptAnswer::accept())]);
}

#[test]
fn an_answer_that_came_with_a_new_question_goes_nowhere() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(300);
    stage.line("yes");
    assert_eq!(stage.answers(), []);
    let lines = stage.lines();
    assert!(has(&lines, "Nothing was sent, because this question came just as you answered."), "{lines:?}");
    assert!(has(&lines, "Question 1: Agent 0 asks: Delete all."), "it is put again: {lines:?}");
    stage.wait(1000);
    stage.line("yes");
    assert_eq!(stage.answers(), [(1, PromptAnswer::accept())]);
}

#[test]
fn a_question_replaced_while_it_is_read_is_not_answered_by_the_old_yes() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Rename one file.");
    stage.wait(5000);
    stage.ask(0, "rpl_1", "Delete everything.");
    let lines = stage.lines();
    assert!(has(&lines, "Question 1 is over, because another question took its place."), "{lines:?}");
    assert!(has(&lines, "Question 2: Agent 0 asks: Delete everything."), "{lines:?}");
    stage.wait(1500);
    stage.line("yes");
    assert_eq!(stage.answers(), [], "the user may have had the first in mind");
    assert!(has(&stage.lines(), "Nothing was sent"));
    stage.line("yes 1");
    assert!(has(&stage.lines(), "Question 1 is over: another question took its place."));
    stage.wait(4000);
    stage.line("yes");
    assert_eq!(stage.answers(), [(2, PromptAnswer::accept())]);
}

#[test]
fn an_answer_to_a_question_settled_elsewhere_goes_nowhere() {
    let mut stage = Stage::new(&["http://a"]);
    stage.event(0, "state.changed", json!({"from_state": "idle", "to_state": "awaiting_input"}));
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(5000);
    stage.event(0, "state.changed", json!({"from_state": "awaiting_input", "to_state": "thinking"}));
    assert!(stage.acts.contains(&Effect::Unsay("0/rpl_1".into())), "stale speech is taken back");
    assert!(has(&stage.lines(), "The question was answered elsewhere."));
    stage.line("yes");
    assert_eq!(stage.answers(), []);
    assert!(has(&stage.lines(), "Nothing was sent. Question 1 is over: it was settled elsewhere."));
}

#[test]
fn an_answer_after_the_time_goes_nowhere() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(601_000);
    stage.line("yes");
    let lines = stage.lines();
    assert!(has(&lines, "Nothing was sent to question 1. "), "{lines:?}");
    stage.line("yes");
    assert_eq!(stage.answers(), []);
}

#[test]
fn with_several_questions_the_number_decides() {
    let mut stage = Stage::new(&["http://a", "http://b"]);
    stage.ask(0, "rpl_1", "Paint it red.");
    // The same token from someone else is another question.
    stage.ask(1, "rpl_1", "Paint it blue.");
    stage.wait(5000);
    stage.lines();
    stage.line("yes");
    assert_eq!(stage.answers(), []);
    let lines = stage.lines();
    assert!(has(&lines, "more than one question waits"), "{lines:?}");
    assert!(has(&lines, "Question 1: Agent 0 asks: Paint it red.") && has(&lines, "Question 2: "), "{lines:?}");
    stage.line("no 2");
    assert_eq!(stage.answers(), [(2, PromptAnswer::reject())]);
    stage.lines();
    stage.line("yes");
    assert_eq!(stage.answers(), [], "what was in mind is settled, so the other is put first");
    assert!(has(&stage.lines(), "Question 1: Agent 0 asks: Paint it red."));
    stage.wait(1000);
    stage.line("yes");
    assert_eq!(stage.answers(), [(1, PromptAnswer::accept())]);
}

#[test]
fn clarifications_take_numbers_choices_and_words() {
    let mut stage = Stage::new(&["http://a"]);
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
        stage.event(0, "awaiting.clarification", question(&format!("rpl_{number}"), kind));
        stage.wait(5000);
        stage.acts.clear();
        stage.line(line);
        assert_eq!(stage.answers(), [(number as u32 + 1, PromptAnswer::response(response))], "{kind}");
    }
}

#[test]
fn what_is_no_command_is_never_an_answer_to_a_confirmation() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(5000);
    for line in ["yess", "sure go ahead", "ok", "1", "yes 7", "", "repeat", "details", "waiting"] {
        stage.line(line);
        assert_eq!(stage.answers(), [], "{line:?}");
    }
    let lines = stage.lines();
    assert!(has(&lines, "Not understood, and nothing was sent."), "{lines:?}");
    assert!(has(&lines, "There is no question 7."), "{lines:?}");
    assert!(has(&lines, "Reply: Action: Delete all."), "{lines:?}");
}

#[test]
fn hidden_marks_in_a_question_are_told_and_cannot_reach_the_terminal() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Pay \u{202e}001\u{202c} to b\u{0430}nk.\u{1b}[2J\nQuestion 9: harmless");
    let lines = stage.lines();
    assert!(has(&lines, "Warning: this text has a character that changes its order, U+202E."), "{lines:?}");
    stage.line("details");
    for line in lines.iter().chain(&stage.lines()) {
        assert!(!line.contains(['\u{202e}', '\u{1b}', '\n']), "{line:?}");
    }
}

#[test]
fn a_muted_agent_is_heard_only_when_it_matters() {
    let mut stage = Stage::new(&["http://a"]);
    stage.event(0, "session.started", json!({"summary_normal": "Begins."}));
    assert!(has(&stage.lines(), "Start: Begins."));
    stage.line("mute");
    stage.lines();
    stage.event(0, "tool.invoked", json!({"tool": "t", "summary_normal": "Using a tool."}));
    assert_eq!(stage.lines(), Vec::<String>::new());
    stage.ask(0, "rpl_1", "Delete all.");
    assert!(has(&stage.lines(), "asks: Delete all."));
    stage.line("prev tool");
    assert!(has(&stage.lines(), "Tool: Using a tool."), "it can be walked to");
    stage.line("unmute Agent 0");
    stage.wait(100);
    stage.event(0, "tool.completed", json!({"tool": "t", "status": "success", "summary_normal": "Tool done."}));
    assert!(has(&stage.lines(), "Tool: Tool done."));
}

#[test]
fn the_headline_is_important_and_the_rest_is_not() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    let said: Vec<_> = stage
        .acts
        .iter()
        .filter_map(|act| if let Effect::Say(said) = act { Some(said.clone()) } else { None })
        .collect();
    let question: Vec<_> = said.iter().filter(|said| said.about.as_deref() == Some("0/rpl_1")).collect();
    assert_eq!(question[0].priority, Priority::Important);
    assert!(question[1..].iter().all(|said| said.priority == Priority::Message), "{question:?}");
    let question = stage.acts.iter().position(|act| matches!(act, Effect::Sound(_)));
    assert!(question.is_some(), "a sound goes with it");
}

#[test]
fn other_windows_answer_by_number_and_lightly_without() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(5000);
    let now = stage.now();
    let pending = stage.terminal.request(now, &Wish::Pending);
    assert_eq!((pending.ok, pending.questions.len()), (true, 1));
    assert_eq!(pending.questions[0]["number"], 1);
    let refused = stage.terminal.request(now, &Wish::Accept { number: None });
    assert!(!refused.ok && refused.text.contains("name its number"), "{refused:?}");
    assert!(!stage.terminal.request(now, &Wish::Accept { number: Some(2) }).ok);
    assert!(!stage.terminal.request(now, &Wish::Answer { number: Some(1), text: "maybe".into() }).ok);
    assert!(stage.terminal.request(now, &Wish::Accept { number: Some(1) }).ok);
    assert!(!stage.terminal.request(now, &Wish::Reject { number: Some(1) }).ok, "an answer is on its way");
    stage.perform();
    assert_eq!(stage.answers(), [(1, PromptAnswer::accept())]);
    stage.lines();
    stage.ask_lightly("rpl_2");
    let now = stage.now();
    assert!(!stage.terminal.request(now, &Wish::Accept { number: None }).ok, "it came only just");
    stage.wait(1000);
    let now = stage.now();
    assert!(stage.terminal.request(now, &Wish::Accept { number: None }).ok);
    stage.perform();
    assert_eq!(stage.answers(), [(2, PromptAnswer::accept())]);
}

#[test]
fn the_users_command_answers_or_leaves_it_to_them() {
    let mut stage = Stage::new(&["http://a"]);
    for (token, answer, sent) in [
        ("rpl_1", Ok("accept"), Some(Decision::Accept)),
        ("rpl_2", Ok("reject"), Some(Decision::Reject)),
        ("rpl_3", Ok("yes please"), None),
        ("rpl_4", Ok(""), None),
        ("rpl_5", Err("it took too long"), None),
    ] {
        stage.ask(0, token, "Delete all.");
        stage.acts.clear();
        let number = stage.terminal.questions.open().last().unwrap().number;
        let now = stage.now();
        stage.terminal.command_answered(now, number, answer.map(str::to_owned).map_err(str::to_owned));
        stage.perform();
        let expected = sent.map(|decision| PromptAnswer::Decision { decision, rationale: None, modified_action: None });
        assert_eq!(
            stage.answers(),
            expected.map(|answer| (number, answer)).into_iter().collect::<Vec<_>>(),
            "{answer:?}"
        );
        if stage.answers().is_empty() {
            assert!(has(&stage.lines(), "It still waits for you."), "{answer:?}");
        }
    }
}

#[test]
fn an_answer_that_cannot_be_sent_leaves_the_question_open() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(2000);
    let now = stage.now();
    stage.terminal.line(now, "yes");
    let Some(Effect::Reply { number, .. }) =
        stage.terminal.take().into_iter().find(|a| matches!(a, Effect::Reply { .. }))
    else {
        panic!("no answer was sent")
    };
    stage.terminal.sent(now, number, Err(ReplyError::Refused(PromptReplyError::NotConnected)));
    stage.perform();
    assert!(has(&stage.lines(), "Nothing was sent to question 1. "));
    stage.wait(2000);
    stage.line("yes");
    assert_eq!(stage.answers(), [(1, PromptAnswer::accept())]);
}

#[test]
fn leaving_with_a_letter_asks_first_if_a_question_waits() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.line("q");
    assert!(!stage.acts.contains(&Effect::Leave));
    stage.line("close");
    assert!(stage.acts.contains(&Effect::Leave));
}

#[test]
fn hearing_less_and_more_changes_the_terms() {
    let mut stage = Stage::new(&["http://a"]);
    stage.line("terser");
    stage.line("more time");
    let mut terms =
        stage.acts.iter().filter_map(|act| if let Effect::Renegotiate(terms) = act { Some(terms) } else { None });
    let last = terms.next_back().unwrap();
    assert_eq!(serde_json::to_value(last).unwrap()["preferred_verbosity"], "terse");
    assert_eq!(serde_json::to_value(last).unwrap()["more_time"], json!({"factor": 2}));
}

#[test]
fn the_terminal_speaks_the_language_of_its_user() {
    let mut stage = Stage::new(&["http://a"]);
    stage.terminal.profile.languages = vec!["de-AT".parse().unwrap(), "en".parse().unwrap()];
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(2000);
    stage.lines();
    stage.line("y");
    let said: Vec<_> = stage
        .acts
        .iter()
        .filter_map(|act| if let Effect::Say(said) = act { Some(said.clone()) } else { None })
        .collect();
    assert_eq!(said[0].language, "de");
    assert_eq!(said[0].text, "Frage 1 braucht das ganze Wort. Tippe yes, um zuzustimmen. Nichts wurde gesendet.");
    stage.wait(2000);
    stage.line("nein 7");
    assert!(has(&stage.lines(), "Nichts wurde gesendet. Es gibt keine Frage 7."));
    stage.line("nein");
    assert_eq!(stage.answers(), [(1, PromptAnswer::reject())]);
    stage.lines();
    stage.line("repeat 1");
    assert!(has(&stage.lines(), "Frage 1 ist vorbei: du hast sie beantwortet."));
}

#[test]
fn more_time_counts_from_the_next_question_and_says_so() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(10_000);
    stage.line("more time");
    let lines = stage.lines();
    assert!(has(&lines, "From the next question on, you ask for 2 times the time."), "{lines:?}");
    assert!(has(&lines, "Question 1 keeps its time, 9 minutes left."), "{lines:?}");
    assert_eq!(stage.answers(), []);
}

#[test]
fn speech_does_not_run_ahead_while_lines_are_shown_at_once() {
    let mut stage = Stage::new(&["http://a"]);
    let words = |stage: &Stage| -> usize {
        let said = |act: &Effect| if let Effect::Say(said) = act { said.text.split_whitespace().count() } else { 0 };
        stage.acts.iter().map(said).sum()
    };
    stage.lines();
    stage.event(
        0,
        "session.completed",
        json!({"summary_normal": "Seven words are in this short sentence. ".repeat(40)}),
    );
    assert!((1..=70).contains(&words(&stage)), "{}", words(&stage));
    let lines = stage.lines();
    assert_eq!(lines.iter().map(|line| line.matches("Seven words").count()).sum::<usize>(), 40, "{lines:?}");
    stage.ask(0, "rpl_1", "Delete all.");
    let says =
        |stage: &Stage, part: &str| stage.acts.iter().any(|a| matches!(a, Effect::Say(u) if u.text.contains(part)));
    assert!(says(&stage, "Delete all.") && says(&stage, "Answer yes or no."));
    let mut rest = 0;
    for _ in 0..30 {
        stage.acts.clear();
        stage.wait(10_000);
        let now = stage.now();
        stage.terminal.tick(now);
        stage.perform();
        rest += stage.acts.iter().filter(|a| matches!(a, Effect::Say(u) if u.text.contains("Seven words"))).count();
    }
    assert!(rest >= 4, "{rest}");
    // Who wants silence gets it.
    stage.event(
        0,
        "session.errored",
        json!({"urgency": "critical", "error_category": "unknown", "session_id": "sess_2",
        "summary_normal": "Again and again and again. ".repeat(60)}),
    );
    stage.line("stop");
    stage.acts.clear();
    stage.wait(60_000);
    let now = stage.now();
    stage.terminal.tick(now);
    stage.perform();
    assert!(!says(&stage, "Again"));
}

#[test]
fn a_flood_of_questions_is_bounded_and_none_is_answered() {
    let mut stage = Stage::new(&["http://a"]);
    for n in 0..400 {
        stage.ask(0, &format!("rpl_{n}"), "Delete all.");
        stage.wait(50);
    }
    assert_eq!(stage.answers(), []);
    assert!(stage.terminal.questions.open().count() <= 256);
    stage.wait(5000);
    stage.line("yes");
    assert_eq!(stage.answers(), []);
    // What came first and can be answered was not crowded out, and one that was is told to be over.
    stage.lines();
    stage.line("yes 100");
    assert!(has(&stage.lines(), "Nothing was sent. Question 100 is over"));
    stage.line("no 1");
    assert_eq!(stage.answers(), [(1, PromptAnswer::reject())]);
}

#[test]
fn large_questions_are_not_all_kept() {
    let mut stage = Stage::new(&["http://a"]);
    for n in 0..60 {
        stage.ask(0, &format!("rpl_{n}"), &"All of this is long. ".repeat(20_000));
        stage.wait(50);
    }
    assert!(stage.terminal.questions.open().count() < 30);
    stage.wait(5000);
    stage.acts.clear();
    stage.line("no 1");
    assert_eq!(stage.answers(), [(1, PromptAnswer::reject())]);
}
