//! Descriptions of recordings, and hostile recordings.

use std::io::Write;
use std::process::Stdio;

use aaep_test::{example, root};
use serde_json::{Value, json};

use crate::harness::{RecordingDir, event, events, run, start_with, until};

const BANKING: &str = "\
Harbour Bank Helper, session sess_7b1f0c52d9e84a36
Began 2026-06-02T09:15:01.204Z, 13 events in 11.1 seconds. It ended completed.
At 0.0 seconds: The session began. Looking after your transfer to savings.
At 0.1 seconds: Reading your request.
At 0.8 seconds: It used fetch_balance. Looking up your checking balance.
At 2.2 seconds: fetch_balance succeeded. Checking holds 12,500 dollars.
At 3.8 seconds: It asked for a yes or no. Transfer 500 dollars from checking to savings. The money moves at once. Only the bank can bring it back. This cannot be undone.
At 8.4 seconds: user:ada said yes.
At 8.5 seconds: It used transfer_funds. Transferring 500 dollars to savings. This cannot be undone.
At 9.7 seconds: transfer_funds succeeded. The transfer went through.
At 10.8 seconds: It wrote: I moved 500 dollars to savings. Checking now holds 12,000 dollars.
At 11.1 seconds: The session was completed. Your transfer is done.
States: idle from 0.0 to 0.1 seconds; thinking from 0.1 to 2.3 seconds; deciding from 2.3 to 2.9 seconds; thinking from 2.9 to 3.8 seconds; awaiting input from 3.8 to 8.5 seconds; calling tool from 8.5 to 9.8 seconds; writing output from 9.8 to 11.1 seconds.";

fn banking() -> String {
    root().join("examples/banking.ndjson").to_str().unwrap().to_owned()
}

#[test]
fn description_has_a_sentence_for_each_event() {
    let left = run(&["replay", "--describe", &banking()]);
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    assert_eq!(left.out.join("\n"), BANKING);
}

#[test]
fn description_as_json() {
    let left = run(&["replay", "--describe", "--json", &banking()]);
    assert_eq!(left.code, Some(0));
    let story: Value = serde_json::from_str(&left.out.join("\n")).unwrap();
    let session = &story["sessions"][0];
    assert_eq!(session["session_id"], "sess_7b1f0c52d9e84a36");
    assert_eq!(
        (&session["events"], &session["end"], &session["duration_ms"]),
        (&json!(13), &json!("completed"), &json!(11096))
    );
    assert_eq!(session["story"][5], json!({"at_ms": 8396, "text": "user:ada said yes."}));
    assert_eq!(session["states"][4], json!({"state": "awaiting_input", "from_ms": 3816, "to_ms": 8496}));
}

#[test]
fn svg_has_a_title_and_a_description_of_all_it_shows() {
    let dir = RecordingDir::new();
    let left = run(&["replay", "--svg", &dir.name("states.svg"), &banking()]);
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    let states = BANKING.lines().last().unwrap();
    let asked = "Question at 3.8 seconds: Transfer 500 dollars from checking to savings.";
    let words = format!("Harbour Bank Helper, session sess_7b1f0c52d9e84a36. {states} {asked}");
    assert_eq!(left.out, std::slice::from_ref(&words), "the same facts, as text");
    let text = std::fs::read_to_string(dir.path("states.svg")).unwrap();
    let svg = roxmltree::Document::parse(&text).unwrap();
    let svg = svg.root_element();
    assert!(svg.has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    assert_eq!((svg.attribute("role"), svg.attribute("aria-labelledby")), (Some("img"), Some("title desc")));
    let child = |name: &str| svg.children().find(|node| node.attribute("id") == Some(name)).unwrap();
    assert!(child("title").has_tag_name(("http://www.w3.org/2000/svg", "title")));
    assert_eq!(child("title").text(), Some("States of Harbour Bank Helper, session sess_7b1f0c52d9e84a36"));
    assert_eq!(child("desc").text(), Some(words.as_str()));
    let bars = svg.children().filter(|node| node.attribute("class") == Some("bar"));
    assert_eq!(bars.count(), 7);
    let questions: Vec<_> = svg.children().filter(|node| node.attribute("class") == Some("question")).collect();
    assert_eq!(questions.len(), 1);
    let title = questions[0].first_element_child().unwrap();
    assert_eq!(title.text(), Some(asked));
}

/// Returns a recording with invalid lines, and their numbers.
fn hostile() -> (Vec<u8>, [u64; 6]) {
    let good = example("banking.ndjson");
    let mut bytes = Vec::new();
    let mut line = |text: &[u8]| {
        bytes.extend_from_slice(text);
        bytes.push(b'\n');
    };
    line(good[0].as_bytes());
    line(b"\x1b]0;owned\x07 garbage");
    line(&vec![b'x'; 3 * 1024 * 1024]);
    line(br#"{"type":"aaep:agent.state.changed","event_id":"\u001b[2J"}"#);
    line(b"\xff\xfe\x00");
    line("[".repeat(100_000).as_bytes());
    line(good[1].as_bytes());
    line(&good[2].as_bytes()[..100]);
    (bytes, [2, 3, 4, 5, 6, 8])
}

fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !c.is_control())
}

