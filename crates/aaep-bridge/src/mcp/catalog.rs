//! What the tools of the server say about themselves.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::describe::shorten;
use crate::gate::ToolHints;

/// Most tools that are remembered. Others count as unknown, which is the worst case.
const MAX_TOOLS: usize = 10_000;

/// What a tool says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ToolInfo {
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) hints: ToolHints,
}

/// The tools of a server, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct ToolCatalog {
    tools: BTreeMap<String, ToolInfo>,
    is_complete: bool,
    is_listing: bool,
}

impl ToolCatalog {
    pub(super) fn get(&self, name: &str) -> Option<&ToolInfo> {
        self.tools.get(name)
    }

    /// Whether the proxy has asked for all tools and got them.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether the proxy is asking for the tools.
    pub(super) fn is_listing(&self) -> bool {
        self.is_listing
    }

    pub(super) fn start_listing(&mut self) {
        self.is_listing = true;
    }

    /// Ends the proxy's own listing. What it did not find stays unknown.
    pub(super) fn finish_listing(&mut self) {
        (self.is_listing, self.is_complete) = (false, true);
    }

    /// Forgets everything, because the server has changed its tools.
    pub(super) fn clear(&mut self) {
        self.tools.clear();
        self.is_complete = false;
    }

    /// Adds the tools of one page of `tools/list`. A tool that is listed twice gets the worse hints of both.
    pub(super) fn add(&mut self, result: &Value, is_ambiguous: bool) {
        for tool in result["tools"].as_array().into_iter().flatten() {
            let Some(name) = tool["name"].as_str() else { continue };
            if self.tools.len() >= MAX_TOOLS && !self.tools.contains_key(name) {
                continue;
            }
            let text = |value: &Value, limit| value.as_str().map(|text| shorten(text.trim(), limit));
            let annotations = &tool["annotations"];
            let title = text(&tool["title"], 100).or_else(|| text(&annotations["title"], 100));
            let description = text(&tool["description"], 400).filter(|text| !text.is_empty());
            // If the line has a key twice, parsers disagree on the annotations.
            let hints = if is_ambiguous { ToolHints::default() } else { ToolHints::from_annotations(annotations) };
            let title = title.filter(|title| !title.is_empty());
            self.tools.insert(name.to_owned(), ToolInfo { title, description, hints });
        }
    }
}
