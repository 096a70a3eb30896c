//! What `aaep listen --speak` sends to a real speech-dispatcher: texts, order, priorities, languages, cancellations.

use std::sync::Arc;

use aaep_client::{ConnectOptions, PromptAnswer, Subscriber, SubscriberEvent};
use aaep_proto::message::Response;
use aaep_test::speechd::{TestSpeechd, until};
use aaep_test::{PATIENCE, soon};
use serde_json::json;

use super::agents::{Demo, FakeProducer};
use super::said::{Said, gathered, heard, important, message, notification, told};
use super::scenes::{Scene, scenes};
use super::tmux::Tmux;

pub(crate) const ENGLISH: &str = "[\"en\"]";

/// Starts a voice, whose utterances end at once if `flowing`, and a terminal that speaks with it.
pub(crate) async fn speaking(url: &str, flowing: bool, languages: &str) -> (TestSpeechd, Arc<Tmux>) {
    // A high pace, so that the agent is not slowed down.
    speaking_at(1000, url, flowing, languages).await
}

/// Starts a voice and a terminal like `speaking`, at this pace in words per minute.
pub(crate) async fn speaking_at(pace_wpm: u32, url: &str, flowing: bool, languages: &str) -> (TestSpeechd, Arc<Tmux>) {
    let mut place = TestSpeechd::held();
    if flowing {
        place.go();
    }
    place.serve().await;
    let address = format!("unix_socket:{}", place.path("tap.sock").display());
    let profile = place.path("profile.toml");
    std::fs::write(&profile, format!("pace_wpm = {pace_wpm}\nlanguages = {languages}")).unwrap();
    let words = ["listen", "--speak", "--profile", profile.to_str().unwrap(), url];
    let tmux = Tmux::start(&words, &[("SPEECHD_ADDRESS", &address)]);
    (place, Arc::new(tmux))
}

/// Runs blocking work on the terminal.
pub(crate) async fn at<T: Send + 'static>(tmux: &Arc<Tmux>, work: impl FnOnce(&Tmux) -> T + Send + 'static) -> T {
    let tmux = Arc::clone(tmux);
    tokio::task::spawn_blocking(move || work(&tmux)).await.unwrap()
}

