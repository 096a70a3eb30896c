//! Which events a subscription wants (5.3.1.7, decision 5).

use crate::message::{CORE_TYPES, CoreType, Event, EventFilters, Urgency};

/// A compiled filter. An event passes when an include pattern matches and no exclude pattern does.
///
/// ```
/// use aaep_proto::message::{CoreType, EventFilters};
/// use aaep_proto::shaping::filter::Filter;
/// let filter = Filter::new(Some(&EventFilters { include: None, exclude: Some(vec!["aaep:agent.tool.*".into()]) }));
/// assert!(filter.passes_core(CoreType::StateChanged));
/// assert!(!filter.passes_core(CoreType::ToolInvoked));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    include: Vec<String>,
    exclude: Vec<String>,
    /// The answer for each core type, worked out once.
    core: u16,
}

impl Filter {
    /// Compiles a filter; without one, all core events pass and no others.
    pub fn new(filters: Option<&EventFilters>) -> Filter {
        let patterns = |list: Option<&Vec<String>>| list.map(|l| l.iter().map(|p| compact(p)).collect::<Vec<_>>());
        let include =
            patterns(filters.and_then(|f| f.include.as_ref())).unwrap_or_else(|| vec!["aaep:agent.*".to_owned()]);
        let exclude = patterns(filters.and_then(|f| f.exclude.as_ref())).unwrap_or_default();
        let mut filter = Filter { include, exclude, core: 0 };
        let wanted = CoreType::ALL.iter().filter(|c| filter.passes_name(c.as_str()));
        filter.core = wanted.fold(0, |bits, c| bits | 1 << *c as u16);
        filter
    }

    /// Whether events of this core type are wanted.
    pub fn passes_core(&self, core: CoreType) -> bool {
        self.core & (1 << core as u16) != 0
    }

    /// Whether an event is to be sent. Critical core events always are (5.5.4).
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

/// The compact form of a core type or pattern.
fn compact(name: &str) -> String {
    name.strip_prefix(CORE_TYPES).map_or_else(|| name.to_owned(), |rest| format!("aaep:{rest}"))
}

/// A pattern is a type, or the beginning of one and an asterisk at the end.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: Option<&[&str]>, exclude: &[&str]) -> Filter {
        let owned = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        Filter::new(Some(&EventFilters { include: include.map(owned), exclude: Some(owned(exclude)) }))
    }

    #[test]
    fn exclude_wins_and_the_asterisk_stands_at_the_end_only() {
        use CoreType::*;
        assert!(CoreType::ALL.iter().all(|c| Filter::new(None).passes_core(*c)));
        let f = filter(Some(&["aaep:agent.tool.*", "aaep:agent.session.started"]), &["aaep:agent.tool.completed"]);
        let passing: Vec<_> = CoreType::ALL.iter().copied().filter(|c| f.passes_core(*c)).collect();
        assert_eq!(passing, [SessionStarted, ToolInvoked]);
        assert!(!filter(Some(&["*.started"]), &[]).passes_core(SessionStarted));
        assert!(filter(Some(&["*"]), &[]).passes_core(SessionStarted));
        assert!(!filter(None, &["aaep:agent.*"]).passes_core(SessionStarted));
        assert!(filter(Some(&["https://aaep-protocol.org/types/agent.state.changed"]), &[]).passes_core(StateChanged));
        assert!(!Filter::new(None).passes_name("haptic:pulse"));
        assert!(filter(Some(&["haptic:*"]), &[]).passes_name("haptic:pulse"));
    }
}
