//! Confirmations. The table of 6.4.1 is enforced here: a confirmation that would start an irreversible action without a
//! reply is refused.

use std::fmt;

use serde_json::{Map, Value, json};

use super::permit::CallDigest;
use crate::id::ReplyToken;
use crate::language::LanguageTag;
use crate::message::{AwaitingConfirmation, Decision, EventMeta, Reversibility, RiskLevel, add_variant};

/// The prefix of the consent extension, in which questions carry the digest of their call and state changes carry the
/// outcome.
pub const CONSENT_PREFIX: &str = "consent";
/// The vocabulary of the consent extension; see `docs/reference/consent.md`.
pub const CONSENT_URI: &str = "urn:aaep:extension:consent:1";

/// The error for a default of accept that 6.4.1 does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsafeDefaultError;

impl fmt::Display for UnsafeDefaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an irreversible action of medium, high or unstated risk must default to reject")
    }
}

impl std::error::Error for UnsafeDefaultError {}

/// The tool call that a question is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundCall {
    pub(crate) tool: String,
    pub(crate) digest: CallDigest,
}

/// A question about an action.
///
/// ```
/// use aaep_proto::confirm::Confirmation;
/// use aaep_proto::message::RiskLevel;
/// use serde_json::json;
/// let ask = Confirmation::new("Delete 12 letters.", "They are gone for good.")
///     .for_call("delete_mail", &json!({"folder": "old"}))
///     .irreversible()
///     .risk(RiskLevel::High);
/// assert!(ask.clone().accept_on_timeout().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    action: String,
    consequence: String,
    default: Decision,
    timeout_seconds: Option<u32>,
    risk: Option<RiskLevel>,
    /// The agent's statement, or `None` if it made none.
    irreversible: Option<bool>,
    reversibility: Option<Reversibility>,
    allowed_replies: Option<Vec<String>>,
    extra_context: Option<Map<String, Value>>,
    call: Option<BoundCall>,
    summaries: [Option<String>; 3],
    variants: Map<String, Value>,
    meta: EventMeta,
    takes_modified: bool,
    origin: Option<String>,
}

impl Confirmation {
    /// Creates a question about an action and its consequence. Without a reply the action is rejected.
    pub fn new(action: impl Into<String>, consequence: impl Into<String>) -> Confirmation {
        Confirmation {
            action: action.into(),
            consequence: consequence.into(),
            default: Decision::Reject,
            timeout_seconds: None,
            risk: None,
            irreversible: None,
            reversibility: None,
            allowed_replies: None,
            extra_context: None,
            call: None,
            summaries: [None, None, None],
            variants: Map::new(),
            meta: EventMeta::default(),
            takes_modified: false,
            origin: None,
        }
    }

    /// Binds the permit to exactly this call.
    pub fn for_call(mut self, tool: impl Into<String>, arguments: &Value) -> Confirmation {
        let tool = tool.into();
        let digest = CallDigest::of(&tool, arguments);
        self.call = Some(BoundCall { tool, digest });
        self
    }

    /// States that the action cannot be undone.
    pub fn irreversible(mut self) -> Confirmation {
        self.irreversible = Some(true);
        self
    }

    /// States that the action can be undone. Without this statement the event does not mention it. A question that is
    /// also marked [`irreversible`](Confirmation::irreversible), before or after, stays irreversible.
    pub fn reversible(mut self) -> Confirmation {
        self.irreversible.get_or_insert(false);
        self
    }

    /// States how hard the action is to undo. [`Reversibility::Irreversible`] also marks it irreversible.
    pub fn reversibility(mut self, reversibility: Reversibility) -> Confirmation {
        if reversibility == Reversibility::Irreversible {
            self.irreversible = Some(true);
        }
        self.reversibility = Some(reversibility);
        self
    }

    /// Sets the decisions that a reply may contain. A rejection is always accepted.
    pub fn allowed_replies(mut self, replies: Vec<String>) -> Confirmation {
        self.allowed_replies = Some(replies);
        self
    }

    /// Sets additional data that a subscriber may show.
    pub fn extra_context(mut self, context: Map<String, Value>) -> Confirmation {
        self.extra_context = Some(context);
        self
    }

    /// Sets texts in other languages, by field name and language suffix, and the metadata of the event. If a language
    /// has both an action and a consequence, they are also its normal summary unless there is another.
    pub fn with_variants(mut self, variants: Map<String, Value>, meta: EventMeta) -> Confirmation {
        self.variants.extend(variants);
        self.meta = meta;
        for (suffix, action) in texts(&self.variants, "action_") {
            if let Some(consequence) = self.variants.get(&format!("consequence_{suffix}")).and_then(Value::as_str) {
                let summary = format!("{action} {consequence}");
                self.variants.entry(format!("summary_normal_{suffix}")).or_insert(summary.into());
            }
        }
        self
    }

