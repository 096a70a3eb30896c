//! Speech through a real speech-dispatcher: the exact words, order, priorities, languages and cancellations.
//!
//! Needs the Debian packages speech-dispatcher, speech-dispatcher-espeak-ng and espeak-ng. Each test starts its own
//! server in a temporary directory, without audio output.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

#[allow(dead_code, reason = "shared with the tests of listeners")]
mod speechd;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aaep_announce::{Priority, Utterance};
use aaep_voice::ssip::Punctuation;
use aaep_voice::{Endpoint, Voice, VoiceConfig, VoiceError, VoiceEvent};
use speechd::{TestSpeechd, begun, ended, event, soon, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};

fn message(text: &str, about: &str) -> Utterance {
    Utterance { about: Some(about.into()), ..Utterance::new(text, "en", Priority::Message) }
}

fn important(text: &str) -> Utterance {
    Utterance::new(text, "en", Priority::Important)
}

async fn connect(config: VoiceConfig) -> Voice {
    soon("the connection", Voice::connect(config)).await.unwrap()
}

#[tokio::test]
async fn espeak_speaks_every_priority_and_language_completely() {
    let mut speechd = TestSpeechd::espeak();
    let config = speechd.serve().await;
    let modules = speechd.ask("LIST OUTPUT_MODULES").await;
    assert!(modules.contains("espeak-ng"), "install the Debian package speech-dispatcher-espeak-ng: {modules}");
    let voice = connect(config).await;
    let mut events = voice.events();
    for (text, language, priority) in [
        ("Delete three files?", "en", Priority::Important),
        ("They are old.", "en", Priority::Message),
        ("Zur Hälfte fertig.", "de-DE", Priority::Progress),
        ("A neighbour is done.", "en", Priority::Notification),
        ("Done.", "en", Priority::Message),
    ] {
        let id = voice.say(Utterance::new(text, language, priority)).unwrap();
        assert!(matches!(event(&mut events).await, VoiceEvent::Begun { id: begun, .. } if begun == id), "{text}");
        assert!(matches!(event(&mut events).await, VoiceEvent::Ended { id: ended, .. } if ended == id), "{text}");
    }
    let lines = speechd.lines();
    assert!(lines[0].starts_with("SET self CLIENT_NAME ") && lines[0].ends_with(":aaep:main"), "{}", lines[0]);
    assert_eq!(
        lines[1..],
        [
            "SET self NOTIFICATION ALL on",
            "SET self SSML_MODE off",
            "SET self LANGUAGE en",
            "SET self PRIORITY important",
            "SPEAK",
            "Delete three files?",
            ".",
            "SET self PRIORITY message",
            "SPEAK",
            "They are old.",
            ".",
            "SET self LANGUAGE de-DE",
            "SET self PRIORITY progress",
            "SPEAK",
            "Zur Hälfte fertig.",
            ".",
            "SET self LANGUAGE en",
            "SET self PRIORITY notification",
            "SPEAK",
            "A neighbour is done.",
            ".",
            "SET self PRIORITY message",
            "SPEAK",
            "Done.",
            ".",
        ]
    );
}

#[tokio::test]
async fn texts_reach_the_synthesizer_unchanged() {
    let mut speechd = TestSpeechd::held();
    let words_per_minute = Some(310);
    let punctuation = Some(Punctuation::Some);
    let voice = connect(VoiceConfig { words_per_minute, punctuation, ..speechd.serve().await }).await;
    speechd.go();
    let mut events = voice.events();
    let texts = [".hidden", "a\n.\n..b\r\n.QUIT\nc", "if a < b && c > \"d\": it's", "...", "Über 5 € 日本語"];
    for text in texts {
        let id = voice.say(Utterance::new(text, "en-GB", Priority::Message)).unwrap();
        ended(&mut events, id).await;
    }
    let expected = [
        "begin en-gb .hidden",
        "end",
        "begin en-gb a\\n.\\n..b\\n.QUIT\\nc",
        "end",
        "begin en-gb if a < b && c > \"d\": it's",
        "end",
        "begin en-gb ...",
        "end",
        "begin en-gb Über 5 € 日本語",
        "end",
    ];
    assert_eq!(speechd.spoken(), expected);
    let settings = speechd.settings();
    assert!(settings.contains("rate=50\n") && settings.contains("punctuation_mode=some\n"), "{settings}");
    assert_eq!(speechd.lines().iter().filter(|line| line.starts_with("SET self LANGUAGE")).count(), 1);
}

