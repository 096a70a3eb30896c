//! Reading what an agent wrote without changing its meaning. The user agrees to the arguments of a call, so two texts
//! that mean different calls must not be read as the same value.

use aaep_proto::json::Json;
use serde_json::{Number, Value};

use super::response::AgentError;

/// Reads one JSON value. A key that is there twice is refused: readers disagree on which of the two counts.
pub(super) fn read(line: &[u8]) -> Result<Value, AgentError> {
    let json = Json::parse(line)
        .map_err(|error| AgentError::new(format!("This is not JSON: {error}. Write one JSON object on one line.")))?;
    match duplicate_in(&json) {
        Some(key) => Err(AgentError::new(format!("{key} is there more than once. Write every key of an object once."))),
        None => Ok(json.to_value()),
    }
}

/// Refuses numbers that cannot be held exactly: integers beyond 64 bits and decimals that are longer than a double.
pub(super) fn check_numbers(line: &[u8]) -> Result<(), AgentError> {
    match numbers_in(line).find(|token| !is_exact(token)) {
        Some(token) => {
            // A number can be as long as a line.
            let shown: String = token.chars().take(40).collect();
            let message = format!("The number {shown} cannot be kept exactly. Send it as a string.");
            Err(AgentError::at("/args", message))
        }
        None => Ok(()),
    }
}

fn duplicate_in<'j>(json: &'j Json<'_>) -> Option<&'j str> {
    match json {
        Json::Object(object) => object.duplicate().or_else(|| object.iter().find_map(|(_, value)| duplicate_in(value))),
        Json::Array(items) => items.iter().find_map(duplicate_in),
        _ => None,
    }
}

/// The numbers of a JSON text, as they are written.
fn numbers_in(line: &[u8]) -> impl Iterator<Item = &str> {
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

/// Whether a number is the same after it was read.
fn is_exact(token: &str) -> bool {
    let Ok(number) = serde_json::from_str::<Number>(token) else { return false };
    Decimal::read(token).is_some_and(|written| Decimal::read(&number.to_string()) == Some(written))
}

/// The exact value of a decimal number: its digits without zeros at either end, and the power of ten of the last one.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn read(token: &str) -> Option<Decimal> {
        let (negative, rest) = token.strip_prefix('-').map_or((false, token), |rest| (true, rest));
        let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_end_matches('0');
        let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
        let digits = significant.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Decimal { negative: false, digits, exponent: 0 });
        }
        let power: i64 = power.parse().ok()?;
        let exponent = power.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(zeros)?;
        Some(Decimal { negative, digits, exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_there_twice_is_refused_at_any_depth() {
        assert!(read(br#"{"a": {"b": 1}, "c": [{"b": 1}]}"#).is_ok());
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":{"b":1,"b":2}}"#, r#"{"a":[[{"b":1,"\u0062":2}]]}"#] {
            let fault = read(text.as_bytes()).unwrap_err();
            assert!(fault.message.contains("more than once"), "{fault:?}");
        }
    }

    #[test]
    fn numbers_are_exact_or_refused() {
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
        for changed in [
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
            let text = format!(r#"{{"args": [{{"n": {changed}}}]}}"#);
            let fault = check_numbers(text.as_bytes()).unwrap_err();
            assert!(fault.message.contains("as a string"), "{fault:?}");
        }
    }

    #[test]
    fn digits_in_strings_are_no_numbers() {
        let text =
            r#"{"args": {"18446744073709551616": "a \" 18446744073709551616", "b\\": "0.10000000000000000001"}}"#;
        assert_eq!(check_numbers(text.as_bytes()), Ok(()));
    }
}
