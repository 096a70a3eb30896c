//! Every rule that the validator and the sequence checker can report, by the name it has in
//! `conformance/requirements.toml`.

use std::fmt;

use serde::{Serialize, Serializer};

/// The severity of a violation.
///
/// ```
/// use aaep_proto::Severity;
/// assert!(Severity::Error > Severity::Warning);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A SHOULD is not followed. The document is valid.
    Warning,
    /// A MUST is broken. The document is not valid.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

macro_rules! rules {
    ($( $(#[$doc:meta])* $name:ident $id:literal $severity:ident $step:literal $($prose:ident)? ;)+) => {
        /// One rule of the protocol.
        ///
        /// ```
        /// use aaep_proto::Rule;
        /// assert_eq!(Rule::EventId.id(), "env.event-id");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Rule {
            $( $(#[$doc])* $name, )+
        }

        impl Rule {
            /// All rules, in the order of the validation steps.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),+];

            /// Returns the id of the rule in the list of requirements.
            pub fn id(self) -> &'static str {
                match self { $( Rule::$name => $id, )+ }
            }

            /// Returns the severity of a violation of the rule.
            pub fn severity(self) -> Severity {
                match self { $( Rule::$name => Severity::$severity, )+ }
            }

            /// Returns the step of validation (3.9) that checks the rule. Problems are reported in this order.
            pub fn step(self) -> u8 {
                match self { $( Rule::$name => $step, )+ }
            }

            /// Returns whether the rule cannot be expressed in a JSON Schema.
            pub fn prose_only(self) -> bool {
                match self { $( Rule::$name => false $(|| rules!(@$prose))?, )+ }
            }
        }
    };
    (@prose) => { true };
}

rules! {
    /// The bytes are UTF-8 JSON.
    Syntax "json.syntax" Error 0 prose;
    /// A document is a JSON object.
    Object "json.object" Error 1;
    /// A key is written once.
    DuplicateKey "json.duplicate-key" Error 1 prose;
    /// Integers beyond 2^53 travel as strings.
    IntegerRange "json.integer-range" Error 3 prose;
    /// The envelope is complete.
    EnvelopeRequired "env.required" Error 2;
    /// A version is a semantic version.
    Version "env.version" Error 3;
    /// The sequence number is a whole number from 0.
    SequenceNumber "env.sequence-number" Error 3;
    /// The producer is named as the envelope demands.
    ProducerShape "env.producer" Error 3;
    /// The verbosity is a known value.
    VerbosityWord "env.verbosity" Error 3;
    /// The urgency is a known value.
    UrgencyWord "env.urgency" Error 3;
    /// The localization hints have their shape.
    LocalizationShape "env.localization" Error 3;
    /// The correlation id is text.
    CorrelationId "env.correlation-id" Error 3;
    /// A language tag has BCP 47 syntax.
    LanguageTag "i18n.tag" Error 3;
    /// The core context is there and first.
    Context "env.context" Error 4;
    /// The type is `prefix:name` or a URI.
    TypeFormat "env.type" Error 5;
    /// Only the twelve core names exist in the core namespace.
    UnknownType "env.unknown-type" Error 5;
    /// The event id has its form.
    EventId "env.event-id" Error 6;
    /// The session id has its form.
    SessionId "env.session-id" Error 6;
    /// The timestamp has its form.
    Timestamp "env.timestamp" Error 6;
    /// The timestamp names a day that exists.
    TimestampDay "env.timestamp-day" Error 6 prose;
    /// The payload is complete.
    PayloadRequired "payload.required" Error 7;
    /// A payload field has its type.
    PayloadType "payload.type" Error 7;
    /// A payload field keeps its limits.
    PayloadLimit "payload.limit" Error 7;
    /// A payload field has a known value.
    PayloadWord "payload.enum" Error 7;
    /// A payload field has its form.
    PayloadFormat "payload.format" Error 7;
    /// Names that the protocol reserves are not used at the top level.
    ForbiddenField "env.forbidden-field" Error 7;
    /// Custom data goes under `extensions`.
    CustomField "env.custom-field" Error 7;
    /// Errors, questions and handoffs are critical.
    UrgencyCritical "urgency.critical" Error 7;
    /// Other events have the urgency that fits them.
    UrgencyRecommended "urgency.recommended" Warning 7;
    /// Irreversible actions of medium or high risk default to reject.
    DefaultReject "conf.default-reject" Error 7;
    /// Other risky actions default to reject too.
    DefaultShouldReject "conf.default-should-reject" Warning 7;
    /// The allowed replies are ones that a reply can give.
    AllowedReplies "conf.allowed-replies" Warning 7;
    /// A multiple-choice question has choices.
    Choices "clar.choices" Warning 7;
    /// Text for people names its language.
    LanguageDeclared "i18n.declared" Warning 7;
    /// No secrets in text for people.
    Secret "sec.secret" Error 7 prose;
    /// No hidden or deceptive characters where the user decides.
    DeceptiveText "sec.deceptive-text" Warning 7;
    /// Extension data is an object of objects.
    ExtensionShape "ext.shape" Error 8;
    /// Extension prefixes are declared through the context.
    UndeclaredPrefix "ext.undeclared-prefix" Error 8 prose;
    /// Reserved prefixes are not used by extensions.
    ReservedPrefix "ext.reserved-prefix" Error 8;
    /// A document fits the largest message a transport carries.
    MessageSize "limits.message-size" Error 9 prose;
    /// An event stays within 64 KiB.
    EventSize "limits.event-size" Warning 9;
    /// An event has at most 32 top-level fields.
    FieldCount "limits.fields" Warning 9;
    /// An event nests at most 8 deep.
    Depth "limits.depth" Warning 9;
    /// A string stays within 16 KiB.
    StringSize "limits.string" Warning 9;
    /// A message is of a known type.
    MessageUnknownType "msg.unknown-type" Error 5;
    /// A message is complete.
    MessageRequired "msg.required" Error 7;
    /// A message field has its type.
    MessageType "msg.type" Error 7;
    /// A message field keeps its limits.
    MessageLimit "msg.limit" Error 7;
    /// A message field has a known value.
    MessageWord "msg.enum" Error 7;
    /// A message field has its form.
    MessageFormat "msg.format" Error 7;
    /// A message has no other fields.
    MessageUnknownField "msg.unknown-field" Error 7;
    /// Capabilities have their types and ranges.
    CapabilityValue "cap.values" Error 7;
    /// Unknown capabilities are objects.
    CapabilityExtension "cap.extension-object" Error 7;
    /// A subscriber of level 2 supports replies to confirmations.
    CapabilityLevel2 "cap.level2-replies" Error 7;
    /// A manifest has its fields.
    Manifest "manifest.fields" Error 7;
    /// A session starts with its started event.
    StartedFirst "seq.started-first" Error 10 prose;
    /// A session starts once.
    StartedOnce "seq.started-once" Error 10 prose;
    /// Nothing follows the end of a session.
    AfterTerminal "seq.after-terminal" Error 10 prose;
    /// The id of an ended session is not used again.
    SessionReused "seq.session-reused" Error 10 prose;
    /// An event id is used once.
    EventIdReused "seq.event-id-reuse" Error 10 prose;
    /// An event is delivered once, where the transport can detect repetitions.
    Redelivered "seq.redelivered" Warning 10 prose;
    /// Timestamps do not decrease in a session.
    TimestampOrder "seq.timestamp" Error 10 prose;
    /// Sequence numbers count from 0 without gaps.
    SequenceOrder "seq.number" Error 10 prose;
    /// The first state change leaves `idle`.
    StateFirst "seq.state-first" Error 10 prose;
    /// A state change leaves the state that the last one entered.
    StateChain "seq.state-chain" Error 10 prose;
    /// A tool is completed only after it was invoked.
    ToolUnpaired "seq.tool-unpaired" Error 10 prose;
    /// A completed tool has the name it was invoked with.
    ToolName "seq.tool-name" Error 10 prose;
    /// A tool call id is used once in a session.
    CallIdReused "seq.call-id-reused" Error 10 prose;
    /// Every invoked tool is completed before the session ends.
    ToolOpen "seq.tool-open" Error 10 prose;
    /// An irreversible tool runs only after a confirmation was accepted.
    IrreversibleUnconfirmed "seq.irreversible-unconfirmed" Error 10 prose;
    /// An irreversible tool runs only after a confirmation that was itself asked as irreversible.
    IrreversibleNotAsked "seq.irreversible-not-asked" Error 10 prose;
    /// An irreversible tool runs on a default only if the risk was stated as low.
    IrreversibleByDefault "seq.irreversible-by-default" Error 10 prose;
    /// A rejected action is not carried out.
    ToolAfterReject "seq.tool-after-reject" Error 10 prose;
    /// An action has at most one open question.
    ConfirmAgain "seq.confirm-again" Error 10 prose;
    /// A reply token is issued once.
    TokenReused "seq.token-reuse" Error 10 prose;
    /// No chunk follows the last chunk of an output.
    OutputAfterComplete "seq.output-after-complete" Error 10 prose;
    /// Every output is completed before the session ends.
    OutputUnfinished "seq.output-unfinished" Error 10 prose;
    /// A chunk starts where the last one ended.
    Position "seq.position" Error 10 prose;
    /// No question is open when a session completes.
    PendingAtEnd "seq.pending-at-end" Warning 10 prose;
    /// A stream does not stop in the middle of a session.
    Unended "seq.unended" Warning 10 prose;
    /// A reply answers a question that was asked.
    ReplyUnknownToken "reply.unknown-token" Warning 10 prose;
    /// A question is answered once.
    ReplyDuplicate "reply.duplicate" Warning 10 prose;
    /// A reply arrives in time.
    ReplyLate "reply.late" Warning 10 prose;
    /// A decision is one of those allowed.
    ReplyDecision "reply.decision" Error 10 prose;
    /// A response is of a kind that was asked for.
    ReplyResponse "reply.response-kind" Error 10 prose;
    /// The checker dropped state to keep its memory bounded.
    Forgotten "seq.forgotten" Warning 10 prose;
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// A violation of a rule: its place, its severity and how to correct it.
///
/// ```
/// use aaep_proto::{validate, Rule};
/// let report = validate(br#"{"type":"confirmation.reply"}"#);
/// assert!(report.problems.iter().any(|p| p.rule == Rule::MessageRequired));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The rule that is broken.
    pub rule: Rule,
    /// The place as a JSON pointer (RFC 6901); empty for the whole document.
    pub pointer: String,
    /// The severity of the violation.
    pub severity: Severity,
    /// How to correct it, in a sentence.
    pub message: String,
}

impl Problem {
    /// Creates a violation with the severity of its rule.
    pub fn new(rule: Rule, pointer: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { rule, pointer: pointer.into(), severity: rule.severity(), message: message.into() }
    }
}
