//! Payloads of hooks as events and questions.

use serde_json::{Map, Value, json};

use super::HookAgent;
use crate::describe::{arguments, sentence, shorten, spoken, tool_name};

/// Modes in which an agent acts without asking.
const SILENT_MODES: [&str; 6] = ["auto", "bypassPermissions", "acceptEdits", "dontAsk", "yolo", "auto-edit"];

/// Most characters of a message of the agent that are passed on.
const MESSAGE_CHARS: usize = 16_000;

/// How long a user has for a permission, in seconds. Agents give their hooks more.
const TIMEOUT_SECONDS: u32 = 300;

/// What a payload means.
#[derive(Clone, Debug, PartialEq)]
pub enum HookAction {
    /// Nothing that a user should hear.
    Ignore,
    /// Events for the agent endpoint of a server.
    Announce(Vec<Value>),
    /// A permission that the user may give.
    Ask(HookQuestion),
}

/// A permission that an agent asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct HookQuestion {
    /// The question, as an event.
    pub event: Value,
    /// The event that withdraws it.
    pub withdrawal: Value,
    /// The event that ends its session.
    pub end: Value,
}

/// Translates the payload of a hook. `event` is that of the command line: `permission`, or the agent's own name of the
/// event, which not all payloads have. `nonce` makes the ids of a question unique.
pub fn translate(agent: HookAgent, event: &str, payload: &Value, nonce: &str) -> HookAction {
    // Cursor runs the hooks of Claude too, and asks by itself.
    if agent == HookAgent::Claude && payload.get("cursor_version").is_some() {
        return HookAction::Ignore;
    }
    if event == "permission" && agent.can_decide() {
        return ask(agent, payload, nonce);
    }
    let session = session_id(agent, payload);
    let name = payload.get("hook_event_name").or_else(|| payload.get("hookName")).or_else(|| payload.get("event"));
    let name = name.and_then(Value::as_str).unwrap_or(event);
    let events = match name {
        "UserPromptSubmit" | "userPromptSubmitted" | "BeforeAgent" => vec![started(agent, payload, &session)],
        "PreToolUse" | "preToolUse" | "BeforeTool" => {
            let summary = format!("{} wants to use {}.", agent.title(), tool_text(payload));
            vec![
                json!({"type": "state.changed", "session_id": session, "to_state": "thinking", "summary_normal": summary}),
            ]
        }
        "PostToolUse" | "postToolUse" | "AfterTool" => tool_events(payload, &session, None),
        "PostToolUseFailure" | "postToolUseFailure" => {
            let error = text(payload, &["error"]).unwrap_or_else(|| "The tool failed.".to_owned());
            tool_events(payload, &session, Some(error))
        }
        "Notification" | "notification" => match notification(agent, payload, &session) {
            Some(event) => vec![event],
            None => return HookAction::Ignore,
        },
        "Stop" | "agentStop" | "AfterAgent" => stopped(agent, payload, &session),
        _ => return HookAction::Ignore,
    };
    HookAction::Announce(events)
}

fn session_id(agent: HookAgent, payload: &Value) -> String {
    let id = text(payload, &["session_id", "sessionId", "sessionID"]).unwrap_or_else(|| "session".to_owned());
    let id: String = id.chars().take(100).collect();
    format!("{}-{id}", agent.as_str())
}

