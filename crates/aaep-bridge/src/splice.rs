//! Changing one place of a JSON line and leaving every other byte as it is.

use std::ops::Range;

use crate::strict::end_of_string;

/// Returns where the value at this path of object keys is in a line of valid JSON, or `None` if there is none. Keys are
/// compared as they are written, so a key with escapes is not found.
pub(crate) fn find(line: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let mut range = value_at(line, skip_space(line, 0));
    for key in path {
        range = field(line, &range, key)?;
    }
    Some(range)
}

/// Replaces a range of a line.
pub(crate) fn replace(line: &[u8], range: Range<usize>, with: &str) -> Vec<u8> {
    [&line[..range.start], with.as_bytes(), &line[range.end..]].concat()
}

/// Inserts a field at the start of the object at this path, for example `"a":1`. Returns `None` if there is no object.
pub(crate) fn insert_field(line: &[u8], path: &[&str], field: &str) -> Option<Vec<u8>> {
    let object = find(line, path)?;
    if line.get(object.start) != Some(&b'{') {
        return None;
    }
    let at = object.start + 1;
    let is_empty = line.get(skip_space(line, at)) == Some(&b'}');
    let comma = if is_empty { "" } else { "," };
    Some(replace(line, at..at, &format!("{field}{comma}")))
}

/// Skips white space, and comments where a format has them.
fn skip_space(line: &[u8], mut at: usize) -> usize {
    loop {
        while line.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        match end_of_comment(line, at) {
            Some(end) => at = end,
            None => return at,
        }
    }
}

/// Returns the position after the comment that starts here, or `None` if there is none.
fn end_of_comment(line: &[u8], at: usize) -> Option<usize> {
    let rest = line.get(at..)?;
    if rest.starts_with(b"//") {
        return Some(rest.iter().position(|byte| *byte == b'\n').map_or(line.len(), |end| at + end));
    }
    let inside = rest.strip_prefix(b"/*")?;
    Some(inside.windows(2).position(|pair| pair == b"*/").map_or(line.len(), |end| at + end + 4))
}

/// Returns the text with spaces in place of comments.
pub(crate) fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (bytes.to_vec(), 0);
    while at < bytes.len() {
        if bytes[at] == b'"' {
            at = end_of_string(bytes, at);
        } else if let Some(end) = end_of_comment(bytes, at) {
            plain[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Returns the range of the value that starts here.
fn value_at(line: &[u8], start: usize) -> Range<usize> {
    let mut at = start;
    let mut depth = 0_usize;
    loop {
        at = if depth > 0 { skip_space(line, at) } else { at };
        let Some(byte) = line.get(at) else { break };
        match byte {
            b'"' => at = end_of_string(line, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            _ => {
                let end = |b: &u8| !(b.is_ascii_alphanumeric() || b"+-.".contains(b));
                let length = line[at..].iter().position(end).unwrap_or(line.len() - at);
                // Anything else separates values.
                at += length.max(1);
            }
        }
        if depth == 0 {
            break;
        }
    }
    start..at.min(line.len())
}

/// Returns the fields of the object in this range: the key without its quotes, and the value.
pub(crate) fn fields(line: &[u8], object: &Range<usize>) -> Vec<(Range<usize>, Range<usize>)> {
    let mut found = Vec::new();
    if line.get(object.start) != Some(&b'{') {
        return found;
    }
    let mut at = skip_space(line, object.start + 1);
    while at < object.end && line.get(at) == Some(&b'"') {
        let end = end_of_string(line, at);
        let key = at + 1..end.saturating_sub(1);
        let colon = skip_space(line, end);
        let value = value_at(line, skip_space(line, colon + 1));
        let comma = skip_space(line, value.end);
        found.push((key, value));
        at = skip_space(line, comma + 1);
    }
    found
}

/// Returns the items of the array in this range.
pub(crate) fn items(line: &[u8], array: &Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if line.get(array.start) != Some(&b'[') {
        return found;
    }
    let mut at = skip_space(line, array.start + 1);
    while at < array.end && !matches!(line.get(at), None | Some(b']')) {
        let value = value_at(line, at);
        let comma = skip_space(line, value.end);
        found.push(value);
        at = skip_space(line, comma + 1);
    }
    found
}

/// Returns the value of a field of the object in this range.
fn field(line: &[u8], object: &Range<usize>, key: &str) -> Option<Range<usize>> {
    let mut fields = fields(line, object).into_iter();
    fields.find(|(name, _)| &line[name.clone()] == key.as_bytes()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn text<'l>(line: &'l str, path: &[&str]) -> Option<&'l str> {
        find(line.as_bytes(), path).map(|range| &line[range])
    }

    #[test]
    fn values_are_found_by_path() {
        let line =
            r#" { "a\"" : [1, "}", {"b": 2}] , "params":{"x":-1.5e3,"_meta":{ "t" : "v\"}" }, "e":{} },"id":7} "#;
        assert_eq!(text(line, &["id"]), Some("7"));
        assert_eq!(text(line, &["params", "x"]), Some("-1.5e3"));
        assert_eq!(text(line, &["params", "_meta"]), Some(r#"{ "t" : "v\"}" }"#));
        assert_eq!(text(line, &["params", "_meta", "t"]), Some(r#""v\"}""#));
        assert_eq!(text(line, &["params", "none"]), None);
        assert_eq!(text(line, &["id", "none"]), None);
        assert_eq!(text(line, &[]), Some(line.trim()));
    }

    #[test]
    fn inserted_field_changes_nothing_else() {
        let line = br#"{"id":1, "params" : { },"z":[ ]}"#;
        let changed = insert_field(line, &["params"], r#""a":{"b":1}"#).unwrap();
        assert_eq!(String::from_utf8(changed).unwrap(), r#"{"id":1, "params" : {"a":{"b":1} },"z":[ ]}"#);
        let changed = insert_field(br#"{"params":{"c":2}}"#, &["params"], r#""a":1"#).unwrap();
        assert_eq!(String::from_utf8(changed).unwrap(), r#"{"params":{"a":1,"c":2}}"#);
        assert_eq!(insert_field(br#"{"params":[]}"#, &["params"], r#""a":1"#), None);
    }

    proptest::proptest! {
        #[test]
        fn inserted_fields_are_read_where_they_were_inserted(keys in proptest::collection::vec("[a-z\"\\\\{}:, ]{0,6}", 0..5)) {
            let mut object: Value = keys.iter().map(|key| (key.clone(), json!([key, {key: 1}]))).collect();
            object["params"] = object.clone();
            let line = object.to_string();
            let changed = insert_field(line.as_bytes(), &["params"], r#""added!":true"#).unwrap();
            let mut read: Value = serde_json::from_slice(&changed).unwrap();
            proptest::prop_assert_eq!(read["params"].as_object_mut().unwrap().remove("added!"), Some(json!(true)));
            proptest::prop_assert_eq!(read, object);
        }
    }
}
