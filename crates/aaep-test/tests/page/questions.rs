//! Questions are asked, announced and answered by keyboard alone.

use aaep_test::Serving;
use serde_json::json;

use crate::browser::{Browser, BrowserKind};
use crate::in_both_browsers;
use crate::injection::open_page;
use crate::producer::FakeProducer;

in_both_browsers!(
    banking_session_by_keyboard,
    rejected_question_is_not_done,
    all_kinds_of_clarifications,
    accidental_keys_answer_nothing,
    several_questions_are_a_list,
);

/// Starts the demo and opens its page. Scenes are played on request.
pub(crate) async fn open_demo(kind: BrowserKind) -> (Serving, Browser) {
    let demo = Serving::start(&["demo", "--no-input", "--no-pauses", "--on-request", "--no-unix"]);
    let mut browser = Browser::start(kind).await;
    browser.open(&demo.url("/")).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    browser.until("document.querySelectorAll('#scene-list button').length > 0").await;
    (demo, browser)
}

async fn banking_session_by_keyboard(kind: BrowserKind) {
    let (_demo, mut browser) = open_demo(kind).await;
    assert_eq!(browser.heard().await, Vec::<String>::new(), "nothing is announced that was there at load");
    browser.tab_to("Start banking").await;
    browser.press("Enter").await;
    browser.until_question("Transfer 500 dollars from checking to savings.").await;
    assert_eq!(browser.text("document.title").await, "(1) Follow your agents");
    assert_eq!(
        browser.text("document.getElementById('question-count').textContent").await,
        "1 question waits for your answer."
    );
    let text = browser.text("document.getElementById('dialog-text').innerText.replaceAll(/\\s+/g, ' ')").await;
    assert_eq!(
        text,
        "Transfer 500 dollars from checking to savings. The money moves at once and the bank cannot take it back. \
         This cannot be undone. High risk. You have 5 minutes to answer. Without an answer it will not be done."
            .replace("5 minutes", &minutes(&text)),
    );
    assert_eq!(browser.focused().await, "No, do not do it", "the least dangerous button has the focus");
    browser.tab_to("Yes, do it").await;
    browser.press("Enter").await;
    browser.until_question("Are you sure?").await;
    assert_eq!(browser.focused().await, "Go back");
    browser.tab_to("Yes, for good").await;
    browser.press("Enter").await;
    browser.until_closed().await;
    assert_eq!(browser.focused().await, "Start banking", "the focus is where it was");
    browser.until_heard("Done. 500 dollars are in savings now").await;
    assert_eq!(browser.text("document.title").await, "Follow your agents");
    let heard = browser.heard().await;
    // Responses to the user come at once, the events in their order.
    let responses = ["polite: banking starts.", "polite: Sent: yes"];
    for response in responses {
        assert_eq!(heard.iter().filter(|one| *one == response).count(), 1, "{heard:?}");
    }
    let polite: Vec<&str> = heard
        .iter()
        .filter(|one| !responses.contains(&one.as_str()))
        .filter_map(|one| one.strip_prefix("polite: "))
        .collect();
    let expected = [
        "Looking after your transfer to savings.",
        "Looking up your checking balance.",
        "Your checking account holds 12,500 dollars.",
        "Checking that there is enough money.",
        "Accepted. Going ahead.",
        "Transferring 500 dollars to savings.",
        "The transfer is done.",
        "Transferred $500 successfully.",
        "New balance: $12,000.",
        "Done. 500 dollars are in savings now. Checking holds 12,000 dollars.",
    ];
    assert_eq!(polite, expected);
    let urgent: Vec<&str> = heard.iter().filter_map(|one| one.strip_prefix("assertive: ")).collect();
    assert_eq!(urgent, Vec::<&str>::new());
    browser.assert_clean().await;
}

/// The time that the demo gives, as the page says it.
fn minutes(text: &str) -> String {
    text.split("You have ").nth(1).unwrap().split(" to answer").next().unwrap().to_owned()
}

async fn rejected_question_is_not_done(kind: BrowserKind) {
    let (_demo, mut browser) = open_demo(kind).await;
    browser.tab_to("Start banking").await;
    browser.press("Enter").await;
    browser.until_question("Transfer 500 dollars").await;
    browser.press("Space").await;
    browser.until_closed().await;
    browser.until_heard("Done. Nothing was transferred, as you wished.").await;
    let heard = browser.heard().await;
    assert!(heard.contains(&"polite: Sent: no".to_owned()), "{heard:?}");
    assert!(!heard.iter().any(|one| one.contains("Transferring")), "{heard:?}");
    browser.assert_clean().await;
}

