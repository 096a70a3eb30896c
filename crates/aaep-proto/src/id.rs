//! Identifiers. One newtype per prefix, so that a session id can never stand where a reply token belongs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest tail after the prefix (spec 3.2, 6.2.1).
const MAX_TAIL: usize = 64;

/// A source of random bytes, provided by the caller. The core has none of its own.
pub trait Entropy {
    /// Fills the buffer with bytes that nobody can predict.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// Text that is not an identifier of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseIdError {
    prefix: &'static str,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be {} followed by 1 to {MAX_TAIL} letters or digits", self.prefix)
    }
}

impl std::error::Error for ParseIdError {}

/// Whether the text is the prefix followed by 1 to 64 ASCII letters or digits.
pub(crate) fn is_id(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|tail| (1..=MAX_TAIL).contains(&tail.len()) && tail.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn random(prefix: &str, entropy: &mut dyn Entropy) -> Arc<str> {
    let mut bytes = [0u8; 16];
    entropy.fill(&mut bytes);
    let mut text = String::with_capacity(prefix.len() + 32);
    text.push_str(prefix);
    for b in bytes {
        for nibble in [b >> 4, b & 15] {
            text.push(char::from_digit(nibble.into(), 16).expect("a nibble is below 16"));
        }
    }
    text.into()
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// What every identifier of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// A fresh identifier of 128 random bits, as the specification recommends.
            pub fn random(entropy: &mut dyn Entropy) -> Self {
                Self(random($prefix, entropy))
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                if is_id(text, $prefix) { Ok(Self(text.into())) } else { Err(ParseIdError { prefix: $prefix }) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id! {
    /// Names one event, once, for all time of a producer.
    ///
    /// ```
    /// use aaep_proto::id::EventId;
    /// assert!("evt_8a3f5b22c91e4d7a".parse::<EventId>().is_ok());
    /// assert!("8a3f5b22c91e4d7a".parse::<EventId>().is_err());
    /// ```
    EventId, "evt_"
}
id! {
    /// Names one session: everything an agent does for one request.
    ///
    /// ```
    /// use aaep_proto::id::SessionId;
    /// assert!("sess_2c91".parse::<SessionId>().is_ok());
    /// ```
    SessionId, "sess_"
}
id! {
    /// Names one subscription. It is not a credential.
    ///
    /// ```
    /// use aaep_proto::id::SubscriptionId;
    /// assert!("sub_1".parse::<SubscriptionId>().is_ok());
    /// ```
    SubscriptionId, "sub_"
}
id! {
    /// Ties a reply to the question it answers. It is not a credential.
    ///
    /// ```
    /// use aaep_proto::id::ReplyToken;
    /// assert!("rpl_xyz".parse::<ReplyToken>().is_ok());
    /// ```
    ReplyToken, "rpl_"
}
id! {
    /// Ties the end of a tool call to its beginning.
    ///
    /// ```
    /// use aaep_proto::id::ToolCallId;
    /// assert!("call_7a2b9c4e".parse::<ToolCallId>().is_ok());
    /// ```
    ToolCallId, "call_"
}
id! {
    /// Groups the chunks of one output.
    ///
    /// ```
    /// use aaep_proto::id::OutputId;
    /// assert!("out_3a8c2".parse::<OutputId>().is_ok());
    /// ```
    OutputId, "out_"
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u8);

    impl Entropy for Counting {
        fn fill(&mut self, bytes: &mut [u8]) {
            for b in bytes {
                *b = self.0;
                self.0 = self.0.wrapping_add(1);
            }
        }
    }

    #[test]
    fn the_tail_is_one_to_sixty_four_letters_or_digits() {
        assert!("evt_a".parse::<EventId>().is_ok());
        assert!(format!("evt_{}", "Z9".repeat(32)).parse::<EventId>().is_ok());
        for bad in ["evt_", "evt", "evt_a-b", "evt_é", " evt_a", "EVT_a", "sess_a"] {
            assert!(bad.parse::<EventId>().is_err(), "{bad}");
        }
        assert!(format!("evt_{}", "a".repeat(65)).parse::<EventId>().is_err());
    }

    #[test]
    fn a_random_id_carries_128_bits_as_hex() {
        let id = ReplyToken::random(&mut Counting(0));
        assert_eq!(id.as_str(), "rpl_000102030405060708090a0b0c0d0e0f");
        assert_eq!(id.as_str().parse::<ReplyToken>().as_ref(), Ok(&id));
    }
}
