//! A session read and answered on a braille display alone: a real BRLTTY, and the keys of its virtual display.

use std::time::Duration;

use aaep_test::brltty::TestBrltty;

use super::agents::Demo;
use super::tmux::Tmux;

/// A display and a terminal that shows its lines there.
async fn reading(url: &str) -> (TestBrltty, Tmux) {
    let place = TestBrltty::open().await;
    let host = format!(":{}", place.socket.file_name().unwrap().to_str().unwrap());
    // The test owns the display, wherever it runs.
    let variables = [("BRLAPI_HOST", host.as_str()), ("WINDOWPATH", ""), ("WINDOWID", ""), ("CONTROLVT", "")];
    let tmux = Tmux::start(&["listen", "--braille", url], &variables);
    (place, tmux)
}

/// Types a word and Enter. The virtual display takes one key at a time.
async fn types(place: &mut TestBrltty, word: &str) {
    for (n, letter) in word.bytes().enumerate() {
        place.press(&format!("PASSCHAR {letter}")).await;
        place.shows(&word[..=n]).await;
    }
    place.press("KEY_ENTER").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn banking_session_is_read_and_answered_on_the_display() {
    let demo = Demo::start(&["banking"]);
    let (mut place, tmux) = reading(&demo.url).await;
    // Three more lines follow at once, but the question stays on the display.
    place.shows("Question 1: Demo asks: Transfer 500 doll").await;
    let tmux = tokio::task::spawn_blocking(move || {
        tmux.is_asked(1, "Answer yes or no.");
        tmux
    });
    let tmux = tmux.await.unwrap();
    for (key, window) in [
        ("FWINRT", "ars from checking to savings."),
        ("LNDN", "Question 1: The money moves at once and "),
        ("FWINRT", "the bank cannot take it back."),
        ("LNDN", "Question 1: This cannot be undone. High "),
        ("LNDN", "Question 1: You have 5 minutes to answer"),
        ("FWINRT", ". Without an answer it will not be done."),
        ("FWINRT", " Answer yes or no."),
        ("LNUP", "Question 1: This cannot be undone. High "),
    ] {
        place.press(key).await;
        place.shows(window).await;
    }
    types(&mut place, "y").await;
    place.shows("Reply: Question 1 needs the whole word. ").await;
    assert!(!tmux.text().contains("Transferring"));
    // An earlier answer would not count, because nobody can have read the question.
    tokio::time::sleep(Duration::from_secs(1)).await;
    types(&mut place, "yes").await;
    place.shows("End: Done. 500 dollars are in savings no").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_display_is_reported_and_listening_continues() {
    let demo = Demo::start(&["banking"]);
    let (mut place, tmux) = reading(&demo.url).await;
    place.shows("Question 1: Demo asks: Transfer 500 doll").await;
    place.end();
    let reading = tokio::task::spawn_blocking(move || {
        tmux.is_asked(1, "Answer yes or no.");
        tmux.enter("no");
        tmux.sees("Note: The braille display is gone.");
        tmux.sees("End: Done. Nothing was transferred, as you wished.");
    });
    reading.await.unwrap();
}

#[test]
fn missing_display_is_reported_and_listening_continues() {
    let demo = Demo::start(&["banking"]);
    let tmux = Tmux::start(&["listen", "--braille", &demo.url], &[("BRLAPI_HOST", ":nobody-is-here")]);
    tmux.sees("Note: There is no braille display: ");
    tmux.sees("Listening to Demo");
}
