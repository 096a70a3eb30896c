//! `aaep validate` and `aaep schema` as processes.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use aaep_test::{aaep, example, root};
use serde_json::Value;

fn run(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(aaep())
        .current_dir(root())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may stop reading early.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

struct Seen {
    code: i32,
    out: String,
    err: String,
}

fn see(args: &[&str], input: &[u8]) -> Seen {
    let output = run(args, input);
    Seen {
        code: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn valid_files_exit_with_0() {
    let seen = see(&["validate", "--sequence", "examples/banking.ndjson"], b"");
    assert_eq!((seen.code, seen.out.as_str(), seen.err.as_str()), (0, "14 documents: all valid, 0 warnings.\n", ""));
    let seen = see(&["validate", "examples/events.ndjson", "examples/messages.ndjson"], b"");
    assert_eq!((seen.code, seen.out.as_str()), (0, "22 documents: all valid, 0 warnings.\n"));
}

#[test]
fn problems_are_lines_with_file_and_line() {
    let mut lines = example("banking.ndjson");
    lines[2] = lines[2].replace("call_51aa", "51aa");
    let seen = see(&["validate", "-"], lines.join("\n").as_bytes());
    assert_eq!(seen.code, 1);
    assert_eq!(
        seen.out,
        "-:3: error payload.format at /tool_call_id: tool_call_id must be call_ followed by 1 to 64 letters or digits.\n\
         14 documents: 1 not valid, 0 warnings.\n"
    );
}

#[test]
fn json_output_is_one_object_per_document_in_order() {
    let input = format!("{}\nnot json\n{}", example("events.ndjson")[1], example("messages.ndjson")[4]);
    let seen = see(&["validate", "--json"], input.as_bytes());
    assert_eq!((seen.code, seen.err.as_str()), (1, ""));
    let lines = json_lines(&seen.out);
    let brief: Vec<_> = lines
        .iter()
        .map(|l| (l["source"].as_str().unwrap(), l["line"].as_u64().unwrap(), l["valid"].as_bool().unwrap()))
        .collect();
    assert_eq!(brief, [("-", 1, true), ("-", 2, false), ("-", 3, true)]);
    let problem = &lines[1]["problems"][0];
    assert_eq!(problem["rule"], "json.syntax");
    assert_eq!(problem["pointer"], "");
    assert_eq!(problem["severity"], "error");
    assert!(problem["message"].as_str().unwrap().starts_with("This is not JSON"));
}

#[test]
fn warnings_do_not_make_a_document_invalid() {
    let input = example("events.ndjson")[1].replace("\"localization_hints\":{\"primary_language\":\"en-US\"},", "");
    let seen = see(&["validate", "--json"], input.as_bytes());
    let line = &json_lines(&seen.out)[0];
    assert_eq!((seen.code, line["valid"].as_bool()), (0, Some(true)));
    assert_eq!(line["problems"][0]["rule"], "i18n.declared");
    assert_eq!(line["problems"][0]["severity"], "warning");
}

#[test]
fn all_formats_are_told_apart() {
    let lines = example("events.ndjson");
    let values: Vec<Value> = lines.iter().map(|l| serde_json::from_str(l).unwrap()).collect();
    let array = serde_json::to_string_pretty(&values).unwrap();
    let one = serde_json::to_string_pretty(&values[0]).unwrap();
    let stream: String =
        lines.iter().map(|l| format!("event: aaep.event\nid: evt_1\ndata: {l}\n\n: alive\n")).collect();
    for (input, documents) in [(lines.join("\n"), 14), (array, 14), (one, 1), (stream, 14), (lines[0].clone(), 1)] {
        let seen = see(&["validate", "--json"], input.as_bytes());
        assert_eq!(seen.code, 0, "{}", seen.out);
        assert_eq!(seen.out.lines().count(), documents, "{input}");
    }
}

#[test]
fn sequence_problems_come_with_their_event() {
    let lines: Vec<String> = example("banking.ndjson")
        .into_iter()
        .filter(|l| !l.contains("awaiting.confirmation") && !l.contains("confirmation.reply"))
        .collect();
    let input = lines.join("\n");
    assert_eq!(see(&["validate", "--quiet"], input.as_bytes()).code, 0);
    let seen = see(&["validate", "--sequence"], input.as_bytes());
    assert_eq!(seen.code, 1);
    assert!(seen.out.starts_with("-:7: error seq.irreversible-unconfirmed at /tool: Ask first"), "{}", seen.out);
}

#[test]
fn an_unended_session_is_a_warning() {
    let lines = example("banking.ndjson");
    let seen = see(&["validate", "--sequence", "--json"], lines[..3].join("\n").as_bytes());
    assert_eq!((seen.code, seen.out.lines().count()), (0, 3));
    assert!(seen.err.contains("seq.unended"), "{}", seen.err);
}

#[test]
fn quiet_prints_nothing() {
    let seen = see(&["validate", "--quiet"], b"{}");
    assert_eq!((seen.code, seen.out.as_str(), seen.err.as_str()), (1, "", ""));
}

#[test]
fn bad_input_is_reported_in_one_line_with_its_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = &example("events.ndjson")[0];
    for (path, code, says) in [
        (dir.join("nowhere").to_str().unwrap().to_owned(), 2, "does not exist"),
        (dir.to_str().unwrap().to_owned(), 2, "is a directory"),
        (file("empty", b""), 2, "contains no document"),
        (file("blank", b"\n \n"), 2, "contains no document"),
        (file("truncated", &whole.as_bytes()[..whole.len() / 2]), 1, "json.syntax"),
        (file("latin1", b"{\"a\":\"caf\xe9\"}\n"), 1, "byte 10 is not UTF-8"),
        (file("utf16", b"\xff\xfe{\0}\0\n\0{\0}\0"), 1, "it is UTF-16; convert it to UTF-8"),
        (file("comma", format!("[{whole},]").as_bytes()), 1, "missing after the last comma"),
        (file("array", b"[]"), 0, "0 documents"),
        (file("heartbeats", b": alive\n\n: alive\n\n"), 0, "0 documents"),
    ] {
        let seen = see(&["validate", &path], b"");
        assert_eq!(seen.code, code, "{path}: {}{}", seen.out, seen.err);
        let lines: Vec<&str> = seen.out.lines().chain(seen.err.lines()).filter(|l| l.contains(says)).collect();
        assert_eq!(lines.len(), 1, "{path}: {}{}", seen.out, seen.err);
    }
    let truncated_end = format!("{whole}\n{}", &whole[..100]);
    let seen = see(&["validate", &file("cut", truncated_end.as_bytes())], b"");
    assert_eq!(seen.code, 1);
    assert!(seen.out.contains("cut:2: error json.syntax"), "{}", seen.out);
    // A file that cannot be read does not prevent the check of the others.
    let seen = see(&["validate", "examples/banking.ndjson", dir.join("nowhere").to_str().unwrap()], b"");
    assert_eq!(seen.code, 2);
    assert!(seen.out.contains("14 documents: all valid"), "{}", seen.out);
}

#[test]
fn usage_errors_exit_with_2() {
    for args in [
        &["validate", "--nonsense"][..],
        &["nonsense"],
        &[],
        &["schema", "agent.nothing"],
        &["validate", "--json", "--quiet"],
    ] {
        let seen = see(args, b"");
        assert_eq!(seen.code, 2, "{args:?}");
        assert!(!seen.err.is_empty());
    }
}

#[test]
fn closed_pipe_is_not_a_failure() {
    let mut child = Command::new(aaep())
        .current_dir(root())
        .args(["schema", "agent.awaiting.confirmation"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

/// The reader closes the pipe after the first line; the exit code still covers the last document.
#[test]
fn exit_code_is_right_after_a_closed_pipe() {
    let good = example("events.ndjson")[1].clone() + "\n";
    let input = good.repeat(2000) + "{}\n";
    let mut child = Command::new(aaep())
        .args(["validate", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(1), ""));
}

#[test]
fn control_characters_of_the_input_are_escaped() {
    let forged = "x\\u001b[2J\\nfile:1: ok\\u202e";
    let line = &example("events.ndjson")[1];
    let input = format!("{},\"{forged}\":1}}", &line[..line.len() - 1]);
    let seen = see(&["validate"], input.as_bytes());
    assert_eq!((seen.code, seen.out.lines().count()), (1, 2), "{}", seen.out);
    assert!(seen.out.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", seen.out);
    assert!(seen.out.contains("\\u{001B}[2J\\u{000A}file:1: ok\\u{202E}"), "{}", seen.out);
    let seen = see(&["validate", "no\u{1b}[2Jwhere"], b"");
    assert!(seen.err.contains("no\\u{001B}[2Jwhere"), "{:?}", seen.err);
}

#[test]
fn invalid_event_does_not_make_later_events_invalid() {
    let lines = example("banking.ndjson");
    let bad = |from: &str, to: &str| {
        let mut lines = lines.clone();
        assert!(lines[0].contains(from), "{}", lines[0]);
        lines[0] = lines[0].replacen(from, to, 1);
        lines.join("\n")
    };
    for (from, to, says) in [
        ("\"summary_normal\"", "\"expected_duration_ms\":-1,\"summary_normal\"", 1),
        ("\"summary_normal\"", "\"summary_norm\"", 2),
        // For a session with malformed events, nothing else is reported.
        ("\"timestamp\":\"2", "\"timestamp\":\"x", 2),
    ] {
        let seen = see(&["validate", "--sequence"], bad(from, to).as_bytes());
        assert_eq!(seen.code, 1);
        let (problems, others): (Vec<&str>, Vec<&str>) = seen.out.lines().partition(|l| l.starts_with("-:1: "));
        assert_eq!((problems.len(), others.len()), (says, 1), "{}", seen.out);
    }
}

#[test]
fn schemas_and_api_documents_are_printed() {
    let names = see(&["schema"], b"");
    assert_eq!((names.code, names.out.lines().count()), (0, 25));
    for name in names.out.lines() {
        let seen = see(&["schema", name], b"");
        let document: Value = serde_json::from_str(&seen.out).unwrap();
        match name {
            "openapi" => assert_eq!(document["openapi"], "3.1.0"),
            "asyncapi" => assert_eq!(document["asyncapi"], "3.0.0"),
            _ => assert_eq!(document["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}"),
        }
    }
    assert_eq!(see(&["schema", "aaep:agent.tool.invoked"], b"").out, see(&["schema", "agent.tool.invoked"], b"").out);
    let reference = see(&["schema", "--markdown"], b"");
    assert!(reference.code == 0 && reference.out.starts_with("# Events and messages\n"), "{}", reference.out);
}

/// A stream far larger than the memory bound is validated in little memory.
#[cfg(target_os = "linux")]
#[test]
fn memory_stays_flat_over_a_long_stream() {
    let mut child =
        Command::new(aaep()).args(["validate", "--sequence", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let line = example("events.ndjson")[3].clone() + "\n";
    let block = line.repeat(200);
    let peak = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    for _ in 0..400 {
        input.write_all(block.as_bytes()).unwrap();
    }
    let long_line = vec![b'x'; 64 << 20];
    input.write_all(&long_line).unwrap();
    let kib = peak(child.id());
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(kib < 32 * 1024, "{kib} KiB");
}
