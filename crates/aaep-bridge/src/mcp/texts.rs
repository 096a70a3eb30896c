//! Sentences for the user and for the client.

use aaep_proto::confirm::Resolution;

use crate::describe::{sentence, shorten, spoken};

use super::catalog::ToolInfo;

/// Returns the name of a tool for people.
pub(super) fn tool_title(name: &str, info: &ToolInfo) -> String {
    info.title.clone().unwrap_or_else(|| spoken(name))
}

/// What the user is asked to agree to.
pub(super) fn action(title: &str, server: &str, arguments: &str) -> String {
    let with = if arguments.is_empty() { String::new() } else { format!(" with {arguments}") };
    sentence(&shorten(&format!("{title}, a tool of {server}{with}"), 4000))
}

/// What follows from the call, as far as the tool says.
pub(super) fn consequence(info: &ToolInfo, is_known: bool) -> String {
    let says = match info.hints {
        _ if !is_known => "The server does not list this tool, so it may destroy data.",
        hints if !hints.stated => "The tool does not say what it changes, so it may destroy data.",
        hints if hints.read_only => "The tool says that it changes nothing.",
        hints if hints.destructive => "The tool says that it can destroy or overwrite data.",
        _ => "The tool says that it adds or changes data but destroys nothing.",
    };
    match &info.description {
        Some(description) => format!("{says} Its description: {}", sentence(&shorten(description, 300))),
        None => says.to_owned(),
    }
}

/// What the client, and so the model, is told about a call that did not run.
pub(super) fn refusal(tool: &str, resolution: Resolution) -> String {
    let why = match resolution {
        Resolution::Rejected => "The user rejected it.",
        Resolution::TimedOut => {
            "The user did not answer in time. This is not a rejection; ask the user whether to try again."
        }
        Resolution::NobodyCouldAnswer | Resolution::SubscriberLeft => {
            "It needs the user's consent, and no listener is connected that could give it. Ask the user to run: aaep listen"
        }
        Resolution::NotRecorded => "The user's decision could not be recorded.",
        Resolution::Accepted | Resolution::Answered | Resolution::Cancelled | Resolution::Superseded => {
            "The question to the user was withdrawn."
        }
    };
    format!("{tool} was not called. {why}")
}

/// What the client is told about a call that a rule of the user refuses.
pub(super) fn refusal_by_rule(tool: &str) -> String {
    format!("{tool} was not called. The user has decided to refuse it.")
}