#[tokio::test]
async fn cancel_about_cancels_all_messages_of_that_topic_only() {
    let mut speechd = TestSpeechd::held();
    let voice = connect(speechd.serve().await).await;
    let mut events = voice.events();
    let said = voice.say(message("Old question.", "old")).unwrap();
    begun(&mut events, said).await;
    let waiting = voice.say(message("Old details.", "old")).unwrap();
    let other = voice.say(message("New question.", "new")).unwrap();
    let last = voice.say(message("Old reminder.", "old")).unwrap();
    voice.cancel_about("old");
    let about = || Some("old".to_owned());
    for id in [waiting, last, said] {
        assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id, about: about() });
    }
    begun(&mut events, other).await;
    speechd.go();
    ended(&mut events, other).await;
    assert_eq!(speechd.spoken(), ["begin en Old question.", "stop", "begin en New question.", "end"]);
    let taken: Vec<String> = speechd.lines().into_iter().filter(|line| line.contains("CANCEL")).collect();
    assert_eq!(taken, ["CANCEL self"]);
    assert!(!speechd.lines().iter().any(|line| line.ends_with(" all") || line.starts_with("STOP")));
}

#[tokio::test]
async fn cancel_about_cancels_a_message_just_sent() {
    let mut speechd = TestSpeechd::held();
    let voice = connect(speechd.serve().await).await;
    let mut events = voice.events();
    // Does not wait for its start, so the cancellation arrives at any stage of the message.
    for _ in 0..20 {
        let id = voice.say(message("Stale.", "old")).unwrap();
        voice.cancel_about("old");
        loop {
            match event(&mut events).await {
                VoiceEvent::Canceled { id: gone, .. } if gone == id => break,
                VoiceEvent::Begun { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        tokio::task::yield_now().await;
    }
    let fresh = voice.say(message("Fresh.", "new")).unwrap();
    begun(&mut events, fresh).await;
    speechd.go();
    ended(&mut events, fresh).await;
    let spoken = speechd.spoken();
    assert_eq!(spoken[spoken.len() - 2..], ["begin en Fresh.", "end"]);
    assert!(
        spoken.iter().zip(&spoken[1..]).all(|(one, next)| !one.ends_with("Stale.") || next == "stop"),
        "{spoken:?}"
    );
}

#[tokio::test]
async fn important_message_interrupts_and_queued_messages_follow() {
    let mut speechd = TestSpeechd::held();
    let voice = connect(speechd.serve().await).await;
    let mut events = voice.events();
    let long = voice.say(message("A long story.", "story")).unwrap();
    begun(&mut events, long).await;
    let later = voice.say(message("The next chapter.", "story")).unwrap();
    let first = voice.say(important("Confirm.")).unwrap();
    assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id: long, about: Some("story".into()) });
    begun(&mut events, first).await;
    assert!(!speechd.lines().contains(&"CANCEL self".to_owned()), "the priority alone interrupts");
    let second = voice.say(important("Confirm this too.")).unwrap();
    speechd.go();
    for id in [first, second, later] {
        ended(&mut events, id).await;
    }
    assert_eq!(
        speechd.spoken(),
        [
            "begin en A long story.",
            "stop",
            "begin en Confirm.",
            "end",
            "begin en Confirm this too.",
            "end",
            "begin en The next chapter.",
            "end",
        ]
    );
}

#[tokio::test]
async fn stop_cancels_everything_and_later_messages_are_spoken() {
    let mut speechd = TestSpeechd::held();
    let voice = connect(speechd.serve().await).await;
    let mut events = voice.events();
    let said = voice.say(important("Never ending.")).unwrap();
    begun(&mut events, said).await;
    let waiting = voice.say(message("More.", "a")).unwrap();
    voice.stop();
    assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id: waiting, about: Some("a".into()) });
    assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id: said, about: None });
    soon("silence", voice.idle()).await;
    let next = voice.say(message("Again.", "a")).unwrap();
    begun(&mut events, next).await;
    speechd.go();
    ended(&mut events, next).await;
    assert_eq!(speechd.spoken(), ["begin en Never ending.", "stop", "begin en Again.", "end"]);
}