/// Waits until a text with this end was spoken.
pub(crate) async fn hears(place: &TestSpeechd, end: &str) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !heard(place).iter().any(|said| said.text.ends_with(end)) {
        let late = tokio::time::Instant::now() > deadline;
        assert!(!late, "{end:?} is not heard, only:\n{:#?}", heard(place));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Plays a scene and compares all speech about it.
async fn plays(scene: Scene) {
    let demo = Demo::start(&[scene.name]);
    let (place, tmux) = speaking(&demo.url, true, scene.languages).await;
    for (number, (end, typed)) in (1..).zip(scene.answers) {
        // An answer cancels the rest of the question, so wait until all of it was spoken.
        hears(&place, end).await;
        at(&tmux, move |tmux| {
            tmux.is_asked(number, end);
            tmux.enter(typed);
        })
        .await;
    }
    hears(&place, &scene.said.last().unwrap().text).await;
    // Before that come remarks of the program itself.
    let from = |said: &Said| *said != scene.said[0];
    let all = gathered(heard(&place).into_iter().skip_while(from).collect(), &scene.said);
    assert!(all == scene.said, "{}\nheard: {all:#?}\nwanted: {:#?}", scene.name, scene.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scene_is_spoken_word_for_word() {
    let playing: Vec<_> = scenes().into_iter().map(|scene| tokio::spawn(plays(scene))).collect();
    let mut wrong = 0;
    for played in playing {
        // Each panics with its own message.
        wrong += usize::from(played.await.is_err());
    }
    assert_eq!(wrong, 0, "scenes are not heard as they should be");
}

/// A question that is resolved elsewhere, and the speech that must not follow.
struct ResolvedElsewhere {
    scene: &'static str,
    answer: PromptAnswer,
    headline: &'static str,
    rest: &'static [&'static str],
    /// The speech that follows.
    next: &'static str,
}

/// Resolves a question elsewhere while its headline is spoken, and checks that the rest is cancelled.
async fn assert_cancelled(settled: ResolvedElsewhere) {
    let ResolvedElsewhere { scene, answer, headline, rest, next } = settled;
    let demo = Demo::start(&[scene]);
    let capabilities = json!({"supports_confirmation_reply": true, "supports_clarification_reply": true});
    let options = ConnectOptions::new("other", serde_json::from_value(capabilities).unwrap());
    let mut other = Subscriber::connect(&demo.url, options).unwrap();
    let (place, tmux) = speaking(&demo.url, false, ENGLISH).await;
    let prompt = loop {
        let heard = soon("the question", other.recv()).await.expect("the demo goes on");
        if let SubscriberEvent::PromptOpened(prompt, _) = heard {
            break prompt;
        }
    };
    let note = format!("begin en {headline}");
    until("the headline", || place.spoken().contains(&note).then_some(())).await;
    soon("the answer", other.reply(prompt.id, answer)).await.unwrap();
    let stopped = || place.spoken().windows(2).any(|pair| pair[0] == note && pair[1] == "stop");
    until("the end of the headline", || stopped().then_some(())).await;
    place.go();
    hears(&place, next).await;
    let told = told(&place);
    assert!(told.contains(&important(headline)), "{told:#?}");
    for text in rest {
        assert!(!told.contains(&message(text)), "{scene}: {text:?} was to be taken back: {told:#?}");
    }
    drop(tmux);
}

#[tokio::test(flavor = "multi_thread")]
async fn speech_about_a_resolved_question_is_cancelled() {
    let banking = ResolvedElsewhere {
        scene: "banking",
        answer: PromptAnswer::reject(),
        headline: "Demo asks: Transfer 500 dollars from checking to savings.",
        rest: &[
            "The money moves at once and the bank cannot take it back.",
            "This cannot be undone. High risk.",
            "You have 5 minutes to answer. Without an answer it will not be done. Answer yes or no.",
        ],
        next: "Nothing was transferred, as you wished.",
    };
    let trip = ResolvedElsewhere {
        scene: "trip",
        answer: PromptAnswer::response(Response::Text("Ibadan".to_owned())),
        headline: "Demo asks: Where would you like to go?",
        rest: &[
            "You have 2 minutes to answer. Without an answer the agent goes on without it. Answer in your own words.",
        ],
        next: "Question 2. Demo asks: How would you like to travel?",
    };
    let photos = ResolvedElsewhere {
        scene: "photos",
        answer: PromptAnswer::response(Response::Boolean(true)),
        headline: "Demo asks: Half is done. Shall I stop here?",
        rest: &["You have 2 minutes to answer. Without an answer the agent goes on without it. Answer yes or no."],
        next: "Before that: 200 of 400 photos are sorted.",
    };
    tokio::join!(assert_cancelled(banking), assert_cancelled(trip), assert_cancelled(photos));
}

fn in_background(text: &str) -> serde_json::Value {
    json!({"urgency": "background", "from_state": "thinking", "to_state": "thinking", "summary_normal": text})
}

#[tokio::test(flavor = "multi_thread")]
async fn background_events_are_spoken_only_in_silence() {
    let fake = FakeProducer::start();
    let (place, tmux) = speaking(&fake.url, false, ENGLISH).await;
    fake.wait_for_listener();
    until("a word", || place.spoken().last().is_some_and(|note| note.starts_with("begin")).then_some(())).await;
    fake.emit("state.changed", in_background("Nobody needs to hear this."));
    fake.emit(
        "state.changed",
        json!({"from_state": "thinking", "to_state": "deciding", "summary_normal": "This matters."}),
    );
    at(&tmux, |tmux| tmux.sees("State: This matters.")).await;
    place.go();
    hears(&place, "This matters.").await;
    assert!(!told(&place).contains(&notification("Nobody needs to hear this.")), "{:#?}", told(&place));
    // When the program knows of the end of the last utterance cannot be seen from outside.
    for n in 1.. {
        let tidy = format!("Tidying up {n}.");
        fake.emit("state.changed", in_background(&tidy));
        let line = tidy.clone();
        at(&tmux, move |tmux| tmux.sees(&line)).await;
        if told(&place).contains(&notification(&tidy)) {
            break;
        }
        assert!(n < 100, "{:#?}", told(&place));
    }
}

#[test]
fn missing_voice_is_reported_and_listening_continues() {
    let demo = Demo::start(&["banking"]);
    let nowhere = "unix_socket:/nonexistent/speechd.sock";
    let tmux =
        Tmux::start(&["listen", "--speak", &demo.url], &[("SPEECHD_ADDRESS", nowhere), ("PATH", "/nonexistent")]);
    tmux.sees("Note: There is no voice: ");
    tmux.sees("Listening to Demo");
}
