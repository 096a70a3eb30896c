//! Guesses what a misspelt name was meant to be.

use std::fmt;

use crate::message::{CORE_TYPES, CoreType, MessageType};

/// Longer names are not guessed at: no name of the protocol is as long.
const MAX_NAME_BYTES: usize = 64;

/// Prefixes that an event type may be written without where the writer is an agent.
const TYPE_PREFIXES: [&str; 3] = [CORE_TYPES, "aaep:", "agent."];

/// Returns the known name that a misspelt one most likely stands for, or `None` if none is close. Of equally close names
/// the first counts.
///
/// ```
/// use aaep_proto::validate::closest;
/// assert_eq!(closest("summary", ["summary_normal", "summary_terse"]), Some("summary_normal"));
/// assert_eq!(closest("colour", ["summary_normal", "summary_terse"]), None);
/// ```
pub fn closest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return None;
    }
    let written = normalized(name);
    let ranked = known.into_iter().filter_map(|known| Some((rank(&written, &normalized(known))?, known)));
    // The first of the minima.
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, known)| known)
}

/// Returns the core event type that a misspelt one most likely stands for. Both may lack their prefixes.
///
/// ```
/// use aaep_proto::message::CoreType;
/// use aaep_proto::validate::closest_type;
/// assert_eq!(closest_type("session.start"), Some(CoreType::SessionStarted));
/// assert_eq!(closest_type("haptic:pulse"), None);
/// ```
pub fn closest_type(name: &str) -> Option<CoreType> {
    let written = without_prefixes(name);
    let found = closest(written, CoreType::ALL.iter().map(|core| without_prefixes(core.as_str())))?;
    CoreType::ALL.iter().copied().find(|core| without_prefixes(core.as_str()) == found)
}

/// Returns the message type that a misspelt one most likely stands for.
pub(super) fn closest_message(name: &str) -> Option<&'static str> {
    closest(name, MessageType::ALL.iter().map(|message| message.as_str()))
}

fn without_prefixes(name: &str) -> &str {
    TYPE_PREFIXES.iter().fold(name, |name, prefix| name.strip_prefix(prefix).unwrap_or(name))
}

/// A question behind an error message: " Did you mean summary_normal?", or nothing if there is no guess. The guess is made
/// only when it is displayed, since a hostile document can have many wrong names.
pub(super) struct DidYouMean<F>(pub(super) F);

impl<'k, F: Fn() -> Option<&'k str>> fmt::Display for DidYouMean<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0)() {
            Some(meant) => write!(f, " Did you mean {meant}?"),
            None => Ok(()),
        }
    }
}

/// Returns the letters and digits of a name in lower case: `summaryNormal` and `summary-normal` are `summary_normal`.
fn normalized(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns how far a written name is from a known one, or `None` if it is too far to be meant.
fn rank(written: &[char], known: &[char]) -> Option<usize> {
    if written.is_empty() {
        return None;
    }
    let distance = distance(written, known);
    if written.len() > 2 && distance <= (written.len().max(known.len()) / 3).max(1) {
        return Some(distance);
    }
    // The start of a name is a weaker sign than a typing error.
    (written.len() >= 4 && known.starts_with(written)).then_some(MAX_NAME_BYTES)
}

/// Returns how many letters are added, left out, replaced or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 6] = ["tool", "summary_normal", "summary_terse", "tool_call_id", "status", "duration_ms"];

    #[test]
    fn usual_mistakes_are_recognized() {
        for (written, meant) in [
            ("summary", "summary_normal"),
            ("summary_norml", "summary_normal"),
            ("summaryNormal", "summary_normal"),
            ("Summary-Terse", "summary_terse"),
            ("tools", "tool"),
            ("tol", "tool"),
            ("tool_callid", "tool_call_id"),
            ("stauts", "status"),
            ("duration", "duration_ms"),
        ] {
            assert_eq!(closest(written, FIELDS), Some(meant), "{written}");
        }
    }

    #[test]
    fn other_names_are_not_guessed_at() {
        let long = "summary_normal".repeat(10);
        for written in ["", "x", "_", "colour", "my_own_field", "loot", long.as_str()] {
            assert_eq!(closest(written, FIELDS), None, "{written}");
        }
    }

    #[test]
    fn event_types_are_recognized_with_and_without_prefixes() {
        for (written, meant) in [
            ("session.start", CoreType::SessionStarted),
            ("session.complete", CoreType::SessionCompleted),
            ("agent.tool.invoke", CoreType::ToolInvoked),
            ("aaep:tool.invoked", CoreType::ToolInvoked),
            ("tool_completed", CoreType::ToolCompleted),
            ("output.stream", CoreType::OutputStreaming),
            ("progress", CoreType::ProgressUpdated),
            ("awaiting.confirm", CoreType::AwaitingConfirmation),
            ("https://aaep-protocol.org/types/agent.state.change", CoreType::StateChanged),
        ] {
            assert_eq!(closest_type(written), Some(meant), "{written}");
        }
        for written in ["haptic:pulse", "session.finished", "outcome"] {
            assert_eq!(closest_type(written), None, "{written}");
        }
    }

    #[test]
    fn neighbours_that_are_swapped_count_as_one_mistake() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("stauts"), &chars("status")), 1);
        assert_eq!(distance(&chars("abc"), &chars("abc")), 0);
        assert_eq!(distance(&chars(""), &chars("abc")), 3);
    }
}