#[tokio::test]
async fn speech_of_other_clients_is_not_cancelled() {
    let mut speechd = TestSpeechd::held();
    let config = speechd.serve().await;
    let (voice, other) = (connect(config.clone()).await, connect(config).await);
    let (mut events, mut others) = (voice.events(), other.events());
    let reading = other.say(message("The user's own reader.", "x")).unwrap();
    begun(&mut others, reading).await;
    let ours = voice.say(message("Ours.", "x")).unwrap();
    until("ours to be handed over", || speechd.lines().contains(&"Ours.".to_owned()).then_some(())).await;
    voice.cancel_about("x");
    voice.stop();
    assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id: ours, about: Some("x".into()) });
    speechd.go();
    ended(&mut others, reading).await;
    assert_eq!(speechd.spoken(), ["begin en The user's own reader.", "end"]);
}

#[tokio::test]
async fn last_progress_is_spoken_after_other_clients() {
    let mut speechd = TestSpeechd::held();
    let config = speechd.serve().await;
    let (voice, other) = (connect(config.clone()).await, connect(config).await);
    let (mut events, mut others) = (voice.events(), other.events());
    let reading = other.say(message("The user's own reader.", "x")).unwrap();
    begun(&mut others, reading).await;
    let id = voice.say(Utterance::new("All done.", "en", Priority::Progress)).unwrap();
    until("it to be handed over", || speechd.lines().contains(&"All done.".to_owned()).then_some(())).await;
    // The server postpones it for this message but speaks it in the end.
    let urgent = other.say(important("Battery low.")).unwrap();
    begun(&mut others, urgent).await;
    assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id, about: None });
    speechd.go();
    assert_eq!(event(&mut events).await, VoiceEvent::Begun { id, about: None });
    assert_eq!(event(&mut events).await, VoiceEvent::Ended { id, about: None });
    let spoken = speechd.spoken();
    assert_eq!(spoken[spoken.len() - 2..], ["begin en All done.", "end"]);
}

#[tokio::test]
async fn cancelled_progress_is_not_spoken_after_other_clients() {
    let mut speechd = TestSpeechd::held();
    let config = speechd.serve().await;
    let (voice, other) = (connect(config.clone()).await, connect(config).await);
    let (mut events, mut others) = (voice.events(), other.events());
    let reading = other.say(message("The user's own reader.", "x")).unwrap();
    begun(&mut others, reading).await;
    let stale = Utterance { about: Some("old".into()), ..Utterance::new("Half done.", "en", Priority::Progress) };
    let id = voice.say(stale).unwrap();
    until("it to be handed over", || speechd.lines().contains(&"Half done.".to_owned()).then_some(())).await;
    let details = voice.say(message("Details.", "new")).unwrap();
    voice.cancel_about("old");
    assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id, about: Some("old".into()) });
    speechd.go();
    ended(&mut others, reading).await;
    ended(&mut events, details).await;
    let after = voice.say(message("After.", "new")).unwrap();
    ended(&mut events, after).await;
    let spoken = speechd.spoken();
    assert!(
        spoken.iter().zip(&spoken[1..]).all(|(one, next)| !one.ends_with("Half done.") || next == "stop"),
        "{spoken:?}"
    );
}

