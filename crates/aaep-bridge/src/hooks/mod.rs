//! Hooks: programs that an agent starts at certain moments, with a JSON object on standard input.
//!
//! | File | Contents |
//! |---|---|
//! | `payload.rs` | a payload becomes events for the agent endpoint of a server, or a question |
//! | `answer.rs` | the answer of the user becomes what the agent expects of its hook |
//! | `settings.rs` | the hooks in the settings of an agent: added and removed without touching anything else |
//! | `opencode.js` | the plugin that calls the hook program for opencode |

mod answer;
mod payload;
mod settings;

use std::fmt;
use std::str::FromStr;

pub use answer::{HookDecision, decision_of, hook_output};
pub use payload::{HookAction, HookQuestion, translate};
pub use settings::{Installation, SettingsError, install, installed_file, remove};

/// An agent with hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookAgent {
    /// Claude Code.
    Claude,
    /// Qwen Code.
    Qwen,
    /// GitHub Copilot CLI.
    Copilot,
    /// Codex CLI.
    Codex,
    /// opencode.
    Opencode,
    /// Gemini CLI, whose hooks cannot allow anything.
    Gemini,
}

/// The error for text that is not the name of an agent with hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAgentError;

impl fmt::Display for UnknownAgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be one of claude, qwen, copilot, codex, opencode, gemini")
    }
}

impl std::error::Error for UnknownAgentError {}

impl FromStr for HookAgent {
    type Err = UnknownAgentError;

    fn from_str(text: &str) -> Result<HookAgent, UnknownAgentError> {
        HookAgent::ALL.into_iter().find(|agent| agent.as_str() == text).ok_or(UnknownAgentError)
    }
}

impl HookAgent {
    /// All agents.
    pub const ALL: [HookAgent; 6] = [
        HookAgent::Claude,
        HookAgent::Qwen,
        HookAgent::Copilot,
        HookAgent::Codex,
        HookAgent::Opencode,
        HookAgent::Gemini,
    ];

    /// Returns the name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            HookAgent::Claude => "claude",
            HookAgent::Qwen => "qwen",
            HookAgent::Copilot => "copilot",
            HookAgent::Codex => "codex",
            HookAgent::Opencode => "opencode",
            HookAgent::Gemini => "gemini",
        }
    }

    /// Returns the name for people.
    pub fn title(self) -> &'static str {
        match self {
            HookAgent::Claude => "Claude Code",
            HookAgent::Qwen => "Qwen Code",
            HookAgent::Copilot => "GitHub Copilot",
            HookAgent::Codex => "Codex",
            HookAgent::Opencode => "opencode",
            HookAgent::Gemini => "Gemini",
        }
    }

    /// Whether a hook can decide about a permission. If not, the user answers in the terminal.
    pub fn can_decide(self) -> bool {
        self != HookAgent::Gemini
    }

    /// Whether the agent shows its own question only after the hook has ended. Then the user is offered to answer there.
    pub fn hides_its_prompt(self) -> bool {
        matches!(self, HookAgent::Qwen | HookAgent::Copilot | HookAgent::Codex)
    }
}
