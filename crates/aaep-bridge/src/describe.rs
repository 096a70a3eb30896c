//! Sentences about tool calls for people.

use serde_json::{Map, Value};

/// Most characters of one argument that are spoken.
const VALUE_CHARS: usize = 200;

/// Most characters of all arguments together.
const ALL_CHARS: usize = 1500;

/// Describes arguments: each name with its value, long values shortened with their length.
pub(crate) fn arguments(arguments: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (number, (name, value)) in arguments.iter().enumerate() {
        if text.chars().count() > ALL_CHARS {
            let rest = arguments.len() - number;
            text.push_str(&format!("; and {rest} more"));
            break;
        }
        let separator = if number == 0 { "" } else { "; " };
        text.push_str(&format!("{separator}{}: {}", shorten(name, 60), describe_value(value)));
    }
    text
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) => shorten(text, VALUE_CHARS),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "nothing".to_owned(),
        other => shorten(&other.to_string(), VALUE_CHARS),
    }
}

/// Shortens a text to about this many characters, on one line, and says how many are missing.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    let one_line = |text: String| text.replace(['\n', '\r', '\t'], " ");
    if length <= limit {
        return one_line(text.to_owned());
    }
    let start: String = text.chars().take(limit).collect();
    format!("{} (and {} more characters)", one_line(start), length - limit)
}

/// Ends a text with a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Returns a name that is valid as a tool name of the protocol: a letter or underscore, then letters, digits, `_`, `.`, `-`.
pub(crate) fn tool_name(name: &str) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let mapped: String = name.chars().take(255).map(valid).collect();
    if mapped.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') { mapped } else { format!("_{mapped}") }
}

/// Returns the name of a tool for people: `delete_file` is spoken as `delete file`.
pub(crate) fn spoken(name: &str) -> String {
    shorten(&name.replace(['_', '-'], " "), 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn described(value: Value) -> String {
        arguments(value.as_object().unwrap())
    }

    #[test]
    fn arguments_are_named_and_long_ones_shortened() {
        assert_eq!(described(json!({"path": "/a", "deep": true, "n": 3})), "deep: yes; n: 3; path: /a");
        let long = described(json!({"text": "x".repeat(1000)}));
        assert!(long.ends_with("x (and 800 more characters)"), "{long}");
        assert_eq!(described(json!({"a": "one\ntwo"})), "a: one two");
        assert_eq!(described(json!({})), "");
    }

    #[test]
    fn many_arguments_are_counted() {
        let many: Map<String, Value> = (0..1000).map(|n| (format!("name{n:04}"), json!("v".repeat(50)))).collect();
        let text = arguments(&many);
        assert!(text.len() < 2000 && text.contains(" more"), "{text}");
    }

    #[test]
    fn tool_names_are_valid_whatever_the_server_calls_them() {
        assert_eq!(tool_name("delete_file"), "delete_file");
        assert_eq!(tool_name("2 löschen/x"), "_2_l_schen_x");
        assert_eq!(tool_name(""), "_");
    }
}
