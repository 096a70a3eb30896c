//! What reaches a real speech-dispatcher from `aaep listen --speak`: texts, order, priorities, languages, and what is
//! taken back.

use aaep_client::{Answer, Heard, Options, Subscriber};

use super::agents::Demo;
use super::speechd::{Place, soon, until};
use super::tmux::Tmux;

/// What was said: priority, language, text.
fn said(lines: &[String]) -> Vec<(String, String, String)> {
    let (mut priority, mut language) = (String::new(), String::new());
    let mut said = Vec::new();
    let mut text: Option<Vec<&str>> = None;
    for line in lines {
        match &mut text {
            Some(parts) if line == "." => {
                said.push((priority.clone(), language.clone(), parts.join(" ")));
                text = None;
            }
            Some(parts) => parts.push(line.strip_prefix("..").map_or(line.as_str(), |_| &line[1..])),
            None => match line.strip_prefix("SET self PRIORITY ").or(line.strip_prefix("SET self LANGUAGE ")) {
                Some(value) if line.contains("PRIORITY") => priority = value.to_owned(),
                Some(value) => language = value.to_owned(),
                None if line == "SPEAK" => text = Some(Vec::new()),
                None => {}
            },
        }
    }
    said
}

/// The texts with their priority, in order, as far as they are among these.
fn in_order(lines: &[String], wanted: &[(&str, &str)]) {
    let said = said(lines);
    let mut rest = said.iter();
    for (priority, text) in wanted {
        let found = rest.any(|(p, language, t)| p == priority && t == text && language.starts_with("en"));
        assert!(found, "{priority} {text:?} is missing or too late in:\n{said:#?}");
    }
}

/// Starts a voice whose words end at once if `flowing`, and a terminal that speaks with it.
async fn speaking(demo: &Demo, flowing: bool) -> (Place, Tmux) {
    let mut place = Place::held();
    if flowing {
        place.go();
    }
    place.serve().await;
    let address = format!("unix_socket:{}", place.path("tap.sock").display());
    let tmux = Tmux::start(&["listen", "--speak", &demo.url], &[("SPEECHD_ADDRESS", &address)]);
    (place, tmux)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_banking_session_is_spoken() {
    let demo = Demo::start(&["banking", "--once", "--no-pauses"]);
    let (place, tmux) = speaking(&demo, true).await;
    // What is not said yet when the answer goes out is taken back, so all of the question is waited for.
    until("the whole question", || place.lines().iter().any(|line| line.starts_with("You have ")).then_some(())).await;
    let typing = tokio::task::spawn_blocking(move || {
        tmux.is_asked(1, "Answer yes or no.");
        tmux.enter("yes");
        tmux.sees("End: Done.");
        tmux
    });
    let _tmux = typing.await.unwrap();
    let done = "Done. 500 dollars are in savings now. Checking holds 12,000 dollars.";
    until("the last words", || place.lines().iter().any(|line| line == done).then_some(())).await;
    // A question overtakes what waits, so only their presence is certain.
    for text in ["The voice is on.", "Looking after your transfer to savings."] {
        in_order(&place.lines(), &[("message", text)]);
    }
    in_order(
        &place.lines(),
        &[
            ("important", "Demo asks: Transfer 500 dollars from checking to savings."),
            ("message", "The money moves at once and the bank cannot take it back."),
            ("message", "This cannot be undone. High risk."),
            ("message", "Your answer was sent."),
            ("message", "Transferring 500 dollars to savings."),
            ("message", done),
        ],
    );
    let important = said(&place.lines()).into_iter().filter(|(priority, _, _)| priority == "important").count();
    assert_eq!(important, 1, "only the headline of a question blocks everything else");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_about_a_settled_question_are_taken_back() {
    let demo = Demo::start(&["banking", "--once", "--no-pauses"]);
    // Someone else listens too, and will answer.
    let capabilities = serde_json::from_str(r#"{"supports_confirmation_reply": true}"#).unwrap();
    let mut other = Subscriber::connect(&demo.url, Options::new("other", capabilities)).unwrap();
    let (place, tmux) = speaking(&demo, false).await;
    let prompt = loop {
        let heard = soon("the question", other.recv()).await.expect("the demo goes on");
        if let Heard::PromptOpened(prompt, _) = heard {
            break prompt;
        }
    };
    let asks = "Demo asks: Transfer 500 dollars from checking to savings.";
    let begun = |place: &Place| place.heard().iter().any(|line| line.starts_with("begin") && line.contains(asks));
    until("the headline", || begun(&place).then_some(())).await;
    soon("the answer", other.reply(prompt.id, Answer::reject())).await.unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        tmux.sees("Nothing was transferred, as you wished.");
        tmux
    });
    let _tmux = reading.await.unwrap();
    place.go();
    until("the end", || place.lines().iter().any(|line| line.contains("Nothing was transferred, as")).then_some(()))
        .await;
    let lines = place.lines();
    assert!(!said(&lines).iter().any(|(_, _, text)| text.contains("The money moves at once")), "{lines:#?}");
    assert!(!said(&lines).iter().any(|(_, _, text)| text.contains("Answer yes or no")), "{lines:#?}");
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
