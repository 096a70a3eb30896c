use serde_json::{Value, json};

use super::*;
use crate::profile::SubscriberKind;

/// An announcer with a clock that tests advance.
struct AnnouncerHarness {
    announcer: Announcer,
    seconds: u64,
    count: u64,
}

impl AnnouncerHarness {
    fn new(profile: Profile) -> AnnouncerHarness {
        AnnouncerHarness { announcer: Announcer::new(profile), seconds: 0, count: 0 }
    }

    fn now(&self) -> Moment {
        Moment::default().plus_seconds(self.seconds)
    }

    fn announce_from(&mut self, agent: &str, kind: &str, fields: Value) -> Vec<Utterance> {
        self.count += 1;
        let mut value = json!({"@context": "https://aaep-protocol.org/context/v1", "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{}", self.count), "session_id": format!("sess_{agent}"),
            "timestamp": "2026-05-24T14:22:11Z", "producer": {"agent_id": agent, "agent_name": agent},
            "localization_hints": {"primary_language": "en"}});
        value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let event: Event = serde_json::from_value(value).unwrap();
        let now = self.now();
        self.announcer.announce(now, &event)
    }

    fn announce(&mut self, kind: &str, fields: Value) -> Vec<Utterance> {
        self.announce_from("Bank", kind, fields)
    }

    /// Advances the clock, handles every deadline, and returns the announcements with their times.
    fn advance(&mut self, seconds: u64) -> Vec<(u64, String)> {
        let end = self.seconds + seconds;
        let mut said = Vec::new();
        let mut timeouts = 0;
        while let Some(due) = self.announcer.next_deadline() {
            let due = due.micros().div_ceil(1_000_000);
            if due > end {
                break;
            }
            self.seconds = self.seconds.max(due);
            let now = self.now();
            said.extend(self.announcer.handle_timeout(now).into_iter().map(|u| (self.seconds, u.text)));
            timeouts += 1;
            assert!(timeouts < 1000, "a deadline that does not go away");
        }
        self.seconds = end;
        said
    }
}

fn harness() -> AnnouncerHarness {
    AnnouncerHarness::new(Profile::default())
}

fn texts(said: &[Utterance]) -> Vec<&str> {
    said.iter().map(|u| u.text.as_str()).collect()
}

fn transfer() -> Value {
    json!({"action": "Move $500.00 from savings to checking.", "consequence": "You will have $20.00 in savings.",
        "reply_token": "rpl_1", "timeout_seconds": 120, "default_decision": "reject", "risk_level": "high",
        "irreversible": true, "urgency": "critical"})
}

#[test]
fn confirmation_is_a_headline_followed_by_all_details() {
    let said = harness().announce("awaiting.confirmation", transfer());
    assert_eq!(
        texts(&said),
        [
            "Bank asks: Move $500.00 from savings to checking.",
            "You will have $20.00 in savings.",
            "This cannot be undone. High risk.",
            "You have 2 minutes to answer. Without an answer it will not be done. Answer yes or no.",
        ]
    );
    let headline = &said[0];
    assert_eq!((headline.priority, headline.interrupts), (Priority::Important, true));
    assert_eq!((headline.earcon, headline.about.as_deref()), (Some(Earcon::Prompt), Some("rpl_1")));
    assert!(said[1..].iter().all(|u| u.priority == Priority::Message && !u.interrupts));
    assert!(said.iter().all(|u| u.about.as_deref() == Some("rpl_1") && u.language == "en"));
}

#[test]
fn long_action_is_shortened_in_the_headline_and_then_announced_in_full() {
    let mut question = transfer();
    question["action"] = json!(format!("Delete {} now", "/home/ada/a_file.txt and ".repeat(20)));
    let said = harness().announce("awaiting.confirmation", question);
    assert!(said[0].text.chars().count() < 200 && said[0].text.ends_with('…'), "{}", said[0].text);
    let whole: Vec<&str> = said[1..].iter().map(|part| part.text.trim_end_matches('…')).collect();
    assert_eq!(whole.join(" ").matches("slash home slash ada slash a underscore file dot txt").count(), 20);
    assert!(said.iter().all(|part| spoken_words(&part.text) <= 60));
}

