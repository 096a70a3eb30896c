//! A simulated listener: scripted sessions go through the engine of a producer on simulated time, with the capabilities
//! of a screen reader, and a voice at 180 words per minute speaks the announcements.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as expected")]

mod everyone;
mod harness;
mod voice;

use aaep_announce::speakable::is_unspeakable;
use aaep_announce::{Earcon, Priority, Profile, Turn, Utterance};
use aaep_proto::confirm::{Clarification, Confirmation};
use aaep_proto::engine::SessionOptions;
use aaep_proto::id::SessionId;
use aaep_proto::limits;
use aaep_proto::message::{
    ErrorCategory, HandoffRequested, HandoffTarget, Localized, RiskLevel, SessionErrored, ToolCompleted, ToolInvoked,
    ToolStatus,
};
use serde_json::json;

use harness::ListenerHarness;
use voice::words;

fn harness() -> ListenerHarness {
    ListenerHarness::new(Profile::default(), &["en-US"])
}

fn start(harness: &mut ListenerHarness, summary: &str) -> SessionId {
    harness.update(|engine, cx| engine.start_session(cx, SessionOptions::new(summary))).unwrap()
}

fn tool(harness: &mut ListenerHarness, session: &SessionId, name: &str, status: ToolStatus) {
    let invoked = ToolInvoked {
        tool: name.into(),
        summary_normal: format!("Using {}.", name.replace('_', " ")),
        ..ToolInvoked::default()
    };
    let call = harness.update(|engine, cx| engine.invoke_tool(cx, session, invoked)).unwrap();
    harness.advance_ms(700);
    let error_message = (status != ToolStatus::Success).then(|| "The file is locked.".to_owned());
    let completed = ToolCompleted { tool_call_id: Some(call), error_message, ..ToolCompleted::new(name, status) };
    harness.update(|engine, cx| engine.complete_tool(cx, session, completed)).unwrap();
}

/// Streams a text in pieces of a few characters, as models do.
fn stream(harness: &mut ListenerHarness, session: &SessionId, text: &str, millis: u64) {
    let output = harness.update(|engine, cx| engine.open_output(cx, session, "text/markdown", None)).unwrap();
    let chars: Vec<char> = text.chars().collect();
    for token in chars.chunks(3) {
        let token: String = token.iter().collect();
        harness.update(|engine, cx| engine.write(cx, session, &output, &token)).unwrap();
        harness.advance_ms(millis);
    }
    harness.update(|engine, cx| engine.finish_output(cx, session, &output)).unwrap();
}

/// Checks what holds for every session: speakable text, nothing twice, every question announced, no long wait behind
/// other speech.
fn check(harness: &mut ListenerHarness) -> Vec<Utterance> {
    harness.advance_ms(2_000_000);
    harness.voice.advance(u64::MAX);
    assert_eq!(harness.pacer.next_deadline(), None, "everything was said in the end");
    // The longest utterance for this pace.
    let unit = u64::from(harness.announcer.profile().pace_wpm) * limits::CHUNK_SPEECH_SECONDS / 60;
    let given = &harness.voice.given;
    for utterance in given {
        assert!(!utterance.text.chars().any(is_unspeakable), "{utterance:?}");
        assert!(!utterance.text.contains(['`', '|', '#', '\n']) && !utterance.text.contains("**"), "{utterance:?}");
        assert!(utterance.text.ends_with(['.', '!', '?', '؟', ':', '…', '"', ')']), "a fragment: {utterance:?}");
        assert!(utterance.text.chars().any(char::is_alphabetic), "{utterance:?}");
        let short = utterance.priority != Priority::Important || words(utterance) <= 45;
        assert!(short && words(utterance) <= unit, "too long: {utterance:?}");
    }
    for pair in given.windows(2) {
        assert_ne!(pair[0].text, pair[1].text);
    }
    for (token, asked_at) in &harness.asked {
        let about = |u: &Utterance| u.about.as_deref() == Some(token.as_str());
        let of_it: Vec<_> = harness.voice.heard.iter().filter(|h| about(&h.utterance)).collect();
        let headline = of_it.iter().find(|h| h.utterance.priority == Priority::Important).expect("a headline");
        assert!(headline.whole && headline.utterance.earcon == Some(Earcon::Prompt) && headline.utterance.interrupts);
        // Only another question or an outcome, which is not interrupted, may come before it.
        let meanwhile: Vec<_> = harness.voice.heard.iter().filter(|h| *asked_at < h.at && h.at < headline.at).collect();
        assert!(meanwhile.iter().all(|h| h.utterance.turn == Turn::First), "{meanwhile:?}");
        let begun = meanwhile.iter().map(|h| h.at).max().unwrap_or(*asked_at);
        assert_eq!(headline.at, begun + words(&headline.utterance) * 60_000 / 180, "nothing is said before it");
        let in_block = |u: &Utterance| about(u) && u.turn == Turn::First;
        let after = harness.voice.heard.iter().skip_while(|h| !std::ptr::eq(*h, *headline));
        let block = after.take_while(|h| in_block(&h.utterance)).count();
        assert_eq!(block, of_it.iter().filter(|h| in_block(&h.utterance)).count(), "one block");
        assert!(of_it.iter().filter(|h| h.whole).count() >= 2, "the details: {of_it:?}");
    }
    for backlog in &harness.voice.backlogs {
        // One that was interrupted and is spoken again, and one that waited.
        assert!(*backlog <= 2 * unit, "{backlog} words waited behind something critical");
    }
    given.clone()
}