#[tokio::test]
async fn dropped_voice_quits_and_finishes_its_speech() {
    let mut speechd = TestSpeechd::held();
    let voice = connect(speechd.serve().await).await;
    let mut events = voice.events();
    let id = voice.say(message("The last words.", "a")).unwrap();
    begun(&mut events, id).await;
    drop(voice);
    until("the goodbye", || (speechd.lines().last()? == "QUIT").then_some(())).await;
    assert_eq!(soon("the end", events.next()).await, None);
    speechd.go();
    until("the end of the words", || (speechd.spoken() == ["begin en The last words.", "end"]).then_some(())).await;
}

#[tokio::test]
async fn server_over_tcp_works() {
    let mut speechd = TestSpeechd::held();
    speechd.serve().await;
    speechd.go();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let real = speechd.path("real.sock");
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = UnixStream::connect(real).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let address = Some(Endpoint::Tcp("127.0.0.1".into(), port));
    let voice = connect(VoiceConfig { address, start: None, ..VoiceConfig::default() }).await;
    let mut events = voice.events();
    let id = voice.say(important("Far away.")).unwrap();
    ended(&mut events, id).await;
    assert_eq!(speechd.spoken(), ["begin en Far away.", "end"]);
}

#[tokio::test]
async fn restarted_server_speaks_pending_messages_again() {
    let speechd = TestSpeechd::held();
    let mut start = vec!["speech-dispatcher".to_owned(), "--spawn".to_owned()];
    start.extend(speechd.arguments());
    let address = Some(Endpoint::Unix(speechd.path("own.sock")));
    let voice = connect(VoiceConfig { address, start: Some(start), ..VoiceConfig::default() }).await;
    let mut events = voice.events();
    let said = voice.say(important("Confirm.")).unwrap();
    begun(&mut events, said).await;
    let waiting = voice.say(message("Details.", "a")).unwrap();
    let progress = voice.say(Utterance::new("Half.", "en", Priority::Progress)).unwrap();
    speechd.kill_spawned();
    assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id: progress, about: None });
    assert_eq!(event(&mut events).await, VoiceEvent::Lost(VoiceError::Closed));
    assert_eq!(event(&mut events).await, VoiceEvent::Back);
    begun(&mut events, said).await;
    speechd.go();
    ended(&mut events, said).await;
    ended(&mut events, waiting).await;
    assert_eq!(speechd.spoken(), ["begin en Confirm.", "begin en Confirm.", "end", "begin en Details.", "end",]);
}

/// Starts a server that responds to each line with `answer`, and closes the connection if that returns `None`.
fn fake(answer: impl Fn(usize, &str) -> Option<String> + Send + 'static) -> (tempfile::TempDir, VoiceConfig) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fake.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        for connection in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut pending, mut buffer) = (String::new(), [0; 1024]);
            'talk: while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                pending.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
                while let Some((line, rest)) = pending.split_once("\r\n") {
                    let Some(reply) = answer(connection, line) else { break 'talk };
                    if stream.write_all(reply.as_bytes()).await.is_err() {
                        break 'talk;
                    }
                    pending = rest.to_owned();
                }
            }
        }
    });
    (directory, VoiceConfig { address: Some(Endpoint::Unix(path)), start: None, ..VoiceConfig::default() })
}

/// Responds like a server that speaks every message immediately.
fn obedient(line: &str) -> String {
    match line {
        "SPEAK" => "230 OK RECEIVING DATA\r\n".into(),
        "." => "225-1\r\n701-1\r\n701-1\r\n701 BEGIN\r\n225 OK\r\n702-1\r\n702-1\r\n702 END\r\n".into(),
        line if line.starts_with("SET") || line.starts_with("CANCEL") => "200 OK\r\n".into(),
        _ => String::new(),
    }
}