#[test]
fn hidden_characters_in_a_question_are_announced_before_its_details() {
    let mut question = transfer();
    question["action"] = json!("Pay p\u{430}ypal \u{200B}now\u{202E}");
    let said = harness().announce("awaiting.confirmation", question);
    assert_eq!(
        texts(&said)[..4],
        [
            "Bank asks: Pay p\u{430}ypal now.",
            "Warning: this text has a hidden character, U+200B.",
            "Warning: this text has a character that changes its order, U+202E.",
            "Warning: the word p\u{430}ypal has letters that only look like others: letter 2 is U+0430.",
        ]
    );
}

#[test]
fn reversibility_is_announced_only_if_the_agent_stated_it() {
    let heard = |stated: Option<bool>| {
        let mut question = transfer();
        match stated {
            Some(stated) => question["irreversible"] = json!(stated),
            None => drop(question.as_object_mut().unwrap().remove("irreversible")),
        }
        texts(&harness().announce("awaiting.confirmation", question))[2].to_owned()
    };
    assert_eq!(heard(Some(true)), "This cannot be undone. High risk.");
    assert_eq!(heard(Some(false)), "This can be undone. High risk.");
    assert_eq!(heard(None), "High risk.");
}

#[test]
fn context_and_reversibility_are_announced() {
    let mut question = transfer();
    question["irreversible"] = json!(false);
    question["reversibility"] = json!("reversible_with_effort");
    question["risk_level"] = json!("low");
    question["default_decision"] = json!("accept");
    question["extra_context"] = json!({"to_account": "12345678", "fee": 2, "nested": {"x": 1}});
    let said = harness().announce("awaiting.confirmation", question.clone());
    assert_eq!(texts(&said)[2], "This can be undone with effort. Low risk.");
    assert_eq!(texts(&said)[3], "fee: 2. to account: 123 456 78.");
    assert!(texts(&said)[4].contains("Without an answer it will be done."));
    let voice = AnnouncerHarness::new(Profile::preset(SubscriberKind::VoiceControl))
        .announce("awaiting.confirmation", question.clone());
    assert!(voice.last().unwrap().text.ends_with("Say yes or no."));
    let captions =
        AnnouncerHarness::new(Profile::preset(SubscriberKind::Captions)).announce("awaiting.confirmation", question);
    assert!(captions.last().unwrap().text.ends_with("it will be done."));
}

#[test]
fn every_kind_of_clarification_says_how_to_answer() {
    let ask = |fields: Value| {
        let mut question =
            json!({"question": "Which one?", "reply_token": "rpl_2", "timeout_seconds": 90, "urgency": "critical"});
        question.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        harness().announce("awaiting.clarification", question)
    };
    let time = "You have 90 seconds to answer.";
    for (kind, how) in [
        ("freetext", "Answer in your own words."),
        ("yes_no", "Answer yes or no."),
        ("numeric", "Answer with a number."),
    ] {
        let said = ask(json!({"accepted_response_kinds": [kind]}));
        let terms = format!("{time} Without an answer the agent goes on without it. {how}");
        assert_eq!(texts(&said), ["Bank asks: Which one?", terms.as_str()]);
    }
    let choices = json!([{"value": "in", "label": "Inbox"}, {"value": "old", "label": "Old mail"}]);
    let said = ask(json!({"accepted_response_kinds": ["multiple_choice", "freetext"], "choices": choices,
        "context": "Two folders fit.", "default_response": "in"}));
    assert_eq!(
        texts(&said),
        [
            "Bank asks: Which one?",
            "Two folders fit.",
            "There are 2 choices. 1: Inbox. 2: Old mail.",
            "You have 90 seconds to answer. Without an answer this is assumed: Inbox. Answer with the number of your \
             choice. Answer in your own words.",
        ]
    );
}

