//! What an agent reads from its hook.

use serde_json::{Value, json};

use super::HookAgent;

/// What the user decided about a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookDecision {
    /// The user allowed it.
    Allow,
    /// The user refused it.
    Deny,
    /// The agent asks by itself: nobody answered here, or the user wants to answer in the terminal.
    Defer,
}

/// Returns the decision of an outcome of the agent endpoint. Only an explicit answer of the user decides.
pub fn decision_of(outcome: &Value) -> HookDecision {
    let verdict = outcome["verdict"].as_str();
    let choice = outcome["response"].as_str();
    match (outcome["type"].as_str(), verdict, outcome["decision"].as_str(), choice) {
        (Some("outcome"), Some("accepted"), Some("accept"), None) => HookDecision::Allow,
        (Some("outcome"), Some("rejected"), Some("reject"), None) => HookDecision::Deny,
        (Some("outcome"), Some("answered"), None, Some("allow")) => HookDecision::Allow,
        (Some("outcome"), Some("answered"), None, Some("deny")) => HookDecision::Deny,
        _ => HookDecision::Defer,
    }
}

/// Returns what the hook prints. Nothing means that the agent asks by itself.
pub fn hook_output(agent: HookAgent, decision: HookDecision) -> Option<String> {
    let message = "The user refused this.";
    let decision = match (agent, decision) {
        (_, HookDecision::Defer) | (HookAgent::Gemini, _) => return None,
        (HookAgent::Copilot, HookDecision::Allow) => json!({"behavior": "allow"}),
        (HookAgent::Copilot, HookDecision::Deny) => json!({"behavior": "deny", "message": message}),
        // Never `always`.
        (HookAgent::Opencode, HookDecision::Allow) => json!({"reply": "once"}),
        (HookAgent::Opencode, HookDecision::Deny) => json!({"reply": "reject"}),
        (_, decision) => {
            let decision = match decision {
                HookDecision::Allow => json!({"behavior": "allow"}),
                _ => json!({"behavior": "deny", "message": message}),
            };
            json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})
        }
    };
    Some(decision.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_the_user_decides() {
        let outcome = |verdict: &str, decision: &str| {
            decision_of(&json!({"type": "outcome", "verdict": verdict, "decision": decision}))
        };
        assert_eq!(outcome("accepted", "accept"), HookDecision::Allow);
        assert_eq!(outcome("rejected", "reject"), HookDecision::Deny);
        for verdict in
            ["timed_out", "nobody_could_answer", "subscriber_left", "cancelled", "superseded", "not_recorded"]
        {
            assert_eq!(outcome(verdict, "reject"), HookDecision::Defer, "{verdict} is not a refusal");
            assert_eq!(outcome(verdict, "accept"), HookDecision::Defer, "{verdict} is not a yes");
        }
        let answered =
            |choice: &str| decision_of(&json!({"type": "outcome", "verdict": "answered", "response": choice}));
        assert_eq!(answered("allow"), HookDecision::Allow);
        assert_eq!(answered("deny"), HookDecision::Deny);
        assert_eq!(answered("terminal"), HookDecision::Defer);
        for other in [json!(null), json!({}), json!({"type": "refused"}), json!({"type": "pending"}), json!("allow")] {
            assert_eq!(decision_of(&other), HookDecision::Defer, "{other}");
        }
        let timed_out = json!({"type": "outcome", "verdict": "timed_out", "response": "allow"});
        assert_eq!(decision_of(&timed_out), HookDecision::Defer);
    }

    #[test]
    fn deferring_prints_nothing() {
        for agent in HookAgent::ALL {
            assert_eq!(hook_output(agent, HookDecision::Defer), None);
        }
        assert_eq!(hook_output(HookAgent::Gemini, HookDecision::Allow), None);
        assert_eq!(hook_output(HookAgent::Copilot, HookDecision::Allow).unwrap(), r#"{"behavior":"allow"}"#);
        let claude = hook_output(HookAgent::Claude, HookDecision::Deny).unwrap();
        assert!(claude.contains(r#""hookEventName":"PermissionRequest""#) && claude.contains(r#""behavior":"deny""#));
    }
}