#[tokio::test]
async fn hostile_replies_are_typed_errors() {
    for (answer, error) in [
        ("HTTP/1.1 400 Bad Request\r\n".to_owned(), VoiceError::MalformedReply("a line without a code")),
        ("2".repeat(100_000), VoiceError::MalformedReply("an endless line")),
        ("200-more\r\n".repeat(10_000), VoiceError::MalformedReply("an endless answer")),
        ("701-1\r\n701 BEGIN\r\n".repeat(10_000), VoiceError::MalformedReply("too many events")),
        ("502 GO AWAY\r\n".to_owned(), VoiceError::Refused("502 GO AWAY".into())),
    ] {
        let (_directory, config) = fake(move |_, _| Some(answer.clone()));
        assert_eq!(soon("the error", Voice::connect(config)).await.err(), Some(error));
    }
    let (_directory, config) = fake(|_, _| None);
    assert_eq!(soon("the error", Voice::connect(config)).await.err(), Some(VoiceError::Closed));
}

#[tokio::test]
async fn message_that_kills_the_server_is_retried_once() {
    let (_directory, config) = fake(|_, line| match line {
        "Poison." => Some("\u{0}\r\n".into()),
        line => Some(obedient(line)),
    });
    let voice = connect(config).await;
    let mut events = voice.events();
    let poison = voice.say(message("Poison.", "a")).unwrap();
    let good = voice.say(message("Good.", "a")).unwrap();
    let about = || Some("a".to_owned());
    let lost = VoiceEvent::Lost(VoiceError::MalformedReply("a line without a code"));
    let expected = [
        lost.clone(),
        VoiceEvent::Back,
        VoiceEvent::Canceled { id: poison, about: about() },
        lost,
        VoiceEvent::Back,
        VoiceEvent::Begun { id: good, about: about() },
        VoiceEvent::Ended { id: good, about: about() },
    ];
    for expected in expected {
        assert_eq!(event(&mut events).await, expected);
    }
}

#[tokio::test]
async fn message_that_never_ends_does_not_block_the_queue() {
    let taken = AtomicU32::new(0);
    let (_directory, config) = fake(move |_, line| match line {
        // The first message is accepted, but no event follows.
        "." if taken.fetch_add(1, Ordering::Relaxed) == 0 => Some("225-9\r\n225 OK\r\n".into()),
        line => Some(obedient(line)),
    });
    let voice = connect(VoiceConfig { timeout: Duration::ZERO, ..config }).await;
    let mut events = voice.events();
    let stuck = voice.say(message("Stuck.", "a")).unwrap();
    let good = voice.say(message("Good.", "b")).unwrap();
    assert_eq!(event(&mut events).await, VoiceEvent::Canceled { id: stuck, about: Some("a".into()) });
    ended(&mut events, good).await;
}

#[tokio::test]
async fn outage_is_reported_once() {
    let (_directory, config) = fake(|connection, line| (connection >= 3).then(|| obedient(line)));
    let voice = Voice::start(config);
    let mut events = voice.events();
    let id = voice.say(message("Patience.", "a")).unwrap();
    assert_eq!(event(&mut events).await, VoiceEvent::Lost(VoiceError::Closed));
    assert_eq!(event(&mut events).await, VoiceEvent::Back);
    ended(&mut events, id).await;
}

#[tokio::test]
async fn events_of_unknown_messages_are_ignored() {
    let (_directory, config) = fake(|_, line| {
        let noise = "703-77\r\n703-1\r\n703 CANCELED\r\n702-18446744073709551615\r\n702-1\r\n702 END\r\n";
        let answer = obedient(line);
        Some(if answer.is_empty() { answer } else { format!("{noise}{answer}") })
    });
    let voice = connect(config).await;
    let mut events = voice.events();
    let id = voice.say(message("Fine.", "a")).unwrap();
    let about = || Some("a".to_owned());
    assert_eq!(event(&mut events).await, VoiceEvent::Begun { id, about: about() });
    assert_eq!(event(&mut events).await, VoiceEvent::Ended { id, about: about() });
}
