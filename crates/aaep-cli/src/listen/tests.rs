//! The terminal with a producer that only these tests know.

use aaep_announce::{Priority, Profile};
use aaep_client::{Answer, Heard, ReplyError, ReplyRefused};
use aaep_proto::engine::Cx;
use aaep_proto::id::Entropy;
use aaep_proto::message::{Decision, Response};
use aaep_proto::subscriber::{Config, Output, Subscriber};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::{Value, json};

use super::control::Wish;
use super::shown::Act;
use super::terminal::Terminal;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// A terminal, and the rules of a real subscriber before it, without any network.
struct Stage {
    terminal: Terminal,
    subscribers: Vec<Subscriber>,
    millis: u64,
    count: u64,
    /// What was done so far.
    acts: Vec<Act>,
}

impl Stage {
    fn new(addresses: &[&str]) -> Stage {
        let addresses: Vec<String> = addresses.iter().map(|a| (*a).to_owned()).collect();
        let mut stage = Stage {
            terminal: Terminal::new(Profile::default(), &addresses),
            subscribers: Vec::new(),
            millis: 0,
            count: 0,
            acts: Vec::new(),
        };
        for (source, _) in addresses.iter().enumerate() {
            let mut config = Config::new("r", Profile::default().capabilities());
            config.handshake = aaep_proto::subscriber::Handshake::Absent;
            stage.subscribers.push(Subscriber::new(config));
            stage.machine(source, |machine, cx| machine.start(cx));
            stage.machine(source, |machine, cx| machine.connected(cx, false));
        }
        stage
    }

    fn now(&self) -> Moment {
        Moment::from_millis(self.millis)
    }

    fn wait(&mut self, millis: u64) {
        self.millis += millis;
    }

    fn machine<T>(&mut self, source: usize, input: impl FnOnce(&mut Subscriber, &mut Cx<'_>) -> T) -> T {
        let wall = Timestamp::from_millis(1_779_632_531_000 + i64::try_from(self.millis).unwrap());
        let now = Now { moment: self.now(), wall };
        let result = input(&mut self.subscribers[source], &mut Cx { now, entropy: &mut Zeros });
        loop {
            let at = tokio::time::Instant::now();
            let (heard, deadline) = match self.subscribers[source].poll_output() {
                Output::Idle(_) => break,
                Output::Event(event) => (Heard::Event(event), None),
                Output::PromptOpened(prompt) => {
                    let deadline = prompt.deadline;
                    (Heard::PromptOpened(prompt, at), Some(deadline))
                }
                Output::PromptMoved(id, to) => (Heard::PromptMoved(id, at), Some(to)),
                Output::PromptEnded(id, end) => (Heard::PromptEnded(id, end), None),
                Output::Notice(notice) => (Heard::Notice(notice), None),
                _ => continue,
            };
            self.terminal.hear(self.now(), source, heard, deadline);
        }
        self.perform();
        result
    }

    /// Does what the core wants, with the rules of the subscriber for answers.
    fn perform(&mut self) {
        loop {
            let acts = self.terminal.take();
            if acts.is_empty() {
                return;
            }
            for act in acts {
                self.acts.push(act.clone());
                if let Act::Reply { source, id, number, answer } = act {
                    let result = self.machine(source, |machine, cx| machine.reply(cx, id, answer));
                    self.terminal.sent(self.now(), number, result.map_err(ReplyError::Refused));
                }
            }
        }
    }

    fn event(&mut self, source: usize, kind: &str, fields: Value) {
        self.count += 1;
        let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{}", self.count), "session_id": "sess_1",
            "timestamp": Timestamp::from_millis(1_779_632_531_000 + i64::try_from(self.millis).unwrap()).to_string(),
            "producer": {"agent_id": format!("agent{source}"), "agent_name": format!("Agent {source}")},
            "localization_hints": {"primary_language": "en"}});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let bytes = event.to_string();
        self.machine(source, |machine, cx| machine.handle_bytes(cx, bytes.as_bytes()));
    }

    fn ask(&mut self, source: usize, token: &str, action: &str) {
        let fields = json!({"urgency": "critical", "action": action, "consequence": "It is gone.", "reply_token": token,
            "timeout_seconds": 600, "default_decision": "reject", "irreversible": true, "risk_level": "high"});
        self.event(source, "awaiting.confirmation", fields);
    }

    fn ask_lightly(&mut self, token: &str) {
        let fields = json!({"urgency": "critical", "action": "Sort.", "consequence": "Sorted.", "reply_token": token,
            "timeout_seconds": 600, "default_decision": "accept", "irreversible": false, "risk_level": "low"});
        self.event(0, "awaiting.confirmation", fields);
    }

    fn line(&mut self, line: &str) {
        self.terminal.line(self.now(), line);
        self.perform();
    }

    /// The lines since the last look.
    fn lines(&mut self) -> Vec<String> {
        let shown = |act: &Act| if let Act::Show(shown) = act { Some(shown.line()) } else { None };
        let lines = self.acts.iter().filter_map(shown).collect();
        self.acts.clear();
        lines
    }

    /// The answers since the last look.
    fn answers(&self) -> Vec<(u32, Answer)> {
        let reply = |act: &Act| {
            if let Act::Reply { number, answer, .. } = act { Some((*number, answer.clone())) } else { None }
        };
        self.acts.iter().filter_map(reply).collect()
    }
}

