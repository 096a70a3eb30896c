//! Decisions of the user that apply to later calls, with a scope and an expiry.

use aaep_proto::confirm::CallDigest;
use aaep_proto::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Most rules that are kept. The oldest is dropped for a new one.
const MAX_RULES: usize = 1024;

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleDecision {
    /// Calls pass without a question, except those that cannot be undone.
    Allow,
    /// Calls pass without a question, also those that cannot be undone. Only a flag that the user typed makes such a rule.
    AllowAlways,
    /// Calls are refused without a question.
    Deny,
}

/// One decision for later calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsentRule {
    /// The name of the server, or `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The name of the tool.
    pub tool: String,
    /// The digest of the only call that the rule is for, or `None` for all calls of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What is decided.
    pub decision: RuleDecision,
    /// When the rule ends, in milliseconds since 1970, or `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_millis: Option<i64>,
}

impl ConsentRule {
    /// Makes a rule for all calls of a tool of any server, without an end.
    pub fn for_tool(tool: impl Into<String>, decision: RuleDecision) -> ConsentRule {
        ConsentRule { server: None, tool: tool.into(), call: None, decision, expires_at_millis: None }
    }

    fn is_valid_at(&self, now: Timestamp) -> bool {
        self.expires_at_millis.is_none_or(|end| now.millis() < end)
    }
}

/// The rules of one bridge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleBook {
    server: String,
    rules: Vec<ConsentRule>,
}

impl RuleBook {
    /// Makes the rules of the bridge of this server. Rules of other servers are kept and never apply.
    pub fn new(server: impl Into<String>, rules: Vec<ConsentRule>) -> RuleBook {
        RuleBook { server: server.into(), rules }
    }

    /// Returns what the rules decide about a call, or `None`. A refusal is stronger than a permission.
    pub fn find(&self, tool: &str, call: &CallDigest, now: Timestamp) -> Option<RuleDecision> {
        let digest = call.to_string();
        let applies = |rule: &&ConsentRule| {
            rule.tool == tool
                && rule.server.as_ref().is_none_or(|server| *server == self.server)
                && rule.call.as_ref().is_none_or(|only| *only == digest)
                && rule.is_valid_at(now)
        };
        let rank = |decision: &RuleDecision| match decision {
            RuleDecision::Deny => 2,
            RuleDecision::AllowAlways => 1,
            RuleDecision::Allow => 0,
        };
        self.rules.iter().filter(applies).map(|rule| rule.decision).max_by_key(rank)
    }

    /// Adds a rule for this server and drops those that have ended.
    pub fn add(&mut self, mut rule: ConsentRule, now: Timestamp) -> ConsentRule {
        rule.server = Some(self.server.clone());
        self.rules.retain(|kept| kept.is_valid_at(now));
        if self.rules.len() >= MAX_RULES {
            self.rules.remove(0);
        }
        self.rules.push(rule.clone());
        rule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn rule_applies_to_its_server_tool_call_and_time() {
        let (one, two) = (CallDigest::of("write", &json!({"a": 1})), CallDigest::of("write", &json!({"a": 2})));
        let rule = ConsentRule {
            server: Some("files".into()),
            call: Some(one.to_string()),
            expires_at_millis: Some(1000),
            ..ConsentRule::for_tool("write", RuleDecision::Allow)
        };
        let book = RuleBook::new("files", vec![rule.clone()]);
        assert_eq!(book.find("write", &one, at(999)), Some(RuleDecision::Allow));
        assert_eq!(book.find("write", &one, at(1000)), None, "it has expired");
        assert_eq!(book.find("write", &two, at(0)), None, "it is another call");
        assert_eq!(book.find("delete", &one, at(0)), None, "it is another tool");
        assert_eq!(RuleBook::new("mail", vec![rule]).find("write", &one, at(0)), None, "it is another server");
    }

    #[test]
    fn refusal_is_stronger_than_permission_in_any_order() {
        let call = CallDigest::of("write", &json!({}));
        let allow = ConsentRule::for_tool("write", RuleDecision::AllowAlways);
        let deny = ConsentRule::for_tool("write", RuleDecision::Deny);
        for rules in [vec![allow.clone(), deny.clone()], vec![deny, allow]] {
            assert_eq!(RuleBook::new("x", rules).find("write", &call, at(0)), Some(RuleDecision::Deny));
        }
    }

    #[test]
    fn rules_are_bounded_and_survive_serialization() {
        let mut book = RuleBook::new("x", Vec::new());
        for number in 0..2 * MAX_RULES {
            book.add(ConsentRule::for_tool(format!("t{number}"), RuleDecision::Deny), at(0));
        }
        assert_eq!(book.rules.len(), MAX_RULES);
        let text = serde_json::to_string(&book.rules).unwrap();
        assert_eq!(serde_json::from_str::<Vec<ConsentRule>>(&text).unwrap(), book.rules);
    }
}
