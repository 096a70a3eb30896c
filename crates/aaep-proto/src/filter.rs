//! The event filter of a subscription (5.3.1.7, decision 5).

use crate::message::{CORE_TYPES, CoreType, Event, EventFilters, Urgency};

/// A compiled filter. An event passes when an include pattern matches and no exclude pattern does.
///
/// ```
/// use aaep_proto::message::{CoreType, EventFilters};
/// use aaep_proto::filter::EventFilter;
/// let filter = EventFilter::new(Some(&EventFilters { include: None, exclude: Some(vec!["aaep:agent.tool.*".into()]) }));
/// assert!(filter.passes_core(CoreType::StateChanged));
/// assert!(!filter.passes_core(CoreType::ToolInvoked));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventFilter {
    include: Vec<String>,
    exclude: Vec<String>,
    /// One bit per core type that passes, computed once.
    core: u16,
}

impl EventFilter {
    /// Compiles a filter. Without filters, exactly the core events pass.
    pub fn new(filters: Option<&EventFilters>) -> EventFilter {
        let patterns = |list: Option<&Vec<String>>| list.map(|l| l.iter().map(|p| compact(p)).collect::<Vec<_>>());
        let include =
            patterns(filters.and_then(|f| f.include.as_ref())).unwrap_or_else(|| vec!["aaep:agent.*".to_owned()]);
        let exclude = patterns(filters.and_then(|f| f.exclude.as_ref())).unwrap_or_default();
        let mut filter = EventFilter { include, exclude, core: 0 };
        let wanted = CoreType::ALL.iter().filter(|c| filter.passes_name(c.as_str()));
        filter.core = wanted.fold(0, |bits, c| bits | 1 << *c as u16);
        filter
    }

    /// Returns whether events of this core type pass.
    pub fn passes_core(&self, core: CoreType) -> bool {
        self.core & (1 << core as u16) != 0
    }

    /// Returns whether an event passes. Critical core events always do (5.5.4).
    pub fn passes(&self, event: &Event) -> bool {
        match event.core_type() {
            Some(core) => *event.urgency() == Urgency::Critical || self.passes_core(core),
            None => self.passes_name(&compact(event.type_name())),
        }
    }

    fn passes_name(&self, name: &str) -> bool {
        self.include.iter().any(|p| matches(p, name)) && !self.exclude.iter().any(|p| matches(p, name))
    }
}

/// Returns the compact form of a core type or pattern.
fn compact(name: &str) -> String {
    name.strip_prefix(CORE_TYPES).map_or_else(|| name.to_owned(), |rest| format!("aaep:{rest}"))
}

/// Matches a pattern: a type, or the start of one followed by an asterisk.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: Option<&[&str]>, exclude: &[&str]) -> EventFilter {
        let owned = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        EventFilter::new(Some(&EventFilters { include: include.map(owned), exclude: Some(owned(exclude)) }))
    }

    #[test]
    fn exclude_wins_and_an_asterisk_matches_only_at_the_end() {
        use CoreType::*;
        assert!(CoreType::ALL.iter().all(|c| EventFilter::new(None).passes_core(*c)));
        let f = filter(Some(&["aaep:agent.tool.*", "aaep:agent.session.started"]), &["aaep:agent.tool.completed"]);
        let passing: Vec<_> = CoreType::ALL.iter().copied().filter(|c| f.passes_core(*c)).collect();
        assert_eq!(passing, [SessionStarted, ToolInvoked]);
        assert!(!filter(Some(&["*.started"]), &[]).passes_core(SessionStarted));
        assert!(filter(Some(&["*"]), &[]).passes_core(SessionStarted));
        assert!(!filter(None, &["aaep:agent.*"]).passes_core(SessionStarted));
        assert!(filter(Some(&["https://aaep-protocol.org/types/agent.state.changed"]), &[]).passes_core(StateChanged));
        assert!(!EventFilter::new(None).passes_name("haptic:pulse"));
        assert!(filter(Some(&["haptic:*"]), &[]).passes_name("haptic:pulse"));
    }
}