#[test]
fn repeated_question_is_announced_again_only_after_a_lost_connection() {
    let mut harness = harness();
    harness.announce("awaiting.confirmation", transfer());
    assert!(harness.announce("awaiting.confirmation", transfer()).is_empty());
    let lost =
        harness.announcer.connection_notice(harness.now(), &ConnectionNotice::ConnectionLost { agent: "Bank".into() });
    assert_eq!(texts(&lost), ["The connection to Bank is lost."]);
    let ended =
        harness.announcer.connection_notice(harness.now(), &ConnectionNotice::ConnectionEnded { agent: "Bank".into() });
    assert_eq!(
        (texts(&ended), ended[0].earcon),
        (vec!["Bank has ended the connection. You will be told when it is back."], None),
        "nothing to worry about"
    );
    harness.announcer.connection_notice(harness.now(), &ConnectionNotice::ConnectionBack { agent: "Bank".into() });
    let again = harness.announce("awaiting.confirmation", transfer());
    assert_eq!(texts(&again), ["Bank still asks: Move $500.00 from savings to checking."]);
}

#[test]
fn resolution_is_announced_once_in_the_users_language() {
    let outcome = |outcome: &str| {
        json!({"from_state": "awaiting_input", "to_state": "thinking", "summary_normal": "Rejected. It will not be done.",
            "extensions": {"consent": {"reply_token": "rpl_1", "outcome": outcome}}})
    };
    let mut harness = harness();
    harness.announce("awaiting.confirmation", transfer());
    assert_eq!(texts(&harness.announce("state.changed", outcome("rejected"))), ["Rejected. It will not be done."]);
    assert_eq!(texts(&harness.announcer.open_questions(harness.now())), ["Nothing waits for your answer."]);
    let german = Profile { languages: vec!["de".parse().unwrap()], ..Profile::default() };
    let mut harness = AnnouncerHarness::new(german);
    harness.announce("awaiting.confirmation", transfer());
    let said = harness.announce("state.changed", outcome("timed_out"));
    assert_eq!(texts(&said), ["Keine Antwort kam rechtzeitig. Es wird nicht getan."]);
    assert_eq!(said[0].language, "de");
}

#[test]
fn subscriber_side_can_resolve_a_question() {
    for (how, text) in [
        (PromptResolution::Answered("no".into()), "Sent: no."),
        (PromptResolution::AnsweredElsewhere, "The question was answered elsewhere."),
        (PromptResolution::TimedOut, "No answer came in time. It will not be done."),
        (PromptResolution::Withdrawn, "The question was withdrawn."),
    ] {
        let mut harness = harness();
        harness.announce("awaiting.confirmation", transfer());
        let (now, token) = (harness.now(), "rpl_1".parse().unwrap());
        assert_eq!(texts(&harness.announcer.prompt_ended(now, &token, how.clone())), [text]);
        assert!(harness.announcer.prompt_ended(now, &token, how).is_empty());
    }
}

#[test]
fn question_has_reminders_and_its_timeout_is_announced_without_the_agent() {
    let mut harness = harness();
    harness.announce("awaiting.confirmation", transfer());
    let said = harness.advance(140);
    let expected = [
        (60, "Your answer is still needed. 1 minute left.".to_owned()),
        (130, "No answer came in time. It will not be done.".to_owned()),
    ];
    assert_eq!(said, expected);
}

#[test]
fn completed_errored_and_cancelled_sessions_sound_different() {
    let done = harness().announce("session.completed", json!({"summary_normal": "Your plan is ready."}));
    assert_eq!((texts(&done), done[0].earcon), (vec!["Done. Your plan is ready."], Some(Earcon::Completed)));
    let failed = harness().announce(
        "session.errored",
        json!({"summary_normal": "The bank does not answer.", "error_category": "transient",
            "remediation_hint": "Check your network.", "urgency": "critical"}),
    );
    assert_eq!(
        texts(&failed),
        ["Failed: The bank does not answer.", "What you can do: Check your network.", "Trying again may help."]
    );
    assert_eq!((failed[0].priority, failed[0].interrupts), (Priority::Important, true));
    assert_eq!(failed[0].earcon, Some(Earcon::Failed));
    let cancelled = harness().announce(
        "session.cancelled",
        json!({"summary_normal": "You pressed escape.", "cancelled_by": "user", "partial_result": "Two of three files."}),
    );
    assert_eq!(texts(&cancelled), ["Cancelled by you. You pressed escape.", "Before that: Two of three files."]);
    assert_eq!(cancelled[0].earcon, Some(Earcon::Cancelled));
}

