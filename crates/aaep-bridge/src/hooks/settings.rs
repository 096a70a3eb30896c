//! Hooks in the settings of an agent. Only our own entries are added or removed; every other byte stays.

use std::fmt;

use serde_json::{Value, json};

use super::HookAgent;
use crate::splice;

/// Why settings cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The file is not JSON that the agent would read itself.
    NotJson(String),
    /// The file has another structure than the agent defines.
    UnexpectedStructure(String),
    /// Our hooks are in it already.
    AlreadyInstalled,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::NotJson(why) => {
                write!(f, "it is not valid JSON ({why}), so the agent ignores it too; correct it first")
            }
            SettingsError::UnexpectedStructure(what) => {
                write!(f, "{what} is not what the agent defines; correct it first")
            }
            SettingsError::AlreadyInstalled => f.write_str("the hooks of aaep are in it already"),
        }
    }
}

impl std::error::Error for SettingsError {}

/// How an agent is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installation {
    /// By entries in a settings file that the agent and the user share.
    SharedFile,
    /// By a file of our own.
    OwnFile,
}

/// The events of an agent, each with whether it asks for a permission.
fn events(agent: HookAgent) -> &'static [(&'static str, bool)] {
    match agent {
        HookAgent::Claude => &[
            ("UserPromptSubmit", false),
            ("PreToolUse", false),
            ("PermissionRequest", true),
            ("PostToolUse", false),
            ("PostToolUseFailure", false),
            ("Stop", false),
        ],
        HookAgent::Qwen | HookAgent::Codex => &[
            ("UserPromptSubmit", false),
            ("PreToolUse", false),
            ("PermissionRequest", true),
            ("PostToolUse", false),
            ("Stop", false),
        ],
        HookAgent::Copilot => &[
            ("userPromptSubmitted", false),
            ("preToolUse", false),
            ("permissionRequest", true),
            ("postToolUse", false),
            ("agentStop", false),
        ],
        HookAgent::Gemini => {
            &[("BeforeAgent", false), ("AfterTool", false), ("Notification", false), ("AfterAgent", false)]
        }
        HookAgent::Opencode => &[],
    }
}

/// Returns the text that marks a command as ours.
fn marker(agent: HookAgent) -> String {
    format!("hook {} ", agent.as_str())
}

/// Returns the command of a hook. If the program is missing, it does nothing: for some agents a failure means a refusal.
fn command(agent: HookAgent, program: &str, event: &str, asks: bool) -> String {
    let quoted = format!("'{}'", program.replace('\'', r"'\''"));
    let event = if asks { "permission" } else { event };
    format!("[ -x {quoted} ] || exit 0; exec {quoted} {}{event}", marker(agent))
}

/// Returns the entry of an event. The user has less time than the agent gives the hook.
fn entry(agent: HookAgent, program: &str, (event, asks): (&str, bool)) -> Value {
    let command = command(agent, program, event, asks);
    let seconds = if asks { 600 } else { 5 };
    match agent {
        HookAgent::Copilot => json!({"type": "command", "bash": command, "timeoutSec": seconds}),
        HookAgent::Gemini => {
            json!({"matcher": "*", "hooks": [{"type": "command", "name": "aaep", "command": command, "timeout": seconds * 1000}]})
        }
        _ => json!({"matcher": "", "hooks": [{"type": "command", "command": command, "timeout": seconds}]}),
    }
}

/// Returns the file of our own for agents that read several, or `None` for those with one shared file.
pub fn installed_file(agent: HookAgent, program: &str) -> Option<String> {
    match agent {
        HookAgent::Copilot => {
            let hooks: serde_json::Map<String, Value> = events(agent)
                .iter()
                .map(|(event, asks)| ((*event).to_owned(), json!([entry(agent, program, (event, *asks))])))
                .collect();
            let text = serde_json::to_string_pretty(&json!({"version": 1, "hooks": hooks})).unwrap_or_default();
            Some(text + "\n")
        }
        HookAgent::Opencode => {
            Some(include_str!("opencode.js").replace("\"@PROGRAM@\"", &Value::from(program).to_string()))
        }
        _ => None,
    }
}