fn has(lines: &[String], part: &str) -> bool {
    lines.iter().any(|line| line.contains(part))
}

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
    assert_eq!(stage.answers(), [(1, Answer::accept())]);
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
    assert_eq!(stage.answers(), [(1, Answer::reject())], "saying no is never dangerous");
    stage.lines();
    stage.ask_lightly("rpl_2");
    stage.wait(2000);
    stage.line("y");
    assert_eq!(stage.answers(), [(2, Answer::accept())]);
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
    assert_eq!(stage.answers(), [(1, Answer::accept())]);
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
    assert_eq!(stage.answers(), [(2, Answer::accept())]);
}

#[test]
fn an_answer_to_a_question_settled_elsewhere_goes_nowhere() {
    let mut stage = Stage::new(&["http://a"]);
    stage.event(0, "state.changed", json!({"from_state": "idle", "to_state": "awaiting_input"}));
    stage.ask(0, "rpl_1", "Delete all.");
    stage.wait(5000);
    stage.event(0, "state.changed", json!({"from_state": "awaiting_input", "to_state": "thinking"}));
    assert!(stage.acts.contains(&Act::Unsay("0/rpl_1".into())), "stale speech is taken back");
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
    assert_eq!(stage.answers(), [(2, Answer::reject())]);
    stage.lines();
    stage.line("yes");
    assert_eq!(stage.answers(), [], "what was in mind is settled, so the other is put first");
    assert!(has(&stage.lines(), "Question 1: Agent 0 asks: Paint it red."));
    stage.wait(1000);
    stage.line("yes");
    assert_eq!(stage.answers(), [(1, Answer::accept())]);
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
        assert_eq!(stage.answers(), [(number as u32 + 1, Answer::response(response))], "{kind}");
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
    let said: Vec<_> =
        stage.acts.iter().filter_map(|act| if let Act::Say(said) = act { Some(said.clone()) } else { None }).collect();
    let question: Vec<_> = said.iter().filter(|said| said.about.as_deref() == Some("0/rpl_1")).collect();
    assert_eq!(question[0].priority, Priority::Important);
    assert!(question[1..].iter().all(|said| said.priority == Priority::Message), "{question:?}");
    let question = stage.acts.iter().position(|act| matches!(act, Act::Sound(_)));
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
    assert_eq!(stage.answers(), [(1, Answer::accept())]);
    stage.lines();
    stage.ask_lightly("rpl_2");
    let now = stage.now();
    assert!(!stage.terminal.request(now, &Wish::Accept { number: None }).ok, "it came only just");
    stage.wait(1000);
    let now = stage.now();
    assert!(stage.terminal.request(now, &Wish::Accept { number: None }).ok);
    stage.perform();
    assert_eq!(stage.answers(), [(2, Answer::accept())]);
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
        let expected = sent.map(|decision| Answer::Decision { decision, rationale: None, modified_action: None });
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
    let Some(Act::Reply { number, .. }) = stage.terminal.take().into_iter().find(|a| matches!(a, Act::Reply { .. }))
    else {
        panic!("no answer was sent")
    };
    stage.terminal.sent(now, number, Err(ReplyError::Refused(ReplyRefused::NotConnected)));
    stage.perform();
    assert!(has(&stage.lines(), "Nothing was sent to question 1. "));
    stage.wait(2000);
    stage.line("yes");
    assert_eq!(stage.answers(), [(1, Answer::accept())]);
}

#[test]
fn leaving_with_a_letter_asks_first_if_a_question_waits() {
    let mut stage = Stage::new(&["http://a"]);
    stage.ask(0, "rpl_1", "Delete all.");
    stage.line("q");
    assert!(!stage.acts.contains(&Act::Leave));
    stage.line("close");
    assert!(stage.acts.contains(&Act::Leave));
}

#[test]
fn hearing_less_and_more_changes_the_terms() {
    let mut stage = Stage::new(&["http://a"]);
    stage.line("terser");
    stage.line("more time");
    let mut terms =
        stage.acts.iter().filter_map(|act| if let Act::Renegotiate(terms) = act { Some(terms) } else { None });
    let last = terms.next_back().unwrap();
    assert_eq!(serde_json::to_value(last).unwrap()["preferred_verbosity"], "terse");
    assert_eq!(serde_json::to_value(last).unwrap()["more_time"], json!({"factor": 2}));
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
        let said = |act: &Act| if let Act::Say(said) = act { said.text.split_whitespace().count() } else { 0 };
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
    let says = |stage: &Stage, part: &str| stage.acts.iter().any(|a| matches!(a, Act::Say(u) if u.text.contains(part)));
    assert!(says(&stage, "Delete all.") && says(&stage, "Answer yes or no."));
    let mut rest = 0;
    for _ in 0..30 {
        stage.acts.clear();
        stage.wait(10_000);
        let now = stage.now();
        stage.terminal.tick(now);
        stage.perform();
        rest += stage.acts.iter().filter(|a| matches!(a, Act::Say(u) if u.text.contains("Seven words"))).count();
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
    assert_eq!(stage.answers(), [(1, Answer::reject())]);
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
    assert_eq!(stage.answers(), [(1, Answer::reject())]);
}
