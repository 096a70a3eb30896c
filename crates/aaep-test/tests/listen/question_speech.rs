//! The order and the gaps of speech around questions, at a real speech-dispatcher.

use std::sync::Arc;

use serde_json::json;

use super::agents::FakeProducer;
use super::speech::{ENGLISH, at, hears, speaking_at};
use super::tmux::Tmux;
use aaep_test::speechd::{TestSpeechd, until};

/// So slow that a line that waits for its pace comes more than `LONGEST_GAP` late.
const SLOW_PACE_WPM: u32 = 60;
/// The longest silence within a block of speech, in seconds, on a busy machine.
const LONGEST_GAP: f64 = 8.0;

const CONSEQUENCE: &str = "begin en It is gone.";
const NATURE: &str = "begin en This cannot be undone. High risk.";
const TERMS: &str = "begin en You have 10 minutes to answer. Without an answer it will not be done. Answer yes or no.";

/// A terminal that speaks, and has spoken that a session began. From then on, utterances last until they may go.
async fn held(fake: &FakeProducer) -> (TestSpeechd, Arc<Tmux>) {
    let (place, tmux) = speaking_at(SLOW_PACE_WPM, &fake.url, true, ENGLISH).await;
    fake.wait_for_listener();
    fake.emit("session.started", json!({"summary_normal": "It begins."}));
    hears(&place, "It begins.").await;
    place.hold();
    (place, tmux)
}

/// Waits until this utterance begins.
async fn begins(place: &TestSpeechd, note: &str) {
    until(note, || place.spoken().iter().any(|spoken| spoken == note).then_some(())).await;
}

/// Waits for as many notes as these, from the first of them on, and compares them and their gaps.
async fn is_spoken(place: &TestSpeechd, wanted: &[&str]) {
    let spoken = || {
        let notes = place.spoken_at();
        let start = notes.iter().position(|(_, note)| note == wanted[0])?;
        (notes.len() - start >= wanted.len()).then(|| notes[start..].to_vec())
    };
    let notes = until("the last note", spoken).await;
    assert_eq!(notes.iter().map(|(_, note)| note.as_str()).collect::<Vec<_>>(), wanted);
    // The user takes time before an answer is sent, and the test before an utterance may end.
    for pair in notes.windows(2).filter(|pair| pair[1].1.starts_with("begin") && !pair[1].1.contains("Sent: ")) {
        let gap = pair[1].0 - pair[0].0;
        assert!(gap < LONGEST_GAP, "{gap} seconds of silence before {:?}", pair[1].1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outcome_is_spoken_before_the_next_question_and_each_question_is_one_block() {
    let fake = FakeProducer::start();
    let (place, tmux) = held(&fake).await;
    place.go();
    fake.ask("rpl_1", "Delete one.");
    hears(&place, "Answer yes or no.").await;
    place.hold();
    at(&tmux, |tmux| {
        tmux.is_asked(1, "Answer yes or no.");
        tmux.enter("no");
    })
    .await;
    begins(&place, "begin en Sent: no.").await;
    let outcome = json!({"from_state": "awaiting_input", "to_state": "thinking",
        "summary_normal": "Rejected. It will not be done.",
        "extensions": {"consent": {"reply_token": "rpl_1", "outcome": "rejected"}}});
    fake.emit("state.changed", outcome);
    fake.ask("rpl_2", "Delete two.");
    at(&tmux, |tmux| tmux.sees("Question 2: You have 10 minutes")).await;
    place.go();
    let wanted = [
        "begin en FakeProducer asks: Delete one.",
        "end",
        CONSEQUENCE,
        "end",
        NATURE,
        "end",
        TERMS,
        "end",
        "begin en Sent: no.",
        "end",
        "begin en Rejected. It will not be done.",
        "end",
        "begin en Question 2. FakeProducer asks: Delete two.",
        "end",
        CONSEQUENCE,
        "end",
        NATURE,
        "end",
        TERMS,
        "end",
    ];
    is_spoken(&place, &wanted).await;
}

/// Emits a text of two chunks and news about a tool behind it.
fn emit_text(fake: &FakeProducer) {
    let chunk = |text: &str, position: u32, complete: bool| {
        json!({"output_id": "out_1", "chunk": text, "position": position, "complete": complete,
            "coalesce_hint": if complete { "completion" } else { "sentence" }, "content_type": "text/plain"})
    };
    fake.emit("output.streaming", chunk("The garden has three zones. ", 0, false));
    fake.emit("output.streaming", chunk("Each has its own valve.", 28, true));
    fake.emit("tool.invoked", json!({"tool": "meter", "summary_normal": "Reading the meter."}));
}

const FIRST_TEXT: &str = "begin en The garden has three zones.";
const SECOND_TEXT: &str = "begin en Each has its own valve.";
const HEADLINE: &str = "begin en FakeProducer asks: Delete one.";

#[tokio::test(flavor = "multi_thread")]
async fn question_in_a_long_text_is_spoken_at_once_and_the_text_comes_after_it() {
    let fake = FakeProducer::start();
    let (place, tmux) = held(&fake).await;
    emit_text(&fake);
    begins(&place, FIRST_TEXT).await;
    at(&tmux, |tmux| tmux.sees("Tool: Reading the meter.")).await;
    fake.ask("rpl_1", "Delete one.");
    begins(&place, HEADLINE).await;
    place.go();
    // The news about the tool is out of date by then and dropped.
    let wanted = [
        FIRST_TEXT,
        "stop",
        HEADLINE,
        "end",
        CONSEQUENCE,
        "end",
        NATURE,
        "end",
        TERMS,
        "end",
        FIRST_TEXT,
        "end",
        SECOND_TEXT,
        "end",
    ];
    is_spoken(&place, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_silences_the_question_and_what_was_sent_is_spoken_at_once() {
    let fake = FakeProducer::start();
    let (place, tmux) = held(&fake).await;
    emit_text(&fake);
    begins(&place, FIRST_TEXT).await;
    fake.ask("rpl_1", "Delete one.");
    begins(&place, HEADLINE).await;
    at(&tmux, |tmux| {
        tmux.is_asked(1, "Answer yes or no.");
        tmux.enter("no");
    })
    .await;
    begins(&place, "begin en Sent: no.").await;
    place.go();
    let wanted =
        [FIRST_TEXT, "stop", HEADLINE, "stop", "begin en Sent: no.", "end", FIRST_TEXT, "end", SECOND_TEXT, "end"];
    is_spoken(&place, &wanted).await;
}
