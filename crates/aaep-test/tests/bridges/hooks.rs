//! `aaep hook`, `aaep attach`, `aaep detach` and `aaep up`, with payloads as the agents send them.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use aaep_client::PromptAnswer;
use aaep_proto::message::Response;
use aaep_test::{PATIENCE, aaep};
use serde_json::{Value, json};

use super::harness::Home;
use super::listener::{Listener, Policy, accept, ignore, is, kinds, reject};

/// Agents with a settings file that the user and others write too.
const SHARED: [(&str, &str); 4] = [
    ("claude", ".claude/settings.json"),
    ("qwen", ".qwen/settings.json"),
    ("codex", ".codex/hooks.json"),
    ("gemini", ".gemini/settings.json"),
];

fn run(home: &Home, arguments: &[&str]) -> Output {
    let mut command = home.command(aaep());
    for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"] {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeds(home: &Home, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The server of a user, which ends with the test.
pub(crate) struct Up<'h>(&'h Home);

impl<'h> Up<'h> {
    pub(crate) fn start(home: &'h Home) -> Up<'h> {
        assert!(succeeds(home, &["up"]).contains("was started"));
        Up(home)
    }

    pub(crate) fn listen(&self, policy: Policy) -> Listener {
        Listener::connect(&self.0.path().join("aaep/aaep.sock"), policy)
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        run(self.0, &["up", "--stop"]);
    }
}

fn start_hook(home: &Home, agent: &str, event: &str, payload: &Value) -> Child {
    let mut command = home.command(aaep());
    command.args(["hook", agent, event]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    child
}

/// Runs a hook. Whatever happens, it ends with code 0 and prints no error.
fn hook(home: &Home, agent: &str, event: &str, payload: &Value) -> String {
    let output = start_hook(home, agent, event, payload).wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{agent} {event}");
    text(&output.stdout)
}

fn permission() -> Value {
    json!({"session_id": "s1", "hook_event_name": "PermissionRequest", "cwd": "/home/ada", "permission_mode": "default",
        "tool_name": "Bash", "tool_input": {"command": "rm -r build", "description": "Tidy up"}})
}

/// Answers the choices of agents that hide their own question.
fn choose(choice: &str) -> Option<PromptAnswer> {
    Some(PromptAnswer::response(Response::Text(choice.to_owned())))
}

#[test]
fn without_a_server_a_hook_prints_nothing() {
    let home = Home::new();
    for agent in ["claude", "qwen", "copilot", "codex", "opencode", "gemini", "nobody"] {
        assert_eq!(hook(&home, agent, "permission", &permission()), "", "{agent}");
        assert_eq!(hook(&home, agent, "event", &permission()), "", "{agent}");
    }
}

#[test]
fn without_a_listener_the_agent_asks_by_itself_at_once() {
    let home = Home::new();
    let _up = Up::start(&home);
    let start = Instant::now();
    for agent in ["claude", "qwen", "copilot", "codex", "opencode"] {
        assert_eq!(hook(&home, agent, "permission", &permission()), "", "{agent}");
    }
    assert!(start.elapsed() < Duration::from_secs(30), "a question would wait for minutes");
}

#[test]
fn payload_that_is_not_valid_prints_nothing() {
    let home = Home::new();
    let up = Up::start(&home);
    let _listener = up.listen(accept);
    for payload in ["", "{", "[]", "null", "\u{fe0f}", "{\"tool_name\":"] {
        let mut command = home.command(aaep());
        command.args(["hook", "copilot", "event"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{payload:?}");
    }
}

#[test]
fn answer_of_the_user_is_the_decision_of_the_agent() {
    let home = Home::new();
    let up = Up::start(&home);
    let nested = |behavior: &str| format!("\"decision\":{{\"behavior\":\"{behavior}\"");
    let yes = up.listen(|prompt| if prompt.confirmation().is_some() { accept(prompt) } else { choose("allow") });
    let claude = hook(&home, "claude", "permission", &permission());
    assert!(
        claude.contains(&nested("allow")) && claude.contains("\"hookEventName\":\"PermissionRequest\""),
        "{claude}"
    );
    assert!(hook(&home, "qwen", "permission", &permission()).contains(&nested("allow")));
    assert!(hook(&home, "codex", "permission", &permission()).contains(&nested("allow")));
    let copilot =
        json!({"sessionId": "s1", "hookName": "permissionRequest", "toolName": "bash", "toolInput": {"command": "ls"}});
    assert_eq!(hook(&home, "copilot", "permission", &copilot).trim(), "{\"behavior\":\"allow\"}");
    let opencode = json!({"session_id": "s1", "permission": "bash", "metadata": {"command": "ls"}});
    assert_eq!(hook(&home, "opencode", "permission", &opencode).trim(), "{\"reply\":\"once\"}");
    let question = yes.wait_for("awaiting.confirmation");
    assert!(question["action"].as_str().unwrap().contains("command: rm -r build"), "{question}");
    assert!(kinds(&yes.events()).contains(&"awaiting.clarification".to_owned()));
    drop(yes);
}

#[test]
fn refusal_of_the_user_is_a_refusal_and_the_terminal_is_a_choice() {
    let home = Home::new();
    let up = Up::start(&home);
    let no = up.listen(|prompt| if prompt.confirmation().is_some() { reject(prompt) } else { choose("deny") });
    assert!(hook(&home, "claude", "permission", &permission()).contains("\"behavior\":\"deny\""));
    assert!(hook(&home, "copilot", "permission", &permission()).contains("\"behavior\":\"deny\""));
    assert_eq!(hook(&home, "opencode", "permission", &permission()).trim(), "{\"reply\":\"reject\"}");
    drop(no);
    drop(up);
    let home = Home::new();
    let up = Up::start(&home);
    let _terminal = up.listen(|prompt| prompt.clarification().and_then(|_| choose("terminal")));
    for agent in ["copilot", "codex", "qwen"] {
        assert_eq!(hook(&home, agent, "permission", &permission()), "", "{agent}");
    }
}

#[test]
fn question_is_withdrawn_when_the_agent_ends_the_hook() {
    let home = Home::new();
    let up = Up::start(&home);
    let listener = up.listen(ignore);
    let child = start_hook(&home, "claude", "permission", &permission());
    listener.wait_for("awaiting.confirmation");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "it is no decision");
    listener.wait_for("session.cancelled");
}

#[test]
fn end_of_the_server_or_of_the_listener_leaves_the_question_to_the_agent() {
    let home = Home::new();
    let up = Up::start(&home);
    let listener = up.listen(ignore);
    let child = start_hook(&home, "copilot", "permission", &permission());
    listener.wait_for("awaiting.clarification");
    drop(up);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}

#[test]
fn turn_of_an_agent_is_heard_as_a_session() {
    let home = Home::new();
    let up = Up::start(&home);
    let listener = up.listen(ignore);
    let turn = [
        json!({"hook_event_name": "UserPromptSubmit", "prompt": "tidy up", "permission_mode": "auto", "prompt_id": "p1"}),
        json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t"}),
        json!({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "duration_ms": 12}),
        json!({"hook_event_name": "PostToolUseFailure", "tool_name": "Bash", "tool_input": {"command": "x"}, "error": "not found"}),
        json!({"hook_event_name": "Stop", "last_assistant_message": "All is **tidy**.", "stop_hook_active": false}),
    ];
    for mut payload in turn {
        payload["session_id"] = "s1".into();
        assert_eq!(hook(&home, "claude", "event", &payload), "");
    }
    listener.wait_for("session.completed");
    let events = listener.events();
    let expected = [
        "session.started",
        "tool.invoked",
        "tool.completed",
        "tool.invoked",
        "tool.completed",
        "output.streaming",
        "session.completed",
    ];
    assert_eq!(kinds(&events), expected);
    assert!(events[0]["summary_normal"].as_str().unwrap().contains("does not ask before it acts"), "{}", events[0]);
    assert_eq!(events[0]["producer"]["agent_name"], "Claude Code");
    assert_eq!(events[0]["extensions"]["enforcement"]["route"], "hooks");
    let output = events.iter().find(|event| is(event, "output.streaming")).unwrap();
    assert_eq!(output["chunk"], "All is **tidy**.");
    let gemini = json!({"session_id": "g", "hook_event_name": "Notification", "notification_type": "ToolPermission",
        "message": "Allow?", "details": {"type": "edit", "title": "Confirm edit", "filePath": "/a.txt"}});
    assert_eq!(hook(&home, "gemini", "event", &gemini), "");
    listener.wait("the question of Gemini", |event| {
        event["summary_normal"].as_str()?.contains("asks in its terminal: Confirm edit, /a.txt").then_some(())
    });
}

#[test]
fn up_starts_one_server_that_only_this_user_can_use() {
    let home = Home::new();
    let up = Up::start(&home);
    assert!(succeeds(&home, &["up"]).contains("runs at"), "a second one is not started");
    for name in ["up.json", "up.tokens", "up.log"] {
        let mode = std::fs::metadata(home.path().join("aaep").join(name)).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{name} is private");
    }
    let listed: Value = serde_json::from_str(&succeeds(&home, &["attach", "--list", "--json"])).unwrap();
    assert_eq!(listed["listeners"], 0);
    drop(up);
    let deadline = Instant::now() + PATIENCE;
    while home.path().join("aaep/aaep.sock").exists() {
        assert!(Instant::now() < deadline, "the server does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(run(&home, &["up", "--stop"]).status.code(), Some(1));
}

fn settings(home: &Home, path: &str, content: &str) -> PathBuf {
    let path = home.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn attach_and_detach_leave_settings_byte_identical() {
    let unusual = "{\n\t\"unknown\" : {\"deep\": [1.0, \"\\u00e4\"]},\r\n  \"hooks\":{ \"Stop\" :[ {\"hooks\":[{\"type\":\"command\",\"command\":\"say done\"}]}] , \"Unknown\":[]},\n\"last\":null }  \n\n";
    for (agent, path) in SHARED {
        for before in ["{}", unusual, "{\"a\":{\"hooks\":[]}}"] {
            let home = Home::new();
            let file = settings(&home, path, before);
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
            let shown = succeeds(&home, &["attach", agent, "--yes"]);
            assert!(shown.contains("Changes the file") && shown.contains("is attached"), "{shown}");
            let attached = std::fs::read_to_string(&file).unwrap();
            let value: Value = serde_json::from_str(&attached).unwrap();
            assert!(value["hooks"].to_string().contains(&format!("hook {agent} ")), "{attached}");
            assert!(succeeds(&home, &["attach", "--list"]).contains(&format!("{agent}: attached (")));
            assert_eq!(run(&home, &["attach", agent, "--yes"]).status.code(), Some(2), "not twice");
            assert!(succeeds(&home, &["detach", agent]).contains("byte for byte"));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "{agent}");
            assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o640, "the mode is kept");
            assert!(succeeds(&home, &["attach", "--list"]).contains(&format!("{agent}: not attached")));
            assert_eq!(run(&home, &["detach", agent]).status.code(), Some(1));
        }
    }
}

#[test]
fn files_that_did_not_exist_are_gone_after_detach() {
    let all = SHARED
        .into_iter()
        .chain([("copilot", ".copilot/hooks/aaep.json"), ("opencode", ".config/opencode/plugins/aaep.js")]);
    for (agent, path) in all {
        let home = Home::new();
        succeeds(&home, &["attach", agent, "--yes"]);
        assert!(home.path().join(path).is_file(), "{agent}");
        succeeds(&home, &["detach", agent]);
        let first = path.split('/').next().unwrap();
        assert!(!home.path().join(first).exists(), "{agent}: directories that were created are removed");
    }
}

#[test]
fn comments_are_kept_or_the_file_is_refused_unchanged() {
    let before = "// theme\n{ /* a */ \"theme\": \"x\" // y\n}\n";
    for (agent, path) in SHARED {
        let home = Home::new();
        let file = settings(&home, path, before);
        let output = run(&home, &["attach", agent, "--yes"]);
        if agent == "gemini" {
            assert!(output.status.success());
            assert!(std::fs::read_to_string(&file).unwrap().contains("// theme"));
            succeeds(&home, &["detach", agent]);
        } else {
            assert_eq!(output.status.code(), Some(2), "{agent}");
            assert!(text(&output.stderr).contains("not valid JSON"), "{}", text(&output.stderr));
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "{agent}");
    }
}

#[test]
fn link_is_kept_and_the_file_behind_it_restored() {
    let home = Home::new();
    let real = settings(&home, "dotfiles/claude.json", "{\"model\": \"x\"}\n");
    std::fs::create_dir_all(home.path().join(".claude")).unwrap();
    let link = home.path().join(".claude/settings.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    succeeds(&home, &["attach", "claude", "--yes"]);
    assert!(link.is_symlink() && std::fs::read_to_string(&real).unwrap().contains("hook claude permission"));
    succeeds(&home, &["detach", "claude"]);
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "{\"model\": \"x\"}\n");
}

#[test]
fn read_only_file_is_left_alone() {
    let home = Home::new();
    let file = settings(&home, ".claude/settings.json", "{}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).unwrap();
    let output = run(&home, &["attach", "claude", "--yes"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("read-only"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}");
    assert!(succeeds(&home, &["attach", "--list"]).contains("claude: not attached"));
}

#[test]
fn crash_between_the_record_and_the_change_can_be_undone() {
    let before = "{\"model\": \"x\"}";
    let home = Home::new();
    let file = settings(&home, ".claude/settings.json", before);
    succeeds(&home, &["attach", "claude", "--yes"]);
    // As if it had stopped before the settings were replaced.
    std::fs::write(&file, before).unwrap();
    assert!(succeeds(&home, &["attach", "--list"]).contains("claude: attached, but its hooks are gone"));
    succeeds(&home, &["detach", "claude"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    succeeds(&home, &["attach", "claude", "--yes"]);
    succeeds(&home, &["detach", "claude"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn settings_that_were_changed_meanwhile_lose_only_our_hooks() {
    let home = Home::new();
    let file = settings(&home, ".claude/settings.json", "{\"model\": \"x\"}");
    succeeds(&home, &["attach", "claude", "--yes"]);
    let changed = std::fs::read_to_string(&file).unwrap().replace("\"x\"", "\"y\"");
    std::fs::write(&file, changed).unwrap();
    assert!(succeeds(&home, &["detach", "claude"]).contains("only the hooks of aaep"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"model\": \"y\"}");
}

#[test]
fn nothing_is_changed_without_a_yes() {
    let home = Home::new();
    let file = settings(&home, ".claude/settings.json", "{}");
    let output = run(&home, &["attach", "claude"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--yes"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn installed_command_does_nothing_if_the_program_is_gone() {
    let home = Home::new();
    succeeds(&home, &["attach", "copilot", "--yes"]);
    let file = std::fs::read_to_string(home.path().join(".copilot/hooks/aaep.json")).unwrap();
    let hooks: Value = serde_json::from_str(&file).unwrap();
    let command = hooks["hooks"]["permissionRequest"][0]["bash"].as_str().unwrap();
    let gone = command.replace(aaep().canonicalize().unwrap().to_str().unwrap(), "/no/such/aaep");
    for command in [command, &gone] {
        let output = home.command("sh").args(["-c", command]).stdin(Stdio::null()).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{command}");
    }
    assert_ne!(command, gone);
}
