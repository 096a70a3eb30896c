//! Typed values as [`Json`], without serializing them: the validator checks a typed event through the same tables and by
//! the same code as one that was parsed.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use crate::id::{EventId, OutputId, ReplyToken, SessionId, SubscriptionId, ToolCallId};
use crate::json::{Json, Object};
use crate::language::LanguageTag;
use crate::message::{Capabilities, Event, Response};
use crate::record::{Decimal, Record};
use crate::time::Timestamp;

/// The fields of an object, in order.
pub(crate) type Fields<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

/// A value that can be viewed as JSON: the same JSON that its serialized form parses to.
pub(crate) trait ToJson {
    /// Views it as JSON.
    fn to_json(&self) -> Json<'_>;
}

impl ToJson for String {
    fn to_json(&self) -> Json<'_> {
        Json::String(Cow::Borrowed(self))
    }
}

impl ToJson for bool {
    fn to_json(&self) -> Json<'_> {
        Json::Bool(*self)
    }
}

impl ToJson for u32 {
    fn to_json(&self) -> Json<'_> {
        Json::Number((*self).into())
    }
}

impl ToJson for u64 {
    fn to_json(&self) -> Json<'_> {
        Json::Number((*self).into())
    }
}

impl ToJson for Decimal {
    fn to_json(&self) -> Json<'_> {
        match self.as_integer() {
            Some(integer) => Json::Number(integer.into()),
            // A number that is none is written as null.
            None => Number::from_f64(self.0).map_or(Json::Null, Json::Number),
        }
    }
}

impl ToJson for Map<String, Value> {
    fn to_json(&self) -> Json<'_> {
        Json::Object(Object::from_fields(
            self.iter().map(|(name, value)| (Cow::Borrowed(&**name), value.into())).collect(),
        ))
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> Json<'_> {
        Json::Array(self.iter().map(ToJson::to_json).collect())
    }
}

impl ToJson for Timestamp {
    fn to_json(&self) -> Json<'_> {
        Json::String(Cow::Owned(self.to_string()))
    }
}

macro_rules! text_to_json {
    ($($name:ty),+) => {$(
        impl ToJson for $name {
            fn to_json(&self) -> Json<'_> {
                Json::String(Cow::Borrowed(self.as_str()))
            }
        }
    )+};
}

text_to_json!(EventId, SessionId, SubscriptionId, ReplyToken, ToolCallId, OutputId, LanguageTag);

impl ToJson for Response {
    fn to_json(&self) -> Json<'_> {
        match self {
            Response::Text(text) => text.to_json(),
            Response::Boolean(answer) => Json::Bool(*answer),
            Response::Number(number) => match Decimal(*number).to_json() {
                Json::Number(number) => Json::Number(number),
                _ => Json::Null,
            },
        }
    }
}

impl ToJson for Capabilities {
    fn to_json(&self) -> Json<'_> {
        let mut fields = Fields::new();
        self.fields.add_fields(&mut fields);
        fields.extend(self.extensions.iter().map(|(prefix, object)| (Cow::Borrowed(&**prefix), object.to_json())));
        Json::Object(Object::from_fields(fields))
    }
}

impl Event {
    /// Views the event as JSON, without serializing it. The fields have the order in which they are serialized.
    pub fn to_json(&self) -> Json<'_> {
        let mut envelope = Fields::with_capacity(12);
        self.envelope.add_fields(&mut envelope);
        let mut fields = Fields::with_capacity(32);
        let mut extensions = None;
        for (name, value) in envelope {
            match &*name {
                "event_id" => fields.push((Cow::Borrowed("type"), Json::String(Cow::Borrowed(self.type_name())))),
                "extensions" => {
                    extensions = Some((name, value));
                    continue;
                }
                _ => {}
            }
            fields.push((name, value));
        }
        self.payload.add_fields(&mut fields);
        fields.extend(self.extra.iter().map(|(name, value)| (Cow::Borrowed(&**name), value.into())));
        fields.extend(extensions);
        Json::Object(Object::from_fields(fields))
    }
}

impl Json<'_> {
    /// Returns a number of bytes that the serialized form does not exceed.
    pub(crate) fn max_serialized_bytes(&self) -> usize {
        // An escaped character takes six bytes, and a number at most 24.
        let text_bytes = |text: &str| 6 * text.len() + 2;
        match self {
            Json::Null | Json::Bool(_) => 5,
            Json::Number(_) => 32,
            Json::String(text) => text_bytes(text),
            Json::Array(items) => items.iter().map(|item| item.max_serialized_bytes() + 1).sum::<usize>() + 2,
            Json::Object(object) => {
                let fields = object.iter().map(|(name, value)| text_bytes(name) + value.max_serialized_bytes() + 2);
                fields.sum::<usize>() + 2
            }
        }
    }

    /// Whether objects and arrays are nested no deeper than this.
    pub(crate) fn is_nested_within(&self, depth: usize) -> bool {
        match self {
            Json::Array(items) => depth > 0 && items.iter().all(|item| item.is_nested_within(depth - 1)),
            Json::Object(object) => depth > 0 && object.iter().all(|(_, value)| value.is_nested_within(depth - 1)),
            _ => true,
        }
    }
}
