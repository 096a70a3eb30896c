//! The enumerations of the protocol. An unknown value is kept on receipt, not refused: a peer of a later 1.x version may
//! know more values (chapter 12).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident {
            $( $(#[$vdoc:meta])* $variant:ident = $word:literal ),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$vdoc])* $variant, )+
            /// A value that this version of the protocol does not know.
            Other(Box<str>),
        }

        impl $name {
            /// The values that this version knows.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the value on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $word, )+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $( $word => Self::$variant, )+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Self::from(String::deserialize(deserializer)?.as_str()))
            }
        }

        impl $crate::to_json::ToJson for $name {
            fn to_json(&self) -> $crate::json::Json<'_> {
                $crate::json::Json::String(self.as_str().into())
            }
        }

        impl $crate::record::FromJson for $name {
            fn from_json(json: &$crate::json::Json<'_>) -> Option<Self> {
                json.text().map(Self::from)
            }
        }
    };
}

words! {
    /// How detailed texts are.
    ///
    /// ```
    /// use aaep_proto::message::Verbosity;
    /// assert_eq!(Verbosity::from("terse"), Verbosity::Terse);
    /// assert_eq!(Verbosity::from("poetic").as_str(), "poetic");
    /// ```
    Verbosity {
        /// As short as possible.
        Terse = "terse",
        /// The default.
        Normal = "normal",
        /// With all context.
        Detailed = "detailed",
    }
}

words! {
    /// How urgently the user should be informed.
    Urgency {
        /// May be dropped when the user wants few announcements.
        Background = "background",
        /// The default.
        Normal = "normal",
        /// Never filtered, never delayed.
        Critical = "critical",
    }
}

words! {
    /// Which way text runs.
    TextDirection {
        /// Left to right, the default.
        Ltr = "ltr",
        /// Right to left.
        Rtl = "rtl",
        /// To be found out from the text.
        Auto = "auto",
    }
}

words! {
    /// Whether trying again helps.
    ErrorCategory {
        /// A passing failure; a retry is likely to succeed.
        Transient = "transient",
        /// A retry will not help.
        Permanent = "permanent",
        /// The user has to do something first.
        RequiresUser = "requires_user",
        /// The producer does not know.
        Unknown = "unknown",
    }
}

words! {
    /// Who ended a session early.
    CancelledBy {
        /// The user.
        User = "user",
        /// The agent itself.
        Producer = "producer",
        /// Time ran out.
        Timeout = "timeout",
        /// A controlling system.
        System = "system",
    }
}

words! {
    /// How much harm an action can do.
    RiskLevel {
        /// Little.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
    }
}

words! {
    /// Whether an action can be undone.
    Reversibility {
        /// Easily.
        Reversible = "reversible",
        /// With effort.
        ReversibleWithEffort = "reversible_with_effort",
        /// Never.
        Irreversible = "irreversible",
    }
}

words! {
    /// The user's answer to a confirmation.
    Decision {
        /// Do it.
        Accept = "accept",
        /// Do not.
        Reject = "reject",
    }
}

words! {
    /// How a tool call ended.
    ToolStatus {
        /// It worked.
        Success = "success",
        /// It failed.
        Error = "error",
        /// It was given up.
        Timeout = "timeout",
    }
}

words! {
    /// Where streamed text may be cut into announcements.
    Boundary {
        /// Anywhere: the subscriber buffers.
        None = "none",
        /// After a word.
        Word = "word",
        /// After a sentence.
        Sentence = "sentence",
        /// After a paragraph.
        Paragraph = "paragraph",
        /// At the end of the output.
        Completion = "completion",
    }
}

words! {
    /// What kind of answer a clarification takes.
    ResponseKind {
        /// Any text.
        Freetext = "freetext",
        /// Yes or no.
        YesNo = "yes_no",
        /// One of the choices.
        MultipleChoice = "multiple_choice",
        /// A number.
        Numeric = "numeric",
    }
}

words! {
    /// Who should take over.
    HandoffTarget {
        /// A person.
        Human = "human",
        /// Another agent that knows more.
        SpecialistAgent = "specialist_agent",
        /// Whoever works through the queue.
        EscalationQueue = "escalation_queue",
    }
}

words! {
    /// How much information the user wants.
    CognitiveLoad {
        /// As little as possible.
        Low = "low",
        /// The default.
        Medium = "medium",
        /// Everything.
        High = "high",
    }
}

words! {
    /// Why a subscription was refused (5.5.3).
    ReasonCode {
        /// The protocol version cannot be served.
        VersionUnsupported = "version_unsupported",
        /// A signed manifest was demanded and there is none.
        ManifestSignatureRequired = "manifest_signature_required",
        /// The requested capabilities cannot be honored.
        CapabilitiesIncompatible = "capabilities_incompatible",
        /// Too many subscriptions.
        RateLimit = "rate_limit",
        /// Credentials are missing.
        AuthenticationRequired = "authentication_required",
        /// Credentials do not suffice.
        AuthorizationDenied = "authorization_denied",
        /// Not over this transport.
        TransportUnavailable = "transport_unavailable",
        /// None of the others.
        Unknown = "unknown",
    }
}

words! {
    /// Why a subscription ended (5.8). The specification leaves the codes open: these are the ones this implementation
    /// sends, and any other one that is received is kept as it is.
    CloseReason {
        /// The subscriber asked the producer to close it.
        SubscriberClosed = "subscriber_closed",
        /// The subscriber shuts down.
        SubscriberShutdown = "subscriber_shutdown",
        /// The user left.
        UserRequest = "user_request",
        /// The producer cannot continue on the terms that a renegotiation asked for.
        RenegotiationRefused = "renegotiation_refused",
        /// The connection was lost and the subscription cannot be resumed.
        ConnectionLost = "connection_lost",
        /// The subscriber does not read fast enough.
        TooSlow = "too_slow",
        /// The subscriber did not resume in time.
        AwayTooLong = "away_too_long",
        /// The agent has ended.
        ProducerEnded = "producer_ended",
        /// The producer shuts down.
        ProducerShutdown = "producer_shutdown",
        /// The peer violated the protocol or a limit.
        Violation = "violation",
        /// The credentials expired or were revoked.
        AuthenticationRequired = "authentication_required",
        /// The subscriber does not trust the manifest of the producer.
        ManifestNotTrusted = "manifest_not_trusted",
    }
}