/// Returns the settings with our hooks at the end of each list. `None` stands for a file that does not exist.
pub fn install(agent: HookAgent, settings: Option<&str>, program: &str) -> Result<String, SettingsError> {
    let mut text = settings.unwrap_or("{}\n").to_owned();
    if text.trim().is_empty() {
        text = "{}\n".to_owned();
    }
    let value = read(agent, &text)?;
    if value["hooks"].to_string().contains(&marker(agent)) {
        return Err(SettingsError::AlreadyInstalled);
    }
    match value.get("hooks") {
        None => text = append_field(&text, &[], r#""hooks": {}"#)?,
        Some(Value::Object(_)) => {}
        Some(_) => return Err(SettingsError::UnexpectedStructure("hooks".to_owned())),
    }
    for (event, asks) in events(agent) {
        let entry = entry(agent, program, (event, *asks)).to_string();
        match value["hooks"].get(event) {
            None => text = append_field(&text, &["hooks"], &format!("\"{event}\": [{entry}]"))?,
            Some(Value::Array(list)) => {
                let at = position(&text, &["hooks", event])?.end - 1;
                text.insert_str(at, &if list.is_empty() { entry } else { format!(", {entry}") });
            }
            Some(_) => return Err(SettingsError::UnexpectedStructure(format!("hooks.{event}"))),
        }
    }
    read(agent, &text)?;
    Ok(text)
}

/// Returns the settings without our hooks, for a file that was changed since they were added.
pub fn remove(agent: HookAgent, settings: &str) -> Result<String, SettingsError> {
    let mut text = settings.to_owned();
    for (event, _) in events(agent) {
        while let Some(range) = own_entry(agent, &text, event)? {
            text.replace_range(range, "");
        }
        let value = read(agent, &text)?;
        if value["hooks"].get(event) == Some(&json!([])) {
            remove_field(&mut text, &["hooks"], event)?;
        }
    }
    if read(agent, &text)?.get("hooks") == Some(&json!({})) {
        remove_field(&mut text, &[], "hooks")?;
    }
    read(agent, &text)?;
    Ok(text)
}

/// Returns where an entry of ours is in the list of an event, with one comma beside it.
fn own_entry(agent: HookAgent, text: &str, event: &str) -> Result<Option<std::ops::Range<usize>>, SettingsError> {
    let Some(list) = splice::find(text.as_bytes(), &["hooks", event]) else { return Ok(None) };
    let items = splice::items(text.as_bytes(), &list);
    let Some(at) = items.iter().position(|item| text[item.clone()].contains(&marker(agent))) else { return Ok(None) };
    let range = match (at.checked_sub(1).map(|before| &items[before]), items.get(at + 1)) {
        (Some(before), _) => before.end..items[at].end,
        (None, Some(after)) => items[at].start..after.start,
        (None, None) => items[at].clone(),
    };
    Ok(Some(range))
}

fn remove_field(text: &mut String, path: &[&str], name: &str) -> Result<(), SettingsError> {
    let object = position(text, path)?;
    let fields = splice::fields(text.as_bytes(), &object);
    let Some(at) = fields.iter().position(|(key, _)| &text[key.clone()] == name) else { return Ok(()) };
    let start_of = |index: usize| fields[index].0.start - 1;
    let range = if at > 0 {
        fields[at - 1].1.end..fields[at].1.end
    } else if fields.len() > 1 {
        start_of(0)..start_of(1)
    } else {
        start_of(0)..fields[0].1.end
    };
    text.replace_range(range, "");
    Ok(())
}

fn position(text: &str, path: &[&str]) -> Result<std::ops::Range<usize>, SettingsError> {
    let missing = || SettingsError::UnexpectedStructure(path.join("."));
    splice::find(text.as_bytes(), path).ok_or_else(missing)
}

/// Adds a field at the end of an object, after its last field and before anything that follows it.
fn append_field(text: &str, path: &[&str], field: &str) -> Result<String, SettingsError> {
    let object = position(text, path)?;
    let fields = splice::fields(text.as_bytes(), &object);
    let mut text = text.to_owned();
    match fields.last() {
        Some((_, value)) => text.insert_str(value.end, &format!(", {field}")),
        None => text.insert_str(object.start + 1, field),
    }
    Ok(text)
}

/// Reads settings as the agent does. Only Gemini accepts comments.
fn read(agent: HookAgent, text: &str) -> Result<Value, SettingsError> {
    let plain = if agent == HookAgent::Gemini { splice::without_comments(text) } else { text.to_owned() };
    // A byte order mark is accepted by some agents only.
    let value: Value = serde_json::from_str(&plain).map_err(|error| SettingsError::NotJson(error.to_string()))?;
    if aaep_proto::json::Json::parse_str(&plain)
        .is_ok_and(|json| json.object().is_some_and(|o| o.duplicate().is_some()))
    {
        return Err(SettingsError::UnexpectedStructure("a key that occurs twice".to_owned()));
    }
    if value.is_object() { Ok(value) } else { Err(SettingsError::UnexpectedStructure("the file".to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: [HookAgent; 4] = [HookAgent::Claude, HookAgent::Qwen, HookAgent::Codex, HookAgent::Gemini];
    const PROGRAM: &str = "/opt/a b/it's/aaep";

    fn round_trip(agent: HookAgent, before: &str) -> String {
        let after = install(agent, Some(before), PROGRAM).unwrap();
        assert_eq!(install(agent, Some(&after), PROGRAM), Err(SettingsError::AlreadyInstalled));
        assert_eq!(remove(agent, &after).unwrap(), before, "{agent:?}: not as before\n{after}");
        after
    }

    #[test]
    fn removing_restores_every_byte() {
        for agent in SHARED {
            for before in [
                "{}",
                "{ }\n",
                "{\"a\": 1}",
                "{\n\t\"model\" : \"x\",\r\n\t\"unknown\": {\"deep\": [1, 2, {}]}\n}\n",
                "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]}, \"z\": \"}\"}",
                "{\"hooks\": {\"Other\": []}}",
            ] {
                let after = round_trip(agent, before);
                let hooks = &read(agent, &after).unwrap()["hooks"];
                for (event, asks) in events(agent) {
                    let list = hooks[event].as_array().unwrap();
                    let ours = list.last().unwrap().to_string();
                    let expected = if *asks { " permission" } else { event };
                    assert!(ours.contains(expected), "{agent:?} {event}: {ours}");
                }
            }
        }
    }

    #[test]
    fn entries_of_others_stay_first_and_unchanged() {
        let before = r#"{"hooks": {"Stop": [{"hooks": [{"command": "a"}]}, {"hooks": [{"command": "b"}]}]}}"#;
        let after = round_trip(HookAgent::Codex, before);
        let stop = &read(HookAgent::Codex, &after).unwrap()["hooks"]["Stop"];
        assert_eq!(stop[0]["hooks"][0]["command"], "a", "trust of Codex is by index");
        assert_eq!(stop.as_array().unwrap().len(), 3);
        // Someone else has added entries meanwhile, before and after ours.
        let changed = after.replace("\"Stop\": [", "\"Stop\": [{\"hooks\": [{\"command\": \"c\"}]}, ");
        let removed = read(HookAgent::Codex, &remove(HookAgent::Codex, &changed).unwrap()).unwrap();
        assert_eq!(removed["hooks"]["Stop"].as_array().unwrap().len(), 3);
        assert_eq!(removed["hooks"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn comments_are_kept_where_the_agent_accepts_them_and_refused_elsewhere() {
        let before = "// mine\n{\n  /* a \"quoted\" { comment */ \"theme\": \"x // no comment\", // end\n  \"hooks\": { /* none */ }\n}\n";
        let after = install(HookAgent::Gemini, Some(before), PROGRAM).unwrap();
        assert!(after.contains("// mine") && after.contains("/* none */") && after.contains("// end"));
        for agent in [HookAgent::Claude, HookAgent::Codex] {
            assert!(matches!(install(agent, Some(before), PROGRAM), Err(SettingsError::NotJson(_))));
            assert!(matches!(install(agent, Some("{\"a\": 1,}"), PROGRAM), Err(SettingsError::NotJson(_))));
            assert!(matches!(install(agent, Some("[1]"), PROGRAM), Err(SettingsError::UnexpectedStructure(_))));
            let wrong = install(agent, Some("{\"hooks\": {\"Stop\": 3}}"), PROGRAM);
            assert!(matches!(wrong, Err(SettingsError::UnexpectedStructure(_))));
        }
    }

    #[test]
    fn new_file_has_only_our_hooks() {
        for agent in SHARED {
            let text = install(agent, None, PROGRAM).unwrap();
            assert_eq!(read(agent, &text).unwrap().as_object().unwrap().len(), 1);
            assert_eq!(remove(agent, &text).unwrap().trim(), "{}");
        }
    }

    #[test]
    fn own_files_are_complete() {
        let copilot: Value = serde_json::from_str(&installed_file(HookAgent::Copilot, PROGRAM).unwrap()).unwrap();
        assert_eq!(copilot["version"], 1);
        let permission = &copilot["hooks"]["permissionRequest"][0];
        assert_eq!(permission["timeoutSec"], 600);
        assert!(permission["bash"].as_str().unwrap().starts_with("[ -x '/opt/a b/it'\\''s/aaep' ] || exit 0; exec "));
        let plugin = installed_file(HookAgent::Opencode, PROGRAM).unwrap();
        assert!(plugin.contains(PROGRAM) && !plugin.contains("@PROGRAM@"));
    }
}