/// Returns the first of these fields that has text.
fn text(payload: &Value, names: &[&str]) -> Option<String> {
    let found = names.iter().find_map(|name| payload.get(name)?.as_str());
    found.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn producer(agent: HookAgent) -> Value {
    json!({"agent_id": format!("hooks/{}", agent.as_str()), "agent_name": agent.title()})
}

/// What the first event of a session says about the route.
fn enforcement(agent: HookAgent) -> (Value, Value) {
    let permissions = if agent.can_decide() { "on_request" } else { "observed" };
    let context = json!(["https://aaep-protocol.org/context/v1", crate::ENFORCEMENT_URI]);
    (context, json!({(crate::ENFORCEMENT_PREFIX): {"route": "hooks", "tools": permissions, "output": "at_end"}}))
}

fn started(agent: HookAgent, payload: &Value, session: &str) -> Value {
    let prompt = text(payload, &["prompt", "initialPrompt"]).unwrap_or_default();
    let mode = text(payload, &["permission_mode", "permissionMode"]).unwrap_or_default();
    let mut summary = format!("{} works on your request.", agent.title());
    if SILENT_MODES.contains(&mode.as_str()) {
        summary.push_str(&format!(" It does not ask before it acts, because its mode is {mode}."));
    } else if !agent.can_decide() {
        summary.push_str(" It asks for permissions in its own terminal.");
    }
    let (context, extensions) = enforcement(agent);
    // Some agents report a prompt twice; the same id is emitted once.
    let turn = text(payload, &["prompt_id", "turn_id"]);
    let mut event = json!({"type": "session.started", "session_id": session, "producer": producer(agent),
        "summary_normal": summary, "@context": context, "extensions": extensions});
    if let Some(turn) = turn {
        event["event_id"] = shorten(&format!("{session}-{turn}"), 120).into();
    }
    if !prompt.is_empty() {
        event["request_text"] = shorten(&prompt, 4000).into();
    }
    event
}

fn tool_input(payload: &Value) -> Map<String, Value> {
    let names = ["tool_input", "toolArgs", "toolInput", "metadata"];
    let found = names.iter().find_map(|name| payload.get(name)?.as_object());
    found.cloned().unwrap_or_default()
}

fn tool_of(payload: &Value) -> String {
    text(payload, &["tool_name", "toolName", "permission"]).unwrap_or_else(|| "a tool".to_owned())
}

fn tool_text(payload: &Value) -> String {
    let arguments = arguments(&tool_input(payload));
    let tool = spoken(&tool_of(payload));
    if arguments.is_empty() { tool } else { format!("{tool} with {arguments}") }
}

/// A call is announced when it has ended: before that, the agent may still ask whether to make it.
fn tool_events(payload: &Value, session: &str, error: Option<String>) -> Vec<Value> {
    let tool = tool_name(&tool_of(payload));
    let arguments = arguments(&tool_input(payload));
    let mut invoked = json!({"type": "tool.invoked", "session_id": session, "tool": tool,
        "summary_normal": format!("Used {}.", spoken(&tool_of(payload)))});
    if !arguments.is_empty() {
        invoked["args_summary"] = arguments.into();
    }
    let status = if error.is_some() { "error" } else { "success" };
    let mut completed = json!({"type": "tool.completed", "session_id": session, "tool": tool, "status": status});
    if let Some(duration) = payload.get("duration_ms").and_then(Value::as_u64).filter(|ms| *ms <= 86_400_000) {
        completed["duration_ms"] = duration.into();
    }
    if let Some(error) = error {
        completed["error_message"] = shorten(&error, 1000).into();
    }
    vec![invoked, completed]
}

/// A question that the agent shows in its own terminal, and that no hook can answer.
fn notification(agent: HookAgent, payload: &Value, session: &str) -> Option<Value> {
    let kind = text(payload, &["notification_type", "notificationType"])?;
    if agent.can_decide() || !matches!(kind.as_str(), "ToolPermission" | "permission_prompt") {
        return None;
    }
    let details = &payload["details"];
    let what =
        text(details, &["title"]).or_else(|| text(payload, &["message"])).unwrap_or_else(|| "a permission".into());
    let file = text(details, &["filePath", "fileName", "command"]).map(|file| format!(", {file}")).unwrap_or_default();
    let summary =
        format!("{} asks in its terminal: {}", agent.title(), sentence(&shorten(&format!("{what}{file}"), 1000)));
    Some(
        json!({"type": "state.changed", "session_id": session, "to_state": "awaiting_input", "summary_normal": summary}),
    )
}

fn stopped(agent: HookAgent, payload: &Value, session: &str) -> Vec<Value> {
    let mut events = Vec::new();
    if let Some(message) = text(payload, &["last_assistant_message", "prompt_response", "text"]) {
        let chunk: String = message.chars().take(MESSAGE_CHARS).collect();
        events.push(json!({"type": "output.streaming", "session_id": session, "chunk": chunk, "complete": true,
            "content_type": "text/markdown"}));
    }
    let summary = format!("{} has finished.", agent.title());
    events.push(json!({"type": "session.completed", "session_id": session, "summary_normal": summary}));
    events
}

/// A permission has a session of its own, so that it can be withdrawn without ending the work.
fn ask(agent: HookAgent, payload: &Value, nonce: &str) -> HookAction {
    let session = format!("{}-permission-{nonce}", agent.as_str());
    let (context, extensions) = enforcement(agent);
    let title = agent.title();
    let action = sentence(&format!("{title} asks to use {}", tool_text(payload)));
    let folder = text(payload, &["cwd"]).map(|cwd| format!(" in {}", shorten(&cwd, 200))).unwrap_or_default();
    let consequence = format!("If you agree, it runs{folder}. What it changes may not come back.");
    let common = json!({"session_id": session, "event_id": format!("{session}-question"), "producer": producer(agent),
        "@context": context, "extensions": extensions, "timeout_seconds": TIMEOUT_SECONDS});
    let question = if agent.hides_its_prompt() {
        json!({"type": "awaiting.clarification", "question": format!("{action} {consequence} What should it do?"),
            "accepted_response_kinds": ["multiple_choice"], "default_response": "terminal",
            "choices": [{"value": "allow", "label": "Allow it once"}, {"value": "deny", "label": "Refuse it"},
                {"value": "terminal", "label": "Answer in the terminal"}]})
    } else {
        json!({"type": "awaiting.confirmation", "action": action, "consequence": consequence, "risk_level": "high"})
    };
    let mut event = common;
    if let (Some(event), Some(question)) = (event.as_object_mut(), question.as_object()) {
        event.extend(question.clone());
    }
    HookAction::Ask(HookQuestion {
        event,
        withdrawal: json!({"type": "session.cancelled", "session_id": session, "cancelled_by": "user",
            "summary_normal": format!("The question of {title} was answered in its terminal.")}),
        end: json!({"type": "session.completed", "session_id": session,
            "summary_normal": format!("{title} has your answer.")}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(agent: HookAgent, payload: Value) -> Vec<Value> {
        match translate(agent, "event", &payload, "1") {
            HookAction::Announce(events) => events,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_turn_of_claude_becomes_a_session() {
        let base = |name: &str, more: Value| {
            let mut payload = json!({"session_id": "s1", "hook_event_name": name, "permission_mode": "default"});
            payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            announced(HookAgent::Claude, payload)
        };
        let start = base("UserPromptSubmit", json!({"prompt": "tidy up", "prompt_id": "p"}));
        assert_eq!((&start[0]["type"], &start[0]["request_text"]), (&json!("session.started"), &json!("tidy up")));
        assert_eq!(start[0]["extensions"]["enforcement"]["tools"], "on_request");
        let tool = base("PostToolUse", json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "duration_ms": 5}));
        assert_eq!((&tool[0]["type"], &tool[1]["status"]), (&json!("tool.invoked"), &json!("success")));
        let end = base("Stop", json!({"last_assistant_message": "Done."}));
        assert_eq!((&end[0]["chunk"], &end[1]["type"]), (&json!("Done."), &json!("session.completed")));
        assert!([&start, &tool, &end].iter().all(|events| events[0]["session_id"] == "claude-s1"));
    }

    #[test]
    fn before_a_tool_nothing_is_said_to_have_run() {
        let events = announced(HookAgent::Claude, json!({"hook_event_name": "PreToolUse", "tool_name": "Write"}));
        assert_eq!(events[0]["type"], "state.changed");
    }

    #[test]
    fn mode_that_asks_nothing_is_said() {
        let payload = json!({"hook_event_name": "UserPromptSubmit", "prompt": "x", "permission_mode": "auto"});
        let summary = announced(HookAgent::Claude, payload)[0]["summary_normal"].to_string();
        assert!(summary.contains("does not ask before it acts"), "{summary}");
    }

    #[test]
    fn permission_is_a_confirmation_or_offers_the_terminal() {
        let payload = json!({"tool_name": "Bash", "tool_input": {"command": "rm -r /a"}, "cwd": "/home/ada"});
        for agent in HookAgent::ALL.into_iter().filter(|agent| agent.can_decide()) {
            let HookAction::Ask(question) = translate(agent, "permission", &payload, "7") else { panic!("{agent:?}") };
            let text = question.event.to_string();
            assert!(text.contains("rm -r /a") && text.contains("/home/ada"), "{text}");
            let hidden = question.event["type"] == "awaiting.clarification";
            assert_eq!(hidden, agent.hides_its_prompt(), "{agent:?}");
            assert_eq!(question.event["session_id"], question.withdrawal["session_id"]);
            assert!(question.event.get("default_decision").is_none(), "silence is never a yes");
        }
    }

    #[test]
    fn gemini_is_announced_only() {
        let payload = json!({"hook_event_name": "Notification", "notification_type": "ToolPermission", "session_id": "s",
            "details": {"title": "Confirm edit", "filePath": "/a.txt"}});
        let events = announced(HookAgent::Gemini, payload.clone());
        assert_eq!(events[0]["summary_normal"], "Gemini asks in its terminal: Confirm edit, /a.txt.");
        assert!(matches!(translate(HookAgent::Gemini, "permission", &payload, "1"), HookAction::Announce(_)));
    }

    #[test]
    fn any_payload_is_translated_without_a_panic() {
        for payload in [json!(null), json!([]), json!({"session_id": 7}), json!({"hook_event_name": []}), json!("x")] {
            for agent in HookAgent::ALL {
                translate(agent, "permission", &payload, "1");
                translate(agent, "event", &payload, "1");
            }
        }
        let cursor = json!({"cursor_version": "1", "tool_name": "Bash"});
        assert_eq!(translate(HookAgent::Claude, "permission", &cursor, "1"), HookAction::Ignore);
    }
}