    /// Sets the risk of the action.
    pub fn risk(mut self, risk: RiskLevel) -> Confirmation {
        self.risk = Some(risk);
        self
    }

    /// Sets the timeout, from one second to one day. The default is what 6.4.2 recommends for the risk.
    pub fn timeout_seconds(mut self, seconds: u32) -> Confirmation {
        self.timeout_seconds = Some(seconds.clamp(1, 86_400));
        self
    }

    /// Sets the summaries for the announcement, from terse to detailed.
    pub fn summaries(
        mut self,
        terse: Option<String>,
        normal: Option<String>,
        detailed: Option<String>,
    ) -> Confirmation {
        self.summaries = [terse, normal, detailed];
        self
    }

    /// Adds the action and the consequence in another language, for subscribers that requested it.
    pub fn in_language(mut self, language: &LanguageTag, action: &str, consequence: &str) -> Confirmation {
        add_variant(&mut self.variants, "action", language, action);
        add_variant(&mut self.variants, "consequence", language, consequence);
        add_variant(&mut self.variants, "summary_normal", language, format!("{action} {consequence}"));
        self
    }

    /// Allows replies with a modified action. The agent receives the action that the user wants instead.
    pub fn allow_modified_action(mut self) -> Confirmation {
        self.takes_modified = true;
        self
    }

    /// Sets the agent's own key for this question, by which it finds the question again after a restart.
    pub fn origin(mut self, origin: impl Into<String>) -> Confirmation {
        self.origin = Some(origin.into());
        self
    }

    /// Restores a question from the event that asked it and the properties that the event does not contain.
    pub(crate) fn restore(
        asked: &AwaitingConfirmation,
        variants: &Map<String, Value>,
        call: Option<BoundCall>,
        takes_modified: bool,
        origin: Option<String>,
    ) -> Confirmation {
        Confirmation {
            action: asked.action.clone(),
            consequence: asked.consequence.clone(),
            default: asked.default_decision.clone(),
            timeout_seconds: Some(asked.timeout_seconds),
            risk: asked.risk_level.clone(),
            irreversible: asked.irreversible,
            reversibility: asked.reversibility.clone(),
            allowed_replies: asked.allowed_replies.clone(),
            extra_context: asked.extra_context.clone(),
            call,
            summaries: [asked.summary_terse.clone(), asked.summary_normal.clone(), asked.summary_detailed.clone()],
            variants: variants.clone(),
            // The metadata is in the recorded event, which is sent again as it is.
            meta: EventMeta::default(),
            takes_modified,
            origin,
        }
    }

    /// Makes accept the default decision. Returns an error if 6.4.1 does not allow it.
    pub fn accept_on_timeout(mut self) -> Result<Confirmation, UnsafeDefaultError> {
        self.default = Decision::Accept;
        self.check()?;
        Ok(self)
    }

    /// Checks the table of 6.4.1, including changes that were made after the default was set.
    pub(crate) fn check(&self) -> Result<(), UnsafeDefaultError> {
        let harmless = self.risk == Some(RiskLevel::Low);
        let unsafe_default = self.default == Decision::Accept && self.is_irreversible() && !harmless;
        if unsafe_default { Err(UnsafeDefaultError) } else { Ok(()) }
    }

    /// Returns whether either field states that the action is irreversible (decision 14).
    fn is_irreversible(&self) -> bool {
        self.irreversible == Some(true) || self.reversibility == Some(Reversibility::Irreversible)
    }