#[test]
fn summary_equal_to_the_last_announcement_is_not_repeated() {
    let mut harness = harness();
    harness.announce("tool.completed", json!({"tool": "a", "status": "success", "summary_normal": "All is well."}));
    assert_eq!(texts(&harness.announce("session.completed", json!({"summary_normal": "All is well."}))), ["Done."]);
    let mut harness = self::harness();
    let state = || json!({"from_state": "idle", "to_state": "thinking", "summary_normal": "Thinking about it."});
    assert_eq!(harness.announce("state.changed", state()).len(), 1);
    assert_eq!(harness.announce("state.changed", state()).len(), 0);
}

#[test]
fn handoff_names_the_target() {
    let said = harness().announce(
        "handoff.requested",
        json!({"reason": "I may not sign this.", "target_kind": "human", "summary_normal": "Ada will call you.",
            "urgency_for_handoff": "high", "urgency": "critical"}),
    );
    assert_eq!(
        texts(&said),
        ["Bank hands over to a person: I may not sign this.", "Ada will call you.", "It is urgent."]
    );
    assert_eq!((said[0].priority, said[0].interrupts), (Priority::Important, true));
}

#[test]
fn agents_are_named_if_several_are_at_work() {
    let mut harness = harness();
    assert_eq!(
        texts(&harness.announce_from("Bank", "session.started", json!({"summary_normal": "Paying."}))),
        ["Paying."]
    );
    let said = harness.announce_from("Post", "session.started", json!({"summary_normal": "Sending."}));
    assert_eq!(texts(&said), ["Post: Sending."]);
    let said = harness.announce_from("Bank", "tool.invoked", json!({"tool": "t", "summary_normal": "Looking."}));
    assert_eq!(texts(&said), ["Bank: Looking."]);
    let said = harness.announce_from("Post", "session.completed", json!({"summary_normal": "Sent."}));
    assert_eq!(texts(&said), ["Post: Done. Sent."]);
    let said = harness.announce_from("Bank", "session.completed", json!({"summary_normal": "Paid."}));
    assert_eq!(texts(&said), ["Done. Paid."]);
}

#[test]
fn relayed_agents_are_introduced_once_in_each_session() {
    let mut harness = harness();
    harness.announcer.set_serving_agent("Server");
    let said = harness.announce("session.started", json!({"summary_normal": "Paying."}));
    assert_eq!((texts(&said), said[0].agent.as_deref()), (vec!["Bank: Paying."], Some("Bank")));
    let said = harness.announce("tool.invoked", json!({"tool": "t", "summary_normal": "Looking."}));
    assert_eq!((texts(&said), said[0].agent.as_deref()), (vec!["Looking."], Some("Bank")));
    harness.announce("session.completed", json!({"summary_normal": "Paid."}));
    let said = harness.announce("session.started", json!({"summary_normal": "Again."}));
    assert_eq!(texts(&said), ["Bank: Again."]);
    let said =
        harness.announce_from("Server", "session.started", json!({"session_id": "sess_s", "summary_normal": "Up."}));
    assert_eq!(texts(&said), ["Server: Up."], "two agents are at work");
}

#[test]
fn agent_that_serves_is_not_introduced() {
    let mut harness = harness();
    harness.announcer.set_serving_agent("Bank");
    let said = harness.announce("session.started", json!({"summary_normal": "Paying."}));
    assert_eq!(texts(&said), ["Paying."]);
}

#[test]
fn many_tool_calls_are_summed_up() {
    let mut harness = harness();
    let mut said = Vec::new();
    for i in 0..14 {
        let call = format!("call_{i}");
        said.extend(harness.announce(
            "tool.invoked",
            json!({"tool": "read_file", "tool_call_id": call, "summary_normal": format!("Reading file {i}.")}),
        ));
        let end = match i {
            7 => {
                json!({"tool": "read_file", "tool_call_id": call, "status": "error", "error_message": "No such file."})
            }
            _ => json!({"tool": "read_file", "tool_call_id": call, "status": "success"}),
        };
        said.extend(harness.announce("tool.completed", end));
    }
    assert_eq!(texts(&said), ["Reading file 0.", "Reading file 1.", "read file failed: No such file."]);
    assert_eq!(harness.advance(12), [(10, "14 tool calls, one failed.".to_owned())]);
    let done = harness.announce("session.completed", json!({"summary_normal": "Read."}));
    assert_eq!(texts(&done), ["Done. Read."]);
}