fn texts(given: &[Utterance]) -> Vec<&str> {
    given.iter().filter(|u| u.priority != Priority::Progress).map(|u| u.text.as_str()).collect()
}

#[test]
fn banking_session_with_a_confirmation_is_announced_in_full() {
    let mut harness = harness();
    let session = start(&mut harness, "Moving money for you.");
    tool(&mut harness, &session, "fetch_balance", ToolStatus::Success);
    harness.advance_ms(5_000);
    let arguments = json!({"amount": 500});
    let ask = Confirmation::new("Move $500.00 to checking.", "You will have $20.00 in savings.")
        .for_call("transfer", &arguments)
        .irreversible()
        .risk(RiskLevel::High);
    let token = harness.update(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    harness.advance_ms(160_000);
    harness.reply(json!({"type": "confirmation.reply", "reply_token": token, "decision": "accept"}));
    let permit = harness.permit(&token);
    let transfer =
        ToolInvoked { tool: "transfer".into(), summary_normal: "Moving the money.".into(), ..ToolInvoked::default() };
    let call =
        harness.update(|engine, cx| engine.invoke_irreversible(cx, &session, transfer, &arguments, permit)).unwrap();
    harness.advance_ms(2_000);
    let done = ToolCompleted {
        tool_call_id: Some(call),
        summary_normal: Some("The money was moved.".into()),
        ..ToolCompleted::new("transfer", ToolStatus::Success)
    };
    harness.update(|engine, cx| engine.complete_tool(cx, &session, done)).unwrap();
    harness.update(|engine, cx| engine.complete_session(cx, &session, "$500.00 are in checking.")).unwrap();
    let given = check(&mut harness);
    assert_eq!(
        texts(&given),
        [
            "Moving money for you.",
            "Using fetch balance.",
            "Helper asks: Move $500.00 to checking.",
            "You will have $20.00 in savings.",
            "This cannot be undone. High risk.",
            "You have 5 minutes to answer. Without an answer it will not be done. Answer yes or no.",
            "Your answer is still needed. 4 minutes left.",
            "Accepted. Going ahead.",
            "Moving the money.",
            "The money was moved.",
            "Done. $500.00 are in checking.",
        ]
    );
    assert!(given.iter().any(|u| u.text == "150 seconds left to answer." && u.priority == Priority::Progress));
}

const ANSWER: &str = "# Your garden\n\nTomatoes like **sun**. They need water in the morning, about 3.5 liters each. \
    Dr. Okoro says so too.\n\n- Plant in May\n- Water daily\n- See https://garden.example/tomatoes?x=1 for more\n\n\
    | Month | Task |\n|---|---|\n| May | Plant |\n| August | Harvest |\n\n```python\nfor plant in garden:\n    \
    water(plant)\n```\n\n## Where to buy\n\nThe shop in Main Street has seeds. It opens at nine. It closes at six. \
    Bring `cash` 🎉🎉. Do not forget the receipt! ";

#[test]
fn long_output_in_small_tokens_is_announced_in_sentences() {
    let mut harness = harness();
    let session = start(&mut harness, "Answering your question.");
    let more: String = (1..=20).map(|i| format!("Rule {i} says that patience makes better plants. ")).collect();
    let text = format!("{ANSWER}{more}That is all.");
    stream(&mut harness, &session, &text, 20);
    harness.update(|engine, cx| engine.complete_session(cx, &session, "The answer is complete.")).unwrap();
    let given = check(&mut harness);
    assert_eq!(harness.sent, text, "the producer sent everything");
    let spoken = texts(&given).join(" ");
    for part in [
        "Your garden. Tomatoes like sun. They need water in the morning, about 3.5 liters each. Dr. Okoro says so too.",
        "Plant in May. Water daily. See link to garden.example for more.",
        "Table, 2 columns, 2 rows. Month: May, Task: Plant. Month: August, Task: Harvest. Python code, 2 lines.",
        "Where to buy. The shop in Main Street has seeds.",
        "Bring cash 🎉. Do not forget the receipt!",
        "That is all. Done. The answer is complete.",
    ] {
        assert!(spoken.contains(part), "{part:?} is missing in {spoken}");
    }
    assert!((1..=20).all(|i| spoken.contains(&format!("Rule {i} says that patience makes better plants."))));
}

#[test]
fn question_during_a_long_output_is_announced_at_once() {
    let mut harness = harness();
    let session = start(&mut harness, "Answering your question.");
    let output = harness.update(|engine, cx| engine.open_output(cx, &session, "text/plain", None)).unwrap();
    for i in 0..400 {
        let text = format!("Sentence number {i} tells you a little more about it. ");
        harness.update(|engine, cx| engine.write(cx, &session, &output, &text)).unwrap();
        harness.advance_ms(100);
        if i % 130 == 100 {
            let ask = Clarification::choice("Which garden?", [("a", "The front one"), ("b", "The back one")]);
            let token = harness.update(|engine, cx| engine.clarify(cx, &session, ask)).unwrap();
            harness.advance_ms(30_000);
            harness.reply(json!({"type": "clarification.reply", "reply_token": token, "response": "a"}));
        }
    }
    harness.update(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    harness.update(|engine, cx| engine.complete_session(cx, &session, "Good.")).unwrap();
    let given = check(&mut harness);
    assert_eq!(harness.asked.len(), 3);
    assert_eq!(given.iter().filter(|u| u.text == "There are 2 choices. 1: The front one. 2: The back one.").count(), 3);
    assert!(harness.voice.backlogs.len() >= 3);
}

#[test]
fn fourteen_tool_calls_with_one_failure_are_summed_up() {
    let mut harness = harness();
    let session = start(&mut harness, "Cleaning up.");
    for i in 0..14 {
        let status = if i == 9 { ToolStatus::Error } else { ToolStatus::Success };
        tool(&mut harness, &session, &format!("sweep_room_{i}"), status);
    }
    harness.update(|engine, cx| engine.complete_session(cx, &session, "All rooms are clean.")).unwrap();
    let given = check(&mut harness);
    let said = texts(&given);
    assert!(said.contains(&"sweep room 9 failed: The file is locked."), "{said:?}");
    assert!(said.contains(&"14 tool calls, one failed."), "{said:?}");
    assert!(said.len() <= 6, "{said:?}");
    assert_eq!(*said.last().unwrap(), "Done. All rooms are clean.");
}

#[test]
fn silence_and_an_error_with_a_remedy_are_announced() {
    let mut harness = harness();
    let session = start(&mut harness, "Looking for trains.");
    harness.advance_ms(70_000);
    let errored = SessionErrored {
        error_code: Some("NO_LOGIN".into()),
        remediation_hint: Some("Log in at the railway first.".into()),
        ..SessionErrored::new(ErrorCategory::RequiresUser, "The railway asks for a login.")
    };
    harness.update(|engine, cx| engine.end_session(cx, &session, errored.into())).unwrap();
    let given = check(&mut harness);
    assert_eq!(
        texts(&given),
        [
            "Looking for trains.",
            "Failed: The railway asks for a login.",
            "It needs you to do something first.",
            "What you can do: Log in at the railway first.",
        ]
    );
    let beats: Vec<&str> = given.iter().filter(|u| u.priority == Priority::Progress).map(|u| u.text.as_str()).collect();
    assert_eq!(beats, ["Still thinking, 21 seconds.", "Still thinking, 61 seconds."]);
}

fn handoff() -> HandoffRequested {
    HandoffRequested {
        summary_normal: Some("Ada from the claims team will call you.".into()),
        ..HandoffRequested::new("I may not decide about this.", HandoffTarget::Human)
    }
}

#[test]
fn handoff_and_completion_are_announced() {
    let mut harness = harness();
    let session = start(&mut harness, "Checking your claim.");
    harness.update(|engine, cx| engine.emit(cx, &session, handoff().into())).unwrap();
    harness.update(|engine, cx| engine.complete_session(cx, &session, "Handed over.")).unwrap();
    let given = check(&mut harness);
    assert_eq!(
        texts(&given),
        [
            "Checking your claim.",
            "Helper hands over to a person: I may not decide about this.",
            "Ada from the claims team will call you.",
            "Done. Handed over.",
        ]
    );
}

#[test]
fn every_text_is_in_a_language_of_the_user() {
    let languages = ["de", "yo", "en"].map(|l| l.parse().unwrap()).to_vec();
    let mut harness = ListenerHarness::new(Profile { languages, ..Profile::default() }, &["en-US", "de", "yo"]);
    let german = "de".parse().unwrap();
    let mut options = SessionOptions::new("Writing a letter.");
    options.variants.insert("summary_normal_de".into(), json!("Ich schreibe einen Brief."));
    let session = harness.update(|engine, cx| engine.start_session(cx, options)).unwrap();
    let ask = Confirmation::new("Send it.", "Ada gets it.").in_language(&german, "Ihn senden.", "Ada bekommt ihn.");
    let token = harness.update(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    harness.advance_ms(20_000);
    harness.reply(json!({"type": "confirmation.reply", "reply_token": token, "decision": "reject"}));
    let output =
        harness.update(|engine, cx| engine.open_output(cx, &session, "text/plain", "yo".parse().ok())).unwrap();
    harness.update(|engine, cx| engine.write(cx, &session, &output, "Ẹ kú àárọ̀. Ó dàbọ̀.")).unwrap();
    harness.update(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    let tool = Localized::new(ToolInvoked {
        tool: "save".into(),
        summary_normal: "Saving the letter.".into(),
        ..ToolInvoked::default()
    })
    .text("summary_normal", &german, "Ich speichere den Brief.");
    harness.update(|engine, cx| engine.invoke_tool(cx, &session, tool)).unwrap();
    harness
        .update(|engine, cx| {
            engine.cancel_session(cx, &session, aaep_proto::message::CancelledBy::User, "You stopped it.")
        })
        .unwrap();
    let given = check(&mut harness);
    let said: Vec<(&str, &str)> = given.iter().map(|u| (u.language.as_str(), u.text.as_str())).collect();
    for expected in [
        ("de", "Ich schreibe einen Brief."),
        ("de", "Helper fragt: Ihn senden."),
        ("de", "Ada bekommt ihn."),
        ("de", "Abgelehnt. Es wird nicht getan."),
        ("yo", "Ẹ kú àárọ̀."),
        ("yo", "Ó dàbọ̀."),
        ("de", "Ich speichere den Brief."),
        ("en", "Cancelled by you. You stopped it."),
    ] {
        assert!(said.contains(&expected), "{expected:?} is missing in {said:#?}");
    }
}
