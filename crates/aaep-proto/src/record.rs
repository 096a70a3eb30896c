//! One schema per object of the protocol. The Rust type, its JSON form, the checks of the validator and the published
//! JSON Schema are all derived from it, so they cannot disagree.

use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::id::{EventId, OutputId, ReplyToken, SessionId, SubscriptionId, ToolCallId};
use crate::json::{Json, Object};
use crate::language::LanguageTag;
use crate::rule::Rule;
use crate::time::Timestamp;
use crate::to_json::{Fields, ToJson};

/// The type of a field.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FieldType {
    /// Text for people: 1 or more characters up to a bound. It has language variants
    /// (`summary_normal_yo`) and must not carry secrets.
    Human {
        /// Fewest characters.
        min: usize,
        /// Most characters.
        max: usize,
    },
    /// A name for people: it has no language variants and must not carry secrets.
    Name {
        /// Fewest characters.
        min: usize,
        /// Most characters.
        max: usize,
    },
    /// Text that is not for people.
    Text {
        /// Fewest characters.
        min: usize,
        /// Most characters.
        max: usize,
    },
    /// Text of a given form.
    Pattern(&'static Pattern),
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// A whole number.
    Integer {
        /// Least.
        min: i64,
        /// Most.
        max: i64,
    },
    /// One of these whole numbers.
    OneOfIntegers(&'static [i64]),
    /// Any number in a range.
    Number {
        /// Least.
        min: f64,
        /// Most.
        max: f64,
    },
    /// `true` or `false`.
    Boolean,
    /// An array.
    List {
        /// What each item may hold.
        of: &'static FieldType,
        /// Fewest items.
        min: usize,
        /// Most items.
        max: usize,
        /// Whether items must differ.
        unique: bool,
    },
    /// An object with a table of its own.
    Object(&'static ObjectSchema),
    /// Any object.
    AnyObject,
    /// Any object with texts for people, so it must not carry secrets.
    HumanObject,
    /// An object whose values are objects: extension data by prefix.
    Extensions,
    /// The `@context` of an event.
    Context,
    /// The answer to a clarification: text, a number or a boolean.
    Response,
}

/// A pattern of text: as a regular expression for JSON Schema, and as code for the validator.
#[derive(Debug)]
pub struct Pattern {
    /// The regular expression.
    pub(crate) regex: &'static str,
    /// The equivalent code.
    pub(crate) matches: fn(&str) -> bool,
    /// The description for error messages: "must ...".
    pub(crate) description: &'static str,
}

/// One field of a schema.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name on the wire.
    pub name: &'static str,
    /// Its type.
    pub kind: FieldType,
    /// Whether it is required.
    pub required: bool,
    /// What it means, in a sentence or two: the doc comment of the Rust field.
    pub description: &'static str,
}

/// How fields that a schema does not name are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    /// They violate a rule.
    Denied,
    /// They are kept.
    Allowed,
    /// They must be objects of extensions.
    Objects,
}

/// The schema of an object: its fields.
#[derive(Debug)]
pub struct ObjectSchema {
    /// The name of the object in references: the name of the Rust type.
    pub(crate) name: &'static str,
    /// The doc comment of the Rust type.
    pub(crate) doc: &'static str,
    /// The fields in the recommended order.
    pub fields: &'static [Field],
    /// How other fields are treated.
    pub(crate) unknown: UnknownFields,
    /// Fewest fields.
    pub(crate) min_fields: usize,
    /// The rules that a violation is reported under.
    pub(crate) rules: &'static RuleSet,
}

/// The rules that the violations of one family of objects are reported under.
#[derive(Debug)]
pub(crate) struct RuleSet {
    /// A required field is missing.
    pub(crate) required: Rule,
    /// A value of the wrong type.
    pub(crate) wrong_type: Rule,
    /// Too long, too short, too large, too small, too many, too few.
    pub(crate) limit: Rule,
    /// Not one of the permitted values.
    pub(crate) word: Rule,
    /// Text of the wrong form.
    pub(crate) format: Rule,
    /// A field that does not belong there.
    pub(crate) unknown: Rule,
}