#[test]
fn tool_calls_are_summed_up_before_the_output_that_follows() {
    let mut harness = harness();
    for i in 0..4 {
        let call = format!("call_{i}");
        harness.announce(
            "tool.invoked",
            json!({"tool": "t", "tool_call_id": call, "summary_normal": format!("Step {i}.")}),
        );
        harness.announce("tool.completed", json!({"tool": "t", "tool_call_id": call, "status": "success"}));
    }
    let said = harness.announce("output.streaming", json!({"chunk": "Here it is.", "position": 0, "complete": true}));
    assert_eq!(texts(&said), ["4 tool calls.", "Here it is."]);
}

#[test]
fn heartbeats_become_rarer_and_a_stall_is_announced() {
    let mut harness = harness();
    harness.announce("session.started", json!({"summary_normal": "Testing."}));
    let tool = json!({"tool": "run_tests", "tool_call_id": "call_1", "summary_normal": "Running the tests.",
        "expected_duration_ms": 600_000});
    harness.announce("tool.invoked", tool);
    let said = harness.advance(1000);
    assert_eq!(
        said.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        [
            "Still working on run tests, 22 seconds.",
            "Still working on run tests, 62 seconds.",
            "Still working on run tests, 2 minutes.",
            "Still working on run tests, 5 minutes.",
            "Still working on run tests, 10 minutes.",
        ]
    );
    let gaps: Vec<u64> = said.windows(2).map(|w| w[1].0 - w[0].0).collect();
    assert!(gaps.windows(2).all(|w| w[0] < w[1]), "{gaps:?}");
    let mut stuck = self::harness();
    stuck.announce("state.changed", json!({"from_state": "idle", "to_state": "thinking"}));
    let said = stuck.advance(200);
    assert_eq!(said.last().unwrap(), &(120, "No sign of life from Bank for 2 minutes. It may be stuck.".to_owned()));
    assert_eq!(said.len(), 3, "{said:?}");
    stuck.announce("state.changed", json!({"from_state": "thinking", "to_state": "calling_tool"}));
    assert!(stuck.advance(25)[0].1.starts_with("Still working"));
}

#[test]
fn no_heartbeats_after_the_end_or_without_a_connection() {
    let mut harness = harness();
    harness.announce("session.started", json!({"summary_normal": "Testing."}));
    harness.announcer.connection_notice(Moment::default(), &ConnectionNotice::ConnectionLost { agent: "Bank".into() });
    assert_eq!(harness.advance(4000), []);
    harness.announcer.connection_notice(harness.now(), &ConnectionNotice::ConnectionBack { agent: "Bank".into() });
    assert!(harness.advance(30)[0].1.starts_with("Still working"));
    harness.announce("session.completed", json!({"summary_normal": "Done."}));
    assert_eq!(harness.announcer.next_deadline(), None);
    let mut logger = AnnouncerHarness::new(Profile::preset(SubscriberKind::Logger));
    logger.announce("session.started", json!({"summary_normal": "Testing."}));
    assert_eq!(logger.advance(4000), []);
}

#[test]
fn progress_is_announced_in_steps_with_progress_priority() {
    let mut harness = harness();
    let percent = |p: u64| json!({"progress": {"percent": p}, "urgency": "background"});
    let said = harness.announce("progress.updated", percent(10));
    assert_eq!((texts(&said), said[0].priority), (vec!["10 percent."], Priority::Progress));
    assert!(harness.announce("progress.updated", percent(12)).is_empty());
    assert_eq!(texts(&harness.announce("progress.updated", percent(15))), ["15 percent."]);
    harness.seconds += 20;
    assert_eq!(texts(&harness.announce("progress.updated", percent(16))), ["16 percent."]);
    assert_eq!(texts(&harness.announce("progress.updated", percent(100))), ["100 percent."]);
    let steps = json!({"progress": {"step": 2, "total_steps": 5, "description": "Sorting"}});
    assert_eq!(texts(&harness.announce("progress.updated", steps)), ["Step 2 of 5. Sorting."]);
    let left = json!({"progress": {"description": "x"}, "summary_normal": "30 seconds left to answer.", "urgency": "background",
        "extensions": {"consent": {"reply_token": "rpl_1", "seconds_left": 30}}});
    assert_eq!(texts(&harness.announce("progress.updated", left)), ["30 seconds left to answer."]);
}