    pub(crate) fn origin_key(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    pub(crate) fn bound_call(&self) -> Option<&BoundCall> {
        self.call.as_ref()
    }

    pub(crate) fn call(&self) -> Option<CallDigest> {
        self.call.as_ref().map(|call| call.digest)
    }

    /// Returns the language variants and the metadata of the event.
    pub(crate) fn rest(&self) -> (Map<String, Value>, EventMeta) {
        (self.variants.clone(), self.meta.clone())
    }

    pub(crate) fn takes_modified(&self) -> bool {
        self.takes_modified
    }

    /// Returns the timeout in seconds: the one that was set, or the one that 6.4.2 recommends.
    pub(crate) fn timeout(&self) -> u32 {
        self.timeout_seconds.unwrap_or(match (self.is_irreversible(), &self.risk) {
            (true, Some(RiskLevel::Low)) | (false, Some(RiskLevel::Medium)) => 90,
            (true, Some(RiskLevel::Medium)) => 120,
            (true, _) | (false, Some(RiskLevel::High)) => 300,
            (false, _) => 60,
        })
    }

    pub(crate) fn payload(&self, reply_token: ReplyToken, timeout_seconds: u32) -> AwaitingConfirmation {
        let [summary_terse, summary_normal, summary_detailed] = self.summaries.clone();
        AwaitingConfirmation {
            action: self.action.clone(),
            consequence: self.consequence.clone(),
            reply_token,
            timeout_seconds,
            default_decision: self.default.clone(),
            summary_terse,
            summary_normal: summary_normal.or_else(|| Some(format!("{} {}", self.action, self.consequence))),
            summary_detailed,
            risk_level: self.risk.clone(),
            irreversible: self.irreversible,
            reversibility: self.reversibility.clone(),
            allowed_replies: self.allowed_replies.clone(),
            extra_context: self.extra_context.clone(),
        }
    }

    /// Returns the content of the consent extension, or `None` if the question is not bound to a call.
    pub(crate) fn consent(&self) -> Option<Map<String, Value>> {
        let call = self.call.as_ref()?;
        match json!({"tool": call.tool, "call_digest": call.digest.to_string()}) {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }
}

/// Returns the language suffix and the text of each variant of a field.
pub(super) fn texts(variants: &Map<String, Value>, field: &str) -> Vec<(String, String)> {
    let of_field = |(name, value): (&String, &Value)| {
        let suffix = name.strip_prefix(field).filter(|suffix| LanguageTag::from_field_suffix(suffix).is_some())?;
        Some((suffix.to_owned(), value.as_str()?.to_owned()))
    };
    variants.iter().filter_map(of_field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_as_recommended() {
        let wait = |irreversible: bool, risk: Option<RiskLevel>| {
            let mut ask = Confirmation::new("a", "b");
            ask.irreversible = Some(irreversible);
            ask.risk = risk;
            ask.timeout()
        };
        assert!((180..=600).contains(&wait(true, Some(RiskLevel::High))));
        assert!((180..=600).contains(&wait(true, None)));
        assert!((60..=180).contains(&wait(true, Some(RiskLevel::Medium))));
        assert!((30..=90).contains(&wait(false, Some(RiskLevel::Low))));
        assert_eq!(Confirmation::new("a", "b").timeout_seconds(7).timeout(), 7);
    }

    #[test]
    fn irreversible_field_is_sent_as_stated() {
        let stated = |ask: Confirmation| ask.payload("rpl_1".parse().unwrap(), 1).irreversible;
        let ask = || Confirmation::new("a", "b");
        assert_eq!(stated(ask()), None);
        assert_eq!(stated(ask().reversibility(Reversibility::Reversible)), None);
        assert_eq!(stated(ask().reversible()), Some(false));
        // `irreversible` wins in any order of the calls.
        assert_eq!(stated(ask().reversible().irreversible()), Some(true));
        assert_eq!(stated(ask().irreversible().reversible()), Some(true));
        assert_eq!(stated(ask().reversible().reversibility(Reversibility::Irreversible)), Some(true));
        assert_eq!(stated(ask().reversibility(Reversibility::Irreversible).reversible()), Some(true));
    }

    #[test]
    fn unsafe_default_is_refused_in_any_order_of_the_calls() {
        let ask = || Confirmation::new("a", "b");
        let late = [
            ask().accept_on_timeout().unwrap().irreversible(),
            ask().accept_on_timeout().unwrap().reversibility(Reversibility::Irreversible),
            ask().reversible().accept_on_timeout().unwrap().reversibility(Reversibility::Irreversible),
            ask().irreversible().risk(RiskLevel::Low).accept_on_timeout().unwrap().risk(RiskLevel::High),
        ];
        assert!(late.iter().all(|ask| ask.check() == Err(UnsafeDefaultError)));
        let restored = |irreversible: Option<bool>, reversibility: Option<Reversibility>, risk: Option<RiskLevel>| {
            let mut asked = ask().accept_on_timeout().unwrap().payload("rpl_1".parse().unwrap(), 1);
            (asked.irreversible, asked.reversibility, asked.risk_level) = (irreversible, reversibility, risk);
            Confirmation::restore(&asked, &Map::new(), None, false, None).check()
        };
        assert_eq!(restored(None, Some(Reversibility::Irreversible), None), Err(UnsafeDefaultError));
        assert_eq!(restored(Some(false), Some(Reversibility::Irreversible), None), Err(UnsafeDefaultError));
        assert_eq!(restored(Some(true), None, Some(RiskLevel::Low)), Ok(()));
    }
}