impl RuleSet {
    /// One rule for everything.
    pub(crate) const fn all(rule: Rule) -> RuleSet {
        RuleSet { required: rule, wrong_type: rule, limit: rule, word: rule, format: rule, unknown: rule }
    }
}

impl ObjectSchema {
    /// Returns what the object is: the first paragraph of its documentation.
    pub fn description(&self) -> String {
        let lines = self.doc.lines().map(str::trim);
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the index of the field with this name. Fields usually come in the order of the schema, so the search
    /// starts where the last one ended.
    pub(crate) fn find(&self, name: &str, cursor: &mut usize) -> Option<usize> {
        let (before, after) = self.fields.split_at((*cursor).min(self.fields.len()));
        let found = after
            .iter()
            .position(|f| f.name == name)
            .map(|i| i + before.len())
            .or_else(|| before.iter().position(|f| f.name == name));
        if let Some(index) = found {
            *cursor = index + 1;
        }
        found
    }

    /// Iterates over the names of the fields, those of required fields first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let (required, optional) = (self.fields.iter(), self.fields.iter());
        required.filter(|field| field.required).chain(optional.filter(|field| !field.required)).map(|field| field.name)
    }
}

/// A document lacks a field that its type requires. The validator reports the details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The field that is missing or of the wrong type.
    pub field: &'static str,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is missing or malformed", self.field)
    }
}

impl std::error::Error for DecodeError {}

/// An object of the protocol that has a schema.
pub(crate) trait Record: Sized {
    /// Its schema.
    const SHAPE: ObjectSchema;

    /// Decodes it from the fields of an object. Fields that the schema does not name are ignored.
    fn read(object: &Object<'_>) -> Result<Self, DecodeError>;

    /// Serializes its fields in the order of the schema.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;

    /// Adds its fields as JSON in the order of the table, without serializing them.
    fn add_fields<'a>(&'a self, fields: &mut Fields<'a>);
}

/// A value that can be decoded from JSON, leniently: only the type is checked, never the range.
pub(crate) trait FromJson: Sized {
    /// Decodes it, or returns `None` if the value has another type.
    fn from_json(json: &Json<'_>) -> Option<Self>;
}

/// A field of a struct: `T` if it is required, `Option<T>` if it is not.
pub(crate) trait FieldValue: Sized {
    /// Whether the field is required.
    const REQUIRED: bool;
    /// Decodes the field. Returns `None` if it is malformed, or missing and required.
    fn read(json: Option<&Json<'_>>) -> Option<Self>;
    /// Returns whether the field is serialized.
    fn is_present(&self) -> bool;
    /// Views the field as JSON. Returns `None` if there is nothing to write.
    fn to_json(&self) -> Option<Json<'_>>;
}

impl<T: FromJson + ToJson> FieldValue for T {
    const REQUIRED: bool = true;

    fn read(json: Option<&Json<'_>>) -> Option<Self> {
        T::from_json(json?)
    }

    fn is_present(&self) -> bool {
        true
    }

    fn to_json(&self) -> Option<Json<'_>> {
        Some(ToJson::to_json(self))
    }
}

impl<T: FromJson + ToJson> FieldValue for Option<T> {
    const REQUIRED: bool = false;

    fn read(json: Option<&Json<'_>>) -> Option<Self> {
        match json {
            None => Some(None),
            Some(json) => T::from_json(json).map(Some),
        }
    }

    fn is_present(&self) -> bool {
        self.is_some()
    }

    fn to_json(&self) -> Option<Json<'_>> {
        self.as_ref().map(ToJson::to_json)
    }
}

/// Reads one field of an object.
pub(crate) fn slot<T: FieldValue>(object: &Object<'_>, name: &'static str) -> Result<T, DecodeError> {
    T::read(object.get(name)).ok_or(DecodeError { field: name })
}

impl FromJson for String {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        json.text().map(str::to_owned)
    }
}

impl FromJson for u64 {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        json.integer()?.try_into().ok()
    }
}

impl FromJson for u32 {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        json.integer()?.try_into().ok()
    }
}

impl FromJson for bool {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        json.boolean()
    }
}