#[test]
fn background_event_is_a_notification_and_omitted_under_low_load() {
    let state =
        || json!({"from_state": "idle", "to_state": "thinking", "summary_normal": "Hm.", "urgency": "background"});
    assert_eq!(harness().announce("state.changed", state())[0].priority, Priority::Notification);
    let mut calm = AnnouncerHarness::new(Profile::preset(SubscriberKind::Braille));
    assert!(calm.announce("state.changed", state()).is_empty());
    assert!(calm.announce("tool.invoked", json!({"tool": "t", "summary_normal": "T."})).is_empty());
    let chunk = |text: &str, position: u64, complete: bool| json!({"chunk": text, "position": position, "complete": complete, "coalesce_hint": "sentence", "output_id": "out_1"});
    assert!(calm.announce("output.streaming", chunk("One. ", 0, false)).is_empty());
    assert_eq!(texts(&calm.announce("output.streaming", chunk("Two.", 5, true))), ["One. Two."]);
    assert_eq!(calm.announce("awaiting.confirmation", transfer()).len(), 4);
}

#[test]
fn quiet_hours_announce_only_critical_events() {
    let mut harness = harness();
    harness.announcer.set_quiet(true);
    assert!(harness.announce("session.started", json!({"summary_normal": "Paying."})).is_empty());
    assert_eq!(harness.advance(3600), []);
    assert_eq!(harness.announce("awaiting.confirmation", transfer()).len(), 4);
    harness.announcer.set_quiet(false);
    let said = harness.announcer.catch_up(harness.now());
    assert_eq!(
        texts(&said),
        [
            "Bank: Paying.",
            "Now waiting for your answer.",
            "1 question waits for your answer.",
            "Bank asks: Move $500.00 from savings to checking. 2 minutes left.",
        ]
    );
}

#[test]
fn catch_up_sums_up_and_resets() {
    let mut harness = harness();
    assert_eq!(texts(&harness.announcer.catch_up(harness.now())), ["Nothing new."]);
    assert_eq!(texts(&harness.announcer.status(harness.now())), ["Nothing is running."]);
    harness.announce("session.started", json!({"summary_normal": "Paying your bills."}));
    for call in ["call_1", "call_2", "call_3"] {
        harness
            .announce("tool.invoked", json!({"tool": "pay_bill", "tool_call_id": call, "summary_normal": "Paying."}));
    }
    harness.announce("tool.completed", json!({"tool": "pay_bill", "tool_call_id": "call_1", "status": "timeout"}));
    harness.announce("output.streaming", json!({"chunk": "Two are paid.", "position": 0, "complete": true}));
    harness.seconds += 180;
    assert_eq!(
        texts(&harness.announcer.status(harness.now())),
        ["Bank: Paying your bills.", "Now working on pay bill, for 3 minutes."]
    );
    let first = harness.announcer.catch_up(harness.now());
    assert_eq!(
        texts(&first),
        [
            "Bank: Paying your bills.",
            "3 tool calls, one failed. It wrote 3 words. Now working on pay bill, for 3 minutes."
        ]
    );
    assert_eq!(texts(&harness.announcer.catch_up(harness.now())), ["Nothing new."]);
    harness.announce("session.completed", json!({"summary_normal": "All are paid."}));
    let last = harness.announcer.catch_up(harness.now());
    assert_eq!(texts(&last), ["Bank: Paying your bills.", "Done. All are paid."]);
    assert_eq!(texts(&harness.announcer.catch_up(harness.now())), ["Nothing new."]);
}

#[test]
fn extension_events_are_announced_by_their_summary() {
    let mut harness = harness();
    let fields = json!({"type": "haptic:pulse", "summary_normal": "A short buzz.", "summary_normal_de": "Ein Summen."});
    assert_eq!(texts(&harness.announce("x", fields)), ["A short buzz."]);
    assert!(harness.announce("x", json!({"type": "haptic:pulse"})).is_empty());
    let critical =
        harness.announce("x", json!({"type": "haptic:alarm", "summary_normal": "Fire!", "urgency": "critical"}));
    assert_eq!((texts(&critical), critical[0].priority), (vec!["Fire!"], Priority::Important));
}

