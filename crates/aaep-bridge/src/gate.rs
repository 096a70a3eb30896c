//! Which tool calls the user is asked about.

use std::fmt;
use std::str::FromStr;

use aaep_proto::confirm::CallDigest;
use aaep_proto::message::{Reversibility, RiskLevel};
use aaep_proto::time::Timestamp;
use serde_json::Value;

use crate::rules::{RuleBook, RuleDecision};

/// Which tool calls the user is asked about, if no rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GateMode {
    /// All calls.
    All,
    /// Calls of tools that do not say that they only read.
    #[default]
    Writes,
    /// Calls of tools that do not say that they destroy nothing.
    Destructive,
}

/// The error for text that is not a gate mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseGateModeError;

impl fmt::Display for ParseGateModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be all, writes or destructive")
    }
}

impl std::error::Error for ParseGateModeError {}

impl FromStr for GateMode {
    type Err = ParseGateModeError;

    fn from_str(text: &str) -> Result<GateMode, ParseGateModeError> {
        match text {
            "all" => Ok(GateMode::All),
            "writes" => Ok(GateMode::Writes),
            "destructive" => Ok(GateMode::Destructive),
            _ => Err(ParseGateModeError),
        }
    }
}

/// What a tool says about itself. A server may lie, so these are hints. What is not said counts as the worse case, as MCP
/// defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolHints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy or overwrite something.
    pub destructive: bool,
    /// Calling it again changes nothing more.
    pub idempotent: bool,
    /// It reaches beyond the server's own data.
    pub open_world: bool,
    /// Whether the tool said anything at all.
    pub stated: bool,
}

impl Default for ToolHints {
    fn default() -> ToolHints {
        ToolHints { read_only: false, destructive: true, idempotent: false, open_world: true, stated: false }
    }
}

impl ToolHints {
    /// Reads the annotations of a tool of MCP.
    pub fn from_annotations(annotations: &Value) -> ToolHints {
        let hint = |name: &str, absent: bool| annotations.get(name).and_then(Value::as_bool).unwrap_or(absent);
        let worst = ToolHints::default();
        let read_only = hint("readOnlyHint", worst.read_only);
        ToolHints {
            read_only,
            // MCP: meaningful only if the tool is not read-only.
            destructive: !read_only && hint("destructiveHint", worst.destructive),
            idempotent: hint("idempotentHint", worst.idempotent),
            open_world: hint("openWorldHint", worst.open_world),
            stated: annotations.as_object().is_some_and(|object| object.keys().any(|key| key.ends_with("Hint"))),
        }
    }

    /// Returns how much harm a call can do.
    pub fn risk(self) -> RiskLevel {
        match self {
            ToolHints { read_only: true, .. } => RiskLevel::Low,
            ToolHints { destructive: false, .. } => RiskLevel::Medium,
            ToolHints { idempotent: true, open_world: false, .. } => RiskLevel::Medium,
            _ => RiskLevel::High,
        }
    }

    /// Returns how hard a call is to undo.
    pub fn reversibility(self) -> Reversibility {
        match self {
            ToolHints { read_only: true, .. } => Reversibility::Reversible,
            ToolHints { destructive: false, .. } => Reversibility::ReversibleWithEffort,
            _ => Reversibility::Irreversible,
        }
    }

    /// Returns whether a call counts as one that cannot be undone.
    pub fn is_irreversible(self) -> bool {
        self.reversibility() == Reversibility::Irreversible
    }
}

/// What the gate does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateVerdict {
    /// It passes without a question. `by_rule` if the user decided so before.
    Pass {
        /// Whether a rule of the user decided.
        by_rule: bool,
    },
    /// The user is asked.
    Ask,
    /// It is refused by a rule of the user.
    Deny,
}

/// Decides about a call. A remembered permission does not cover a call that cannot be undone: it needs a yes of its own.
pub fn verdict(
    mode: GateMode,
    rules: &RuleBook,
    hints: ToolHints,
    call: (&str, &CallDigest),
    now: Timestamp,
) -> GateVerdict {
    match rules.find(call.0, call.1, now) {
        Some(RuleDecision::Deny) => return GateVerdict::Deny,
        Some(RuleDecision::AllowAlways) => return GateVerdict::Pass { by_rule: true },
        Some(RuleDecision::Allow) if !hints.is_irreversible() => return GateVerdict::Pass { by_rule: true },
        _ => {}
    }
    let asks = match mode {
        GateMode::All => true,
        GateMode::Writes => !hints.read_only,
        GateMode::Destructive => hints.destructive,
    };
    if asks { GateVerdict::Ask } else { GateVerdict::Pass { by_rule: false } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hints(annotations: &Value) -> ToolHints {
        ToolHints::from_annotations(annotations)
    }

    #[test]
    fn unstated_hints_count_as_the_worst_case() {
        for silent in [json!(null), json!({}), json!({"title": "Delete"}), json!({"readOnlyHint": "true"}), json!([1])]
        {
            let hints = hints(&silent);
            assert!(hints.destructive && hints.is_irreversible(), "{silent}");
            assert_eq!(hints.risk(), RiskLevel::High, "{silent}");
        }
    }

    #[test]
    fn risk_follows_from_the_hints() {
        let risk = |annotations: Value| (hints(&annotations).risk(), hints(&annotations).is_irreversible());
        assert_eq!(risk(json!({"readOnlyHint": true})), (RiskLevel::Low, false));
        assert_eq!(risk(json!({"readOnlyHint": true, "destructiveHint": true})), (RiskLevel::Low, false));
        assert_eq!(risk(json!({"destructiveHint": false})), (RiskLevel::Medium, false));
        assert_eq!(risk(json!({"destructiveHint": true, "idempotentHint": true})), (RiskLevel::High, true));
        let local = json!({"destructiveHint": true, "idempotentHint": true, "openWorldHint": false});
        assert_eq!(risk(local), (RiskLevel::Medium, true));
    }

    #[test]
    fn each_mode_asks_about_its_calls() {
        let reads = json!({"readOnlyHint": true});
        let adds = json!({"destructiveHint": false});
        let destroys = json!({"destructiveHint": true});
        let asks = |mode, annotations: &Value| {
            let digest = CallDigest::of("t", &json!({}));
            let rules = RuleBook::default();
            verdict(mode, &rules, hints(annotations), ("t", &digest), Timestamp::from_millis(0)) == GateVerdict::Ask
        };
        let table = [
            (GateMode::All, [true; 3]),
            (GateMode::Writes, [false, true, true]),
            (GateMode::Destructive, [false, false, true]),
        ];
        for (mode, expected) in table {
            assert_eq!([&reads, &adds, &destroys].map(|hints| asks(mode, hints)), expected, "{mode:?}");
        }
    }
}
