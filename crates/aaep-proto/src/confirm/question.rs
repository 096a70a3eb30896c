//! How the user is asked for consent. The table of 6.4.1 is enforced here: a confirmation that would let silence
//! start something irreversible cannot be built.

use std::fmt;

use serde_json::{Map, Value, json};

use super::permit::CallDigest;
use crate::id::ReplyToken;
use crate::language::LanguageTag;
use crate::message::{AwaitingConfirmation, Decision, EventMeta, Reversibility, RiskLevel, add_variant};

/// The extension under which questions carry the fingerprint of their call and notices their outcome.
pub const CONSENT_PREFIX: &str = "consent";
/// Its vocabulary; see `docs/reference/consent.md`.
pub const CONSENT_URI: &str = "urn:aaep:extension:consent:1";

/// A default of accept for an action that silence must not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsafeDefaultError;

impl fmt::Display for UnsafeDefaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an irreversible action of medium, high or unstated risk must default to reject")
    }
}

impl std::error::Error for UnsafeDefaultError {}

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
    /// As the agent stated it; nothing if it did not.
    irreversible: Option<bool>,
    reversibility: Option<Reversibility>,
    allowed_replies: Option<Vec<String>>,
    extra_context: Option<Map<String, Value>>,
    call: Option<(String, CallDigest)>,
    summaries: [Option<String>; 3],
    variants: Map<String, Value>,
    meta: EventMeta,
    takes_modified: bool,
    origin: Option<String>,
}

impl Confirmation {
    /// Asks about an action and what follows from it. Without an answer it is rejected.
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

    /// Binds the permission to exactly this call.
    pub fn for_call(mut self, tool: impl Into<String>, arguments: &Value) -> Confirmation {
        let tool = tool.into();
        self.call = Some((tool.clone(), CallDigest::of(&tool, arguments)));
        self
    }

    /// The action cannot be undone.
    pub fn irreversible(mut self) -> Confirmation {
        self.irreversible = Some(true);
        self
    }

    /// The action can be undone. The user is told so only if the agent states it. A question that also says
    /// [`irreversible`](Confirmation::irreversible), before or after, stays irreversible.
    pub fn reversible(mut self) -> Confirmation {
        self.irreversible.get_or_insert(false);
        self
    }

    /// How hard the action is to undo. If that is impossible, it is irreversible.
    pub fn reversibility(mut self, reversibility: Reversibility) -> Confirmation {
        if reversibility == Reversibility::Irreversible {
            self.irreversible = Some(true);
        }
        self.reversibility = Some(reversibility);
        self
    }

    /// What a reply may say. A no counts in any case.
    pub fn allowed_replies(mut self, replies: Vec<String>) -> Confirmation {
        self.allowed_replies = Some(replies);
        self
    }

    /// More that a subscriber may show.
    pub fn extra_context(mut self, context: Map<String, Value>) -> Confirmation {
        self.extra_context = Some(context);
        self
    }

    /// Texts in other languages, by field name and language suffix, and what goes beside the payload. Where both action
    /// and consequence are there in a language, they are its summary too, if it has no other.
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

    /// How much harm the action can do.
    pub fn risk(mut self, risk: RiskLevel) -> Confirmation {
        self.risk = Some(risk);
        self
    }

    /// How long to wait; by default as 6.4.2 recommends for the risk.
    pub fn timeout_seconds(mut self, seconds: u32) -> Confirmation {
        self.timeout_seconds = Some(seconds.clamp(1, 86_400));
        self
    }

    /// Other words for the announcement, from terse to detailed.
    pub fn summaries(
        mut self,
        terse: Option<String>,
        normal: Option<String>,
        detailed: Option<String>,
    ) -> Confirmation {
        self.summaries = [terse, normal, detailed];
        self
    }

    /// Action and consequence in another language. Who asked for it hears the question in it.
    pub fn in_language(mut self, language: &LanguageTag, action: &str, consequence: &str) -> Confirmation {
        add_variant(&mut self.variants, "action", language, action);
        add_variant(&mut self.variants, "consequence", language, consequence);
        add_variant(&mut self.variants, "summary_normal", language, format!("{action} {consequence}"));
        self
    }

    /// The agent can handle "yes, but otherwise": it is told what the user wants instead.
    pub fn allow_modified_action(mut self) -> Confirmation {
        self.takes_modified = true;
        self
    }

    /// What the asker itself calls this question, so that it finds the question again after a restart.
    pub fn origin(mut self, origin: impl Into<String>) -> Confirmation {
        self.origin = Some(origin.into());
        self
    }

    /// The question again, from the event that asked it and what the event does not say.
    pub(crate) fn restore(
        asked: &AwaitingConfirmation,
        variants: &Map<String, Value>,
        call: Option<(String, CallDigest)>,
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
            // What went beside it is in the event, which is what is put again.
            meta: EventMeta::default(),
            takes_modified,
            origin,
        }
    }

    /// Goes ahead without an answer, where 6.4.1 allows it.
    pub fn accept_on_timeout(mut self) -> Result<Confirmation, UnsafeDefaultError> {
        self.default = Decision::Accept;
        self.check()?;
        Ok(self)
    }

    /// Whether the table of 6.4.1 is kept, also after later changes of risk.
    pub(crate) fn check(&self) -> Result<(), UnsafeDefaultError> {
        let harmless = self.risk == Some(RiskLevel::Low);
        let unsafe_default = self.default == Decision::Accept && self.is_irreversible() && !harmless;
        if unsafe_default { Err(UnsafeDefaultError) } else { Ok(()) }
    }

    /// Either field counts (decision 14).
    fn is_irreversible(&self) -> bool {
        self.irreversible == Some(true) || self.reversibility == Some(Reversibility::Irreversible)
    }

    pub(crate) fn origin_key(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    pub(crate) fn named_call(&self) -> Option<&(String, CallDigest)> {
        self.call.as_ref()
    }

    pub(crate) fn call(&self) -> Option<CallDigest> {
        self.call.as_ref().map(|(_, digest)| *digest)
    }

    /// What the event says besides its payload.
    pub(crate) fn rest(&self) -> (Map<String, Value>, EventMeta) {
        (self.variants.clone(), self.meta.clone())
    }

    pub(crate) fn takes_modified(&self) -> bool {
        self.takes_modified
    }

    /// The wait that 6.4.2 recommends.
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

    /// What the extension says about the call.
    pub(crate) fn consent(&self) -> Option<Map<String, Value>> {
        let (tool, digest) = self.call.as_ref()?;
        match json!({"tool": tool, "call_digest": digest.to_string()}) {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }
}

/// The variants of a text: the suffix of each language, and the text.
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
    fn irreversible_is_on_the_wire_as_it_was_stated() {
        let stated = |ask: Confirmation| ask.payload("rpl_1".parse().unwrap(), 1).irreversible;
        let ask = || Confirmation::new("a", "b");
        assert_eq!(stated(ask()), None);
        assert_eq!(stated(ask().reversibility(Reversibility::Reversible)), None);
        assert_eq!(stated(ask().reversible()), Some(false));
        // What is irreversible stays so in any order of the calls.
        assert_eq!(stated(ask().reversible().irreversible()), Some(true));
        assert_eq!(stated(ask().irreversible().reversible()), Some(true));
        assert_eq!(stated(ask().reversible().reversibility(Reversibility::Irreversible)), Some(true));
        assert_eq!(stated(ask().reversibility(Reversibility::Irreversible).reversible()), Some(true));
    }

    #[test]
    fn silence_starts_nothing_irreversible_in_any_order_of_the_calls() {
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
