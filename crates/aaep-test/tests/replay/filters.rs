//! Filters, limits and usage errors.

use serde_json::{Value, json};

use crate::harness::{CommandResult, RecordingDir, event, events, long_recording, read, recording, run};

/// Replays a recording to a capture with these arguments. Returns what it wrote.
fn captured(lines: &[String], more: &[&str]) -> (CommandResult, Vec<Value>) {
    let dir = RecordingDir::new();
    let (replay, [_, _, url, _]) = dir.replay(&dir.file("x", lines), &["--no-delay"]);
    let left = run(&[&["capture", &url][..], more].concat());
    replay.signal("TERM");
    replay.end();
    let written = events(&left.out);
    (left, written)
}

fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap()
}

#[test]
fn filters_select_exactly_the_requested_events() {
    let mut lines = recording();
    let mut end = event(9001, "2026-06-02T09:15:13Z");
    end["type"] = json!("aaep:agent.state.changed");
    end["from_state"] = json!("awaiting_input");
    end["to_state"] = json!("thinking");
    end["@context"] = json!(["https://aaep-protocol.org/context/v1", "urn:aaep:extension:consent:1"]);
    end["extensions"] = json!({"consent": {"reply_token": "rpl_1", "outcome": "accepted"}});
    for name in ["chunk", "position", "complete", "output_id"] {
        end.as_object_mut().unwrap().remove(name);
    }
    lines.push(end.to_string());
    let all = events(&lines);
    let only = |wanted: &dyn Fn(&Value) -> bool| all.iter().filter(|e| wanted(e)).cloned().collect::<Vec<_>>();

    let (left, written) = captured(&lines, &["--type", "tool.*", "--type", "haptic:pulse"]);
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    assert_eq!(written, only(&|e| kind(e).starts_with("aaep:agent.tool.") || kind(e) == "haptic:pulse"));
    assert!(written.len() >= 5);

    let (_, written) = captured(&lines, &["--session", "sess_7b1f0c52d9e84a36", "--urgency", "background"]);
    assert_eq!(written, only(&|e| e["session_id"] == "sess_7b1f0c52d9e84a36" && e["urgency"] == "background"));
    assert_eq!(written.len(), 4);

    let (_, written) = captured(&lines, &["--type", "tool.invoked", "--include-replies"]);
    let kept = ["aaep:agent.tool.invoked", "aaep:agent.awaiting.confirmation", "aaep:agent.awaiting.clarification"];
    assert_eq!(written, only(&|e| kept.contains(&kind(e)) || e["extensions"]["consent"]["outcome"].is_string()));
    assert!(written.iter().any(|e| e["event_id"] == "evt_9001"));
}

#[test]
fn limits_end_a_capture() {
    let lines = long_recording(5000, 0);
    let (left, written) = captured(&lines, &["--count", "7"]);
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    assert_eq!(written, events(&lines)[..7]);

    // An hour between two events, so that only the limit ends it.
    let dir = RecordingDir::new();
    let (replay, [url, ..]) = dir.replay(&dir.file("x", &long_recording(2, 3_600_000)), &[]);
    let left = run(&["capture", &url, "-o", &dir.name("y"), "--for", "3s"]);
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
    assert!(read(&dir.path("y")).len() <= 1);
    replay.signal("TERM");
    assert_eq!(replay.end().code, Some(0));
}

#[test]
fn usage_errors_exit_with_2() {
    let dir = RecordingDir::new();
    let gone = format!("unix:{}", dir.name("nobody"));
    for args in [
        &["capture", "ftp://agent.example"][..],
        &["capture", "http://agent.example"],
        &["capture", &gone],
        &["capture", "stdio:"],
        &["capture", "stdio:", "--", "/no/such/command"],
        &["capture", &gone, "-o", "/no/such/directory/file"],
        &["capture", &gone, "--for", "soon"],
        &["capture", &gone, "--count", "0"],
        &["replay", "/no/such/file"],
        &["replay", "/"],
        &["replay", "/dev/null"],
        &["replay", "/dev/null", "--speed", "0"],
        &["replay", "/dev/null", "--json"],
    ] {
        let left = run(args);
        assert_eq!(left.code, Some(2), "{args:?}: {left:?}");
        assert!(left.out.is_empty() && !left.err.is_empty(), "{args:?}");
    }
}
