//! The transport suite and the unit tests of the named pipe.

use std::path::Path;

use aaep_test::Process;

use super::fixture::Programs;

/// Runs a test program and returns the names of the tests that passed. None may fail.
fn passed(program: &Path) -> Vec<String> {
    let mut process = Process::start(&mut Programs::get().run(program));
    let lines = process.rest();
    let report = lines.join("\n");
    assert!(process.wait().success(), "{report}\n{}", process.errors());
    let name = |line: &String| Some(line.strip_prefix("test ")?.strip_suffix(" ... ok")?.trim().to_owned());
    lines.iter().filter_map(name).collect()
}

#[test]
#[ignore = "builds for Windows and needs Wine; scripts/test runs it"]
fn transport_suite_passes_over_the_pipe_and_over_http() {
    let passed = passed(&Programs::get().transports);
    let suite = include_str!("../transports/main.rs");
    let parts = suite.split_once("=> [\n").unwrap().1.lines();
    let parts: Vec<&str> =
        parts.take_while(|line| line.ends_with(',')).map(|line| line.trim().trim_end_matches(',')).collect();
    assert!(parts.len() > 10, "{parts:?}");
    for transport in ["socket_with_lengths", "socket_with_lines", "sse", "websocket", "stdio"] {
        for part in &parts {
            let name = format!("{transport}::{part}");
            assert!(passed.contains(&name), "{name} did not run: {passed:?}");
        }
    }
}

#[test]
#[ignore = "builds for Windows and needs Wine; scripts/test runs it"]
fn pipe_belongs_to_the_user_alone_and_pipes_of_others_are_refused() {
    let passed = passed(&Programs::get().local);
    for name in [
        "windows::tests::only_the_current_user_has_access_and_owns_the_pipe",
        "windows::tests::pipe_of_another_user_is_recognized_and_not_listened_on",
        "windows::tests::pipe_is_duplex_and_in_message_mode",
        "windows::tests::pipe_is_named_after_the_agent",
    ] {
        assert!(passed.iter().any(|passed| passed == name), "{name} did not run: {passed:?}");
    }
}