#[test]
fn each_text_is_announced_in_its_own_language() {
    let languages = vec!["de".parse().unwrap(), "en".parse().unwrap()];
    let profile = Profile { languages, ..Profile::default() };
    let mut harness = AnnouncerHarness::new(profile);
    let fields = json!({"summary_normal": "Ready.", "summary_normal_de": "Bereit.", "summary_normal_fr": "Prêt."});
    let said = harness.announce("session.started", fields);
    assert_eq!((said[0].text.as_str(), said[0].language.as_str()), ("Bereit.", "de"));
    let english = harness.announce("awaiting.confirmation", transfer());
    assert_eq!(english[0].text, "Bank asks: Move $500.00 from savings to checking.");
    assert_eq!((english[0].language.as_str(), english.last().unwrap().language.as_str()), ("en", "de"));
    let chunk = json!({"chunk": "Bonjour à tous.", "position": 0, "complete": true, "language": "fr"});
    let said = harness.announce("output.streaming", chunk);
    assert_eq!((said[0].text.as_str(), said[0].language.as_str()), ("Bonjour à tous.", "fr"));
}

#[test]
fn output_may_change_its_language() {
    let mut harness = harness();
    let chunk = |text: &str, position: u64, language: &str| json!({"chunk": text, "position": position, "complete": false, "output_id": "out_1", "language": language});
    assert!(harness.announce("output.streaming", chunk("Hello there", 0, "en")).is_empty());
    let said = harness.announce("output.streaming", chunk("Guten Tag. Wie", 11, "de"));
    assert_eq!(
        said.iter().map(|u| (u.text.as_str(), u.language.as_str())).collect::<Vec<_>>(),
        [("Hello there.", "en"), ("Guten Tag.", "de")]
    );
}

#[test]
fn connection_notices_are_announced_once_and_a_changed_key_interrupts() {
    let mut announcer = Announcer::new(Profile::default());
    let now = Moment::default();
    assert_eq!(texts(&announcer.connection_notice(now, &ConnectionNotice::Gap)), ["Warning: some messages were lost."]);
    assert!(announcer.connection_notice(now, &ConnectionNotice::Gap).is_empty());
    let key = announcer.connection_notice(now, &ConnectionNotice::KeyChanged { agent: "Ba\u{200B}nk".into() });
    assert!(key[0].text.starts_with("Warning: Bank shows a different key") && key[0].interrupts);
    assert_eq!(key[0].earcon, Some(Earcon::Warning));
    let hidden = aaep_proto::validate::Deception::Hidden('\u{200B}');
    let said = announcer.connection_notice(now, &ConnectionNotice::HiddenCharacters(hidden));
    assert_eq!(texts(&said), ["Warning: this text has a hidden character, U+200B."]);
}

#[test]
fn memory_is_bounded_for_agents_that_break_the_rules() {
    let mut harness = harness();
    for i in 0..400 {
        let agent = format!("a{i}");
        harness.announce_from(&agent, "session.started", json!({"summary_normal": format!("Work {i}.")}));
        let mut question = transfer();
        question["reply_token"] = json!(format!("rpl_{i}"));
        harness.announce_from(&agent, "awaiting.confirmation", question);
    }
    assert!(harness.announcer.sessions.len() <= MAX_SESSIONS && harness.announcer.prompts.len() <= MAX_PROMPTS);
    assert!(harness.announcer.fingerprints.len() <= MAX_FINGERPRINTS);
    for i in 0..2000 {
        let call = format!("call_{i}");
        harness.announce("tool.invoked", json!({"tool": "t", "tool_call_id": call, "summary_normal": "T."}));
        let output = format!("out_{i}");
        harness.announce(
            "output.streaming",
            json!({"chunk": "no end ", "position": 0, "complete": false, "output_id": output}),
        );
    }
    let session = &harness.announcer.sessions[&"sess_Bank".parse().unwrap()];
    assert!(session.tools.len() <= 64 && session.outputs.len() <= MAX_SESSION_OUTPUTS);
}

