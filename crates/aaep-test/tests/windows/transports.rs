//! The transport suite and the unit tests of the named pipe.

use std::path::Path;

use aaep_test::Process;

use super::fixture::Programs;

/// Runs those tests of a program whose names contain one of these words, or all. Returns the names of those that passed.
/// None may fail.
fn passed(program: &Path, words: &[&str]) -> Vec<String> {
    let mut process = Process::start(Programs::get().run(program).args(words));
    let lines = process.rest();
    let report = lines.join("\n");
    assert!(process.wait().success(), "{report}\n{}", process.errors());
    let name = |line: &String| Some(line.strip_prefix("test ")?.strip_suffix(" ... ok")?.trim().to_owned());
    lines.iter().filter_map(name).collect()
}

#[test]
#[ignore = "builds for Windows and needs Wine; scripts/test runs it"]
fn transport_suite_passes_over_the_pipe() {
    // Over the pipe all of it; over the other transports, which do not depend on the system, the way of a reply.
    let reply = "accept_reply_is_delivered_to_the_agent";
    let passed = passed(&Programs::get().transports, &["socket_with_", reply]);
    let suite = include_str!("../transports/main.rs");
    let parts = suite.split_once("=> [\n").unwrap().1.lines();
    let parts: Vec<&str> =
        parts.take_while(|line| line.ends_with(',')).map(|line| line.trim().trim_end_matches(',')).collect();
    assert!(parts.len() > 10, "{parts:?}");
    let pipe = ["socket_with_lengths", "socket_with_lines"]
        .map(|framing| parts.iter().map(move |part| format!("{framing}::{part}")));
    let others = ["sse", "websocket", "stdio"].map(|transport| format!("{transport}::{reply}"));
    for name in pipe.into_iter().flatten().chain(others) {
        assert!(passed.contains(&name), "{name} did not run: {passed:?}");
    }
}

#[test]
#[ignore = "builds for Windows and needs Wine; scripts/test runs it"]
fn pipe_belongs_to_the_user_alone_and_pipes_of_others_are_refused() {
    let passed = passed(&Programs::get().local, &[]);
    for name in [
        "windows::tests::only_the_current_user_has_access_and_owns_the_pipe",
        "windows::tests::pipe_of_another_user_is_recognized_and_not_listened_on",
        "windows::tests::pipe_is_duplex_and_in_message_mode",
        "windows::tests::pipe_is_named_after_the_agent",
    ] {
        assert!(passed.iter().any(|passed| passed == name), "{name} did not run: {passed:?}");
    }
}
