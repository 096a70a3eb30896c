//! A JSON document that borrows from its bytes.
//!
//! Validation visits every field once and keeps nothing, so it uses this tree instead of owned values: strings without
//! escapes point into the input, objects keep the order of their fields, and duplicate keys are detected.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::limits;

/// A JSON value that borrows its strings from the input where possible.
///
/// ```
/// use aaep_proto::json::Json;
/// let json = Json::parse(br#"{"a": [1, "two"]}"#)?;
/// assert_eq!(json.get("a").and_then(|a| a.items()).map(|i| i.len()), Some(2));
/// # Ok::<(), aaep_proto::json::SyntaxError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, kept as an integer if it was written as one.
    Number(Number),
    /// A string.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object.
    Object(Object<'a>),
}

/// The fields of a JSON object in document order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object<'a> {
    fields: Vec<(Cow<'a, str>, Json<'a>)>,
    duplicate: Option<Cow<'a, str>>,
}

/// The error for bytes that are not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    message: String,
    /// The position, counted from 1, if it is known.
    place: Option<(usize, usize)>,
}

impl From<serde_json::Error> for SyntaxError {
    fn from(error: serde_json::Error) -> SyntaxError {
        let mut message = error.to_string();
        // The message of the parser ends with the position, which is formatted separately here.
        if let Some(cut) = message.find(" at line ") {
            message.truncate(cut);
        }
        SyntaxError { message, place: Some((error.line(), error.column())).filter(|p| p.0 > 0) }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.place {
            Some((1, column)) => write!(f, " at column {column}"),
            Some((line, column)) => write!(f, " at line {line} of it, column {column}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SyntaxError {}

/// The message for UTF-16, which some editors save by default.
pub(crate) const IS_UTF_16: &str = "it is UTF-16; convert it to UTF-8";

/// Returns whether the bytes begin with the byte order mark of UTF-16.
pub(crate) fn is_utf_16(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF")
}

impl<'a> Json<'a> {
    /// Parses one JSON document. A byte order mark at the start is ignored (RFC 8259, section 8.1).
    pub fn parse(bytes: &'a [u8]) -> Result<Json<'a>, SyntaxError> {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        if is_utf_16(bytes) {
            return Err(SyntaxError { message: IS_UTF_16.to_owned(), place: None });
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|e| SyntaxError { message: format!("byte {} is not UTF-8", e.valid_up_to() + 1), place: None })?;
        Json::parse_str(text)
    }

    /// Parses one JSON document from text.
    pub fn parse_str(text: &'a str) -> Result<Json<'a>, SyntaxError> {
        Ok(serde_json::from_str(text)?)
    }

    /// Parses a document from a peer. A document that would take far more memory than it has bytes is refused before
    /// it is parsed.
    pub fn parse_from_peer(bytes: &'a [u8]) -> Result<Json<'a>, SyntaxError> {
        // Each value takes at least two bytes with its separator, so most documents need no count.
        if bytes.len() > limits::MESSAGE_VALUES && values_in(bytes) > limits::MESSAGE_VALUES {
            let message = format!("it holds more than {} values", limits::MESSAGE_VALUES);
            return Err(SyntaxError { message, place: None });
        }
        Json::parse(bytes)
    }

    /// Returns the field with this name. Returns `None` if this is not an object or has no such field.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.object()?.get(name)
    }

    /// Returns this value as an object, or `None` if it is not one.
    pub fn object(&self) -> Option<&Object<'a>> {
        match self {
            Json::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns this value as text, or `None` if it is not a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns this value as a boolean, or `None` if it is not one.
    pub fn boolean(&self) -> Option<bool> {
        match self {
            Json::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Returns the items of this array, or `None` if it is not one.
    pub fn items(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns this value as a whole number, or `None` if it is not one. `3.0` is one, as in JSON Schema; `3.5` is not.
    pub fn integer(&self) -> Option<i128> {
        let Json::Number(number) = self else { return None };
        if let Some(n) = number.as_i64() {
            return Some(n.into());
        }
        if let Some(n) = number.as_u64() {
            return Some(n.into());
        }
        // Between -2^127 and 2^127 a whole f64 converts exactly.
        number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 1e38).map(|f| f as i128)
    }

    /// Returns this value as a number, or `None` if it is not one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Json::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Returns the name of the value's type, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }

    /// Returns an owned copy.
    pub fn to_value(&self) -> Value {
        match self {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => Value::Number(n.clone()),
            Json::String(s) => Value::String(s.clone().into_owned()),
            Json::Array(items) => Value::Array(items.iter().map(Json::to_value).collect()),
            Json::Object(object) => Value::Object(object.to_map()),
        }
    }
}

impl<'a> Object<'a> {
    /// Returns the field with this name, or `None` if there is none.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns whether there is a field with this name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns all fields in document order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json<'a>)> {
        self.fields.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// Returns the object with another value for this field, or without it.
    pub(crate) fn with(&self, name: &'static str, value: Option<Json<'a>>) -> Object<'a> {
        let mut fields = self.fields.clone();
        fields.retain(|(key, _)| key != name);
        fields.extend(value.map(|value| (Cow::Borrowed(name), value)));
        Object { fields, duplicate: self.duplicate.clone() }
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns a key that occurs more than once, or `None`. The first value of such a key is kept.
    pub fn duplicate(&self) -> Option<&str> {
        self.duplicate.as_deref()
    }

    /// Returns an owned copy.
    pub fn to_map(&self) -> Map<String, Value> {
        self.iter().map(|(key, value)| (key.to_owned(), value.to_value())).collect()
    }

    /// Up to this many fields, a mark per key finds the few pairs to compare; above it, keys are sorted. This
    /// avoids quadratic time for a hostile object with a million keys.
    const SMALL: usize = 40;

    pub(crate) fn from_fields(mut fields: Vec<(Cow<'a, str>, Json<'a>)>) -> Object<'a> {
        let doubled = if fields.len() <= Self::SMALL { doubled_of_few(&fields) } else { doubled_of_many(&fields) };
        let duplicate = doubled.first().map(|&first| fields[first].0.clone());
        if duplicate.is_some() {
            let mut index = 0;
            let mut doubled = doubled.into_iter().peekable();
            fields.retain(|_| {
                let drop = doubled.next_if_eq(&index).is_some();
                index += 1;
                !drop
            });
        }
        Object { fields, duplicate }
    }
}

/// Returns an upper bound of the number of values in a document, without parsing it.
fn values_in(mut bytes: &[u8]) -> usize {
    let mut count = 1;
    while let Some((byte, rest)) = bytes.split_first() {
        bytes = match byte {
            b'"' => after_string(rest),
            _ => rest,
        };
        count += usize::from(matches!(byte, b'{' | b'[' | b','));
    }
    count
}

fn after_string(mut bytes: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', bytes) {
        let escapes = bytes[at] == b'\\';
        bytes = bytes.get(at + 1 + usize::from(escapes)..).unwrap_or_default();
        if !escapes {
            return bytes;
        }
    }
    &[]
}

/// Returns the indices of keys that occurred before, in ascending order.
fn doubled_of_few(fields: &[(Cow<'_, str>, Json<'_>)]) -> Vec<usize> {
    let mut doubled = Vec::new();
    let mut marks = 0u64;
    for (i, (key, _)) in fields.iter().enumerate() {
        let bytes = key.as_bytes();
        let sum = bytes.len()
            + 7 * usize::from(bytes.first().copied().unwrap_or(0))
            + 31 * usize::from(bytes.last().copied().unwrap_or(0));
        let mark = 1 << (sum % 64);
        if marks & mark != 0 && fields[..i].iter().any(|(earlier, _)| earlier == key) {
            doubled.push(i);
        }
        marks |= mark;
    }
    doubled
}

fn doubled_of_many(fields: &[(Cow<'_, str>, Json<'_>)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..fields.len()).collect();
    order.sort_by(|&a, &b| fields[a].0.cmp(&fields[b].0).then(a.cmp(&b)));
    let mut doubled: Vec<usize> = order.windows(2).filter(|w| fields[w[0]].0 == fields[w[1]].0).map(|w| w[1]).collect();
    doubled.sort_unstable();
    doubled
}

/// A string that borrows from the input unless it had escapes.
struct BorrowedText<'a>(Cow<'a, str>);

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = BorrowedText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
        Ok(BorrowedText(Cow::Borrowed(v)))
    }

    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        Ok(BorrowedText(Cow::Owned(v.to_owned())))
    }

    fn visit_string<E>(self, v: String) -> Result<Self::Value, E> {
        Ok(BorrowedText(Cow::Owned(v)))
    }
}

impl<'de> Deserialize<'de> for BorrowedText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
        Ok(Json::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
        Ok(Json::Number(v.into()))
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Self::Value, E> {
        Number::from_f64(v).map(Json::Number).ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
        Ok(Json::String(Cow::Borrowed(v)))
    }

    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        Ok(Json::String(Cow::Owned(v.to_owned())))
    }

    fn visit_string<E>(self, v: String) -> Result<Self::Value, E> {
        Ok(Json::String(Cow::Owned(v)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(BorrowedText(key)) = map.next_key()? {
            if fields.is_empty() {
                // Most objects of the protocol are events with a dozen or two fields.
                fields.reserve(16);
            }
            fields.push((key, map.next_value()?));
        }
        Ok(Json::Object(Object::from_fields(fields)))
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

impl<'a> From<&'a Value> for Json<'a> {
    fn from(value: &'a Value) -> Json<'a> {
        match value {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(*b),
            Value::Number(n) => Json::Number(n.clone()),
            Value::String(s) => Json::String(Cow::Borrowed(s)),
            Value::Array(items) => Json::Array(items.iter().map(Json::from).collect()),
            Value::Object(map) => {
                let fields = map.iter().map(|(k, v)| (Cow::Borrowed(k.as_str()), Json::from(v)));
                Json::Object(Object { fields: fields.collect(), duplicate: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let json = Json::parse(br#"{"plain":"abc","escaped":"a\nb"}"#).unwrap();
        assert!(matches!(json.get("plain"), Some(Json::String(Cow::Borrowed("abc")))));
        assert!(matches!(json.get("escaped"), Some(Json::String(Cow::Owned(s))) if s == "a\nb"));
    }

    #[test]
    fn a_key_written_twice_is_noticed_and_the_first_value_kept() {
        let json = Json::parse(br#"{"a":1,"b":2,"a":3}"#).unwrap();
        let object = json.object().unwrap();
        assert_eq!(object.duplicate(), Some("a"));
        assert_eq!(object.len(), 2);
        assert_eq!(object.get("a").and_then(Json::integer), Some(1));
    }

    #[test]
    fn duplicates_are_found_in_large_objects_too() {
        let mut text = String::from("{");
        for i in 0..1000 {
            text.push_str(&format!("\"k{i}\":{i},"));
        }
        text.push_str("\"k500\":-1}");
        let json = Json::parse(text.as_bytes()).unwrap();
        let object = json.object().unwrap();
        assert_eq!(object.duplicate(), Some("k500"));
        assert_eq!(object.len(), 1000);
        assert_eq!(object.get("k500").and_then(Json::integer), Some(500));
    }

    #[test]
    fn whole_floats_count_as_integers() {
        let whole = |s: &str| Json::parse_str(s).unwrap().integer();
        assert_eq!(whole("3.0"), Some(3));
        assert_eq!(whole("3.5"), None);
        assert_eq!(whole("18446744073709551615"), Some(u64::MAX.into()));
        assert_eq!(whole("1e300"), None);
    }

    #[test]
    fn syntax_errors_are_one_sentence() {
        for bytes in [&b"{\"a\":"[..], b"\"\\ud800\"", b"nul", b"", b"\xE9", b"{} x"] {
            let message = Json::parse(bytes).unwrap_err().to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
        }
    }

    #[test]
    fn nesting_bombs_are_refused_not_followed() {
        let bomb = "[".repeat(100_000);
        assert!(Json::parse(bomb.as_bytes()).is_err());
    }
}