#[test]
fn events_after_the_end_of_a_session_are_not_announced() {
    let mut harness = harness();
    harness.announce("session.completed", json!({"summary_normal": "Done."}));
    assert!(
        harness
            .announce("state.changed", json!({"from_state": "a", "to_state": "b", "summary_normal": "Still here."}))
            .is_empty()
    );
    assert_eq!(harness.announce("awaiting.confirmation", transfer()).len(), 4, "never suppressed");
}

#[test]
fn question_failure_and_outcome_are_spoken_before_what_waits() {
    let mut harness = harness();
    let turns = |said: &[Utterance]| said.iter().map(|u| u.turn).collect::<Vec<_>>();
    let started = harness.announce("session.started", json!({"summary_normal": "Looking after it."}));
    assert_eq!(turns(&started), [Turn::Passing]);
    let tool = harness.announce("tool.invoked", json!({"tool": "t", "summary_normal": "Looking it up."}));
    assert_eq!(turns(&tool), [Turn::Passing]);
    let found =
        harness.announce("tool.completed", json!({"tool": "t", "status": "success", "summary_normal": "Found."}));
    assert_eq!(turns(&found), [Turn::Normal]);
    let text = json!({"chunk": "A text.", "position": 0, "complete": true, "coalesce_hint": "completion"});
    assert_eq!(turns(&harness.announce("output.streaming", text)), [Turn::Normal]);
    let asked = harness.announce("awaiting.confirmation", transfer());
    assert_eq!(turns(&asked), [Turn::First; 4]);
    let (now, token) = (harness.now(), "rpl_1".parse().unwrap());
    let sent = harness.announcer.prompt_ended(now, &token, PromptResolution::Answered("yes".into()));
    assert_eq!(turns(&sent), [Turn::First]);
    let outcome = json!({"from_state": "awaiting_input", "to_state": "thinking", "summary_normal": "Rejected.",
        "extensions": {"consent": {"reply_token": "rpl_1", "outcome": "rejected"}}});
    assert_eq!(turns(&harness.announce("state.changed", outcome)), [Turn::First]);
    let failed = json!({"urgency": "critical", "error_category": "transient", "summary_normal": "It broke."});
    assert_eq!(turns(&harness.announce("session.errored", failed)), [Turn::First; 2]);
}

#[test]
fn repeated_question_says_the_time_that_is_left() {
    let harness = harness();
    let mut event = json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:agent.awaiting.confirmation",
        "event_id": "evt_1", "session_id": "sess_1", "timestamp": "2026-05-24T14:22:11Z",
        "producer": {"agent_id": "bank", "agent_name": "Bank"}, "localization_hints": {"primary_language": "en"}});
    event.as_object_mut().unwrap().extend(transfer().as_object().unwrap().clone());
    let said = harness.announcer.repeat_question(&serde_json::from_value(event).unwrap(), 45);
    assert_eq!(
        texts(&said),
        [
            "Bank asks: Move $500.00 from savings to checking.",
            "You will have $20.00 in savings.",
            "This cannot be undone. High risk.",
            "You have 45 seconds left to answer. Without an answer it will not be done. Answer yes or no.",
        ]
    );
    assert!(said.iter().all(|u| !u.interrupts && u.earcon.is_none() && u.priority == Priority::Message));
}

#[test]
fn headings_of_a_text_are_utterances_of_their_own() {
    let text = "# Water\n\nOne. Two.\n\n## What was measured\n\nThree.\n";
    let chunk = json!({"chunk": text, "position": 0, "complete": true, "content_type": "text/markdown"});
    let said = harness().announce("output.streaming", chunk);
    assert_eq!(texts(&said), ["Water.", "One. Two.", "What was measured.", "Three."]);
    assert_eq!(said.iter().map(|u| u.heading).collect::<Vec<_>>(), [true, false, true, false]);
}

#[test]
fn agent_is_announced_by_the_name_that_was_set() {
    let mut harness = harness();
    harness.announcer.name_agent("Bank", "Bank 2");
    let said = harness.announce("awaiting.confirmation", transfer());
    assert_eq!(said[0].text, "Bank 2 asks: Move $500.00 from savings to checking.");
}