#[test]
fn invalid_lines_are_reported_and_nothing_is_sent() {
    let dir = RecordingDir::new();
    let (bytes, bad) = hostile();
    std::fs::write(dir.path("x"), bytes).unwrap();
    let name = dir.name("x");
    for args in [&["replay", &name, "--listen", "127.0.0.1:0", "--no-unix"][..], &["replay", "--describe", &name]] {
        let left = run(args);
        assert_eq!((left.code, left.out.len()), (Some(1), 0), "{left:?}");
        let told: Vec<u64> = left
            .err
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("aaep: {name}:"))?.split(':').next()?.parse().ok())
            .collect();
        assert_eq!(told, bad, "{}", left.err);
        assert!(is_plain(&left.err), "{:?}", left.err);
        assert!(left.err.len() < 20_000, "a hostile line is not repeated at length");
    }
    let (replay, [url, ..]) = dir.replay(&name, &["--no-delay", "--skip-bad"]);
    let left = run(&["capture", &url]);
    assert_eq!(events(&left.out), events(&example("banking.ndjson")[..2]));
    let left = replay.end();
    assert_eq!(left.code, Some(0));
    assert!(is_plain(&left.err));
}

#[test]
fn control_characters_of_an_agent_are_escaped() {
    let dir = RecordingDir::new();
    let mut nasty = event(1, "2026-06-02T09:15:13Z");
    nasty["producer"]["agent_name"] = json!("Bank <script> & \u{202e}knab\u{9b}31m");
    nasty["chunk"] = json!("one\u{1b}[2J\r\ntwo\u{7}");
    let file = dir.file("x", &[nasty.to_string()]);
    let svg = dir.name("s.svg");
    let left = run(&["replay", "--skip-bad", "--describe", "--svg", &svg, &file]);
    assert!(is_plain(&left.err) && left.out.iter().all(|line| is_plain(line)), "{left:?}");
    if left.code == Some(0) {
        let text = std::fs::read_to_string(&svg).unwrap();
        assert!(is_plain(&text));
        roxmltree::Document::parse(&text).unwrap();
    } else {
        // The validator may not even let it in.
        assert!(left.err.contains(":1: "), "{left:?}");
    }
}

#[test]
fn reply_to_a_recorded_question_is_ignored() {
    let dir = RecordingDir::new();
    let mut lines = example("banking.ndjson")[..7].to_vec();
    // The last event is a year later, so that only a signal ends this replay.
    lines.push(event(1, "2027-06-02T09:15:13Z").to_string());
    let file = dir.file("x", &lines);
    let mut replay = start_with(&["replay", "--stdio", &file, "--speed", "1000"], Stdio::piped());
    let mut input = replay.stdin();
    let mut say = |message: Value| writeln!(input, "{message}").unwrap();
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
        "capabilities": {"supports_confirmation_reply": true}});
    say(json!({"jsonrpc": "2.0", "id": 1, "method": "aaep.subscribe", "params": request}));
    let accepted: Value = serde_json::from_str(&replay.line()).unwrap();
    let subscription = accepted["result"]["subscription_id"].clone();
    let mut heard = Vec::new();
    while heard.len() < 7 {
        let mut line: Value = serde_json::from_str(&replay.line()).unwrap();
        heard.extend((line["method"] == "aaep.event").then(|| line["params"].take()));
    }
    assert_eq!(heard, events(&lines)[..7], "word for word");
    let reply = json!({"type": "confirmation.reply", "reply_token": heard[6]["reply_token"], "decision": "accept",
        "subscription_id": subscription, "timestamp": "2026-06-02T09:15:06Z"});
    say(json!({"jsonrpc": "2.0", "method": "aaep.reply", "params": reply}));
    until("the note", || replay.said() == "aaep: a reply was ignored: questions of a recording cannot be answered\n");
    replay.signal("TERM");
    let left = replay.end();
    assert_eq!(left.code, Some(0));
    let after: Vec<Value> = left.out.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(after.iter().all(|line| line["method"] != "aaep.event"), "the reply caused an event: {after:?}");
}
