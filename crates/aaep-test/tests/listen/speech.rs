//! What reaches a real speech-dispatcher from `aaep listen --speak`: texts, order, priorities, languages, and what is
//! taken back.

use std::sync::Arc;

use aaep_client::{ConnectOptions, PromptAnswer, Subscriber, SubscriberEvent};
use aaep_proto::message::Response;
use serde_json::json;

use super::agents::{Demo, Puppet};
use super::said::{Said, gathered, heard, important, message, notification, told};
use super::scenes::{Scene, scenes};
use super::speechd::{LONG, Place, soon, until};
use super::tmux::Tmux;

pub(crate) const ENGLISH: &str = "[\"en\"]";

/// Starts a voice whose words end at once if `flowing`, and a terminal that speaks with it.
async fn speaking(url: &str, flowing: bool, languages: &str) -> (Place, Arc<Tmux>) {
    let mut place = Place::held();
    if flowing {
        place.go();
    }
    place.serve().await;
    let address = format!("unix_socket:{}", place.path("tap.sock").display());
    // Who hears fast is not made to wait by the agent.
    let profile = place.path("profile.toml");
    std::fs::write(&profile, format!("pace_wpm = 1000\nlanguages = {languages}")).unwrap();
    let words = ["listen", "--speak", "--profile", profile.to_str().unwrap(), url];
    let tmux = Tmux::start(&words, &[("SPEECHD_ADDRESS", &address)]);
    (place, Arc::new(tmux))
}

/// Does something with the terminal that may take its time.
async fn at<T: Send + 'static>(tmux: &Arc<Tmux>, work: impl FnOnce(&Tmux) -> T + Send + 'static) -> T {
    let tmux = Arc::clone(tmux);
    tokio::task::spawn_blocking(move || work(&tmux)).await.unwrap()
}

/// Waits until a text that ends like this was heard.
async fn hears(place: &Place, end: &str) {
    let deadline = tokio::time::Instant::now() + LONG;
    while !heard(place).iter().any(|said| said.text.ends_with(end)) {
        let late = tokio::time::Instant::now() > deadline;
        assert!(!late, "{end:?} is not heard, only:\n{:#?}", heard(place));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Plays a scene to its end and compares all that is heard of it, from the first word to the last.
async fn plays(scene: Scene) {
    let demo = Demo::start(&[scene.name]);
    let (place, tmux) = speaking(&demo.url, true, scene.languages).await;
    for (number, (end, typed)) in (1..).zip(scene.answers) {
        // What is not said yet when the answer goes out is taken back, so all of the question is waited for.
        hears(&place, end).await;
        at(&tmux, move |tmux| {
            tmux.is_asked(number, end);
            tmux.enter(typed);
        })
        .await;
    }
    hears(&place, &scene.said.last().unwrap().text).await;
    // Before that, the terminal tells about itself.
    let from = |said: &Said| *said != scene.said[0];
    let all = gathered(heard(&place).into_iter().skip_while(from).collect(), &scene.said);
    assert!(all == scene.said, "{}\nheard: {all:#?}\nwanted: {:#?}", scene.name, scene.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scene_is_heard_word_for_word() {
    let playing: Vec<_> = scenes().into_iter().map(|scene| tokio::spawn(plays(scene))).collect();
    let mut wrong = 0;
    for played in playing {
        // Each tells what is wrong with it when it ends.
        wrong += usize::from(played.await.is_err());
    }
    assert_eq!(wrong, 0, "scenes are not heard as they should be");
}

/// A question, how someone else answers it, and what is then not worth hearing.
struct Settled {
    scene: &'static str,
    answer: PromptAnswer,
    headline: &'static str,
    rest: &'static [&'static str],
    /// What is heard after it.
    next: &'static str,
}

/// Settles a question elsewhere while its headline is being said.
async fn is_taken_back(settled: Settled) {
    let Settled { scene, answer, headline, rest, next } = settled;
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
    until("the headline", || place.heard().contains(&note).then_some(())).await;
    soon("the answer", other.reply(prompt.id, answer)).await.unwrap();
    let stopped = || place.heard().windows(2).any(|pair| pair[0] == note && pair[1] == "stop");
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
async fn words_about_a_settled_question_are_taken_back() {
    let banking = Settled {
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
    let trip = Settled {
        scene: "trip",
        answer: PromptAnswer::response(Response::Text("Ibadan".to_owned())),
        headline: "Demo asks: Where would you like to go?",
        rest: &[
            "You have 2 minutes to answer. Without an answer the agent goes on without it. Answer in your own words.",
        ],
        next: "Demo asks: How would you like to travel?",
    };
    let photos = Settled {
        scene: "photos",
        answer: PromptAnswer::response(Response::Boolean(true)),
        headline: "Demo asks: Half is done. Shall I stop here?",
        rest: &["You have 2 minutes to answer. Without an answer the agent goes on without it. Answer yes or no."],
        next: "Before that: 200 of 400 photos are sorted.",
    };
    tokio::join!(is_taken_back(banking), is_taken_back(trip), is_taken_back(photos));
}

fn in_background(text: &str) -> serde_json::Value {
    json!({"urgency": "background", "from_state": "thinking", "to_state": "thinking", "summary_normal": text})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_in_the_background_is_said_into_silence_only() {
    let puppet = Puppet::start();
    let (place, tmux) = speaking(&puppet.url, false, ENGLISH).await;
    puppet.has_listener();
    until("a word", || place.heard().last().is_some_and(|note| note.starts_with("begin")).then_some(())).await;
    puppet.say("state.changed", in_background("Nobody needs to hear this."));
    puppet.say(
        "state.changed",
        json!({"from_state": "thinking", "to_state": "deciding", "summary_normal": "This matters."}),
    );
    at(&tmux, |tmux| tmux.sees("State: This matters.")).await;
    place.go();
    hears(&place, "This matters.").await;
    assert!(!told(&place).contains(&notification("Nobody needs to hear this.")), "{:#?}", told(&place));
    // Silence begins when the last word's end is known here, which cannot be seen from outside.
    for n in 1.. {
        let tidy = format!("Tidying up {n}.");
        puppet.say("state.changed", in_background(&tidy));
        let line = tidy.clone();
        at(&tmux, move |tmux| tmux.sees(&line)).await;
        if told(&place).contains(&notification(&tidy)) {
            break;
        }
        assert!(n < 100, "{:#?}", told(&place));
    }
}

#[test]
fn without_a_voice_it_says_why_and_goes_on() {
    let demo = Demo::start(&["banking"]);
    let nowhere = "unix_socket:/nonexistent/speechd.sock";
    let tmux =
        Tmux::start(&["listen", "--speak", &demo.url], &[("SPEECHD_ADDRESS", nowhere), ("PATH", "/nonexistent")]);
    tmux.sees("Note: There is no voice: ");
    tmux.sees("Listening to Demo");
}