impl FromJson for Map<String, Value> {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        json.object().map(Object::to_map)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        json.items()?.iter().map(T::from_json).collect()
    }
}

macro_rules! from_text {
    ($($name:ty),+) => {$(
        impl FromJson for $name {
            fn from_json(json: &Json<'_>) -> Option<Self> {
                json.text()?.parse().ok()
            }
        }
    )+};
}

from_text!(EventId, SessionId, SubscriptionId, ReplyToken, ToolCallId, OutputId, Timestamp, LanguageTag);

/// A number that is written without a fraction where it has none, as it was most likely read.
///
/// ```
/// use aaep_proto::record::Decimal;
/// assert_eq!(serde_json::to_string(&Decimal(60.0))?, "60");
/// assert_eq!(serde_json::to_string(&Decimal(0.5))?, "0.5");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct Decimal(pub f64);

impl FromJson for Decimal {
    fn from_json(json: &Json<'_>) -> Option<Self> {
        json.number().map(Decimal)
    }
}

impl serde::Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_integer() {
            Some(integer) => serializer.serialize_i64(integer),
            None => serializer.serialize_f64(self.0),
        }
    }
}

impl Decimal {
    /// Returns the number as an integer if it is written as one: every whole number up to 2^53 is exact in both forms.
    pub(crate) fn as_integer(self) -> Option<i64> {
        (self.0.fract() == 0.0 && self.0.abs() <= 9_007_199_254_740_992.0).then_some(self.0 as i64)
    }
}

/// Declares an object of the protocol: its struct, its table, its JSON form. The doc comments of the fields are their
/// descriptions in the published schemas and in docs/reference/events.md.
macro_rules! record {
    (
        $(#[doc = $doc:literal])+
        $(#[derive($derive:ident)])?
        $name:ident, $rules:expr, $unknown:expr, {
            $( $(#[doc = $field_doc:literal])+ $field:ident $(as $wire:literal)? : $ty:ty = $kind:expr ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        $(#[derive($derive)])?
        pub struct $name {
            $( $(#[doc = $field_doc])+ pub $field: $ty, )*
        }

        impl $crate::record::Record for $name {
            const SHAPE: $crate::record::ObjectSchema = $crate::record::ObjectSchema {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                fields: &[$(
                    $crate::record::Field {
                        name: $crate::record::wire_name!($field $($wire)?),
                        kind: $kind,
                        required: <$ty as $crate::record::FieldValue>::REQUIRED,
                        description: concat!($($field_doc),+).trim_ascii(),
                    },
                )*],
                unknown: $unknown,
                min_fields: 0,
                rules: $rules,
            };

            fn read(object: &$crate::json::Object<'_>) -> Result<Self, $crate::record::DecodeError> {
                Ok(Self {
                    $( $field: $crate::record::slot(object, $crate::record::wire_name!($field $($wire)?))?, )*
                })
            }

            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(
                    if $crate::record::FieldValue::is_present(&self.$field) {
                        map.serialize_entry($crate::record::wire_name!($field $($wire)?), &self.$field)?;
                    }
                )*
                Ok(())
            }

            fn add_fields<'a>(&'a self, fields: &mut $crate::to_json::Fields<'a>) {
                $(
                    if let Some(json) = $crate::record::FieldValue::to_json(&self.$field) {
                        let name = $crate::record::wire_name!($field $($wire)?);
                        fields.push((std::borrow::Cow::Borrowed(name), json));
                    }
                )*
            }
        }

        impl $crate::to_json::ToJson for $name {
            fn to_json(&self) -> $crate::json::Json<'_> {
                let mut fields = Vec::new();
                $crate::record::Record::add_fields(self, &mut fields);
                $crate::json::Json::Object($crate::json::Object::from_fields(fields))
            }
        }

        impl $crate::record::FromJson for $name {
            fn from_json(json: &$crate::json::Json<'_>) -> Option<Self> {
                <Self as $crate::record::Record>::read(json.object()?).ok()
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $crate::record::Record::write(self, &mut map)?;
                map.end()
            }
        }
    };
}

macro_rules! wire_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $wire:literal) => {
        $wire
    };
}

pub(crate) use {record, wire_name};