async fn all_kinds_of_clarifications(kind: BrowserKind) {
    let (_demo, mut browser) = open_demo(kind).await;
    browser.tab_to("Start trip").await;
    browser.press("Enter").await;
    browser.until_question("Where would you like to go?").await;
    assert_eq!(browser.text("document.getElementById('dialog').getAttribute('role')").await, "dialog");
    assert_eq!(browser.focused().await, "Your answer");
    browser.press("Enter").await;
    browser.until("document.getElementById('dialog-problem').textContent === 'Type an answer first.'").await;
    browser.type_text("Ibadan").await;
    browser.press("Enter").await;
    browser.until_question("How would you like to travel?").await;
    let text = browser.text("document.getElementById('dialog-text').innerText").await;
    assert!(
        text.contains("All three arrive before noon.") && text.contains("Without an answer this is assumed: By train"),
        "{text}"
    );
    browser.press("Space").await;
    browser.press("ArrowDown").await;
    browser.press("Enter").await;
    browser.until_question("How many people travel?").await;
    assert_eq!(browser.focused().await, "Your number");
    browser.type_text("many").await;
    browser.press("Enter").await;
    browser.until("document.getElementById('dialog-problem').textContent === 'This is no number.'").await;
    browser.eval("document.activeElement.select()").await;
    browser.type_text("3").await;
    browser.press("Enter").await;
    browser.until_question("Shall I look for quiet seats?").await;
    browser.press("Space").await;
    browser.tab_to("Send").await;
    browser.press("Enter").await;
    browser.until_closed().await;
    browser.until_heard("You travel to Ibadan by bus.").await;
    browser.until_heard("Travellers: 3.").await;
    browser.until_heard("I look for quiet seats.").await;
    browser.assert_clean().await;
}

/// Asks for a confirmation.
pub(crate) fn ask(producer: &FakeProducer, token: &str, action: &str) {
    producer.send(
        "awaiting.confirmation",
        json!({"urgency": "critical", "reply_token": token, "timeout_seconds": 600, "default_decision": "reject",
            "action": action, "consequence": "It is done.", "risk_level": "low", "irreversible": false}),
    );
}

async fn accidental_keys_answer_nothing(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    // The user types while the question comes: none of these keys answers it.
    ask(&producer, "rpl_1", "Delete a file.");
    browser.until("!document.getElementById('dialog').hidden").await;
    for key in ["Enter", "Space", "Escape"] {
        browser.press(key).await;
    }
    let is_open = browser.eval("!document.getElementById('dialog').hidden").await;
    if is_open == true {
        browser.until_heard("Nothing was sent, because this question came just as you answered.").await;
    }
    assert_eq!(producer.posted(), Vec::<serde_json::Value>::new(), "nothing was sent");
    // Escape postpones, and never accepts.
    browser.until_question("Delete a file.").await;
    browser.press("Escape").await;
    browser.until_closed().await;
    browser.until_heard("The question still waits, in the list of questions.").await;
    assert_eq!(producer.posted(), Vec::<serde_json::Value>::new());
    assert_eq!(browser.text("document.title").await, "(1) Follow your agents");
    browser.tab_to("Answer question 1").await;
    browser.press("Enter").await;
    browser.until_question("Delete a file.").await;
    // The focus stays inside.
    for _ in 0..12 {
        browser.press("Tab").await;
        assert_eq!(browser.eval("document.getElementById('dialog').contains(document.activeElement)").await, true);
    }
    browser.tab_to("Time left").await;
    browser.press("Enter").await;
    browser.until_heard("left to answer.").await;
    browser.tab_to("Repeat").await;
    browser.press("Enter").await;
    browser.until_heard("Helper asks Delete a file. It is done. This can be undone. Low risk.").await;
    browser.tab_to("More time").await;
    browser.press("Enter").await;
    browser.until_heard("From the next question on, you ask for 3 times the time.").await;
    browser.tab_to("Yes, do it").await;
    browser.press("Enter").await;
    browser.until_closed().await;
    let posted = producer.posted();
    let factor = posted.iter().find(|message| message["type"] == "subscription.renegotiate").unwrap();
    assert_eq!(factor["capabilities"]["more_time"], json!({"factor": 3}));
    let replies: Vec<_> = posted.iter().filter(|message| message["type"] == "confirmation.reply").collect();
    assert_eq!(replies.len(), 1, "{posted:?}");
    assert_eq!((&replies[0]["decision"], &replies[0]["reply_token"]), (&json!("accept"), &json!("rpl_1")));
    browser.assert_clean().await;
}

async fn several_questions_are_a_list(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    ask(&producer, "rpl_1", "Delete the first file.");
    ask(&producer, "rpl_2", "Delete the second file.");
    ask(&producer, "rpl_3", "Delete the third file.");
    browser.until_question("Delete the first file.").await;
    assert_eq!(
        browser.text("document.getElementById('question-count').textContent").await,
        "3 questions wait for your answer."
    );
    assert_eq!(browser.text("document.title").await, "(3) Follow your agents");
    browser.until_heard("Another question waits. There are 3 now.").await;
    // Another subscriber answers it, and the agent withdraws the next one.
    producer.send(
        "state.changed",
        json!({"from_state": "awaiting", "to_state": "thinking",
        "extensions": {"consent": {"reply_token": "rpl_1", "outcome": "accepted"}}}),
    );
    browser.until_heard("The question was answered elsewhere.").await;
    browser.until_question("Delete the second file.").await;
    producer.send(
        "state.changed",
        json!({"from_state": "awaiting", "to_state": "thinking",
        "extensions": {"consent": {"reply_token": "rpl_2", "outcome": "cancelled"}}}),
    );
    browser.until_heard("The question was withdrawn.").await;
    browser.until_question("Delete the third file.").await;
    producer.send("session.completed", json!({"summary_normal": "Over."}));
    browser.until_heard("The question is over, because its session ended.").await;
    browser.until_closed().await;
    assert_eq!(browser.text("document.title").await, "Follow your agents");
    assert_eq!(producer.posted(), Vec::<serde_json::Value>::new());
    browser.assert_clean().await;
}
