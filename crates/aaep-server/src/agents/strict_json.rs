//! Parsing an agent's JSON without changing its meaning. The user agrees to the arguments of a tool call, so two texts that
//! mean different calls must not become the same value.

use aaep_proto::json::Json;
use serde_json::{Number, Value};

use super::response::AgentError;

/// Most characters of a number that an error message quotes: a number can be as long as a line.
const MAX_QUOTED_CHARS: usize = 40;

/// Parses one JSON value. Refuses an object that has a key twice: parsers disagree on which of the two counts.
pub(super) fn parse(line: &[u8]) -> Result<Value, AgentError> {
    let json = Json::parse(line)
        .map_err(|error| AgentError::new(format!("This is not JSON: {error}. Write one JSON object on one line.")))?;
    match duplicate_key(&json) {
        Some(key) => Err(AgentError::new(format!("The key {key} occurs more than once. Write every key once."))),
        None => Ok(json.to_value()),
    }
}

/// Refuses numbers that the parsed value cannot represent exactly: integers beyond 64 bits, and decimals with more digits
/// than a double has. This looks at the text again, because the parsed value has lost these digits.
pub(super) fn check_numbers(line: &[u8]) -> Result<(), AgentError> {
    match number_tokens(line).find(|token| !is_exact(token)) {
        Some(token) => {
            let quoted: String = token.chars().take(MAX_QUOTED_CHARS).collect();
            let message = format!("The number {quoted} cannot be represented exactly. Send it as a string.");
            Err(AgentError::at("/args", message))
        }
        None => Ok(()),
    }
}

fn duplicate_key<'j>(json: &'j Json<'_>) -> Option<&'j str> {
    match json {
        Json::Object(object) => {
            object.duplicate().or_else(|| object.iter().find_map(|(_, value)| duplicate_key(value)))
        }
        Json::Array(items) => items.iter().find_map(duplicate_key),
        _ => None,
    }
}

/// Iterates over the numbers of a JSON text, as they are written.
fn number_tokens(line: &[u8]) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut in_string = false;
        while at < line.len() {
            let start = at;
            at += 1;
            match line[start] {
                b'\\' if in_string => at += 1,
                b'"' => in_string = !in_string,
                b'-' | b'0'..=b'9' if !in_string => {
                    while line.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b)) {
                        at += 1;
                    }
                    return std::str::from_utf8(&line[start..at]).ok();
                }
                _ => {}
            }
        }
        None
    })
}

/// Returns whether a number has the same value after it was parsed.
fn is_exact(token: &str) -> bool {
    let Ok(number) = serde_json::from_str::<Number>(token) else { return false };
    ExactDecimal::parse(token).is_some_and(|written| ExactDecimal::parse(&number.to_string()) == Some(written))
}

/// The exact value of a decimal number: its digits without leading and trailing zeros, and the power of ten of the last one.
#[derive(PartialEq, Eq)]
struct ExactDecimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl ExactDecimal {
    fn parse(token: &str) -> Option<ExactDecimal> {
        let (negative, rest) = token.strip_prefix('-').map_or((false, token), |rest| (true, rest));
        let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_end_matches('0');
        let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
        let digits = significant.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Some(ExactDecimal { negative: false, digits, exponent: 0 });
        }
        let power: i64 = power.parse().ok()?;
        let exponent = power.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(zeros)?;
        Some(ExactDecimal { negative, digits, exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_key_is_refused_at_any_depth() {
        assert!(parse(br#"{"a": {"b": 1}, "c": [{"b": 1}]}"#).is_ok());
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":{"b":1,"b":2}}"#, r#"{"a":[[{"b":1,"\u0062":2}]]}"#] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.message.contains("more than once"), "{error:?}");
        }
    }

    #[test]
    fn inexact_number_is_refused() {
        for exact in [
            "0",
            "-0",
            "-0.0",
            "1",
            "1.0",
            "1.50",
            "1e2",
            "1E+2",
            "100",
            "0.1",
            "2.5e-3",
            "9007199254740993",
            "18446744073709551615",
            "-9223372036854775808",
            "3.141592653589793",
            "1.7976931348623157e308",
            "5e-324",
        ] {
            let text = format!(r#"{{"args": {exact}}}"#);
            assert_eq!(check_numbers(text.as_bytes()), Ok(()), "{exact}");
        }
        for inexact in [
            "18446744073709551616",
            "18446744073709551617",
            "-9223372036854775809",
            "0.10000000000000000001",
            "3.14159265358979323846",
            "9007199254740993.5",
            "1e-400",
            "1e-99999999999999999999",
            "1e999",
        ] {
            let text = format!(r#"{{"args": [{{"n": {inexact}}}]}}"#);
            let error = check_numbers(text.as_bytes()).unwrap_err();
            assert!(error.message.contains("as a string"), "{error:?}");
        }
    }

    #[test]
    fn digits_in_strings_are_not_numbers() {
        let text =
            r#"{"args": {"18446744073709551616": "a \" 18446744073709551616", "b\\": "0.10000000000000000001"}}"#;
        assert_eq!(check_numbers(text.as_bytes()), Ok(()));
    }
}
